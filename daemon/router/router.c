#include "router/router.h"

#include <stdlib.h>

#include "log.h"
#include "proto/json_iter.h"
#include "router/accounts.h"
#include "router/call_log.h"
#include "router/clients.h"
#include "router/log_level.h"
#include "router/question.h"
#include "router/subscriptions.h"
#include "router/tasks.h"
#include "xalloc.h"

struct router {
	struct manager *manager;
	struct clients *clients;
	struct calls *calls;
	struct questions *questions;
	struct subscriptions *subscriptions;
	struct log_levels *log_levels;
	struct tasks *tasks;
	struct call_log call_log;
	struct accounts *accounts;
	const struct router_callbacks *callbacks; /* or NULL */
	void *arg;
};

#define TELL(router, member, ...)                                                                                      \
	do {                                                                                                           \
		if ((router)->callbacks && (router)->callbacks->member)                                                \
			(router)->callbacks->member((router)->arg, __VA_ARGS__);                                       \
	} while (0)

static void on_server(void *arg, struct server *server)
{
	TELL((struct router *)arg, on_server, server);
}

static void on_server_removed(void *arg, const char *name)
{
	struct router *r = arg;
	subscriptions_on_server_removed(r->subscriptions);
	log_levels_on_server_removed(r->log_levels);
	tasks_on_server_removed(r->tasks);
	accounts_server_removed(r->accounts);
	TELL(r, on_server_removed, name);
}

static void on_list(void *arg, struct server *server, enum server_list list)
{
	TELL((struct router *)arg, on_list, server, list);
}

static void on_listing(void *arg, struct server *server)
{
	TELL((struct router *)arg, on_listing, server);
}

static void on_log(void *arg, struct server *server, const char *at, struct span text)
{
	TELL((struct router *)arg, on_log, server, at, text);
}

static void on_notification(void *arg, struct server *server, uint64_t owner, struct span method, struct span params)
{
	struct router *r = arg;
	struct router_notification notification = { server, owner, method, params, NULL, SPAN_NONE, 0 };
	char *uri = NULL;
	if (!tasks_on_notification(r->tasks, server, owner, method, params, &notification.client))
		return;
	if (json_string_is(method, "notifications/resources/updated"))
		uri = json_string_dup(json_member(params, "uri"));
	else if (json_string_is(method, "notifications/message"))
		notification.level = json_member(params, "level");
	notification.uri = uri;
	TELL(r, on_notification, &notification);
	free(uri);
}

static void on_task_progress(void *arg, struct server *server, uint64_t owner, struct span id, struct span params)
{
	struct router *r = arg;
	struct buf own = BUF_INIT;
	uint64_t client = tasks_progress(r->tasks, server, owner, id, params, &own);
	if (client)
		TELL(r, on_task_progress, client, buf_span(&own));
	buf_done(&own);
}

static void on_question(void *arg, struct server *server, const struct manager_question *question)
{
	struct router *r = arg;
	questions_on_question(r->questions, server, question);
}

static void on_question_withdrawn(void *arg, uint64_t question, struct span reason)
{
	struct router *r = arg;
	questions_on_withdrawn(r->questions, question, reason);
}

static void on_reconnected(void *arg, struct server *server, uint64_t owner)
{
	struct router *r = arg;
	tasks_on_reconnected(r->tasks, server, owner);
	log_levels_on_reconnected(r->log_levels, server, owner);
	subscriptions_on_reconnected(r->subscriptions, server, owner);
}

const struct manager_callbacks *router_manager_callbacks(void)
{
	static const struct manager_callbacks callbacks = {
		.on_server = on_server,
		.on_server_removed = on_server_removed,
		.on_list = on_list,
		.on_listing = on_listing,
		.on_log = on_log,
		.on_notification = on_notification,
		.on_task_progress = on_task_progress,
		.on_question = on_question,
		.on_question_withdrawn = on_question_withdrawn,
		.on_reconnected = on_reconnected,
	};
	return &callbacks;
}

static void on_call_end(void *arg, const struct call_info *info, const struct transport_reply *reply)
{
	struct router *r = arg;
	call_log_ended(&r->call_log, info);
	accounts_call(r->accounts, info, reply);
	questions_call_ended(r->questions, info->server, info->upstream);
	log_levels_ended(r->log_levels, info->row);
	TELL(r, on_call_end, info, reply);
}

static void ask(void *arg, const struct client_question *question)
{
	TELL((struct router *)arg, ask, question);
}

static void withdraw(void *arg, uint64_t client, uint64_t question, const char *reason)
{
	TELL((struct router *)arg, withdraw, client, question, reason);
}

struct router *router_new(void)
{
	struct router *r = xnew(struct router);
	r->clients = clients_new();
	return r;
}

void router_attach(struct router *r, struct loop *loop, struct manager *manager)
{
	static const struct question_callbacks question_callbacks = { ask, withdraw };
	r->manager = manager;
	r->accounts = accounts_new(manager);
	r->calls = calls_new(loop, manager, on_call_end, r);
	r->questions = questions_new(manager, r->clients, &question_callbacks, r);
	r->subscriptions = subscriptions_new(manager, r->calls, r->clients);
	r->log_levels = log_levels_new(loop, manager, r->calls, r->clients);
	r->tasks = tasks_new(loop, manager, r->calls, r->clients);
	manager_set_capabilities(manager, clients_capabilities, r->clients);
}

