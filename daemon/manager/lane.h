/*
 * A lane: the place of one connection of a server, with its own states, attempts and waiting calls.
 *
 * A shared server has one; an exclusive one has one, for whoever holds it; a per-client one has a lane for each client.
 * The catalogue of the latter two is a lane of no client, that runs only until the tools are listed. At most one
 * instance is a lane's own at a time; one that the lane has given up closes by itself. Start is single-flight (R9):
 * calls that come meanwhile wait here. After a loss the lane connects again with a new instance (M4), as
 * manager/reconnect.h says; the first call does not wait for the clock. `failed` and `needs-auth` last until asked for
 * by hand, a change of the configuration, or the first call LANE_RETRY_MS later, which tries once (M5).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "manager/outbox.h"
#include "manager/reconnect.h"
#include "manager/server.h"
#include "manager/turns.h"

struct instance;

#define LANE_RETRY_MS 30000
#define LANE_LOSS_GRACE_MS 200 /* for a lost connection to say why, while calls already wait for the next */

TAILQ_HEAD(lane_list, lane);

struct lane {
	struct server *server;
	uint64_t id;
	uint64_t owner; /* the client it is for; 0: all, or none (catalogue) */
	bool catalogue;
	enum server_state state;
	struct instance *instance; /* NULL: none, or given up */
	bool accepting;            /* calls may be sent: connected, and those that had waited were sent first */
	bool blocked;              /* the next instance starts when the last one of the server has gone (exclusive) */
	bool trial;                /* this attempt is the only one */
	bool after_loss;           /* a connection was lost, and none made since */
	bool restoring;            /* what is called now goes before all that waits: it was there before */
	struct reconnect reconnect;
	int64_t next_attempt_ms, retry_after_ms;
	struct timer *timer, *loss_timer, *idle_timer, *stall_timer;
	struct task *task;              /* releases the waiting calls */
	struct task *pump;              /* sends those whose turn has come */
	struct transport_reply failure; /* failed, needs-auth: what calls are told. Its texts belong to the lane */
	struct server_call_list waiting, sent;
	unsigned n_waiting, n_sent;
	struct turns turns;
	TAILQ_ENTRY(lane) link;
};

struct lane *lane_new(struct server *server, uint64_t owner, bool catalogue);
/* Ends its connection; what it sent still completes. It must have no waiting calls: see lane_stop(). */
void lane_free(struct lane *lane);
/* Starts it unless it is running: by hand, or by the configuration. What went wrong before is forgotten. */
void lane_start(struct lane *lane, const char *why);
/* Ends the connection and every attempt: idle. Waiting calls fail with `why`, or stay where keep_waiting. */
void lane_stop(struct lane *lane, const char *why, bool keep_waiting);
/* Sends the call or lets it wait, and starts what it needs. */
void lane_submit(struct lane *lane, struct server_call *call);
/* The server has answered a call, which is about to leave the lane. */
void lane_answered(struct lane *lane, const struct server_call *call);
/* A call that was sent has left the lane: there may be room for another one. */
void lane_pump_later(struct lane *lane);
/* A call has left the lane: it may be idle now. Also when idleTimeout or pinning have changed. */
void lane_check_idle(struct lane *lane);
/* The server's last instance has gone: a blocked start may go on. */
void lane_unblock(struct lane *lane);
bool lane_is_active(const struct lane *lane); /* running, or on the way to it */

/* ---- told by the lane's instance, which the lane has still as its own ---- */

void lane_connected(struct lane *lane);
/* The last listing that was due has ended. */
void lane_listed(struct lane *lane);
/* The attempt failed; the instance is given up. */
void lane_attempt_failed(struct lane *lane, const struct mcp_failure *failure);
/* The connection is gone, or was given up; lane->instance is NULL. at_once: connect again without delay if calls
 * wait. */
void lane_lost(struct lane *lane, const char *reason, bool at_once);
/* Something came back that was no answer: a lost connection or session, a demand for authorization are acted on. */
void lane_note_failure(struct lane *lane, struct instance *instance, const struct transport_reply *reply);
