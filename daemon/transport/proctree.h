/*
 * Signals to all descendants of a process, however they were daemonised, found by their parents in /proc.
 *
 * Whoever calls this is a child subreaper, so that nothing leaves its tree by losing its parent. A signal goes through
 * a pidfd, after the parent was read once more: a number that was reused meanwhile is never hit. One call is one look;
 * what is born meanwhile is found by the next.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct proctree_result {
	unsigned signalled; /* zombies included: a dead leader may have live threads */
	unsigned refused;   /* not ours to signal (set-user-ID programs) */
};

/* Processes for which spare() says true are left alone, with all that is below them; NULL spares none. The root
 * itself gets no signal. 0, or a negative errno if /proc cannot be read. */
int proctree_signal(pid_t root, int signo, bool (*spare)(void *arg, pid_t pid), void *arg,
		    struct proctree_result *ret_result);
