#include "manager/manager.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "log.h"
#include "manager/instance.h"
#include "manager/manager_private.h"
#include "manager/server_private.h"
#include "xalloc.h"

static void on_drained(void *arg);

/* ---- making and finding ---- */

uint64_t manager_next_id(struct manager *m)
{
	return ++m->last_id;
}

struct manager *manager_new(const struct manager_options *options, const struct manager_callbacks *callbacks, void *arg)
{
	struct manager *m = xnew(struct manager);
	struct timespec now;
	m->loop = options->loop;
	m->host = options->host;
	m->curl = options->curl;
	m->cache = tool_cache_new(options->cache_dir);
	m->callbacks = *callbacks;
	m->arg = arg;
	/* A client that outlives its daemon may still answer a question of that one: no id is used by two in turn. */
	clock_gettime(CLOCK_REALTIME, &now);
	m->last_id = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
	limits_init(&m->limits);
	TAILQ_INIT(&m->instances);
	TAILQ_INIT(&m->questions);
	outbox_init(m);
	m->drain_timer = timer_new(m->loop, on_drained, m);
	return m;
}

void manager_free(struct manager *m)
{
	if (!m)
		return;
	assert(m->phase == MANAGER_CLOSED || (m->n_servers == 0 && m->n_instances == 0));
	assert(TAILQ_EMPTY(&m->instances) && TAILQ_EMPTY(&m->questions) && m->n_calls == 0);
	idmap_done(&m->calls);
	outbox_done(m);
	timer_free(m->drain_timer);
	tool_cache_free(m->cache);
	config_free(m->config);
	free(m->servers);
	free(m);
}

const struct config *manager_config(const struct manager *m)
{
	return m->config;
}

struct server *manager_by_id(struct manager *m, uint64_t id)
{
	for (size_t i = 0; i < m->n_servers; i++)
		if (m->servers[i]->id == id)
			return m->servers[i];
	return NULL;
}

struct server *manager_find(struct manager *m, struct span name)
{
	for (size_t i = 0; i < m->n_servers; i++)
		if (span_is(name, m->servers[i]->name))
			return m->servers[i];
	return NULL;
}

size_t manager_count(const struct manager *m)
{
	return m->n_servers;
}

struct server *manager_at(const struct manager *m, size_t index)
{
	return index < m->n_servers ? m->servers[index] : NULL;
}

unsigned manager_in_flight(const struct manager *m)
{
	return m->n_calls;
}

static bool server_at_rest(const struct server *server)
{
	const struct lane *lane;
	TAILQ_FOREACH(lane, &server->lanes, link)
	if (lane_is_active(lane))
		return false;
	return server->n_instances == 0 && (!server->by_hand || server->cfg->lazy || !server->cfg->enabled);
}

bool manager_at_rest(const struct manager *m)
{
	for (size_t i = 0; i < m->n_servers; i++)
		if (!server_at_rest(m->servers[i]))
			return false;
	/* Those of servers that are no longer configured among them. */
	return m->n_instances == 0 && m->n_calls == 0;
}

void manager_set_capabilities(struct manager *m, manager_capabilities_fn *fn, void *arg)
{
	m->capabilities = fn;
	m->capabilities_arg = arg;
}

void manager_client_gone(struct manager *m, uint64_t client)
{
	for (size_t i = 0; i < m->n_servers; i++)
		sharing_client_gone(m->servers[i], client);
}

/* ---- configuration ---- */

static void add_name(char ***list, const char *name)
{
	size_t n = 0;
	while (*list && (*list)[n])
		n++;
	*list = xrealloc(*list, n + 2, sizeof(char *));
	(*list)[n] = xstrdup(name);
	(*list)[n + 1] = NULL;
}

static void free_names(char **list)
{
	for (size_t i = 0; list && list[i]; i++)
		free(list[i]);
	free(list);
}

void manager_changes_done(struct manager_changes *changes)
{
	free_names(changes->added);
	free_names(changes->removed);
	free_names(changes->changed);
	*changes = (struct manager_changes){ 0 };
}

static bool same_list(char *const *a, char *const *b)
{
	size_t i = 0;
	for (; a && a[i] && b && b[i]; i++)
		if (strcmp(a[i], b[i]) != 0)
			return false;
	return (!a || !a[i]) && (!b || !b[i]);
}

static void clean_cache(struct manager *m)
{
	const char **names = xnew_array(const char *, m->n_servers + 1);
	for (size_t i = 0; i < m->n_servers; i++)
		names[i] = m->servers[i]->name;
	tool_cache_clean(m->cache, names);
	free(names);
}

/* The server of each definition: the one of that name, brought up to date, or a new one. taken[]: which of
 * m->servers have a definition. */
