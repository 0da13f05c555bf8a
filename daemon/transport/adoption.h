/*
 * What comes to the daemon when its guard (transport/guard.h) is killed: the keepers of that guard, and what a keeper that
 * is then killed as well leaves behind.
 *
 * The daemon is a child subreaper too, and so next in line. It reaps such children, and ends what belongs to no keeper.
 * Not so where it has children that it did not start: those of the program that became mcpd, and all orphans of a
 * container whose first process it is. Nothing of that could be told from a server's remains.
 */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "loop/loop.h"

struct adoption;

struct adoption_callbacks {
	pid_t (*guard)(void *arg);
	/* A keeper that has its server's tree below it. */
	bool (*is_keeper)(void *arg, pid_t pid);
	/* Nothing is left that adoption_sweep() has to end. False: look again, unless this was the last time. */
	bool (*on_swept)(void *arg, bool last);
};

/* For the start of main, before anything is forked. False: what comes will be left alone. */
bool adoption_prepare(void);
struct adoption *adoption_new(struct loop *loop, bool prepared, const struct adoption_callbacks *callbacks, void *arg);
void adoption_free(struct adoption *a);
/* The guard was killed, and is reaped: from now on keepers are children of this process. */
void adoption_guard_lost(struct adoption *a);
/* A keeper was killed: ends what it left, if that has come here. on_swept follows, in a later pass. */
void adoption_sweep(struct adoption *a);
