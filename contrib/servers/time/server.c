#include "server.h"

#include <string.h>
#include <time.h>

#include "mcpd-version.h"
#include "proto/errors.h"
#include "proto/framer.h"
#include "proto/json_iter.h"
#include "proto/jsonrpc.h"
#include "tools.h"

#define MODERN_VERSION "2026-07-28"
#define ERROR_UNSUPPORTED_VERSION (-32022) /* MCP 2026-07-28 */
#define META_PREFIX "io.modelcontextprotocol/"
#define SERVER_INFO "{\"name\":\"mcpd-time-server\",\"title\":\"Time\",\"version\":\"" MCPD_VERSION "\"}"
#define CAPABILITIES "\"capabilities\":{\"tools\":{}}"
#define INSTRUCTIONS "\"instructions\":\"Tells and converts times; zones have IANA names such as Europe/Berlin.\""
/* The tools change with the program alone, and are the same for everybody. */
#define CACHEABLE "\"ttlMs\":3600000,\"cacheScope\":\"public\""

/* The last one is offered to clients that ask for a version unknown here. */
static const char *const legacy_versions[] = { "2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25" };
#define N_LEGACY (sizeof(legacy_versions) / sizeof(legacy_versions[0]))

struct request {
	struct time_server *server;
	const struct jsonrpc_message *message;
	struct buf *out;
	bool modern;
};

static void fail(const struct request *r, int code, const char *message)
{
	jsonrpc_write_error(r->out, r->message->id, code, message, SPAN_NONE);
}

/* An error that belongs to no request: MCP has no null ids, so it goes without one. */
static void fail_anonymous(struct buf *out, int code, const char *message)
{
	buf_addf(out, "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":%d,\"message\":", code);
	buf_add_json_text(out, message);
	buf_add_text(out, "}}\n");
}

/* Writes the result whose members are given, with what every modern result has. */
static void succeed(const struct request *r, struct span members)
{
	struct buf result = BUF_INIT;
	buf_add_char(&result, '{');
	if (r->modern)
		buf_add_text(&result,
			     "\"resultType\":\"complete\",\"_meta\":{\"" META_PREFIX "serverInfo\":" SERVER_INFO "}");
	if (r->modern && members.len > 0)
		buf_add_char(&result, ',');
	buf_add_span(&result, members);
	buf_add_char(&result, '}');
	if (buf_failed(&result))
		r->out->error = result.error;
	jsonrpc_write_result(r->out, r->message->id, buf_span(&result));
	buf_done(&result);
}

static void do_initialize(const struct request *r)
{
	struct span asked = json_member(r->message->params, "protocolVersion");
	if (json_type_of(asked) != JSON_STRING) {
		fail(r, MCPD_E_INVALID_PARAMS, "initialize needs the string params.protocolVersion");
		return;
	}
	if (json_type_of(json_member(r->message->params, "capabilities")) != JSON_OBJECT ||
	    json_type_of(json_member(r->message->params, "clientInfo")) != JSON_OBJECT) {
		fail(r, MCPD_E_INVALID_PARAMS,
		     "initialize needs the objects params.capabilities and params.clientInfo");
		return;
	}
	size_t i = 0;
	while (i < N_LEGACY - 1 && !json_string_is(asked, legacy_versions[i]))
		i++;
	r->server->initialized = true;
	r->server->batches = strcmp(legacy_versions[i], "2025-03-26") == 0;
	struct buf members = BUF_INIT;
	buf_addf(&members, "\"protocolVersion\":\"%s\"," CAPABILITIES ",\"serverInfo\":" SERVER_INFO "," INSTRUCTIONS,
		 legacy_versions[i]);
	succeed(r, buf_span(&members));
	buf_done(&members);
}

static void do_discover(const struct request *r)
{
	succeed(r, SPAN_LIT("\"supportedVersions\":[\"" MODERN_VERSION "\"]," CAPABILITIES "," INSTRUCTIONS
			    "," CACHEABLE));
}

static void do_ping(const struct request *r)
{
	succeed(r, SPAN_LIT(""));
}

