#include "mcp/server_tasks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "loop/loop.h"
#include "proto/json_iter.h"
#include "xalloc.h"

static void remove_task(struct server_tasks *tasks, struct server_task **link)
{
	struct server_task *task = *link;
	*link = task->next;
	tasks->n--;
	free(task->id);
	free(task);
}

void server_tasks_done(struct server_tasks *tasks)
{
	while (tasks->first)
		remove_task(tasks, &tasks->first);
}

static struct server_task **find_link(struct server_tasks *tasks, struct span id)
{
	uint64_t hash = json_string_hash(id);
	struct server_task **link = &tasks->first;
	while (*link && ((*link)->hash != hash || !json_strings_equal(span_of((*link)->id), id)))
		link = &(*link)->next;
	return link;
}

static int64_t until(int64_t ttl_ms)
{
	int64_t now = loop_now_ms();
	return ttl_ms < 0 || ttl_ms > INT64_MAX - TASK_GRACE_MS - now ? 0 : now + ttl_ms + TASK_GRACE_MS;
}

int server_tasks_add(struct server_tasks *tasks, const struct task_told *told, uint64_t call, uint64_t owner,
		     bool want_progress)
{
	if (told->over)
		return 0;
	struct server_task **link = find_link(tasks, told->id);
	if (*link)
		remove_task(tasks, link); /* an id that is used again: the newer task has it */
	char *id = tasks->n < TASKS_MAX ? malloc(told->id.len + 1) : NULL;
	if (!id) {
		tasks->overflow = true;
		return -ENOMEM;
	}
	memcpy(id, told->id.ptr, told->id.len);
	id[told->id.len] = '\0';
	struct server_task *task = xnew(struct server_task);
	*task = (struct server_task){ tasks->first,        call, owner, json_string_hash(told->id), want_progress,
				      until(told->ttl_ms), id };
	tasks->first = task;
	tasks->n++;
	return 0;
}

void server_tasks_note(struct server_tasks *tasks, const struct task_told *told)
{
	struct server_task **link = find_link(tasks, told->id);
	if (!*link)
		return;
	if (told->over)
		remove_task(tasks, link);
	else if (told->ttl_ms >= 0)
		(*link)->until_ms = until(told->ttl_ms);
}

void server_tasks_cancelled(struct server_tasks *tasks, struct span id)
{
	struct server_task *task = *find_link(tasks, id);
	if (task)
		task->until_ms = loop_now_ms() + TASK_GRACE_MS;
}

void server_tasks_sweep(struct server_tasks *tasks)
{
	int64_t now = tasks->first ? loop_now_ms() : 0;
	for (struct server_task **link = &tasks->first; *link;) {
		if ((*link)->until_ms && (*link)->until_ms <= now)
			remove_task(tasks, link);
		else
			link = &(*link)->next;
	}
}

const struct server_task *server_tasks_find(struct server_tasks *tasks, struct span id)
{
	server_tasks_sweep(tasks);
	return *find_link(tasks, id);
}

const struct server_task *server_tasks_find_call(const struct server_tasks *tasks, uint64_t call)
{
	const struct server_task *task = tasks->first;
	while (task && task->call != call)
		task = task->next;
	return task;
}
