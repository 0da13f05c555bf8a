#include "manager/watch.h"

#include <stdio.h>
#include <stdlib.h>

#include "log.h"
#include "manager/instance.h"
#include "manager/server_private.h"
#include "mcp/listing.h"
#include "proto/buf.h"
#include "proto/json_iter.h"
#include "xalloc.h"

static void on_burst(void *arg);
static void on_stream_timer(void *arg);
static void on_ping_timer(void *arg);

void watch_init(struct instance *inst)
{
	struct watch *w = &inst->watch;
	w->burst_timer = timer_new(inst->m->loop, on_burst, inst);
	w->stream_timer = timer_new(inst->m->loop, on_stream_timer, inst);
	w->ping_timer = timer_new(inst->m->loop, on_ping_timer, inst);
	reconnect_init(&w->stream_delays, inst->generation);
	listen_init(inst);
}

void watch_stop(struct instance *inst)
{
	struct watch *w = &inst->watch;
	if (w->listing)
		listing_cancel(w->listing);
	w->listing = NULL;
	timer_cancel(w->burst_timer);
	timer_cancel(w->stream_timer);
	timer_cancel(w->ping_timer);
	listen_stop(inst);
}

void watch_done(struct instance *inst)
{
	struct watch *w = &inst->watch;
	timer_free(w->burst_timer);
	timer_free(w->stream_timer);
	timer_free(w->ping_timer);
	w->burst_timer = w->stream_timer = w->ping_timer = NULL;
	listen_done(inst);
}

/* ---- the lists ---- */

static const struct {
	const char *method, *member;
} kinds[SERVER_LIST_COUNT] = {
	[SERVER_TOOLS] = { "\"tools/list\"", "tools" },
	[SERVER_PROMPTS] = { "\"prompts/list\"", "prompts" },
	[SERVER_RESOURCES] = { "\"resources/list\"", "resources" },
	[SERVER_TEMPLATES] = { "\"resources/templates/list\"", "resourceTemplates" },
};

/* A server that does not know the method of a list that its capability promises has an empty one. */
static bool is_unknown_method(const struct transport_reply *failure)
{
	int64_t code = 0;
	return failure->code == MCPD_E_SERVER && json_int64(json_member(failure->error, "code"), &code) == 0 &&
	       code == MCPD_E_METHOD_NOT_FOUND;
}

static void adopt(struct instance *inst, enum server_list list, const struct listing_result *result)
{
	struct lane *lane = inst->lane;
	const struct transport_reply *failure = result->failure;
	if (!failure)
		server_adopt_list(lane->server, list, result->elements, result->ttl_ms, inst->capabilities);
	else if (list != SERVER_TOOLS && is_unknown_method(failure))
		server_adopt_list(lane->server, list, SPAN_LIT("[]"), -1, inst->capabilities);
	else if (inst->connected)
		server_listing_failed(lane->server, list, failure->message);
	if (!failure)
		lane->server->lists[list].cache_private = !result->cache_public;
}

static void next(struct instance *inst);

static void on_listed(void *arg, const struct listing_result *result)
{
	struct instance *inst = arg;
	struct watch *w = &inst->watch;
	enum server_list list = w->current;
	w->listing = NULL;
	if (result->warning && inst->lane)
		server_add_log(inst->lane->server, "mcpd: ", span_of(result->warning)); /* which may change anything */
	struct lane *lane = inst->lane;
	if (inst->closing || !lane)
		return;
	inst->heard_ms = loop_now_ms();
	adopt(inst, list, result);
	if (!inst->connected)
		instance_listed(inst, result->failure);
	else if (result->failure)
		lane_note_failure(lane, inst, result->failure);
	if (!inst->closing && inst->lane)
		next(inst);
}

/* Starts the next listing that is due, if none is under way. */
static void next(struct instance *inst)
{
	struct watch *w = &inst->watch;
	const struct server_config *cfg = inst->lane->server->cfg;
	if (w->listing)
		return;
	if (!w->due) {
		lane_listed(inst->lane);
		return;
	}
	int list = 0;
	while (!(w->due >> list & 1))
		list++;
	w->due &= ~(1u << list);
	w->current = (enum server_list)list;
	/* The first one is part of the connect flow. */
	int64_t timeout_ms = inst->connected ? cfg->timeout_ms : cfg->connect_timeout_ms;
	w->listing = listing_start(inst->client, span_of(kinds[list].method), kinds[list].member, timeout_ms,
				   &inst->m->limits, on_listed, inst);
}

