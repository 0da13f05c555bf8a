#include "proto/methods.h"

#include <errno.h>

#include "proto/json_iter.h"
#include "proto/metrics.h"

const char *const event_topic_names[TOPIC_COUNT] = {
#define TOPIC_NAME(id, name, what) [TOPIC_##id] = name,
	EVENT_TOPIC_TABLE(TOPIC_NAME)
#undef TOPIC_NAME
};

/* What several methods take. */
#define SERVER_PARAM                                                                                                   \
	{                                                                                                              \
		"server", TYPE_STRING, true, 0, "the server's name", PARAM_SERVER                                      \
	}
#define ORDER_TIMEOUT_PARAM                                                                                            \
	{                                                                                                              \
		"timeoutMs", TYPE_INTEGER, false, 0,                                                                   \
			"how long to wait for the new state; 0: for ever; default: the server's connectTimeout",       \
			PARAM_TIMEOUT_MS                                                                               \
	}
#define CALL_TIMEOUT_PARAM                                                                                             \
	{                                                                                                              \
		"timeoutMs", TYPE_INTEGER, false, 0,                                                                   \
			"covers queueing, connecting and the call; 0: none; default: the server's timeout",            \
			PARAM_TIMEOUT_MS                                                                               \
	}

const struct method_info method_table[METHOD_COUNT] = {
	[METHOD_DAEMON_HELLO] = {
		"daemon/hello",
		"Says who the client is and what questions it answers; optional, may be repeated.",
		"Hello", 0,
		{
			{ "protocol", TYPE_INTEGER, false, 0,
			  "the version of this protocol that the client speaks: 1", PARAM_NOT_SCANNED },
			{ "client", TYPE_OBJECT, false, 0, "the client's `name` and `version`", PARAM_NOT_SCANNED },
			{ "capabilities", TYPE_OBJECT, false, 0,
			  "MCP client capabilities; `sampling`, `elicitation` and `roots` are asked on behalf of its own calls",
			  PARAM_NOT_SCANNED },
			{ "cwd", TYPE_STRING, false, 0, "the client's working directory", PARAM_NOT_SCANNED },
		},
	},
	[METHOD_DAEMON_STATUS] = {
		"daemon/status",
		"The daemon's state, its limits, and what is wrong with its configuration.",
		"Status", 0,
		{ { 0 } },
	},
	[METHOD_DAEMON_RELOAD] = {
		"daemon/reload",
		"Reads the configuration again; touches only servers whose definition changed; a broken file changes nothing.",
		"Reload", 0,
		{ { 0 } },
	},
	[METHOD_DAEMON_METRICS] = {
		"daemon/metrics",
		"What has been counted since the daemon's start, and what is the case now.",
		"Metrics", 0,
		{
			{ "format", TYPE_FORMAT, false, 0,
			  "`json` (default), or `prometheus`: the text exposition format, as `text`", PARAM_NOT_SCANNED },
		},
	},
	[METHOD_DAEMON_SHUTDOWN] = {
		"daemon/shutdown",
		"Stops the daemon: new calls are refused, calls in flight get 5 s.",
		"Empty", 0,
		{ { 0 } },
	},
	[METHOD_RPC_DISCOVER] = {
		"rpc.discover",
		"This document.",
		"OpenRPC", 0,
		{ { 0 } },
	},
	[METHOD_SERVERS_LIST] = {
		"servers/list",
		"All configured servers, in the configuration's order.",
		"ServerList", 0,
		{ { 0 } },
	},
	[METHOD_SERVERS_GET] = {
		"servers/get",
		"One server, with its definition (secrets masked) and its history.",
		"ServerDetails", ERRORS_SERVER,
		{ SERVER_PARAM },
	},
	[METHOD_SERVERS_CONNECT] = {
		"servers/connect",
		"Connects the server; answered once it is connected.",
		"Server", ERRORS_SERVER | ERRORS_STATE,
		{ SERVER_PARAM, ORDER_TIMEOUT_PARAM },
	},
	[METHOD_SERVERS_DISCONNECT] = {
		"servers/disconnect",
		"Stops the server; it stays idle until the next call or connect.",
		"Server", ERRORS_SERVER | ERRORS_STATE,
		{ SERVER_PARAM, ORDER_TIMEOUT_PARAM },
	},
	[METHOD_SERVERS_RECONNECT] = {
		"servers/reconnect",
		"Stops the server if it runs, and connects it again.",
		"Server", ERRORS_SERVER | ERRORS_STATE,
		{ SERVER_PARAM, ORDER_TIMEOUT_PARAM },
	},
	[METHOD_SERVERS_RELEASE] = {
		"servers/release",
		"Gives an `exclusive` server that this client holds to the next in turn.",
		"Empty", ERRORS_SERVER,
		{ SERVER_PARAM },
	},
	[METHOD_SERVERS_LOGS] = {
		"servers/logs",
		"The last lines of the server's stderr, oldest first.",
		"Logs", ERRORS_SERVER,
		{
			SERVER_PARAM,
			{ "lines", TYPE_INTEGER, false, 0, "how many at most; default 100", PARAM_NOT_SCANNED },
		},
	},
	[METHOD_TOOLS_LIST] = {
		"tools/list",
		"The tools of one server or of all, never paged; from the cache where a server is not connected.",
		"ToolList", ERRORS_SERVER,
		{
			{ "server", TYPE_STRING, false, 0, "only this server's", PARAM_SERVER },
			{ "waitMs", TYPE_INTEGER, false, 0,
			  "how long to wait for servers that have nothing to show yet; default 250",
			  PARAM_NOT_SCANNED },
			{ "ifRevision", TYPE_STRING, false, 0,
			  "the revision the client has: answers `notModified` if it is the same", PARAM_NOT_SCANNED },
		},
	},
	[METHOD_TOOLS_CALL] = {
		"tools/call",
		"Calls a tool; the answer is the server's result, verbatim.",
		"CallToolResult", ERRORS_SERVER | ERRORS_CALL,
		{
			SERVER_PARAM,
			{ "name", TYPE_STRING, true, 0, "the tool's name", PARAM_NAME },
			{ "arguments", TYPE_OBJECT, false, 0, "relayed byte for byte", PARAM_ARGUMENTS },
			CALL_TIMEOUT_PARAM,
			{ "_meta", TYPE_OBJECT, false, 0,
			  "relayed; a `progressToken` in it asks for progress", PARAM_META },
		},
	},
	[METHOD_MCP_REQUEST] = {
		"mcp/request",
		"Any other MCP request; the answer is the server's result, verbatim.",
		"Result", ERRORS_SERVER | ERRORS_CALL,
		{
			SERVER_PARAM,
			{ "method", TYPE_STRING, true, 0,
			  "the MCP method; not `initialize`, not `subscriptions/*`", PARAM_METHOD },
			{ "params", TYPE_OBJECT, false, 0,
			  "its params, relayed byte for byte; `_meta.progressToken` asks for progress", PARAM_PARAMS },
			CALL_TIMEOUT_PARAM,
		},
	},
	[METHOD_MCP_NOTIFY] = {
		"mcp/notify",
		"Sends a notification to a connected server.",
		"Empty", ERRORS_SERVER | ERRORS_STATE,
		{
			SERVER_PARAM,
			{ "method", TYPE_STRING, true, 0,
			  "the MCP method; not `notifications/initialized`, not `notifications/cancelled`",
			  PARAM_METHOD },
			{ "params", TYPE_OBJECT, false, 0, "its params, relayed byte for byte", PARAM_PARAMS },
		},
	},
	[METHOD_MCP_ATTACH] = {
		"mcp/attach",
		"Turns the connection into an MCP server for the rest of its life: all that follows the answer's line is MCP.",
		"Attached", ERRORS_SERVER | ERRORS_STATE,
		{
			{ "server", TYPE_STRING, false, 0, "the one server to show as it is; default: all servers, as one",
			  PARAM_SERVER },
			{ "client", TYPE_OBJECT, false, 0, "the client's `name` and `version`", PARAM_NOT_SCANNED },
			{ "cwd", TYPE_STRING, false, 0, "the client's working directory", PARAM_NOT_SCANNED },
		},
	},
	[METHOD_EVENTS_SUBSCRIBE] = {
		"events/subscribe",
		"Asks for events; active before the answer.",
		"Empty", ERRORS_SERVER,
		{
			{ "topics", TYPE_TOPICS, true, 0, "what to be told of", PARAM_NOT_SCANNED },
			{ "server", TYPE_STRING, false, 0, "only events of this server", PARAM_SERVER },
		},
	},
	[METHOD_EVENTS_UNSUBSCRIBE] = {
		"events/unsubscribe",
		"Ends the subscriptions to these topics, of all servers.",
		"Empty", 0,
		{
			{ "topics", TYPE_TOPICS, true, 0, "what to be told of no longer", PARAM_NOT_SCANNED },
		},
	},
};