static void do_tools_list(const struct request *r)
{
	if (json_type_of(json_member(r->message->params, "cursor")) != JSON_ABSENT) {
		fail(r, MCPD_E_INVALID_PARAMS, "Invalid cursor: the list has one page");
		return;
	}
	struct buf members = BUF_INIT;
	buf_add_text(&members, "\"tools\":[");
	for (size_t i = 0; i < TOOL_COUNT; i++) {
		if (i > 0)
			buf_add_char(&members, ',');
		buf_add_text(&members, tools[i].definition);
	}
	buf_add_char(&members, ']');
	if (r->modern)
		buf_add_text(&members, "," CACHEABLE);
	succeed(r, buf_span(&members));
	buf_done(&members);
}

static void do_tools_call(const struct request *r)
{
	struct span name = r->message->param[PARAM_NAME];
	struct span arguments = r->message->param[PARAM_ARGUMENTS];
	const struct tool *tool = tool_find(name);
	if (!tool) {
		fail(r, MCPD_E_INVALID_PARAMS,
		     json_type_of(name) == JSON_STRING ? "Unknown tool; see tools/list" :
							 "tools/call needs the string params.name");
		return;
	}
	if (json_type_of(arguments) != JSON_OBJECT && json_type_of(arguments) != JSON_ABSENT) {
		fail(r, MCPD_E_INVALID_PARAMS, "params.arguments is not an object");
		return;
	}
	/* Not time(): its coarse clock may still show the second before. */
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	/* What is wrong with the arguments' values is told in the result, where a model sees it and can do better. */
	struct buf result = BUF_INIT, error = BUF_INIT, members = BUF_INIT;
	tool->call(arguments, now.tv_sec, &result, &error);
	bool failed = error.len > 0;
	buf_add_text(&members, "\"content\":[{\"type\":\"text\",\"text\":");
	buf_add_json_string(&members, failed ? buf_span(&error) : buf_span(&result));
	buf_add_text(&members, "}]");
	if (failed) {
		buf_add_text(&members, ",\"isError\":true");
	} else {
		buf_add_text(&members, ",\"structuredContent\":");
		buf_add_span(&members, buf_span(&result));
	}
	if (buf_failed(&result) || buf_failed(&error) || buf_failed(&members))
		fail(r, MCPD_E_INTERNAL, "Out of memory");
	else
		succeed(r, buf_span(&members));
	buf_done(&result);
	buf_done(&error);
	buf_done(&members);
}

enum { LEGACY = 1, MODERN = 2, BEFORE_INITIALIZE = 4 };

static const struct method {
	const char *name;
	unsigned where;
	void (*run)(const struct request *r);
} methods[] = {
	{ "initialize", LEGACY | BEFORE_INITIALIZE, do_initialize },
	{ "ping", LEGACY | BEFORE_INITIALIZE, do_ping },
	{ "server/discover", MODERN, do_discover },
	{ "tools/list", LEGACY | MODERN, do_tools_list },
	{ "tools/call", LEGACY | MODERN, do_tools_call },
};

/* Whether the `_meta` of a modern request is as it must be; answers the request if not. */
static bool check_modern_meta(const struct request *r, struct span version)
{
	struct span meta = r->message->param[PARAM_META];
	if (json_type_of(version) != JSON_STRING) {
		fail(r, MCPD_E_INVALID_PARAMS, "_meta[\"" META_PREFIX "protocolVersion\"] is not a string");
		return false;
	}
	if (!json_string_is(version, MODERN_VERSION)) {
		struct buf data = BUF_INIT;
		buf_add_text(&data, "{\"supported\":[\"" MODERN_VERSION "\"],\"requested\":");
		buf_add_span(&data, version);
		buf_add_char(&data, '}');
		jsonrpc_write_error(r->out, r->message->id, ERROR_UNSUPPORTED_VERSION, "Unsupported protocol version",
				    buf_failed(&data) ? SPAN_NONE : buf_span(&data));
		buf_done(&data);
		return false;
	}
	if (json_type_of(json_member(meta, META_PREFIX "clientCapabilities")) != JSON_OBJECT) {
		fail(r, MCPD_E_INVALID_PARAMS, "_meta[\"" META_PREFIX "clientCapabilities\"] is not an object");
		return false;
	}
	return true;
}

