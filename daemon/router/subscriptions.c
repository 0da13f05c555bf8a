#include "router/subscriptions.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "proto/buf.h"
#include "proto/json_iter.h"
#include "xalloc.h"

/* One URI at one server, or at a client's own instance of it. */
struct subscription {
	struct subscription *next;
	uint64_t id;
	uint64_t server;
	uint64_t owner; /* the one client of the instance, or 0 */
	char *uri;      /* decoded; no NUL in it */
	char *params;   /* {"uri": ..} for what the daemon sends itself */
	uint64_t *members;
	size_t n_members;
	bool active; /* the server was asked, and said yes */
	struct change *under_way;
};

struct subscriptions {
	struct manager *manager;
	struct calls *calls;
	const struct clients *clients;
	struct subscription *list;
	uint64_t last_id;
};

/* A request on its way to the server. */
struct change {
	struct change *next;
	struct subscriptions *subs;
	uint64_t subscription;
	uint64_t client; /* 0: the daemon's own */
	bool subscribe;
	bool revoked; /* the client has unsubscribed since */
};

static void send_own(struct subscriptions *subs, struct subscription *s, bool subscribe);

struct subscriptions *subscriptions_new(struct manager *manager, struct calls *calls, const struct clients *clients)
{
	struct subscriptions *subs = xnew(struct subscriptions);
	subs->manager = manager;
	subs->calls = calls;
	subs->clients = clients;
	return subs;
}

static void free_subscription(struct subscription *s)
{
	assert(!s->under_way);
	free(s->uri);
	free(s->params);
	free(s->members);
	free(s);
}

void subscriptions_free(struct subscriptions *subs)
{
	while (subs && subs->list) {
		struct subscription *s = subs->list;
		subs->list = s->next;
		free_subscription(s);
	}
	free(subs);
}

static bool is_member(const struct subscription *s, uint64_t client)
{
	for (size_t i = 0; i < s->n_members; i++)
		if (s->members[i] == client)
			return true;
	return false;
}

static void add_member(struct subscription *s, uint64_t client)
{
	if (is_member(s, client))
		return;
	s->members = xrealloc(s->members, s->n_members + 1, sizeof *s->members);
	s->members[s->n_members++] = client;
}

static void remove_member(struct subscription *s, uint64_t client)
{
	for (struct change *change = s->under_way; change; change = change->next)
		change->revoked |= change->client == client;
	size_t kept = 0;
	for (size_t i = 0; i < s->n_members; i++)
		if (s->members[i] != client)
			s->members[kept++] = s->members[i];
	s->n_members = kept;
}

static struct subscription *by_id(const struct subscriptions *subs, uint64_t id)
{
	struct subscription *s = subs->list;
	while (s && s->id != id)
		s = s->next;
	return s;
}

/* An idle stop would end the subscriptions: it waits while there are any. */
static void pin(const struct subscriptions *subs, uint64_t server_id)
{
	struct server *server = manager_by_id(subs->manager, server_id);
	bool wanted = false;
	for (const struct subscription *s = subs->list; s; s = s->next)
		wanted |= s->server == server_id && s->n_members > 0;
	if (server)
		server_set_pinned(server, SERVER_PIN_SUBSCRIPTIONS, wanted);
}

/* Forgets the subscription once nobody wants it and nothing is under way. */
static void drop_if_unused(struct subscriptions *subs, struct subscription *s)
{
	if (s->n_members || s->under_way)
		return;
	struct subscription **at = &subs->list;
	while (*at != s)
		at = &(*at)->next;
	*at = s->next;
	free_subscription(s);
}

static bool is_connected(struct server *server)
{
	struct server_info info;
	if (!server)
		return false;
	server_get_info(server, &info);
	return info.state == SERVER_CONNECTED;
}

/* What is known after the server has answered a subscribe or unsubscribe, or will not. */
static void note_end(struct subscription *s, const struct change *change, const struct transport_reply *reply)
{
	bool unknown = reply->sent && (reply->code == MCPD_E_TIMEOUT || reply->code == MCPD_E_CANCELLED);
	if (change->subscribe && (reply->code == 0 || unknown))
		s->active = true;
}

