#include "router/task_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "idmap.h"
#include "proto/json_iter.h"
#include "xalloc.h"

#define BUCKETS_FIRST 16

TAILQ_HEAD(task_entry_list, task_entry);

struct holder {
	uint64_t client;
	struct task_entry_list entries; /* oldest first */
	size_t n;
};

struct place {
	uint64_t server;
	unsigned n_live;
};

struct task_table {
	struct manager *manager;
	struct task_entry **buckets;
	size_t n_buckets, n; /* n_buckets: a power of two, or 0 */
	struct idmap holders, places;
	struct timer *expiry;
	int64_t expiry_ms, grace_ms;
};

static void on_expiry(void *arg);

struct task_table *task_table_new(struct loop *loop, struct manager *manager, int64_t grace_ms)
{
	struct task_table *table = xnew(struct task_table);
	table->manager = manager;
	table->grace_ms = grace_ms;
	table->expiry = timer_new(loop, on_expiry, table);
	return table;
}

void task_table_free(struct task_table *table)
{
	if (!table)
		return;
	assert(table->n == 0 && table->holders.count == 0 && table->places.count == 0);
	timer_free(table->expiry);
	idmap_done(&table->holders);
	idmap_done(&table->places);
	free(table->buckets);
	free(table);
}

/* ---- finding ---- */

static struct task_entry **bucket(const struct task_table *table, uint64_t hash)
{
	return &table->buckets[(hash ^ hash >> 32) & (table->n_buckets - 1)];
}

static void grow(struct task_table *table)
{
	struct task_entry **old = table->buckets;
	size_t n_old = table->n_buckets;
	table->n_buckets = n_old ? n_old * 2 : BUCKETS_FIRST;
	table->buckets = xnew_array(struct task_entry *, table->n_buckets);
	for (size_t i = 0; i < n_old; i++) {
		for (struct task_entry *e = old[i], *next; e; e = next) {
			next = e->chain;
			struct task_entry **at = bucket(table, e->hash);
			e->chain = *at;
			*at = e;
		}
	}
	free(old);
}

struct task_entry *task_table_find(const struct task_table *table, uint64_t server, uint64_t owner, struct span id)
{
	uint64_t hash = json_string_hash(id);
	struct task_entry *e = table->n_buckets ? *bucket(table, hash) : NULL;
	while (e && (e->hash != hash || e->server != server || e->owner != owner || !json_strings_equal(e->id, id)))
		e = e->chain;
	return e;
}

struct task_entry *task_table_first(const struct task_table *table, uint64_t client)
{
	const struct holder *holder = idmap_get(&table->holders, client);
	return holder ? TAILQ_FIRST(&holder->entries) : NULL;
}

/* ---- live and over ---- */

/* One live task more, or less, at the server: an idle stop would end them, and waits while there are any. */
static void count_live(struct task_table *table, uint64_t server_id, bool more)
{
	struct place *place = idmap_get(&table->places, server_id);
	if (!place) {
		place = xnew(struct place);
		place->server = server_id;
		idmap_put(&table->places, server_id, place);
	}
	bool was_live = place->n_live > 0;
	place->n_live += more ? 1 : -1u;
	bool is_live = place->n_live > 0;
	if (!is_live)
		free(idmap_remove(&table->places, server_id));
	struct server *server = was_live == is_live ? NULL : manager_by_id(table->manager, server_id);
	if (server)
		server_set_pinned(server, SERVER_PIN_TASKS, is_live);
}

static void set_over(struct task_table *table, struct task_entry *e, bool over)
{
	if (e->over != over)
		count_live(table, e->server, !over);
	e->over = over;
}

/* It is forgotten some time after the server may have forgotten it. */
static void set_ttl(struct task_table *table, struct task_entry *e, int64_t ttl_ms)
{
	int64_t now = loop_now_ms();
	if (ttl_ms < 0 || ttl_ms > INT64_MAX - table->grace_ms - now)
		return;
	e->until_ms = now + ttl_ms + table->grace_ms;
	if (timer_is_set(table->expiry) && table->expiry_ms <= e->until_ms)
		return;
	table->expiry_ms = e->until_ms;
	timer_set(table->expiry, e->until_ms);
}

