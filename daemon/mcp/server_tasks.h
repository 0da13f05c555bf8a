/*
 * The live tasks of one connection: calls whose result was a task that has not come to its end (2025-11-25 "Tasks", and
 * the modern extension). While a task lives, its client counts as having a request in flight: the server may ask it
 * something on the task's behalf (ARCHITECTURE "Sharing"), and progress comes with the token of the call.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mcp/task_messages.h"

#define TASKS_MAX 4096 /* of one connection; a further one makes that nothing can be proven from the table any more */
#define TASK_GRACE_MS 60000 /* for which a task counts behind its ttl, or behind its cancellation */

struct server_task {
	struct server_task *next;
	uint64_t call, owner, hash;
	bool want_progress;
	int64_t until_ms; /* 0: no limit is known */
	char *id;         /* JSON string */
};

struct server_tasks {
	struct server_task *first;
	size_t n;
	bool overflow; /* there were more than are kept */
};

void server_tasks_done(struct server_tasks *tasks);
/* The call has become a task. 0, or -ENOMEM, after which nothing can be proven any more either. */
int server_tasks_add(struct server_tasks *tasks, const struct task_told *told, uint64_t call, uint64_t owner,
		     bool want_progress);
/* Something was said of a task, known here or not. */
void server_tasks_note(struct server_tasks *tasks, const struct task_told *told);
/* tasks/cancel was answered: it may go on for a while (modern servers), or for good (those that refuse). */
void server_tasks_cancelled(struct server_tasks *tasks, struct span id);
/* By its id (JSON string), and by the number of its call; NULL if it is not there. Valid until the next call. */
const struct server_task *server_tasks_find(struct server_tasks *tasks, struct span id);
const struct server_task *server_tasks_find_call(const struct server_tasks *tasks, uint64_t call);
/* Forgets those whose time is up. */
void server_tasks_sweep(struct server_tasks *tasks);
