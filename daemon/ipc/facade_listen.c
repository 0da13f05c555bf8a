/*
 * A modern client's subscriptions/listen: acknowledged with what is honoured, then told of what it asked for, each
 * notification tagged with the request's id; never answered unless the daemon itself ends it.
 *
 * Resource subscriptions are the client's at the servers, counted by the router; several streams of one client may name
 * the same URI.
 */
#include "ipc/facade_internal.h"

#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "proto/json_iter.h"
#include "router/subscriptions.h"
#include "xalloc.h"

static const struct {
	const char *filter, *method, *capability;
} told[SERVER_LIST_COUNT] = {
	[SERVER_TOOLS] = { "toolsListChanged", "\"notifications/tools/list_changed\"", "tools" },
	[SERVER_PROMPTS] = { "promptsListChanged", "\"notifications/prompts/list_changed\"", "prompts" },
	[SERVER_RESOURCES] = { "resourcesListChanged", "\"notifications/resources/list_changed\"", "resources" },
};

/* --- the stream's life --- */

static void free_listen(struct listen *l)
{
	for (size_t i = 0; i < l->n_uris; i++)
		free(l->uris[i]);
	free(l->uris);
	free(l);
}

static bool is_listened_to(const struct facade *f, const char *uri)
{
	for (const struct listen *l = f->listens; l; l = l->next)
		for (size_t i = 0; i < l->n_uris; i++)
			if (strcmp(l->uris[i], uri) == 0)
				return true;
	return false;
}

static struct server *server_of(const struct facade *f, struct span uri_json)
{
	struct view view = facade_view(f);
	size_t at = 0;
	return f->only ? view_next(&view, &at) : view_find_uri(&view, uri_json);
}

/* A request about a resource, on the client's behalf; the row, or 0 if nobody has the resource. */
static uint64_t request_resource(struct facade *f, const char *method, const char *uri, call_done_fn *done, void *arg)
{
	struct ipc *ipc = session_ipc(f->session);
	struct buf params = BUF_INIT, uri_json = BUF_INIT;
	uint64_t row = 0;
	buf_add_json_text(&uri_json, uri);
	buf_add_text(&params, "{\"uri\":");
	buf_add_span(&params, buf_span(&uri_json));
	buf_add_char(&params, '}');
	struct server *server = buf_failed(&params) ? NULL : server_of(f, buf_span(&uri_json));
	struct call_options options = {
		.client = session_id(f->session),
		.server = server,
		.method = span_of(method),
		.params = buf_span(&params),
		.timeout_ms = -1,
		.done = done,
		.arg = arg,
	};
	if (server)
		row = router_request(ipc->options.router, &options);
	buf_done(&uri_json);
	buf_done(&params);
	return row;
}

/* The request has gone: cancelled, or its session has. */
static void on_gone(uint64_t arg)
{
	struct listen *l = (struct listen *)(uintptr_t)arg;
	struct facade *f = facade_of(l->session);
	*l->at = l->next;
	if (l->next)
		l->next->at = l->at;
	f->n_listens--;
	for (size_t i = 0; i < l->n_uris; i++)
		if (!is_listened_to(f, l->uris[i]) && session_is_open(l->session) && !session_ipc(l->session)->closing)
			request_resource(f, "\"resources/unsubscribe\"", l->uris[i], NULL, NULL);
	free_listen(l);
}

/* --- the acknowledgment --- */

static void send_tagged(const struct listen *l, struct span method, struct span params, bool droppable)
{
	struct buf tagged = BUF_INIT;
	struct jsonrpc_meta_edit edit = { META_KEY("subscriptionId"), request_id(l->request) };
	struct buf *line = &session_ipc(l->session)->line;
	if (jsonrpc_edit_meta(&tagged, params, &edit, 1) == 0) {
		buf_reset(line);
		jsonrpc_write_notification(line, method, buf_span(&tagged));
		if (droppable)
			session_send_event(l->session, line);
		else
			session_send(l->session, line);
	}
	buf_done(&tagged);
}

