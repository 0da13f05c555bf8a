#include "ipc/asking.h"
#include "ipc/control_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "proto/json_iter.h"
#include "xalloc.h"

static control_fn *const handlers[METHOD_COUNT] = {
	[METHOD_DAEMON_HELLO] = control_hello,
	[METHOD_DAEMON_STATUS] = control_status,
	[METHOD_DAEMON_RELOAD] = control_reload,
	[METHOD_DAEMON_METRICS] = control_metrics,
	[METHOD_DAEMON_SHUTDOWN] = control_shutdown,
	[METHOD_RPC_DISCOVER] = control_discover,
	[METHOD_SERVERS_LIST] = control_servers_list,
	[METHOD_SERVERS_GET] = control_servers_get,
	[METHOD_SERVERS_CONNECT] = control_servers_connect,
	[METHOD_SERVERS_DISCONNECT] = control_servers_disconnect,
	[METHOD_SERVERS_RECONNECT] = control_servers_reconnect,
	[METHOD_SERVERS_RELEASE] = control_servers_release,
	[METHOD_SERVERS_LOGS] = control_servers_logs,
	[METHOD_TOOLS_LIST] = control_tools_list,
	[METHOD_TOOLS_CALL] = control_tools_call,
	[METHOD_MCP_REQUEST] = control_mcp_request,
	[METHOD_MCP_NOTIFY] = control_mcp_notify,
	[METHOD_MCP_ATTACH] = control_attach,
	[METHOD_EVENTS_SUBSCRIBE] = control_subscribe,
	[METHOD_EVENTS_UNSUBSCRIBE] = control_unsubscribe,
};

struct control *control_new(void)
{
	return xnew(struct control);
}

/* An error that ends no request of ours: the id is the message's, or absent. */
static void refuse(struct session *s, struct span id, int code, const char *message, struct span data)
{
	struct buf *line = &session_ipc(s)->line;
	buf_reset(line);
	jsonrpc_write_error(line, id, code, message, data);
	session_send(s, line);
}

/* --- requests --- */

/* data of -32009 (PROTOCOL "Errors"). */
static void write_limit(struct buf *data, const struct ipc *ipc, enum mcpd_limit limit)
{
	ipc_limit_reached(ipc, limit);
	buf_addf(data, "{\"limit\":\"%s\",\"value\":%" PRId64 "}", limit_table[limit].key,
		 ipc_limits(ipc)->value[limit]);
}

void control_answer_limit(struct request *r, enum mcpd_limit limit, const char *message)
{
	struct buf data = BUF_INIT;
	write_limit(&data, request_ipc(r), limit);
	request_error_buf(r, MCPD_E_LIMIT, message, &data);
}

static void refuse_too_many(struct session *s, struct span id)
{
	struct buf data = BUF_INIT;
	write_limit(&data, session_ipc(s), LIMIT_REQUESTS_PER_CLIENT);
	refuse(s, id, MCPD_E_LIMIT, "too many requests in flight; wait for answers before sending more",
	       buf_span(&data));
	buf_done(&data);
}

static void refuse_unknown_method(struct session *s, const struct jsonrpc_message *m)
{
	struct buf message = BUF_INIT;
	buf_add_text(&message, "Method not found: ");
	if (m->method.len <= 256)
		json_string_decode(m->method, &message);
	refuse(s, m->id, MCPD_E_METHOD_NOT_FOUND, buf_failed(&message) ? NULL : message.data, SPAN_NONE);
	buf_done(&message);
}

/* True if the parameters are as the table says; else the request is answered. */
static bool params_are_good(struct session *s, enum control_method method, const struct jsonrpc_message *m)
{
	if (json_type_of(m->params) == JSON_ARRAY) {
		refuse(s, m->id, MCPD_E_INVALID_PARAMS, "`params` must be an object", SPAN_NONE);
		return false;
	}
	struct buf problem = BUF_INIT;
	int r = method_check_params(method, m, &problem);
	if (r < 0)
		refuse(s, m->id, MCPD_E_INVALID_PARAMS, buf_failed(&problem) ? NULL : problem.data, SPAN_NONE);
	buf_done(&problem);
	return r == 0;
}

