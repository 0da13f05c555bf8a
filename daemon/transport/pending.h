/*
 * Operations in flight, for every transport (contract S2, I1, C1 to C4): ids, clocks, and exactly one completion each.
 *
 * An operation is a request or a notification. It gets a number that is never reused; the id on the wire is the JSON
 * string "m-<number>", so that an answer finds its request by one look-up in a hash table. All clocks hang on one loop
 * timer (a heap by deadline).
 *
 * Completion: pending_complete() calls done at once and is for the loop's callbacks (an answer has come).
 * pending_fail() and pending_cancel() may be called from anywhere, also inside the call that made the operation: done
 * follows from a task. Either way the operation is out of every index before done runs, so done may call anything.
 *
 * A request that is given up (timeout, cancel) leaves a tombstone (PITFALLS "Lifetimes" 7): its late answer is
 * recognised once, told to on_late, and goes nowhere else. At most PENDING_TOMBSTONES are kept; an answer to an older
 * one is an unknown id (S4).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "loop/loop.h"
#include "proto/span.h"
#include "transport/transport.h"

#define PENDING_TOMBSTONES 4096
#define PENDING_SPOILT_MS 1000

struct pending;

enum pending_kind { PENDING_REQUEST, PENDING_NOTIFY };

/* How far an operation has come; says what the reply's `sent` is and which message a timeout gets (C3). */
enum pending_phase {
	PENDING_UNSENT,    /* no byte of it has left */
	PENDING_SENT,      /* bytes of it may have reached the server */
	PENDING_STREAMING, /* HTTP: its SSE response has begun */
};

struct pending_hooks {
	/* The operation ends without an answer (timeout, cancel, pending_fail_all()): stop working on it, and say
	 * how far it had come. `data` as set by pending_set_data(). Calls nothing back. Not called for
	 * pending_complete() and pending_fail(). */
	enum pending_phase (*give_up)(void *arg, uint64_t number, void *data);
	/* A late answer was recognised by pending_match(). Never before the request's own completion. May be NULL. */
	void (*on_late)(void *arg, uint64_t number);
};

struct pending *pending_new(struct loop *loop, int64_t default_timeout_ms, const struct pending_hooks *hooks,
			    void *arg);
/* Nothing may be in flight but failures that are due: those complete inside. Frees at once: never from inside a hook
 * or a done. Takes NULL. */
void pending_free(struct pending *p);

/* A new operation; its clock starts (C1). Only timeout_ms, deadline_ms, max_timeout_ms, done and arg of the options
 * matter. Never 0. */
uint64_t pending_add(struct pending *p, enum pending_kind kind, const struct transport_options *options);
/* The transport's own note on an operation, NULL at first; NULL for unknown numbers. */
void pending_set_data(struct pending *p, uint64_t number, void *data);
void *pending_data(const struct pending *p, uint64_t number);
/* The id as JSON, quotes included, valid until the operation's done has returned; absent if unknown. */
struct span pending_wire_id(const struct pending *p, uint64_t number);
/* Starts the clock anew, up to the operation's maximum (R31). */
void pending_touch(struct pending *p, uint64_t number);

/* The operation in flight (not failed, not cancelled) that has this id (JSON, as the server wrote it), or 0.
 * Tombstones are neither found nor touched. */
uint64_t pending_find(const struct pending *p, struct span id);
/* As pending_find(), for an answer that has come: a tombstone with that id is ended and told to on_late. */
uint64_t pending_match(struct pending *p, struct span id);
/* An answer has come that cannot be used. Where no good one follows within PENDING_SPOILT_MS the request ends with
 * MCPD_E_PROTOCOL and this message (copied); until then it is in flight as before, and its own deadline holds. The first
 * message counts. Unknown numbers are ignored. */
void pending_spoil(struct pending *p, uint64_t number, const char *message);
/* Ends an operation with this reply, now. Unknown numbers are ignored. */
void pending_complete(struct pending *p, uint64_t number, const struct transport_reply *reply);
/* Ends an operation with this reply, from a task. Copied are the numbers, flags and the message; no spans. */
void pending_fail(struct pending *p, uint64_t number, const struct transport_reply *reply);
/* Ends a notification (or a request without payload) with the result {}, from a task. */
void pending_succeed(struct pending *p, uint64_t number);
/* Gives an operation up: MCPD_E_CANCELLED with the reason (C4), from a task. */
void pending_cancel(struct pending *p, uint64_t number, const char *reason);
/* Ends everything in flight, now: first what was failed or cancelled already, with its own reply, then the rest in
 * the order of adding, with code and message. Tombstones are forgotten. Operations that the completions add are not
 * touched. */
void pending_fail_all(struct pending *p, int code, const char *message);
/* Operations in flight, those whose failure is due included; tombstones not. */
unsigned pending_count(const struct pending *p);
