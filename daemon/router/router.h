/*
 * The router: between the clients' connections and the manager (ARCHITECTURE "A call's life", "Sharing").
 *
 * Upwards it knows clients by their 64-bit ids, downwards the manager. It keeps the rows of calls, the servers'
 * questions, resource subscriptions and logging levels, each in a module of its own, and gives every event of the
 * manager either to one of them or to the floor above, saying which clients it is for.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "manager/server.h"
#include "router/call.h"
#include "router/clients.h"
#include "router/question.h"

struct router;
struct accounts;

/* A notification of a server, on its way to those who asked for them. */
struct router_notification {
	struct server *server;
	uint64_t owner; /* the one client of the instance it comes from, or 0 */
	struct span method, params;
	/* The router's own: see router_notification_wanted(). */
	const char *uri;
	struct span level;
	uint64_t client; /* the one whose task it is about, or 0 */
};

/* What goes to the floor above. All as in struct manager_callbacks, question_callbacks and calls_new(). */
struct router_callbacks {
	void (*on_server)(void *arg, struct server *server);
	void (*on_server_removed)(void *arg, const char *name);
	void (*on_list)(void *arg, struct server *server, enum server_list list);
	void (*on_listing)(void *arg, struct server *server);
	void (*on_log)(void *arg, struct server *server, const char *at, struct span text);
	void (*on_notification)(void *arg, const struct router_notification *notification);
	/* Progress of a client's task, behind the answer of the call that has become it. params of
	 * notifications/progress, with the client's token in it. */
	void (*on_task_progress)(void *arg, uint64_t client, struct span params);
	void (*on_call_end)(void *arg, const struct call_info *info, const struct transport_reply *reply);
	void (*ask)(void *arg, const struct client_question *question);
	void (*withdraw)(void *arg, uint64_t client, uint64_t question, const char *reason);
};

struct router *router_new(void);
/* What to hand to manager_new(), with the router as arg. */
const struct manager_callbacks *router_manager_callbacks(void);
/* Before anything else is done with either. */
void router_attach(struct router *router, struct loop *loop, struct manager *manager);
/* The floor above; NULL for none (events are then dropped). `callbacks` must outlive the router. */
void router_set_callbacks(struct router *router, const struct router_callbacks *callbacks, void *arg);
/* After the manager's shutdown, when all clients have gone. Takes NULL. */
void router_free(struct router *router);

void router_client_add(struct router *router, uint64_t client);
/* As clients_describe(). */
int router_client_describe(struct router *router, uint64_t client, struct span name, struct span capabilities);
/* As clients_set_modern(). */
void router_client_set_modern(struct router *router, uint64_t client);
/* As clients_abilities(). */
unsigned router_client_abilities(const struct router *router, uint64_t client);
const char *router_client_label(const struct router *router, uint64_t client);
/* The index of its name in the accounts. */
unsigned router_client_account(const struct router *router, uint64_t client);
struct accounts *router_accounts(struct router *router);
/* Cancels its calls, ends its questions, subscriptions, levels and instances. Nothing is called back for it any more.
 */
void router_client_gone(struct router *router, uint64_t client);

/* A client's request to a server: as calls_start(); what mcpd keeps account of (resources/subscribe and unsubscribe,
 * logging/setLevel) goes through its module. watch, log_level, client_label, account and kept of the options are the router's
 * to set. */
uint64_t router_request(struct router *router, const struct call_options *options);
/* Whether router_request() with these would add a resource subscription. */
bool router_would_subscribe(struct span method);
/* Whether it is one of the levels of logging/setLevel (a JSON string). */
bool router_is_log_level(struct span level);
/* As calls_find(). */
uint64_t router_find_row(const struct router *router, uint64_t client, uint64_t server, uint64_t upstream);
/* As calls_set_token(). */
void router_set_token(struct router *router, uint64_t row, struct span token);
void router_cancel(struct router *router, uint64_t row, const char *reason);
/* As questions_answer(). */
int router_answer(struct router *router, uint64_t client, uint64_t question, struct span result, struct span error);
/* servers/release: as server_release(), and what the client had set up there is forgotten. */
int router_release(struct router *router, uint64_t client, struct server *server);
/* Whether the notification is for this client, as far as the router knows: its own instance, its resource
 * subscriptions, its level. */
bool router_notification_wanted(const struct router *router, const struct router_notification *notification,
				uint64_t client);
/* As tasks_server(). */
struct server *router_task_server(struct router *router, uint64_t client, struct span id);
/* Resource subscriptions of the client. */
size_t router_subscriptions(const struct router *router, uint64_t client);
/* Rows in flight, of clients that are there. */
unsigned router_in_flight(const struct router *router);
