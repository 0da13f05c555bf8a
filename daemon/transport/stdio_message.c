#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "config/redact.h"
#include "proto/framer.h"
#include "transport/stdio_internal.h"
#include "xalloc.h"

/* --- sending --- */

/* An operation's data is the offset at which it begins in the stream; compared by difference, so that it may wrap
 * where pointers are short. */
enum pending_phase stdio_phase(const struct stdio *s, const void *data)
{
	if (!s->io || s->state == STDIO_STARTING)
		return PENDING_UNSENT;
	uintptr_t gone_since = (uintptr_t)stream_written(s->io) - (uintptr_t)data;
	return (intptr_t)gone_since > 0 ? PENDING_SENT : PENDING_UNSENT;
}

static void fail(struct stdio *s, uint64_t number, int code, const char *message)
{
	struct transport_reply reply = { .code = code, .message = message };
	pending_fail(s->pending, number, &reply);
}

static void fail_write(struct stdio *s, uint64_t number, int error)
{
	if (error != -ENOBUFS) {
		bool gone = error == -EPIPE;
		struct transport_reply reply = {
			.code = MCPD_E_TRANSPORT,
			.message = gone ? "Transport closed" : "Out of memory for sending the message",
			.sent = stdio_phase(s, pending_data(s->pending, number)) != PENDING_UNSENT,
		};
		pending_fail(s->pending, number, &reply);
		return;
	}
	char *message = xasprintf("The server does not read: %s (%" PRId64 " bytes) are waiting to be sent to it",
				  limit_table[LIMIT_SERVER_QUEUE].key, s->limits->value[LIMIT_SERVER_QUEUE]);
	struct transport_reply reply = { .code = MCPD_E_LIMIT, .message = message, .limit = LIMIT_SERVER_QUEUE };
	pending_fail(s->pending, number, &reply);
	free(message);
}

/* A notification is through when its last byte is written. */
static void await_written(struct stdio *s, uint64_t number)
{
	uint64_t end = stream_accepted(s->io);
	if (stream_written(s->io) >= end) {
		pending_succeed(s->pending, number);
		return;
	}
	struct stdio_notify *notify = xnew(struct stdio_notify);
	notify->number = number;
	notify->end = end;
	*s->notifies_end = notify;
	s->notifies_end = &notify->next;
}

void stdio_written(struct stdio *s)
{
	uint64_t written = stream_written(s->io);
	while (s->notifies && s->notifies->end <= written) {
		struct stdio_notify *notify = s->notifies;
		s->notifies = notify->next;
		if (!s->notifies)
			s->notifies_end = &s->notifies;
		pending_succeed(s->pending, notify->number);
		free(notify);
	}
}

void stdio_forget_notifies(struct stdio *s)
{
	while (s->notifies) {
		struct stdio_notify *notify = s->notifies;
		s->notifies = notify->next;
		free(notify);
	}
}

static int write_line(struct stdio *s, struct buf *line)
{
	int error = buf_failed(line) ? line->error : stream_write(s->io, buf_span(line));
	buf_done(line);
	return error;
}

uint64_t stdio_send(struct stdio *s, enum pending_kind kind, struct span method, struct span params,
		    const struct transport_options *options)
{
	static const struct transport_options none = { .timeout_ms = -1 };
	uint64_t number = pending_add(s->pending, kind, options ? options : &none);
	if (s->state != STDIO_CONNECTED) {
		fail(s, number, MCPD_E_TRANSPORT, "Transport not connected");
		return number;
	}
	struct buf line = BUF_INIT;
	if (kind == PENDING_REQUEST)
		jsonrpc_write_request(&line, pending_wire_id(s->pending, number), method, params);
	else
		jsonrpc_write_notification(&line, method, params);
	pending_set_data(s->pending, number, (void *)(uintptr_t)stream_accepted(s->io));
	int error = write_line(s, &line);
	if (error)
		fail_write(s, number, error);
	else if (kind == PENDING_NOTIFY)
		await_written(s, number);
	return number;
}

int stdio_respond(struct stdio *s, struct span id, struct span result, struct span error)
{
	struct buf line = BUF_INIT;
	if (error.ptr)
		jsonrpc_write_error_object(&line, id, error);
	else
		jsonrpc_write_result(&line, id, result);
	return write_line(s, &line);
}

/* --- receiving --- */

/* S9: after a close nothing is delivered. Asked again after every callback. */
static bool delivers(const struct stdio *s)
{
	return s->state == STDIO_CONNECTED || s->state == STDIO_LOST;
}

