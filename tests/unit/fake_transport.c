#include "fake_transport.h"

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/buf.h"
#include "proto/json_iter.h"
#include "proto/json_scan.h"
#include "xalloc.h"

struct fake_transport {
	struct transport base;
	struct loop *loop;
	struct fake_options options;
	struct task *task;
	bool connect_due, connected, close_called, close_due, close_told;
	struct fake_sent **sent;
	size_t n_sent;
	uint64_t last_number;
	char *protocol;
	bool modern;
	unsigned listens;
	struct buf methods;
	struct transport_traffic traffic;
};

static struct fake_transport *fake_of(const struct transport *t)
{
	return (struct fake_transport *)(uintptr_t)t;
}

static char *copy_json(struct span json)
{
	if (!json.ptr)
		return NULL;
	struct json_error error = { 0 };
	ck_assert_msg(json_check(json, &error) == 0, "not JSON (%s at %zu): %.*s", error.reason, error.offset,
		      (int)json.len, json.ptr);
	ck_assert_msg(!memchr(json.ptr, '\n', json.len), "not on one line: %.*s", (int)json.len, json.ptr);
	return xstrndup(json.ptr, json.len);
}

static char *copy_headers(const char *const *headers)
{
	struct buf out = BUF_INIT;
	for (; headers && *headers; headers++)
		buf_addf(&out, "%s\n", *headers);
	return out.len ? buf_steal(&out) : NULL;
}

static struct fake_sent *record(struct fake_transport *fake, enum fake_kind kind)
{
	struct fake_sent *sent = xnew(struct fake_sent);
	sent->kind = kind;
	fake->sent = xrealloc(fake->sent, fake->n_sent + 1, sizeof(struct fake_sent *));
	fake->sent[fake->n_sent++] = sent;
	return sent;
}

static void complete(struct fake_sent *sent, const struct transport_reply *reply)
{
	ck_assert_msg(sent->pending, "%s has been completed already", sent->method);
	sent->pending = sent->due = false;
	if (sent->done)
		sent->done(sent->arg, reply);
}

static void fail_all(struct fake_transport *fake)
{
	struct transport_reply reply = { .code = MCPD_E_TRANSPORT, .message = "Transport closed", .sent = true };
	for (size_t i = 0; i < fake->n_sent; i++)
		if (fake->sent[i]->pending)
			complete(fake->sent[i], fake->sent[i]->due ? &fake->sent[i]->failure : &reply);
}

static void finish_close(struct fake_transport *fake, const char *reason)
{
	fail_all(fake);
	ck_assert_msg(!fake->close_told, "on_close twice");
	fake->close_told = true;
	fake->base.callbacks.on_close(fake->base.arg, reason);
}

static void on_task(void *arg)
{
	struct fake_transport *fake = arg;
	if (fake->connect_due) {
		fake->connect_due = false;
		fake_connected(fake);
	}
	for (size_t i = 0, n = fake->n_sent; i < n && !fake->close_told; i++)
		if (fake->sent[i]->pending && fake->sent[i]->due)
			complete(fake->sent[i], &fake->sent[i]->failure);
	if (fake->close_due && !fake->close_told) {
		fake->close_due = false;
		finish_close(fake, NULL);
	}
}

static void due(struct fake_transport *fake, struct fake_sent *sent, const struct transport_reply *reply)
{
	if (sent->due)
		return;
	sent->due = true;
	sent->failure = *reply;
	task_schedule(fake->task);
}

static void fake_connect(struct transport *t)
{
	struct fake_transport *fake = fake_of(t);
	if (fake->options.connect_by_hand)
		return;
	fake->connect_due = true;
	task_schedule(fake->task);
}

static bool fake_is_connected(const struct transport *t)
{
	return fake_of(t)->connected;
}