/* Forgets that it is under way, frees it. */
static void end_change(struct subscription *s, struct change *change)
{
	struct change **at = &s->under_way;
	while (*at != change)
		at = &(*at)->next;
	*at = change->next;
	free(change);
}

static const struct transport_reply *on_changed(void *arg, const struct call_info *info,
						const struct transport_reply *reply)
{
	struct change change = *(struct change *)arg;
	struct subscriptions *subs = change.subs;
	struct subscription *s = by_id(subs, change.subscription);
	end_change(s, arg);
	note_end(s, &change, reply);
	if (change.subscribe && reply->code == 0 && !change.revoked && clients_known(subs->clients, change.client))
		add_member(s, change.client);
	if (!change.client && change.subscribe && reply->code != 0 && s->n_members)
		log_server(LOG_LEVEL_WARNING, info->server_name, "a resource subscription could not be made again: %s",
			   reply->message);
	if (s->active && !s->n_members && !s->under_way)
		send_own(subs, s, false);
	else if (!change.subscribe && s->n_members)
		send_own(subs, s, true);
	pin(subs, s->server);
	drop_if_unused(subs, s);
	return reply;
}

static struct change *begin_change(struct subscriptions *subs, struct subscription *s, uint64_t client, bool subscribe)
{
	struct change *change = xnew(struct change);
	*change = (struct change){ s->under_way, subs, s->id, client, subscribe, false };
	s->under_way = change;
	if (!subscribe)
		s->active = false;
	return change;
}

/* A request of the daemon's own, to a server that is there to be told. */
static void send_own(struct subscriptions *subs, struct subscription *s, bool subscribe)
{
	struct server *server = manager_by_id(subs->manager, s->server);
	bool reachable = is_connected(server) && (!s->owner || clients_known(subs->clients, s->owner));
	if (!subscribe)
		s->active = false;
	if (!reachable)
		return; /* a new connection has forgotten everything, and on_reconnected() says what is wanted */
	struct call_options options = {
		.client = s->owner,
		.server = server,
		.method = subscribe ? SPAN_LIT("\"resources/subscribe\"") : SPAN_LIT("\"resources/unsubscribe\""),
		.params = span_of(s->params),
		.timeout_ms = -1,
		.kept = true,
		.watch = on_changed,
		.watch_arg = begin_change(subs, s, 0, subscribe),
	};
	if (!calls_start(subs->calls, &options)) {
		end_change(s, options.watch_arg);
		log_server(LOG_LEVEL_WARNING, server_name(server), "out of memory for a resource subscription");
	}
}

static struct subscription *find(const struct subscriptions *subs, uint64_t server, uint64_t owner, const char *uri)
{
	struct subscription *s = subs->list;
	while (s && (s->server != server || s->owner != owner || strcmp(s->uri, uri) != 0))
		s = s->next;
	return s;
}

/* Takes uri over. NULL if there is no memory for it. */
static struct subscription *new_subscription(struct subscriptions *subs, uint64_t server, uint64_t owner, char *uri)
{
	struct buf params = BUF_INIT;
	buf_add_text(&params, "{\"uri\":");
	buf_add_json_text(&params, uri);
	buf_add_char(&params, '}');
	char *text = buf_steal(&params);
	if (!text) {
		free(uri);
		return NULL;
	}
	struct subscription *s = xnew(struct subscription);
	*s = (struct subscription){
		.id = ++subs->last_id, .server = server, .owner = owner, .uri = uri, .params = text
	};
	s->next = subs->list;
	subs->list = s;
	return s;
}

/* The client's own request goes to the server, and its answer back. */
static uint64_t forward(struct subscriptions *subs, struct subscription *s, const struct call_options *o,
			bool subscribe)
{
	struct call_options options = *o;
	options.kept = true;
	options.watch = on_changed;
	options.watch_arg = begin_change(subs, s, o->client, subscribe);
	uint64_t row = calls_start(subs->calls, &options);
	if (row)
		return row;
	end_change(s, options.watch_arg);
	drop_if_unused(subs, s);
	return 0;
}

