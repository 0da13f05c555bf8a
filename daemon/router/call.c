#include "router/call.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "idmap.h"
#include "proto/buf.h"
#include "proto/json_iter.h"
#include "xalloc.h"

/* A name that is longer is left out of events: it is not one that anybody reads. */
#define NAME_BYTES_MAX 1024

struct row {
	struct calls *calls;
	struct row *next, *prev; /* of the same client */
	struct row *next_settled;
	struct call_info info;
	int64_t started_us;
	char *new_token;                       /* what info.token is, once it was exchanged */
	const struct transport_reply *settled; /* of a row that asks no server */
	call_watch_fn *watch;
	call_done_fn *done;
	void (*progress)(void *arg, struct span params);
	void *watch_arg, *arg;
	char text[]; /* what the spans of info point to */
};

/* One client's rows; made with its first row, gone with its last. */
struct asker {
	uint64_t id;
	struct row *rows;
};

struct calls {
	struct manager *manager;
	struct idmap rows, askers;
	uint64_t last_row;
	unsigned tombstones;
	struct row *settled, **settled_tail;
	struct task *settle;
	struct buf scratch; /* progress on its way */
	call_done_fn *on_end;
	void *arg;
};

static void run_settled(void *arg);

struct calls *calls_new(struct loop *loop, struct manager *manager, call_done_fn *on_end, void *arg)
{
	struct calls *calls = xnew(struct calls);
	calls->manager = manager;
	calls->settled_tail = &calls->settled;
	calls->settle = task_new(loop, run_settled, calls);
	calls->on_end = on_end;
	calls->arg = arg;
	return calls;
}

void calls_free(struct calls *calls)
{
	if (!calls)
		return;
	assert(calls->rows.count == 0 && calls->askers.count == 0);
	task_free(calls->settle);
	idmap_done(&calls->rows);
	idmap_done(&calls->askers);
	buf_done(&calls->scratch);
	free(calls);
}

static void link_row(struct row *row)
{
	struct calls *calls = row->calls;
	idmap_put(&calls->rows, row->info.row, row);
	struct asker *asker = idmap_get(&calls->askers, row->info.client);
	if (!row->info.client)
		return;
	if (!asker) {
		asker = xnew(struct asker);
		asker->id = row->info.client;
		idmap_put(&calls->askers, asker->id, asker);
	}
	row->next = asker->rows;
	if (row->next)
		row->next->prev = row;
	asker->rows = row;
}

/* Takes the row out of its client's list. */
static void unlink_from_asker(struct row *row)
{
	struct asker *asker = idmap_get(&row->calls->askers, row->info.client);
	if (!asker || row->info.client_gone)
		return;
	if (row->next)
		row->next->prev = row->prev;
	if (row->prev)
		row->prev->next = row->next;
	else
		asker->rows = row->next;
	row->next = row->prev = NULL;
	if (asker->rows)
		return;
	idmap_remove(&row->calls->askers, asker->id);
	free(asker);
}

/* The one end of a row. */
static void end_row(void *arg, const struct transport_reply *reply)
{
	struct row *row = arg;
	struct calls *calls = row->calls;
	unlink_from_asker(row);
	idmap_remove(&calls->rows, row->info.row);
	calls->tombstones -= row->info.client_gone;
	row->info.duration_us = loop_now_us() - row->started_us;
	row->info.duration_ms = row->info.duration_us / 1000;
	if (row->watch)
		reply = row->watch(row->watch_arg, &row->info, reply);
	row->info.outcome = row->info.client_gone ? OUTCOME_CLIENT_GONE : mcpd_outcome_of(reply->code);
	if (row->done)
		row->done(row->arg, &row->info, reply);
	if (calls->on_end)
		calls->on_end(calls->arg, &row->info, reply);
	free(row->new_token);
	free(row);
}

const struct transport_reply calls_nothing = { .result = { "{}", 2 } };

void calls_write_progress(struct buf *out, struct span params, struct span token)
{
	struct json_iter it;
	struct span key, value;
	const char *from = params.ptr;
	buf_reset(out);
	json_iter_init(&it, params);
	while (json_iter_member(&it, &key, &value)) {
		if (!json_string_is(key, "progressToken"))
			continue;
		buf_add(out, from, (size_t)(value.ptr - from));
		buf_add_span(out, token);
		from = value.ptr + value.len;
	}
	buf_add(out, from, (size_t)(params.ptr + params.len - from));
}

static void tell_progress(struct row *row, struct span params)
{
	struct buf *scratch = &row->calls->scratch;
	/* Progress is worth less than the call: where there is no memory to tell it, it is not told. */
	if (!buf_failed(scratch))
		row->progress(row->arg, params);
	buf_done(scratch);
}

static void on_progress(void *arg, struct span params)
{
	struct row *row = arg;
	struct buf *scratch = &row->calls->scratch;
	if (!row->progress || !row->info.token.ptr)
		return;
	calls_write_progress(scratch, params, row->info.token);
	tell_progress(row, buf_span(scratch));
}

/* A place in the queue of an exclusive server is told as progress too, counting up to zero, where the server's own
 * begins. */
