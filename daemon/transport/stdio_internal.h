/* Shared by stdio.c (life: connect, loss, close) and stdio_message.c (what is sent and what comes). */
#pragma once

#include "loop/stream.h"
#include "proto/jsonrpc.h"
#include "transport/pending.h"
#include "transport/process.h"
#include "transport/stdio.h"
#include "transport/tail.h"

enum stdio_state {
	STDIO_NEW,
	STDIO_STARTING,
	STDIO_CONNECTED,
	STDIO_LOST,   /* no longer connected; what is in the pipe is still delivered (S10) */
	STDIO_ENDING, /* in flight fails, the process is ended; nothing is delivered any more */
	STDIO_CLOSED, /* on_close was called */
};

/* A notification in the queue: complete once this many bytes are written. */
struct stdio_notify {
	struct stdio_notify *next;
	uint64_t number, end;
};

struct stdio {
	struct transport base;
	struct loop *loop;
	struct process_host *host;
	const struct limits *limits;
	char *name, *command, *cwd;
	char **args, **env;
	int64_t grace_ms, memory_max;

	enum stdio_state state;
	int start_error; /* of the pipes */
	bool batches;    /* a peer of 2025-03-26 */
	bool closed_by_us, connected_once, failed_all;
	char *exit_how;  /* how the process ended by itself */
	char *lost_how;  /* what was noticed first */
	char *error_how; /* a failure of the pipes themselves */
	struct tail stderr_tail;
	uint64_t noise_lines;

	struct process *process;
	struct stream *io, *err;
	struct transport_traffic traffic; /* once io has gone */
	struct pending *pending;
	struct stdio_notify *notifies, **notifies_end;
	struct task *task;
	struct timer *drain_timer;
};

uint64_t stdio_send(struct stdio *s, enum pending_kind kind, struct span method, struct span params,
		    const struct transport_options *options);
int stdio_respond(struct stdio *s, struct span id, struct span result, struct span error);
/* How far an operation has come whose data this is. */
enum pending_phase stdio_phase(const struct stdio *s, const void *data);
/* The stream has written: notifications may be through. */
void stdio_written(struct stdio *s);
void stdio_forget_notifies(struct stdio *s);
/* A line of the server's stdout, or the start of one that is too long. */
void stdio_line(struct stdio *s, struct span line);
void stdio_too_long(struct stdio *s, struct span start);
