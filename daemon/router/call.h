/*
 * Who asked what: one row for each request of a client to a server (ARCHITECTURE "A call's life").
 *
 * A row is ended exactly once: by the answer, the timeout, a cancellation, the server's going, all of which come as the
 * one completion of server_call(); never inside the call that made it. When its client goes, the row stays as a
 * tombstone that tells nobody, until the completion comes (PITFALLS "Lifetimes" 7). The client's progress token never
 * leaves here: the server gets one of the daemon's own, and progress comes back with the client's, byte for byte (R21),
 * to the asker alone and never after the answer (R26).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "loop/loop.h"
#include "manager/server.h"
#include "proto/buf.h"
#include "proto/errors.h"
#include "proto/span.h"

struct calls;

/* What is known of a row, for answers and events. Valid during the callback. */
struct call_info {
	uint64_t row;
	uint64_t client;          /* 0: the daemon itself */
	const char *client_label; /* as it was when it asked; "" for the daemon itself */
	unsigned account;         /* its name's index (router/accounts.h) */
	uint64_t server;          /* id: it may be gone, see manager_by_id() */
	uint64_t upstream;        /* server_call()'s number, 0 if the server was not asked */
	const char *server_name;
	struct span method; /* JSON string, as asked */
	struct span name;   /* JSON string: the tool or prompt, or absent */
	struct span token;  /* the client's progress token, or absent */
	int64_t duration_ms, duration_us;
	unsigned queue_position; /* of an exclusive server's queue at the end; 0: was not waiting */
	bool resent;             /* sent again after a loss (M6) */
	bool client_gone;
	enum mcpd_outcome outcome;
};

/* Spans and texts of reply are valid during the call. */
typedef void call_done_fn(void *arg, const struct call_info *info, const struct transport_reply *reply);
/* Returns the reply to go on with: the same, or another one whose spans and texts are valid until done has returned. */
typedef const struct transport_reply *call_watch_fn(void *arg, const struct call_info *info,
						    const struct transport_reply *reply);

struct call_options {
	uint64_t client;          /* 0: the daemon itself */
	const char *client_label; /* for people; NULL: none */
	unsigned account;         /* its name's index (router/accounts.h) */
	struct server *server;
	struct span method, params; /* JSON as written; params may be absent */
	struct span name;           /* for events: JSON string, or absent */
	int64_t timeout_ms;         /* -1: the server's default; 0: none */
	struct span token;          /* the client's progress token, or absent */
	/* For this request alone the client wants log messages at this level (JSON string), or absent
	 * (router/log_level.h). */
	struct span request_log_level;
	struct span log_level;   /* JSON string for modern servers, or absent */
	bool kept, this_process; /* as in struct server_call_options */
	/* A modern server's input-required results are handed out as they are: the client repeats the call itself. */
	bool relay_input_required;
	/* Sees the end before done does, also when the client has gone: for those who keep account of what the server
	 * was told. May be NULL. */
	call_watch_fn *watch;
	void *watch_arg;
	/* Not after calls_client_gone(). May be NULL, as may progress. */
	call_done_fn *done;
	/* params of notifications/progress, with the client's token in it. */
	void (*progress)(void *arg, struct span params);
	void *arg;
};

/* Told of every row's end, last; may be NULL. */
struct calls *calls_new(struct loop *loop, struct manager *manager, call_done_fn *on_end, void *arg);
/* All rows have ended. Takes NULL. */
void calls_free(struct calls *calls);
/* The row's number, never 0; or 0 if there is no memory to keep what the options say (nothing has then happened). */
uint64_t calls_start(struct calls *calls, const struct call_options *options);
/* From now on the row's progress is told with this token (or not at all, if it is absent). The server must have been
 * asked for progress from the start. */
void calls_set_token(struct calls *calls, uint64_t row, struct span token);
/* A row that asks no server, and ends with this reply in the next pass; all of it must be static. */
uint64_t calls_start_settled(struct calls *calls, const struct call_options *options,
			     const struct transport_reply *reply);
/* What a request is answered with that has nothing to be told: {}. */
extern const struct transport_reply calls_nothing;
/* params of a notifications/progress, with every top-level progressToken replaced. */
void calls_write_progress(struct buf *out, struct span params, struct span token);
/* The row ends with MCPD_E_CANCELLED and the reason, the server is told. Unknown or ended: nothing. */
void calls_cancel(struct calls *calls, uint64_t row, const char *reason);
/* The client's row whose call to the server has this number (server_call()), or 0. */
uint64_t calls_find(const struct calls *calls, uint64_t client, uint64_t server, uint64_t upstream);
/* Cancels all of the client's rows; their done is not called. */
void calls_client_gone(struct calls *calls, uint64_t client);
/* Rows in flight, tombstones not counted. */
unsigned calls_count(const struct calls *calls);
