#include "manager/listen.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "manager/instance.h"
#include "manager/server_private.h"
#include "proto/buf.h"
#include "proto/json_iter.h"
#include "proto/jsonrpc.h"
#include "xalloc.h"

/* A request at the server. Lives until that has ended. */
struct listen_stream {
	struct instance *inst;
	uint64_t call;
	bool deaf; /* the server honours nothing of it */
};

struct listen_uri {
	TAILQ_ENTRY(listen_uri) link;
	uint64_t hash;
	bool wanted;  /* by the floors above */
	bool asked;   /* it is in the next stream */
	bool current; /* it is in the current one */
	bool held;    /* the server has acknowledged it once */
	char text[];  /* JSON string */
};

/* A subscribe that waits for the acknowledgment of its URI. */
struct listen_wait {
	TAILQ_ENTRY(listen_wait) link;
	struct server_call *call;
	struct listen_uri *uri;
};

static void on_change(void *arg);
static void on_ack_timeout(void *arg);

void listen_init(struct instance *inst)
{
	struct listen *l = &inst->listen;
	TAILQ_INIT(&l->uris);
	TAILQ_INIT(&l->waits);
	l->change_timer = timer_new(inst->m->loop, on_change, inst);
	l->ack_timer = timer_new(inst->m->loop, on_ack_timeout, inst);
}

static void free_uri(struct listen *l, struct listen_uri *uri)
{
	TAILQ_REMOVE(&l->uris, uri, link);
	free(uri);
}

void listen_done(struct instance *inst)
{
	struct listen *l = &inst->listen;
	for (struct listen_uri *uri; (uri = TAILQ_FIRST(&l->uris));)
		free_uri(l, uri);
	timer_free(l->change_timer);
	timer_free(l->ack_timer);
	l->change_timer = l->ack_timer = NULL;
}

/* ---- subscribes that wait ---- */

static void free_wait(struct instance *inst, struct listen_wait *wait)
{
	TAILQ_REMOVE(&inst->listen.waits, wait, link);
	free(wait);
}

/* Ends one: with {}, or with the failure. */
static void end_wait(struct instance *inst, struct listen_wait *wait, const struct transport_reply *failure)
{
	struct server_call *call = wait->call;
	free_wait(inst, wait);
	if (failure)
		server_call_fail(call, failure);
	else
		server_call_settle(call);
	if (inst->lane)
		lane_check_idle(inst->lane);
}

void listen_forget(struct instance *inst, const struct server_call *call)
{
	struct listen_wait *wait;
	TAILQ_FOREACH(wait, &inst->listen.waits, link)
	if (wait->call == call) {
		free_wait(inst, wait);
		return;
	}
}

/* uri NULL: all of them. */
static void end_waits(struct instance *inst, const struct listen_uri *uri, const struct transport_reply *failure)
{
	for (struct listen_wait *wait = TAILQ_FIRST(&inst->listen.waits), *next; wait; wait = next) {
		next = TAILQ_NEXT(wait, link);
		if (!uri || wait->uri == uri)
			end_wait(inst, wait, failure);
	}
}

void listen_stop(struct instance *inst)
{
	struct listen *l = &inst->listen;
	timer_cancel(l->change_timer);
	timer_cancel(l->ack_timer);
	end_waits(inst, NULL, &(struct transport_reply){ .code = MCPD_E_TRANSPORT, .message = "Transport closed" });
}

/* ---- the set of URIs ---- */

static struct listen_uri *find_uri(const struct listen *l, struct span text, uint64_t hash)
{
	struct listen_uri *uri;
	TAILQ_FOREACH(uri, &l->uris, link)
	if (uri->hash == hash && json_strings_equal(span_of(uri->text), text))
		return uri;
	return NULL;
}

/* NULL if there is no memory for it. */
static struct listen_uri *add_uri(struct listen *l, struct span text, uint64_t hash)
{
	struct listen_uri *uri = calloc(1, sizeof *uri + text.len + 1);
	if (!uri)
		return NULL;
	memcpy(uri->text, text.ptr, text.len);
	uri->hash = hash;
	TAILQ_INSERT_TAIL(&l->uris, uri, link);
	return uri;
}

