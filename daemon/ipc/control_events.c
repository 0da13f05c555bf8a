/*
 * Events: who has asked for what, and telling them (PROTOCOL "Notifications").
 *
 * One line is written for all subscribers of an event, and none where there are none.
 */
#include "ipc/control_internal.h"

#include <stdlib.h>
#include <string.h>

#include "ipc/server_json.h"
#include "proto/json_iter.h"
#include "xalloc.h"

/* --- subscriptions --- */

static bool has_filter(const struct control *control, enum event_topic topic, const char *server)
{
	for (size_t i = 0; i < control->n_filters; i++) {
		const struct event_filter *f = &control->filters[i];
		bool same = f->server && server ? strcmp(f->server, server) == 0 : f->server == server;
		if (f->topic == topic && same)
			return true;
	}
	return false;
}

/* server is copied. */
static void add_filter(struct control *control, enum event_topic topic, const char *server)
{
	if (has_filter(control, topic, server))
		return;
	control->filters = xrealloc(control->filters, control->n_filters + 1, sizeof *control->filters);
	control->filters[control->n_filters++] = (struct event_filter){ topic, server ? xstrdup(server) : NULL };
}

static void remove_filters(struct control *control, enum event_topic topic)
{
	size_t kept = 0;
	for (size_t i = 0; i < control->n_filters; i++) {
		if (control->filters[i].topic == topic)
			free(control->filters[i].server);
		else
			control->filters[kept++] = control->filters[i];
	}
	control->n_filters = kept;
}

void control_events_done(struct control *control)
{
	for (size_t i = 0; i < control->n_filters; i++)
		free(control->filters[i].server);
	free(control->filters);
}

static bool is_subscribed(const struct session *s, enum event_topic topic, const char *server)
{
	if (session_dialect(s) != &control_dialect)
		return false;
	const struct control *control = control_of(s);
	for (size_t i = 0; i < control->n_filters; i++) {
		const struct event_filter *f = &control->filters[i];
		if (f->topic == topic && (!f->server || strcmp(f->server, server) == 0))
			return true;
	}
	return false;
}

/* --- telling --- */

static bool any_subscribed(const struct ipc *ipc, enum event_topic topic, const char *server)
{
	for (struct session *s = ipc->sessions; s; s = session_next(s))
		if (is_subscribed(s, topic, server))
			return true;
	return false;
}

/* Makes ipc->line of the params. */
static void make_line(struct ipc *ipc, const char *method, struct buf *params)
{
	buf_reset(&ipc->line);
	if (buf_failed(params))
		ipc->line.error = params->error;
	buf_add_text(&ipc->line, "{\"jsonrpc\":\"2.0\",\"method\":");
	buf_add_json_text(&ipc->line, method);
	buf_add_text(&ipc->line, ",\"params\":");
	jsonrpc_add_payload(&ipc->line, buf_span(params));
	buf_add_text(&ipc->line, "}\n");
}

static void tell(struct ipc *ipc, enum event_topic topic, const char *server, const char *method, struct buf *params)
{
	make_line(ipc, method, params);
	/* Where there is no memory for an event it is not told; a slow client misses some as well. */
	for (struct session *s = ipc->sessions; s && !buf_failed(&ipc->line); s = session_next(s))
		if (is_subscribed(s, topic, server))
			session_send_event(s, &ipc->line);
	buf_done(params);
}

static void begin(struct buf *params, const char *server)
{
	buf_add_text(params, "{\"server\":");
	buf_add_json_text(params, server);
}

static void write_server_event(struct buf *params, struct ipc *ipc, struct server *server)
{
	buf_add_text(params, "{\"server\":");
	server_json_write(params, ipc, server, NULL, false);
	buf_add_char(params, '}');
}

void control_tell_server(struct ipc *ipc, struct server *server)
{
	const char *name = server_name(server);
	if (!any_subscribed(ipc, TOPIC_SERVERS, name))
		return;
	struct buf params = BUF_INIT;
	write_server_event(&params, ipc, server);
	tell(ipc, TOPIC_SERVERS, name, "events/server", &params);
}

void control_tell_removed(struct ipc *ipc, const char *name)
{
	struct buf params = BUF_INIT;
	buf_add_text(&params, "{\"server\":{\"name\":");
	buf_add_json_text(&params, name);
	buf_add_text(&params, "},\"removed\":true}");
	tell(ipc, TOPIC_SERVERS, name, "events/server", &params);
}

void control_tell_tools(struct ipc *ipc, struct server *server)
{
	const char *name = server_name(server);
	struct server_listing listing;
	if (!any_subscribed(ipc, TOPIC_TOOLS, name))
		return;
	server_get_list(server, SERVER_TOOLS, false, &listing);
	struct buf params = BUF_INIT;
	begin(&params, name);
	buf_addf(&params, ",\"revision\":\"%s\"}", listing.revision);
	tell(ipc, TOPIC_TOOLS, name, "events/tools", &params);
}

