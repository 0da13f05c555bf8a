/* The methods that go to a server: tools/call, mcp/request, mcp/notify. */
#include "ipc/control_internal.h"

#include <stdlib.h>
#include <string.h>

#include "ipc/failure.h"
#include "proto/json_iter.h"

static void on_done(void *arg, const struct call_info *info, const struct transport_reply *reply)
{
	struct request *r = arg;
	if (reply->code == 0) {
		request_result(r, reply->result);
		return;
	}
	struct failure_context context = { info->server, info->server_name, info->queue_position };
	failure_answer(r, &context, reply);
}

static void on_progress(void *arg, struct span params)
{
	struct request *r = arg;
	struct buf *line = &request_ipc(r)->line;
	buf_reset(line);
	jsonrpc_write_notification(line, JSONRPC_METHOD("notifications/progress"), params);
	session_send_event(request_session(r), line);
}

static void on_cancel(struct request *r, uint64_t row, const char *reason)
{
	router_cancel(request_ipc(r)->options.router, row, reason);
}

/* Whether the token may be one (a string or a number); else the request is answered. */
static bool token_is_good(struct request *r, struct span token)
{
	enum json_kind kind = json_type_of(token);
	if (kind == JSON_ABSENT || kind == JSON_STRING || kind == JSON_NUMBER)
		return true;
	request_error(r, MCPD_E_INVALID_PARAMS, "`progressToken` must be a string or a number", SPAN_NONE);
	return false;
}

static void start(struct request *r, struct call_options *options)
{
	struct ipc *ipc = request_ipc(r);
	options->client = session_id(request_session(r));
	options->done = on_done;
	options->progress = on_progress;
	options->arg = r;
	uint64_t row = router_request(ipc->options.router, options);
	if (!row)
		request_error(r, MCPD_E_INTERNAL, "out of memory", SPAN_NONE);
	else
		request_pend(r, on_cancel, NULL, row);
}

/* The server for a call, or NULL and the request is answered. */
static struct server *find_callable(struct request *r, const struct jsonrpc_message *m)
{
	struct server *server = control_find_server(r, m->param[PARAM_SERVER]);
	if (!server || !request_ipc(r)->calls_stopped)
		return server;
	struct failure_context context = { server_id(server), server_name(server), 0 };
	failure_answer_unavailable(r, &context, "the daemon is shutting down");
	return NULL;
}

void control_tools_call(struct request *r, const struct jsonrpc_message *m)
{
	struct server *server = find_callable(r, m);
	if (!server || !token_is_good(r, m->param[PARAM_META_PROGRESS_TOKEN]))
		return;
	struct buf *params = &request_ipc(r)->params;
	buf_reset(params);
	buf_add_text(params, "{\"name\":");
	buf_add_span(params, m->param[PARAM_NAME]);
	if (m->param[PARAM_ARGUMENTS].ptr) {
		buf_add_text(params, ",\"arguments\":");
		buf_add_span(params, m->param[PARAM_ARGUMENTS]);
	}
	if (m->param[PARAM_META].ptr) {
		buf_add_text(params, ",\"_meta\":");
		buf_add_span(params, m->param[PARAM_META]);
	}
	buf_add_char(params, '}');
	if (buf_failed(params)) {
		request_error(r, MCPD_E_INTERNAL, "out of memory", SPAN_NONE);
	} else {
		start(r, &(struct call_options){
				 .server = server,
				 .method = JSONRPC_METHOD("tools/call"),
				 .params = buf_span(params),
				 .name = m->param[PARAM_NAME],
				 .timeout_ms = control_integer(m->param[PARAM_TIMEOUT_MS], -1),
				 .token = m->param[PARAM_META_PROGRESS_TOKEN],
			 });
	}
	if (params->cap > IPC_LINE_KEEP)
		buf_done(params);
}

/* Methods that are the daemon's to send. Ends with '/': all below it. */
static bool is_the_daemons(struct span method, const char *const *refused)
{
	char *name = json_string_dup(method);
	bool found = false;
	for (; name && *refused && !found; refused++) {
		size_t len = strlen(*refused);
		bool below = (*refused)[len - 1] == '/';
		found = below ? strncmp(name, *refused, len) == 0 : strcmp(name, *refused) == 0;
	}
	free(name);
	return found;
}

/* Whether the method is the client's to send, and its `_meta` an object; else the request is answered. */
static bool relayable(struct request *r, const struct jsonrpc_message *m, const char *const *refused)
{
	struct span meta = json_member(m->param[PARAM_PARAMS], "_meta");
	if (is_the_daemons(m->param[PARAM_METHOD], refused))
		request_error(r, MCPD_E_INVALID_PARAMS, "this method is the daemon's own to send", SPAN_NONE);
	else if (meta.ptr && json_type_of(meta) != JSON_OBJECT)
		request_error(r, MCPD_E_INVALID_PARAMS, "`_meta` in `params` must be an object", SPAN_NONE);
	else
		return true;
	return false;
}

void control_mcp_request(struct request *r, const struct jsonrpc_message *m)
{
	static const char *const refused[] = { "initialize", "subscriptions/", NULL };
	struct span method = m->param[PARAM_METHOD];
	struct span token = m->param[PARAM_PARAMS_META_PROGRESS_TOKEN];
	if (!relayable(r, m, refused) || !token_is_good(r, token))
		return;
	struct server *server = find_callable(r, m);
	if (!server || (router_would_subscribe(method) && control_too_many_subscriptions(r, 1)))
		return;
	start(r, &(struct call_options){
			 .server = server,
			 .method = method,
			 .params = m->param[PARAM_PARAMS],
			 .name = json_member(m->param[PARAM_PARAMS], "name"),
			 .timeout_ms = control_integer(m->param[PARAM_TIMEOUT_MS], -1),
			 .token = token,
		 });
}

void control_mcp_notify(struct request *r, const struct jsonrpc_message *m)
{
	static const char *const refused[] = { "notifications/initialized", "notifications/cancelled", NULL };
	if (!relayable(r, m, refused))
		return;
	struct server *server = find_callable(r, m);
	if (!server)
		return;
	if (server_notify(server, session_id(request_session(r)), m->param[PARAM_METHOD], m->param[PARAM_PARAMS]) ==
	    0) {
		request_result(r, SPAN_LIT("{}"));
		return;
	}
	struct failure_context context = { server_id(server), server_name(server), 0 };
	failure_answer(r, &context,
		       &(struct transport_reply){ .code = MCPD_E_TRANSPORT, .message = "Transport not connected" });
}
