/*
 * The tasks that the router remembers: by their ids at each instance, and by client (router/tasks.h). Sees to their
 * expiry, to their number, and that the manager knows where some are live.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "manager/server.h"
#include "mcp/server_tasks.h"

/* To be looked at; changed by the functions below. */
struct task_entry {
	struct task_entry *chain;     /* in its bucket */
	TAILQ_ENTRY(task_entry) link; /* of the same client, oldest first */
	uint64_t hash;
	uint64_t server;
	uint64_t owner; /* the one client of the instance, or 0 */
	uint64_t client;
	int64_t until_ms; /* 0: no limit is known */
	bool over;
	struct span id;    /* JSON string */
	struct span token; /* the client's progress token, or absent */
	char text[];
};

struct task_table;

/* grace_ms: how long a task is remembered behind its ttl. */
struct task_table *task_table_new(struct loop *loop, struct manager *manager, int64_t grace_ms);
void task_table_free(struct task_table *table); /* takes NULL; it is empty */
/* The task of that id (JSON string) at an instance, or NULL. */
struct task_entry *task_table_find(const struct task_table *table, uint64_t server, uint64_t owner, struct span id);
/* The client's oldest, or NULL. */
struct task_entry *task_table_first(const struct task_table *table, uint64_t client);
/* Whether there is, or can be made, room for one more of the client's (maxTasksPerClient): by forgetting its oldest that
 * is over, which is done with `forget`. */
bool task_table_has_room(struct task_table *table, uint64_t client, bool forget);
/* A new task, in the place of what had its id. token: the client's, or absent. NULL if there is no memory for it. */
struct task_entry *task_table_add(struct task_table *table, uint64_t client, uint64_t server, uint64_t owner,
				  const struct task_told *told, struct span token);
/* What was said of a task. */
void task_table_note(struct task_table *table, struct task_entry *e, const struct task_told *told);
void task_table_forget(struct task_table *table, struct task_entry *e);
/* Forgets those for which it is true. */
typedef bool task_entry_fn(const struct task_entry *e, void *arg);
void task_table_forget_where(struct task_table *table, task_entry_fn *is, void *arg);
