/*
 * The manager: all configured servers, started, kept, refreshed and ended (contract M1 to M6).
 *
 * A `server` lives as long as its configuration; its connections (`instance`) come and go under it. Others refer to
 * servers by name or by 64-bit id, look them up each time, and get events through the callbacks. Nothing here knows
 * clients beyond their 64-bit id.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config/config.h"
#include "loop/loop.h"
#include "mcp/mcp_client.h"
#include "proto/span.h"

struct manager;
struct server;
struct process_host;

/* The lists that servers have. */
enum server_list { SERVER_TOOLS, SERVER_PROMPTS, SERVER_RESOURCES, SERVER_TEMPLATES, SERVER_LIST_COUNT };

enum server_state {
	SERVER_IDLE,
	SERVER_CONNECTING,
	SERVER_CONNECTED,
	SERVER_RECONNECTING,
	SERVER_FAILED,
	SERVER_NEEDS_AUTH,
	SERVER_DISABLED,
	SERVER_STATE_COUNT,
};
const char *server_state_name(enum server_state state); /* as in PROTOCOL.md */

/* How a question of a server may be answered: by this client, or not at all. */
struct manager_question {
	uint64_t id; /* for manager_answer(); unique for the daemon's life */
	struct span method, params;
	enum mcp_proof proof;
	uint64_t
		client; /* with STREAM, TASK and SOLE_OWNER, and always for per-client and exclusive instances (owned) */
	uint64_t call;  /* the server_call() it is proven to belong to, or 0 */
	bool owned;     /* the instance serves this one client only */
};

/* on_server, on_server_removed, on_list and on_listing come from a task of the manager's, with what is the case then:
 * changes within one pass are told once. All of them may call anything here. */
struct manager_callbacks {
	/* A server's state, or anything else that servers/get shows of it, changed. Also for a new server. */
	void (*on_server)(void *arg, struct server *server);
	void (*on_server_removed)(void *arg, const char *name);
	/* The list differs from the one before (M2, R28). */
	void (*on_list)(void *arg, struct server *server, enum server_list list);
	/* A listing that was waited for may now be answerable (see server_get_list()). */
	void (*on_listing)(void *arg, struct server *server);
	void (*on_log)(void *arg, struct server *server, const char *at, struct span text);
	/* owner: the one client of a per-client or exclusive instance, else 0. */
	void (*on_notification)(void *arg, struct server *server, uint64_t owner, struct span method,
				struct span params);
	/* Progress of a task (JSON string), behind the answer of the call that it came of (mcp/mcp_client.h). */
	void (*on_task_progress)(void *arg, struct server *server, uint64_t owner, struct span id, struct span params);
	/* Not for roots/list outside any client's call, which is answered from the server's configured `roots`. */
	void (*on_question)(void *arg, struct server *server, const struct manager_question *question);
	void (*on_question_withdrawn)(void *arg, uint64_t question, struct span reason);
	/* What had been set up at the server by requests (resource subscriptions, log level) is gone: a new
	 * connection is there (M4). */
	void (*on_reconnected)(void *arg, struct server *server, uint64_t owner);
};

struct manager_options {
	struct loop *loop;
	struct process_host *host;
	struct curl_loop *curl;
	const char *cache_dir; /* existing or to be made, 0700; NULL: no disk cache */
};

struct manager *manager_new(const struct manager_options *options, const struct manager_callbacks *callbacks,
			    void *arg);
/* What a reload did, names only; lists are NULL-terminated and belong to the caller (manager_changes_done()). */
struct manager_changes {
	char **added, **removed, **changed;
	unsigned unchanged;
};
/* Takes the configuration; touches only servers whose definition changed (PROTOCOL daemon/reload) and starts what is
 * not lazy (M1). ret may be NULL. */
void manager_configure(struct manager *m, struct config *config, struct manager_changes *ret);
void manager_changes_done(struct manager_changes *changes);
const struct config *manager_config(const struct manager *m);
/* Refuses new calls, waits up to drain_ms for calls in flight, closes everything; done is called once all processes
 * are gone. Called again while it waits, it only sets the wait anew. */
void manager_shutdown(struct manager *m, int64_t drain_ms, loop_fn *done, void *arg);
void manager_free(struct manager *m); /* after shutdown's done */

struct server *manager_find(struct manager *m, struct span name); /* decoded name; NULL if unknown */
struct server *manager_by_id(struct manager *m, uint64_t id);
/* In the configuration's order. */
size_t manager_count(const struct manager *m);
struct server *manager_at(const struct manager *m, size_t index);
unsigned manager_in_flight(const struct manager *m);
/* Whether nothing would be lost with the daemon: no server runs, is being started, ended or tried again, no call is
 * waiting, and none was stopped by hand that a new daemon would start. */
bool manager_at_rest(const struct manager *m);
/* A client has gone: its per-client instances end, its exclusive hold or place in the queue is given up. Its calls
 * are cancelled by the router. */
void manager_client_gone(struct manager *m, uint64_t client);
/* The client's declared capabilities (JSON object text) for instances of its own and per-request _meta. NULL when it
 * never said. Asked when needed. */
typedef const char *manager_capabilities_fn(void *arg, uint64_t client);
void manager_set_capabilities(struct manager *m, manager_capabilities_fn *fn, void *arg);
/* Answers a question, once; unknown ids are ignored. Exactly one of result and error is present. */
void manager_answer(struct manager *m, uint64_t question, struct span result, struct span error);
