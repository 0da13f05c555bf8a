/*
 * What messages say of tasks: those of 2025-11-25 ("Tasks"), and of the extension io.modelcontextprotocol/tasks of modern
 * servers. Pure functions on spans, for all who keep account of tasks.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/span.h"
#include "transport/transport.h"

enum task_method {
	TASK_METHOD_NONE,
	TASK_METHOD_GET,
	TASK_METHOD_RESULT,
	TASK_METHOD_CANCEL,
	TASK_METHOD_LIST,
	TASK_METHOD_OTHER, /* tasks/update, and whatever else begins with tasks/ */
};
enum task_method task_method_of(struct span method);

/* One task, as a message tells it. */
struct task_told {
	struct span id; /* JSON string */
	bool over;      /* it has come to its end, or the server does not know it any more */
	int64_t ttl_ms; /* how long it is kept, from its creation; -1: not said, or without limit */
};

/* The task that a result tells of in the place of the call's own result: false if it is none. modern: of a modern
 * server. */
bool task_of_result(bool modern, struct span result, struct task_told *ret);
/* The params of notifications/tasks/status (2025-11-25) or notifications/tasks: false if it is another method. */
bool task_of_notification(struct span method, struct span params, struct task_told *ret);
/* What the answer to a request with that method, for that task (JSON string; absent for tasks/list), says: calls fn for
 * each task. */
typedef void task_told_fn(void *arg, const struct task_told *told);
void task_walk_answer(enum task_method method, struct span id, const struct transport_reply *reply, task_told_fn *fn,
		      void *arg);
/* The task that a message says it belongs to (`_meta["io.modelcontextprotocol/related-task"]`), a JSON string; absent if
 * none. */
struct span task_related(struct span params);
