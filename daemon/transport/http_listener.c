#include "transport/http_listener.h"

#include <stdlib.h>
#include <string.h>

#include "transport/http_internal.h"
#include "transport/http_message.h"
#include "transport/http_reply.h"
#include "xalloc.h"

static void on_timer(void *arg);

void http_listener_init(struct http_listener *l, struct http *h)
{
	*l = (struct http_listener){ .http = h };
	l->timer = timer_new(h->loop, on_timer, l);
}

void http_listener_done(struct http_listener *l)
{
	http_listener_close(l);
	timer_free(l->timer);
	sse_parser_free(l->parser);
	buf_done(&l->refusal);
}

void http_listener_close(struct http_listener *l)
{
	timer_cancel(l->timer);
	transfer_close(l->transfer);
	l->transfer = NULL;
}

/* `failure`: it is also an error (H10). Takes the message. */
static void end(struct http_listener *l, int status, char *message, bool failure)
{
	struct http *h = l->http;
	http_listener_close(l);
	l->ended_ms = loop_now_ms();
	if (failure)
		http_tell_error(h, message);
	if (http_is_open(h) && h->base.callbacks.on_listener_end)
		h->base.callbacks.on_listener_end(h->base.arg, status, message);
	free(message);
}

/* -- the stream's messages */

static void on_answer(void *arg, const struct jsonrpc_message *message)
{
	/* Not the place for answers; whose it might be still has a stream of its own (S4). */
	(void)arg;
	(void)message;
}

static void on_malformed(void *arg, struct span text, char *message)
{
	(void)text;
	struct http_listener *l = arg;
	http_tell_error(l->http, message);
	free(message);
}

static void on_too_long(void *arg, struct span start)
{
	struct http_listener *l = arg;
	(void)start;
	http_tell_error(l->http, "an event of the background stream is longer than maxMessageBytes; it was skipped");
}

static bool has_ended(const void *arg)
{
	const struct http_listener *l = arg;
	return !l->transfer;
}

/* -- the transfer */

static void refuse(struct http_listener *l)
{
	struct http *h = l->http;
	struct http_error error;
	http_error_of(&error, l->http->base.redactor, l->transfer, buf_span(&l->refusal), l->had_session);
	int status = l->status;
	if (error.session_lost) {
		http_session_gone(h, &error);
		status = 404; /* however it was told (R30) */
	}
	char *message = xasprintf("background stream: %s", error.message);
	http_error_done(&error);
	l->off = status == 405;
	end(l, status, message, !l->off);
}

static bool is_refused(const struct http_listener *l)
{
	return l->status != 0 && (l->status < 200 || l->status > 299);
}

static void wait_for_refusal(struct http_listener *l)
{
	timer_set(l->timer, loop_now_ms() + http_limit(l->http, LIMIT_HTTP_IDLE));
}

static void on_head(void *arg)
{
	struct http_listener *l = arg;
	l->status = transfer_status(l->transfer);
	if (is_refused(l))
		wait_for_refusal(l);
	else if (!http_is_media_type(transfer_header(l->transfer, "Content-Type"), "text/event-stream"))
		end(l, l->status, xstrdup("background stream: the answer to GET is no event stream"), true);
}

static size_t on_data(void *arg, struct span bytes)
{
	struct http_listener *l = arg;
	const struct http_reader reader = {
		.answer = on_answer,
		.malformed = on_malformed,
		.too_long = on_too_long,
		.ended = has_ended,
		.arg = l,
	};
	bool no_memory;
	if (is_refused(l)) {
		size_t room = (size_t)http_limit(l->http, LIMIT_HTTP_ERROR_BYTES) - l->refusal.len;
		buf_add(&l->refusal, bytes.ptr, bytes.len < room ? bytes.len : room);
		if (bytes.len >= room)
			refuse(l);
		else
			wait_for_refusal(l);
		return bytes.len;
	}
	size_t taken = http_read_events(l->http, l->parser, bytes, &reader, &no_memory);
	if (no_memory)
		end(l, l->status, xstrdup("background stream: out of memory"), true);
	return taken;
}

static void on_end(void *arg, const struct transfer_end *transfer_end)
{
	struct http_listener *l = arg;
	struct http *h = l->http;
	int code;
	if (is_refused(l)) {
		refuse(l);
		return;
	}
	if (transfer_end->error == TRANSFER_OK) {
		end(l, l->status, xstrdup("background stream: the server ended it"), false);
		return;
	}
	char *why = http_transfer_message(h->shown_url, transfer_end, h->connect_timeout_ms, h->limits, &code);
	end(l, l->status, xasprintf("background stream: %s", why), true);
	free(why);
}

static void start(struct http_listener *l)
{
	static const struct transfer_callbacks callbacks = { on_head, on_data, on_end };
	struct http *h = l->http;
	if (!l->parser)
		l->parser = sse_parser_new((size_t)http_limit(h, LIMIT_MESSAGE_BYTES));
	sse_parser_restart(l->parser);
	l->status = 0;
	buf_reset(&l->refusal);
	l->had_session = h->session != NULL;
	char **lines = http_lines_make(h, &(struct http_lines){
						  .session = true,
						  .version = span_of(h->version),
						  .last_event_id = sse_parser_last_id(l->parser),
					  });
	l->transfer = http_transfer(h, "GET", h->url, lines, SPAN_NONE, &callbacks, l);
}

static void on_timer(void *arg)
{
	struct http_listener *l = arg;
	if (l->transfer)
		refuse(l);
	else if (http_is_open(l->http))
		start(l);
}

void http_listener_open(struct http_listener *l)
{
	const struct http *h = l->http;
	if (!http_is_open(h) || h->mode != HTTP_MODE_STREAMABLE || h->modern || l->off || l->transfer ||
	    timer_is_set(l->timer))
		return;
	/* A `retry` of the stream before is kept (WHATWG: reconnection time). */
	int64_t retry = sse_parser_retry_ms(l->parser);
	int64_t due = l->ended_ms && retry > 0 ? l->ended_ms + retry : 0;
	if (due > loop_now_ms())
		timer_set(l->timer, due);
	else
		start(l);
}
