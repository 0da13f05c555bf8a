#include "mcp/task_messages.h"

#include <stdlib.h>
#include <string.h>

#include "proto/json_iter.h"

/* Asked of every request's method. */
static bool begins_with_tasks(struct span method)
{
	static const char prefix[] = "\"tasks/";
	if (!memchr(method.ptr, '\\', method.len))
		return method.len > strlen(prefix) && memcmp(method.ptr, prefix, strlen(prefix)) == 0;
	char *name = json_string_dup(method);
	bool begins = name && strncmp(name, prefix + 1, strlen(prefix + 1)) == 0;
	free(name);
	return begins;
}

enum task_method task_method_of(struct span method)
{
	static const struct {
		const char *name;
		enum task_method method;
	} table[] = {
		{ "tasks/get", TASK_METHOD_GET },
		{ "tasks/result", TASK_METHOD_RESULT },
		{ "tasks/cancel", TASK_METHOD_CANCEL },
		{ "tasks/list", TASK_METHOD_LIST },
	};
	if (!begins_with_tasks(method))
		return TASK_METHOD_NONE;
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		if (json_string_is(method, table[i].name))
			return table[i].method;
	return TASK_METHOD_OTHER;
}

static struct span string_member(struct span object, const char *name)
{
	struct span value = json_member(object, name);
	return json_type_of(value) == JSON_STRING ? value : SPAN_NONE;
}

static bool is_terminal(struct span status)
{
	return json_string_is(status, "completed") || json_string_is(status, "failed") ||
	       json_string_is(status, "cancelled");
}

/* The task object; false if it has no id. */
static bool read_task(struct span task, struct task_told *ret)
{
	struct span ttl = json_member(task, "ttl");
	if (!ttl.ptr)
		ttl = json_member(task, "ttlMs");
	ret->id = string_member(task, "taskId");
	ret->over = is_terminal(json_member(task, "status"));
	if (json_type_of(ttl) != JSON_NUMBER || json_int64(ttl, &ret->ttl_ms) < 0 || ret->ttl_ms < 0)
		ret->ttl_ms = -1;
	return ret->id.ptr != NULL;
}

bool task_of_result(bool modern, struct span result, struct task_told *ret)
{
	if (!modern)
		return read_task(json_member(result, "task"), ret);
	return json_string_is(json_member(result, "resultType"), "task") && read_task(result, ret);
}

bool task_of_notification(struct span method, struct span params, struct task_told *ret)
{
	return (json_string_is(method, "notifications/tasks/status") ||
		json_string_is(method, "notifications/tasks")) &&
	       read_task(params, ret);
}

static void walk_list(struct span result, task_told_fn *fn, void *arg)
{
	struct json_iter it;
	struct span element;
	struct task_told told;
	json_iter_init(&it, json_member(result, "tasks"));
	while (json_iter_element(&it, &element))
		if (read_task(element, &told))
			fn(arg, &told);
}

void task_walk_answer(enum task_method method, struct span id, const struct transport_reply *reply, task_told_fn *fn,
		      void *arg)
{
	struct task_told told = { .id = id, .ttl_ms = -1 };
	bool refused = reply->code == MCPD_E_SERVER;
	int64_t code = 0;
	if (refused)
		json_int64(json_member(reply->error, "code"), &code);
	switch (method) {
	case TASK_METHOD_GET:
	case TASK_METHOD_CANCEL:
		/* A modern server's answer to tasks/cancel says nothing. */
		if (reply->code == 0 && json_type_of(json_member(reply->result, "status")) == JSON_STRING) {
			read_task(reply->result, &told);
			told.id = id;
			fn(arg, &told);
		} else if (code == MCPD_E_INVALID_PARAMS) {
			told.over = true; /* or long forgotten */
			fn(arg, &told);
		}
		break;
	case TASK_METHOD_RESULT:
		/* It is answered at the task's end, with what the call would have been answered with. */
		told.over = reply->code == 0 || refused;
		if (told.over)
			fn(arg, &told);
		break;
	case TASK_METHOD_LIST:
		if (reply->code == 0)
			walk_list(reply->result, fn, arg);
		break;
	default:
		break;
	}
}

struct span task_related(struct span params)
{
	return string_member(json_path(params, "_meta", "io.modelcontextprotocol/related-task", NULL), "taskId");
}
