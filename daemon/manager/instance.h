/*
 * An instance: one connection of a server, from its start until its transport has closed and nothing of it is left.
 *
 * Transport, MCP client, the first listing of the tools, and what keeps that list current (manager/watch.h). It belongs
 * to a lane until the lane, or the instance itself, gives it up; then it closes by itself, and nothing late of it
 * reaches the lane (PITFALLS "Lifetimes" 2).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "manager/lane.h"
#include "manager/listen.h"
#include "manager/watch.h"
#include "mcp/mcp_client.h"

struct instance {
	struct manager *m;
	struct lane *lane; /* NULL: given up */
	uint64_t server_id, lane_id;
	uint64_t generation;
	uint64_t owner; /* the one client it serves, or 0 */
	struct mcp_client *client;
	struct transport *transport; /* the client's */
	unsigned capabilities;       /* enum tool_capability: what it was told that its client can */
	unsigned calls;              /* in flight, of clients */
	bool hinted;                 /* it was told which era to expect */
	bool connected;              /* handshake done, and the tools listed */
	bool lost;                   /* it ended by itself */
	bool ended_lost;             /* given up as lost, before it could say why */
	bool retiring;               /* given up, but calls may still end on it */
	bool closing;
	int64_t heard_ms; /* when the server last said anything that shows it alive */
	struct timer *connect_timer;
	struct task *retire_task;
	struct watch watch;
	struct listen listen; /* modern servers */
	TAILQ_ENTRY(instance) link;
};

/* A new connection for the lane. Nothing is called back inside. */
struct instance *instance_start(struct lane *lane, bool skip_probe);
/* Gives it up and closes it with all that belongs to it; calls in flight fail `Transport closed`. Idempotent. The
 * one way in which a connection ends. */
void instance_end(struct instance *inst);
/* The same for a connection that was found to be gone (calls in flight may be repeated where M6 allows it). */
void instance_end_lost(struct instance *inst);
/* Gives it up, and closes it when the calls in flight on it have ended. */
void instance_retire(struct instance *inst);
/* A call of a client has ended. */
void instance_call_ended(struct instance *inst);
/* The first listing's end: the failure or NULL. From the watch. */
void instance_listed(struct instance *inst, const struct transport_reply *failure);

/* instance_transport.c: the transport of a definition (L4), to be run by the client. */
struct transport *instance_transport(struct manager *m, const struct server_config *cfg, struct mcp_client *client);
