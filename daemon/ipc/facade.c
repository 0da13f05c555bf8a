#include "ipc/facade_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/asking.h"
#include "ipc/failure.h"
#include "log.h"
#include "proto/json_edit.h"
#include "proto/json_iter.h"
#include "router/accounts.h"
#include "xalloc.h"

#define UNKNOWN_METHOD_MAX 256

/* In which eras a method is there. Methods of neither table row are the servers' own. */
enum method_eras { IN_LEGACY = 1, IN_MODERN = 2, IN_BOTH = 3 };

static const struct facade_method {
	const char *name;
	facade_fn *fn;
	enum method_eras eras;
} methods[] = {
	{ "initialize", facade_initialize, IN_LEGACY },
	{ "ping", facade_ping, IN_LEGACY },
	{ "server/discover", facade_discover, IN_MODERN },
	{ "tools/list", facade_list_tools, IN_BOTH },
	{ "prompts/list", facade_list_prompts, IN_BOTH },
	{ "resources/list", facade_list_resources, IN_BOTH },
	{ "resources/templates/list", facade_list_templates, IN_BOTH },
	{ "tools/call", facade_call_tool, IN_BOTH },
	{ "prompts/get", facade_get_prompt, IN_BOTH },
	{ "resources/read", facade_use_resource, IN_BOTH },
	{ "resources/subscribe", facade_use_resource, IN_LEGACY },
	{ "resources/unsubscribe", facade_use_resource, IN_LEGACY },
	{ "completion/complete", facade_complete, IN_BOTH },
	{ "logging/setLevel", facade_set_level, IN_LEGACY },
	{ "subscriptions/listen", facade_listen, IN_MODERN },
	{ "tasks/get", facade_use_task, IN_BOTH },
	{ "tasks/result", facade_use_task, IN_BOTH },
	{ "tasks/cancel", facade_use_task, IN_BOTH },
	{ "tasks/update", facade_use_task, IN_BOTH },
};

struct facade *facade_new(struct session *session, const char *server, struct span client)
{
	struct facade *f = xnew(struct facade);
	f->session = session;
	f->only = server ? xstrdup(server) : NULL;
	f->client = client.ptr ? xstrndup(client.ptr, client.len) : NULL;
	return f;
}

int facade_describe(struct facade *f, struct span client_info, struct span capabilities)
{
	struct span name = json_member(client_info, "name");
	return router_client_describe(session_ipc(f->session)->options.router, session_id(f->session),
				      json_type_of(name) == JSON_STRING ? name : span_of(f->client), capabilities);
}

struct view facade_view(const struct facade *f)
{
	struct ipc *ipc = session_ipc(f->session);
	return (struct view){ ipc->options.manager, f->only, (size_t)ipc_limits(ipc)->value[LIMIT_TOOL_NAME] };
}

void facade_on_cancel_silently(struct request *r, uint64_t arg, const char *reason)
{
	(void)arg;
	(void)reason;
	request_drop(r);
}

struct request *facade_find_request(struct ipc *ipc, uint64_t session, uint64_t number)
{
	struct session *s = ipc_session(ipc, session);
	return s && session_dialect(s) == &facade_dialect ? requests_find_number(&facade_of(s)->requests, number) :
							    NULL;
}

/* --- answers of the daemon's own --- */

/* A line that ends no request of ours goes to the client, or to the batch that it belongs to. */
static void send_line(const struct facade_message *fm, const struct buf *line)
{
	if (!fm->batch) {
		session_send(fm->session, line);
		return;
	}
	batch_enter(fm->batch);
	batch_leave(fm->batch, line);
}

static void refuse(const struct facade_message *fm, struct span id, int code, const char *message, struct span data)
{
	struct buf *line = &session_ipc(fm->session)->line;
	buf_reset(line);
	jsonrpc_write_error(line, id, code, message, data);
	send_line(fm, line);
}

void facade_fail(struct request *r, int code, const char *message, struct span data)
{
	struct buf out = BUF_INIT;
	buf_addf(&out, "{\"mcpd\":{\"code\":%d", code);
	if (data.len) {
		buf_add_char(&out, ',');
		buf_add_span(&out, data);
	}
	buf_add_text(&out, "}}");
	request_error_buf(r, MCPD_E_INTERNAL, message, &out);
}

static void refuse_for_limit(const struct facade_message *fm, enum mcpd_limit limit, const char *message)
{
	struct buf data = BUF_INIT;
	ipc_limit_reached(session_ipc(fm->session), limit);
	buf_addf(&data, "{\"mcpd\":{\"code\":%d,\"limit\":\"%s\",\"value\":%" PRId64 "}}", MCPD_E_LIMIT,
		 limit_table[limit].key, ipc_limits(session_ipc(fm->session))->value[limit]);
	refuse(fm, fm->m->id, MCPD_E_INTERNAL, message, buf_span(&data));
	buf_done(&data);
}

