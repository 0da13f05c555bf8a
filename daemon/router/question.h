/*
 * Questions from servers to clients: sampling/createMessage, elicitation/create, roots/list (ARCHITECTURE "Sharing",
 * PROTOCOL "Requests from the daemon").
 *
 * A question goes to the one client whose call it is proven to belong to, or is refused with an error that tells the
 * server why, and that leaves an advice in servers/get. It is answered once, by the client that was asked and by no
 * other (R24). A client that leaves, and a call that ends, end only their own questions. roots/list with nothing in
 * flight is answered from the server's configured roots.
 */
#pragma once

#include <stdint.h>

#include "manager/server.h"
#include "router/clients.h"

struct questions;

/* A question on its way to its client. Spans are valid during the callback. */
struct client_question {
	uint64_t id; /* for questions_answer() */
	uint64_t client;
	struct server *server;
	uint64_t call; /* server_call()'s number of the call it is proven to belong to; 0: one of the client's */
	struct span method;
	struct span params; /* an object, or absent; so is `_meta` in it */
};

struct question_callbacks {
	void (*ask)(void *arg, const struct client_question *question);
	/* The client need not answer any more. reason: plain text. */
	void (*withdraw)(void *arg, uint64_t client, uint64_t question, const char *reason);
};

struct questions *questions_new(struct manager *manager, const struct clients *clients,
				const struct question_callbacks *callbacks, void *arg);
void questions_free(struct questions *questions); /* takes NULL */
/* As in struct manager_callbacks. */
void questions_on_question(struct questions *questions, struct server *server, const struct manager_question *question);
void questions_on_withdrawn(struct questions *questions, uint64_t question, struct span reason);
/* The client's answer, exactly one of result and error. 0; -ENOENT if nothing is asked under that number (any more);
 * -EPERM if another client was asked: the question then stays open. */
int questions_answer(struct questions *questions, uint64_t client, uint64_t question, struct span result,
		     struct span error);
void questions_client_gone(struct questions *questions, uint64_t client);
/* A call has ended: what was asked on its behalf is withdrawn. upstream: server_call()'s number. */
void questions_call_ended(struct questions *questions, uint64_t server, uint64_t upstream);