static struct fake_sent *operation(struct fake_transport *fake, enum fake_kind kind, struct span method,
				   struct span params, const struct transport_options *options)
{
	struct fake_sent *sent = record(fake, kind);
	char id[32];
	sent->number = ++fake->last_number;
	snprintf(id, sizeof(id), "\"m-%" PRIu64 "\"", sent->number);
	sent->id = kind == FAKE_REQUEST ? xstrdup(id) : NULL;
	sent->pending = true;
	sent->method = json_string_dup(method);
	ck_assert_ptr_nonnull(sent->method);
	sent->params = copy_json(params);
	ck_assert(!params.ptr || json_type_of(params) == JSON_OBJECT);
	sent->timeout_ms = options->timeout_ms;
	sent->deadline_ms = options->deadline_ms;
	sent->max_timeout_ms = options->max_timeout_ms;
	sent->handshake = options->handshake;
	sent->headers = copy_headers(options->headers);
	sent->done = options->done;
	sent->arg = options->arg;
	if (!fake->connected) {
		struct transport_reply reply = { .code = MCPD_E_TRANSPORT, .message = "Transport not connected" };
		due(fake, sent, &reply);
	}
	return sent;
}

static uint64_t fake_send_request(struct transport *t, struct span method, struct span params,
				  const struct transport_options *options)
{
	return operation(fake_of(t), FAKE_REQUEST, method, params, options)->number;
}

static uint64_t fake_send_notify(struct transport *t, struct span method, struct span params,
				 const struct transport_options *options)
{
	struct fake_transport *fake = fake_of(t);
	struct fake_sent *sent = operation(fake, FAKE_NOTIFY, method, params, options);
	struct transport_reply reply = { .code = fake->options.notify_code,
					 .result = SPAN_LIT("{}"),
					 .message = fake->options.notify_code ? "it went wrong" : NULL,
					 .sent = true };
	due(fake, sent, &reply);
	return sent->number;
}

static struct fake_sent *find(const struct fake_transport *fake, uint64_t number)
{
	for (size_t i = 0; i < fake->n_sent; i++)
		if (fake->sent[i]->number == number && fake->sent[i]->kind != FAKE_RESPONSE)
			return fake->sent[i];
	return NULL;
}

static void fake_cancel(struct transport *t, uint64_t request, const char *reason)
{
	struct fake_transport *fake = fake_of(t);
	struct fake_sent *sent = find(fake, request);
	if (!sent || !sent->pending || sent->due)
		return;
	sent->given_up = true;
	sent->cancel_reason = xstrdup(reason ? reason : "");
	struct transport_reply reply = { .code = MCPD_E_CANCELLED, .message = sent->cancel_reason, .sent = true };
	due(fake, sent, &reply);
}

static void fake_touch(struct transport *t, uint64_t request)
{
	struct fake_sent *sent = find(fake_of(t), request);
	if (sent)
		sent->touched++;
}

static struct span fake_wire_id(const struct transport *t, uint64_t request)
{
	struct fake_sent *sent = find(fake_of(t), request);
	return sent ? span_of(sent->id) : SPAN_NONE;
}

static int fake_respond(struct transport *t, struct span id, struct span result, struct span error)
{
	struct fake_sent *sent = record(fake_of(t), FAKE_RESPONSE);
	ck_assert_msg(!result.ptr != !error.ptr, "a response needs a result or an error");
	sent->id = copy_json(id);
	sent->result = copy_json(result);
	sent->error = copy_json(error);
	return 0;
}

static void fake_set_protocol(struct transport *t, const char *version, bool modern)
{
	struct fake_transport *fake = fake_of(t);
	ck_assert_msg(!fake->protocol, "the protocol is set twice");
	fake->protocol = xstrdup(version);
	fake->modern = modern;
}

static void fake_listen(struct transport *t)
{
	fake_of(t)->listens++;
}

static pid_t fake_pid(const struct transport *t)
{
	(void)t;
	return 4711;
}

static void fake_close(struct transport *t)
{
	struct fake_transport *fake = fake_of(t);
	fake->connected = false;
	if (fake->close_called)
		return;
	fake->close_called = true;
	if (fake->close_told)
		return;
	if (fake->options.close_at_once) {
		finish_close(fake, NULL);
		return;
	}
	fake->close_due = true;
	task_schedule(fake->task);
}

