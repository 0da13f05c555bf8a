/* Requests that go to a server, and what comes back, in the words of the client's era. */
#include "ipc/facade_internal.h"

#include <stdlib.h>
#include <string.h>

#include "ipc/failure.h"
#include "proto/json_edit.h"
#include "proto/json_iter.h"
#include "xalloc.h"

/* What servers of the two eras say of a resource that is not there. */
#define LEGACY_E_RESOURCE_NOT_FOUND (-32002)
#define LEGACY_E_URL_ELICITATION (-32042)

void facade_free_call(struct facade_call *call)
{
	*call->at = call->next;
	if (call->next)
		call->next->at = call->at;
	parked_free(call);
	free(call->method);
	free(call);
}

void facade_calls_done(struct facade *f)
{
	while (f->calls)
		facade_free_call(f->calls);
}

/* --- results --- */

/* What the protocol of the client's era wants in a result that has come from another. */
static size_t shape_edits(struct json_edit edits[static 3], enum facade_shape shape, struct span result)
{
	struct span type = json_member(result, "resultType");
	size_t n = 0;
	if (!type.ptr)
		edits[n++] = (struct json_edit){ "resultType", JSON_EDIT_DEFAULT, SPAN_LIT("\"complete\"") };
	if (shape != SHAPE_CACHEABLE || (type.ptr && !json_string_is(type, "complete")))
		return n;
	if (!json_member(result, "ttlMs").ptr)
		edits[n++] = (struct json_edit){ "ttlMs", JSON_EDIT_DEFAULT, SPAN_LIT("0") };
	if (!json_member(result, "cacheScope").ptr)
		edits[n++] = (struct json_edit){ "cacheScope", JSON_EDIT_DEFAULT, SPAN_LIT("\"private\"") };
	return n;
}

void facade_answer_result(struct request *r, bool modern, enum facade_shape shape, struct span result)
{
	struct json_edit edits[3];
	size_t n = modern && json_type_of(result) == JSON_OBJECT ? shape_edits(edits, shape, result) : 0;
	if (n == 0) {
		request_result(r, result);
		return;
	}
	struct buf shaped = BUF_INIT;
	json_edit(&shaped, result, edits, n);
	request_result_buf(r, &shaped);
}

/* --- errors --- */

/* Codes that mean the same wherever they are said. */
static bool is_plain_code(int code)
{
	return code == MCPD_E_INVALID_PARAMS || code == MCPD_E_METHOD_NOT_FOUND || code == MCPD_E_INVALID_REQUEST;
}

void facade_answer_failure(struct request *r, uint64_t server, const char *server_name, unsigned queue_position,
			   const struct transport_reply *reply)
{
	struct failure_context context = { server, server_name, queue_position };
	struct buf data = BUF_INIT;
	if (is_plain_code(reply->code)) {
		request_error(r, reply->code, reply->message, SPAN_NONE);
		return;
	}
	failure_write_data(&data, request_ipc(r), &context, reply, request_cancel_reason(r));
	facade_fail(r, reply->code, reply->message, buf_failed(&data) ? SPAN_NONE : buf_span(&data));
	buf_done(&data);
}

/* The server's own error, with a legacy server's meaning in the words of a modern client. */
static void answer_server_error(struct request *r, const struct facade_call *call, struct span error)
{
	int64_t code = 0;
	json_int64(json_member(error, "code"), &code);
	if (call->modern && code == LEGACY_E_URL_ELICITATION && facade_park_url_error(r, error))
		return;
	struct json_edit edit = { "code", JSON_EDIT_REPLACE, SPAN_LIT("-32602") };
	struct buf edited = BUF_INIT;
	bool translate = call->modern && code == LEGACY_E_RESOURCE_NOT_FOUND && call->shape == SHAPE_CACHEABLE;
	if (translate && json_edit(&edited, error, &edit, 1) == 0)
		request_error_object(r, buf_span(&edited));
	else
		request_error_object(r, error.ptr ? error : SPAN_LIT("{\"code\":-32603,\"message\":\"Error\"}"));
	buf_done(&edited);
}

static void answer(struct facade_call *call, const struct call_info *info, const struct transport_reply *reply)
{
	struct request *r = call->request;
	if (reply->code == 0)
		facade_answer_result(r, call->modern, call->shape, reply->result);
	else if (reply->code == MCPD_E_SERVER && reply->error.ptr)
		answer_server_error(r, call, reply->error);
	else
		facade_answer_failure(r, info->server, info->server_name, info->queue_position, reply);
}

/* The answer to a call that nobody waits for just now is kept, where the client may still ask for it. */
static bool keep(struct facade_call *call, const struct call_info *info, const struct transport_reply *reply)
{
	if (reply->code == 0)
		return facade_park_keep(call, false, reply->result);
	if (reply->code == MCPD_E_SERVER && reply->error.ptr)
		return facade_park_keep(call, true, reply->error);
	struct failure_context context = { info->server, info->server_name, info->queue_position };
	struct buf error = BUF_INIT;
	buf_addf(&error, "{\"code\":%d,\"message\":", MCPD_E_INTERNAL);
	buf_add_json_text(&error, reply->message);
	buf_addf(&error, ",\"data\":{\"mcpd\":{\"code\":%d,", reply->code);
	failure_write_data(&error, session_ipc(call->session), &context, reply, NULL);
	buf_add_text(&error, "}}}");
	bool kept = !buf_failed(&error) && facade_park_keep(call, true, buf_span(&error));
	buf_done(&error);
	return kept;
}