/* Moves the clock of the next change, unless that is due sooner. */
static void change_in(struct listen *l, int64_t ms)
{
	int64_t due_ms = loop_now_ms() + ms;
	if (timer_is_set(l->change_timer) && l->change_ms <= due_ms)
		return;
	l->change_ms = due_ms;
	timer_set(l->change_timer, due_ms);
}

/* Frees what nobody wants and no stream has, and sees to it that the streams become what is wanted. (What has been
 * acknowledged once is opened again by the watch, with its delays.) */
static void settle_uris(struct listen *l)
{
	for (struct listen_uri *uri = TAILQ_FIRST(&l->uris), *next; uri; uri = next) {
		next = TAILQ_NEXT(uri, link);
		if (uri->wanted && !uri->current && !uri->asked && !uri->held)
			change_in(l, 0);
		else if (!uri->wanted && uri->current)
			change_in(l, LISTEN_BURST_MS);
		else if (!uri->wanted && !uri->asked)
			free_uri(l, uri);
	}
}

static void subscribe(struct instance *inst, struct lane *lane, struct server_call *call, struct span text,
		      uint64_t hash)
{
	struct listen *l = &inst->listen;
	struct listen_uri *uri = find_uri(l, text, hash);
	if (!uri)
		uri = add_uri(l, text, hash);
	if (!uri) {
		server_call_failf(call, MCPD_E_INTERNAL, "out of memory");
		return;
	}
	uri->wanted = true;
	if (uri->current) {
		server_call_settle(call);
		return;
	}
	struct listen_wait *wait = xnew(struct listen_wait);
	wait->call = call;
	wait->uri = uri;
	TAILQ_INSERT_TAIL(&l->waits, wait, link);
	server_call_hold(call, lane, inst);
	if (!uri->asked)
		change_in(l, 0);
}

void listen_take(struct instance *inst, struct lane *lane, struct server_call *call)
{
	struct span text = json_member(call->params, "uri");
	uint64_t hash = json_string_hash(text);
	if (json_string_is(call->method, "resources/subscribe")) {
		subscribe(inst, lane, call, text, hash);
		return;
	}
	struct listen_uri *uri = find_uri(&inst->listen, text, hash);
	if (uri) {
		uri->wanted = uri->held = false;
		end_waits(inst, uri, NULL);
		settle_uris(&inst->listen);
	}
	server_call_settle(call);
}

/* ---- streams ---- */

/* URIs that the server has never acknowledged are given up with those who wait for them. */
static void drop_fresh(struct instance *inst, const struct transport_reply *failure)
{
	struct listen *l = &inst->listen;
	struct listen_uri *uri;
	TAILQ_FOREACH(uri, &l->uris, link)
	{
		if (!uri->asked)
			continue;
		uri->asked = false;
		if (uri->held)
			continue;
		uri->wanted = false;
		end_waits(inst, uri, failure);
	}
	settle_uris(l);
}

/* No stream has any of them. */
static void forget_current(struct listen *l)
{
	struct listen_uri *uri;
	TAILQ_FOREACH(uri, &l->uris, link)
	uri->current = false;
}

static void on_end(void *arg, const struct transport_reply *reply)
{
	static const struct transport_reply ended_early = {
		.code = MCPD_E_PROTOCOL,
		.message = "The server ended the subscription before it had acknowledged it",
	};
	struct listen_stream *stream = arg;
	struct instance *inst = stream->inst;
	struct listen *l = &inst->listen;
	bool deaf = stream->deaf, was_current = l->current == stream, was_next = l->next == stream;
	free(stream);
	if (was_current)
		l->current = NULL;
	if (was_next)
		l->next = NULL;
	if (inst->closing || !inst->lane)
		return;
	if (was_current)
		forget_current(l);
	if (was_next) {
		timer_cancel(l->ack_timer);
		drop_fresh(inst, reply->code ? reply : &ended_early);
	}
	if ((was_current || was_next) && !l->current && !l->next && !deaf)
		watch_listen_ended(inst, reply);
	else if (was_next)
		lane_note_failure(inst->lane, inst, reply);
}

