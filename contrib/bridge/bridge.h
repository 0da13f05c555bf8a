/*
 * mcpd-bridge: an MCP client's stdio on one side, a connection to the daemon in the MCP dialect on the other (PROTOCOL "Two dialects on one socket").
 *
 *   main.c    options                       pump.c    the poll loop: who is read, who is written
 *   link.c    the daemon: reaching it, attaching, losing it, setting up again what the client had set up
 *   talk.c    what lines mean for that      lane.c    bytes and lines of one direction
 *   peek.c    what a passing line says      ledger.c  what must be known when the daemon goes
 *
 * Bytes are copied, never made anew. Memory is bounded, whatever passes: two lanes, the ledger, and a few lines of our own, which go in between whole
 * lines of the others. Whoever is not read is not waited for with more than that.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "lane.h"
#include "ledger.h"
#include "libmcpd-client/reach.h"
#include "peek.h"
#include "proto/buf.h"

/* Exit statuses. X(name, status, what), in --help and README. */
#define BRIDGE_STATUS_TABLE(X)                                                                                         \
	X(CLOSED, 0, "the client closed its side, and has all its answers")                                            \
	X(SYSTEM, 1, "an error of the system, such as no memory")                                                      \
	X(USAGE, 2, "wrong usage")                                                                                     \
	X(UNKNOWN, 3, "the daemon has no such server")                                                                 \
	X(NO_DAEMON, 4, "no daemon listens, and none could be started")                                                \
	X(DISABLED, 5, "the server is disabled")                                                                       \
	X(LOST, 6, "the daemon went away and did not come back, or did not before the last answer")                    \
	X(REFUSED, 7, "the daemon refused for another reason, or is too old")                                          \
	X(CLIENT_GONE, 8, "the client does not read any more")

enum bridge_status {
#define BRIDGE_STATUS_MEMBER(name, status, what) STATUS_##name = (status),
	BRIDGE_STATUS_TABLE(BRIDGE_STATUS_MEMBER)
#undef BRIDGE_STATUS_MEMBER
};

enum phase {
	PHASE_PAUSE,     /* until at_ms: then REACH */
	PHASE_REACH,     /* by at_ms */
	PHASE_ATTACH,    /* mcp/attach is on its way, or its answer; by at_ms */
	PHASE_HANDSHAKE, /* the client's initialize was sent anew */
	PHASE_OPEN,
	PHASE_SETTLE, /* the daemon has gone: the client is told what became of its requests */
	PHASE_END,    /* what the client is to get is written, then we exit with status */
};

/* Lines of our own, on their way. */
struct own {
	struct buf lines;
	size_t sent;
};

struct bridge {
	/* settings */
	const char *server;  /* NULL: all of them */
	const char *program; /* as struct reach has it */
	char *socket_path;
	int64_t wait_ms; /* how long a daemon that went away is waited for */

	/* the daemon */
	enum phase phase;
	int64_t at_ms;
	struct reach reach;
	int fd;                /* -1: no connection */
	bool daemon_ended;     /* nothing more will come from it */
	bool daemon_deaf;      /* nothing can be written to it any more */
	bool half_closed;      /* the end of the client's input was passed on */
	bool attached;         /* at least once */
	bool replaying;        /* what was set up is not all sent yet: the client's own lines wait */
	bool proven;           /* this connection was of use */
	unsigned early_losses; /* connections that ended before mcp/attach was answered, in this attempt */
	unsigned failures;     /* attempts in a row that came to nothing */
	int64_t open_since_ms;
	int64_t listen_ended_ms; /* the daemon ended a subscription: since when the client has not been told; 0: none */
	int64_t lost_at_ms;      /* since when there is no daemon of use; 0: there is */
	enum bridge_status refusal; /* this daemon does not want us: the status to end with; else STATUS_CLOSED */

	/* the client */
	bool input_ended;
	bool output_is_socket;
	bool torn; /* what comes from it is the rest of a line whose beginning went to the last daemon */
	enum bridge_status status;

	struct lane up, down; /* to the daemon, from it */
	struct peek up_peek, down_peek;
	struct own up_own, down_own;
	struct ledger ledger;
};

__attribute__((format(printf, 1, 2))) void complain(const char *format, ...);

/* pump.c: until the end; the exit status. */
int bridge_run(struct bridge *bridge);

/* link.c */
/* One step of getting to the daemon, and of telling what was lost, as far as it goes without waiting. */
void link_step(struct bridge *bridge);
/* When link_step() wants to be called whatever comes; 0: no clock runs. */
int64_t link_at_ms(const struct bridge *bridge);
/* The daemon's answer to mcp/attach. */
void link_attach_answered(struct bridge *bridge, struct span line);
/* Its answer to the client's initialize, sent anew; line: for the reason, where done is false. */
void link_handshake_answered(struct bridge *bridge, bool done, struct span line);
/* The connection has ended, and what came on it was written. */
void link_lost(struct bridge *bridge);
/* No daemon, or none that is of use: lines of the client that come now are refused. */
bool link_refuses(const struct bridge *bridge);
/* The end, once the client has got what is on its way to it. The first status counts. */
void bridge_end(struct bridge *bridge, enum bridge_status status);
/* No memory, for what cannot be done without. */
void bridge_end_of_memory(struct bridge *bridge);

/* talk.c: lane_fn for either lane, arg: the bridge. */
enum lane_verdict talk_up(void *arg, const struct lane_part *part);
enum lane_verdict talk_down(void *arg, const struct lane_part *part);
/* Tells the client that a request has no answer. */
void talk_error(struct bridge *bridge, struct span id, const char *message, bool maybe_executed);
/* Tells a legacy client that what it has listed may have changed. */
void talk_lists_changed(struct bridge *bridge);

/* Bytes of ours that are not written yet. */
static inline size_t own_unsent(const struct own *own)
{
	return own->lines.len - own->sent;
}
/* So much of ours may wait for the client before nothing is done that adds to it. */
#define OWN_ENOUGH ((size_t)16 << 10)
