#include "mcp/calls.h"

#include <assert.h>
#include <stdlib.h>

#include "mcp/call_source.h"
#include "mcp/input_required.h"
#include "xalloc.h"

static void on_expiry(void *arg);

void call_table_init(struct call_table *table, struct loop *loop)
{
	*table = (struct call_table){ 0 };
	table->expiry = timer_new(loop, on_expiry, table);
}

void call_table_done(struct call_table *table)
{
	assert(!table->live);
	while (table->given_up)
		call_table_remove(table, table->given_up);
	timer_free(table->expiry);
	free(table->buckets);
	*table = (struct call_table){ 0 };
}

static struct call **bucket(const struct call_table *table, uint64_t number)
{
	return &table->buckets[number & (table->n_buckets - 1)];
}

static void list_add(struct call **head, struct call *call)
{
	call->next = *head;
	call->link = head;
	if (call->next)
		call->next->link = &call->next;
	*head = call;
}

static void list_remove(struct call *call)
{
	*call->link = call->next;
	if (call->next)
		call->next->link = call->link;
}

static void grow(struct call_table *table)
{
	free(table->buckets);
	table->n_buckets = table->n_buckets ? table->n_buckets * 2 : 16;
	table->buckets = xnew_array(struct call *, table->n_buckets);
	for (struct call *call = table->live; call; call = call->next) {
		struct call **at = bucket(table, call->number);
		call->chain = *at;
		*at = call;
	}
}

struct call *call_table_add(struct call_table *table)
{
	if (table->n_live >= table->n_buckets)
		grow(table);
	struct call *call = xnew(struct call);
	call->number = ++table->last_number;
	struct call **at = bucket(table, call->number);
	call->chain = *at;
	*at = call;
	list_add(&table->live, call);
	table->n_live++;
	return call;
}

struct call *call_table_find(const struct call_table *table, uint64_t number)
{
	if (!table->n_buckets)
		return NULL;
	struct call *call = *bucket(table, number);
	while (call && call->number != number)
		call = call->chain;
	return call;
}

/* Out of the live list and its bucket. */
static void unhook(struct call_table *table, struct call *call)
{
	struct call **at = bucket(table, call->number);
	while (*at != call)
		at = &(*at)->chain;
	*at = call->chain;
	list_remove(call);
	table->n_live--;
	table->n_ending -= call->state == CALL_ENDING;
}

/* What only a live row needs. */
static void strip(struct call *call)
{
	free(call->task_id);
	free(call->cancel_reason);
	free(call->error_text);
	free(call->error_object);
	call_source_free(call->source);
	input_round_free(call->round);
	timer_free(call->timer);
	call->task_id = call->cancel_reason = call->error_text = call->error_object = NULL;
	call->source = NULL;
	call->round = NULL;
	call->timer = NULL;
}

void call_table_remove(struct call_table *table, struct call *call)
{
	if (call->state == CALL_GIVEN_UP) {
		list_remove(call);
		table->n_given_up--;
	} else {
		unhook(table, call);
	}
	strip(call);
	free(call);
}

static void set_expiry(struct call_table *table, int64_t at_ms)
{
	table->expiry_ms = at_ms;
	timer_set(table->expiry, at_ms);
}

void call_table_give_up(struct call_table *table, struct call *call, int64_t until_ms)
{
	if (table->n_given_up >= CALLS_GIVEN_UP_MAX) {
		if (table->overflow_until_ms < until_ms)
			table->overflow_until_ms = until_ms;
		call_table_remove(table, call);
		return;
	}
	unhook(table, call);
	strip(call);
	call->state = CALL_GIVEN_UP;
	call->given_up_until_ms = until_ms;
	list_add(&table->given_up, call);
	table->n_given_up++;
	if (!timer_is_set(table->expiry) || until_ms < table->expiry_ms)
		set_expiry(table, until_ms);
}