void task_table_note(struct task_table *table, struct task_entry *e, const struct task_told *told)
{
	set_over(table, e, told->over);
	set_ttl(table, e, told->ttl_ms);
}

/* ---- coming and going ---- */

void task_table_forget(struct task_table *table, struct task_entry *e)
{
	struct holder *holder = idmap_get(&table->holders, e->client);
	struct task_entry **at = bucket(table, e->hash);
	while (*at != e)
		at = &(*at)->chain;
	*at = e->chain;
	table->n--;
	TAILQ_REMOVE(&holder->entries, e, link);
	if (--holder->n == 0)
		free(idmap_remove(&table->holders, holder->client));
	set_over(table, e, true);
	free(e);
}

void task_table_forget_where(struct task_table *table, task_entry_fn *is, void *arg)
{
	for (size_t i = 0; i < table->n_buckets; i++) {
		for (struct task_entry *e = table->buckets[i], *next; e; e = next) {
			next = e->chain;
			if (is(e, arg))
				task_table_forget(table, e);
		}
	}
}

bool task_table_has_room(struct task_table *table, uint64_t client, bool forget)
{
	const struct holder *holder = idmap_get(&table->holders, client);
	if (!holder || holder->n < (uint64_t)manager_config(table->manager)->limits.value[LIMIT_TASKS])
		return true;
	struct task_entry *e = TAILQ_FIRST(&holder->entries);
	while (e && !e->over)
		e = TAILQ_NEXT(e, link);
	if (!e)
		return false;
	if (forget)
		task_table_forget(table, e);
	return true;
}

static struct task_entry *new_entry(struct span id, struct span token)
{
	/* Server and client control these sizes. */
	struct task_entry *e = calloc(1, sizeof *e + id.len + token.len);
	if (!e)
		return NULL;
	e->id = (struct span){ memcpy(e->text, id.ptr, id.len), id.len };
	if (token.ptr)
		e->token = (struct span){ memcpy(e->text + id.len, token.ptr, token.len), token.len };
	e->hash = json_string_hash(e->id);
	e->over = true; /* as long as it does not count */
	return e;
}

static void link_entry(struct task_table *table, struct task_entry *e)
{
	struct holder *holder = idmap_get(&table->holders, e->client);
	if (!holder) {
		holder = xnew(struct holder);
		holder->client = e->client;
		TAILQ_INIT(&holder->entries);
		idmap_put(&table->holders, e->client, holder);
	}
	TAILQ_INSERT_TAIL(&holder->entries, e, link);
	holder->n++;
	if (table->n >= table->n_buckets)
		grow(table);
	e->chain = *bucket(table, e->hash);
	*bucket(table, e->hash) = e;
	table->n++;
}

struct task_entry *task_table_add(struct task_table *table, uint64_t client, uint64_t server, uint64_t owner,
				  const struct task_told *told, struct span token)
{
	struct task_entry *same = task_table_find(table, server, owner, told->id);
	if (same)
		task_table_forget(table, same);
	struct task_entry *e = new_entry(told->id, token);
	if (!e)
		return NULL;
	e->client = client;
	e->server = server;
	e->owner = owner;
	link_entry(table, e);
	task_table_note(table, e, told);
	return e;
}

/* ---- expiry ---- */

struct moment {
	int64_t now, earliest;
};

/* And finds out when the next one does. */
static bool has_expired(const struct task_entry *e, void *arg)
{
	struct moment *moment = arg;
	if (!e->until_ms)
		return false;
	if (e->until_ms <= moment->now)
		return true;
	if (!moment->earliest || e->until_ms < moment->earliest)
		moment->earliest = e->until_ms;
	return false;
}

static void on_expiry(void *arg)
{
	struct task_table *table = arg;
	struct moment moment = { .now = loop_now_ms() };
	task_table_forget_where(table, has_expired, &moment);
	table->expiry_ms = moment.earliest;
	if (moment.earliest)
		timer_set(table->expiry, moment.earliest);
}
