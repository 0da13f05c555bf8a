/*
 * What the manager tells upwards, in its own turn: one task that runs between two passes of the loop.
 *
 * The floors above may do anything in their callbacks - call a server, cancel, load another configuration - and so none
 * of them runs while a state machine here is half-way through a change. Several changes of a server within one pass are
 * told once, with what is then the case; calls and orders that end without a server's answer end here.
 */
#pragma once

#include <stdint.h>
#include <sys/queue.h>

#include "proto/span.h"

struct manager;
struct server;
struct server_call;
struct order;

TAILQ_HEAD(server_call_list, server_call);
TAILQ_HEAD(order_list, order);

enum outbox_event {
	OUTBOX_SERVER = 1,
	OUTBOX_LISTING = 2,
	OUTBOX_QUEUE = 4, /* places in an exclusive server's queue */
	OUTBOX_LIST = 8,  /* shifted by enum server_list: that list is another one */
	OUTBOX_LISTS = OUTBOX_LIST * 15,
};

struct outbox_note;
TAILQ_HEAD(outbox_notes, outbox_note);

struct outbox {
	struct task *task;
	struct outbox_notes notes; /* servers that went, questions that were withdrawn: in their order */
	struct server_call_list calls;
	struct order_list orders;
};

void outbox_init(struct manager *m);
void outbox_done(struct manager *m);
/* Makes the task run, also where only a shutdown may have come a step further. */
void outbox_schedule(struct manager *m);
void outbox_raise(struct server *server, unsigned events);
void outbox_server_removed(struct manager *m, const char *name);
void outbox_question_withdrawn(struct manager *m, uint64_t question, const char *reason);
/* The call has its outcome and is in no other list; likewise the order. */
void outbox_call(struct manager *m, struct server_call *call);
void outbox_order(struct manager *m, struct order *order);