static void free_fake(void *object)
{
	struct fake_transport *fake = object;
	for (size_t i = 0; i < fake->n_sent; i++) {
		struct fake_sent *sent = fake->sent[i];
		ck_assert_msg(!sent->pending, "%s was never completed", sent->method);
		free(sent->method);
		free(sent->params);
		free(sent->id);
		free(sent->result);
		free(sent->error);
		free(sent->headers);
		free(sent->cancel_reason);
		free(sent);
	}
	free(fake->sent);
	free(fake->protocol);
	buf_done(&fake->methods);
	task_free(fake->task);
	free(fake);
}

static void fake_free(struct transport *t)
{
	loop_bury(fake_of(t)->loop, t, free_fake);
}

static void fake_get_traffic(const struct transport *t, struct transport_traffic *ret)
{
	*ret = fake_of(t)->traffic;
}

void fake_set_traffic(struct fake_transport *fake, uint64_t received, uint64_t sent, uint64_t unsent)
{
	fake->traffic = (struct transport_traffic){ received, sent, unsent };
}

static struct transport_ops fake_ops_for(enum transport_kind kind)
{
	return (struct transport_ops){
		.kind = kind,
		.connect = fake_connect,
		.is_connected = fake_is_connected,
		.request = fake_send_request,
		.notify = fake_send_notify,
		.cancel = fake_cancel,
		.touch = fake_touch,
		.wire_id = fake_wire_id,
		.respond = fake_respond,
		.set_protocol = fake_set_protocol,
		.listen = fake_listen,
		.pid = fake_pid,
		.get_traffic = fake_get_traffic,
		.close = fake_close,
		.free = fake_free,
	};
}

struct transport *fake_transport_new(struct loop *loop, const struct fake_options *options,
				     const struct transport_callbacks *callbacks, void *arg,
				     struct fake_transport **ret_fake)
{
	static struct transport_ops ops[2];
	ops[options->kind] = fake_ops_for(options->kind);
	struct fake_transport *fake = xnew(struct fake_transport);
	fake->base.ops = &ops[options->kind];
	fake->base.callbacks = *callbacks;
	fake->base.arg = arg;
	fake->loop = loop;
	fake->options = *options;
	fake->task = task_new(loop, on_task, fake);
	*ret_fake = fake;
	return &fake->base;
}

size_t fake_count(const struct fake_transport *fake)
{
	return fake->n_sent;
}

struct fake_sent *fake_at(const struct fake_transport *fake, size_t index)
{
	ck_assert_uint_lt(index, fake->n_sent);
	return fake->sent[index];
}

struct fake_sent *fake_last(const struct fake_transport *fake, const char *method)
{
	for (size_t i = fake->n_sent; i-- > 0;)
		if (fake->sent[i]->method && strcmp(fake->sent[i]->method, method) == 0)
			return fake->sent[i];
	return NULL;
}

struct fake_sent *fake_last_response(const struct fake_transport *fake)
{
	for (size_t i = fake->n_sent; i-- > 0;)
		if (fake->sent[i]->kind == FAKE_RESPONSE)
			return fake->sent[i];
	return NULL;
}

size_t fake_count_of(const struct fake_transport *fake, const char *method)
{
	size_t n = 0;
	for (size_t i = 0; i < fake->n_sent; i++)
		n += fake->sent[i]->method && strcmp(fake->sent[i]->method, method) == 0;
	return n;
}

size_t fake_pending(const struct fake_transport *fake)
{
	size_t n = 0;
	for (size_t i = 0; i < fake->n_sent; i++)
		n += fake->sent[i]->pending;
	return n;
}

const char *fake_methods(struct fake_transport *fake)
{
	buf_reset(&fake->methods);
	for (size_t i = 0; i < fake->n_sent; i++)
		buf_addf(&fake->methods, "%s%s", i ? " " : "", fake->sent[i]->method ? fake->sent[i]->method : "=");
	return buf_span(&fake->methods).ptr;
}

const char *fake_protocol(const struct fake_transport *fake, bool *ret_modern)
{
	*ret_modern = fake->modern;
	return fake->protocol;
}

