#include "fake_manager.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xalloc.h"

struct fake fake;

struct manager {
	struct server *servers[16];
	size_t n_servers;
};

struct server {
	uint64_t id;
	struct server_config config;
	enum server_state state;
	struct mcp_server_facts facts;
	struct server_listing listings[SERVER_LIST_COUNT];
	unsigned pinned;
	uint64_t holder;
	char *error;
};

static struct manager manager;
static uint64_t last_id;

static char *text_of(struct span span)
{
	return span.ptr ? xstrndup(span.ptr, span.len) : NULL;
}

struct manager *fake_new(const struct manager_callbacks *callbacks, void *arg)
{
	memset(&fake, 0, sizeof fake);
	memset(&manager, 0, sizeof manager);
	fake.callbacks = callbacks;
	fake.arg = arg;
	limits_init(&fake.config.limits);
	static char *no_files[] = { NULL };
	fake.config.files = no_files;
	return &manager;
}

static void free_server(struct server *server)
{
	free(server->config.name);
	free(server->error);
	free(server);
}

void fake_free(void)
{
	for (size_t i = 0; i < manager.n_servers; i++)
		free_server(manager.servers[i]);
	for (size_t i = 0; i < fake.n_calls; i++) {
		free(fake.calls[i].method);
		free(fake.calls[i].params);
		free(fake.calls[i].log_level);
		free(fake.calls[i].cancelled);
	}
	for (size_t i = 0; i < fake.n_answers; i++) {
		free(fake.answers[i].result);
		free(fake.answers[i].error);
	}
	free(fake.notified);
	manager.n_servers = 0;
	memset(&fake, 0, sizeof fake);
}

struct server *fake_add(const char *name)
{
	static char *none[] = { NULL };
	struct server *s = xnew(struct server);
	s->id = ++last_id;
	s->config = (struct server_config){ .name = xstrdup(name),
					    .source = "/etc/mcp.json",
					    .command = "prog",
					    .args = none,
					    .env = none,
					    .headers = none,
					    .enabled = true };
	s->state = SERVER_CONNECTED;
	s->facts = (struct mcp_server_facts){ .era = MCP_ERA_LEGACY,
					      .protocol_version = "2025-11-25",
					      .has_tools = true,
					      .has_resources = true,
					      .has_logging = true,
					      .has_resource_subscribe = true };
	for (int i = 0; i < SERVER_LIST_COUNT; i++) {
		struct server_listing *listing = &s->listings[i];
		*listing = (struct server_listing){
			.visible = true, .settled = true, .items = SPAN_LIT("[]"), .ttl_ms = -1, .cache_private = true
		};
		memset(listing->revision, 'a', sizeof listing->revision - 1);
	}
	ck_assert_uint_lt(manager.n_servers, 16);
	manager.servers[manager.n_servers++] = s;
	return s;
}

void fake_remove(struct server *server)
{
	size_t at = 0;
	while (manager.servers[at] != server)
		at++;
	memmove(&manager.servers[at], &manager.servers[at + 1],
		(manager.n_servers - at - 1) * sizeof manager.servers[0]);
	manager.n_servers--;
	char *name = xstrdup(server->config.name);
	free_server(server);
	fake.callbacks->on_server_removed(fake.arg, name);
	free(name);
}

void fake_set_state(struct server *server, enum server_state state)
{
	server->state = state;
}

void fake_set_sharing(struct server *server, enum config_sharing sharing)
{
	server->config.sharing = sharing;
}

void fake_set_roots(struct server *server, const char *roots_json)
{
	server->config.roots_json = (char *)roots_json;
}

void fake_set_modern(struct server *server)
{
	server->facts.era = MCP_ERA_MODERN;
}

void fake_set_tasks(struct server *server)
{
	server->facts.has_tasks = true;
}

void fake_set_logging(struct server *server, bool has_logging)
{
	server->facts.has_logging = has_logging;
}

void fake_set_holder(struct server *server, uint64_t client)
{
	server->holder = client;
}

unsigned fake_pinned(const struct server *server)
{
	return server->pinned;
}

void fake_set_listing(struct server *server, bool settled, bool deferred, const char *tools, const char *revision)
{
	server->listings[SERVER_TOOLS].settled = settled;
	server->listings[SERVER_TOOLS].deferred = deferred;
	server->listings[SERVER_TOOLS].items = span_of(tools);
	snprintf(server->listings[SERVER_TOOLS].revision, sizeof server->listings[SERVER_TOOLS].revision, "%s",
		 revision);
}

void fake_set_list(struct server *server, enum server_list list, bool settled, const char *items, const char *revision)
{
	struct server_listing *listing = &server->listings[list];
	listing->settled = settled;
	listing->items = span_of(items);
	snprintf(listing->revision, sizeof listing->revision, "%s", revision);
}

void fake_set_error(struct server *server, const char *message)
{
	free(server->error);
	server->error = xstrdup(message);
}

struct fake_call *fake_call_at(int index)
{
	size_t at = index < 0 ? fake.n_calls + (size_t)index : (size_t)index;
	ck_assert_msg(at < fake.n_calls, "there are only %zu calls", fake.n_calls);
	return &fake.calls[at];
}

void fake_reply(struct fake_call *call, const struct transport_reply *reply)
{
	ck_assert(call->open);
	call->open = false;
	call->options.done(call->options.arg, reply);
}

void fake_result(struct fake_call *call, const char *result)
{
	fake_reply(call, &(struct transport_reply){ .result = span_of(result), .sent = true });
}

void fake_fail(struct fake_call *call, int code, const char *message, bool sent)
{
	fake_reply(call, &(struct transport_reply){ .code = code, .message = message, .sent = sent });
}