static void acknowledge(struct listen *l)
{
	struct buf params = BUF_INIT;
	bool any = false;
	buf_add_text(&params, "{\"notifications\":{");
	for (int list = 0; list < SERVER_LIST_COUNT; list++) {
		if (!l->lists[list])
			continue;
		buf_addf(&params, "%s\"%s\":true", any ? "," : "", told[list].filter);
		any = true;
	}
	if (l->n_uris) {
		buf_add_text(&params, any ? ",\"resourceSubscriptions\":[" : "\"resourceSubscriptions\":[");
		for (size_t i = 0; i < l->n_uris; i++) {
			buf_add_text(&params, i ? "," : "");
			buf_add_json_text(&params, l->uris[i]);
		}
		buf_add_char(&params, ']');
	}
	buf_add_text(&params, "}}");
	l->acknowledged = true;
	if (buf_failed(&params))
		session_abort(l->session, "out of memory");
	else
		send_tagged(l, JSONRPC_METHOD("notifications/subscriptions/acknowledged"), buf_span(&params), false);
	buf_done(&params);
}

/* One subscription at a server, on its way. The facade's, since the call of a client that has gone is never told its end. */
struct subscribing {
	struct facade *facade;
	struct subscribing *next, **at;
	uint64_t request;
	char *uri;
};

static struct subscribing *new_subscribing(struct facade *f, const struct listen *l, const char *uri)
{
	struct subscribing *sub = xnew(struct subscribing);
	*sub = (struct subscribing){
		.facade = f,
		.next = f->subscribing,
		.at = &f->subscribing,
		.request = request_number(l->request),
		.uri = xstrdup(uri),
	};
	if (sub->next)
		sub->next->at = &sub->next;
	f->subscribing = sub;
	return sub;
}

static void free_subscribing(struct subscribing *sub)
{
	*sub->at = sub->next;
	if (sub->next)
		sub->next->at = sub->at;
	free(sub->uri);
	free(sub);
}

void facade_listens_done(struct facade *f)
{
	while (f->subscribing)
		free_subscribing(f->subscribing);
}

static void forget_uri(struct listen *l, const char *uri)
{
	size_t kept = 0;
	for (size_t i = 0; i < l->n_uris; i++) {
		if (strcmp(l->uris[i], uri) == 0)
			free(l->uris[i]);
		else
			l->uris[kept++] = l->uris[i];
	}
	l->n_uris = kept;
}

static struct listen *find_listen(struct facade *f, const struct request *r)
{
	struct listen *l = f->listens;
	while (l && l->request != r)
		l = l->next;
	return l;
}

static void on_subscribed(void *arg, const struct call_info *info, const struct transport_reply *reply)
{
	struct subscribing *sub = arg;
	struct session *session = sub->facade->session;
	struct request *r = facade_find_request(session_ipc(session), session_id(session), sub->request);
	struct listen *l = r ? find_listen(sub->facade, r) : NULL;
	if (reply->code)
		log_server(LOG_LEVEL_DEBUG, info->server_name, "a resource subscription was refused: %s",
			   mcpd_outcome_name(info->outcome));
	if (l && reply->code)
		forget_uri(l, sub->uri);
	if (l && --l->pending == 0)
		acknowledge(l);
	free_subscribing(sub);
}

/* What no server takes is left out of the acknowledgment. */
static void subscribe(struct listen *l)
{
	struct facade *f = facade_of(l->session);
	char **uris = l->uris;
	size_t n = l->n_uris;
	l->uris = xnew_array(char *, n ? n : 1);
	l->n_uris = 0;
	for (size_t i = 0; i < n; i++) {
		struct subscribing *sub = new_subscribing(f, l, uris[i]);
		if (request_resource(f, "\"resources/subscribe\"", uris[i], on_subscribed, sub)) {
			l->uris[l->n_uris++] = uris[i];
			l->pending++;
		} else {
			free_subscribing(sub);
			free(uris[i]);
		}
	}
	free(uris);
}

/* --- the request --- */

/* Whether the list's changes can be told: by the aggregate always, by one server if it announces them or mcpd finds
 * them out for itself. */
static bool can_tell(const struct facade *f, struct server *server, enum server_list list)
{
	struct server_info info;
	if (!f->only)
		return told[list].filter != NULL;
	if (!told[list].filter)
		return false;
	server_get_info(server, &info);
	return info.known_facts &&
	       span_is(json_path(info.known_facts->capabilities, told[list].capability, "listChanged", NULL), "true");
}

