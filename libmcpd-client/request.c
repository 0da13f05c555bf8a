/* Requests: made, kept by number until they end, and ended exactly once. */
#include "client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_BUCKETS 64
#define TOOL_GRACE_MS 2000 /* the daemon's own clock for a call should be the one that is heard */

static struct request **bucket_of(mcpd_client *client, uint64_t number)
{
	return &client->buckets[number & (client->n_buckets - 1)];
}

/* More buckets when there are many requests; without memory the chains just grow longer. */
static int make_room(mcpd_client *client)
{
	if (client->buckets && client->n_requests < client->n_buckets * 2)
		return 0;
	size_t n = client->buckets ? client->n_buckets * 2 : FIRST_BUCKETS;
	struct request **fresh = calloc(n, sizeof *fresh);
	if (!fresh)
		return client->buckets ? 0 : -ENOMEM;
	struct request **old = client->buckets;
	size_t n_old = client->n_buckets;
	client->buckets = fresh;
	client->n_buckets = n;
	for (size_t i = 0; i < n_old; i++) {
		while (old[i]) {
			struct request *request = old[i];
			old[i] = request->next;
			request->next = *bucket_of(client, request->number);
			*bucket_of(client, request->number) = request;
		}
	}
	free(old);
	return 0;
}

struct request *request_find(mcpd_client *client, uint64_t number)
{
	struct request *request = client->n_requests ? *bucket_of(client, number) : NULL;
	while (request && request->number != number)
		request = request->next;
	return request;
}

struct request *request_take(mcpd_client *client, uint64_t number)
{
	if (!client->n_requests)
		return NULL;
	for (struct request **at = bucket_of(client, number); *at; at = &(*at)->next) {
		struct request *request = *at;
		if (request->number != number)
			continue;
		*at = request->next;
		client->n_requests--;
		return request;
	}
	return NULL;
}

static void request_free(struct request *request)
{
	if (!request)
		return;
	mcpd_reply_unref(request->reply);
	free(request);
}

void request_finish(mcpd_client *client, struct request *request)
{
	if (request->fn) {
		client->callbacks++;
		request->fn(client, request->reply, request->userdata);
	}
	request_free(request);
}

void request_abandon(mcpd_client *client, uint64_t number)
{
	request_free(request_take(client, number));
}

static bool was_sent(const mcpd_client *client, const struct request *request)
{
	uint64_t unsent = client->out.len - client->out_sent;
	return client->queued_total - unsent > request->stream_position;
}

/* Takes all requests out of the table, oldest first: their callbacks may add new ones. */
static struct request *take_all(mcpd_client *client)
{
	struct request *all = NULL;
	for (size_t i = 0; client->n_requests && i < client->n_buckets; i++) {
		while (client->buckets[i]) {
			struct request *request = client->buckets[i];
			client->buckets[i] = request->next;
			client->n_requests--;
			struct request **at = &all;
			while (*at && (*at)->number < request->number)
				at = &(*at)->next;
			request->next = *at;
			*at = request;
		}
	}
	return all;
}

struct request *requests_end(mcpd_client *client, int error)
{
	struct request *all = take_all(client);
	for (struct request *request = all; request; request = request->next)
		reply_set_failure(request->reply, error, "the connection to the daemon ended before the answer came",
				  was_sent(client, request));
	client->next_deadline_ms = 0;
	return all;
}

void requests_deliver(mcpd_client *client, struct request *ended)
{
	while (ended) {
		struct request *request = ended;
		ended = request->next;
		if (client->doomed)
			request_free(request);
		else
			request_finish(client, request);
	}
}

void requests_discard(mcpd_client *client)
{
	struct request *all = take_all(client);
	while (all) {
		struct request *request = all;
		all = request->next;
		request_free(request);
	}
}

static int send_cancel(mcpd_client *client, uint64_t number, const char *reason)
{
	struct buf params = BUF_INIT, line = BUF_INIT;
	buf_addf(&params, "{\"requestId\":%llu", (unsigned long long)number);
	if (reason) {
		buf_add_text(&params, ",\"reason\":");
		buf_add_json_text(&params, reason);
	}
	buf_add_char(&params, '}');
	jsonrpc_write_notification(&line, SPAN_LIT("\"notifications/cancelled\""), buf_span(&params));
	int r = buf_failed(&params) ? -ENOMEM : io_queue(client, &line);
	buf_done(&params);
	buf_done(&line);
	return r;
}