enum control_method method_find(struct span name)
{
	for (int i = 0; i < METHOD_COUNT; i++)
		if (json_string_is(name, method_table[i].name))
			return (enum control_method)i;
	return METHOD_COUNT;
}

enum event_topic topic_find(struct span name)
{
	for (int i = 0; i < TOPIC_COUNT; i++)
		if (json_string_is(name, event_topic_names[i]))
			return (enum event_topic)i;
	return TOPIC_COUNT;
}

static void add_topic_names(struct buf *out)
{
	for (int i = 0; i < TOPIC_COUNT; i++)
		buf_addf(out, "%s`%s`", i ? ", " : "", event_topic_names[i]);
}

static int check_topics(struct span value, struct buf *ret_problem)
{
	struct json_iter it;
	struct span element;
	bool any = false;
	if (json_type_of(value) == JSON_ARRAY)
		json_iter_init(&it, value);
	while (json_type_of(value) == JSON_ARRAY && json_iter_element(&it, &element)) {
		any = true;
		if (topic_find(element) < TOPIC_COUNT)
			continue;
		buf_add_text(ret_problem, "`topics` names something unknown; there are ");
		add_topic_names(ret_problem);
		return -EINVAL;
	}
	if (any)
		return 0;
	buf_add_text(ret_problem, "`topics` must be an array with at least one of ");
	add_topic_names(ret_problem);
	return -EINVAL;
}

