/*
 * What attached clients are told without having asked just now. Legacy clients hear of changed lists, of log messages
 * and of whatever else their server notifies; modern ones of what their streams and requests asked for (PROTOCOL "MCP
 * dialect").
 */
#include "ipc/facade_internal.h"

#include "ipc/asking.h"
#include "proto/json_iter.h"

/* Calls fn for each session that sees the server; NULL: for each that sees all of them. */
static void for_each(struct ipc *ipc, const struct server *server, void (*fn)(struct facade *f, const void *arg),
		     const void *arg)
{
	for (struct session *s = ipc->sessions, *next; s; s = next) {
		next = session_next(s);
		if (session_dialect(s) != &facade_dialect)
			continue;
		struct facade *f = facade_of(s);
		struct view view = facade_view(f);
		if (server ? view_has(&view, server) : !f->only)
			fn(f, arg);
	}
}

static void send(struct facade *f, struct span method, struct span params)
{
	struct buf *line = &session_ipc(f->session)->line;
	buf_reset(line);
	jsonrpc_write_notification(line, method, params);
	session_send_event(f->session, line);
}

/* --- lists --- */

static const char *const list_changed[SERVER_LIST_COUNT] = {
	[SERVER_TOOLS] = "\"notifications/tools/list_changed\"",
	[SERVER_PROMPTS] = "\"notifications/prompts/list_changed\"",
	[SERVER_RESOURCES] = "\"notifications/resources/list_changed\"",
	[SERVER_TEMPLATES] = "\"notifications/resources/list_changed\"",
};

/* What the client has seen already is no news. */
static void tell_list(struct facade *f, const void *arg)
{
	enum server_list list = *(const enum server_list *)arg;
	struct view view = facade_view(f);
	struct view_revision now;
	view_find_revision(&view, list, &now);
	if (view_revisions_equal(&f->seen[list], &now))
		return;
	f->seen[list] = now;
	if (f->initialized)
		send(f, span_of(list_changed[list]), SPAN_NONE);
	facade_listens_tell_list(f, list);
}

void facade_tell_list(struct ipc *ipc, struct server *server, enum server_list list)
{
	for_each(ipc, server, tell_list, &list);
}

void facade_tell_removed(struct ipc *ipc)
{
	for (int list = 0; list < SERVER_LIST_COUNT; list++) {
		enum server_list which = (enum server_list)list;
		for_each(ipc, NULL, tell_list, &which);
	}
}

static void check_waits(struct facade *f, const void *arg)
{
	(void)arg;
	facade_waits_check(f);
}

void facade_listing_changed(struct ipc *ipc)
{
	for (struct session *s = ipc->sessions, *next; s; s = next) {
		next = session_next(s);
		if (session_dialect(s) == &facade_dialect)
			check_waits(facade_of(s), NULL);
	}
}

/* --- what servers notify --- */

/* The list that a notification says has changed, or SERVER_LIST_COUNT. */
static enum server_list list_of(const struct router_notification *n)
{
	int list = 0;
	while (list < SERVER_LIST_COUNT && !json_strings_equal(n->method, span_of(list_changed[list])))
		list++;
	return (enum server_list)list;
}

/* A list that nobody has asked for is not listed anew: the announcement goes to the client as it is. */
static void tell_list_change(struct facade *f, const void *arg)
{
	const struct router_notification *n = arg;
	enum server_list list = list_of(n);
	struct server_listing listing;
	server_get_list(n->server, list, false, &listing);
	if (listing.settled)
		return;
	if (f->initialized)
		send(f, n->method, n->params);
	facade_listens_tell_list(f, list);
}

static void tell_notification(struct facade *f, const void *arg)
{
	const struct router_notification *n = arg;
	struct router *router = session_ipc(f->session)->options.router;
	if (!router_notification_wanted(router, n, session_id(f->session)))
		return;
	if (n->uri)
		facade_listens_tell_update(f, n);
	if (f->initialized || (f->modern && !n->uri))
		send(f, n->method, n->params);
}

void facade_tell_notification(struct ipc *ipc, const struct router_notification *n)
{
	/* Otherwise it is told when the manager has listed anew, by facade_tell_list(). */
	for_each(ipc, n->server, list_of(n) < SERVER_LIST_COUNT ? tell_list_change : tell_notification, n);
}

void facade_task_progress(struct session *s, struct span params)
{
	struct facade *f = facade_of(s);
	/* 2025-11-25 "Tasks"; a modern client polls. */
	if (f->version)
		send(f, JSONRPC_METHOD("notifications/progress"), params);
}

/* --- questions --- */

void facade_ask(struct session *s, const struct client_question *question)
{
	struct facade *f = facade_of(s);
	if (f->version)
		asking_ask(s, question->id, question->method, question->params);
	else
		facade_park_ask(f, question);
}

void facade_withdraw(struct session *s, uint64_t question, const char *reason)
{
	struct facade *f = facade_of(s);
	if (f->version)
		asking_withdraw(s, question, reason);
	else
		facade_park_withdraw(f, question);
}

/* --- the end --- */

void facade_tell_closing(struct ipc *ipc)
{
	for (struct session *s = ipc->sessions, *next; s; s = next) {
		next = session_next(s);
		if (session_dialect(s) == &facade_dialect)
			facade_listens_finish(facade_of(s));
	}
}