static void on_queued(void *arg, unsigned position)
{
	struct row *row = arg;
	row->info.queue_position = position;
	if (!row->progress || !row->info.token.ptr || position == 0)
		return;
	struct buf *out = &row->calls->scratch;
	buf_reset(out);
	buf_add_text(out, "{\"progressToken\":");
	buf_add_span(out, row->info.token);
	buf_addf(out, ",\"progress\":-%u,\"message\":", position);
	char message[256];
	if (position == 1)
		snprintf(message, sizeof message, "waiting for %s: next in turn", row->info.server_name);
	else
		snprintf(message, sizeof message, "waiting for %s: place %u in the queue", row->info.server_name,
			 position);
	buf_add_json_text(out, message);
	buf_add_char(out, '}');
	tell_progress(row, buf_span(out));
}

static void on_resent(void *arg)
{
	struct row *row = arg;
	row->info.resent = true;
}

static struct span keep(char **at, struct span text)
{
	if (!text.ptr)
		return text;
	memcpy(*at, text.ptr, text.len);
	struct span kept = { *at, text.len };
	*at += text.len;
	return kept;
}

static struct row *new_row(struct calls *calls, const struct call_options *o)
{
	struct span kept_name = span_of(server_name(o->server));
	struct span label = span_of(o->client_label ? o->client_label : "");
	struct span name = o->name.len <= NAME_BYTES_MAX ? o->name : SPAN_NONE;
	/* The peer controls these sizes: no xalloc. */
	struct row *row =
		calloc(1, sizeof *row + kept_name.len + 1 + label.len + 1 + o->method.len + name.len + o->token.len);
	if (!row)
		return NULL;
	char *at = row->text;
	row->calls = calls;
	row->info.row = ++calls->last_row;
	row->info.client = o->client;
	row->info.account = o->account;
	row->info.server = server_id(o->server);
	row->info.server_name = keep(&at, kept_name).ptr;
	at++;
	row->info.client_label = keep(&at, label).ptr;
	at++;
	row->info.method = keep(&at, o->method);
	row->info.name = keep(&at, name);
	row->info.token = keep(&at, o->token);
	row->started_us = loop_now_us();
	row->watch = o->watch;
	row->watch_arg = o->watch_arg;
	row->done = o->done;
	row->progress = o->progress;
	row->arg = o->arg;
	link_row(row);
	return row;
}

uint64_t calls_start(struct calls *calls, const struct call_options *o)
{
	struct row *row = new_row(calls, o);
	if (!row)
		return 0;
	struct server_call_options options = {
		.client = o->client,
		.method = o->method,
		.params = o->params,
		.timeout_ms = o->timeout_ms,
		.want_progress = o->token.ptr != NULL,
		.log_level = o->log_level,
		.kept = o->kept,
		.relay_input_required = o->relay_input_required,
		.this_process = o->this_process,
		.done = end_row,
		.progress = on_progress,
		.queued = on_queued,
		.resent = on_resent,
		.arg = row,
	};
	uint64_t id = row->info.row;
	row->info.upstream = server_call(o->server, &options);
	return id;
}

uint64_t calls_start_settled(struct calls *calls, const struct call_options *o, const struct transport_reply *reply)
{
	struct row *row = new_row(calls, o);
	if (!row)
		return 0;
	row->settled = reply;
	*calls->settled_tail = row;
	calls->settled_tail = &row->next_settled;
	task_schedule(calls->settle);
	return row->info.row;
}

static void run_settled(void *arg)
{
	struct calls *calls = arg;
	struct row *row = calls->settled;
	calls->settled = NULL;
	calls->settled_tail = &calls->settled;
	while (row) {
		struct row *next = row->next_settled;
		end_row(row, row->settled);
		row = next;
	}
}

void calls_set_token(struct calls *calls, uint64_t id, struct span token)
{
	struct row *row = idmap_get(&calls->rows, id);
	char *copy = row && token.ptr ? strndup(token.ptr, token.len) : NULL;
	if (!row)
		return;
	free(row->new_token);
	row->new_token = copy;
	row->info.token = span_of(copy);
}

static void cancel_upstream(struct row *row, const char *reason)
{
	struct manager *manager = row->calls->manager;
	struct server *server = row->settled ? NULL : manager_by_id(manager, row->info.server);
	if (server)
		server_cancel(server, row->info.upstream, reason);
}

void calls_cancel(struct calls *calls, uint64_t id, const char *reason)
{
	struct row *row = idmap_get(&calls->rows, id);
	if (row && !row->info.client_gone)
		cancel_upstream(row, reason);
}

uint64_t calls_find(const struct calls *calls, uint64_t client, uint64_t server, uint64_t upstream)
{
	const struct asker *asker = idmap_get(&calls->askers, client);
	const struct row *row = asker && upstream ? asker->rows : NULL;
	while (row && (row->info.server != server || row->info.upstream != upstream))
		row = row->next;
	return row ? row->info.row : 0;
}

void calls_client_gone(struct calls *calls, uint64_t client)
{
	struct asker *asker = idmap_remove(&calls->askers, client);
	if (!asker)
		return;
	struct row *row = asker->rows;
	free(asker);
	while (row) {
		struct row *next = row->next;
		row->next = row->prev = NULL;
		row->info.client_gone = true;
		row->done = NULL;
		row->progress = NULL;
		calls->tombstones++;
		cancel_upstream(row, "the client has gone");
		row = next;
	}
}

unsigned calls_count(const struct calls *calls)
{
	return (unsigned)calls->rows.count - calls->tombstones;
}
