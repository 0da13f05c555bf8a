/*
 * A manager for the tests of the floors above it: implements manager/manager.h and manager/server.h at link time.
 * Nothing happens by itself. A call is kept until the test ends it; what the floors above do is there to be looked at.
 */
#pragma once

#include "manager/server.h"

struct fake_call {
	struct server *server;
	uint64_t id, client;
	char *method, *params, *log_level; /* texts as handed in; NULL for absent */
	int64_t timeout_ms;
	struct server_call_options options;
	bool open;       /* not ended */
	char *cancelled; /* the reason, once server_cancel() came */
};

struct fake_answer {
	uint64_t question;
	char *result, *error;
};

struct fake_order {
	struct server *server;
	enum server_order order;
	int64_t timeout_ms;
	server_order_fn *done;
	void *arg;
};

#define FAKE_MAX 4096

extern struct fake {
	const struct manager_callbacks *callbacks;
	void *arg;
	struct fake_call calls[FAKE_MAX];
	size_t n_calls;
	struct fake_answer answers[64];
	size_t n_answers;
	struct fake_order orders[16];
	size_t n_orders;
	uint64_t gone[64];
	size_t n_gone;
	char *notified; /* the last notification's method */
	const char *advice;
	manager_capabilities_fn *capabilities;
	void *capabilities_arg;
	struct config config;
	unsigned n_configured; /* times */
} fake;

/* A manager with no servers. */
struct manager *fake_new(const struct manager_callbacks *callbacks, void *arg);
void fake_free(void);
/* Adds a server that is connected, shared and legacy, with logging and resource subscriptions. */
struct server *fake_add(const char *name);
void fake_remove(struct server *server);
void fake_set_state(struct server *server, enum server_state state);
void fake_set_sharing(struct server *server, enum config_sharing sharing);
void fake_set_roots(struct server *server, const char *roots_json);
void fake_set_modern(struct server *server);
void fake_set_tasks(struct server *server);
void fake_set_logging(struct server *server, bool has_logging);
void fake_set_holder(struct server *server, uint64_t client);
unsigned fake_pinned(const struct server *server);
void fake_set_listing(struct server *server, bool settled, bool deferred, const char *tools, const char *revision);
/* Items and revision must be static texts. */
void fake_set_list(struct server *server, enum server_list list, bool settled, const char *items, const char *revision);
void fake_set_error(struct server *server, const char *message);
/* The nth call that was made, from 0; -1 is the last. It must exist. */
struct fake_call *fake_call_at(int index);
/* Ends the call: a result, or a code with a message. */
void fake_result(struct fake_call *call, const char *result);
void fake_fail(struct fake_call *call, int code, const char *message, bool sent);
void fake_reply(struct fake_call *call, const struct transport_reply *reply);
/* A question of the server. */
void fake_ask(struct server *server, uint64_t id, const char *method, const char *params, enum mcp_proof proof,
	      uint64_t client, uint64_t call, bool owned);