void router_set_callbacks(struct router *r, const struct router_callbacks *callbacks, void *arg)
{
	r->callbacks = callbacks;
	r->arg = arg;
}

void router_free(struct router *r)
{
	if (!r)
		return;
	calls_free(r->calls);
	questions_free(r->questions);
	subscriptions_free(r->subscriptions);
	log_levels_free(r->log_levels);
	tasks_free(r->tasks);
	accounts_free(r->accounts);
	clients_free(r->clients);
	free(r);
}

void router_client_add(struct router *r, uint64_t client)
{
	clients_add(r->clients, client);
	clients_set_account(r->clients, client, ACCOUNT_UNNAMED);
	log_client(LOG_LEVEL_DEBUG, clients_label(r->clients, client), "connected");
}

int router_client_describe(struct router *r, uint64_t client, struct span name, struct span capabilities)
{
	int rc = clients_describe(r->clients, client, name, capabilities);
	if (rc < 0)
		return rc;
	size_t max_names = (size_t)manager_config(r->manager)->limits.value[LIMIT_CLIENT_NAMES];
	clients_set_account(r->clients, client,
			    accounts_client(r->accounts, clients_name(r->clients, client), max_names));
	log_client(LOG_LEVEL_DEBUG, clients_label(r->clients, client), "said who it is");
	return 0;
}

void router_client_set_modern(struct router *r, uint64_t client)
{
	clients_set_modern(r->clients, client);
}

unsigned router_client_account(const struct router *r, uint64_t client)
{
	return clients_account(r->clients, client);
}

struct accounts *router_accounts(struct router *r)
{
	return r->accounts;
}

unsigned router_client_abilities(const struct router *r, uint64_t client)
{
	return clients_abilities(r->clients, client);
}

const char *router_client_label(const struct router *r, uint64_t client)
{
	return clients_label(r->clients, client);
}

void router_client_gone(struct router *r, uint64_t client)
{
	log_client(LOG_LEVEL_DEBUG, clients_label(r->clients, client), "gone");
	/* First the name: what follows then finds nobody to tell. */
	clients_remove(r->clients, client);
	questions_client_gone(r->questions, client);
	calls_client_gone(r->calls, client);
	tasks_client_gone(r->tasks, client);
	subscriptions_client_gone(r->subscriptions, client);
	log_levels_client_gone(r->log_levels, client);
	manager_client_gone(r->manager, client);
}

bool router_would_subscribe(struct span method)
{
	return json_string_is(method, "resources/subscribe");
}

bool router_is_log_level(struct span level)
{
	return log_levels_is_level(level);
}

/* To the module that keeps account of such requests, or straight to the server. */
static uint64_t start(struct router *r, const struct call_options *o)
{
	if (router_would_subscribe(o->method))
		return subscriptions_request(r->subscriptions, o, json_member(o->params, "uri"), true);
	if (json_string_is(o->method, "resources/unsubscribe"))
		return subscriptions_request(r->subscriptions, o, json_member(o->params, "uri"), false);
	if (json_string_is(o->method, "logging/setLevel"))
		return log_levels_request(r->log_levels, o);
	return tasks_start(r->tasks, o);
}

uint64_t router_request(struct router *r, const struct call_options *o)
{
	struct call_options options = *o;
	options.client_label = clients_label(r->clients, o->client);
	options.account = clients_account(r->clients, o->client);
	if (!o->request_log_level.ptr) {
		options.log_level = log_levels_of(r->log_levels, o->client, server_id(o->server));
		return start(r, &options);
	}
	options.log_level = o->request_log_level;
	log_levels_begin(r->log_levels, o);
	uint64_t row = start(r, &options);
	log_levels_begun(r->log_levels, o, row);
	return row;
}

uint64_t router_find_row(const struct router *r, uint64_t client, uint64_t server, uint64_t upstream)
{
	return calls_find(r->calls, client, server, upstream);
}

void router_set_token(struct router *r, uint64_t row, struct span token)
{
	calls_set_token(r->calls, row, token);
}

void router_cancel(struct router *r, uint64_t row, const char *reason)
{
	calls_cancel(r->calls, row, reason);
}

int router_answer(struct router *r, uint64_t client, uint64_t question, struct span result, struct span error)
{
	return questions_answer(r->questions, client, question, result, error);
}

int router_release(struct router *r, uint64_t client, struct server *server)
{
	int rc = server_release(server, client);
	if (rc == 0) {
		subscriptions_release(r->subscriptions, client, server_id(server));
		log_levels_release(r->log_levels, client, server_id(server));
		tasks_release(r->tasks, client, server_id(server));
	}
	return rc;
}

bool router_notification_wanted(const struct router *r, const struct router_notification *n, uint64_t client)
{
	if ((n->owner && n->owner != client) || (n->client && n->client != client))
		return false;
	if (n->uri)
		return subscriptions_wanted(r->subscriptions, client, server_id(n->server), n->uri);
	if (n->level.ptr)
		return log_levels_wanted(r->log_levels, client, server_id(n->server), n->owner, n->level);
	return true;
}

struct server *router_task_server(struct router *r, uint64_t client, struct span id)
{
	return tasks_server(r->tasks, client, id);
}

size_t router_subscriptions(const struct router *r, uint64_t client)
{
	return subscriptions_count(r->subscriptions, client);
}

unsigned router_in_flight(const struct router *r)
{
	return calls_count(r->calls);
}
