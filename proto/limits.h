/*
 * Every limit, once: its name (which is also its key in the configuration's "mcpd": {"limits": {..}} and what -32009's
 * data.limit says), default, smallest and largest value, unit and what happens when it is hit. `daemon/status`,
 * `--check-config` and the README's table are made from this.
 */
#pragma once

#include <stdint.h>

#include "proto/json_scan.h"

/* X(id, key, default, min, max, unit, what) */
#define MCPD_LIMIT_TABLE(X)                                                                                            \
	X(MESSAGE_BYTES, "maxMessageBytes", 64LL << 20, 4096, 1LL << 30, "bytes",                                      \
	  "longest line from a client or a server")                                                                    \
	X(NESTING, "maxNesting", JSON_DEPTH_MAX, 8, JSON_DEPTH_MAX, "levels",                                          \
	  "arrays and objects inside each other in a message of a client or a server")                                 \
	X(CLIENTS, "maxClients", 256, 1, 65536, "clients", "clients connected at once")                                \
	X(SERVERS, "maxServers", 256, 1, 4096, "servers", "servers configured")                                        \
	X(CLIENT_NAMES, "maxClientNames", 64, 1, 1024, "names",                                                        \
	  "client names that metrics tell apart; later ones are counted together as `other`")                          \
	X(REQUESTS_PER_CLIENT, "maxRequestsPerClient", 1024, 1, 1000000, "requests",                                   \
	  "requests of one client in flight")                                                                          \
	X(REQUESTS_PER_SERVER, "maxRequestsPerServer", 4096, 1, 1000000, "requests",                                   \
	  "requests to one server waiting or in flight")                                                               \
	X(FAIR_WINDOW, "fairWindow", 8, 1, 1000000, "calls",                                                           \
	  "calls of one client sent to a shared server that answers them one by one; its others wait their turn")      \
	X(CLIENT_QUEUE_SOFT, "clientQueueSoftBytes", 8LL << 20, 65536, 1LL << 32, "bytes",                             \
	  "unsent bytes to one client past which its events are dropped and its requests are not read")                \
	X(CLIENT_QUEUE_GRACE, "clientQueueGraceMs", 60000, 100, 604800000, "milliseconds",                             \
	  "how long a client may be past clientQueueSoftBytes and read nothing before it is disconnected")             \
	X(CLIENT_QUEUE_HARD, "clientQueueHardBytes", 256LL << 20, 1 << 20, 1LL << 34, "bytes",                         \
	  "unsent bytes to one client past which it is disconnected")                                                  \
	X(SERVER_QUEUE, "serverQueueBytes", 128LL << 20, 65536, 1LL << 34, "bytes",                                    \
	  "bytes that wait to be sent to one server past which a request fails")                                       \
	X(LOG_LINES, "logLines", 1000, 10, 100000, "lines", "stderr lines kept for each server")                       \
	X(LOG_LINE_BYTES, "logLineBytes", 4096, 256, 1 << 20, "bytes", "longest stderr line kept; the rest is cut")    \
	X(HISTORY, "historyEntries", 64, 4, 4096, "entries", "state changes kept for each server")                     \
	X(LIST_PAGES, "maxListPages", 1000, 1, 100000, "pages", "pages of one list read from a server")                \
	X(LIST_BYTES, "maxListBytes", 64LL << 20, 65536, 1LL << 30, "bytes", "one list of a server, all pages")        \
	X(LIST_PAGE, "maxListPageItems", 10000, 1, 1000000, "items",                                                   \
	  "items of one page of a list that an attached MCP client gets")                                              \
	X(SUBSCRIPTIONS, "maxSubscriptionsPerClient", 1024, 1, 100000, "subscriptions",                                \
	  "resource and event subscriptions of one client")                                                            \
	X(TASKS, "maxTasksPerClient", 1024, 1, 100000, "tasks", "tasks of one client that are remembered")             \
	X(EXCLUSIVE_QUEUE, "maxExclusiveQueue", 256, 1, 65536, "clients", "clients waiting for one exclusive server")  \
	X(TOOL_NAME, "maxToolName", 64, 24, 128, "characters",                                                         \
	  "name of a tool or prompt in the list of all servers; longer ones are shortened")                            \
	X(HTTP_STREAMS, "maxHttpStreams", 256, 2, 65536, "requests",                                                   \
	  "HTTP requests and streams to one server at once; one more fails")                                           \
	X(HTTP_HEADERS, "maxHttpHeaders", 256, 16, 65536, "headers", "header lines of one HTTP response")              \
	X(HTTP_HEADER_BYTES, "maxHttpHeaderBytes", 64LL << 10, 4096, 16LL << 20, "bytes",                              \
	  "the headers of one HTTP response")                                                                          \
	X(HTTP_ERROR_BYTES, "httpErrorBytes", 16LL << 10, 256, 1LL << 20, "bytes",                                     \
	  "text of an HTTP error response that is kept; the rest is cut")                                              \
	X(HTTP_BUFFER, "httpBufferBytes", 256LL << 20, 65536, 1LL << 36, "bytes",                                      \
	  "unfinished HTTP responses of one server; the one that passes it fails")                                     \
	X(HTTP_IDLE, "httpIdleMs", 60000, 100, 86400000, "milliseconds",                                               \
	  "silence in the middle of an HTTP response that is no event stream")

enum mcpd_limit {
#define MCPD_LIMIT_MEMBER(id, key, def, min, max, unit, what) LIMIT_##id,
	MCPD_LIMIT_TABLE(MCPD_LIMIT_MEMBER)
#undef MCPD_LIMIT_MEMBER
		LIMIT_COUNT,
};

struct limit_info {
	const char *key;
	int64_t def, min, max;
	const char *unit;
	const char *what;
};

extern const struct limit_info limit_table[LIMIT_COUNT];

/* The values in force. */
struct limits {
	int64_t value[LIMIT_COUNT];
};

void limits_init(struct limits *l); /* the defaults */
/* Index of a key, or -1. */
int limits_find(const char *key);