bool listen_announces(const struct mcp_server_facts *facts, const char *what)
{
	return span_is(json_path(facts->capabilities, what, "listChanged", NULL), "true");
}

/* The params for all that is wanted. False: that is nothing. */
static bool write_filter(struct instance *inst, struct buf *out)
{
	static const struct {
		const char *capability, *filter;
	} table[] = {
		{ "tools", "toolsListChanged" },
		{ "prompts", "promptsListChanged" },
		{ "resources", "resourcesListChanged" },
	};
	const struct mcp_server_facts *facts = mcp_client_facts(inst->client);
	const char *comma = "";
	bool any_uri = false;
	buf_add_text(out, "{\"notifications\":{");
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		if (!listen_announces(facts, table[i].capability))
			continue;
		buf_addf(out, "%s\"%s\":true", comma, table[i].filter);
		comma = ",";
	}
	struct listen_uri *uri;
	TAILQ_FOREACH(uri, &inst->listen.uris, link)
	{
		if (!uri->wanted)
			continue;
		if (!any_uri)
			buf_addf(out, "%s\"resourceSubscriptions\":[", comma);
		else
			buf_add_char(out, ',');
		buf_add_text(out, uri->text);
		any_uri = true;
	}
	buf_add_text(out, any_uri ? "]}}" : "}}");
	return any_uri || *comma;
}

/* Ends a stream that is not wanted any more: its end is nothing to be told. */
static void end_stream(struct instance *inst, struct listen_stream **stream, const char *why)
{
	uint64_t call = *stream ? (*stream)->call : 0;
	*stream = NULL;
	if (call)
		mcp_client_cancel(inst->client, call, why);
}

/* Nothing is wanted: no stream. */
static void close_all(struct instance *inst)
{
	end_stream(inst, &inst->listen.current, "nothing is to be announced any more");
	forget_current(&inst->listen);
	settle_uris(&inst->listen);
}

static int64_t ack_timeout(const struct instance *inst)
{
	int64_t timeout_ms = inst->lane->server->cfg->timeout_ms;
	return timeout_ms > 0 ? timeout_ms : LISTEN_ACK_MS;
}

static void open_stream(struct instance *inst, struct span params)
{
	struct listen *l = &inst->listen;
	struct listen_uri *uri;
	TAILQ_FOREACH(uri, &l->uris, link)
	uri->asked = uri->wanted;
	l->next = xnew(struct listen_stream);
	l->next->inst = inst;
	struct mcp_call_options options = { .timeout_ms = 0, .done = on_end, .arg = l->next };
	l->next->call = mcp_client_call(inst->client, JSONRPC_METHOD("subscriptions/listen"), params, &options);
	timer_set(l->ack_timer, loop_now_ms() + ack_timeout(inst));
	watch_listen_opened(inst);
}

static void on_change(void *arg)
{
	struct instance *inst = arg;
	if (inst->closing || !inst->lane || inst->listen.next)
		return;
	struct buf params = BUF_INIT;
	bool any = write_filter(inst, &params);
	if (buf_failed(&params))
		end_waits(inst, NULL, &(struct transport_reply){ .code = MCPD_E_INTERNAL, .message = "out of memory" });
	else if (any)
		open_stream(inst, buf_span(&params));
	else
		close_all(inst);
	buf_done(&params);
}

void listen_open(struct instance *inst)
{
	if (!inst->listen.next)
		change_in(&inst->listen, 0);
}

void listen_begin(struct instance *inst)
{
	timer_cancel(inst->listen.change_timer);
	if (mcp_client_facts(inst->client)->era == MCP_ERA_MODERN)
		on_change(inst);
}

/* ---- acknowledgments ---- */

struct hashed {
	uint64_t hash;
	struct span text;
};

static int compare(const void *a, const void *b)
{
	const struct hashed *x = a, *y = b;
	return x->hash < y->hash ? -1 : x->hash > y->hash;
}

