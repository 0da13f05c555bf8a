/*
 * What a keeper is to start (struct keeper_order), written into a file without a name: nothing of it is limited by a
 * socket's buffers, and nothing is left to be worked out between fork and exec.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct order {
	const char *name, *command;
	const char *const *args; /* NULL-terminated, without the zeroth; may be NULL */
	/* NULL-terminated; adds to and replaces the daemon's own environment (S8), without what systemd told the daemon
	 * alone. */
	const char *const *env;
	const char *cwd;  /* NULL: $HOME of the resulting environment, or / */
	const char *leaf; /* cgroup, or NULL */
	/* A container that is to be stopped when the tree has ended (transport/container.h): the arguments in front of
	 * "stop", the file with its id, and whether that is ours. NULL: none. */
	const char *const *stop;
	const char *cidfile;
	bool own_cidfile;
	int64_t grace_ms;
};

/* 0 with the file, or a negative errno. In both cases the PATH along which the command is searched, and the
 * directory; free() both. */
int order_write(const struct order *order, int *ret_fd, char **ret_path, char **ret_cwd);
