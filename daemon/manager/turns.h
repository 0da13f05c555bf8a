/*
 * Fair turns: which client's call goes next to a server (house rule 5).
 *
 * What has been sent cannot be called back, and a server that works on one request at a time does so in the order of
 * their coming. So a client may have only some calls with a shared server; the rest wait here, in a queue of its own,
 * and take turns with those of the others. How many it may have sent is its window:
 *
 * - at least the limit fairWindow: whoever comes next waits for no more than so many calls' time;
 * - four for each call that the server has been seen to work on at once, so that one that works on many is kept busy. A
 *   server shows it by answering a call, or reporting its progress, before an older one;
 * - as many as the server answers in TURNS_QUICK_US, which nobody would notice.
 *
 * Clients that have calls there at the same time share the window, with at least TURNS_SHARE_MIN for each.
 *
 * Calls may take long, wait for each other at the server, or never end: while nothing is answered, one more of each
 * waiting client goes out every TURNS_TRY_MS, TURNS_TRY of them, so that the calls that a client usually makes in
 * parallel are soon all there; then, and for a server that is known to answer in order, the next after TURNS_STALL_MS,
 * the one behind after twice that time, and so on up to TURNS_STALL_MAX_MS. A call that was given up (timeout,
 * cancelled) keeps its place in the window until a later one is answered, since the server may still be at it.
 *
 * per-client and exclusive servers serve one client at a time: there is nothing to share, and everything is sent at
 * once. Calls of the daemon itself (client 0) never wait for a turn.
 *
 * What is kept for a server is bounded for all (maxRequestsPerServer, serverQueueBytes), and so that no client takes all
 * of it: a client may hold TURNS_HOLD times what is still free, at most. One client alone can have eight ninths.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "idmap.h"
#include "manager/outbox.h"

#define TURNS_SHARE_MIN 2
#define TURNS_QUICK_US 2000
#define TURNS_TRY_MS 250
#define TURNS_TRY 24
#define TURNS_STALL_MS 1000
#define TURNS_STALL_MAX_MS 8000
#define TURNS_HOLD 8

struct lane;
struct server;
struct server_call;
struct turn;
struct given_up;

TAILQ_HEAD(turn_list, turn);
TAILQ_HEAD(given_up_list, given_up);

/* A server's: who has calls there. */
struct askers {
	struct idmap turns; /* by client */
	unsigned n_calls;   /* that have not ended */
	unsigned n_active;  /* clients with calls sent or waiting to be sent */
	size_t bytes;       /* kept for calls that wait */
};

/* A lane's: what may be sent on it. */
struct turns {
	struct turn_list hungry; /* who has calls waiting in this lane, next first */
	struct given_up_list given_up;
	uint64_t last_sent;
	unsigned window;                     /* as found out; 0: nothing yet */
	unsigned at_once;                    /* most calls seen to be worked on at once, among the last n_answers */
	unsigned n_answers, n_others_waited; /* and when others were with the server */
	int64_t since_us;                    /* of the first of them, on loop_now_us() */
	bool in_order;                       /* it answered many in the order of their coming */
	unsigned extra;                      /* for each client, while nothing is answered */
	int64_t stall_ms;
};

void turns_init(struct turns *turns);
/* The lane goes, or has a new connection: nothing of what was given up is worked on any more. */
void turns_forget(struct lane *lane);

/* Whether the client may have one call more there; else why not (free() it), for people. */
bool turns_admit_call(const struct server *server, uint64_t client, char **ret_why);
/* The same for the bytes of a call that has to wait. */
bool turns_admit_bytes(const struct server_call *call, size_t bytes, char **ret_why);

/* A call begins and ends. turns_part() does nothing if it has ended before. */
void turns_join(struct server *server, struct server_call *call);
void turns_part(struct server_call *call);
/* It waits with so many bytes of its own; they are counted until it is sent or ends. */
void turns_hold(struct server_call *call, size_t bytes);

/* It enters and leaves the lane's queue. */
void turns_enqueue(struct lane *lane, struct server_call *call);
void turns_dequeue(struct lane *lane, struct server_call *call);
/* It is being sent on the lane; and it is no longer: an answer came, or something else. */
void turns_sent(struct lane *lane, struct server_call *call);
void turns_returned(struct server_call *call);
/* Before turns_returned(): it was given up, and the server may still be at it. */
void turns_give_up(struct lane *lane, struct server_call *call);
/* Before turns_returned(): the server has answered it. */
void turns_answered(struct lane *lane, const struct server_call *call);

/* The server reports progress of it. */
void turns_heard(struct lane *lane, const struct server_call *call);

/* Whether a new call may go out at once. */
bool turns_may_pass(const struct lane *lane, const struct server_call *call);
/* The next call in turn that may go out now, or NULL. It is still in the queue; its client's next turn comes last. */
struct server_call *turns_next(struct lane *lane);
/* How long the server may answer nothing before turns_stalled() is due, which lets one more of each client out. */
int64_t turns_stall_ms(const struct lane *lane);
void turns_stalled(struct lane *lane);
