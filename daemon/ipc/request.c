#include "ipc/request.h"

#include <stdlib.h>
#include <string.h>

#include "ipc/ipc_internal.h"
#include "proto/errors.h"
#include "proto/json_iter.h"
#include "proto/jsonrpc.h"
#include "xalloc.h"

#define BUCKETS_FIRST 8
#define NO_REASON "cancelled by the client"

struct request {
	struct request *next; /* in its bucket */
	struct session *session;
	struct requests *requests;
	uint64_t number, hash;
	void (*cancel)(struct request *request, uint64_t arg, const char *reason);
	void (*gone)(uint64_t arg);
	uint64_t arg;
	struct batch *batch; /* or NULL */
	char *cancel_reason;
	size_t id_len;
	char id[];
};

static struct request **bucket_of(const struct requests *requests, uint64_t hash)
{
	return &requests->buckets[(hash ^ hash >> 32) & (requests->n_buckets - 1)];
}

static void grow(struct requests *requests)
{
	struct requests old = *requests;
	requests->n_buckets = old.n_buckets ? old.n_buckets * 2 : BUCKETS_FIRST;
	requests->buckets = xnew_array(struct request *, requests->n_buckets);
	for (size_t i = 0; i < old.n_buckets; i++) {
		for (struct request *r = old.buckets[i], *next; r; r = next) {
			next = r->next;
			struct request **bucket = bucket_of(requests, r->hash);
			r->next = *bucket;
			*bucket = r;
		}
	}
	free(old.buckets);
}

static struct span id_of(const struct request *r)
{
	return (struct span){ r->id, r->id_len };
}

struct request *request_new(struct session *session, struct requests *requests, struct span id)
{
	struct ipc *ipc = session_ipc(session);
	/* The client controls the size of its id. */
	struct request *r = calloc(1, sizeof *r + id.len);
	if (!r)
		return NULL;
	r->session = session;
	r->requests = requests;
	r->number = ++ipc->last_request;
	r->hash = jsonrpc_id_hash(id);
	r->id_len = id.len;
	memcpy(r->id, id.ptr, id.len);
	if (requests->count >= requests->n_buckets)
		grow(requests);
	struct request **bucket = bucket_of(requests, r->hash);
	r->next = *bucket;
	*bucket = r;
	requests->count++;
	return r;
}

struct request *requests_find(const struct requests *requests, struct span id)
{
	if (!requests->count)
		return NULL;
	uint64_t hash = jsonrpc_id_hash(id);
	struct request *r = *bucket_of(requests, hash);
	while (r && (r->hash != hash || !jsonrpc_ids_equal(id_of(r), id)))
		r = r->next;
	return r;
}

struct request *requests_find_number(const struct requests *requests, uint64_t number)
{
	for (size_t i = 0; i < requests->n_buckets; i++)
		for (struct request *r = requests->buckets[i]; r; r = r->next)
			if (r->number == number)
				return r;
	return NULL;
}

static void free_request(struct request *r)
{
	if (r->gone)
		r->gone(r->arg);
	batch_leave(r->batch, NULL);
	free(r->cancel_reason);
	free(r);
}

void requests_done(struct requests *requests)
{
	for (size_t i = 0; i < requests->n_buckets; i++) {
		while (requests->buckets[i]) {
			struct request *r = requests->buckets[i];
			requests->buckets[i] = r->next;
			free_request(r);
		}
	}
	free(requests->buckets);
	*requests = (struct requests){ 0 };
}

/* The request has been answered. */
static void end_request(struct request *r)
{
	struct requests *requests = r->requests;
	struct session *session = r->session;
	struct request **at = bucket_of(requests, r->hash);
	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	requests->count--;
	free_request(r);
	session_idle(session);
}

struct session *request_session(const struct request *r)
{
	return r->session;
}

struct ipc *request_ipc(const struct request *r)
{
	return session_ipc(r->session);
}

uint64_t request_number(const struct request *r)
{
	return r->number;
}

void request_pend(struct request *r, void (*cancel)(struct request *request, uint64_t arg, const char *reason),
		  void (*gone)(uint64_t arg), uint64_t arg)
{
	r->cancel = cancel;
	r->gone = gone;
	r->arg = arg;
}

void request_cancel(struct request *r, struct span reason)
{
	if (r->cancel_reason)
		return;
	r->cancel_reason = json_string_dup(reason);
	if (!r->cancel_reason)
		r->cancel_reason = xstrdup(NO_REASON);
	if (r->cancel) {
		r->cancel(r, r->arg, r->cancel_reason);
		return;
	}
	struct buf data = BUF_INIT;
	buf_add_text(&data, "{\"reason\":");
	buf_add_json_text(&data, r->cancel_reason);
	buf_add_char(&data, '}');
	request_error_buf(r, MCPD_E_CANCELLED, NULL, &data);
}

const char *request_cancel_reason(const struct request *r)
{
	return r->cancel_reason;
}

static void send_line(struct request *r, struct buf *line)
{
	if (r->batch) {
		struct batch *batch = r->batch;
		r->batch = NULL;
		batch_leave(batch, line);
	} else {
		session_send(r->session, line);
	}
	/* The memory of a large answer is given back, that of small ones kept. */
	if (line->cap > IPC_LINE_KEEP)
		buf_done(line);
	end_request(r);
}

void request_result(struct request *r, struct span result)
{
	struct buf *line = &request_ipc(r)->line;
	buf_reset(line);
	jsonrpc_write_result(line, id_of(r), result);
	if (buf_failed(line)) {
		buf_done(line);
		jsonrpc_write_error(line, id_of(r), MCPD_E_INTERNAL, "out of memory for the answer", SPAN_NONE);
	}
	send_line(r, line);
}

void request_error(struct request *r, int code, const char *message, struct span data)
{
	struct buf *line = &request_ipc(r)->line;
	buf_reset(line);
	jsonrpc_write_error(line, id_of(r), code, message, data);
	send_line(r, line);
}

void request_error_object(struct request *r, struct span error)
{
	struct buf *line = &request_ipc(r)->line;
	buf_reset(line);
	jsonrpc_write_error_object(line, id_of(r), error);
	send_line(r, line);
}

void request_drop(struct request *r)
{
	end_request(r);
}

struct span request_id(const struct request *r)
{
	return id_of(r);
}

void request_join(struct request *r, struct batch *batch)
{
	r->batch = batch;
	batch_enter(batch);
}

void request_result_buf(struct request *r, struct buf *result)
{
	if (buf_failed(result))
		request_error(r, MCPD_E_INTERNAL, "out of memory", SPAN_NONE);
	else
		request_result(r, buf_span(result));
	buf_done(result);
}

void request_error_buf(struct request *r, int code, const char *message, struct buf *data)
{
	request_error(r, code, message, buf_failed(data) ? SPAN_NONE : buf_span(data));
	buf_done(data);
}
