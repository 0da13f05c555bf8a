/*
 * Calls to servers, from server_call() to their done: waiting in a lane or in an exclusive server's queue, sent,
 * repeated, ended.
 *
 * One deadline from the call's entry covers all of it. What is sent is never sent again, but for two cases, each once:
 * the server provably did not begin it (no byte had left, or it was refused for want of a session, R30), or the
 * configuration lists the tool as retrySafe (M6, R6).
 */
#pragma once

#include "manager/outbox.h"
#include "manager/server.h"

struct instance;
struct lane;
struct claim;

struct server_call {
	struct manager *m;
	uint64_t id, server_id, client;
	struct lane *lane;                     /* waiting or sent */
	struct claim *claim;                   /* waiting in the queue of an exclusive server */
	struct instance *instance;             /* sent */
	uint64_t mcp_call;                     /* 0: not sent, or held */
	uint64_t generation;                   /* this_process: of the instance that it waits for a turn at, or 0 */
	struct turn *turn;                     /* its client's at this server, until it ends */
	uint64_t sent_as;                      /* its number among those sent on the lane */
	size_t waiting_bytes;                  /* counted for it while it waits */
	struct span method, params, log_level; /* the asker's, or in copy */
	char *copy;
	int64_t timeout_ms;  /* 0: none */
	int64_t deadline_ms; /* on loop_now_ms(); 0: none */
	int64_t entered_us;  /* on loop_now_us(); 0: it was sent once */
	struct timer *timer; /* while waiting */
	bool is_tool_call, want_progress, relay_input_required, retry_safe, kept, this_process, finished;
	bool held;     /* its instance deals with it (manager/listen.h) */
	bool repeated; /* it was sent a second time */
	bool reached;  /* what was sent first may have been run */
	unsigned told_position;
	transport_done_fn *done;
	void (*progress)(void *arg, struct span params);
	void (*queued)(void *arg, unsigned position);
	void (*resent)(void *arg);
	void *arg;
	struct transport_reply outcome;     /* once finished; its texts belong to the call */
	TAILQ_ENTRY(server_call) link;      /* in the list of its lane, its claim, or the outbox */
	TAILQ_ENTRY(server_call) turn_link; /* among its client's, while it waits in a lane */
};

/* Sends it on the instance; it enters lane->sent. */
void server_call_send(struct server_call *call, struct lane *lane, struct instance *inst);
/* Whether the instance answers it by itself: it takes no turn of the server's. */
bool server_call_is_kept(const struct server_call *call, const struct instance *inst);
/* The instance answers it by itself (manager/listen.h), within the call's own deadline; it enters lane->sent. */
void server_call_hold(struct server_call *call, struct lane *lane, struct instance *inst);
/* Ends a call that is held, or in no list, with the result {}. */
void server_call_settle(struct server_call *call);
/* Ends a call that waits, is held, or was never placed. The reply's texts and error object are copied; it must have no
 * other spans. */
void server_call_fail(struct server_call *call, const struct transport_reply *reply);
void server_call_failf(struct server_call *call, int code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/* Takes it out of the lane or claim it waits in. */
void server_call_leave(struct server_call *call);
/* Ends it if its time has run out. */
bool server_call_overdue(struct server_call *call);
/* From the outbox: calls done and frees it. */
void server_call_finish(struct server_call *call);
/* A call that has not ended yet, or NULL. */
struct server_call *server_call_find(struct server *server, uint64_t id);
/* The number of the call that the instance's client knows by this one, or 0. */
uint64_t server_call_of(const struct instance *inst, uint64_t mcp_call);

/* Copies of a reply's texts and error object, and their end. */
void reply_keep(struct transport_reply *to, const struct transport_reply *from);
void reply_drop(struct transport_reply *kept);