static void refuse_unknown_method(const struct facade_message *fm)
{
	struct buf message = BUF_INIT;
	buf_add_text(&message, "Method not found: ");
	if (fm->m->method.len <= UNKNOWN_METHOD_MAX)
		json_string_decode(fm->m->method, &message);
	refuse(fm, fm->m->id, MCPD_E_METHOD_NOT_FOUND, buf_failed(&message) ? NULL : message.data, SPAN_NONE);
	buf_done(&message);
}

struct server *facade_find_server(struct request *r)
{
	struct facade *f = facade_of(request_session(r));
	struct ipc *ipc = request_ipc(r);
	struct server *server = manager_find(ipc->options.manager, span_of(f->only));
	struct server_info info;
	char *message = NULL;
	if (server)
		server_get_info(server, &info);
	if (!server)
		message = xasprintf("Unknown server: %s; it is no longer in the configuration", f->only);
	else if (info.state == SERVER_DISABLED)
		message = xasprintf("Server \"%s\" is disabled in the configuration", f->only);
	if (!message)
		return server;
	facade_fail(r, server ? MCPD_E_UNAVAILABLE : MCPD_E_UNKNOWN_SERVER, message, SPAN_NONE);
	free(message);
	return NULL;
}

/* --- the client's era --- */

/* What the router is to know of a modern client, who says with each request who it is and what it can. */
static void describe(const struct facade_message *fm, struct span meta, struct span capabilities)
{
	struct facade *f = fm->facade;
	if (f->described && span_is(capabilities, f->described))
		return;
	char *text = strndup(capabilities.ptr, capabilities.len);
	if (!text || facade_describe(f, json_member(meta, META_KEY("clientInfo")), capabilities) < 0) {
		free(text);
		return;
	}
	free(f->described);
	f->described = text;
}

/* The same versions as server/discover tells: what a request's `_meta` can name. */
static void refuse_version(const struct facade_message *fm, struct span requested)
{
	struct buf data = BUF_INIT;
	buf_add_text(&data, "{\"supported\":");
	era_write_modern_versions(&data);
	buf_add_text(&data, ",\"requested\":");
	buf_add_span(&data, requested);
	buf_add_char(&data, '}');
	refuse(fm, fm->m->id, MCP_E_UNSUPPORTED_VERSION, "Unsupported protocol version", buf_span(&data));
	buf_done(&data);
}

/* A handshake is a legacy client's, whatever its `_meta` has. The method without what a handshake is made of, in a request
 * that is a modern one otherwise, is one that the modern era does not have. */
static bool is_handshake(const struct jsonrpc_message *m, struct span modern_version)
{
	return json_string_is(m->method, "initialize") &&
	       (!era_modern_version(modern_version) || json_member(m->params, "protocolVersion").ptr);
}

/* Whether the request is one of the client's era; else it is answered. Sets fm->modern. */
static bool era_is_good(struct facade_message *fm)
{
	struct span meta = json_member(fm->m->params, "_meta");
	struct span version = json_member(meta, META_KEY("protocolVersion"));
	struct span capabilities = json_member(meta, META_KEY("clientCapabilities"));
	fm->modern = version.ptr && !is_handshake(fm->m, version);
	if (!fm->modern) {
		bool opens = json_string_is(fm->m->method, "initialize") || json_string_is(fm->m->method, "ping");
		if (json_string_is(fm->m->method, "server/discover"))
			refuse(fm, fm->m->id, MCPD_E_INVALID_PARAMS,
			       "`_meta` must have \"" META_KEY("protocolVersion") "\"", SPAN_NONE);
		else if (!fm->facade->version && !opens)
			refuse(fm, fm->m->id, MCPD_E_INVALID_REQUEST,
			       "the first request must be initialize; requests of " MCP_MODERN_VERSION
			       " need \"" META_KEY("protocolVersion") "\" in their _meta",
			       SPAN_NONE);
		else
			return true;
		return false;
	}
	if (!era_modern_version(version)) {
		refuse_version(fm, version);
		return false;
	}
	if (json_type_of(capabilities) != JSON_OBJECT) {
		refuse(fm, fm->m->id, MCPD_E_INVALID_PARAMS,
		       "`_meta` must have \"" META_KEY("clientCapabilities") "\", an object", SPAN_NONE);
		return false;
	}
	if (!fm->facade->modern)
		router_client_set_modern(session_ipc(fm->session)->options.router, session_id(fm->session));
	fm->facade->modern = true;
	describe(fm, meta, capabilities);
	return true;
}

/* --- requests --- */

