#include "manager/server_orders.h"

#include <stdlib.h>

#include "manager/instance.h"
#include "manager/server_calls.h"
#include "manager/server_private.h"
#include "xalloc.h"

void order_finish(struct order *order)
{
	struct manager *m = order->m;
	struct server *server = manager_by_id(m, order->server_id);
	timer_free(order->timer);
	if (!server && !order->failed) {
		order->failed = true;
		order->failure =
			(struct transport_reply){ .code = MCPD_E_UNAVAILABLE,
						  .message = xstrdup("The server is not configured any more") };
	}
	order->done(order->arg, server, order->failed ? &order->failure : NULL);
	reply_drop(&order->failure);
	free(order);
}

/* The order is in no list any more. */
static void succeed(struct order *order)
{
	if (order->timer)
		timer_cancel(order->timer);
	outbox_order(order->m, order);
}

static void fail(struct order *order, int code, const char *message)
{
	order->failed = true;
	order->failure = (struct transport_reply){ .code = code, .message = xstrdup(message) };
	if (code == MCPD_E_TIMEOUT)
		order->failure.timeout_ms = order->timeout_ms;
	succeed(order);
}

static void on_timeout(void *arg)
{
	struct order *order = arg;
	struct server *server = manager_by_id(order->m, order->server_id);
	char *message = xasprintf("Request timeout after %lldms", (long long)order->timeout_ms);
	TAILQ_REMOVE(&server->orders, order, link);
	fail(order, MCPD_E_TIMEOUT, message);
	free(message);
}

/* ---- what they wait for ---- */

static void end_lane_orders(struct lane *lane, const char *message)
{
	struct server *server = lane->server;
	for (struct order *order = TAILQ_FIRST(&server->orders), *next; order; order = next) {
		next = TAILQ_NEXT(order, link);
		if (order->lane_id != lane->id)
			continue;
		TAILQ_REMOVE(&server->orders, order, link);
		if (message)
			fail(order, lane->state == SERVER_NEEDS_AUTH ? MCPD_E_NEEDS_AUTH : MCPD_E_UNAVAILABLE, message);
		else
			succeed(order);
	}
}

void orders_lane_connected(struct lane *lane)
{
	end_lane_orders(lane, NULL);
}

void orders_lane_failed(struct lane *lane, const char *message)
{
	end_lane_orders(lane, message ? message : "it was stopped");
}

void orders_move(struct lane *from, struct lane *to)
{
	struct order *order;
	TAILQ_FOREACH(order, &from->server->orders, link)
	if (order->lane_id == from->id)
		order->lane_id = to->id;
}

static bool is_any_left(const struct server *server, uint64_t generation)
{
	const struct instance *inst;
	TAILQ_FOREACH(inst, &server->m->instances, link)
	if (inst->server_id == server->id && inst->generation <= generation)
		return true;
	return false;
}

void orders_instance_gone(struct server *server)
{
	for (struct order *order = TAILQ_FIRST(&server->orders), *next; order; order = next) {
		next = TAILQ_NEXT(order, link);
		if (!order->generation || is_any_left(server, order->generation))
			continue;
		TAILQ_REMOVE(&server->orders, order, link);
		succeed(order);
	}
}

void orders_fail_all(struct server *server, const char *message)
{
	for (struct order *order; (order = TAILQ_FIRST(&server->orders));) {
		TAILQ_REMOVE(&server->orders, order, link);
		fail(order, MCPD_E_UNAVAILABLE, message);
	}
}

/* ---- giving them ---- */

static void connect(struct server *server, struct order *order)
{
	struct lane *lane;
	TAILQ_FOREACH(lane, &server->lanes, link)
	if (lane->state == SERVER_CONNECTED && lane->instance && !lane->instance->lost) {
		TAILQ_REMOVE(&server->orders, order, link);
		succeed(order);
		return;
	}
	server->by_hand = false;
	lane = server->cfg->sharing == CONFIG_SHARED ? server->main : sharing_catalogue(server);
	/* The process of an exclusive server's holder will do. */
	if (server->cfg->sharing == CONFIG_EXCLUSIVE && lane_is_active(server->main))
		lane = server->main;
	order->lane_id = lane->id;
	lane_start(lane, "asked for by hand");
}

static void disconnect(struct server *server, struct order *order)
{
	server_stop(server, "disconnected by hand", false);
	server->by_hand = true;
	order->generation = server->m->last_id;
	orders_instance_gone(server);
}

static char *refusal(const struct server *server, enum server_order kind)
{
	if (server->m->phase != MANAGER_RUNNING)
		return xstrdup("mcpd is shutting down");
	if (kind == SERVER_ORDER_DISCONNECT)
		return NULL;
	if (!server->cfg->enabled)
		return xasprintf("Server \"%s\" is disabled: set \"enabled\" in %s and reload", server->name,
				 server->cfg->source);
	return server->cfg->error ? xasprintf("Server \"%s\": %s", server->name, server->cfg->error) : NULL;
}

void server_order(struct server *server, enum server_order kind, int64_t timeout_ms, server_order_fn *done, void *arg)
{
	struct manager *m = server->m;
	struct order *order = xnew(struct order);
	order->m = m;
	order->server_id = server->id;
	order->done = done;
	order->arg = arg;
	order->timeout_ms = timeout_ms < 0 ? server->cfg->connect_timeout_ms : timeout_ms;
	char *refused = refusal(server, kind);
	if (refused) {
		fail(order, MCPD_E_UNAVAILABLE, refused);
		free(refused);
		return;
	}
	if (order->timeout_ms > 0) {
		order->timer = timer_new(m->loop, on_timeout, order);
		timer_set(order->timer, loop_now_ms() + order->timeout_ms);
	}
	if (kind == SERVER_ORDER_RECONNECT)
		server_stop(server, "reconnected by hand", true);
	TAILQ_INSERT_TAIL(&server->orders, order, link);
	if (kind == SERVER_ORDER_DISCONNECT)
		disconnect(server, order);
	else
		connect(server, order);
}
