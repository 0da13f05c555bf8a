#include "transport/pending.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/json_iter.h"
#include "xalloc.h"

#define NOT_IN_HEAP SIZE_MAX
#define FIRST_BUCKETS 64

enum op_state {
	OP_FLYING,
	OP_ENDING, /* its completion is due, from the task */
	OP_DONE,   /* its completion runs */
	OP_TOMB,
};

struct op {
	uint64_t number;
	char wire_id[28];
	enum pending_kind kind;
	enum op_state state;
	struct op *prev, *next; /* in the list of its state */
	struct op *chain;       /* in its hash bucket */
	size_t heap_index;
	int64_t deadline_ms, timeout_ms, latest_ms, max_timeout_ms;
	bool extended;
	bool leaves_tomb; /* given up, not answered */
	bool late;        /* the answer came while the completion was due */
	bool spoilt;      /* an answer came that cannot be used: message says why */
	uint64_t turn;    /* in the order of ending */
	struct transport_reply reply;
	char *message; /* owns reply.message; of a spoilt one, what its end will say */
	transport_done_fn *done;
	void *arg;
	void *data;
};

/* A queue of operations, oldest first. */
struct queue {
	struct op *first, *last;
	unsigned count;
};

struct pending {
	struct loop *loop;
	struct pending_hooks hooks;
	void *arg;
	int64_t default_timeout_ms;
	uint64_t last_number, last_turn;
	struct queue flying, ending, tombs;
	struct op **buckets;
	size_t n_buckets, n_ops;
	struct op **heap;
	size_t heap_len, heap_cap;
	struct timer *timer;
	struct task *task;
};

/* --- queues --- */

static void queue_append(struct queue *q, struct op *op)
{
	op->prev = q->last;
	op->next = NULL;
	if (q->last)
		q->last->next = op;
	else
		q->first = op;
	q->last = op;
	q->count++;
}

static void queue_remove(struct queue *q, struct op *op)
{
	if (op->prev)
		op->prev->next = op->next;
	else
		q->first = op->next;
	if (op->next)
		op->next->prev = op->prev;
	else
		q->last = op->prev;
	op->prev = op->next = NULL;
	q->count--;
}

/* --- the table; numbers count up, so they are their own hash --- */

static struct op **bucket_of(const struct pending *p, uint64_t number)
{
	return &p->buckets[number & (p->n_buckets - 1)];
}

static void table_grow(struct pending *p)
{
	struct op **old = p->buckets;
	size_t n_old = p->n_buckets;
	p->n_buckets = n_old ? n_old * 2 : FIRST_BUCKETS;
	p->buckets = xnew_array(struct op *, p->n_buckets);
	for (size_t i = 0; i < n_old; i++) {
		for (struct op *op = old[i], *next; op; op = next) {
			next = op->chain;
			struct op **bucket = bucket_of(p, op->number);
			op->chain = *bucket;
			*bucket = op;
		}
	}
	free(old);
}

static void table_add(struct pending *p, struct op *op)
{
	if (p->n_ops >= p->n_buckets)
		table_grow(p);
	p->n_ops++;
	struct op **bucket = bucket_of(p, op->number);
	op->chain = *bucket;
	*bucket = op;
}

static void table_remove(struct pending *p, struct op *op)
{
	struct op **at = bucket_of(p, op->number);
	while (*at != op)
		at = &(*at)->chain;
	*at = op->chain;
	p->n_ops--;
}

static struct op *table_find(const struct pending *p, uint64_t number)
{
	struct op *op = p->n_buckets ? *bucket_of(p, number) : NULL;
	while (op && op->number != number)
		op = op->chain;
	return op;
}

/* --- the clocks: a binary heap by deadline --- */

static void heap_put(struct pending *p, size_t at, struct op *op)
{
	p->heap[at] = op;
	op->heap_index = at;
}

static void heap_up(struct pending *p, size_t at, struct op *op)
{
	while (at > 0 && p->heap[(at - 1) / 2]->deadline_ms > op->deadline_ms) {
		heap_put(p, at, p->heap[(at - 1) / 2]);
		at = (at - 1) / 2;
	}
	heap_put(p, at, op);
}

