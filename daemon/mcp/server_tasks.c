#include "mcp/server_tasks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/json_iter.h"
#include "xalloc.h"

struct task_entry {
	uint64_t call, owner;
	char *id; /* JSON string */
	struct task_entry *next;
};

void server_tasks_init(struct server_tasks *tasks)
{
	*tasks = (struct server_tasks){ .last = &tasks->first };
}

static void remove_entry(struct server_tasks *tasks, struct task_entry **link)
{
	struct task_entry *entry = *link;
	*link = entry->next;
	if (!entry->next)
		tasks->last = link;
	tasks->n--;
	free(entry->id);
	free(entry);
}

void server_tasks_done(struct server_tasks *tasks)
{
	while (tasks->first)
		remove_entry(tasks, &tasks->first);
}

/* {"task": {"taskId": ..}} of 2025-11-25, or {"resultType": "task", "taskId": ..}. */
static struct span task_id(struct span result)
{
	struct span id = json_path(result, "task", "taskId", NULL);
	if (!id.ptr && json_string_is(json_member(result, "resultType"), "task"))
		id = json_member(result, "taskId");
	return json_type_of(id) == JSON_STRING ? id : SPAN_NONE;
}

int server_tasks_note_result(struct server_tasks *tasks, uint64_t call, uint64_t owner, struct span result)
{
	struct span id = task_id(result);
	if (!id.ptr)
		return 0;
	char *copy = malloc(id.len + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, id.ptr, id.len);
	copy[id.len] = '\0';
	if (tasks->n == TASKS_MAX)
		remove_entry(tasks, &tasks->first);
	struct task_entry *entry = xnew(struct task_entry);
	*entry = (struct task_entry){ .call = call, .owner = owner, .id = copy };
	*tasks->last = entry;
	tasks->last = &entry->next;
	tasks->n++;
	return 0;
}

static bool is_terminal(struct span status)
{
	return json_string_is(status, "completed") || json_string_is(status, "failed") ||
	       json_string_is(status, "cancelled");
}

void server_tasks_note_status(struct server_tasks *tasks, struct span params)
{
	struct span id = json_member(params, "taskId");
	if (!id.ptr || !is_terminal(json_member(params, "status")))
		return;
	for (struct task_entry **link = &tasks->first; *link; link = &(*link)->next) {
		if (!json_strings_equal(span_of((*link)->id), id))
			continue;
		remove_entry(tasks, link);
		return;
	}
}

char *server_tasks_take(struct server_tasks *tasks, uint64_t call, uint64_t *ret_owner)
{
	struct task_entry **link = &tasks->first;
	while (*link && (*link)->call != call)
		link = &(*link)->next;
	if (!*link)
		return NULL;
	char *id = (*link)->id;
	*ret_owner = (*link)->owner;
	(*link)->id = NULL;
	remove_entry(tasks, link);
	return id;
}
