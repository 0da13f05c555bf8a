/* mcp/attach: the end of the control dialect, the beginning of the MCP dialect (PROTOCOL "Two dialects on one socket"). */
#include "ipc/control_internal.h"

#include <stdlib.h>

#include "ipc/facade.h"
#include "ipc/failure.h"
#include "proto/json_iter.h"

/* How long a client that was refused has to read why. */
#define REFUSED_WAIT_MS 2000

void control_attach_refused(struct session *s)
{
	session_finish(s, REFUSED_WAIT_MS);
}

/* False: the request is answered. */
static bool is_attachable(struct request *r, struct server *server)
{
	struct server_info info;
	struct failure_context context;
	if (control_of(request_session(r))->requests.count > 1) {
		request_error(r, MCPD_E_INVALID_REQUEST,
			      "requests of this connection are still in flight; attach when they are answered, or "
			      "on a connection of its own",
			      SPAN_NONE);
		return false;
	}
	if (!server)
		return true;
	server_get_info(server, &info);
	if (info.state != SERVER_DISABLED)
		return true;
	context = (struct failure_context){ server_id(server), server_name(server), 0 };
	failure_answer_unavailable(r, &context, "the server is disabled in the configuration");
	return false;
}

/* The answer is the last line of the control dialect. */
static void attach(struct request *r, struct server *server, struct span client)
{
	struct session *s = request_session(r);
	struct control *control = control_of(s);
	struct buf result = BUF_INIT;
	if (server) {
		buf_add_text(&result, "{\"server\":");
		buf_add_json_text(&result, server_name(server));
		buf_add_char(&result, '}');
	} else {
		buf_add_text(&result, "{\"aggregate\":true}");
	}
	bool failed = buf_failed(&result);
	request_result_buf(r, &result);
	if (failed) {
		control_attach_refused(s);
		return;
	}
	struct facade *facade = facade_new(s, server ? server_name(server) : NULL, client);
	control_free(control);
	session_set_dialect(s, &facade_dialect, facade);
}

void control_attach(struct request *r, const struct jsonrpc_message *m)
{
	struct ipc *ipc = request_ipc(r);
	struct session *s = request_session(r);
	struct span client = json_member(json_member(m->params, "client"), "name");
	struct server *server = NULL;
	if (m->param[PARAM_SERVER].ptr && !(server = control_find_server(r, m->param[PARAM_SERVER]))) {
		control_attach_refused(s);
		return;
	}
	if (!is_attachable(r, server)) {
		control_attach_refused(s);
		return;
	}
	client = json_type_of(client) == JSON_STRING ? client : SPAN_NONE;
	if (client.ptr)
		router_client_describe(ipc->options.router, session_id(s), client, SPAN_NONE);
	attach(r, server, client);
}
