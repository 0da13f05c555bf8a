/*
 * What keeps an instance's tools current and notices that it hangs.
 *
 * Tools are listed at once after the handshake, then the other lists that somebody has asked for, and each again once per
 * burst of its list_changed (R28): one listing at a time, and one more if something changed while one was under way.
 * Announcements come on their own stream where the
 * server wants one: the listener of legacy HTTP servers (H11), `subscriptions/listen` of modern ones (manager/listen.h);
 * either is opened again with growing delays when it ends, and the lists are fetched again, since an announcement may
 * have been missed.
 * With `pingInterval`, a server that says nothing for that long is asked, and ended when it does not answer.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "manager/manager.h"

#include "manager/reconnect.h"
#include "proto/span.h"

struct instance;
struct listing;
struct transport_reply;

#define WATCH_BURST_MS 100
#define WATCH_STREAM_DELAY_MAX_MS 30000
#define WATCH_PING_MS 10000          /* for the answer to a ping, without pingInterval */
#define WATCH_STREAM_STABLE_MS 10000 /* a stream that lived as long starts with the shortest delay again */

struct watch {
	struct listing *listing;
	enum server_list current; /* what it lists */
	unsigned due;             /* bit per enum server_list: to be listed next */
	unsigned changed;         /* the same, when the burst is over */
	struct timer *burst_timer;
	struct timer *stream_timer;
	struct reconnect stream_delays;
	unsigned stream_attempt;
	bool stream_off, stream_worked;
	int64_t stream_opened_ms;
	struct timer *ping_timer;
	int64_t ping_sent_ms; /* 0: none is under way */
};

void watch_init(struct instance *inst);
void watch_done(struct instance *inst);
/* Stops everything; nothing of it calls back any more. */
void watch_stop(struct instance *inst);
/* Lists, or lists once more after the listings that are under way. */
void watch_list(struct instance *inst, enum server_list list);
/* Lists what is wanted beside the tools. */
void watch_list_wanted(struct instance *inst);
/* Whether the list is under way or due; whether any is. */
bool watch_is_listing(const struct instance *inst, enum server_list list);
bool watch_is_busy(const struct instance *inst);
/* Once connected: opens a legacy server's stream of announcements, starts the ping clock. */
void watch_start(struct instance *inst);
/* The configuration's pingInterval may be another one. */
void watch_rearm(struct instance *inst);
/* Asks whether it is alive; ends it if it is not. */
void watch_ping(struct instance *inst);
/* A notification of the server: it may say that a list has changed. */
void watch_notification(struct instance *inst, struct span method);
/* A modern server's stream is being opened, by whomever; and it has ended. */
void watch_listen_opened(struct instance *inst);
void watch_listen_ended(struct instance *inst, const struct transport_reply *reply);
void watch_listener_ended(struct instance *inst, int http_status, const char *message);