static void on_done(void *arg, const struct call_info *info, const struct transport_reply *reply)
{
	struct facade_call *call = arg;
	call->row = 0;
	if (call->request)
		answer(call, info, reply);
	else if (call->parked && keep(call, info, reply))
		return;
	facade_free_call(call);
}

static void on_progress(void *arg, struct span params)
{
	struct facade_call *call = arg;
	if (!call->request)
		return;
	struct buf *line = &session_ipc(call->session)->line;
	buf_reset(line);
	jsonrpc_write_notification(line, JSONRPC_METHOD("notifications/progress"), params);
	session_send_event(call->session, line);
}

/* --- requests --- */

/* Cancelled by the client: it gets no answer, the server is told. */
static void on_cancel(struct request *r, uint64_t arg, const char *reason)
{
	struct facade_call *call = (struct facade_call *)(uintptr_t)arg;
	struct router *router = request_ipc(r)->options.router;
	uint64_t row = call->row;
	router_cancel(router, row, reason);
	request_drop(r);
}

static void on_gone(uint64_t arg)
{
	((struct facade_call *)(uintptr_t)arg)->request = NULL;
}

void facade_attach_request(struct facade_call *call, struct request *r)
{
	call->request = r;
	request_pend(r, on_cancel, on_gone, (uint64_t)(uintptr_t)call);
}

/* Answers the request if the server cannot be asked now, for reasons of the daemon's. */
static bool refuse(struct request *r, const struct facade_message *fm, const struct server *server)
{
	struct ipc *ipc = request_ipc(r);
	size_t subscriptions = router_subscriptions(ipc->options.router, session_id(fm->session));
	if (ipc->calls_stopped) {
		facade_fail(r, MCPD_E_UNAVAILABLE, "the daemon is shutting down", SPAN_NONE);
	} else if (router_would_subscribe(fm->m->method) &&
		   (int64_t)subscriptions >= ipc_limits(ipc)->value[LIMIT_SUBSCRIPTIONS]) {
		struct transport_reply reply = { .code = MCPD_E_LIMIT,
						 .limit = LIMIT_SUBSCRIPTIONS,
						 .message = "too many subscriptions; end some before making more" };
		ipc_limit_reached(ipc, LIMIT_SUBSCRIPTIONS);
		facade_answer_failure(r, server_id(server), server_name(server), 0, &reply);
	} else {
		return false;
	}
	return true;
}

static enum facade_shape shape_of(struct span method)
{
	return json_string_is(method, "resources/read") ? SHAPE_CACHEABLE : SHAPE_PLAIN;
}

static bool is_modern(struct server *server)
{
	struct server_info info;
	server_get_info(server, &info);
	return info.known_facts && info.known_facts->era == MCP_ERA_MODERN;
}

/* A legacy server knows nothing of what a modern client's request may have had for a modern one. */
static struct span without_input(const struct facade_message *fm, struct server *server, struct span params,
				 struct buf *scratch)
{
	static const struct json_edit edits[] = {
		{ "inputResponses", JSON_EDIT_DROP, { NULL, 0 } },
		{ "requestState", JSON_EDIT_DROP, { NULL, 0 } },
	};
	if (!fm->modern || is_modern(server) ||
	    (!json_member(params, "inputResponses").ptr && !json_member(params, "requestState").ptr))
		return params;
	json_edit(scratch, params, edits, sizeof edits / sizeof edits[0]);
	return buf_span(scratch);
}

static struct facade_call *new_call(struct request *r, const struct facade_message *fm, const struct server *server)
{
	struct facade *f = fm->facade;
	struct facade_call *call = xnew(struct facade_call);
	call->session = fm->session;
	call->server = server_id(server);
	call->shape = shape_of(fm->m->method);
	call->modern = fm->modern;
	call->method = fm->modern ? strndup(fm->m->method.ptr, fm->m->method.len) : NULL;
	call->next = f->calls;
	call->at = &f->calls;
	if (call->next)
		call->next->at = &call->next;
	f->calls = call;
	facade_attach_request(call, r);
	return call;
}

/* A modern client asks for log messages request by request. */
static struct span request_level(const struct jsonrpc_message *m)
{
	struct span level = json_path(m->params, "_meta", META_KEY("logLevel"), NULL);
	return router_is_log_level(level) ? level : SPAN_NONE;
}

void facade_forward(struct request *r, const struct facade_message *fm, struct server *server, struct span params)
{
	struct buf scratch = BUF_INIT;
	if (refuse(r, fm, server))
		return;
	facade_apply_level(fm->facade, server);
	params = without_input(fm, server, params, &scratch);
	struct facade_call *call = new_call(r, fm, server);
	struct call_options options = {
		.client = session_id(fm->session),
		.server = server,
		.method = fm->m->method,
		.params = params,
		.name = json_member(params, "name"),
		.timeout_ms = -1,
		.token = fm->m->param[PARAM_META_PROGRESS_TOKEN],
		.request_log_level = fm->modern ? request_level(fm->m) : SPAN_NONE,
		.relay_input_required = fm->modern,
		.done = on_done,
		.progress = on_progress,
		.arg = call,
	};
	call->row = buf_failed(&scratch) ? 0 : router_request(request_ipc(r)->options.router, &options);
	if (!call->row) {
		request_error(r, MCPD_E_INTERNAL, "out of memory", SPAN_NONE);
		facade_free_call(call);
	}
	buf_done(&scratch);
}
