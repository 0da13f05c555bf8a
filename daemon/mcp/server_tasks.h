/*
 * Calls that have become tasks at the server, for as long as somebody may want them ended: such a call is not cancelled
 * with notifications/cancelled but with tasks/cancel and the task's id (contract C5; 2025-11-25 "Tasks", and the modern
 * extension).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "proto/span.h"

#define TASKS_MAX 1024 /* of one server; the oldest is forgotten first */

struct task_entry;

struct server_tasks {
	struct task_entry *first, **last;
	size_t n;
};

void server_tasks_init(struct server_tasks *tasks);
void server_tasks_done(struct server_tasks *tasks);
/* Notes the task that a result of a call tells of, if it does. 0, or -ENOMEM. */
int server_tasks_note_result(struct server_tasks *tasks, uint64_t call, uint64_t owner, struct span result);
/* The params of notifications/tasks/status (2025-11-25) or notifications/tasks: forgets a task that has come to its
 * end. */
void server_tasks_note_status(struct server_tasks *tasks, struct span params);
/* Takes out the task of a call: its id as a JSON string, free() it; NULL if there is none. */
char *server_tasks_take(struct server_tasks *tasks, uint64_t call, uint64_t *ret_owner);
