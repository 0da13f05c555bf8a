#include "router/accounts.h"

#include <stdlib.h>
#include <string.h>

#include "idmap.h"
#include "proto/json_iter.h"
#include "xalloc.h"

const char *const account_method_names[ACCOUNT_METHODS] = {
#define METHOD_NAME(id, method) [ACCOUNT_METHOD_##id] = method,
	ACCOUNT_METHOD_TABLE(METHOD_NAME)
#undef METHOD_NAME
};

struct client_name {
	char *name;
	struct account_traffic traffic;
};

struct accounts {
	struct manager *manager;
	struct client_name *names;
	size_t n_names;
	struct idmap servers;
	uint64_t limits[LIMIT_COUNT], requests[ACCOUNT_METHODS];
};

/* --- clients --- */

static unsigned add_name(struct accounts *a, struct span name)
{
	a->names = xrealloc(a->names, a->n_names + 1, sizeof a->names[0]);
	a->names[a->n_names] = (struct client_name){ .name = xstrndup(name.ptr, name.len) };
	return (unsigned)a->n_names++;
}

struct accounts *accounts_new(struct manager *manager)
{
	static const char *const always[ACCOUNT_NAMES_FIRST] = {
		[ACCOUNT_DAEMON] = "mcpd",
		[ACCOUNT_UNNAMED] = "unnamed",
		[ACCOUNT_OTHER] = "other",
	};
	struct accounts *a = xnew(struct accounts);
	a->manager = manager;
	for (int i = 0; i < ACCOUNT_NAMES_FIRST; i++)
		add_name(a, span_of(always[i]));
	return a;
}

unsigned accounts_client(struct accounts *a, struct span name, size_t max_names)
{
	if (!name.len)
		return ACCOUNT_UNNAMED;
	for (size_t i = 0; i < a->n_names; i++)
		if (span_is(name, a->names[i].name))
			return (unsigned)i;
	if (a->n_names - ACCOUNT_NAMES_FIRST < max_names)
		return add_name(a, name);
	accounts_limit(a, LIMIT_CLIENT_NAMES);
	return ACCOUNT_OTHER;
}

size_t accounts_clients(const struct accounts *a)
{
	return a->n_names;
}

const char *accounts_client_name(const struct accounts *a, unsigned client)
{
	return a->names[client].name;
}

void accounts_traffic(struct accounts *a, unsigned client, const struct account_traffic *more)
{
	struct account_traffic *traffic = &a->names[client].traffic;
	traffic->received += more->received;
	traffic->sent += more->sent;
	traffic->dropped += more->dropped;
}

const struct account_traffic *accounts_client_traffic(const struct accounts *a, unsigned client)
{
	return &a->names[client].traffic;
}

/* --- servers --- */

static void free_server(struct account_server *s)
{
	for (size_t i = 0; i < s->n_clients; i++)
		free(s->clients[i]);
	free(s->clients);
	free(s);
}

/* The first call to a server makes its account, if it is configured still. */
static struct account_server *find_server(struct accounts *a, uint64_t id)
{
	struct account_server *s = idmap_get(&a->servers, id);
	if (s || !manager_by_id(a->manager, id))
		return s;
	s = xnew(struct account_server);
	s->server = id;
	idmap_put(&a->servers, id, s);
	return s;
}

static struct account_calls *find_calls(struct account_server *s, unsigned client)
{
	if (client >= s->n_clients) {
		s->clients = xrealloc(s->clients, client + 1, sizeof s->clients[0]);
		while (s->n_clients <= client)
			s->clients[s->n_clients++] = NULL;
	}
	if (!s->clients[client])
		s->clients[client] = xnew(struct account_calls);
	return s->clients[client];
}

static enum account_method method_of(struct span method)
{
	for (int i = 0; i < ACCOUNT_METHOD_OTHER; i++)
		if (json_string_is(method, account_method_names[i]))
			return (enum account_method)i;
	return ACCOUNT_METHOD_OTHER;
}

void accounts_call(struct accounts *a, const struct call_info *info, const struct transport_reply *reply)
{
	struct account_server *s = find_server(a, info->server);
	if (reply->code == MCPD_E_LIMIT && reply->limit >= 0 && reply->limit < LIMIT_COUNT)
		accounts_limit(a, (enum mcpd_limit)reply->limit);
	if (!s)
		return;
	struct account_calls *calls = find_calls(s, info->account);
	calls->outcomes[info->outcome]++;
	histogram_observe(&calls->duration, info->duration_us);
	s->methods[method_of(info->method)][info->outcome]++;
	s->resent += info->resent;
}

void accounts_request(struct accounts *a, struct span method)
{
	a->requests[method_of(method)]++;
}

uint64_t accounts_requests(const struct accounts *a, enum account_method method)
{
	return a->requests[method];
}

const struct account_server *accounts_server(const struct accounts *a, uint64_t server)
{
	return idmap_get(&a->servers, server);
}

void accounts_server_removed(struct accounts *a)
{
	struct account_server *s;
	/* A map must not change while it is walked. */
	for (size_t at = 0; (s = idmap_next(&a->servers, &at));) {
		if (manager_by_id(a->manager, s->server))
			continue;
		idmap_remove(&a->servers, s->server);
		free_server(s);
		at = 0;
	}
}

/* --- limits --- */

void accounts_limit(struct accounts *a, enum mcpd_limit limit)
{
	a->limits[limit]++;
}

uint64_t accounts_limit_hits(const struct accounts *a, enum mcpd_limit limit)
{
	return a->limits[limit];
}

void accounts_free(struct accounts *a)
{
	struct account_server *s;
	if (!a)
		return;
	for (size_t at = 0; (s = idmap_next(&a->servers, &at));)
		free_server(s);
	idmap_done(&a->servers);
	for (size_t i = 0; i < a->n_names; i++)
		free(a->names[i].name);
	free(a->names);
	free(a);
}
