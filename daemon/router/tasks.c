#include "router/tasks.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "proto/json_iter.h"
#include "proto/jsonrpc.h"
#include "router/task_table.h"
#include "xalloc.h"

#define SCRATCH_KEPT 65536

struct tasks {
	struct manager *manager;
	struct calls *calls;
	const struct clients *clients;
	struct task_table *table;
	struct buf scratch;         /* a list on its way to its client ... */
	struct transport_reply cut; /* ... and the reply that it is in */
};

/* A request whose answer may say something of tasks. */
struct watch {
	struct tasks *tasks;
	uint64_t owner;
	enum task_method method;
	bool asked;     /* for a task, in the way of 2025-11-25 */
	struct span id; /* of the task that it is about, or absent */
	char text[];
};

static const struct transport_reply unknown_task = {
	.code = MCPD_E_INVALID_PARAMS,
	.message =
		"This client has no such task at the server: the id is not one of its own, or the task has expired, or "
		"has ended with the server's process",
};
static const struct transport_reply too_many = {
	.code = MCPD_E_LIMIT,
	.limit = LIMIT_TASKS,
	.message =
		"All tasks that this client may have (maxTasksPerClient) are live: cancel one, or wait for the end of "
		"one",
};

struct tasks *tasks_new(struct loop *loop, struct manager *manager, struct calls *calls, const struct clients *clients)
{
	struct tasks *tasks = xnew(struct tasks);
	tasks->manager = manager;
	tasks->calls = calls;
	tasks->clients = clients;
	tasks->table = task_table_new(loop, manager, TASK_GRACE_MS);
	return tasks;
}

void tasks_free(struct tasks *tasks)
{
	if (!tasks)
		return;
	task_table_free(tasks->table);
	buf_done(&tasks->scratch);
	free(tasks);
}

/* ---- what is said of tasks ---- */

static void note(struct tasks *tasks, uint64_t server, uint64_t owner, const struct task_told *told)
{
	struct task_entry *e = task_table_find(tasks->table, server, owner, told->id);
	if (e)
		task_table_note(tasks->table, e, told);
}

/* Ends a task at its server, as the daemon's own request; nobody waits for the answer. */
static void cancel_at_server(struct tasks *tasks, struct server *server, uint64_t owner, struct span id)
{
	struct buf params = BUF_INIT;
	buf_add_text(&params, "{\"taskId\":");
	buf_add_span(&params, id);
	buf_add_char(&params, '}');
	struct call_options options = {
		.client = owner,
		.server = server,
		.method = JSONRPC_METHOD("tasks/cancel"),
		.params = buf_span(&params),
		.timeout_ms = -1,
		.this_process = true,
	};
	if (buf_failed(&params) || !calls_start(tasks->calls, &options))
		log_warning("server %s: out of memory for cancelling a task", server_name(server));
	buf_done(&params);
}

/* The answer to a call that may have become a task. */
static const struct transport_reply *note_created(const struct watch *w, const struct call_info *info,
						  const struct transport_reply *reply)
{
	struct tasks *tasks = w->tasks;
	struct server *server = reply->code == 0 ? manager_by_id(tasks->manager, info->server) : NULL;
	struct server_info now;
	struct task_told told;
	if (!server)
		return reply;
	server_get_info(server, &now);
	bool modern = now.facts && now.facts->era == MCP_ERA_MODERN;
	if (!now.facts || !now.facts->has_tasks || !(modern || w->asked) ||
	    !task_of_result(modern, reply->result, &told))
		return reply;
	bool known = clients_known(tasks->clients, info->client);
	if (known && task_table_has_room(tasks->table, info->client, true) &&
	    task_table_add(tasks->table, info->client, info->server, w->owner, &told, info->token))
		return reply;
	/* Nobody could ever ask for it. */
	if (!told.over && (known || !w->owner))
		cancel_at_server(tasks, server, w->owner, told.id);
	return known ? &too_many : reply;
}

struct at {
	struct tasks *tasks;
	uint64_t server, owner;
};

static void note_told(void *arg, const struct task_told *told)
{
	const struct at *at = arg;
	note(at->tasks, at->server, at->owner, told);
}

static bool is_own(const struct tasks *tasks, const struct call_info *info, uint64_t owner, struct span task)
{
	struct span id = json_member(task, "taskId");
	const struct task_entry *e = NULL;
	if (json_type_of(id) == JSON_STRING)
		e = task_table_find(tasks->table, info->server, owner, id);
	return e && e->client == info->client;
}

