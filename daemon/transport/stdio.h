/* The stdio transport (contract S1 to S14): one child process, lines on its stdin and stdout, its stderr kept
 * moving. */
#pragma once

#include "loop/loop.h"
#include "proto/limits.h"
#include "transport/transport.h"

struct process_host;

struct stdio_options {
	const char *name;        /* the server's, for messages and the cgroup's name */
	const char *command;     /* found along PATH of the resulting environment, if it has no slash */
	const char *const *args; /* NULL-terminated */
	const char *const
		*env;    /* "NAME=value", NULL-terminated; adds to and replaces the daemon's own environment (S8) */
	const char *cwd; /* NULL: $HOME */
	struct redactor *redactor; /* or NULL; the transport's from here on */
	int64_t timeout_ms;        /* default for requests (C1) */
	int64_t memory_max;        /* bytes; 0: no limit */
	int64_t grace_ms;          /* between closing stdin and SIGTERM, and between that and SIGKILL (S9) */
	/* Both must outlive the transport. */
	const struct limits *limits;
	struct process_host *host; /* transport/process.h */
};

/* Copies what it needs. Never NULL. */
struct transport *stdio_new(struct loop *loop, const struct stdio_options *options,
			    const struct transport_callbacks *callbacks, void *arg);
/* Lines on stdout so far that were no messages (S6, R14); each was told to on_log. */
uint64_t stdio_noise_lines(const struct transport *t);