/* The request, started; or NULL, and it is answered. */
static struct request *begin_request(struct session *s, enum control_method method, const struct jsonrpc_message *m)
{
	struct control *control = control_of(s);
	if (requests_find(&control->requests, m->id)) {
		refuse(s, m->id, MCPD_E_INVALID_REQUEST, "a request with this id is still in flight", SPAN_NONE);
		return NULL;
	}
	if ((int64_t)control->requests.count >= ipc_limits(session_ipc(s))->value[LIMIT_REQUESTS_PER_CLIENT]) {
		refuse_too_many(s, m->id);
		return NULL;
	}
	if (method == METHOD_COUNT) {
		refuse_unknown_method(s, m);
		return NULL;
	}
	if (!params_are_good(s, method, m))
		return NULL;
	struct request *r = request_new(s, &control->requests, m->id);
	if (!r)
		refuse(s, m->id, MCPD_E_INTERNAL, "out of memory", SPAN_NONE);
	return r;
}

static void on_request(struct session *s, const struct jsonrpc_message *m)
{
	enum control_method method = method_find(m->method);
	struct request *r = begin_request(s, method, m);
	if (r) {
		session_ipc(s)->requests[method]++;
		handlers[method](r, m);
	} else if (method == METHOD_MCP_ATTACH) {
		control_attach_refused(s);
	}
}

struct server *control_find_server(struct request *r, struct span name)
{
	struct manager *manager = request_ipc(r)->options.manager;
	struct buf decoded = BUF_INIT;
	json_string_decode(name, &decoded);
	struct server *server = buf_failed(&decoded) ? NULL : manager_find(manager, buf_span(&decoded));
	if (server) {
		buf_done(&decoded);
		return server;
	}
	struct buf message = BUF_INIT, data = BUF_INIT;
	buf_add_text(&message, "Unknown server: ");
	buf_add_span(&message, decoded.len <= 256 ? buf_span(&decoded) : SPAN_NONE);
	buf_add_text(&data, "{\"known\":[");
	for (size_t i = 0; i < manager_count(manager); i++) {
		buf_add_text(&data, i ? "," : "");
		buf_add_json_text(&data, server_name(manager_at(manager, i)));
	}
	buf_add_text(&data, "]}");
	request_error_buf(r, MCPD_E_UNKNOWN_SERVER, buf_failed(&message) ? NULL : message.data, &data);
	buf_done(&message);
	buf_done(&decoded);
	return NULL;
}

struct request *control_find_request(struct ipc *ipc, uint64_t session, uint64_t number)
{
	struct session *s = ipc_session(ipc, session);
	return s && session_dialect(s) == &control_dialect ? requests_find_number(&control_of(s)->requests, number) :
							     NULL;
}

int64_t control_integer(struct span value, int64_t otherwise)
{
	int64_t number;
	return value.ptr && json_int64(value, &number) == 0 ? number : otherwise;
}

bool control_too_many_subscriptions(struct request *r, size_t more)
{
	struct ipc *ipc = request_ipc(r);
	struct session *s = request_session(r);
	size_t has = control_of(s)->n_filters + router_subscriptions(ipc->options.router, session_id(s));
	if ((int64_t)(has + more) <= ipc_limits(ipc)->value[LIMIT_SUBSCRIPTIONS])
		return false;
	control_answer_limit(r, LIMIT_SUBSCRIPTIONS, "too many subscriptions; end some before making more");
	return true;
}

/* --- questions --- */

void control_ask(struct session *s, const struct client_question *q)
{
	struct buf name = BUF_INIT, params = BUF_INIT;
	buf_add_json_text(&name, server_name(q->server));
	struct jsonrpc_meta_edit edit = { "dev.mcpd/server", buf_span(&name) };
	int r = buf_failed(&name) ? -ENOMEM : jsonrpc_edit_meta(&params, q->params, &edit, 1);
	if (r < 0)
		router_answer(session_ipc(s)->options.router, q->client, q->id, SPAN_NONE,
			      SPAN_LIT("{\"code\":-32603,\"message\":\"out of memory\"}"));
	else
		asking_ask(s, q->id, q->method, buf_span(&params));
	buf_done(&params);
	buf_done(&name);
}

/* --- lines --- */

static void on_notification(struct session *s, const struct jsonrpc_message *m)
{
	if (!json_string_is(m->method, "notifications/cancelled"))
		return;
	struct span id = m->param[PARAM_REQUEST_ID];
	enum json_kind type = json_type_of(id);
	if (type != JSON_STRING && type != JSON_NUMBER)
		return;
	struct request *r = requests_find(&control_of(s)->requests, id);
	if (r)
		request_cancel(r, m->param[PARAM_REASON]);
}

