/*
 * Accounts: what has become of calls, and what went to and came from clients, in numbers (PROTOCOL "daemon/metrics").
 *
 * Clients are counted by the name that they gave, not one by one: a name keeps its numbers when its clients have gone.
 * So many names are told apart as `maxClientNames` says, those that come later are one, "other"; memory is bounded by
 * the names and the configured servers, whatever clients do. A server's numbers go with it when it is configured no
 * more. Counting allocates only for the first call of a name to a server.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "metrics.h"
#include "proto/errors.h"
#include "proto/limits.h"
#include "router/call.h"

struct accounts;

/* X(id, method): those that are counted apart; the last one stands for all others. */
#define ACCOUNT_METHOD_TABLE(X)                                                                                        \
	X(TOOLS_CALL, "tools/call")                                                                                    \
	X(TOOLS_LIST, "tools/list")                                                                                    \
	X(RESOURCES_READ, "resources/read")                                                                            \
	X(RESOURCES_LIST, "resources/list")                                                                            \
	X(RESOURCES_TEMPLATES, "resources/templates/list")                                                             \
	X(RESOURCES_SUBSCRIBE, "resources/subscribe")                                                                  \
	X(RESOURCES_UNSUBSCRIBE, "resources/unsubscribe")                                                              \
	X(PROMPTS_GET, "prompts/get")                                                                                  \
	X(PROMPTS_LIST, "prompts/list")                                                                                \
	X(COMPLETE, "completion/complete")                                                                             \
	X(SET_LEVEL, "logging/setLevel")                                                                               \
	X(PING, "ping")                                                                                                \
	X(INITIALIZE, "initialize")                                                                                    \
	X(DISCOVER, "server/discover")                                                                                 \
	X(LISTEN, "subscriptions/listen")                                                                              \
	X(TASKS_GET, "tasks/get")                                                                                      \
	X(TASKS_RESULT, "tasks/result")                                                                                \
	X(TASKS_CANCEL, "tasks/cancel")                                                                                \
	X(TASKS_UPDATE, "tasks/update")                                                                                \
	X(OTHER, "other")

enum account_method {
#define ACCOUNT_METHOD_MEMBER(id, method) ACCOUNT_METHOD_##id,
	ACCOUNT_METHOD_TABLE(ACCOUNT_METHOD_MEMBER)
#undef ACCOUNT_METHOD_MEMBER
		ACCOUNT_METHODS,
};
extern const char *const account_method_names[ACCOUNT_METHODS];

/* The names that are always there; a client's index stays the same for the daemon's life. */
enum {
	ACCOUNT_DAEMON,  /* "mcpd": what the daemon asks by itself */
	ACCOUNT_UNNAMED, /* "unnamed" */
	ACCOUNT_OTHER,   /* "other" */
	ACCOUNT_NAMES_FIRST,
};

/* Of one client name. */
struct account_traffic {
	uint64_t received, sent; /* bytes */
	uint64_t dropped;        /* events */
};

/* Of one client name at one server. */
struct account_calls {
	uint64_t outcomes[OUTCOME_COUNT];
	struct histogram duration;
};

struct account_server {
	uint64_t server;
	uint64_t methods[ACCOUNT_METHODS][OUTCOME_COUNT];
	uint64_t resent;
	struct account_calls **clients; /* by name; NULL: no call yet */
	size_t n_clients;
};

/* The manager says whether a server is configured still. */
struct accounts *accounts_new(struct manager *manager);
void accounts_free(struct accounts *accounts); /* takes NULL */

/* The index of a name, which may be new; max_names: how many are told apart. An empty one is "unnamed". */
unsigned accounts_client(struct accounts *accounts, struct span name, size_t max_names);
/* Indices are below this. */
size_t accounts_clients(const struct accounts *accounts);
const char *accounts_client_name(const struct accounts *accounts, unsigned client);

/* A call has ended; info->account is its client's index. */
void accounts_call(struct accounts *accounts, const struct call_info *info, const struct transport_reply *reply);
/* An MCP client has made a request, of a server or of the daemon. method: JSON string. */
void accounts_request(struct accounts *accounts, struct span method);
uint64_t accounts_requests(const struct accounts *accounts, enum account_method method);
/* More has come and gone. */
void accounts_traffic(struct accounts *accounts, unsigned client, const struct account_traffic *more);
void accounts_limit(struct accounts *accounts, enum mcpd_limit limit);
/* Some server is configured no more. */
void accounts_server_removed(struct accounts *accounts);

/* Valid until the next call has ended. NULL: no call has ended there yet. */
const struct account_server *accounts_server(const struct accounts *accounts, uint64_t server);
const struct account_traffic *accounts_client_traffic(const struct accounts *accounts, unsigned client);
uint64_t accounts_limit_hits(const struct accounts *accounts, enum mcpd_limit limit);