void requests_expire(mcpd_client *client)
{
	int64_t now = client_now_ms();
	if (!client->next_deadline_ms || now < client->next_deadline_ms)
		return;
	struct request *expired = NULL;
	client->next_deadline_ms = 0;
	for (size_t i = 0; i < client->n_buckets; i++) {
		for (struct request **at = &client->buckets[i]; *at;) {
			struct request *request = *at;
			if (request->deadline_ms && request->deadline_ms <= now) {
				*at = request->next;
				client->n_requests--;
				request->next = expired;
				expired = request;
				continue;
			}
			if (request->deadline_ms &&
			    (!client->next_deadline_ms || request->deadline_ms < client->next_deadline_ms))
				client->next_deadline_ms = request->deadline_ms;
			at = &request->next;
		}
	}
	for (struct request *request = expired; request; request = request->next) {
		/* Without memory for it the daemon finishes the call for nobody, which hurts less than not telling the caller. */
		if (client->state != MCPD_DISCONNECTED)
			send_cancel(client, request->number, "timeout");
		reply_set_failure(request->reply, -ETIMEDOUT, "no answer in time", was_sent(client, request));
	}
	requests_deliver(client, expired);
}

/* Where in a request's params the progress token belongs: beside `arguments`, or in the params of the server's own method. */
static int add_progress_token(struct buf *out, const char *method, struct span params, uint64_t number)
{
	char token[24];
	snprintf(token, sizeof token, "%llu", (unsigned long long)number);
	struct jsonrpc_meta_edit edit = { "progressToken", span_of(token) };
	if (strcmp(method, "mcp/request") != 0)
		return jsonrpc_edit_meta(out, params, &edit, 1);
	struct json_iter it;
	struct span key, value;
	bool seen = false;
	buf_add_char(out, '{');
	json_iter_init(&it, params);
	while (json_iter_member(&it, &key, &value)) {
		bool inner = json_string_is(key, "params");
		if (inner && seen)
			continue;
		buf_add_span(out, key);
		buf_add_char(out, ':');
		if (inner) {
			int r = jsonrpc_edit_meta(out, value, &edit, 1);
			if (r < 0)
				return r;
			seen = true;
		} else {
			buf_add_span(out, value);
		}
		buf_add_char(out, ',');
	}
	if (seen)
		out->len--; /* the last comma */
	else
		buf_addf(out, "\"params\":{\"_meta\":{\"progressToken\":%s}}", token);
	buf_add_char(out, '}');
	return buf_failed(out) ? -ENOMEM : 0;
}

static int write_request(mcpd_client *client, const char *method, struct span params, bool progress, uint64_t number)
{
	struct buf id = BUF_INIT, name = BUF_INIT, edited = BUF_INIT, line = BUF_INIT;
	buf_addf(&id, "%llu", (unsigned long long)number);
	buf_add_json_text(&name, method);
	int r = 0;
	if (progress)
		r = add_progress_token(&edited, method, params, number);
	if (r == 0 && (buf_failed(&id) || buf_failed(&name) || buf_failed(&edited)))
		r = -ENOMEM;
	if (r == 0) {
		jsonrpc_write_request(&line, buf_span(&id), buf_span(&name), progress ? buf_span(&edited) : params);
		r = io_queue(client, &line);
	}
	buf_done(&id);
	buf_done(&name);
	buf_done(&edited);
	buf_done(&line);
	return r;
}

static struct request *request_new(mcpd_client *client, const struct mcpd_request_options *options, mcpd_reply_fn *fn,
				   void *userdata)
{
	struct request *request = calloc(1, sizeof *request);
	if (!request)
		return NULL;
	request->number = client->last_number + 1;
	request->reply = reply_new(request->number);
	if (!request->reply) {
		free(request);
		return NULL;
	}
	request->fn = fn;
	request->userdata = userdata;
	request->stream_position = client->queued_total;
	if (options) {
		request->progress = options->progress;
		if (options->timeout_ms > 0)
			request->deadline_ms = client_now_ms() + options->timeout_ms;
	}
	return request;
}