unsigned fake_listens(const struct fake_transport *fake)
{
	return fake->listens;
}

bool fake_closed(const struct fake_transport *fake)
{
	return fake->close_called;
}

bool fake_connected_now(const struct fake_transport *fake)
{
	return fake->connected;
}

void fake_connected(struct fake_transport *fake)
{
	if (fake->close_called)
		return;
	if (!fake->options.connect_error) {
		fake->connected = true;
		fake->base.callbacks.on_connect(fake->base.arg, NULL);
		return;
	}
	struct transport_reply reply = {
		.code = fake->options.connect_code ? fake->options.connect_code : MCPD_E_TRANSPORT,
		.message = fake->options.connect_error,
		.permanent = !fake->options.connect_may_pass,
	};
	fake->base.callbacks.on_connect(fake->base.arg, &reply);
}

void fake_answer(struct fake_transport *fake, struct fake_sent *sent, const char *result)
{
	ck_assert_ptr_nonnull(sent);
	/* On the heap and exactly as long, so that a use after the completion or a byte too far is seen. */
	char *copy = copy_json(span_of(result));
	struct transport_reply reply = { .result = span_of(copy), .sent = true };
	fake_fail(fake, sent, &reply);
	free(copy);
}

void fake_error(struct fake_transport *fake, struct fake_sent *sent, const char *error)
{
	ck_assert_ptr_nonnull(sent);
	char *copy = copy_json(span_of(error));
	struct transport_reply reply = {
		.code = MCPD_E_SERVER, .error = span_of(copy), .message = "MCP error: it said no", .sent = true
	};
	fake_fail(fake, sent, &reply);
	free(copy);
}

void fake_fail(struct fake_transport *fake, struct fake_sent *sent, const struct transport_reply *reply)
{
	(void)fake;
	ck_assert_ptr_nonnull(sent);
	ck_assert_msg(!sent->due, "%s has been given up: there is no answer for it", sent->method);
	complete(sent, reply);
}

void fake_time_out(struct fake_transport *fake, struct fake_sent *sent)
{
	ck_assert_ptr_nonnull(sent);
	sent->given_up = true;
	struct transport_reply reply = {
		.code = MCPD_E_TIMEOUT, .message = "Request timeout after 50ms", .sent = true, .timeout_ms = 50
	};
	fake_fail(fake, sent, &reply);
}

void fake_late_answer(struct fake_transport *fake, struct fake_sent *sent)
{
	ck_assert_msg(sent->given_up && !sent->pending, "%s has not been given up", sent->method);
	fake->base.callbacks.on_late_answer(fake->base.arg, sent->number);
}

static struct span quoted(struct buf *out, const char *text)
{
	buf_add_json_text(out, text);
	return buf_span(out);
}

void fake_notification(struct fake_transport *fake, const char *method, const char *params)
{
	struct buf name = BUF_INIT;
	char *copy = copy_json(span_of(params));
	fake->base.callbacks.on_notification(fake->base.arg, quoted(&name, method), span_of(copy));
	buf_done(&name);
	free(copy);
}

void fake_request(struct fake_transport *fake, const char *id, const char *method, const char *params,
		  const struct fake_sent *on)
{
	struct buf name = BUF_INIT;
	char *id_copy = copy_json(span_of(id)), *copy = copy_json(span_of(params));
	fake->base.callbacks.on_request(fake->base.arg, span_of(id_copy), quoted(&name, method), span_of(copy),
					on ? on->number : 0);
	buf_done(&name);
	free(id_copy);
	free(copy);
}

void fake_log(struct fake_transport *fake, const char *text)
{
	fake->base.callbacks.on_log(fake->base.arg, span_of(text), false);
}

void fake_listener_end(struct fake_transport *fake, int http_status, const char *message)
{
	fake->base.callbacks.on_listener_end(fake->base.arg, http_status, message);
}

void fake_exit(struct fake_transport *fake, const char *reason)
{
	fake->connected = false;
	fake->close_due = false;
	finish_close(fake, reason);
}