static void refuse_no_json(struct session *s, const struct json_error *error)
{
	struct buf message = BUF_INIT;
	buf_addf(&message, "Parse error: %s at byte %zu", error->reason, error->offset);
	refuse(s, SPAN_NONE, MCPD_E_PARSE, buf_failed(&message) ? NULL : message.data, SPAN_NONE);
	buf_done(&message);
}

/* A bad answer is told without its id: that is one of our ids, and may be one of the client's too. */
static void on_invalid(struct session *s, struct jsonrpc_message *m)
{
	bool is_answer = !m->method.ptr && (m->result.ptr || m->error.ptr);
	refuse(s, is_answer ? SPAN_NONE : m->id, MCPD_E_INVALID_REQUEST, m->problem, SPAN_NONE);
	if (is_answer)
		asking_bad_answer(s, m);
}

static void on_too_deep(struct session *s, struct jsonrpc_message *m)
{
	bool is_answer = !m->method.ptr && (m->result.ptr || m->error.ptr);
	struct buf message = BUF_INIT, data = BUF_INIT;
	write_limit(&data, session_ipc(s), LIMIT_NESTING);
	buf_addf(&message, "the message is nested deeper than %s (%" PRId64 " levels)", limit_table[LIMIT_NESTING].key,
		 ipc_limits(session_ipc(s))->value[LIMIT_NESTING]);
	refuse(s, is_answer ? SPAN_NONE : m->id, MCPD_E_LIMIT, buf_failed(&message) ? NULL : message.data,
	       buf_span(&data));
	if (is_answer)
		asking_bad_answer(s, m);
	buf_done(&message);
	buf_done(&data);
}

static void on_line(struct session *s, struct span line)
{
	struct jsonrpc_message m;
	struct json_error error;
	int r = jsonrpc_parse_within(line, ipc_limits(session_ipc(s))->value[LIMIT_NESTING], &m, &error);
	if (r == -E2BIG) {
		on_too_deep(s, &m);
		return;
	}
	if (r < 0) {
		refuse_no_json(s, &error);
		return;
	}
	switch (m.kind) {
	case JSONRPC_REQUEST:
		on_request(s, &m);
		break;
	case JSONRPC_NOTIFICATION:
		on_notification(s, &m);
		break;
	case JSONRPC_RESULT:
	case JSONRPC_ERROR:
		asking_answer(s, &m);
		break;
	case JSONRPC_BATCH:
		refuse(s, SPAN_NONE, MCPD_E_INVALID_REQUEST, "batches are not taken: send one message per line",
		       SPAN_NONE);
		break;
	case JSONRPC_INVALID:
		on_invalid(s, &m);
		break;
	}
}

static void on_too_long(struct session *s)
{
	struct buf message = BUF_INIT;
	ipc_limit_reached(session_ipc(s), LIMIT_MESSAGE_BYTES);
	buf_addf(&message, "the line is longer than %s (%" PRId64 " bytes)", limit_table[LIMIT_MESSAGE_BYTES].key,
		 ipc_limits(session_ipc(s))->value[LIMIT_MESSAGE_BYTES]);
	refuse(s, SPAN_NONE, MCPD_E_INVALID_REQUEST, buf_failed(&message) ? NULL : message.data, SPAN_NONE);
	buf_done(&message);
}

static bool is_busy(const struct session *s)
{
	return control_of(s)->requests.count > 0;
}

static void on_room(struct session *s, uint64_t dropped)
{
	struct buf line = BUF_INIT;
	buf_addf(&line, "{\"jsonrpc\":\"2.0\",\"method\":\"events/dropped\",\"params\":{\"count\":%" PRIu64 "}}\n",
		 dropped);
	session_send(s, &line);
	buf_done(&line);
}

void control_free(struct control *control)
{
	requests_done(&control->requests);
	control_events_done(control);
	free(control);
}

static void on_end(struct session *s)
{
	control_free(control_of(s));
}

const struct dialect control_dialect = {
	.on_line = on_line,
	.on_too_long = on_too_long,
	.is_busy = is_busy,
	.on_room = on_room,
	.on_end = on_end,
};