static void handle_request(struct time_server *server, const struct jsonrpc_message *message, struct buf *out)
{
	struct span version = json_member(message->param[PARAM_META], META_PREFIX "protocolVersion");
	struct request r = { server, message, out, .modern = version.ptr != NULL };
	if (json_type_of(message->params) == JSON_ARRAY) {
		fail(&r, MCPD_E_INVALID_PARAMS, "params is not an object");
		return;
	}
	if (r.modern && !check_modern_meta(&r, version))
		return;
	const struct method *method = NULL;
	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
		if (json_string_is(message->method, methods[i].name))
			method = &methods[i];
	if (!method || (r.modern && !(method->where & MODERN)))
		fail(&r, MCPD_E_METHOD_NOT_FOUND, "Method not found");
	else if (!r.modern && !(method->where & LEGACY))
		fail(&r, MCPD_E_INVALID_PARAMS, "params._meta lacks " META_PREFIX "protocolVersion");
	else if (!r.modern && !server->initialized && !(method->where & BEFORE_INITIALIZE))
		fail(&r, MCPD_E_INVALID_REQUEST,
		     "Send initialize first, or " META_PREFIX "protocolVersion in params._meta");
	else
		method->run(&r);
}

static void handle(struct time_server *server, const struct jsonrpc_message *message, struct buf *out)
{
	if (message->kind == JSONRPC_REQUEST)
		handle_request(server, message, out);
	else if (message->kind == JSONRPC_INVALID && message->id.len > 0 && json_type_of(message->id) != JSON_NULL)
		jsonrpc_write_error(out, message->id, MCPD_E_INVALID_REQUEST, message->problem, SPAN_NONE);
	else if (message->kind == JSONRPC_INVALID)
		fail_anonymous(out, MCPD_E_INVALID_REQUEST, message->problem);
	/* Notifications change nothing here, and this server asks nothing that could be answered. */
}

/* Takes a batch apart and answers with one, or with nothing if no element wants an answer. */
static void handle_batch(struct time_server *server, struct span text, struct buf *out)
{
	struct buf answers = BUF_INIT;
	struct json_iter it;
	struct span element;
	size_t n = 0;
	json_iter_init(&it, text);
	while (json_iter_element(&it, &element)) {
		struct jsonrpc_message message;
		size_t before = answers.len;
		n++;
		jsonrpc_parse(element, &message, NULL);
		if (message.kind == JSONRPC_BATCH)
			fail_anonymous(&answers, MCPD_E_INVALID_REQUEST, "a batch in a batch");
		else
			handle(server, &message, &answers);
		if (answers.len > before)
			answers.data[answers.len - 1] = ','; /* in place of its newline */
	}
	if (n == 0) {
		fail_anonymous(out, MCPD_E_INVALID_REQUEST, "an empty batch");
	} else if (answers.len > 0) {
		answers.data[answers.len - 1] = ']';
		buf_add_char(out, '[');
		buf_add_span(out, buf_span(&answers));
		buf_add_char(out, '\n');
	}
	if (buf_failed(&answers))
		out->error = answers.error;
	buf_done(&answers);
}

void time_server_line(struct time_server *server, struct span line, struct buf *out)
{
	struct span text = framer_clean(line);
	if (text.len == 0)
		return;
	struct jsonrpc_message message;
	if (jsonrpc_parse(text, &message, NULL) < 0)
		fail_anonymous(out, MCPD_E_PARSE, "Parse error");
	else if (message.kind != JSONRPC_BATCH)
		handle(server, &message, out);
	else if (server->batches)
		handle_batch(server, message.text, out);
	else
		fail_anonymous(out, MCPD_E_INVALID_REQUEST, "Batches exist in protocol version 2025-03-26 alone");
}

void time_server_too_long(struct buf *out)
{
	fail_anonymous(out, MCPD_E_INVALID_REQUEST, "The line is too long");
}
