#include "manager/server.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "manager/instance.h"
#include "manager/server_calls.h"
#include "manager/server_private.h"
#include "xalloc.h"

uint64_t server_id(const struct server *server)
{
	return server->id;
}

const char *server_name(const struct server *server)
{
	return server->name;
}

/* ---- lanes and calls as a whole ---- */

static void make_lanes(struct server *server)
{
	if (server->cfg->sharing != CONFIG_PER_CLIENT)
		server->main = lane_new(server, 0, false);
}

/* All calls that were not sent, in no list any more. */
static void take_waiting(struct server *server, struct server_call_list *to)
{
	struct lane *lane;
	TAILQ_FOREACH(lane, &server->lanes, link)
	for (struct server_call *call; (call = TAILQ_FIRST(&lane->waiting));) {
		server_call_leave(call);
		TAILQ_INSERT_TAIL(to, call, link);
	}
	sharing_take_queue(server, to);
}

static void drop_lanes(struct server *server, const char *why)
{
	for (struct lane *lane; (lane = TAILQ_FIRST(&server->lanes));) {
		orders_lane_failed(lane, why);
		lane_free(lane);
	}
	server->claims.holder = 0;
}

/* ---- life ---- */

struct server *server_new(struct manager *m, const struct server_config *cfg)
{
	struct server *server = xnew(struct server);
	server->m = m;
	server->id = manager_next_id(m);
	server->name = xstrdup(cfg->name);
	server->cfg = cfg;
	TAILQ_INIT(&server->lanes);
	TAILQ_INIT(&server->claims.queue);
	TAILQ_INIT(&server->orders);
	server_lists_init(server);
	server_log_init(&server->log);
	history_init(&server->history);
	make_lanes(server);
	server_load_cache(server);
	server->state = SERVER_STATE_COUNT; /* the first one is a change in any case */
	if (cfg->error)
		server_note_error(server, cfg->error);
	server_state_changed(server, cfg->error);
	return server;
}

static void free_memory(void *arg)
{
	struct server *server = arg;
	assert(server->askers.turns.count == 0);
	server_lists_done(server);
	server_log_done(&server->log);
	history_done(&server->history);
	free(server->facts);
	free(server->last_error);
	free(server->advice);
	free(server->shown);
	free(server->name);
	free(server);
}

void server_free(struct server *server)
{
	static const char why[] = "it is not configured any more";
	struct server_call_list calls = TAILQ_HEAD_INITIALIZER(calls);
	take_waiting(server, &calls);
	for (struct server_call *call; (call = TAILQ_FIRST(&calls));) {
		TAILQ_REMOVE(&calls, call, link);
		server_call_failf(call, MCPD_E_UNAVAILABLE, "Server \"%s\" was stopped: %s", server->name, why);
	}
	orders_fail_all(server, why);
	drop_lanes(server, why);
	loop_bury(server->m->loop, server, free_memory);
}

void server_shut(struct server *server)
{
	struct server_call_list calls = TAILQ_HEAD_INITIALIZER(calls);
	struct lane *lane;
	take_waiting(server, &calls);
	for (struct server_call *call; (call = TAILQ_FIRST(&calls));) {
		TAILQ_REMOVE(&calls, call, link);
		server_call_failf(call, MCPD_E_TRANSPORT, "Transport closed");
	}
	TAILQ_FOREACH(lane, &server->lanes, link)
	lane_stop(lane, "mcpd is stopping", false);
	orders_fail_all(server, "mcpd is shutting down");
}

void server_start(struct server *server, const char *why)
{
	struct lane *lane;
	if (!server->cfg->enabled || server->cfg->error)
		return;
	/* Without a client there is nothing to run but a look at the tools. */
	TAILQ_FOREACH(lane, &server->lanes, link)
	if (lane_is_active(lane))
		return;
	lane_start(server->cfg->sharing == CONFIG_SHARED ? server->main : sharing_catalogue(server), why);
}

void server_stop(struct server *server, const char *why, bool keep_waiting)
{
	struct server_call_list calls = TAILQ_HEAD_INITIALIZER(calls);
	struct lane *lane;
	take_waiting(server, &calls);
	TAILQ_FOREACH(lane, &server->lanes, link)
	lane_stop(lane, why, false);
	if (server->claims.holder) {
		server->claims.holder = 0;
		server->main->owner = 0;
	}
	for (struct server_call *call; (call = TAILQ_FIRST(&calls));) {
		TAILQ_REMOVE(&calls, call, link);
		if (keep_waiting)
			server_submit(server, call);
		else
			server_call_failf(call, MCPD_E_UNAVAILABLE, "Server \"%s\" was stopped: %s", server->name, why);
	}
}

