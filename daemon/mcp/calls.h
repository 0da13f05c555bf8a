/*
 * The calls to one server that are in flight, and those given up whose answer may still come (tombstones, PITFALLS
 * "Lifetimes" 7).
 *
 * A table of rows and what can be proven from it (ARCHITECTURE "Sharing"): it sends nothing and completes nothing.
 */
#pragma once

#include "mcp/mcp_client.h"
#include "mcp/server_tasks.h"

struct input_round;
struct call_source;

enum call_state {
	CALL_SENT,     /* a request is at the transport */
	CALL_ASKING,   /* the server's input requests are with the asker */
	CALL_ENDING,   /* its failure is told in the next gap between passes */
	CALL_GIVEN_UP, /* completed; the server may still be working on it */
};

struct call {
	struct mcp_client *client;
	uint64_t number;
	uint64_t request; /* at the transport, the last one */
	uint64_t owner;
	enum call_state state;
	bool neutral; /* cannot make a server ask: no matter for proofs (pings) */
	bool want_progress;
	bool cancelled;               /* the transport has been told to give it up */
	bool silent;                  /* no cancel message for it */
	bool maybe_task;              /* the answer may make it a task */
	enum task_method task_method; /* a request about tasks, and about which one (JSON string, or NULL) */
	char *task_id;
	bool listens;      /* subscriptions/listen */
	bool relays_input; /* the asker deals with input-required results itself */

	int64_t timeout_ms;
	int64_t started_ms, deadline_ms; /* deadline 0: none, or the transport's default */
	int64_t given_up_until_ms;
	char *cancel_reason;

	/* CALL_ENDING: what will be told. */
	int error_code;
	char *error_text;
	char *error_object; /* MCPD_E_SERVER: JSON */
	bool error_sent;

	/* Modern servers: what is needed to send it again, the round under way, rounds so far, and the clock while its
	 * asker is asked. */
	struct call_source *source;
	struct input_round *round;
	unsigned rounds;
	struct timer *timer;

	transport_done_fn *done;
	void (*progress)(void *arg, struct span params);
	void *arg;

	struct call *next, **link; /* in its list */
	struct call *chain;        /* in its bucket */
};

#define CALLS_GIVEN_UP_MAX 16384

struct call_table {
	struct call *live; /* newest first */
	struct call *given_up;
	unsigned n_live, n_ending;
	struct call **buckets; /* of live calls, by number */
	unsigned n_buckets;    /* a power of two, or 0 */
	uint64_t last_number;
	unsigned n_given_up;
	struct timer *expiry; /* of the first tombstone to go */
	int64_t expiry_ms;
	int64_t overflow_until_ms; /* there were more tombstones than are kept: nothing can be proven from the table
				      until then */
};

void call_table_init(struct call_table *table, struct loop *loop);
/* Frees the tombstones; there must be no live call. */
void call_table_done(struct call_table *table);

/* A new live row with a number of its own. */
struct call *call_table_add(struct call_table *table);
struct call *call_table_find(const struct call_table *table, uint64_t number);
/* Takes a live row out and makes a tombstone of it until the answer comes, or until then. */
void call_table_give_up(struct call_table *table, struct call *call, int64_t until_ms);
/* The answer to a request that was given up. */
void call_table_late_answer(struct call_table *table, uint64_t request);
/* Takes a row out and frees it. */
void call_table_remove(struct call_table *table, struct call *call);
/* Live rows of an owner; 0: of all. */
unsigned call_table_count(const struct call_table *table, uint64_t owner);

/* Whose a question is that came on the stream of a request (0: unknown) and names a task (JSON string, or absent).
 * ret_owner and ret_call are 0 where the proof gives none. */
enum mcp_proof call_table_prove(const struct call_table *table, struct server_tasks *tasks, uint64_t on_request,
				struct span task, uint64_t *ret_owner, uint64_t *ret_call);
