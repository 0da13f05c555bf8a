#include "manager/outbox.h"

#include <stdlib.h>

#include "manager/manager_private.h"
#include "manager/server_calls.h"
#include "manager/server_private.h"
#include "xalloc.h"

struct outbox_note {
	uint64_t question; /* withdrawn; 0: a server was removed */
	char *text;        /* its name, or the reason (or NULL) */
	TAILQ_ENTRY(outbox_note) link;
};

static void run(void *arg);

void outbox_init(struct manager *m)
{
	TAILQ_INIT(&m->outbox.notes);
	TAILQ_INIT(&m->outbox.calls);
	TAILQ_INIT(&m->outbox.orders);
	m->outbox.task = task_new(m->loop, run, m);
}

static void free_note(struct manager *m, struct outbox_note *note)
{
	TAILQ_REMOVE(&m->outbox.notes, note, link);
	free(note->text);
	free(note);
}

void outbox_done(struct manager *m)
{
	while (!TAILQ_EMPTY(&m->outbox.notes))
		free_note(m, TAILQ_FIRST(&m->outbox.notes));
	task_free(m->outbox.task);
	m->outbox.task = NULL;
}

void outbox_schedule(struct manager *m)
{
	task_schedule(m->outbox.task);
}

void outbox_raise(struct server *server, unsigned events)
{
	server->events |= events;
	outbox_schedule(server->m);
}

static void add_note(struct manager *m, uint64_t question, const char *text)
{
	struct outbox_note *note = xnew(struct outbox_note);
	note->question = question;
	note->text = text ? xstrdup(text) : NULL;
	TAILQ_INSERT_TAIL(&m->outbox.notes, note, link);
	outbox_schedule(m);
}

void outbox_server_removed(struct manager *m, const char *name)
{
	add_note(m, 0, name);
}

void outbox_question_withdrawn(struct manager *m, uint64_t question, const char *reason)
{
	add_note(m, question, reason);
}

void outbox_call(struct manager *m, struct server_call *call)
{
	TAILQ_INSERT_TAIL(&m->outbox.calls, call, link);
	outbox_schedule(m);
}

void outbox_order(struct manager *m, struct order *order)
{
	TAILQ_INSERT_TAIL(&m->outbox.orders, order, link);
	outbox_schedule(m);
}

static void tell_notes(struct manager *m)
{
	struct outbox_notes notes = TAILQ_HEAD_INITIALIZER(notes);
	TAILQ_CONCAT(&notes, &m->outbox.notes, link);
	for (struct outbox_note *note; (note = TAILQ_FIRST(&notes));) {
		TAILQ_REMOVE(&notes, note, link);
		if (note->question)
			m->callbacks.on_question_withdrawn(m->arg, note->question, span_of(note->text));
		else
			m->callbacks.on_server_removed(m->arg, note->text);
		free(note->text);
		free(note);
	}
}

static void tell_event(struct manager *m, struct server *server, unsigned event)
{
	switch (event) {
	case OUTBOX_SERVER:
		m->callbacks.on_server(m->arg, server);
		break;
	case OUTBOX_LISTING:
		m->callbacks.on_listing(m->arg, server);
		break;
	case OUTBOX_QUEUE:
		sharing_tell_positions(m, server->id);
		break;
	default:
		for (int list = 0; list < SERVER_LIST_COUNT; list++)
			if (event == (unsigned)OUTBOX_LIST << list)
				m->callbacks.on_list(m->arg, server, (enum server_list)list);
	}
}

/* What is told may change the set of servers: each is looked up anew before each word about it. */
static void tell_server(struct manager *m, uint64_t id)
{
	static const unsigned order[] = { OUTBOX_SERVER,    OUTBOX_LIST,    OUTBOX_LIST << 1, OUTBOX_LIST << 2,
					  OUTBOX_LIST << 3, OUTBOX_LISTING, OUTBOX_QUEUE };
	for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
		struct server *server = manager_by_id(m, id);
		if (!server || !(server->events & order[i]))
			continue;
		server->events &= ~order[i];
		tell_event(m, server, order[i]);
	}
}

static void tell_servers(struct manager *m)
{
	size_t n = 0;
	uint64_t *ids = xnew_array(uint64_t, m->n_servers);
	for (size_t i = 0; i < m->n_servers; i++)
		if (m->servers[i]->events)
			ids[n++] = m->servers[i]->id;
	for (size_t i = 0; i < n; i++)
		tell_server(m, ids[i]);
	free(ids);
}

static void run(void *arg)
{
	struct manager *m = arg;
	struct server_call_list calls = TAILQ_HEAD_INITIALIZER(calls);
	struct order_list orders = TAILQ_HEAD_INITIALIZER(orders);
	/* What is added by those that are told is for the next turn. */
	TAILQ_CONCAT(&calls, &m->outbox.calls, link);
	TAILQ_CONCAT(&orders, &m->outbox.orders, link);
	tell_notes(m);
	tell_servers(m);
	for (struct server_call *call; (call = TAILQ_FIRST(&calls));) {
		TAILQ_REMOVE(&calls, call, link);
		server_call_finish(call);
	}
	for (struct order *order; (order = TAILQ_FIRST(&orders));) {
		TAILQ_REMOVE(&orders, order, link);
		order_finish(order);
	}
	manager_shutdown_step(m);
}
