/* What becomes known of a server: its state, facts, tools, errors and log. */
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "manager/instance.h"
#include "manager/server_calls.h"
#include "manager/server_private.h"
#include "proto/buf.h"
#include "xalloc.h"

/* A list that has just come counts as fresh for so long, whatever its ttlMs says. */
#define LIST_FRESH_MS 1000
/* After a listing has failed. */
#define LIST_RETRY_MS 30000
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

static const struct mcp_server_facts *facts_of(const struct server *server)
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
			  facts_of(server)->protocol_version, server->tools.count);
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
		server->live = false;
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

void server_set_facts(struct server *server, const struct mcp_server_facts *facts)
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
	outbox_raise(server, OUTBOX_SERVER);
}

void server_forget_facts(struct server *server)
{
	if (server->facts)
		loop_bury(server->m->loop, server->facts, free);
	server->facts = NULL;
}

/* ---- tools ---- */

static void store(struct server *server)
{
	const struct mcp_server_facts *facts = facts_of(server);
	if (!server->tools.text)
		return;
	struct tool_cache_entry entry = {
		.tools = server->tools.text,
		.tools_len = server->tools.len,
		.count = server->tools.count,
		.capabilities = server->tools.capabilities,
		.era = server->era,
		.protocol_version = facts ? (char *)facts->protocol_version : NULL,
	};
	if (tool_cache_store(server->m->cache, server->name, server->cfg->identity, &entry) == 0)
		server->stored_era = server->era;
}

void server_load_cache(struct server *server)
{
	struct tool_cache_entry entry;
	tool_list_clear(&server->tools, server->m->loop);
	server->era = server->stored_era = MCP_ERA_UNKNOWN;
	server->live = false;
	server->expires_ms = 0;
	if (server->cfg->error || tool_cache_load(server->m->cache, server->name, server->cfg->identity, &entry) < 0)
		return;
	tool_list_adopt(&server->tools, server->m->loop, (struct span){ entry.tools, entry.tools_len },
			entry.capabilities);
	server->era = server->stored_era = entry.era;
	tool_cache_entry_done(&entry);
}

void server_adopt_tools(struct server *server, struct span elements, int64_t ttl_ms, unsigned capabilities)
{
	bool differs = tool_list_adopt(&server->tools, server->m->loop, elements, capabilities);
	server->live = true;
	server->expires_ms = ttl_ms < 0 ? 0 : loop_now_ms() + (ttl_ms > LIST_FRESH_MS ? ttl_ms : LIST_FRESH_MS);
	if (differs || server->stored_era != server->era)
		store(server);
	outbox_raise(server, OUTBOX_LISTING | (differs ? OUTBOX_TOOLS | OUTBOX_SERVER : 0));
}

void server_listing_failed(struct server *server, const char *message)
{
	char *text = xasprintf("tools/list failed: %s", message);
	server_note_error(server, text);
	free(text);
	server->expires_ms = loop_now_ms() + LIST_RETRY_MS;
	outbox_raise(server, OUTBOX_LISTING);
}

void server_forget_era(struct server *server)
{
	server->era = MCP_ERA_UNKNOWN;
	if (server->stored_era != MCP_ERA_UNKNOWN)
		store(server);
}

/* A connection that can list the tools now, the one with the most capabilities; or NULL. */
static struct instance *lister(const struct server *server)
{
	const struct lane *lane;
	struct instance *best = NULL;
	TAILQ_FOREACH(lane, &server->lanes, link)
	{
		struct instance *inst = lane->instance;
		if (lane->state == SERVER_CONNECTED && inst && !inst->lost &&
		    (!best || inst->capabilities > best->capabilities))
			best = inst;
	}
	return best;
}

static bool is_listing(const struct server *server)
{
	const struct lane *lane;
	TAILQ_FOREACH(lane, &server->lanes, link)
	if (lane->instance && lane->instance->watch.listing)
		return true;
	return false;
}

/* Sets in motion what a listing that is asked for wants. */
static void want_listing(struct server *server)
{
	bool stale = server->expires_ms && loop_now_ms() >= server->expires_ms;
	struct instance *inst;
	if (!server->cfg->enabled || server->cfg->error || server->m->phase != MANAGER_RUNNING)
		return;
	if (server->state == SERVER_IDLE && !server->tools.text && !server->by_hand)
		server_start(server, "its tools were asked for");
	else if (server->state == SERVER_CONNECTED && stale && !is_listing(server) && (inst = lister(server)))
		watch_list(inst);
}

void server_get_listing(struct server *server, bool start, struct server_listing *ret)
{
	if (start)
		want_listing(server);
	enum server_state state = server->state;
	bool known = server->tools.text != NULL;
	bool stale = server->expires_ms && loop_now_ms() >= server->expires_ms;
	memset(ret, 0, sizeof *ret);
	ret->visible = state != SERVER_DISABLED;
	ret->deferred = state != SERVER_CONNECTED || !server->live;
	ret->tools = tool_list_text(&server->tools);
	memcpy(ret->revision, server->tools.revision, sizeof ret->revision);
	if (state == SERVER_CONNECTED)
		ret->settled = !(is_listing(server) && (stale || !server->live));
	else
		ret->settled = known || state == SERVER_IDLE || state == SERVER_FAILED || state == SERVER_NEEDS_AUTH ||
			       state == SERVER_DISABLED;
	if (server->cfg->error)
		ret->error = server->cfg->error;
	else if (ret->deferred && (state == SERVER_FAILED || state == SERVER_NEEDS_AUTH ||
				   state == SERVER_RECONNECTING || state == SERVER_CONNECTED))
		ret->error = server->last_error;
}

struct span server_find_tool(struct server *server, struct span name)
{
	struct span found = tool_list_find(&server->tools, name);
	struct buf json = BUF_INIT;
	if (found.ptr)
		return found;
	buf_add_json_string(&json, name);
	if (!buf_failed(&json))
		found = tool_list_find(&server->tools, buf_span(&json));
	buf_done(&json);
	return found;
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
	ret->facts = facts_of(server);
	ret->tool_count = server->tools.count;
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
