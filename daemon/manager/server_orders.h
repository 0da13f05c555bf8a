/* Orders by hand: servers/connect, disconnect, reconnect. Each ends once, from the outbox. */
#pragma once

#include "manager/outbox.h"
#include "manager/server.h"

struct lane;

struct order {
	struct manager *m;
	uint64_t server_id;
	uint64_t lane_id;    /* connecting: whose attempt it waits for */
	uint64_t generation; /* disconnecting: waits until no instance up to this one is left */
	int64_t timeout_ms;
	struct timer *timer;
	server_order_fn *done;
	void *arg;
	bool failed;
	struct transport_reply failure; /* its texts belong to the order */
	TAILQ_ENTRY(order) link;        /* in the server's list, or the outbox */
};

void orders_lane_connected(struct lane *lane);
/* An attempt failed, or the lane was stopped. */
void orders_lane_failed(struct lane *lane, const char *message);
/* Those that wait for one lane's attempt wait for another's now. */
void orders_move(struct lane *from, struct lane *to);
void orders_instance_gone(struct server *server);
void orders_fail_all(struct server *server, const char *message);
/* From the outbox: calls done and frees it. */
void order_finish(struct order *order);