static bool params_are_good(const struct facade_message *fm)
{
	struct span params = fm->m->params, meta = json_member(params, "_meta");
	enum json_kind token = json_type_of(fm->m->param[PARAM_META_PROGRESS_TOKEN]);
	const char *problem = NULL;
	if (params.ptr && json_type_of(params) != JSON_OBJECT)
		problem = "`params` must be an object";
	else if (meta.ptr && json_type_of(meta) != JSON_OBJECT)
		problem = "`_meta` in `params` must be an object";
	else if (token != JSON_ABSENT && token != JSON_STRING && token != JSON_NUMBER)
		problem = "`progressToken` must be a string or a number";
	if (problem)
		refuse(fm, fm->m->id, MCPD_E_INVALID_PARAMS, problem, SPAN_NONE);
	return !problem;
}

/* What answers the method; NULL if there is no such method here. */
static facade_fn *find_handler(const struct facade_message *fm)
{
	for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
		if (json_string_is(fm->m->method, methods[i].name))
			return methods[i].eras & (fm->modern ? IN_MODERN : IN_LEGACY) ? methods[i].fn : NULL;
	return fm->facade->only ? facade_pass : NULL;
}

static size_t count_in_flight(const struct facade *f)
{
	size_t n = f->requests.count;
	for (const struct facade_call *call = f->calls; call; call = call->next)
		n += call->request == NULL;
	return n;
}

static void on_request(struct facade_message *fm)
{
	struct facade *f = fm->facade;
	if (requests_find(&f->requests, fm->m->id)) {
		refuse(fm, fm->m->id, MCPD_E_INVALID_REQUEST, "a request with this id is still in flight", SPAN_NONE);
		return;
	}
	if ((int64_t)count_in_flight(f) >= ipc_limits(session_ipc(fm->session))->value[LIMIT_REQUESTS_PER_CLIENT]) {
		refuse_for_limit(fm, LIMIT_REQUESTS_PER_CLIENT,
				 "too many requests in flight; wait for answers before sending more");
		return;
	}
	if (!params_are_good(fm) || !era_is_good(fm))
		return;
	facade_fn *handler = find_handler(fm);
	if (!handler) {
		refuse_unknown_method(fm);
		return;
	}
	struct request *r = request_new(fm->session, &f->requests, fm->m->id);
	if (!r) {
		refuse(fm, fm->m->id, MCPD_E_INTERNAL, "out of memory", SPAN_NONE);
		return;
	}
	if (fm->batch)
		request_join(r, fm->batch);
	accounts_request(router_accounts(session_ipc(fm->session)->options.router), fm->m->method);
	handler(r, fm);
}

/* --- notifications --- */

static void on_cancelled(const struct facade_message *fm)
{
	struct span id = fm->m->param[PARAM_REQUEST_ID];
	enum json_kind type = json_type_of(id);
	if (type != JSON_STRING && type != JSON_NUMBER)
		return;
	struct request *r = requests_find(&fm->facade->requests, id);
	if (r)
		request_cancel(r, fm->m->param[PARAM_REASON]);
}

/* What the client says to no request is for the one server that it sees, if that is its alone or has to know. */
static void pass_notification(const struct facade_message *fm)
{
	struct ipc *ipc = session_ipc(fm->session);
	struct server *server = fm->facade->only ? manager_find(ipc->options.manager, span_of(fm->facade->only)) : NULL;
	struct server_info info;
	if (!server || ipc->calls_stopped)
		return;
	server_get_info(server, &info);
	/* The roots of one client are nothing to a server that all share, and its progress is about no request. */
	bool of_one_client = json_string_is(fm->m->method, "notifications/roots/list_changed");
	if (json_string_is(fm->m->method, "notifications/progress") ||
	    (of_one_client && info.config->sharing == CONFIG_SHARED))
		return;
	server_notify(server, session_id(fm->session), fm->m->method, fm->m->params);
}

static void on_notification(const struct facade_message *fm)
{
	if (json_string_is(fm->m->method, "notifications/cancelled"))
		on_cancelled(fm);
	else if (json_string_is(fm->m->method, "notifications/initialized"))
		fm->facade->initialized = fm->facade->version != NULL;
	else if (!fm->m->params.ptr || json_type_of(fm->m->params) == JSON_OBJECT)
		pass_notification(fm);
}

/* --- lines --- */

static void on_invalid(const struct facade_message *fm, struct jsonrpc_message *m)
{
	bool is_answer = !m->method.ptr && (m->result.ptr || m->error.ptr);
	refuse(fm, is_answer ? SPAN_NONE : m->id, MCPD_E_INVALID_REQUEST, m->problem, SPAN_NONE);
	if (is_answer)
		asking_bad_answer(fm->session, m);
}

