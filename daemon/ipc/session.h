/*
 * One client's connection: lines in, lines out, the end (PITFALLS "Sockets"), in whichever dialect it speaks.
 *
 * A dialect gets the lines and sends its own; the session does what all dialects need. It reads nothing while more than
 * the soft limit is unsent, and drops events meanwhile; it ends when the client then reads nothing for the length of the
 * grace period, and past the hard limit at once. A client that has shut down only its writing side still gets its
 * answers, then the connection closes; if it does not read them, after the grace period too. Ending is deferred by a pass, so that nothing a
 * dialect holds vanishes under its feet; from the moment it is due, nothing is sent and no line is delivered.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/buf.h"
#include "proto/span.h"

struct ipc;
struct session;

struct dialect {
	void (*on_line)(struct session *session, struct span line);
	/* A line over the limit; the session ends after this. */
	void (*on_too_long)(struct session *session);
	/* Whether answers are due, so that a half-closed connection must stay. */
	bool (*is_busy)(const struct session *session);
	/* Room again after events were dropped. */
	void (*on_room)(struct session *session, uint64_t dropped);
	/* The end: free the dialect's state. */
	void (*on_end)(struct session *session);
};

/* Owns fd. Linked into ipc's list. */
struct session *session_new(struct ipc *ipc, int fd, uint64_t id, const struct dialect *dialect, void *state);
struct ipc *session_ipc(const struct session *session);
/* Never reused. */
uint64_t session_id(const struct session *session);
/* False from the moment its end is due. */
bool session_is_open(const struct session *session);
const struct dialect *session_dialect(const struct session *session);
/* The dialect's own. */
void *session_state(const struct session *session);
/* From the next line on the session speaks another dialect. The old one's state is the caller's to free; its on_end is
 * not called. */
void session_set_dialect(struct session *session, const struct dialect *dialect, void *state);
struct session *session_next(const struct session *session);

/* Sends whole lines. A buffer that has failed, or a client that has too much unsent, ends the session. */
void session_send(struct session *session, const struct buf *lines);
/* The same for what may be dropped, and is while the soft limit is passed. */
void session_send_event(struct session *session, const struct buf *lines);
/* Brings its client's account up to date. */
void session_settle(struct session *session);
/* Bytes that the client has not read yet, and its account's index. */
size_t session_unsent(const struct session *session);
unsigned session_account(const struct session *session);
/* Something the dialect was busy with has ended. */
void session_idle(struct session *session);
/* Ends the session in the next pass, without waiting for anything. why: for the debug log. */
void session_abort(struct session *session, const char *why);
/* Ends the session; what is unsent still goes out, within wait_ms. One that is ending already gets no more time than
 * this. */
void session_finish(struct session *session, int64_t wait_ms);
