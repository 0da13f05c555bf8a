/*
 * The control dialect's methods, listed once (PROTOCOL "Control dialect: requests"): name, parameters with their types,
 * and what the result looks like. The daemon's dispatch, its checks of parameters, daemon/hello's `methods` and
 * rpc.discover's OpenRPC document are all made from this table, so that none of them can say something else than the
 * others.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/buf.h"
#include "proto/jsonrpc.h"
#include "proto/span.h"

/* In the order in which they are told. */
enum control_method {
	METHOD_DAEMON_HELLO,
	METHOD_DAEMON_STATUS,
	METHOD_DAEMON_RELOAD,
	METHOD_DAEMON_METRICS,
	METHOD_DAEMON_SHUTDOWN,
	METHOD_RPC_DISCOVER,
	METHOD_SERVERS_LIST,
	METHOD_SERVERS_GET,
	METHOD_SERVERS_CONNECT,
	METHOD_SERVERS_DISCONNECT,
	METHOD_SERVERS_RECONNECT,
	METHOD_SERVERS_RELEASE,
	METHOD_SERVERS_LOGS,
	METHOD_TOOLS_LIST,
	METHOD_TOOLS_CALL,
	METHOD_MCP_REQUEST,
	METHOD_MCP_NOTIFY,
	METHOD_MCP_ATTACH,
	METHOD_EVENTS_SUBSCRIBE,
	METHOD_EVENTS_UNSUBSCRIBE,
	METHOD_COUNT,
};

/* X(id, name, what): what can be subscribed to (PROTOCOL events/subscribe). */
#define EVENT_TOPIC_TABLE(X)                                                                                           \
	X(SERVERS, "servers", "events/server: a server's state or description changed, or it was removed")             \
	X(TOOLS, "tools", "events/tools: a server's tool list changed")                                                \
	X(LOGS, "logs", "events/log: a line of a server's stderr")                                                     \
	X(NOTIFICATIONS, "notifications", "events/notification: what a server notified")                               \
	X(CALLS, "calls", "events/call: a request to a server has ended")

enum event_topic {
#define EVENT_TOPIC_MEMBER(id, name, what) TOPIC_##id,
	EVENT_TOPIC_TABLE(EVENT_TOPIC_MEMBER)
#undef EVENT_TOPIC_MEMBER
		TOPIC_COUNT,
};
extern const char *const event_topic_names[TOPIC_COUNT];

/* Where the value of a parameter must lie to be a duration or a count. */
#define METHOD_INTEGER_MAX 9007199254740991 /* 2^53 - 1: what every JSON library keeps exact */

enum method_type {
	TYPE_STRING,
	TYPE_INTEGER, /* from min to METHOD_INTEGER_MAX */
	TYPE_OBJECT,
	TYPE_FORMAT, /* one of metrics_format_names */
	TYPE_TOPICS, /* a non-empty array of the names in EVENT_TOPIC_TABLE */
};

struct method_param {
	const char *name;
	enum method_type type;
	bool required;
	int64_t min;
	const char *what; /* for people */
	int scanned;      /* the enum jsonrpc_param that jsonrpc_parse() finds it as, or PARAM_NOT_SCANNED */
};
#define METHOD_PARAMS_MAX 5
#define PARAM_NOT_SCANNED (-1)

/* Which errors a method may answer beside those of every request. */
enum method_errors {
	ERRORS_SERVER = 1, /* unknown server */
	ERRORS_STATE = 2,  /* the server's state cannot be reached */
	ERRORS_CALL = 4,   /* everything that can become of a call to a server */
};

struct method_info {
	const char *name;
	const char *summary;
	const char
		*result; /* its schema, of those in openrpc.c; with ERRORS_CALL only a name: the server's, verbatim */
	unsigned errors; /* bits of enum method_errors */
	struct method_param params[METHOD_PARAMS_MAX + 1]; /* ends with a NULL name */
};
extern const struct method_info method_table[METHOD_COUNT];

/* The method that a JSON string names once decoded, or METHOD_COUNT. */
enum control_method method_find(struct span name);
/* The topic that a JSON string names, or TOPIC_COUNT. */
enum event_topic topic_find(struct span name);
/*
 * Checks a request's params (an object, or absent) against the method's table. 0; or -EINVAL with a message in
 * ret_problem that names the parameter and what was expected. A parameter that occurs twice is refused; unknown members
 * are not looked at.
 */
int method_check_params(enum control_method method, const struct jsonrpc_message *message, struct buf *ret_problem);
/* The OpenRPC document of the dialect (rpc.discover), on one line. */
void openrpc_write(struct buf *out, const char *version);
