/* One configured server, as the floors above see it: what it is, its tools, and calls to it. */
#pragma once

#include "manager/manager.h"
#include "metrics.h"

struct server_instance_info {
	uint64_t client;
	pid_t pid;
	enum server_state state;
	unsigned in_flight;
};

struct server_history {
	char at[32]; /* RFC 3339 UTC with milliseconds */
	enum server_state state;
	char *reason; /* or NULL */
};

/* A snapshot; texts are valid until the loop's next pass. */
struct server_info {
	uint64_t id;
	const struct server_config *config;
	enum server_state state;
	pid_t pid;                            /* 0: none */
	const struct mcp_server_facts *facts; /* NULL when never connected in this life */
	/* The same, or what an earlier life of the daemon has kept; NULL: nothing is known. */
	const struct mcp_server_facts *known_facts;
	unsigned tool_count, in_flight, waiting;
	const char *connected_at;                     /* RFC 3339, or NULL */
	const char *last_error, *last_error_at;       /* NULL: none */
	unsigned reconnect_attempt;                   /* 0: none under way */
	int64_t next_attempt_ms;                      /* from now */
	const struct server_instance_info *instances; /* per-client */
	size_t n_instances;
	uint64_t holder; /* exclusive: the client that has it, or 0 */
	size_t queue;    /* exclusive: clients waiting */
	const struct server_history *history;
	size_t n_history;
	const char *advice; /* e.g. to set `sharing`, after a question had to be refused; NULL: none */
};

/* What only grows, from when the server was configured (PROTOCOL "daemon/metrics"). */
struct server_counters {
	uint64_t starts;   /* connections begun */
	uint64_t connects; /* made, the tools listed */
	uint64_t connect_failures, losses;
	uint64_t restarts; /* made again after a loss */
	uint64_t breaker_openings;
	uint64_t received_bytes, sent_bytes;
	uint64_t stderr_lines, noise_lines;
	uint64_t notifications, questions; /* that came from it */
	struct histogram wait;             /* from server_call() until the call was sent first */
};

uint64_t server_id(const struct server *server);
const char *server_name(const struct server *server);
/* As in struct server_info, which costs more. */
const struct mcp_server_facts *server_facts(const struct server *server);
void server_get_info(struct server *server, struct server_info *ret);
/* ret_unsent: bytes that it has not taken yet; ret_connections: those that are being made or ended included. */
void server_get_counters(const struct server *server, struct server_counters *ret, uint64_t *ret_unsent,
			 unsigned *ret_connections);
/* The last n lines of its log, oldest first: calls fn for each. */
void server_walk_log(struct server *server, unsigned n, void (*fn)(void *arg, const char *at, struct span text),
		     void *arg);
/* Notes that a question was refused for want of proof, so that server_info.advice says what to set. */
void server_note_refusal(struct server *server, const char *advice);

struct server_listing {
	bool visible;       /* false: disabled */
	bool settled;       /* nothing to wait for: live, cached, or failed with nothing cached */
	bool deferred;      /* not live */
	struct span items;  /* JSON array text, never absent ("[]") */
	char revision[33];  /* hash of the server's name and the items; the same across restarts */
	const char *error;  /* why nothing is live, or NULL */
	int64_t ttl_ms;     /* what is left of a modern server's ttlMs; -1: it has none */
	bool cache_private; /* cacheScope, for modern clients */
};
/*
 * The list as it can be shown now. `start`: somebody asks for it, and what is missing is set in motion: a server without
 * a cache is started, a list whose ttlMs has run out is fetched again, and so is, each time, one of prompts, resources or
 * templates whose changes the server does not announce. These three are listed only once somebody has asked, and are
 * kept current from then on. A list that the server does not have is empty. Valid until the next pass.
 */
void server_get_list(struct server *server, enum server_list list, bool start, struct server_listing *ret);
/* The tool's object (verbatim) in the current list, or absent. name: decoded, or a JSON string with its quotes. */
struct span server_find_tool(struct server *server, struct span name);

struct server_call_options {
	uint64_t client;            /* who asks */
	struct span method, params; /* JSON as written; copied where it must wait */
	int64_t timeout_ms;         /* -1: the server's default; 0: none. Covers queueing, connecting and the call */
	bool want_progress;
	/* A modern server's input-required results go to `done` as they are (mcp/mcp_client.h). */
	bool relay_input_required;
	struct span log_level; /* or absent */
	/* The asker keeps account of what this sets up (logging/setLevel, resources/subscribe and unsubscribe). Modern
	 * servers have no such methods: subscriptions go into the daemon's own stream (manager/listen.h), and a level
	 * is answered {} without being sent. */
	bool kept;
	/* It is about something that only the process knows which is there now: it does not wait for another one, and
	 * is not sent to one. MCPD_E_TRANSPORT where it cannot be sent at once. */
	bool this_process;
	/* Exactly once, never inside server_call(). Beside the codes of mcp_client_call(): MCPD_E_UNAVAILABLE;
	 * NEEDS_AUTH and
	 * LIMIT also without anything having been sent. */
	transport_done_fn *done;
	void (*progress)(void *arg, struct span params);
	/* exclusive: the place in the queue changed (1: next); may be NULL */
	void (*queued)(void *arg, unsigned position);
	/* sent again after a loss, by the configuration's word (M6); may be NULL */
	void (*resent)(void *arg);
	void *arg;
};
/* Never 0. Starts the server if it is idle, waits while it connects (single flight, R9); fails at once where M5 says
 * so. A
 * server that is not shared wants a client (MCPD_E_INTERNAL). */
uint64_t server_call(struct server *server, const struct server_call_options *options);
void server_cancel(struct server *server, uint64_t call, const char *reason);
/* 0, or -ENOTCONN. Notifications are not queued for a server that is not connected. */
int server_notify(struct server *server, uint64_t client, struct span method, struct span params);

/* servers/connect, disconnect, reconnect: done once, never inside, with NULL when the new state is reached, or the
 * failure:
 * MCPD_E_UNAVAILABLE or NEEDS_AUTH when the first attempt has failed (others may follow behind), MCPD_E_TIMEOUT.
 * Disconnected is a server when nothing of its processes is left. A per-client or exclusive server is connected to see
 * that it can be, and to list its tools. timeout_ms: -1: connectTimeout; 0: none. server: NULL if it is gone. */
enum server_order { SERVER_ORDER_CONNECT, SERVER_ORDER_DISCONNECT, SERVER_ORDER_RECONNECT };
typedef void server_order_fn(void *arg, struct server *server, const struct transport_reply *failure);
void server_order(struct server *server, enum server_order order, int64_t timeout_ms, server_order_fn *done, void *arg);
/* servers/release (exclusive): 0, or -EPERM if the client does not hold it. Its calls in flight fail, the process
 * ends; the
 * next in turn gets a new one once nothing of it is left (R25). */
int server_release(struct server *server, uint64_t client);
/* What clients have at the server, and would lose with its process: an idle stop waits while there is anything. */
enum server_pin { SERVER_PIN_SUBSCRIPTIONS = 1, SERVER_PIN_TASKS = 2 };
void server_set_pinned(struct server *server, enum server_pin pin, bool pinned);