/* ---- another definition ---- */

/* What makes another process, or another connection, of a server with the same tools. */
static bool is_other_connection(const struct server_config *a, const struct server_config *b)
{
	return strcmp(a->identity, b->identity) != 0 || a->sharing != b->sharing || a->enabled != b->enabled ||
	       a->insecure != b->insecure || !a->error != !b->error;
}

static void replace(struct server *server, const struct server_config *cfg)
{
	struct server_call_list calls = TAILQ_HEAD_INITIALIZER(calls);
	bool other_tools = strcmp(server->cfg->identity, cfg->identity) != 0;
	take_waiting(server, &calls);
	drop_lanes(server, "its configuration was changed");
	server->cfg = cfg;
	server->by_hand = false;
	make_lanes(server);
	if (other_tools) {
		struct span before = tool_list_text(server_shown(server, SERVER_TOOLS));
		server_forget_facts(server);
		server_load_cache(server);
		if (!span_equal(before, tool_list_text(server_shown(server, SERVER_TOOLS))))
			outbox_raise(server, OUTBOX_LISTS);
	}
	server_filter_tools(server);
	if (cfg->error)
		server_note_error(server, cfg->error);
	server_state_changed(server, cfg->error ? cfg->error : "its configuration was changed");
	for (struct server_call *call; (call = TAILQ_FIRST(&calls));) {
		TAILQ_REMOVE(&calls, call, link);
		server_submit(server, call);
	}
}

static void amend(struct server *server, const struct server_config *cfg)
{
	struct lane *lane;
	if (cfg->error && strcmp(cfg->error, server->cfg->error) != 0)
		server_note_error(server, cfg->error);
	server->cfg = cfg;
	TAILQ_FOREACH(lane, &server->lanes, link)
	{
		/* A change is a reason to try again. */
		if (lane->state == SERVER_FAILED || lane->state == SERVER_NEEDS_AUTH)
			lane_stop(lane, "its configuration was changed", true);
		lane_check_idle(lane);
		if (lane->instance && lane->instance->connected)
			watch_rearm(lane->instance);
	}
	server_filter_tools(server);
	outbox_raise(server, OUTBOX_SERVER);
}

void server_reconfigure(struct server *server, const struct server_config *cfg, bool environment_changed)
{
	if (is_other_connection(server->cfg, cfg) || (environment_changed && cfg->transport == CONFIG_STDIO))
		replace(server, cfg);
	else
		amend(server, cfg);
}

/* ---- calls and notifications ---- */

void server_submit(struct server *server, struct server_call *call)
{
	if (!server->cfg->enabled) {
		server_call_failf(call, MCPD_E_UNAVAILABLE,
				  "Server \"%s\" is disabled: set \"enabled\" in %s and reload", server->name,
				  server->cfg->source);
	} else if (server->cfg->error) {
		server_call_failf(call, MCPD_E_UNAVAILABLE, "Server \"%s\" is failed: %s", server->name,
				  server->cfg->error);
	} else {
		server->by_hand = false;
		sharing_place(server, call);
	}
}

int server_notify(struct server *server, uint64_t client, struct span method, struct span params)
{
	struct lane *lane = server->cfg->enabled ? sharing_lane_of(server, client) : NULL;
	if (!lane || lane->state != SERVER_CONNECTED || !lane->instance || lane->instance->lost)
		return -ENOTCONN;
	mcp_client_notify(lane->instance->client, method, params);
	return 0;
}

int server_release(struct server *server, uint64_t client)
{
	if (server->cfg->sharing != CONFIG_EXCLUSIVE || !client || server->claims.holder != client)
		return -EPERM;
	sharing_release(server, "released by its client");
	return 0;
}

void server_set_pinned(struct server *server, enum server_pin pin, bool pinned)
{
	struct lane *lane;
	server->pinned = pinned ? server->pinned | pin : server->pinned & ~(unsigned)pin;
	TAILQ_FOREACH(lane, &server->lanes, link)
	lane_check_idle(lane);
}