static void heap_down(struct pending *p, size_t at, struct op *op)
{
	for (;;) {
		size_t child = 2 * at + 1;
		if (child >= p->heap_len)
			break;
		if (child + 1 < p->heap_len && p->heap[child + 1]->deadline_ms < p->heap[child]->deadline_ms)
			child++;
		if (p->heap[child]->deadline_ms >= op->deadline_ms)
			break;
		heap_put(p, at, p->heap[child]);
		at = child;
	}
	heap_put(p, at, op);
}

static void heap_add(struct pending *p, struct op *op)
{
	if (p->heap_len == p->heap_cap) {
		p->heap_cap = p->heap_cap ? p->heap_cap * 2 : FIRST_BUCKETS;
		p->heap = xrealloc(p->heap, p->heap_cap, sizeof(struct op *));
	}
	heap_up(p, p->heap_len++, op);
}

static void heap_remove(struct pending *p, struct op *op)
{
	size_t at = op->heap_index;
	if (at == NOT_IN_HEAP)
		return;
	op->heap_index = NOT_IN_HEAP;
	struct op *last = p->heap[--p->heap_len];
	if (last == op)
		return;
	if (at > 0 && p->heap[(at - 1) / 2]->deadline_ms > last->deadline_ms)
		heap_up(p, at, last);
	else
		heap_down(p, at, last);
}

/* The timer follows the earliest deadline. One that has become too early only finds nothing due. */
static void update_timer(struct pending *p)
{
	if (p->heap_len == 0)
		timer_cancel(p->timer);
	else
		timer_set(p->timer, p->heap[0]->deadline_ms);
}

/* --- life of an operation --- */

static void op_free(struct pending *p, struct op *op)
{
	table_remove(p, op);
	free(op->message);
	free(op);
}

/* Out of the lists that make it answerable. */
static void ground(struct pending *p, struct op *op)
{
	if (op->state == OP_FLYING)
		queue_remove(&p->flying, op);
	else if (op->state == OP_ENDING)
		queue_remove(&p->ending, op);
	heap_remove(p, op);
}

static void bury(struct pending *p, struct op *op)
{
	op->state = OP_TOMB;
	queue_append(&p->tombs, op);
	if (p->tombs.count > PENDING_TOMBSTONES) {
		struct op *oldest = p->tombs.first;
		queue_remove(&p->tombs, oldest);
		op_free(p, oldest);
	}
}

static void tell_late(struct pending *p, uint64_t number)
{
	if (p->hooks.on_late)
		p->hooks.on_late(p->arg, number);
}

/* Runs the completion. The operation stays in the table meanwhile, for pending_wire_id(). */
static void finish(struct pending *p, struct op *op, const struct transport_reply *reply)
{
	ground(p, op);
	op->state = OP_DONE;
	if (op->done)
		op->done(op->arg, reply);
	if (op->leaves_tomb && !op->late) {
		bury(p, op);
		return;
	}
	uint64_t number = op->number;
	bool late = op->late;
	op_free(p, op);
	if (late)
		tell_late(p, number);
}

/* Notes the reply; its completion follows from the task. */
static void end_soon(struct pending *p, struct op *op, const struct transport_reply *reply)
{
	ground(p, op);
	op->state = OP_ENDING;
	op->turn = ++p->last_turn;
	op->reply = (struct transport_reply){
		.code = reply->code,
		.sent = reply->sent,
		.limit = reply->limit,
		.http_status = reply->http_status,
		.session_lost = reply->session_lost,
		.timeout_ms = reply->timeout_ms,
		.max_timeout_ms = reply->max_timeout_ms,
	};
	free(op->message);
	op->message = NULL;
	if (reply->code == 0)
		op->reply.result = SPAN_LIT("{}");
	else if (reply->message)
		op->message = strdup(reply->message);
	if (reply->code != 0)
		op->reply.message = op->message ? op->message : mcpd_error_title(reply->code);
	queue_append(&p->ending, op);
	task_schedule(p->task);
}

/* Completes what was ending when this began, in order. */
static void finish_ending(struct pending *p)
{
	uint64_t last = p->last_turn;
	while (p->ending.first && p->ending.first->turn <= last) {
		struct op *op = p->ending.first;
		finish(p, op, &op->reply);
	}
	if (p->ending.first)
		task_schedule(p->task);
}

static void on_task(void *arg)
{
	finish_ending(arg);
}

static enum pending_phase give_up(struct pending *p, struct op *op)
{
	return p->hooks.give_up(p->arg, op->number, op->data);
}