/* The result of tasks/list with the client's own tasks alone, all other bytes as they are. */
static void write_own(const struct watch *w, const struct call_info *info, struct span result, struct buf *out)
{
	struct json_iter it, elements;
	struct span key, value, element;
	const char *from = result.ptr;
	buf_reset(out);
	json_iter_init(&it, result);
	while (json_iter_member(&it, &key, &value)) {
		if (!json_string_is(key, "tasks"))
			continue;
		const char *comma = "";
		buf_add(out, from, (size_t)(value.ptr - from));
		buf_add_char(out, '[');
		json_iter_init(&elements, value);
		while (json_iter_element(&elements, &element)) {
			if (!is_own(w->tasks, info, w->owner, element))
				continue;
			buf_add_text(out, comma);
			buf_add_span(out, element);
			comma = ",";
		}
		buf_add_char(out, ']');
		from = value.ptr + value.len;
	}
	buf_add(out, from, (size_t)(result.ptr + result.len - from));
}

static const struct transport_reply *cut_list(const struct watch *w, const struct call_info *info,
					      const struct transport_reply *reply)
{
	static const struct transport_reply no_memory = { .code = MCPD_E_INTERNAL, .message = "out of memory" };
	struct transport_reply *cut = &w->tasks->cut;
	struct buf *out = &w->tasks->scratch;
	if (reply->code != 0)
		return reply;
	write_own(w, info, reply->result, out);
	if (buf_failed(out)) {
		buf_done(out);
		return &no_memory;
	}
	*cut = *reply;
	cut->result = buf_span(out);
	return cut;
}

static const struct transport_reply *on_end(void *arg, const struct call_info *info,
					    const struct transport_reply *reply)
{
	struct watch *w = arg;
	struct at at = { w->tasks, info->server, w->owner };
	task_walk_answer(w->method, w->id, reply, note_told, &at);
	if (w->method == TASK_METHOD_NONE)
		reply = note_created(w, info, reply);
	else if (w->method == TASK_METHOD_LIST)
		reply = cut_list(w, info, reply);
	else if (w->method == TASK_METHOD_CANCEL && reply->code == 0)
		/* Modern servers do not say when it ends; nobody waits for it any more. */
		note(at.tasks, at.server, at.owner, &(struct task_told){ .id = w->id, .over = true, .ttl_ms = -1 });
	free(w);
	return reply;
}

/* ---- requests ---- */

/* Sends it, with an eye on the answer. */
static uint64_t start_watched(struct tasks *tasks, const struct call_options *o, uint64_t owner,
			      enum task_method method, struct span id)
{
	/* The client controls the size. */
	struct watch *w = calloc(1, sizeof *w + id.len);
	if (!w)
		return 0;
	w->tasks = tasks;
	w->owner = owner;
	w->method = method;
	w->asked = json_member(o->params, "task").ptr != NULL;
	if (id.ptr)
		w->id = (struct span){ memcpy(w->text, id.ptr, id.len), id.len };
	struct call_options options = *o;
	options.this_process = id.ptr != NULL;
	options.watch = on_end;
	options.watch_arg = w;
	uint64_t row = calls_start(tasks->calls, &options);
	if (!row)
		free(w);
	return row;
}

static bool is_at(const struct task_entry *e, void *server)
{
	return e->server == *(uint64_t *)server;
}

/* A request about one task. */
static uint64_t start_about(struct tasks *tasks, const struct call_options *o, const struct server_info *info,
			    uint64_t owner, enum task_method method, struct span id)
{
	/* Its process has ended, and with it what it knew. */
	uint64_t server = server_id(o->server);
	if (info->state != SERVER_CONNECTED)
		task_table_forget_where(tasks->table, is_at, &server);
	const struct task_entry *e = task_table_find(tasks->table, server, owner, id);
	if (!e || e->client != o->client)
		return calls_start_settled(tasks->calls, o, &unknown_task);
	return start_watched(tasks, o, owner, method, id);
}

/* Whether the server may make a task of a request, now or when it has been connected. */
static bool may_make_tasks(const struct mcp_server_facts *facts, bool asked)
{
	return !facts || (facts->has_tasks && (asked || facts->era == MCP_ERA_MODERN));
}

