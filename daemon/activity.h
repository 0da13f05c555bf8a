/*
 * What goes on in the daemon as a whole: a line of status for the service manager, and how long nothing has been.
 *
 * Something goes on while a client is connected, and while a server is: running, being started, or about to be tried
 * again. So does a server that was disconnected by hand but would be started by a new daemon. After `idleExit` without
 * any of it the daemon may leave. Without the setting it does so only where the service manager holds the socket, since
 * otherwise nothing would bring it back by itself.
 */
#pragma once

#include <stdbool.h>

#include "ipc/ipc.h"
#include "ipc/reload.h"
#include "loop/loop.h"
#include "manager/manager.h"

/* With the service manager's socket and no setting. */
#define ACTIVITY_IDLE_EXIT_MS ((int64_t)600000)

struct activity;

struct activity_options {
	struct loop *loop;
	struct manager *manager;
	struct reload *reload;
	struct ipc *ipc;
	bool activated;   /* the service manager holds the socket */
	loop_fn *on_idle; /* nothing has been going on for `idleExit`; from a timer */
	void *arg;
};

/* Copies the options. Looks at once. */
struct activity *activity_new(const struct activity_options *options);
/* Clients came or went, servers changed, or the configuration did. Calls nobody back. */
void activity_changed(struct activity *activity);
/* The daemon is ending: nothing more is told or waited for. */
void activity_stop(struct activity *activity);
void activity_free(struct activity *activity); /* takes NULL */
