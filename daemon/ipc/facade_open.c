/*
 * How a client finds out what it is attached to: initialize, server/discover, ping.
 *
 * What one server is like is told from what is known of it, now or from its last life, so that the answer does not wait
 * for the server. One that was never seen is connected to first. The aggregate needs nobody: it is what mcpd can do.
 */
#include "ipc/facade_internal.h"

#include <inttypes.h>
#include <stdlib.h>

#include "proto/json_edit.h"
#include "proto/json_iter.h"
#include "xalloc.h"

/* What the aggregate can do, whichever servers there are: they come and go. */
#define AGGREGATE_CAPABILITIES                                                                                         \
	"{\"tools\":{\"listChanged\":true},\"prompts\":{\"listChanged\":true},"                                        \
	"\"resources\":{\"subscribe\":true,\"listChanged\":true},\"logging\":{},\"completions\":{}%s}"
#define AGGREGATE_TASKS ",\"tasks\":{\"cancel\":{},\"requests\":{\"tools\":{\"call\":{}}}}"

/* --- the aggregate --- */

/* The instructions of all servers that are known, each under its server's name, as one text. */
static void add_joined_instructions(struct buf *out, const struct view *view)
{
	struct buf text = BUF_INIT;
	struct server *server;
	for (size_t at = 0; (server = view_next(view, &at));) {
		struct server_info info;
		server_get_info(server, &info);
		if (!info.known_facts || !info.known_facts->instructions.len)
			continue;
		buf_addf(&text, "%s# %s\n\n", text.len ? "\n\n" : "", server_name(server));
		json_string_decode(info.known_facts->instructions, &text);
	}
	if (text.len) {
		buf_add_text(out, ",\"instructions\":");
		buf_add_json_string(out, buf_span(&text));
	}
	buf_done(&text);
}

/* Whether a server that is known makes tasks of tool calls, in the way of legacy clients. */
static bool any_has_tasks(const struct view *view)
{
	struct server *server;
	for (size_t at = 0; (server = view_next(view, &at));) {
		struct server_info info;
		server_get_info(server, &info);
		if (info.known_facts && info.known_facts->era == MCP_ERA_LEGACY &&
		    json_path(info.known_facts->capabilities, "tasks", "requests", "tools", "call", NULL).ptr)
			return true;
	}
	return false;
}

/* --- the answers --- */

/* What the client is told of whom it talks to. */
struct introduction {
	struct span capabilities, server_info;
	struct buf capabilities_text, server_info_text;
};

/* The tasks of legacy servers (a call with a `task`) are nothing that a modern client could ask for: its own are an
 * extension (SEP-2663), which has no such capability. */
static void introduce_capabilities(struct introduction *in, const struct view *view, bool modern,
				   const struct mcp_server_facts *facts)
{
	struct json_edit no_tasks = { "tasks", JSON_EDIT_DROP, SPAN_NONE };
	if (!facts)
		buf_addf(&in->capabilities_text, AGGREGATE_CAPABILITIES,
			 !modern && any_has_tasks(view) ? AGGREGATE_TASKS : "");
	else if (!facts->capabilities.ptr || json_edit(&in->capabilities_text, facts->capabilities, &no_tasks, modern))
		buf_add_text(&in->capabilities_text, "{}");
	in->capabilities = buf_span(&in->capabilities_text);
}

static void introduce(struct introduction *in, const struct facade *f, struct ipc *ipc, bool modern,
		      const struct mcp_server_facts *facts)
{
	struct view view = facade_view(f);
	*in = (struct introduction){ 0 };
	introduce_capabilities(in, &view, modern, facts);
	if (facts && facts->server_info.ptr) {
		in->server_info = facts->server_info;
	} else {
		buf_add_text(&in->server_info_text, "{\"name\":");
		buf_add_json_text(&in->server_info_text, f->only ? f->only : "mcpd");
		buf_add_text(&in->server_info_text, ",\"version\":");
		buf_add_json_text(&in->server_info_text, ipc->options.version);
		buf_add_char(&in->server_info_text, '}');
		in->server_info = buf_span(&in->server_info_text);
	}
}

static void introduction_done(struct introduction *in)
{
	buf_done(&in->capabilities_text);
	buf_done(&in->server_info_text);
}

static void add_instructions(struct buf *out, const struct facade *f, const struct mcp_server_facts *facts)
{
	struct view view = facade_view(f);
	if (!facts) {
		add_joined_instructions(out, &view);
	} else if (facts->instructions.ptr) {
		buf_add_text(out, ",\"instructions\":");
		buf_add_span(out, facts->instructions);
	}
}