static struct server **match(struct manager *m, const struct config *config, bool environment_changed, bool *taken,
			     struct manager_changes *changes)
{
	struct server **servers = xnew_array(struct server *, config->n_servers);
	for (size_t i = 0; i < config->n_servers; i++) {
		const struct server_config *cfg = config->servers[i];
		size_t k = 0;
		while (k < m->n_servers && (taken[k] || strcmp(m->servers[k]->name, cfg->name) != 0))
			k++;
		if (k == m->n_servers) {
			servers[i] = server_new(m, cfg);
			add_name(&changes->added, cfg->name);
			continue;
		}
		taken[k] = true;
		servers[i] = m->servers[k];
		if (strcmp(servers[i]->cfg->fingerprint, cfg->fingerprint) == 0) {
			servers[i]->cfg = cfg;
			changes->unchanged++;
		} else {
			server_reconfigure(servers[i], cfg, environment_changed);
			add_name(&changes->changed, cfg->name);
		}
	}
	return servers;
}

/* The servers that are not configured any more, as their definitions are still there. */
static void drop_left(struct manager *m, struct server **servers, size_t n, const bool *taken,
		      struct manager_changes *changes)
{
	for (size_t i = 0; i < n; i++) {
		if (taken[i])
			continue;
		add_name(&changes->removed, servers[i]->name);
		outbox_server_removed(m, servers[i]->name);
		server_free(servers[i]);
	}
}

static void free_config(void *arg)
{
	config_free(arg);
}

void manager_configure(struct manager *m, struct config *config, struct manager_changes *ret)
{
	struct manager_changes changes = { 0 };
	struct config *before = m->config;
	size_t n_before = m->n_servers;
	if (m->phase != MANAGER_RUNNING) {
		config_free(config);
		if (ret)
			*ret = changes;
		return;
	}
	bool environment_changed = before && !same_list(before->environment, config->environment);
	m->config = config;
	m->limits = config->limits;
	bool *taken = xnew_array(bool, n_before);
	struct server **servers = match(m, config, environment_changed, taken, &changes), **old = m->servers;
	m->servers = servers;
	m->n_servers = config->n_servers;
	drop_left(m, old, n_before, taken, &changes);
	free(old);
	free(taken);
	if (!before)
		clean_cache(m);
	for (size_t i = 0; i < m->n_servers; i++)
		if (!m->servers[i]->cfg->lazy && !m->servers[i]->by_hand && m->servers[i]->state == SERVER_IDLE)
			server_start(m->servers[i], "configured");
	/* What was shown of its servers stays readable until the next pass. */
	if (before)
		loop_bury(m->loop, before, free_config);
	if (ret)
		*ret = changes;
	else
		manager_changes_done(&changes);
}

/* ---- shutdown ---- */

static void close_everything(struct manager *m)
{
	m->phase = MANAGER_CLOSING;
	timer_cancel(m->drain_timer);
	for (size_t i = 0; i < m->n_servers; i++)
		server_shut(m->servers[i]);
	for (struct instance *inst = TAILQ_FIRST(&m->instances), *next; inst; inst = next) {
		next = TAILQ_NEXT(inst, link);
		instance_end(inst);
	}
	outbox_schedule(m);
}

static void on_drained(void *arg)
{
	close_everything(arg);
}

void manager_shutdown(struct manager *m, int64_t drain_ms, loop_fn *done, void *arg)
{
	if (m->phase == MANAGER_DRAINING)
		timer_set(m->drain_timer, loop_now_ms() + (drain_ms > 0 ? drain_ms : 0)); /* in more of a hurry now */
	if (m->phase != MANAGER_RUNNING)
		return;
	m->phase = MANAGER_DRAINING;
	m->shutdown_done = done;
	m->shutdown_arg = arg;
	timer_set(m->drain_timer, loop_now_ms() + (drain_ms > 0 ? drain_ms : 0));
	for (size_t i = 0; i < m->n_servers; i++)
		orders_fail_all(m->servers[i], "mcpd is shutting down");
	outbox_schedule(m);
}

void manager_shutdown_step(struct manager *m)
{
	if (m->phase == MANAGER_DRAINING && m->n_calls == 0)
		close_everything(m);
	if (m->phase != MANAGER_CLOSING || m->n_instances > 0 || m->n_calls > 0 || !TAILQ_EMPTY(&m->outbox.orders))
		return;
	/* Nothing is left that could call anybody; the servers themselves go now. */
	m->phase = MANAGER_CLOSED;
	struct server **servers = m->servers;
	size_t n = m->n_servers;
	m->servers = NULL;
	m->n_servers = 0;
	for (size_t i = 0; i < n; i++)
		server_free(servers[i]);
	free(servers);
	task_cancel(m->outbox.task);
	m->shutdown_done(m->shutdown_arg);
}