void watch_list(struct instance *inst, enum server_list list)
{
	inst->watch.due |= 1u << list;
	next(inst);
}

void watch_list_wanted(struct instance *inst)
{
	const struct server *server = inst->lane->server;
	const struct mcp_server_facts *facts = mcp_client_facts(inst->client);
	for (int list = SERVER_PROMPTS; list < SERVER_LIST_COUNT; list++)
		if (server->lists[list].wanted && server_offers_list(facts, (enum server_list)list))
			inst->watch.due |= 1u << list;
	if (inst->watch.due)
		next(inst);
}

bool watch_is_listing(const struct instance *inst, enum server_list list)
{
	const struct watch *w = &inst->watch;
	return (w->listing && w->current == list) || (w->due >> list & 1);
}

bool watch_is_busy(const struct instance *inst)
{
	return inst->watch.listing || inst->watch.due;
}

static void on_burst(void *arg)
{
	struct instance *inst = arg;
	struct watch *w = &inst->watch;
	if (!inst->lane)
		return;
	w->due |= w->changed;
	w->changed = 0;
	next(inst);
}

/* Those of the lists that somebody wants are listed again. */
static void note_changed(struct instance *inst, unsigned lists)
{
	struct watch *w = &inst->watch;
	for (int list = 0; list < SERVER_LIST_COUNT; list++)
		if (!inst->lane->server->lists[list].wanted)
			lists &= ~(1u << list);
	if (!lists)
		return;
	if (!inst->connected) {
		/* What comes while the first listing is under way is listed behind it. */
		w->due |= w->listing ? lists : 0;
		return;
	}
	w->changed |= lists;
	if (!timer_is_set(w->burst_timer))
		timer_set(w->burst_timer, loop_now_ms() + WATCH_BURST_MS);
}

static const struct {
	const char *capability, *method;
	unsigned lists;
} changes[] = {
	{ "tools", "notifications/tools/list_changed", 1u << SERVER_TOOLS },
	{ "prompts", "notifications/prompts/list_changed", 1u << SERVER_PROMPTS },
	{ "resources", "notifications/resources/list_changed", 1u << SERVER_RESOURCES | 1u << SERVER_TEMPLATES },
};

void watch_notification(struct instance *inst, struct span method)
{
	for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
		if (json_string_is(method, changes[i].method))
			note_changed(inst, changes[i].lists);
}

/* ---- the stream of announcements ---- */

static void open_stream(struct instance *inst)
{
	struct watch *w = &inst->watch;
	const struct mcp_server_facts *facts = mcp_client_facts(inst->client);
	w->stream_opened_ms = loop_now_ms();
	if (facts->era == MCP_ERA_MODERN)
		listen_open(inst);
	else if (transport_kind_of(inst->transport) == TRANSPORT_HTTP)
		mcp_client_listen(inst->client);
	else
		w->stream_off = true;
}

/* While there was no stream. */
static void list_what_was_missed(struct instance *inst)
{
	const struct mcp_server_facts *facts = mcp_client_facts(inst->client);
	for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++)
		if (listen_announces(facts, changes[i].capability))
			note_changed(inst, changes[i].lists);
}

static void on_stream_timer(void *arg)
{
	struct instance *inst = arg;
	if (!inst->lane)
		return;
	open_stream(inst);
	list_what_was_missed(inst);
}

void watch_listen_opened(struct instance *inst)
{
	struct watch *w = &inst->watch;
	w->stream_opened_ms = loop_now_ms();
	if (!timer_is_set(w->stream_timer))
		return;
	/* It is sooner there than was planned. */
	timer_cancel(w->stream_timer);
	list_what_was_missed(inst);
}

static void reopen_stream(struct instance *inst, bool worked)
{
	struct watch *w = &inst->watch;
	int64_t now = loop_now_ms();
	w->stream_worked |= worked;
	if (now - w->stream_opened_ms >= WATCH_STREAM_STABLE_MS)
		w->stream_attempt = 0;
	timer_set(w->stream_timer,
		  now + reconnect_delay(&w->stream_delays, ++w->stream_attempt, WATCH_STREAM_DELAY_MAX_MS));
}

void watch_listen_ended(struct instance *inst, const struct transport_reply *reply)
{
	/* A server that knows no such method announces nothing. */
	if (is_unknown_method(reply))
		return;
	if (reply->code)
		log_server(LOG_LEVEL_DEBUG, inst->lane->server->name, "its announcements ended: %s", reply->message);
	reopen_stream(inst, reply->code == 0);
	lane_note_failure(inst->lane, inst, reply);
}

