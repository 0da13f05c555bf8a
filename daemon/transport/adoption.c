#include "transport/adoption.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "log.h"
#include "transport/proctree.h"
#include "xalloc.h"

/* Milliseconds: between two looks, from the first to the last; for how long there is a look at least, since a guard that is
 * killed together with a keeper lets go of the keeper's socket before it hands over its children; and at most. */
#define PAUSE_MIN 2
#define PAUSE_MAX 500
#define SETTLES_AFTER 100
#define SWEEP_MAY_TAKE 10000

struct adoption {
	struct adoption_callbacks callbacks;
	void *arg;
	struct loop *loop;
	bool prepared;
	struct loop_signal *children; /* NULL: none can have come yet but the guard */
	struct timer *timer;          /* the next look */
	int pause;
	int64_t since; /* of the last adoption_sweep() */
};

bool adoption_prepare(void)
{
	siginfo_t info;
	bool childless = waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 && errno == ECHILD;
	return childless && getpid() != 1 && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
}

/* All but the guard, which is reaped by who started it. */
static void reap(void *arg)
{
	struct adoption *a = arg;
	for (;;) {
		siginfo_t info = { 0 };
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) < 0 || info.si_pid == 0)
			return;
		if (info.si_pid == a->callbacks.guard(a->arg))
			return; /* we come again, once it is */
		waitid(P_PID, (id_t)info.si_pid, &info, WEXITED | WNOHANG);
	}
}

static bool is_spared(void *arg, pid_t pid)
{
	const struct adoption *a = arg;
	return pid == a->callbacks.guard(a->arg) || a->callbacks.is_keeper(a->arg, pid);
}

/* True if there was nothing. */
static bool kill_strays(struct adoption *a)
{
	struct proctree_result result = { 0 };
	if (!a->prepared)
		return true;
	reap(a);
	return proctree_signal(getpid(), SIGKILL, is_spared, a, &result) < 0 || result.signalled == 0;
}

static void on_timer(void *arg)
{
	struct adoption *a = arg;
	int64_t took = loop_now_ms() - a->since;
	bool clean = kill_strays(a), last = took > SWEEP_MAY_TAKE;
	if (last && !clean)
		log_warning("processes that a killed mcpd-keeper has left do not end");
	if (last || (clean && took >= SETTLES_AFTER)) {
		if (a->callbacks.on_swept(a->arg, last) || last)
			return;
	}
	a->pause = a->pause * 2 > PAUSE_MAX ? PAUSE_MAX : a->pause * 2;
	timer_set(a->timer, loop_now_ms() + a->pause);
}

void adoption_sweep(struct adoption *a)
{
	a->pause = PAUSE_MIN;
	a->since = loop_now_ms();
	timer_set(a->timer, a->since);
}

void adoption_guard_lost(struct adoption *a)
{
	if (a->prepared && !a->children)
		a->children = loop_signal_new(a->loop, SIGCHLD, reap, a);
	if (a->prepared)
		reap(a);
}

struct adoption *adoption_new(struct loop *loop, bool prepared, const struct adoption_callbacks *callbacks, void *arg)
{
	struct adoption *a = xnew(struct adoption);
	a->callbacks = *callbacks;
	a->arg = arg;
	a->loop = loop;
	a->prepared = prepared;
	a->timer = timer_new(loop, on_timer, a);
	return a;
}

void adoption_free(struct adoption *a)
{
	if (!a)
		return;
	loop_signal_free(a->children);
	timer_free(a->timer);
	free(a);
}
