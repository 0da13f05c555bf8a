/* What becomes known of a server: its state, facts, tools, errors and log. */
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "manager/instance.h"
#include "manager/server_calls.h"
#include "manager/server_private.h"
#include "proto/buf.h"
#include "xalloc.h"

#define ERROR_TEXT_MAX 8192 /* bytes of lastError */

struct server_facts_copy {
	struct mcp_server_facts facts; /* its texts lie behind it */
};

const char *server_state_name(enum server_state state)
{
	static const char *const names[SERVER_STATE_COUNT] = {
		[SERVER_IDLE] = "idle",           [SERVER_CONNECTING] = "connecting",
		[SERVER_CONNECTED] = "connected", [SERVER_RECONNECTING] = "reconnecting",
		[SERVER_FAILED] = "failed",       [SERVER_NEEDS_AUTH] = "needs-auth",
		[SERVER_DISABLED] = "disabled",
	};
	return (unsigned)state < SERVER_STATE_COUNT ? names[state] : "unknown";
}

const struct mcp_server_facts *server_facts(const struct server *server)
{
	return server->facts && !server->facts_remembered ? &server->facts->facts : NULL;
}

const struct mcp_server_facts *server_known_facts(const struct server *server)
{
	return server->facts ? &server->facts->facts : NULL;
}

/* ---- state ---- */

/* Where there are several lanes, the state that says most about what a call would meet. */
static enum server_state state_of_lanes(const struct server *server)
{
	static const int rank[SERVER_STATE_COUNT] = {
		[SERVER_CONNECTED] = 6,  [SERVER_CONNECTING] = 5, [SERVER_RECONNECTING] = 4,
		[SERVER_NEEDS_AUTH] = 3, [SERVER_FAILED] = 2,     [SERVER_IDLE] = 1,
	};
	enum server_state state = SERVER_IDLE;
	const struct lane *lane;
	TAILQ_FOREACH(lane, &server->lanes, link)
	if (rank[lane->state] > rank[state])
		state = lane->state;
	return state;
}

static void log_state(const struct server *server, const char *reason)
{
	/* Why it is in one of these was told as an error. */
	bool told = server->state == SERVER_FAILED || server->state == SERVER_NEEDS_AUTH ||
		    server->state == SERVER_RECONNECTING;
	bool minor = server->state == SERVER_CONNECTING || server->state == SERVER_DISABLED ||
		     (server->state == SERVER_IDLE && !reason);
	struct log_fields fields = { .server = server->name, .state = server_state_name(server->state) };
	if (server->state == SERVER_CONNECTED && server->facts)
		log_event(LOG_LEVEL_INFO, &fields, "server %s: connected (%s, %u tools)", server->name,
			  server_facts(server)->protocol_version, server_shown(server, SERVER_TOOLS)->count);
	else
		log_event(minor ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO, &fields, "server %s: %s%s%s", server->name,
			  fields.state, reason && !told ? ": " : "", reason && !told ? reason : "");
}

void server_state_changed(struct server *server, const char *reason)
{
	enum server_state state = server->cfg->error ? SERVER_FAILED : state_of_lanes(server);
	if (!server->cfg->enabled)
		state = SERVER_DISABLED;
	outbox_raise(server, OUTBOX_SERVER);
	/* Each failed attempt is worth a line, too. */
	if (state == server->state && !(state == SERVER_RECONNECTING && reason))
		return;
	if (state == SERVER_CONNECTED)
		timestamp_now(server->connected_at);
	else
		server_lists_not_live(server);
	server->state = state;
	history_add(&server->history, state, reason, (size_t)server->m->limits.value[LIMIT_HISTORY]);
	log_state(server, reason);
	outbox_raise(server, OUTBOX_LISTING);
}

unsigned server_count_calls(const struct server *server, unsigned *ret_waiting)
{
	unsigned sent = 0, waiting = 0;
	const struct lane *lane;
	const struct claim *claim;
	const struct server_call *call;
	TAILQ_FOREACH(lane, &server->lanes, link)
	{
		sent += lane->n_sent;
		waiting += lane->n_waiting;
	}
	TAILQ_FOREACH(claim, &server->claims.queue, link)
	TAILQ_FOREACH(call, &claim->calls, link)
	waiting++;
	*ret_waiting = waiting;
	return sent;
}

/* ---- errors and log ---- */

const char *server_reason(const struct server *server, const char *message)
{
	static const char before[] = "Server \"", behind[] = "\": ";
	size_t name_len = strlen(server->name);
	const char *at = message;
	if (strncmp(at, before, sizeof before - 1) != 0)
		return message;
	at += sizeof before - 1;
	if (strncmp(at, server->name, name_len) != 0 || strncmp(at + name_len, behind, sizeof behind - 1) != 0)
		return message;
	return at + name_len + sizeof behind - 1;
}

void server_note_error(struct server *server, const char *message)
{
	message = server_reason(server, message);
	/* A server's answer may be in it, of any length. */
	char *copy = xstrndup(message, server_log_cut(span_of(message), ERROR_TEXT_MAX));
	if (server->last_error)
		loop_bury(server->m->loop, server->last_error, free);
	server->last_error = copy;
	timestamp_now(server->last_error_at);
	log_server(LOG_LEVEL_WARNING, server->name, "%s", copy);
	outbox_raise(server, OUTBOX_SERVER);
}