/* facts: of the one server; NULL: the aggregate. */
static void answer(struct request *r, bool modern, const struct mcp_server_facts *facts)
{
	struct facade *f = facade_of(request_session(r));
	struct ipc *ipc = request_ipc(r);
	struct view view = facade_view(f);
	struct introduction in;
	struct buf result = BUF_INIT;
	introduce(&in, f, ipc, modern, facts);
	if (modern) {
		buf_add_text(&result, "{\"resultType\":\"complete\",\"supportedVersions\":");
		era_write_modern_versions(&result);
	} else {
		buf_addf(&result, "{\"protocolVersion\":\"%s\"", f->version);
	}
	buf_add_text(&result, ",\"capabilities\":");
	buf_add_span(&result, in.capabilities);
	if (modern) {
		buf_add_text(&result,
			     ",\"ttlMs\":0,\"cacheScope\":\"private\",\"_meta\":{\"" META_KEY("serverInfo") "\":");
		buf_add_span(&result, in.server_info);
		buf_add_char(&result, '}');
	} else {
		buf_add_text(&result, ",\"serverInfo\":");
		buf_add_span(&result, in.server_info);
	}
	add_instructions(&result, f, facts);
	buf_add_char(&result, '}');
	introduction_done(&in);
	view_find_revision(&view, SERVER_TOOLS, &f->seen[SERVER_TOOLS]);
	request_result_buf(r, &result);
}

/* --- a server that is not known yet --- */

struct opening {
	struct ipc *ipc;
	uint64_t session, request;
	bool modern;
};

static void on_connected(void *arg, struct server *server, const struct transport_reply *failure)
{
	struct opening opening = *(struct opening *)arg;
	struct request *r = facade_find_request(opening.ipc, opening.session, opening.request);
	struct server_info info;
	free(arg);
	if (!r)
		return;
	if (server)
		server_get_info(server, &info);
	if (server && info.known_facts) {
		answer(r, opening.modern, info.known_facts);
		return;
	}
	if (!opening.modern)
		facade_of(request_session(r))->version = NULL; /* it may try again */
	if (!server)
		facade_find_server(r); /* which says that it is gone */
	else if (failure)
		facade_answer_failure(r, server_id(server), server_name(server), 0, failure);
	else
		facade_fail(r, MCPD_E_UNAVAILABLE, "nothing is known of the server", SPAN_NONE);
}

static void open_view(struct request *r, bool modern)
{
	struct facade *f = facade_of(request_session(r));
	struct server *server = f->only ? facade_find_server(r) : NULL;
	struct server_info info;
	if (!f->only) {
		answer(r, modern, NULL);
		return;
	}
	if (!server)
		return;
	server_get_info(server, &info);
	if (info.known_facts) {
		answer(r, modern, info.known_facts);
		return;
	}
	struct opening *opening = xnew(struct opening);
	*opening = (struct opening){ request_ipc(r), session_id(request_session(r)), request_number(r), modern };
	request_pend(r, facade_on_cancel_silently, NULL, 0);
	server_order(server, SERVER_ORDER_CONNECT, -1, on_connected, opening);
}

void facade_initialize(struct request *r, const struct facade_message *fm)
{
	struct facade *f = fm->facade;
	struct span params = fm->m->params;
	struct span version = json_member(params, "protocolVersion");
	struct span capabilities = json_member(params, "capabilities");
	if (f->version) {
		request_error(r, MCPD_E_INVALID_REQUEST, "this connection has had its handshake", SPAN_NONE);
		return;
	}
	if (json_type_of(version) != JSON_STRING) {
		request_error(r, MCPD_E_INVALID_PARAMS, "`protocolVersion` must be a string", SPAN_NONE);
		return;
	}
	if (json_type_of(capabilities) != JSON_OBJECT)
		capabilities = SPAN_LIT("{}");
	if (facade_describe(f, json_member(params, "clientInfo"), capabilities) < 0) {
		request_error(r, MCPD_E_INTERNAL, "out of memory", SPAN_NONE);
		return;
	}
	f->version = era_legacy_version(version);
	if (!f->version)
		f->version = MCP_LEGACY_OFFER;
	open_view(r, false);
}

void facade_discover(struct request *r, const struct facade_message *fm)
{
	open_view(r, fm->modern);
}

void facade_ping(struct request *r, const struct facade_message *fm)
{
	(void)fm;
	request_result(r, SPAN_LIT("{}"));
}