/* Something on stdout that is no message (S6, R14). */
static void noise(struct stdio *s, struct span text)
{
	s->noise_lines++;
	text = tail_cut(text, (size_t)s->limits->value[LIMIT_LOG_LINE_BYTES]);
	struct buf clean = BUF_INIT;
	text = redact(s->base.redactor, text, &clean);
	if (s->base.callbacks.on_log)
		s->base.callbacks.on_log(s->base.arg, text, true);
	buf_done(&clean);
}

/* What should have been an answer: its asker need not wait out its time. The good answer may still follow (S6). */
static void spoilt(struct stdio *s, struct span text, const char *problem, const struct json_error *error)
{
	struct span id;
	uint64_t number = jsonrpc_peek_answer(text, &id) ? pending_find(s->pending, id) : 0;
	if (number == 0)
		return;
	char *message = NULL;
	if (error && error->too_deep)
		message = xasprintf("The server's answer is nested deeper than %s (%" PRId64 " levels)",
				    limit_table[LIMIT_NESTING].key, s->limits->value[LIMIT_NESTING]);
	else if (error)
		message = xasprintf("The server's answer is not JSON: %s at byte %zu", error->reason, error->offset);
	else
		message = xasprintf("The server's answer is no JSON-RPC message: %s", problem);
	pending_spoil(s->pending, number, message);
	free(message);
}

static void answer(struct stdio *s, const struct jsonrpc_message *message)
{
	uint64_t number = pending_match(s->pending, message->id);
	if (number == 0)
		return; /* S4 */
	struct transport_reply reply = { .sent = true };
	char *text = NULL;
	if (message->kind == JSONRPC_RESULT) {
		reply.result = message->result;
	} else {
		reply.code = MCPD_E_SERVER;
		reply.error = message->error;
		reply.message = text = transport_error_text(&s->base, message->error);
	}
	pending_complete(s->pending, number, &reply);
	free(text);
}

/* False if it is no message. */
static bool dispatch(struct stdio *s, const struct jsonrpc_message *message)
{
	const struct transport_callbacks *callbacks = &s->base.callbacks;
	switch (message->kind) {
	case JSONRPC_NOTIFICATION:
		if (callbacks->on_notification)
			callbacks->on_notification(s->base.arg, message->method, message->params);
		return true;
	case JSONRPC_REQUEST:
		if (callbacks->on_request)
			callbacks->on_request(s->base.arg, message->id, message->method, message->params, 0);
		return true;
	case JSONRPC_RESULT:
	case JSONRPC_ERROR:
		answer(s, message);
		return true;
	default:
		return false;
	}
}

/* S6: a batch of a 2025-03-26 peer is taken apart, each element on its own. */
static void take_apart(struct stdio *s, struct span batch)
{
	struct json_iter it;
	struct span element;
	json_iter_init(&it, batch);
	while (delivers(s) && json_iter_element(&it, &element)) {
		struct jsonrpc_message message;
		if (jsonrpc_parse(element, &message, NULL) < 0 || !dispatch(s, &message)) {
			spoilt(s, element, message.problem, NULL);
			noise(s, element);
		}
	}
}

void stdio_line(struct stdio *s, struct span line)
{
	struct span text = framer_clean(line);
	if (!delivers(s) || text.len == 0)
		return;
	struct jsonrpc_message message;
	struct json_error error;
	bool is_json = jsonrpc_parse_within(text, s->limits->value[LIMIT_NESTING], &message, &error) == 0;
	if (is_json && message.kind == JSONRPC_BATCH && s->batches) {
		take_apart(s, text);
	} else if (!is_json || !dispatch(s, &message)) {
		spoilt(s, text, message.problem, is_json ? NULL : &error);
		noise(s, text);
	}
}

void stdio_too_long(struct stdio *s, struct span start)
{
	if (!delivers(s))
		return;
	struct span text = framer_clean(start), id;
	uint64_t number = jsonrpc_peek_answer(text, &id) ? pending_match(s->pending, id) : 0;
	if (number == 0) {
		noise(s, text);
		return;
	}
	char *message = xasprintf("The server's answer is longer than %s (%" PRId64 " bytes)",
				  limit_table[LIMIT_MESSAGE_BYTES].key, s->limits->value[LIMIT_MESSAGE_BYTES]);
	struct transport_reply reply = { .code = MCPD_E_PROTOCOL, .message = message, .sent = true };
	pending_complete(s->pending, number, &reply);
	free(message);
}