void control_tell_log(struct ipc *ipc, struct server *server, const char *at, struct span text)
{
	const char *name = server_name(server);
	if (!any_subscribed(ipc, TOPIC_LOGS, name))
		return;
	struct buf params = BUF_INIT;
	begin(&params, name);
	buf_addf(&params, ",\"at\":\"%s\",\"text\":", at);
	buf_add_json_string(&params, text);
	buf_add_char(&params, '}');
	tell(ipc, TOPIC_LOGS, name, "events/log", &params);
}

void control_tell_notification(struct ipc *ipc, const struct router_notification *n)
{
	const char *name = server_name(n->server);
	if (!any_subscribed(ipc, TOPIC_NOTIFICATIONS, name))
		return;
	struct buf params = BUF_INIT;
	begin(&params, name);
	buf_add_text(&params, ",\"method\":");
	buf_add_span(&params, n->method);
	if (n->params.ptr) {
		buf_add_text(&params, ",\"params\":");
		buf_add_span(&params, n->params);
	}
	buf_add_char(&params, '}');
	make_line(ipc, "events/notification", &params);
	buf_done(&params);
	for (struct session *s = ipc->sessions; s && !buf_failed(&ipc->line); s = session_next(s))
		if (is_subscribed(s, TOPIC_NOTIFICATIONS, name) &&
		    router_notification_wanted(ipc->options.router, n, session_id(s)))
			session_send_event(s, &ipc->line);
}

void control_tell_call(struct ipc *ipc, const struct call_info *info)
{
	if (!info->client || !any_subscribed(ipc, TOPIC_CALLS, info->server_name))
		return;
	struct buf params = BUF_INIT;
	begin(&params, info->server_name);
	buf_add_text(&params, ",\"method\":");
	buf_add_span(&params, info->method);
	if (json_type_of(info->name) == JSON_STRING) {
		buf_add_text(&params, ",\"name\":");
		buf_add_span(&params, info->name);
	}
	buf_add_text(&params, ",\"client\":");
	buf_add_json_text(&params, info->client_label);
	buf_addf(&params, ",\"durationMs\":%lld,\"outcome\":\"%s\"", (long long)info->duration_ms,
		 mcpd_outcome_name(info->outcome));
	if (info->resent)
		buf_add_text(&params, ",\"resent\":true");
	buf_add_char(&params, '}');
	tell(ipc, TOPIC_CALLS, info->server_name, "events/call", &params);
}

/* --- the methods --- */

/* The topics as bits. */
static unsigned read_topics(struct span topics)
{
	struct json_iter it;
	struct span element;
	unsigned bits = 0;
	json_iter_init(&it, topics);
	while (json_iter_element(&it, &element))
		bits |= 1u << topic_find(element);
	return bits;
}

/* What a new subscriber to `servers` is shown first: all that is there. Part of the answer, and so not dropped. */
static void show_servers(struct session *s, const char *only)
{
	struct ipc *ipc = session_ipc(s);
	struct manager *manager = ipc->options.manager;
	for (size_t i = 0; i < manager_count(manager); i++) {
		struct server *server = manager_at(manager, i);
		if (only && strcmp(only, server_name(server)) != 0)
			continue;
		struct buf params = BUF_INIT;
		write_server_event(&params, ipc, server);
		make_line(ipc, "events/server", &params);
		session_send(s, &ipc->line);
		buf_done(&params);
	}
}

void control_subscribe(struct request *r, const struct jsonrpc_message *m)
{
	struct session *s = request_session(r);
	struct control *control = control_of(s);
	struct server *server = NULL;
	if (m->param[PARAM_SERVER].ptr) {
		server = control_find_server(r, m->param[PARAM_SERVER]);
		if (!server)
			return;
	}
	const char *only = server ? server_name(server) : NULL;
	unsigned topics = read_topics(json_member(m->params, "topics"));
	size_t more = 0;
	for (int i = 0; i < TOPIC_COUNT; i++)
		more += (topics & 1u << i) && !has_filter(control, (enum event_topic)i, only);
	if (control_too_many_subscriptions(r, more))
		return;
	for (int i = 0; i < TOPIC_COUNT; i++)
		if (topics & 1u << i)
			add_filter(control, (enum event_topic)i, only);
	request_result(r, SPAN_LIT("{}"));
	if (topics & 1u << TOPIC_SERVERS)
		show_servers(s, only);
}

void control_unsubscribe(struct request *r, const struct jsonrpc_message *m)
{
	struct control *control = control_of(request_session(r));
	unsigned topics = read_topics(json_member(m->params, "topics"));
	for (int i = 0; i < TOPIC_COUNT; i++)
		if (topics & 1u << i)
			remove_filters(control, (enum event_topic)i);
	request_result(r, SPAN_LIT("{}"));
}