void server_add_log(struct server *server, const char *prefix, struct span text)
{
	struct manager *m = server->m;
	char *whole = NULL;
	*(*prefix ? &server->counters.noise_lines : &server->counters.stderr_lines) += 1;
	if (*prefix) {
		size_t max = (size_t)m->limits.value[LIMIT_LOG_LINE_BYTES];
		int len = (int)(text.len < max ? text.len : max);
		whole = xasprintf("%s%.*s", prefix, len, text.ptr);
		text = span_of(whole);
	}
	const struct server_log_line *line =
		server_log_add(&server->log, text, (size_t)m->limits.value[LIMIT_LOG_LINES],
			       (size_t)m->limits.value[LIMIT_LOG_LINE_BYTES]);
	free(whole);
	/* The journal gets it as well (S13); a line there is a line, whatever is in it. */
	log_event(LOG_LEVEL_INFO, &(struct log_fields){ .server = server->name }, "[%s] %.*s", server->name,
		  (int)line->len, line->text);
	m->callbacks.on_log(m->arg, server, line->at, (struct span){ line->text, line->len });
}

/* ---- facts ---- */

static size_t copy_text(char *at, struct span *span)
{
	if (!span->ptr)
		return 0;
	memcpy(at, span->ptr, span->len);
	span->ptr = at;
	return span->len;
}

void server_set_facts(struct server *server, const struct mcp_server_facts *facts, bool remembered)
{
	size_t version_len = strlen(facts->protocol_version) + 1;
	size_t total = version_len + facts->server_info.len + facts->capabilities.len + facts->instructions.len;
	struct server_facts_copy *copy = malloc(sizeof *copy + total);
	if (!copy)
		return; /* what was known of it stays */
	char *at = (char *)(copy + 1);
	copy->facts = *facts;
	copy->facts.protocol_version = memcpy(at, facts->protocol_version, version_len);
	at += version_len;
	at += copy_text(at, &copy->facts.server_info);
	at += copy_text(at, &copy->facts.capabilities);
	copy_text(at, &copy->facts.instructions);
	server_forget_facts(server);
	server->facts = copy;
	server->facts_remembered = remembered;
	outbox_raise(server, OUTBOX_SERVER);
}

void server_forget_facts(struct server *server)
{
	if (server->facts)
		loop_bury(server->m->loop, server->facts, free);
	server->facts = NULL;
}

/* ---- all of it, for those above ---- */

static void show_lanes(struct server *server, struct server_info *ret)
{
	const struct lane *lane;
	size_t n = 0;
	TAILQ_FOREACH(lane, &server->lanes, link)
	n++;
	if (server->shown)
		loop_bury(server->m->loop, server->shown, free);
	server->shown = xnew_array(struct server_instance_info, n);
	n = 0;
	TAILQ_FOREACH(lane, &server->lanes, link)
	{
		pid_t pid = lane->instance ? mcp_client_pid(lane->instance->client) : 0;
		if (lane->state == SERVER_RECONNECTING && !ret->reconnect_attempt) {
			int64_t wait = lane->next_attempt_ms ? lane->next_attempt_ms - loop_now_ms() : 0;
			ret->reconnect_attempt = lane->reconnect.attempt;
			ret->next_attempt_ms = wait > 0 ? wait : 0;
		}
		if (lane == server->main)
			ret->pid = pid;
		else if (!lane->catalogue)
			server->shown[n++] = (struct server_instance_info){
				.client = lane->owner,
				.pid = pid,
				.state = lane->state,
				.in_flight = lane->n_sent,
			};
	}
	ret->instances = server->shown;
	ret->n_instances = n;
}

void server_get_info(struct server *server, struct server_info *ret)
{
	memset(ret, 0, sizeof *ret);
	ret->id = server->id;
	ret->config = server->cfg;
	ret->state = server->state;
	ret->facts = server_facts(server);
	ret->known_facts = server_known_facts(server);
	ret->tool_count = server_shown(server, SERVER_TOOLS)->count;
	ret->in_flight = server_count_calls(server, &ret->waiting);
	ret->connected_at = server->state == SERVER_CONNECTED ? server->connected_at : NULL;
	ret->last_error = server->cfg->error ? server->cfg->error : server->last_error;
	ret->last_error_at = server->last_error_at;
	ret->holder = server->claims.holder;
	ret->queue = server->claims.n_queue;
	ret->history = server->history.entries;
	ret->n_history = server->history.count;
	ret->advice = server->advice;
	show_lanes(server, ret);
}

void server_walk_log(struct server *server, unsigned n, void (*fn)(void *arg, const char *at, struct span text),
		     void *arg)
{
	const struct server_log *log = &server->log;
	for (size_t i = log->count > n ? log->count - n : 0; i < log->count; i++) {
		const struct server_log_line *line = server_log_at(log, i);
		fn(arg, line->at, (struct span){ line->text, line->len });
	}
}

void server_note_refusal(struct server *server, const char *advice)
{
	char *copy = advice ? xstrdup(advice) : NULL;
	if (server->advice)
		loop_bury(server->m->loop, server->advice, free);
	server->advice = copy;
	outbox_raise(server, OUTBOX_SERVER);
}

void server_instance_gone(struct server *server)
{
	orders_instance_gone(server);
	outbox_raise(server, OUTBOX_SERVER);
	if (server->n_instances > 0)
		return;
	struct lane *lane;
	TAILQ_FOREACH(lane, &server->lanes, link)
	lane_unblock(lane);
}