static uint64_t start_other(struct tasks *tasks, const struct call_options *o)
{
	const struct mcp_server_facts *facts = server_facts(o->server);
	if (facts && !facts->has_tasks)
		return calls_start(tasks->calls, o);
	bool asks = json_member(o->params, "task").ptr != NULL;
	if (!may_make_tasks(facts, asks))
		return calls_start(tasks->calls, o);
	if (asks && !task_table_has_room(tasks->table, o->client, false))
		return calls_start_settled(tasks->calls, o, &too_many);
	struct server_info info;
	server_get_info(o->server, &info);
	return start_watched(tasks, o, info.config->sharing == CONFIG_SHARED ? 0 : o->client, TASK_METHOD_NONE,
			     SPAN_NONE);
}

uint64_t tasks_start(struct tasks *tasks, const struct call_options *o)
{
	enum task_method method = task_method_of(o->method);
	struct server_info info;
	if (tasks->scratch.cap > SCRATCH_KEPT)
		buf_done(&tasks->scratch);
	if (method == TASK_METHOD_NONE)
		return start_other(tasks, o);
	server_get_info(o->server, &info);
	uint64_t owner = info.config->sharing == CONFIG_SHARED ? 0 : o->client;
	struct span id = json_member(o->params, "taskId");
	if (method == TASK_METHOD_LIST)
		return start_watched(tasks, o, owner, method, SPAN_NONE);
	if (json_type_of(id) == JSON_STRING)
		return start_about(tasks, o, &info, owner, method, id);
	return calls_start(tasks->calls, o); /* what the server says to a request about nothing */
}

/* ---- ends ---- */

void tasks_client_gone(struct tasks *tasks, uint64_t client)
{
	for (struct task_entry *e; (e = task_table_first(tasks->table, client));) {
		/* An instance of the client's own ends with it. */
		struct server *server = e->over || e->owner ? NULL : manager_by_id(tasks->manager, e->server);
		if (server)
			cancel_at_server(tasks, server, 0, e->id);
		task_table_forget(tasks->table, e);
	}
}

void tasks_release(struct tasks *tasks, uint64_t client, uint64_t server)
{
	for (struct task_entry *e = task_table_first(tasks->table, client), *next; e; e = next) {
		next = TAILQ_NEXT(e, link);
		if (e->server == server)
			task_table_forget(tasks->table, e);
	}
}

struct instance_key {
	uint64_t server, owner;
};

static bool is_of_instance(const struct task_entry *e, void *arg)
{
	const struct instance_key *key = arg;
	return e->server == key->server && e->owner == key->owner;
}

void tasks_on_reconnected(struct tasks *tasks, struct server *server, uint64_t owner)
{
	struct instance_key key = { server_id(server), owner };
	task_table_forget_where(tasks->table, is_of_instance, &key);
}

static bool has_no_server(const struct task_entry *e, void *manager)
{
	return !manager_by_id(manager, e->server);
}

void tasks_on_server_removed(struct tasks *tasks)
{
	task_table_forget_where(tasks->table, has_no_server, tasks->manager);
}

/* ---- what comes from servers ---- */

bool tasks_on_notification(struct tasks *tasks, struct server *server, uint64_t owner, struct span method,
			   struct span params, uint64_t *ret_client)
{
	struct task_told told;
	bool is_status = task_of_notification(method, params, &told);
	struct span id = is_status ? told.id : task_related(params);
	*ret_client = 0;
	if (is_status)
		note(tasks, server_id(server), owner, &told);
	const struct task_entry *e = id.ptr ? task_table_find(tasks->table, server_id(server), owner, id) : NULL;
	if (e)
		*ret_client = e->client;
	return e || !is_status;
}

uint64_t tasks_progress(struct tasks *tasks, struct server *server, uint64_t owner, struct span id, struct span params,
			struct buf *out)
{
	const struct task_entry *e = task_table_find(tasks->table, server_id(server), owner, id);
	if (!e || !e->token.ptr)
		return 0;
	calls_write_progress(out, params, e->token);
	return buf_failed(out) ? 0 : e->client;
}

struct server *tasks_server(struct tasks *tasks, uint64_t client, struct span id)
{
	uint64_t found = 0;
	for (const struct task_entry *e = task_table_first(tasks->table, client); e; e = TAILQ_NEXT(e, link)) {
		if (!json_strings_equal(e->id, id))
			continue;
		if (found && found != e->server)
			return NULL;
		found = e->server;
	}
	return found ? manager_by_id(tasks->manager, found) : NULL;
}