MCPD_PUBLIC int mcpd_request(mcpd_client *client, const char *method, const char *params,
			     const struct mcpd_request_options *options, mcpd_reply_fn *fn, void *userdata,
			     uint64_t *ret_request)
{
	if (client->state == MCPD_DISCONNECTED || client->lost)
		return client_fail(client, -ENOTCONN, "not connected");
	struct span text = span_of(params);
	if (params && (json_check(text, NULL) < 0 || json_type_of(json_trim(text)) != JSON_OBJECT))
		return client_fail(client, -EINVAL, "the params are no JSON object");
	if (make_room(client) < 0)
		return client_fail(client, -ENOMEM, "out of memory");
	struct request *request = request_new(client, options, fn, userdata);
	if (!request)
		return client_fail(client, -ENOMEM, "out of memory");
	int r = write_request(client, method, params ? json_trim(text) : text, request->progress, request->number);
	if (r < 0) {
		request_free(request);
		return r == -EINVAL ? client_fail(client, r, "the _meta in the params is no object") : r;
	}
	client->last_number = request->number;
	request->next = *bucket_of(client, request->number);
	*bucket_of(client, request->number) = request;
	client->n_requests++;
	if (request->deadline_ms && (!client->next_deadline_ms || request->deadline_ms < client->next_deadline_ms))
		client->next_deadline_ms = request->deadline_ms;
	if (ret_request)
		*ret_request = request->number;
	return 0;
}

MCPD_PUBLIC int mcpd_request_tool(mcpd_client *client, const char *server, const char *tool, const char *arguments,
				  const struct mcpd_request_options *options, mcpd_reply_fn *fn, void *userdata,
				  uint64_t *ret_request)
{
	struct span text = span_of(arguments);
	if (arguments && (json_check(text, NULL) < 0 || json_type_of(json_trim(text)) != JSON_OBJECT))
		return client_fail(client, -EINVAL, "the arguments are no JSON object");
	struct mcpd_request_options own = { .size = sizeof own };
	struct buf params = BUF_INIT;
	buf_add_text(&params, "{\"server\":");
	buf_add_json_text(&params, server);
	buf_add_text(&params, ",\"name\":");
	buf_add_json_text(&params, tool);
	if (arguments) {
		buf_add_text(&params, ",\"arguments\":");
		buf_add_span(&params, text);
	}
	if (options) {
		own.progress = options->progress;
		if (options->timeout_ms > 0) {
			buf_addf(&params, ",\"timeoutMs\":%d", options->timeout_ms);
			own.timeout_ms = options->timeout_ms > INT32_MAX - TOOL_GRACE_MS ?
						 INT32_MAX :
						 options->timeout_ms + TOOL_GRACE_MS;
		}
	}
	buf_add_char(&params, '}');
	int r = buf_failed(&params) ? client_fail(client, -ENOMEM, "out of memory") :
				      mcpd_request(client, "tools/call", params.data, &own, fn, userdata, ret_request);
	buf_done(&params);
	return r;
}

MCPD_PUBLIC int mcpd_cancel(mcpd_client *client, uint64_t request, const char *reason)
{
	if (!request_find(client, request))
		return client_fail(client, -ENOENT, "no such request in flight");
	return send_cancel(client, request, reason);
}

MCPD_PUBLIC int mcpd_notify(mcpd_client *client, const char *method, const char *params)
{
	if (client->state == MCPD_DISCONNECTED || client->lost)
		return client_fail(client, -ENOTCONN, "not connected");
	struct span text = span_of(params);
	if (params && (json_check(text, NULL) < 0 || json_type_of(json_trim(text)) != JSON_OBJECT))
		return client_fail(client, -EINVAL, "the params are no JSON object");
	struct buf name = BUF_INIT, line = BUF_INIT;
	buf_add_json_text(&name, method);
	jsonrpc_write_notification(&line, buf_span(&name), text);
	int r = buf_failed(&name) ? client_fail(client, -ENOMEM, "out of memory") : io_queue(client, &line);
	buf_done(&name);
	buf_done(&line);
	return r;
}

MCPD_PUBLIC size_t mcpd_in_flight(const mcpd_client *client)
{
	return client->n_requests;
}
