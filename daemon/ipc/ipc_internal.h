/* What the files of ipc/ share: the daemon's local side as a whole. For this folder only. */
#pragma once

#include "ipc/ipc.h"
#include "ipc/session.h"
#include "proto/methods.h"

/* A line buffer that has grown past this is given back after use. */
#define IPC_LINE_KEEP (256 * 1024)

struct ipc {
	struct ipc_options options;
	struct session *sessions; /* in the order of their coming, newest first */
	struct session *leaving;  /* clients that have gone, but for what is unsent */
	unsigned n_sessions;
	uint64_t last_session, last_request;
	int64_t started_at;              /* in seconds since 1970 */
	uint64_t requests[METHOD_COUNT]; /* of the control dialect */
	uint64_t last_state, nonce;      /* of requestState: facade_park.c */
	bool calls_stopped;
	bool closing;
	loop_fn *closed;
	void *closed_arg;
	struct task *closed_task;
	struct listing_wait *listing_waits; /* control_tools.c */
	struct buf line;                    /* for one line on its way to one session or several */
	struct buf params;                  /* for those of a call on its way to its server, or of an event */
};

const struct limits *ipc_limits(const struct ipc *ipc);
/* For the metrics: a client has run into it, and is told so. */
void ipc_limit_reached(const struct ipc *ipc, enum mcpd_limit limit);
/* NULL if it has gone. */
struct session *ipc_session(const struct ipc *ipc, uint64_t id);
/* Tells the floor above. */
void ipc_changed(struct ipc *ipc);
/* For session.c: the session has ended. */
void ipc_session_ended(struct ipc *ipc, struct session *session);
