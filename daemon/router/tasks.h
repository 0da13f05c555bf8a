/*
 * Calls that have become tasks (MCP 2025-11-25 "Tasks", and the extension io.modelcontextprotocol/tasks of modern
 * servers): a task belongs to the client whose call made it (PROTOCOL "mcp/request").
 *
 * A request about a task (tasks/get, tasks/result, tasks/cancel, tasks/update, ..) goes to its server for its own client
 * alone, and only to the process that has the task; for everybody else, and for ids that are not known here, there is no
 * such task. Lists and notifications are cut down to the client's own. Tasks end with their client (tasks/cancel, C5)
 * and with the server's process.
 *
 * A task is remembered, also when it has come to its end, until its ttl has run out by TASK_GRACE_MS. A client has
 * maxTasksPerClient at most: for a new one its oldest that has ended is forgotten. Where all are live, a call that asks
 * for a task is refused; one that becomes a task all the same is answered with the refusal, and the task is cancelled.
 * While there are live tasks an idle stop waits.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/buf.h"
#include "router/call.h"
#include "router/clients.h"

struct tasks;

struct tasks *tasks_new(struct loop *loop, struct manager *manager, struct calls *calls, const struct clients *clients);
void tasks_free(struct tasks *tasks); /* takes NULL; after calls_free() */
/* A client's request, of whatever method: as calls_start(). */
uint64_t tasks_start(struct tasks *tasks, const struct call_options *options);
void tasks_client_gone(struct tasks *tasks, uint64_t client);
/* Forgets what the client has at this server (an exclusive one that it gives up). */
void tasks_release(struct tasks *tasks, uint64_t client, uint64_t server);
/* As in struct manager_callbacks. */
void tasks_on_reconnected(struct tasks *tasks, struct server *server, uint64_t owner);
void tasks_on_server_removed(struct tasks *tasks);
/* Takes note of what a notification says of a task. False: it is about a task that is nobody's. *ret_client is the one
 * client it can be for, 0 where it belongs to no task. */
bool tasks_on_notification(struct tasks *tasks, struct server *server, uint64_t owner, struct span method,
			   struct span params, uint64_t *ret_client);
/* Progress of a task (JSON string): the client it is for, and its params with that client's token in them; 0 for
 * nobody. */
uint64_t tasks_progress(struct tasks *tasks, struct server *server, uint64_t owner, struct span id, struct span params,
			struct buf *out);
/* The server that has the client's task of this id (JSON string): NULL if there is none, or if several have one. */
struct server *tasks_server(struct tasks *tasks, uint64_t client, struct span id);