/* The elements of a JSON array of strings, sorted by hash; there may be many. NULL if there are none. */
static struct hashed *sort_elements(struct span array, size_t *ret_n)
{
	struct json_iter it;
	struct span text;
	size_t n = 0, i = 0;
	json_iter_init(&it, array);
	while (json_iter_element(&it, &text))
		n++;
	*ret_n = 0;
	struct hashed *list = n ? calloc(n, sizeof *list) : NULL;
	if (!list)
		return NULL;
	json_iter_init(&it, array);
	while (i < n && json_iter_element(&it, &text))
		list[i++] = (struct hashed){ json_string_hash(text), text };
	qsort(list, n, sizeof *list, compare);
	*ret_n = n;
	return list;
}

static bool contains(const struct hashed *list, size_t n, const struct listen_uri *uri)
{
	struct hashed key = { .hash = uri->hash };
	const struct hashed *found = n ? bsearch(&key, list, n, sizeof *list, compare) : NULL;
	if (!found)
		return false;
	while (found > list && found[-1].hash == uri->hash)
		found--;
	for (; found < list + n && found->hash == uri->hash; found++)
		if (json_strings_equal(found->text, span_of(uri->text)))
			return true;
	return false;
}

/* The server leaves this one out. */
static void refuse(struct instance *inst, struct listen_uri *uri)
{
	if (uri->held)
		log_server(LOG_LEVEL_WARNING, inst->lane->server->name,
			   "it does not offer updates of a resource any more that a client has subscribed to");
	uri->wanted = uri->held = false;
	char *message = xasprintf("The server does not offer updates of %s", uri->text);
	end_waits(inst, uri, &(struct transport_reply){ .code = MCPD_E_INVALID_PARAMS, .message = message });
	free(message);
}

static void take_acknowledgment(struct instance *inst, struct span array)
{
	struct listen *l = &inst->listen;
	size_t n;
	struct hashed *list = sort_elements(array, &n);
	struct listen_uri *uri;
	TAILQ_FOREACH(uri, &l->uris, link)
	{
		bool asked = uri->asked;
		uri->asked = false;
		uri->current = asked && contains(list, n, uri);
		if (asked && !uri->current)
			refuse(inst, uri);
		if (!uri->current)
			continue;
		uri->held = uri->wanted;
		end_waits(inst, uri, NULL);
	}
	free(list);
	settle_uris(l);
}

/* Whether a filter says nothing. */
static bool is_empty(struct span filter)
{
	struct json_iter it, elements;
	struct span key, value, element;
	json_iter_init(&it, filter);
	while (json_iter_member(&it, &key, &value)) {
		json_iter_init(&elements, value);
		if (span_is(value, "true") || json_iter_element(&elements, &element))
			return false;
	}
	return true;
}

/* The next stream becomes the current one. */
static void promote(struct instance *inst)
{
	struct listen *l = &inst->listen;
	timer_cancel(l->ack_timer);
	end_stream(inst, &l->current, "there is another one in its place");
	l->current = l->next;
	l->next = NULL;
}

void listen_acknowledged(struct instance *inst, struct span params)
{
	struct listen *l = &inst->listen;
	struct span filter = json_member(params, "notifications");
	if (!l->next || mcp_client_subscription(inst->client, params) != l->next->call)
		return;
	l->next->deaf = is_empty(filter);
	promote(inst);
	take_acknowledgment(inst, json_member(filter, "resourceSubscriptions"));
}

static void on_ack_timeout(void *arg)
{
	struct instance *inst = arg;
	struct listen *l = &inst->listen;
	char message[96];
	if (!l->next || !inst->lane)
		return;
	snprintf(message, sizeof message, "The server did not acknowledge the subscription within %lldms",
		 (long long)ack_timeout(inst));
	/* Where there is no other, it may be one of a server that announces all the same. */
	if (l->current)
		end_stream(inst, &l->next, message);
	else
		promote(inst);
	struct listen_uri *uri;
	TAILQ_FOREACH(uri, &l->uris, link)
	uri->current |= uri->asked && uri->held;
	drop_fresh(inst, &(struct transport_reply){ .code = MCPD_E_PROTOCOL, .message = message });
}
