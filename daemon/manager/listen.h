/*
 * The announcements of a modern server: the daemon's own `subscriptions/listen` (2026-07-28).
 *
 * One stream asks for all that is wanted: the list changes that the server offers, and the updates of resources that
 * the floors above have subscribed to. A modern server has no `resources/subscribe` and `unsubscribe`; calls of that
 * name that are `kept` (server.h) are taken here. When the set of URIs changes, a stream for the new one is opened
 * first, and the old one is ended once the server has acknowledged the new; what changes meanwhile goes into the next
 * one. A subscribe is answered {} once an acknowledgment covers its URI; it fails where the acknowledgment leaves the
 * URI out, where the server refuses the stream, and where it does not acknowledge it in time. An unsubscribe is
 * answered {} at once.
 *
 * A stream that ends is opened again by the watch, with all URIs that the server had acknowledged.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/queue.h>

#include "manager/server_calls.h"

#define LISTEN_BURST_MS 100 /* for URIs that nobody wants any more; new ones do not wait */
#define LISTEN_ACK_MS 30000 /* for the acknowledgment, where the server has no `timeout` */

struct instance;
struct listen_stream;
struct listen_uri;
struct listen_wait;
TAILQ_HEAD(listen_uri_list, listen_uri);
TAILQ_HEAD(listen_wait_list, listen_wait);

struct listen {
	struct listen_stream *current; /* acknowledged, or taken for it; or NULL */
	struct listen_stream *next;    /* not acknowledged yet, or NULL */
	struct listen_uri_list uris;
	struct listen_wait_list waits;
	struct timer *change_timer, *ack_timer;
	int64_t change_ms; /* when change_timer is due */
};

void listen_init(struct instance *inst);
/* Nothing of it calls back any more; subscribes that wait fail with `Transport closed`. Idempotent. */
void listen_stop(struct instance *inst);
/* After listen_stop(). */
void listen_done(struct instance *inst);
/* A new connection: opens its first stream, with what has been set up on it by now; before any call is sent that may
 * change something. Nothing for legacy servers. */
void listen_begin(struct instance *inst);
/* Opens the stream anew, in the next pass, if there is anything to ask for and none is being opened. */
void listen_open(struct instance *inst);
/* Whether the server offers to announce changes of its `tools`, `prompts` or `resources`. */
bool listen_announces(const struct mcp_server_facts *facts, const char *what);
/* Takes a resources/subscribe or unsubscribe that is in no list. */
void listen_take(struct instance *inst, struct lane *lane, struct server_call *call);
/* A call that was taken ends. */
void listen_forget(struct instance *inst, const struct server_call *call);
/* notifications/subscriptions/acknowledged. */
void listen_acknowledged(struct instance *inst, struct span params);
