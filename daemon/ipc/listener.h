/*
 * The socket that clients connect to (PITFALLS "Sockets"): one daemon per path, for our user only.
 *
 * What has connected and was not accepted when the listener stops is closed with an own socket (libmcpd-client tries
 * again then), and served by the next daemon with one of the service manager's.
 *
 * The lock file beside the socket says who the one daemon is; it is never unlinked, so that all who start agree on what
 * they lock. Whoever has the lock may replace a socket file that nobody answers on. A socket that the service manager
 * handed in is neither bound nor unlinked here; if another daemon then has the lock, it is asked to drain and leave,
 * since the service manager has replaced its socket file.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "loop/loop.h"

struct listener;

/* Why there is no listener. */
enum listener_failure {
	LISTENER_OTHER = 1, /* another daemon listens on this socket */
	LISTENER_ERROR,
};

struct listener_options {
	const char *path;
	bool standard;    /* the path is not one that the user chose: its directory must be ours alone */
	int inherited_fd; /* a listening socket from the service manager to use in place of an own one, or -1 */
};

/*
 * Takes the lock for the path and listens on it. Makes the socket's directory (0700) if it is missing. May wait: for a
 * daemon that is just starting or leaving, some seconds. NULL with *ret_failure and *ret_message, for people, with the
 * reason and the path (R38); free() it. Runs no callback.
 */
struct listener *listener_open(const struct listener_options *options, enum listener_failure *ret_failure,
			       char **ret_message);
/* Accepts: fd is a connection from a process of our own user, and the callee's. */
void listener_start(struct listener *listener, struct loop *loop, void (*on_accept)(void *arg, int fd), void *arg);
/* Whether a client has connected that was not accepted yet. */
bool listener_has_waiting(const struct listener *listener);
/* Accepts no more; the socket file, if it is ours, goes. The lock stays until listener_free(). Idempotent. */
void listener_stop(struct listener *listener);
/* Takes NULL. */
void listener_free(struct listener *listener);
