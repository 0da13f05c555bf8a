#include "manager/sharing.h"

#include <stdlib.h>

#include "manager/instance.h"
#include "manager/server_calls.h"
#include "manager/server_private.h"
#include "xalloc.h"

/* ---- per-client ---- */

static struct lane *find_lane(struct server *server, uint64_t client)
{
	struct lane *lane;
	TAILQ_FOREACH(lane, &server->lanes, link)
	if (lane != server->catalogue && lane->owner == client)
		return lane;
	return NULL;
}

struct lane *sharing_catalogue(struct server *server)
{
	if (!server->catalogue)
		server->catalogue = lane_new(server, 0, true);
	return server->catalogue;
}

struct lane *sharing_lane_of(struct server *server, uint64_t client)
{
	switch (server->cfg->sharing) {
	case CONFIG_SHARED:
		return server->main;
	case CONFIG_EXCLUSIVE:
		return client && server->claims.holder == client ? server->main : NULL;
	default:
		return find_lane(server, client);
	}
}

/* ---- exclusive ---- */

static void set_holder(struct server *server, uint64_t client)
{
	server->claims.holder = client;
	server->main->owner = client;
	outbox_raise(server, OUTBOX_SERVER);
}

static struct claim *find_claim(struct server *server, uint64_t client)
{
	struct claim *claim;
	TAILQ_FOREACH(claim, &server->claims.queue, link)
	if (claim->client == client)
		return claim;
	return NULL;
}

static void enter_queue(struct server *server, struct server_call *call)
{
	struct claims *claims = &server->claims;
	struct claim *claim = find_claim(server, call->client);
	unsigned max = (unsigned)server->m->limits.value[LIMIT_EXCLUSIVE_QUEUE];
	if (!claim && claims->n_queue >= max) {
		char *message = xasprintf("%u clients are waiting for server \"%s\" already (%s)", max, server->name,
					  limit_table[LIMIT_EXCLUSIVE_QUEUE].key);
		server_call_fail(call, &(struct transport_reply){ .code = MCPD_E_LIMIT,
								  .message = message,
								  .limit = LIMIT_EXCLUSIVE_QUEUE });
		free(message);
		return;
	}
	if (!claim) {
		claim = xnew(struct claim);
		claim->server = server;
		claim->client = call->client;
		TAILQ_INIT(&claim->calls);
		TAILQ_INSERT_TAIL(&claims->queue, claim, link);
		claims->n_queue++;
	}
	call->claim = claim;
	TAILQ_INSERT_TAIL(&claim->calls, call, link);
	outbox_raise(server, OUTBOX_QUEUE | OUTBOX_SERVER);
}

static void free_claim(struct server *server, struct claim *claim)
{
	TAILQ_REMOVE(&server->claims.queue, claim, link);
	server->claims.n_queue--;
	free(claim);
	outbox_raise(server, OUTBOX_QUEUE | OUTBOX_SERVER);
}

void sharing_claim_left(struct server *server, struct claim *claim)
{
	if (TAILQ_EMPTY(&claim->calls))
		free_claim(server, claim);
}

static bool has_failed(const struct lane *lane)
{
	return lane->state == SERVER_FAILED || lane->state == SERVER_NEEDS_AUTH;
}

static void place_exclusive(struct server *server, struct server_call *call)
{
	struct claims *claims = &server->claims;
	uint64_t client = call->client;
	if (claims->holder == client) {
		lane_submit(server->main, call);
	} else if (claims->holder == 0 && TAILQ_EMPTY(&claims->queue)) {
		/* The instance is told whose it is when it starts. */
		server->main->owner = client;
		lane_submit(server->main, call);
		set_holder(server, has_failed(server->main) ? 0 : client);
	} else {
		enter_queue(server, call);
	}
}

void sharing_grant(struct server *server)
{
	struct claim *claim = TAILQ_FIRST(&server->claims.queue);
	if (!server->main || server->claims.holder || !claim)
		return;
	struct server_call_list calls = TAILQ_HEAD_INITIALIZER(calls);
	TAILQ_CONCAT(&calls, &claim->calls, link);
	set_holder(server, claim->client);
	free_claim(server, claim);
	for (struct server_call *call; (call = TAILQ_FIRST(&calls));) {
		TAILQ_REMOVE(&calls, call, link);
		call->claim = NULL;
		lane_submit(server->main, call);
	}
}

