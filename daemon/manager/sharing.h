/*
 * Who gets which lane: `shared`, `per-client` and `exclusive` servers (ARCHITECTURE "Sharing").
 *
 * An exclusive server is its holder's from its first call until it goes or releases it; others wait in a queue, by
 * client, in the order of their first calls (limit maxExclusiveQueue). What a process knows of its holder must not
 * reach the next one (R25): its process ends, and the next holder gets a new one once nothing of the old one is left. A
 * server that cannot be started is held by nobody.
 */
#pragma once

#include <stdint.h>
#include <sys/queue.h>

#include "manager/outbox.h"

struct lane;
struct server;
struct server_call;

/* A client in the queue of an exclusive server; there is one as long as it has calls waiting there. */
struct claim {
	struct server *server;
	uint64_t client;
	struct server_call_list calls;
	TAILQ_ENTRY(claim) link;
};
TAILQ_HEAD(claim_list, claim);

struct claims {
	uint64_t holder; /* 0: nobody */
	struct claim_list queue;
	unsigned n_queue;
};

void sharing_place(struct server *server, struct server_call *call);
/* A call has left its claim, which is freed if it was the last one. */
void sharing_claim_left(struct server *server, struct claim *claim);
/* The lane, if it is a main one, has failed: nobody holds the server, and those in the queue are told. */
void sharing_lane_failed(struct lane *lane);
/* The server's lane for the client's notifications, or NULL. */
struct lane *sharing_lane_of(struct server *server, uint64_t client);
/* The catalogue's lane; made if there is none. */
struct lane *sharing_catalogue(struct server *server);
/* The client has gone. */
void sharing_client_gone(struct server *server, uint64_t client);
/* The holder gives the server up; the next in turn gets it. */
void sharing_release(struct server *server, const char *why);
/* Gives a server that nobody holds to the next in turn, if there is one. */
void sharing_grant(struct server *server);
/* Moves all calls that wait in the queue to the list. */
void sharing_take_queue(struct server *server, struct server_call_list *to);
/* Tells the places in the queue to those whose place is another one than they know. From the outbox; may call
 * anything. */
void sharing_tell_positions(struct manager *m, uint64_t server_id);