static void on_message(struct session *s, struct batch *batch, struct jsonrpc_message *m)
{
	struct facade_message fm = { .session = s, .facade = facade_of(s), .batch = batch, .m = m };
	switch (m->kind) {
	case JSONRPC_REQUEST:
		on_request(&fm);
		break;
	case JSONRPC_NOTIFICATION:
		on_notification(&fm);
		break;
	case JSONRPC_RESULT:
	case JSONRPC_ERROR:
		asking_answer(s, m);
		break;
	case JSONRPC_BATCH:
		refuse(&fm, SPAN_NONE, MCPD_E_INVALID_REQUEST, "a batch in a batch", SPAN_NONE);
		break;
	case JSONRPC_INVALID:
		on_invalid(&fm, m);
		break;
	}
}

/* Only 2025-03-26 has batches. */
static void on_batch(struct session *s, struct span text)
{
	struct facade_message fm = { .session = s, .facade = facade_of(s) };
	bool allowed = fm.facade->version && strcmp(fm.facade->version, "2025-03-26") == 0;
	struct json_iter it;
	struct span element;
	json_iter_init(&it, text);
	if (!allowed || !json_iter_element(&it, &element)) {
		refuse(&fm, SPAN_NONE, MCPD_E_INVALID_REQUEST,
		       allowed ? "an empty batch" : "batches are not taken: send one message per line", SPAN_NONE);
		return;
	}
	struct batch *batch = batch_new(s);
	do {
		struct jsonrpc_message m;
		struct json_error error;
		jsonrpc_parse(element, &m, &error);
		on_message(s, batch, &m);
	} while (json_iter_element(&it, &element));
	batch_leave(batch, NULL);
}

static void on_too_deep(struct facade_message *fm, struct jsonrpc_message *m)
{
	bool is_answer = !m->method.ptr && (m->result.ptr || m->error.ptr);
	struct span id = m->id;
	fm->m = m;
	m->id = is_answer ? SPAN_NONE : id;
	refuse_for_limit(fm, LIMIT_NESTING, "the message is nested deeper than maxNesting");
	m->id = id;
	if (is_answer)
		asking_bad_answer(fm->session, m);
}

static void on_line(struct session *s, struct span line)
{
	struct facade_message fm = { .session = s, .facade = facade_of(s) };
	struct jsonrpc_message m;
	struct json_error error;
	int r = jsonrpc_parse_within(line, ipc_limits(session_ipc(s))->value[LIMIT_NESTING], &m, &error);
	if (r == -E2BIG) {
		on_too_deep(&fm, &m);
	} else if (r < 0) {
		struct buf message = BUF_INIT;
		buf_addf(&message, "Parse error: %s at byte %zu", error.reason, error.offset);
		refuse(&fm, SPAN_NONE, MCPD_E_PARSE, buf_failed(&message) ? NULL : message.data, SPAN_NONE);
		buf_done(&message);
	} else if (m.kind == JSONRPC_BATCH) {
		on_batch(s, m.text);
	} else {
		on_message(s, NULL, &m);
	}
}

static void on_too_long(struct session *s)
{
	struct facade_message fm = { .session = s, .facade = facade_of(s) };
	struct buf message = BUF_INIT;
	ipc_limit_reached(session_ipc(s), LIMIT_MESSAGE_BYTES);
	buf_addf(&message, "the line is longer than %s (%" PRId64 " bytes)", limit_table[LIMIT_MESSAGE_BYTES].key,
		 ipc_limits(session_ipc(s))->value[LIMIT_MESSAGE_BYTES]);
	refuse(&fm, SPAN_NONE, MCPD_E_INVALID_REQUEST, buf_failed(&message) ? NULL : message.data, SPAN_NONE);
	buf_done(&message);
}

/* A subscription stream is never answered, and keeps nobody. */
static bool is_busy(const struct session *s)
{
	const struct facade *f = facade_of(s);
	return f->requests.count > f->n_listens;
}

static void on_room(struct session *s, uint64_t dropped)
{
	log_client(LOG_LEVEL_DEBUG, router_client_label(session_ipc(s)->options.router, session_id(s)),
		   "%" PRIu64 " notifications were dropped while it did not read", dropped);
}

static void on_end(struct session *s)
{
	struct facade *f = facade_of(s);
	requests_done(&f->requests);
	facade_calls_done(f);
	facade_listens_done(f);
	assert(!f->waits && !f->listens);
	timer_free(f->park_timer);
	free(f->levelled);
	free(f->level);
	free(f->described);
	free(f->client);
	free(f->only);
	free(f);
}

const struct dialect facade_dialect = {
	.on_line = on_line,
	.on_too_long = on_too_long,
	.is_busy = is_busy,
	.on_room = on_room,
	.on_end = on_end,
};
