/*
 * Reaching the daemon's socket, without blocking: connect(2); where nothing listens and the caller wants it, start the daemon once or twice and
 * connect again. For the library's own connections and for mcpd-bridge; what is said on the connection is theirs.
 *
 * Starting is free of races because the daemon sorts it out: starts are serialised by its lock, and one that finds another daemon says so and ends
 * only when that one listens. So "the pipe of the started daemon has ended" means "connect now".
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/buf.h"

enum reach_state {
	REACH_NONE,
	REACH_SOCKET,    /* connect(2) is to be tried, at retry_at_ms */
	REACH_STARTING,  /* the daemon was started: its start-up messages end when it listens or has given up */
	REACH_CONNECTED, /* fd is the connection, for reach_take() */
};

/* A zeroed struct is REACH_NONE. */
struct reach {
	enum reach_state state;
	const char *socket_path; /* the caller's */
	const char *program;     /* the caller's; NULL: MCPD_PROGRAM, else `mcpd` along PATH; "": never start one */
	int fd;                  /* the connection, or while STARTING the pipe with the daemon's messages; -1: none */
	int64_t retry_at_ms;
	unsigned starts;      /* how often the daemon was started since reach_begin() */
	pid_t starter;        /* the short-lived process between us and the daemon; 0: none */
	struct buf start_log; /* what the daemon said before it listened */
	char problem[512];    /* for people, after a negative result */
};

/* CLOCK_MONOTONIC. */
int64_t reach_now_ms(void);
/* Both texts must outlive the attempt. */
void reach_begin(struct reach *reach, const char *socket_path, const char *program);
/* As far as it goes without waiting: 0, with the state saying how far, or the negative errno that ends the attempt, with `problem` set. Call it
 * when reach_fd() is readable, or at reach_at_ms(). */
int reach_step(struct reach *reach);
/* To be polled for POLLIN; -1: none. */
int reach_fd(const struct reach *reach);
/* When reach_step() wants to be called whatever the descriptor does; 0: no clock runs. */
int64_t reach_at_ms(const struct reach *reach);
/* The connection, which is the caller's from here on. */
int reach_take(struct reach *reach);
/* The connection had not got as far as to matter when it ended, since the daemon was just leaving: tries again in a moment. */
void reach_again(struct reach *reach);
/* Gives everything up. The struct may be used again. */
void reach_done(struct reach *reach);

/* Sets the problem; returns error. */
__attribute__((format(printf, 3, 4))) int reach_fail(struct reach *reach, int error, const char *format, ...);

/* spawn.c */
/* Starts the daemon for the socket path, as no child of ours and without SIGCHLD. 0 with fd, a pipe that carries its start-up messages and ends
 * when it listens or has given up, and starter, to be reaped with spawn_reap() once the pipe has ended. Never blocks. */
int spawn_daemon(struct reach *reach);
void spawn_reap(pid_t starter);
