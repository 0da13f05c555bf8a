/*
 * The keeper: one small process per server, between the daemon and the server, that holds the server's whole tree
 * together.
 *
 * It is a child subreaper, so whatever the server starts stays below it: double-forked, in sessions of its own,
 * ignoring every signal. It starts the server, tells how that went and how the server ended, sends SIGTERM or SIGKILL
 * to the whole tree when told, and exits once nothing of the tree is left; a
 * container that the server was a client of (transport/container.h) is stopped before that. When its control socket ends, the daemon is
 * gone: it kills the tree at once. Two servers are never confused, since each has a keeper of its own.
 *
 * A keeper is a child of the guard (transport/guard.h), which was forked when the daemon was small and single-threaded:
 * no program to find or exec, also after an upgrade has replaced it, and the memory of a keeper is a few pages. In ps
 * it is "mcpd-keeper: NAME".
 */
#pragma once

#include <stdint.h>
#include <sys/types.h>

/* What the daemon tells a keeper: one byte each. */
#define KEEPER_TERM 'T'
#define KEEPER_KILL 'K'

enum keeper_event_type {
	/* The server runs: a is its pid, b 0 or the negative errno with which its cgroup could not be entered. */
	KEEPER_STARTED,
	/* It does not: a is a positive errno, b an enum keeper_stage. */
	KEEPER_FAILED,
	/* The server's main process has ended: a is waitid's code, b its status; out_of_memory: the kernel has ended
	 * something of the tree for its cgroup's memory. The cgroup may be gone when this is read. */
	KEEPER_EXITED,
	/* Nothing of the tree is left, or (after a long time of killing) `a` processes will not go. */
	KEEPER_ENDED,
};

enum keeper_stage { KEEPER_STAGE_FORK, KEEPER_STAGE_CHDIR, KEEPER_STAGE_EXEC };

/* What a keeper tells the daemon: one packet each. */
struct keeper_event {
	int32_t type;
	int32_t a, b;
	int32_t keeper; /* its pid; 0: none could be made */
	int32_t out_of_memory;
};

/* What is to be started, as strings in a file: counts first, then the NUL-terminated strings in this order. */
struct keeper_order {
	uint32_t n_programs, n_args, n_env, n_stop;
	uint32_t stop_seconds, own_cidfile;
	/* name, cwd, cgroup leaf ("" for none), programs to try in turn, arguments (the zeroth included),
	 * environment, the container's id file, arguments in front of "stop" (none: no container) */
};

/* The descriptors of a new keeper, in the order in which they are sent to the guard. */
enum keeper_fd { KEEPER_FD_STDIN, KEEPER_FD_STDOUT, KEEPER_FD_STDERR, KEEPER_FD_CONTROL, KEEPER_FD_ORDER, KEEPER_FDS };

/* The keeper's life; called in a freshly forked, single-threaded process with all signals blocked. */
_Noreturn void keeper_run(const int fds[KEEPER_FDS]);
/* Names this process in ps and in comm, over the arguments it was started with. */
void keeper_set_title(const char *comm, const char *title);
/* Closes everything but the given descriptors, which become 3, 4, ...; 0 to 2 are /dev/null. */
void keeper_keep_only(const int *fds, int n);
/* A signalfd for SIGCHLD, whose disposition may have been inherited as "ignored". */
int keeper_watch_children(void);