static void take_waiting(struct lane *lane, struct server_call_list *to)
{
	struct server_call *call;
	while ((call = TAILQ_FIRST(&lane->waiting))) {
		server_call_leave(call);
		TAILQ_INSERT_TAIL(to, call, link);
	}
}

void sharing_release(struct server *server, const char *why)
{
	struct server_call_list calls = TAILQ_HEAD_INITIALIZER(calls);
	/* What the holder has not sent yet is asked for anew: its place is the last. */
	take_waiting(server->main, &calls);
	lane_stop(server->main, why, false);
	set_holder(server, 0);
	sharing_grant(server);
	for (struct server_call *call; (call = TAILQ_FIRST(&calls));) {
		TAILQ_REMOVE(&calls, call, link);
		server_submit(server, call);
	}
}

void sharing_take_queue(struct server *server, struct server_call_list *to)
{
	for (struct claim *claim; (claim = TAILQ_FIRST(&server->claims.queue));) {
		struct server_call *call;
		TAILQ_FOREACH(call, &claim->calls, link)
		call->claim = NULL;
		TAILQ_CONCAT(to, &claim->calls, link);
		free_claim(server, claim);
	}
}

void sharing_lane_failed(struct lane *lane)
{
	struct server *server = lane->server;
	if (server->cfg->sharing != CONFIG_EXCLUSIVE || lane != server->main)
		return;
	struct server_call_list calls = TAILQ_HEAD_INITIALIZER(calls);
	sharing_take_queue(server, &calls);
	set_holder(server, 0);
	for (struct server_call *call; (call = TAILQ_FIRST(&calls));) {
		TAILQ_REMOVE(&calls, call, link);
		lane_submit(lane, call); /* which tells it why */
	}
}

struct told {
	uint64_t call;
	unsigned position;
};

void sharing_tell_positions(struct manager *m, uint64_t server_id)
{
	struct server *server = manager_by_id(m, server_id);
	struct told *list = NULL;
	size_t n = 0;
	unsigned position = 0;
	struct claim *claim;
	struct server_call *call;
	TAILQ_FOREACH(claim, &server->claims.queue, link)
	{
		position++;
		TAILQ_FOREACH(call, &claim->calls, link)
		{
			if (call->told_position == position || !call->queued)
				continue;
			call->told_position = position;
			list = xrealloc(list, n + 1, sizeof *list);
			list[n++] = (struct told){ call->id, position };
		}
	}
	for (size_t i = 0; i < n; i++) {
		server = manager_by_id(m, server_id);
		call = server ? server_call_find(server, list[i].call) : NULL;
		if (call && call->claim)
			call->queued(call->arg, list[i].position);
	}
	free(list);
}

/* ---- all ---- */

void sharing_place(struct server *server, struct server_call *call)
{
	struct lane *lane;
	if (server->cfg->sharing != CONFIG_SHARED && !call->client) {
		server_call_failf(call, MCPD_E_INTERNAL, "Server \"%s\" is not shared: only clients can call it",
				  server->name);
		return;
	}
	switch (server->cfg->sharing) {
	case CONFIG_SHARED:
		lane_submit(server->main, call);
		return;
	case CONFIG_EXCLUSIVE:
		place_exclusive(server, call);
		return;
	case CONFIG_PER_CLIENT:
		lane = find_lane(server, call->client);
		lane_submit(lane ? lane : lane_new(server, call->client, false), call);
		return;
	}
}

void sharing_client_gone(struct server *server, uint64_t client)
{
	static const char why[] = "its client has gone";
	if (!client || server->cfg->sharing == CONFIG_SHARED)
		return;
	struct claim *claim = find_claim(server, client);
	/* The last one frees the claim. */
	for (struct server_call *call = claim ? TAILQ_FIRST(&claim->calls) : NULL, *next; call; call = next) {
		next = TAILQ_NEXT(call, link);
		server_call_failf(call, MCPD_E_CANCELLED, "The client has gone");
	}
	struct lane *lane = sharing_lane_of(server, client);
	if (!lane)
		return;
	for (struct server_call *call; (call = TAILQ_FIRST(&lane->waiting));)
		server_call_failf(call, MCPD_E_CANCELLED, "The client has gone");
	if (server->cfg->sharing == CONFIG_EXCLUSIVE) {
		sharing_release(server, why);
		return;
	}
	lane_stop(lane, why, false);
	lane_free(lane);
	server_state_changed(server, why);
}
