/*
 * Inside libmcpd-client: the one struct, and what its files offer each other.
 *
 *   client.c   life, settings, accessors          connect.c  connecting, hello, loss
 *   io.c       bytes in and out, mcpd_process()    dispatch.c lines from the daemon
 *   request.c  requests and their table            question.c questions and their answers
 *   reply.c    the reply object                    blocking.c the blocking forms
 *   reach.c    reaching the daemon's socket        spawn.c    starting the daemon
 *
 * Rules that keep callbacks safe: a callback is the last thing a function does, or is followed by a look at client->doomed; memory of the client is released
 * only when no call of the library is on the stack (depth 0); a request leaves the table before its callback runs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "mcpd-client.h"
#include "proto/buf.h"
#include "proto/framer.h"
#include "proto/jsonrpc.h"
#include "proto/span.h"
#include "reach.h"

#define MCPD_PUBLIC __attribute__((visibility("default")))

struct mcpd_reply {
	unsigned refs;
	uint64_t request;
	int status;
	int code;
	bool maybe_executed;
	char *result;
	size_t result_len;
	char *message;
	char *data;
	const char *static_message; /* when there was no memory for another */
};

struct request {
	struct request *next;     /* in its bucket */
	uint64_t number;          /* also its JSON-RPC id and progress token */
	uint64_t stream_position; /* of its first byte among all bytes queued on this connection */
	int64_t deadline_ms;      /* 0: none */
	mcpd_reply_fn *fn;
	mcpd_progress_fn *progress;
	void *userdata;
	mcpd_reply *reply; /* made beforehand, so that an end can always be told */
};

struct question {
	struct question *next;
	uint64_t number;
	size_t id_len;
	char id[]; /* as written, quotes included */
};

/* The steps of MCPD_CONNECTING. */
enum connect_step {
	STEP_NONE,
	STEP_REACH, /* the socket is being reached */
	STEP_HELLO, /* connected; hello is not answered yet */
};

struct mcpd_client {
	/* settings */
	char *socket_setting;
	char *start_program; /* NULL: find it; "": never start */
	char *hello_params;
	size_t max_message;

	/* connection */
	enum mcpd_state state;
	enum connect_step step;
	struct reach reach;
	int fd; /* the socket; -1: none */
	char *socket_path;
	int64_t connect_deadline_ms; /* 0: none */
	unsigned losses; /* how often it closed the connection before it had answered hello, in this connect */
	int lost;        /* mcpd_disconnect() outside mcpd_process(): the errno still to be told; 0: none */
	char *hello;

	/* bytes */
	struct framer in;
	struct buf hello_out; /* goes before everything queued while connecting */
	size_t hello_sent;
	struct buf out;
	size_t out_sent;
	uint64_t queued_total; /* bytes ever put in `out` on this connection */

	/* requests */
	struct request **buckets;
	size_t n_buckets, n_requests;
	uint64_t last_number;
	int64_t next_deadline_ms; /* not after any request's deadline; 0: none */

	struct question *questions;
	uint64_t last_question;

	/* callbacks */
	mcpd_state_fn *on_state;
	void *on_state_userdata;
	mcpd_event_fn *on_event;
	void *on_event_userdata;
	mcpd_question_fn *on_question;
	void *on_question_userdata;

	unsigned depth;     /* calls of the library on the stack that may call back */
	bool doomed;        /* mcpd_client_free() was called from a callback */
	unsigned callbacks; /* made by this mcpd_process() */
	char last_error[512];
};

/* client.c */
static inline int64_t client_now_ms(void)
{
	return reach_now_ms();
}
/* Remembers the message for mcpd_last_error(); returns error. */
__attribute__((format(printf, 3, 4))) int client_fail(mcpd_client *client, int error, const char *format, ...);
void client_enter(mcpd_client *client);
/* Frees a doomed client when nothing is on the stack any more; true if the client is gone or about to go. */
bool client_leave(mcpd_client *client);

/* connect.c */
/* The connection has ended with that error: true if it had not got as far as to matter, and is tried again. */
bool connect_again(mcpd_client *client, int error);
/* One step of connecting, as far as it goes without waiting; 0 or the errno that ends the attempt. */
int connect_step(mcpd_client *client);
/* The end of a connection or attempt: closes, ends every request, tells the state. Calls back. */
void connect_lost(mcpd_client *client, int error);
/* hello was answered. */
int connect_established(mcpd_client *client, const struct jsonrpc_message *message);

/* io.c */
/* Writes what the socket takes; 0 or a negative errno (never -EAGAIN). */
int io_flush(mcpd_client *client);
/* Puts a whole line into the queue, or nothing. Tries to write it at once. */
int io_queue(mcpd_client *client, const struct buf *line);

/* dispatch.c */
/* 0; -ENOMEM: nothing was done, hand the line in again; -EBADMSG: not the protocol. Calls back. */
int dispatch_line(mcpd_client *client, struct span line);
/* A span as NUL-terminated text: "" is no NULL. NULL: no memory. */
char *dup_span(struct span s);

/* request.c */
struct request *request_take(mcpd_client *client, uint64_t number);
struct request *request_find(mcpd_client *client, uint64_t number);
/* Calls back and frees. */
void request_finish(mcpd_client *client, struct request *request);
/* Takes every request out of the table, its reply saying that errno and whether it was sent; requests_deliver() tells and frees them. */
struct request *requests_end(mcpd_client *client, int error);
void requests_deliver(mcpd_client *client, struct request *ended);
/* Ends those whose time has run out. */
void requests_expire(mcpd_client *client);
void requests_discard(mcpd_client *client);
/* Forgets who asked: the answer will be dropped. */
void request_abandon(mcpd_client *client, uint64_t number);

/* question.c */
int question_ask(mcpd_client *client, const struct jsonrpc_message *message);
int question_withdraw(mcpd_client *client, const struct jsonrpc_message *message);
void questions_discard(mcpd_client *client);

/* reply.c */
mcpd_reply *reply_new(uint64_t request);
void reply_set_result(mcpd_reply *reply, struct span result);
void reply_set_error(mcpd_reply *reply, struct span error);
/* message: static text. */
void reply_set_failure(mcpd_reply *reply, int error, const char *message, bool maybe_executed);