static void time_out(struct pending *p, struct op *op)
{
	op->leaves_tomb = op->kind == PENDING_REQUEST;
	enum pending_phase phase = give_up(p, op);
	const char *what = op->kind == PENDING_NOTIFY ? "Notify" :
			   phase == PENDING_STREAMING ? "SSE response" :
							"Request";
	char message[64];
	snprintf(message, sizeof message, "%s timeout after %" PRId64 "ms", what, op->timeout_ms);
	struct transport_reply reply = {
		.code = MCPD_E_TIMEOUT,
		.message = message,
		.sent = phase != PENDING_UNSENT,
		.timeout_ms = op->timeout_ms,
		.max_timeout_ms = op->extended ? op->max_timeout_ms : 0,
	};
	finish(p, op, &reply);
}

/* It was answered, if badly: nothing more is due. */
static void end_spoilt(struct pending *p, struct op *op)
{
	finish(p, op, &(struct transport_reply){ .code = MCPD_E_PROTOCOL, .message = op->message, .sent = true });
}

static void on_timer(void *arg)
{
	struct pending *p = arg;
	int64_t now = loop_now_ms();
	/* What a completion adds waits for the next pass, also if its deadline is past. */
	uint64_t last = p->last_number;
	while (p->heap_len > 0 && p->heap[0]->deadline_ms <= now && p->heap[0]->number <= last)
		(p->heap[0]->spoilt ? end_spoilt : time_out)(p, p->heap[0]);
	update_timer(p);
}

struct pending *pending_new(struct loop *loop, int64_t default_timeout_ms, const struct pending_hooks *hooks, void *arg)
{
	struct pending *p = xnew(struct pending);
	p->loop = loop;
	p->hooks = *hooks;
	p->arg = arg;
	p->default_timeout_ms = default_timeout_ms;
	p->timer = timer_new(loop, on_timer, p);
	p->task = task_new(loop, on_task, p);
	return p;
}

static void forget_tombs(struct pending *p)
{
	while (p->tombs.first) {
		struct op *op = p->tombs.first;
		queue_remove(&p->tombs, op);
		op_free(p, op);
	}
}

void pending_free(struct pending *p)
{
	if (!p)
		return;
	while (p->ending.first)
		finish(p, p->ending.first, &p->ending.first->reply);
	forget_tombs(p);
	assert(p->n_ops == 0);
	timer_free(p->timer);
	task_free(p->task);
	free(p->buckets);
	free(p->heap);
	free(p);
}

static void start_clock(struct pending *p, struct op *op, const struct transport_options *options)
{
	int64_t now = loop_now_ms();
	op->timeout_ms = options->timeout_ms < 0 ? p->default_timeout_ms : options->timeout_ms;
	op->max_timeout_ms = options->max_timeout_ms;
	op->latest_ms = now + options->max_timeout_ms;
	op->heap_index = NOT_IN_HEAP;
	if (options->deadline_ms != 0)
		op->deadline_ms = options->deadline_ms;
	else if (op->timeout_ms > 0)
		op->deadline_ms = now + op->timeout_ms;
	else
		return;
	heap_add(p, op);
	if (op->heap_index == 0)
		update_timer(p);
}

uint64_t pending_add(struct pending *p, enum pending_kind kind, const struct transport_options *options)
{
	struct op *op = xnew(struct op);
	op->number = ++p->last_number;
	op->kind = kind;
	op->done = options->done;
	op->arg = options->arg;
	snprintf(op->wire_id, sizeof op->wire_id, "\"m-%" PRIu64 "\"", op->number);
	table_add(p, op);
	queue_append(&p->flying, op);
	start_clock(p, op, options);
	return op->number;
}

void pending_set_data(struct pending *p, uint64_t number, void *data)
{
	struct op *op = table_find(p, number);
	if (op)
		op->data = data;
}

void *pending_data(const struct pending *p, uint64_t number)
{
	const struct op *op = table_find(p, number);
	return op ? op->data : NULL;
}

struct span pending_wire_id(const struct pending *p, uint64_t number)
{
	const struct op *op = table_find(p, number);
	return op && op->state != OP_TOMB ? span_of(op->wire_id) : SPAN_NONE;
}

void pending_touch(struct pending *p, uint64_t number)
{
	struct op *op = table_find(p, number);
	if (!op || op->heap_index == NOT_IN_HEAP || op->spoilt || op->max_timeout_ms <= 0 || op->timeout_ms <= 0)
		return;
	int64_t deadline = loop_now_ms() + op->timeout_ms;
	if (deadline > op->latest_ms)
		deadline = op->latest_ms;
	if (deadline <= op->deadline_ms)
		return;
	op->extended = true;
	op->deadline_ms = deadline;
	heap_down(p, op->heap_index, op);
	update_timer(p);
}

