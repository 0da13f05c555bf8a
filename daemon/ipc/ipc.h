/*
 * The local side of the daemon: clients on the Unix socket, and what they are told (PROTOCOL "The socket protocol").
 *
 * One session per accepted connection; each starts in the control dialect. A client that is slow, floods or breaks the
 * framing costs only itself: its events are dropped, its requests are not read, and in the end it is disconnected.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ipc/reload.h"
#include "loop/loop.h"
#include "manager/manager.h"
#include "router/router.h"

struct ipc;

struct ipc_options {
	struct loop *loop;
	struct manager *manager;
	struct router *router;
	struct reload *reload;
	const char *socket_path; /* as daemon/status tells it */
	const char *version;
	/* How the service manager runs the daemon: its unit, NULL if it is none; whether it handed in the socket. */
	const char *unit;
	bool activated;
	int64_t started_ms; /* on loop_now_ms() */
	/* A client asked for daemon/shutdown: called once its answer is on its way. */
	loop_fn *on_shutdown;
	/* Some server's state, the number of clients or the configuration changed. Anything may be asked then, and
	 * nothing be changed. May be NULL. */
	loop_fn *on_change;
	void *arg;
};

/* Copies the options, takes over the router's callbacks. */
struct ipc *ipc_new(const struct ipc_options *options);
/* A connection that was accepted, from a process of our user: owns fd from here on. */
void ipc_accept(struct ipc *ipc, int fd);
/* Those that are connected, those that have not read their last answers included. */
unsigned ipc_clients(const struct ipc *ipc);
/* From here on calls are refused; those in flight go on. */
void ipc_stop_calls(struct ipc *ipc);
/* Ends all sessions once what they were answered is written, within wait_ms; then done is called, once. */
void ipc_close(struct ipc *ipc, int64_t wait_ms, loop_fn *done, void *arg);
/* When there are no sessions left (ipc_close()'s done, or none were ever made). Takes NULL. */
void ipc_free(struct ipc *ipc);