/* Whether a status means that there is no such stream, and never will be. 405 says so (H11); others mean it with one
 * of these. */
static bool is_refusal(int http_status)
{
	return http_status == 400 || http_status == 403 || http_status == 404 || http_status == 406 ||
	       http_status == 501;
}

void watch_listener_ended(struct instance *inst, int http_status, const char *message)
{
	struct watch *w = &inst->watch;
	if (http_status == 405 || (is_refusal(http_status) && !w->stream_worked && w->stream_attempt > 0)) {
		w->stream_off = true;
		return;
	}
	log_server(LOG_LEVEL_DEBUG, inst->lane->server->name, "its announcements ended: %s",
		   message ? message : "the stream was closed");
	reopen_stream(inst, http_status == 0 || (http_status >= 200 && http_status < 300));
	if (http_status == 404 && w->stream_worked)
		/* The stream had been there: what is not found any more is the session (R30). */
		lane_note_failure(
			inst->lane, inst,
			&(struct transport_reply){
				.code = MCPD_E_HTTP, .http_status = 404, .session_lost = true, .message = message });
}

/* ---- whether it is alive ---- */

static int64_t ping_interval(const struct instance *inst)
{
	return inst->lane ? inst->lane->server->cfg->ping_interval_ms : 0;
}

static void on_pong(void *arg, const struct transport_reply *reply)
{
	struct instance *inst = arg;
	struct watch *w = &inst->watch;
	struct lane *lane = inst->lane;
	int64_t sent_ms = w->ping_sent_ms;
	char message[96];
	w->ping_sent_ms = 0;
	if (inst->closing || !lane)
		return;
	bool silent = reply->code == MCPD_E_TIMEOUT && inst->heard_ms <= sent_ms;
	bool unreachable = reply->code == MCPD_E_TRANSPORT && transport_is_connected(inst->transport);
	if (silent || unreachable) {
		snprintf(message, sizeof message, "it did not answer a ping within %lld ms",
			 (long long)reply->timeout_ms);
		char *reason = xstrdup(silent ? message : reply->message);
		instance_end_lost(inst);
		lane_lost(lane, reason, false);
		free(reason);
		return;
	}
	if (reply->code == 0 || reply->code == MCPD_E_SERVER || reply->code == MCPD_E_HTTP)
		inst->heard_ms = loop_now_ms();
	watch_rearm(inst);
	lane_note_failure(lane, inst, reply);
}

void watch_ping(struct instance *inst)
{
	struct watch *w = &inst->watch;
	const struct server_config *cfg = inst->lane->server->cfg;
	bool modern = mcp_client_facts(inst->client)->era == MCP_ERA_MODERN;
	int64_t timeout_ms = cfg->ping_interval_ms > 0 ? cfg->ping_interval_ms : WATCH_PING_MS;
	if (w->ping_sent_ms)
		return;
	if (cfg->timeout_ms > 0 && cfg->timeout_ms < timeout_ms)
		timeout_ms = cfg->timeout_ms;
	struct mcp_call_options options = { .timeout_ms = timeout_ms, .done = on_pong, .arg = inst };
	w->ping_sent_ms = loop_now_ms();
	/* Modern servers know no ping, but all of them know this. */
	mcp_client_call(inst->client, modern ? SPAN_LIT("\"server/discover\"") : SPAN_LIT("\"ping\""), SPAN_NONE,
			&options);
}

static void on_ping_timer(void *arg)
{
	struct instance *inst = arg;
	int64_t interval = ping_interval(inst);
	if (interval <= 0)
		return;
	if (loop_now_ms() - inst->heard_ms < interval)
		watch_rearm(inst);
	else
		watch_ping(inst);
}

void watch_rearm(struct instance *inst)
{
	struct watch *w = &inst->watch;
	int64_t interval = ping_interval(inst);
	if (interval > 0 && inst->connected && !w->ping_sent_ms)
		timer_set(w->ping_timer, inst->heard_ms + interval);
	else if (interval <= 0)
		timer_cancel(w->ping_timer);
}

void watch_start(struct instance *inst)
{
	if (!inst->lane->catalogue && mcp_client_facts(inst->client)->era != MCP_ERA_MODERN)
		open_stream(inst);
	watch_rearm(inst);
}