/* The number in the text m-<number>, written as we write it; 0 if it is none. */
static uint64_t number_of(struct span text)
{
	if (text.len < 3 || text.len > 2 + 20 || memcmp(text.ptr, "m-", 2) != 0 || text.ptr[2] == '0')
		return 0;
	uint64_t number = 0;
	for (size_t i = 2; i < text.len; i++) {
		unsigned digit = (unsigned)text.ptr[i] - '0';
		if (digit > 9 || __builtin_mul_overflow(number, 10, &number) ||
		    __builtin_add_overflow(number, digit, &number))
			return 0;
	}
	return number;
}

static struct op *find_by_id(const struct pending *p, struct span id)
{
	if (json_type_of(id) != JSON_STRING || id.len > 256)
		return NULL;
	uint64_t number = number_of((struct span){ id.ptr + 1, id.len - 2 });
	if (number == 0 && memchr(id.ptr, '\\', id.len)) {
		/* The server wrote our characters in its own way. */
		struct buf text = BUF_INIT;
		if (json_string_decode(id, &text) == 0)
			number = number_of(buf_span(&text));
		buf_done(&text);
	}
	return number ? table_find(p, number) : NULL;
}

uint64_t pending_find(const struct pending *p, struct span id)
{
	const struct op *op = find_by_id(p, id);
	return op && op->state == OP_FLYING && op->kind == PENDING_REQUEST ? op->number : 0;
}

uint64_t pending_match(struct pending *p, struct span id)
{
	struct op *op = find_by_id(p, id);
	if (!op || op->kind != PENDING_REQUEST)
		return 0;
	uint64_t number = op->number;
	if (op->state == OP_FLYING)
		return number;
	if (op->state == OP_TOMB) {
		queue_remove(&p->tombs, op);
		op_free(p, op);
		tell_late(p, number);
	} else if (op->leaves_tomb) {
		op->late = true;
	}
	return 0;
}

static struct op *find_flying(struct pending *p, uint64_t number)
{
	struct op *op = table_find(p, number);
	return op && op->state == OP_FLYING ? op : NULL;
}

void pending_spoil(struct pending *p, uint64_t number, const char *message)
{
	struct op *op = find_flying(p, number);
	int64_t deadline = loop_now_ms() + PENDING_SPOILT_MS;
	if (!op || op->spoilt || (op->heap_index != NOT_IN_HEAP && op->deadline_ms <= deadline))
		return;
	op->spoilt = true;
	op->message = xstrdup(message);
	heap_remove(p, op);
	op->deadline_ms = deadline;
	heap_add(p, op);
	update_timer(p);
}

void pending_complete(struct pending *p, uint64_t number, const struct transport_reply *reply)
{
	struct op *op = find_flying(p, number);
	if (op)
		finish(p, op, reply);
}

void pending_fail(struct pending *p, uint64_t number, const struct transport_reply *reply)
{
	struct op *op = find_flying(p, number);
	if (op)
		end_soon(p, op, reply);
}

void pending_succeed(struct pending *p, uint64_t number)
{
	pending_fail(p, number, &(struct transport_reply){ .sent = true });
}

void pending_cancel(struct pending *p, uint64_t number, const char *reason)
{
	struct op *op = find_flying(p, number);
	if (!op)
		return;
	op->leaves_tomb = op->kind == PENDING_REQUEST;
	struct transport_reply reply = {
		.code = MCPD_E_CANCELLED,
		.message = reason,
		.sent = give_up(p, op) != PENDING_UNSENT,
	};
	end_soon(p, op, &reply);
}

void pending_fail_all(struct pending *p, int code, const char *message)
{
	uint64_t last = p->last_number;
	finish_ending(p);
	while (p->flying.first && p->flying.first->number <= last) {
		struct op *op = p->flying.first;
		struct transport_reply reply = {
			.code = code,
			.message = message,
			.sent = give_up(p, op) != PENDING_UNSENT,
		};
		finish(p, op, &reply);
	}
	forget_tombs(p);
	update_timer(p);
}

unsigned pending_count(const struct pending *p)
{
	return p->flying.count + p->ending.count;
}