static void on_expiry(void *arg)
{
	struct call_table *table = arg;
	int64_t now = loop_now_ms(), earliest = 0;
	struct call *next;
	for (struct call *call = table->given_up; call; call = next) {
		next = call->next;
		if (call->given_up_until_ms <= now)
			call_table_remove(table, call);
		else if (!earliest || call->given_up_until_ms < earliest)
			earliest = call->given_up_until_ms;
	}
	if (earliest)
		set_expiry(table, earliest);
}

void call_table_late_answer(struct call_table *table, uint64_t request)
{
	struct call *call = table->given_up;
	while (call && call->request != request)
		call = call->next;
	if (call)
		call_table_remove(table, call);
}

unsigned call_table_count(const struct call_table *table, uint64_t owner)
{
	if (owner == 0)
		return table->n_live;
	unsigned n = 0;
	for (const struct call *call = table->live; call; call = call->next)
		n += call->owner == owner;
	return n;
}

static const struct call *find_request(const struct call *list, uint64_t request)
{
	while (list && list->request != request)
		list = list->next;
	return list;
}

/* What one list says of the owners. */
struct census {
	uint64_t owner, call;
	unsigned owned, own; /* rows of clients, and of the daemon */
	bool several;
};

static void count_owner(struct census *census, uint64_t owner)
{
	census->several |= census->owned > 0 && census->owner != owner;
	census->owner = owner;
	census->owned++;
}

static void count(struct census *census, const struct call *list, bool live)
{
	for (const struct call *call = list; call; call = call->next) {
		if (call->neutral)
			continue;
		if (call->owner == 0) {
			census->own++;
			continue;
		}
		count_owner(census, call->owner);
		if (live)
			census->call = call->number;
	}
}

/* The one owner of the calls that may be becoming tasks just now; 0: of none, or of several. */
static uint64_t sole_task_maker(const struct call_table *table)
{
	const struct call *const lists[] = { table->live, table->given_up };
	struct census census = { 0 };
	for (size_t i = 0; i < 2; i++)
		for (const struct call *call = lists[i]; call; call = call->next)
			if (call->maybe_task)
				count_owner(&census, call->owner);
	return census.several ? 0 : census.owner;
}

enum mcp_proof call_table_prove(const struct call_table *table, struct server_tasks *tasks, uint64_t on_request,
				struct span task, uint64_t *ret_owner, uint64_t *ret_call)
{
	*ret_owner = *ret_call = 0;
	server_tasks_sweep(tasks);
	const struct call *call = NULL;
	if (on_request) {
		call = find_request(table->live, on_request);
		if (!call)
			call = find_request(table->given_up, on_request);
	}
	if (call) {
		*ret_owner = call->owner;
		*ret_call = call->owner ? call->number : 0;
		return call->owner ? MCP_PROOF_STREAM : MCP_PROOF_NO_CALL;
	}
	const struct server_task *named = task.ptr ? server_tasks_find(tasks, task) : NULL;
	if (named) {
		*ret_owner = named->owner;
		return MCP_PROOF_TASK;
	}
	if (tasks->overflow || table->overflow_until_ms > loop_now_ms())
		return MCP_PROOF_NONE;
	/* A task that is not known yet is being made: the question has overtaken the answer that tells of it. */
	*ret_owner = task.ptr ? sole_task_maker(table) : 0;
	if (*ret_owner)
		return MCP_PROOF_TASK;
	struct census census = { 0 };
	count(&census, table->live, true);
	count(&census, table->given_up, false);
	for (const struct server_task *live = tasks->first; live; live = live->next)
		count_owner(&census, live->owner);
	if (census.owned == 0)
		return MCP_PROOF_NO_CALL;
	if (census.several || census.own > 0)
		return MCP_PROOF_NONE;
	*ret_owner = census.owner;
	/* With several calls of that one client it is proven whose the question is, not which call's. */
	*ret_call = census.owned == 1 ? census.call : 0;
	return MCP_PROOF_SOLE_OWNER;
}