static int check_integer(const struct method_param *param, struct span value, struct buf *ret_problem)
{
	int64_t number;
	if (json_int64(value, &number) == 0 && number >= param->min && number <= METHOD_INTEGER_MAX)
		return 0;
	buf_addf(ret_problem, "`%s` must be a whole number from %lld to %lld", param->name, (long long)param->min,
		 (long long)METHOD_INTEGER_MAX);
	return -EINVAL;
}

static int check_format(const struct method_param *param, struct span value, struct buf *ret_problem)
{
	for (int i = 0; i < METRICS_FORMAT_COUNT; i++)
		if (json_string_is(value, metrics_format_names[i]))
			return 0;
	buf_addf(ret_problem, "`%s` must be", param->name);
	for (int i = 0; i < METRICS_FORMAT_COUNT; i++)
		buf_addf(ret_problem, "%s \"%s\"", i ? " or" : "", metrics_format_names[i]);
	return -EINVAL;
}

static int check_value(const struct method_param *param, struct span value, struct buf *ret_problem)
{
	switch (param->type) {
	case TYPE_TOPICS:
		return check_topics(value, ret_problem);
	case TYPE_INTEGER:
		return check_integer(param, value, ret_problem);
	case TYPE_FORMAT:
		return check_format(param, value, ret_problem);
	case TYPE_STRING:
		if (json_type_of(value) == JSON_STRING)
			return 0;
		buf_addf(ret_problem, "`%s` must be a string", param->name);
		return -EINVAL;
	case TYPE_OBJECT:
		if (json_type_of(value) == JSON_OBJECT)
			return 0;
		buf_addf(ret_problem, "`%s` must be an object", param->name);
		return -EINVAL;
	}
	return 0;
}

/* The value of a parameter, from what the parser noted or by walking params. True if it occurs twice. */
static bool find_param(const struct method_param *param, const struct jsonrpc_message *message, struct span *ret_value)
{
	if (param->scanned != PARAM_NOT_SCANNED) {
		*ret_value = message->param[param->scanned];
		return message->doubled_params & (uint64_t)1 << param->scanned;
	}
	struct json_iter it;
	struct span key, value;
	*ret_value = SPAN_NONE;
	if (!message->params.ptr)
		return false;
	json_iter_init(&it, message->params);
	while (json_iter_member(&it, &key, &value)) {
		if (!json_string_is(key, param->name))
			continue;
		if (ret_value->ptr)
			return true;
		*ret_value = value;
	}
	return false;
}

int method_check_params(enum control_method method, const struct jsonrpc_message *message, struct buf *ret_problem)
{
	for (const struct method_param *param = method_table[method].params; param->name; param++) {
		struct span value;
		if (find_param(param, message, &value)) {
			buf_addf(ret_problem, "`%s` occurs twice", param->name);
			return -EINVAL;
		}
		if (!value.ptr && param->required) {
			buf_addf(ret_problem, "`%s` is missing: %s", param->name, param->what);
			return -EINVAL;
		}
		int r = value.ptr ? check_value(param, value, ret_problem) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}