void fake_ask(struct server *server, uint64_t id, const char *method, const char *params, enum mcp_proof proof,
	      uint64_t client, uint64_t call, bool owned)
{
	struct manager_question question = { id, span_of(method), span_of(params), proof, client, call, owned };
	fake.callbacks->on_question(fake.arg, server, &question);
}

/* --- manager.h --- */

const char *server_state_name(enum server_state state)
{
	static const char *const names[] = { "idle",   "connecting", "connected", "reconnecting",
					     "failed", "needs-auth", "disabled" };
	return names[state];
}

const struct config *manager_config(const struct manager *m)
{
	(void)m;
	return &fake.config;
}

void manager_configure(struct manager *m, struct config *config, struct manager_changes *ret)
{
	if (ret)
		*ret = (struct manager_changes){ .unchanged = (unsigned)m->n_servers };
	fake.n_configured++;
	config_free(config);
}

void manager_changes_done(struct manager_changes *changes)
{
	(void)changes;
}

struct server *manager_find(struct manager *m, struct span name)
{
	for (size_t i = 0; i < m->n_servers; i++)
		if (span_is(name, m->servers[i]->config.name))
			return m->servers[i];
	return NULL;
}

struct server *manager_by_id(struct manager *m, uint64_t id)
{
	for (size_t i = 0; i < m->n_servers; i++)
		if (m->servers[i]->id == id)
			return m->servers[i];
	return NULL;
}

size_t manager_count(const struct manager *m)
{
	return m->n_servers;
}

struct server *manager_at(const struct manager *m, size_t index)
{
	return m->servers[index];
}

void manager_client_gone(struct manager *m, uint64_t client)
{
	(void)m;
	fake.gone[fake.n_gone++ % 64] = client;
}

void manager_set_capabilities(struct manager *m, manager_capabilities_fn *fn, void *arg)
{
	(void)m;
	fake.capabilities = fn;
	fake.capabilities_arg = arg;
}

void manager_answer(struct manager *m, uint64_t question, struct span result, struct span error)
{
	(void)m;
	ck_assert_uint_lt(fake.n_answers, 64);
	ck_assert(!result.ptr != !error.ptr);
	fake.answers[fake.n_answers++] = (struct fake_answer){ question, text_of(result), text_of(error) };
}

/* --- server.h --- */

uint64_t server_id(const struct server *server)
{
	return server->id;
}

const char *server_name(const struct server *server)
{
	return server->config.name;
}

const struct mcp_server_facts *server_facts(const struct server *server)
{
	return &server->facts;
}

void server_get_info(struct server *server, struct server_info *ret)
{
	*ret = (struct server_info){ .id = server->id,
				     .config = &server->config,
				     .state = server->state,
				     .facts = &server->facts,
				     .known_facts = &server->facts,
				     .holder = server->holder,
				     .advice = fake.advice,
				     .last_error = server->error };
}

void server_get_counters(const struct server *server, struct server_counters *ret, uint64_t *ret_unsent,
			 unsigned *ret_connections)
{
	*ret = (struct server_counters){ .starts = 1 };
	*ret_unsent = 0;
	*ret_connections = server->state == SERVER_CONNECTED;
}

void server_walk_log(struct server *server, unsigned n, void (*fn)(void *arg, const char *at, struct span text),
		     void *arg)
{
	(void)server;
	for (unsigned i = 0; i < n && i < 2; i++)
		fn(arg, "2026-01-01T00:00:00.000Z", i ? SPAN_LIT("tab\there") : SPAN_LIT("first"));
}

void server_note_refusal(struct server *server, const char *advice)
{
	(void)server;
	fake.advice = advice;
}

void server_get_list(struct server *server, enum server_list list, bool start, struct server_listing *ret)
{
	(void)start;
	*ret = server->listings[list];
}

uint64_t server_call(struct server *server, const struct server_call_options *options)
{
	ck_assert_uint_lt(fake.n_calls, FAKE_MAX);
	struct fake_call *call = &fake.calls[fake.n_calls++];
	*call = (struct fake_call){ .server = server,
				    .id = ++last_id,
				    .client = options->client,
				    .open = true,
				    .method = text_of(options->method),
				    .params = text_of(options->params),
				    .log_level = text_of(options->log_level),
				    .timeout_ms = options->timeout_ms,
				    .options = *options };
	return call->id;
}

void server_cancel(struct server *server, uint64_t id, const char *reason)
{
	for (size_t i = 0; i < fake.n_calls; i++)
		if (fake.calls[i].id == id && fake.calls[i].open && !fake.calls[i].cancelled)
			fake.calls[i].cancelled = xstrdup(reason);
	(void)server;
}

int server_notify(struct server *server, uint64_t client, struct span method, struct span params)
{
	(void)client;
	(void)params;
	if (server->state != SERVER_CONNECTED)
		return -ENOTCONN;
	free(fake.notified);
	fake.notified = text_of(method);
	return 0;
}

void server_order(struct server *server, enum server_order order, int64_t timeout_ms, server_order_fn *done, void *arg)
{
	ck_assert_uint_lt(fake.n_orders, 16);
	fake.orders[fake.n_orders++] = (struct fake_order){ server, order, timeout_ms, done, arg };
}

int server_release(struct server *server, uint64_t client)
{
	if (server->holder != client)
		return -EPERM;
	server->holder = 0;
	return 0;
}

void server_set_pinned(struct server *server, enum server_pin pin, bool pinned)
{
	server->pinned = pinned ? server->pinned | pin : server->pinned & ~(unsigned)pin;
}
