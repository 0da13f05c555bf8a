/* The methods about servers: list, get, logs, and those that change their state. */
#include "ipc/control_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/failure.h"
#include "ipc/server_json.h"
#include "proto/json_iter.h"
#include "transport/usage.h"
#include "xalloc.h"

#define LOG_LINES_DEFAULT 100

void control_servers_list(struct request *r, const struct jsonrpc_message *m)
{
	(void)m;
	struct ipc *ipc = request_ipc(r);
	struct manager *manager = ipc->options.manager;
	struct buf result = BUF_INIT;
	struct usage_table *usage = usage_take();
	buf_add_text(&result, "{\"servers\":[");
	for (size_t i = 0; i < manager_count(manager); i++) {
		buf_add_text(&result, i ? "," : "");
		server_json_write(&result, ipc, manager_at(manager, i), usage, false);
	}
	usage_free(usage);
	buf_add_text(&result, "]}");
	request_result_buf(r, &result);
}

static void answer_with_server(struct request *r, struct server *server, bool details)
{
	struct buf result = BUF_INIT;
	struct usage_table *usage = usage_take();
	server_json_write(&result, request_ipc(r), server, usage, details);
	usage_free(usage);
	request_result_buf(r, &result);
}

void control_servers_get(struct request *r, const struct jsonrpc_message *m)
{
	struct server *server = control_find_server(r, m->param[PARAM_SERVER]);
	if (server)
		answer_with_server(r, server, true);
}

/* --- connect, disconnect, reconnect --- */

/* An order outlives its request where that is cancelled, or its client goes. */
struct order {
	struct ipc *ipc;
	uint64_t session, request;
	char *name;
};

static void on_ordered(void *arg, struct server *server, const struct transport_reply *failure)
{
	struct order order = *(struct order *)arg;
	free(arg);
	struct request *r = control_find_request(order.ipc, order.session, order.request);
	if (!r) {
		free(order.name);
		return;
	}
	/* Only these two say something that a program acts upon in another way. */
	bool own_code = failure && (failure->code == MCPD_E_TIMEOUT || failure->code == MCPD_E_NEEDS_AUTH);
	struct failure_context context = { server ? server_id(server) : 0, order.name, 0 };
	if (own_code)
		failure_answer(r, &context, failure);
	else if (failure || !server)
		failure_answer_unavailable(r, &context, failure ? failure->message : "the server was removed");
	else
		answer_with_server(r, server, false);
	free(order.name);
}

static void give_order(struct request *r, const struct jsonrpc_message *m, enum server_order what)
{
	struct server *server = control_find_server(r, m->param[PARAM_SERVER]);
	if (!server)
		return;
	struct order *order = xnew(struct order);
	order->ipc = request_ipc(r);
	order->session = session_id(request_session(r));
	order->request = request_number(r);
	order->name = xstrdup(server_name(server));
	server_order(server, what, control_integer(m->param[PARAM_TIMEOUT_MS], -1), on_ordered, order);
}

void control_servers_connect(struct request *r, const struct jsonrpc_message *m)
{
	give_order(r, m, SERVER_ORDER_CONNECT);
}

void control_servers_disconnect(struct request *r, const struct jsonrpc_message *m)
{
	give_order(r, m, SERVER_ORDER_DISCONNECT);
}

void control_servers_reconnect(struct request *r, const struct jsonrpc_message *m)
{
	give_order(r, m, SERVER_ORDER_RECONNECT);
}

void control_servers_release(struct request *r, const struct jsonrpc_message *m)
{
	struct server *server = control_find_server(r, m->param[PARAM_SERVER]);
	if (!server)
		return;
	struct ipc *ipc = request_ipc(r);
	struct server_info info;
	server_get_info(server, &info);
	if (info.config->sharing != CONFIG_EXCLUSIVE)
		request_error(r, MCPD_E_INVALID_PARAMS, "this server is not `exclusive`: there is nothing to release",
			      SPAN_NONE);
	else if (router_release(ipc->options.router, session_id(request_session(r)), server) < 0)
		request_error(r, MCPD_E_INVALID_PARAMS, "this client does not hold the server", SPAN_NONE);
	else
		request_result(r, SPAN_LIT("{}"));
}

/* --- logs --- */

static void add_log_line(void *arg, const char *at, struct span text)
{
	struct buf *out = arg;
	buf_addf(out, "%s{\"at\":\"%s\",\"text\":", out->data[out->len - 1] == '[' ? "" : ",", at);
	buf_add_json_string(out, text);
	buf_add_char(out, '}');
}

void control_servers_logs(struct request *r, const struct jsonrpc_message *m)
{
	struct server *server = control_find_server(r, m->param[PARAM_SERVER]);
	if (!server)
		return;
	int64_t lines = control_integer(json_member(m->params, "lines"), LOG_LINES_DEFAULT);
	int64_t kept = ipc_limits(request_ipc(r))->value[LIMIT_LOG_LINES];
	struct buf result = BUF_INIT;
	buf_add_text(&result, "{\"lines\":[");
	if (!buf_failed(&result))
		server_walk_log(server, (unsigned)(lines < kept ? lines : kept), add_log_line, &result);
	buf_add_text(&result, "]}");
	request_result_buf(r, &result);
}
