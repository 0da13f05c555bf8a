/*
 * The guard: one small process per daemon, parent of all keepers (transport/keeper.h) and their last resort.
 *
 * It is forked before the daemon has a loop, threads or descriptors of value, leaves the terminal's session, ignores
 * every signal that can be ignored, and then does three things: it forks keepers on the daemon's order; it kills what a
 * keeper that was itself killed left behind (it is a child subreaper too, so orphans come to it); and when the daemon
 * is gone, however that happened, it sees that every keeper has ended its tree, and ends. The daemon stays the process
 * that was started: its pid, LISTEN_PID and MAINPID are untouched.
 */
#pragma once

#include <sys/types.h>

#include "transport/keeper.h"

struct guard {
	pid_t pid;
	int fd; /* our end of the socket; -1: none */
};

/* Forks it. 0 or a negative errno. */
int guard_start(struct guard *g);
/* Has a keeper made from these descriptors, which stay the caller's. 0; -EAGAIN when the guard has too much unread:
 * try again soon; or another negative errno. A fork that fails is told on the keeper's control socket. */
int guard_order(struct guard *g, const int fds[KEEPER_FDS]);
/* Ends and reaps it; waits for the keepers, which kill their trees, at most a few seconds. */
void guard_stop(struct guard *g);