static void take_uris(struct listen *l, struct span list)
{
	struct json_iter it;
	struct span uri;
	json_iter_init(&it, list);
	while (json_iter_element(&it, &uri)) {
		char *text = json_string_dup(uri);
		if (!text)
			continue;
		l->uris = xrealloc(l->uris, l->n_uris + 1, sizeof *l->uris);
		l->uris[l->n_uris++] = text;
	}
}

static size_t count_uris(const struct facade *f)
{
	size_t n = 0;
	for (const struct listen *l = f->listens; l; l = l->next)
		n += l->n_uris + 1;
	return n;
}

/* One stream more with its URIs: too many? The request is then answered. */
static bool too_many(struct request *r, const struct facade *f, struct span uris)
{
	struct json_iter it;
	struct span uri;
	size_t n = count_uris(f) + 1;
	json_iter_init(&it, uris);
	while (json_iter_element(&it, &uri))
		n++;
	int64_t most = ipc_limits(request_ipc(r))->value[LIMIT_SUBSCRIPTIONS];
	if ((int64_t)n <= most)
		return false;
	struct buf data = BUF_INIT;
	ipc_limit_reached(request_ipc(r), LIMIT_SUBSCRIPTIONS);
	buf_addf(&data, "\"limit\":\"%s\",\"value\":%lld", limit_table[LIMIT_SUBSCRIPTIONS].key, (long long)most);
	facade_fail(r, MCPD_E_LIMIT, "too many subscriptions; end some before making more", buf_span(&data));
	buf_done(&data);
	return true;
}

static void listen_to(struct request *r, struct facade *f, struct server *server, struct span filter)
{
	struct listen *l = xnew(struct listen);
	l->session = f->session;
	l->request = r;
	l->next = f->listens;
	l->at = &f->listens;
	if (l->next)
		l->next->at = &l->next;
	f->listens = l;
	f->n_listens++;
	request_pend(r, facade_on_cancel_silently, on_gone, (uint64_t)(uintptr_t)l);
	for (int list = 0; list < SERVER_LIST_COUNT; list++)
		l->lists[list] = told[list].filter && span_is(json_member(filter, told[list].filter), "true") &&
				 can_tell(f, server, (enum server_list)list);
	take_uris(l, json_member(filter, "resourceSubscriptions"));
	subscribe(l);
	if (l->pending == 0)
		acknowledge(l);
}

void facade_listen(struct request *r, const struct facade_message *fm)
{
	struct facade *f = fm->facade;
	struct span filter = json_member(fm->m->params, "notifications");
	struct span uris = json_member(filter, "resourceSubscriptions");
	struct server *server = NULL;
	if (json_type_of(filter) != JSON_OBJECT || (uris.ptr && json_type_of(uris) != JSON_ARRAY)) {
		request_error(r, MCPD_E_INVALID_PARAMS,
			      "`notifications` must be an object, and `resourceSubscriptions` in it an array",
			      SPAN_NONE);
		return;
	}
	if (too_many(r, f, uris) || (f->only && !(server = facade_find_server(r))))
		return;
	listen_to(r, f, server, filter);
}

/* --- telling --- */

void facade_listens_tell_list(struct facade *f, enum server_list list)
{
	if (list == SERVER_TEMPLATES)
		list = SERVER_RESOURCES;
	for (const struct listen *l = f->listens; l; l = l->next)
		if (l->acknowledged && l->lists[list])
			send_tagged(l, span_of(told[list].method), SPAN_LIT("{}"), true);
}

void facade_listens_tell_update(struct facade *f, const struct router_notification *n)
{
	for (const struct listen *l = f->listens; l; l = l->next) {
		bool wanted = false;
		for (size_t i = 0; i < l->n_uris && !wanted; i++)
			wanted = subscriptions_covers(l->uris[i], n->uri);
		if (l->acknowledged && wanted)
			send_tagged(l, n->method, n->params, true);
	}
}

/* The daemon ends the stream itself, which it says. */
void facade_listens_finish(struct facade *f)
{
	while (f->listens) {
		struct listen *l = f->listens;
		struct buf result = BUF_INIT;
		buf_add_text(&result, "{\"resultType\":\"complete\",\"_meta\":{\"" META_KEY("subscriptionId") "\":");
		buf_add_span(&result, request_id(l->request));
		buf_add_text(&result, "}}");
		request_result_buf(l->request, &result); /* which frees the stream */
	}
}