static uint64_t subscribe(struct subscriptions *subs, const struct call_options *o, uint64_t owner, char *uri)
{
	uint64_t server = server_id(o->server);
	struct subscription *s = find(subs, server, owner, uri);
	if (s) {
		free(uri);
	} else {
		s = new_subscription(subs, server, owner, uri);
		if (!s)
			return 0;
	}
	if (!s->active)
		return forward(subs, s, o, true);
	add_member(s, o->client);
	pin(subs, server);
	return calls_start_settled(subs->calls, o, &calls_nothing);
}

static uint64_t unsubscribe(struct subscriptions *subs, const struct call_options *o, uint64_t owner, char *uri)
{
	struct subscription *s = find(subs, server_id(o->server), owner, uri);
	free(uri);
	if (!s) {
		struct call_options options = *o;
		options.kept = true;
		return calls_start(subs->calls, &options); /* what the server says to that */
	}
	remove_member(s, o->client);
	if (!s->n_members && !s->under_way && is_connected(o->server))
		return forward(subs, s, o, false);
	pin(subs, s->server);
	drop_if_unused(subs, s);
	return calls_start_settled(subs->calls, o, &calls_nothing);
}

uint64_t subscriptions_request(struct subscriptions *subs, const struct call_options *o, struct span uri, bool wanted)
{
	struct server_info info;
	server_get_info(o->server, &info);
	uint64_t owner = info.config->sharing == CONFIG_SHARED ? 0 : o->client;
	char *decoded = json_string_dup(uri);
	if (!decoded)
		return calls_start(subs->calls, o); /* no URI that could be kept; the server's answer says so */
	return wanted ? subscribe(subs, o, owner, decoded) : unsubscribe(subs, o, owner, decoded);
}

/* The client wants this one no longer, or its instance is no longer its own. */
static void leave(struct subscriptions *subs, struct subscription *s, uint64_t client)
{
	if (!is_member(s, client) && s->owner != client)
		return;
	remove_member(s, client);
	if (s->owner)
		s->active = false;
	if (s->active && !s->n_members && !s->under_way)
		send_own(subs, s, false);
	pin(subs, s->server);
	drop_if_unused(subs, s);
}

void subscriptions_client_gone(struct subscriptions *subs, uint64_t client)
{
	for (struct subscription *s = subs->list, *next; s; s = next) {
		next = s->next;
		leave(subs, s, client);
	}
}

void subscriptions_release(struct subscriptions *subs, uint64_t client, uint64_t server)
{
	for (struct subscription *s = subs->list, *next; s; s = next) {
		next = s->next;
		if (s->server == server)
			leave(subs, s, client);
	}
}

void subscriptions_on_reconnected(struct subscriptions *subs, struct server *server, uint64_t owner)
{
	for (struct subscription *s = subs->list; s; s = s->next) {
		if (s->server != server_id(server) || s->owner != owner)
			continue;
		s->active = false;
		if (s->n_members)
			send_own(subs, s, true);
	}
}

void subscriptions_on_server_removed(struct subscriptions *subs)
{
	for (struct subscription *s = subs->list, *next; s; s = next) {
		next = s->next;
		if (manager_by_id(subs->manager, s->server))
			continue;
		s->n_members = 0;
		s->active = false;
		drop_if_unused(subs, s);
	}
}

/* Whether updated is uri or lies below it, as the parts of a file, of a query or of a fragment do. */
bool subscriptions_covers(const char *uri, const char *updated)
{
	size_t len = strlen(uri);
	if (strncmp(uri, updated, len) != 0)
		return false;
	return !updated[len] || strchr("/?#", updated[len]) || (len > 0 && uri[len - 1] == '/');
}

bool subscriptions_wanted(const struct subscriptions *subs, uint64_t client, uint64_t server, const char *uri)
{
	for (const struct subscription *s = subs->list; s; s = s->next)
		if (s->server == server && subscriptions_covers(s->uri, uri) && is_member(s, client))
			return true;
	return false;
}

size_t subscriptions_count(const struct subscriptions *subs, uint64_t client)
{
	size_t n = 0;
	for (const struct subscription *s = subs->list; s; s = s->next)
		n += is_member(s, client);
	return n;
}
