#include "transport/http_response.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "proto/framer.h"
#include "proto/jsonrpc.h"
#include "transport/http_exchange.h"
#include "transport/http_internal.h"
#include "transport/http_message.h"
#include "transport/http_reply.h"
#include "xalloc.h"

/* Attempts to resume a stream that bring nothing new, before it counts as ended (H4). */
#define RESUMES_IN_VAIN 5
/* Streams that are resumed again and again wait this much longer each time, whatever their `retry` says. */
#define RESUME_STEP_MS 20

static void resume_later(struct exchange *x);

/* -- memory of responses */

/* True if it went over the server's share; the exchange has ended then. */
static bool over_budget(struct exchange *x)
{
	struct http *h = x->http;
	size_t now = x->body.cap + (x->parser ? sse_parser_buffered(x->parser) : 0);
	h->buffered = h->buffered - x->counted + now;
	x->counted = now;
	if (h->buffered <= (size_t)http_limit(h, LIMIT_HTTP_BUFFER))
		return false;
	exchange_fail(x, MCPD_E_PROTOCOL, true,
		      xasprintf("The unfinished responses of this server are larger than httpBufferBytes (%" PRId64 ")",
				http_limit(h, LIMIT_HTTP_BUFFER)));
	return true;
}

static void wait_for_more(struct exchange *x)
{
	timer_set(x->timer, loop_now_ms() + http_limit(x->http, LIMIT_HTTP_IDLE));
}

/* -- JSON answers (H2) */

static bool is_mine(const struct exchange *x, const struct jsonrpc_message *message)
{
	/* An error without an id can only be meant for what the response belongs to. */
	bool anonymous = message->error.ptr && json_type_of(message->id) != JSON_STRING &&
			 json_type_of(message->id) != JSON_NUMBER;
	return anonymous || jsonrpc_ids_equal(message->id, pending_wire_id(x->http->pending, x->number));
}

static void on_answer(void *arg, const struct jsonrpc_message *message)
{
	struct exchange *x = arg;
	if (is_mine(x, message))
		exchange_answer(x, message, 0);
}

static void on_malformed(void *arg, struct span text, char *message)
{
	(void)text;
	exchange_fail(arg, MCPD_E_PROTOCOL, true, message);
}

static void on_too_long(void *arg, struct span start)
{
	(void)start;
	exchange_fail_too_long(arg);
}

static bool has_ended(const void *arg)
{
	const struct exchange *x = arg;
	return x->dead || x->state == EXCHANGE_DRAINING;
}

static struct http_reader reader_of(struct exchange *x)
{
	return (struct http_reader){
		.on_request = x->number,
		.answer = on_answer,
		.malformed = on_malformed,
		.too_long = on_too_long,
		.ended = has_ended,
		.arg = x,
	};
}

static void read_json(struct exchange *x)
{
	struct json_error error;
	struct jsonrpc_message message;
	struct http_reader reader = reader_of(x);
	struct span body = framer_clean(buf_span(&x->body));
	if (jsonrpc_parse_within(body, http_limit(x->http, LIMIT_NESTING), &message, &error) < 0) {
		exchange_fail(x, MCPD_E_PROTOCOL, true, http_parse_message("response", &error));
		return;
	}
	/* An error response without any id is no JSON-RPC, but its meaning is plain. */
	if (message.kind == JSONRPC_INVALID && !message.method.ptr && !message.id.ptr && !message.result.ptr &&
	    json_type_of(message.error) == JSON_OBJECT) {
		exchange_answer(x, &message, 0);
		return;
	}
	if (message.kind == JSONRPC_RESULT || message.kind == JSONRPC_ERROR)
		on_answer(x, &message);
	else
		http_message(x->http, body, &reader, NULL);
	if (!has_ended(x))
		exchange_fail_no_response(x);
}

/* -- refusals (H9) */

/* A modern server's error for this very request is its answer, though the status says it too (MCP 2026-07-28, "Error
 * Codes"). */
static bool is_modern_answer(struct exchange *x, struct jsonrpc_message *ret)
{
	return x->http->modern && x->modern && (x->error.status == 400 || x->error.status == 404) &&
	       jsonrpc_parse(buf_span(&x->error.body), ret, NULL) == 0 && ret->kind == JSONRPC_ERROR && is_mine(x, ret);
}

static bool may_fall_back(const struct exchange *x)
{
	int status = x->error.status;
	return x->initialize && !x->error.era_modern && x->http->mode == HTTP_MODE_STREAMABLE &&
	       (status == 400 || status == 404 || status == 405) && !x->http->sse.transfer && http_is_open(x->http);
}

static void finish_refusal(struct exchange *x)
{
	struct http *h = x->http;
	struct jsonrpc_message message;
	http_error_of(&x->error, x->http->base.redactor, x->transfer, buf_span(&x->body), x->had_session);
	transfer_close(x->transfer);
	x->transfer = NULL;
	timer_cancel(x->timer);
	if (x->error.session_lost)
		http_session_gone(h, &x->error);
	if (x->kind == EXCHANGE_REQUEST && is_modern_answer(x, &message)) {
		exchange_answer(x, &message, x->error.status);
	} else if (may_fall_back(x)) {
		x->state = EXCHANGE_FALLBACK;
		http_sse_open(&h->sse, x);
	} else {
		exchange_fail_as_refused(x);
	}
}

/* -- the transfer */

static void store_session(struct exchange *x)
{
	struct http *h = x->http;
	struct span id = transfer_header(x->transfer, "Mcp-Session-Id");
	int status = transfer_status(x->transfer);
	bool plain = id.len > 0;
	/* What is refused gives no session; a modern server has none (H5). */
	if (!id.ptr || x->modern || h->modern || status < 200 || status > 299 || h->mode != HTTP_MODE_STREAMABLE ||
	    h->lost_message)
		return;
	for (size_t i = 0; i < id.len; i++)
		plain = plain && id.ptr[i] > 0x20 && id.ptr[i] < 0x7f;
	if (!plain || (h->session && span_is(id, h->session)))
		return;
	free(h->session);
	h->session = xstrndup(id.ptr, id.len);
}

static void on_resumed_head(struct exchange *x, int status)
{
	bool passing = status == 409 || status == 429 || status >= 500;
	if (status >= 200 && status <= 299 &&
	    http_is_media_type(transfer_header(x->transfer, "Content-Type"), "text/event-stream"))
		x->state = EXCHANGE_EVENTS;
	else if (passing)
		resume_later(x);
	else
		exchange_fail_no_response(x);
}

static bool is_encoded(const struct exchange *x, struct span *ret_encoding)
{
	*ret_encoding = transfer_header(x->transfer, "Content-Encoding");
	return ret_encoding->len > 0 && !http_is_media_type(*ret_encoding, "identity");
}

static void on_success_head(struct exchange *x)
{
	struct span encoding;
	if (x->kind != EXCHANGE_REQUEST) {
		exchange_complete(x, &(struct transport_reply){ .result = SPAN_LIT("{}"), .sent = true }, true);
	} else if (x->http->mode == HTTP_MODE_SSE) {
		exchange_drain(x); /* the answer comes on the stream */
	} else if (is_encoded(x, &encoding)) {
		exchange_fail(x, MCPD_E_PROTOCOL, true,
			      xasprintf("The response has Content-Encoding %.*s, which was not asked for",
					(int)encoding.len, encoding.ptr));
	} else if (http_is_media_type(transfer_header(x->transfer, "Content-Type"), "text/event-stream")) {
		x->state = EXCHANGE_EVENTS;
		x->streaming = true;
		x->parser = sse_parser_new((size_t)http_limit(x->http, LIMIT_MESSAGE_BYTES));
	} else {
		x->state = EXCHANGE_JSON;
		buf_init(&x->body, (size_t)http_limit(x->http, LIMIT_MESSAGE_BYTES));
		wait_for_more(x);
	}
}

static void on_head(void *arg)
{
	struct exchange *x = arg;
	int status = transfer_status(x->transfer);
	if (x->resumed) {
		on_resumed_head(x, status);
		return;
	}
	store_session(x);
	if (status >= 200 && status <= 299) {
		on_success_head(x);
		return;
	}
	x->state = EXCHANGE_REFUSED;
	wait_for_more(x);
}

static size_t read_events(struct exchange *x, struct span bytes)
{
	struct http_reader reader = reader_of(x);
	bool no_memory;
	size_t taken = http_read_events(x->http, x->parser, bytes, &reader, &no_memory);
	if (has_ended(x))
		return bytes.len;
	if (no_memory)
		exchange_fail_no_memory(x);
	else
		over_budget(x);
	return taken;
}

static void add_json(struct exchange *x, struct span bytes)
{
	buf_add_span(&x->body, bytes);
	if (x->body.error == -E2BIG)
		exchange_fail_too_long(x);
	else if (buf_failed(&x->body))
		exchange_fail_no_memory(x);
	else if (!over_budget(x))
		wait_for_more(x);
}

static void add_refusal(struct exchange *x, struct span bytes)
{
	size_t room = (size_t)http_limit(x->http, LIMIT_HTTP_ERROR_BYTES) - x->body.len;
	buf_add(&x->body, bytes.ptr, bytes.len < room ? bytes.len : room);
	if (bytes.len >= room)
		finish_refusal(x);
	else
		wait_for_more(x);
}

static size_t on_data(void *arg, struct span bytes)
{
	struct exchange *x = arg;
	switch (x->state) {
	case EXCHANGE_EVENTS:
		return read_events(x, bytes);
	case EXCHANGE_JSON:
		add_json(x, bytes);
		break;
	case EXCHANGE_REFUSED:
		add_refusal(x, bytes);
		break;
	default:
		x->drained += bytes.len;
		if (x->drained > HTTP_DRAIN_BYTES)
			exchange_end(x);
	}
	return bytes.len;
}

static void fail_as_transferred(struct exchange *x, const struct transfer_end *end)
{
	struct http *h = x->http;
	int code;
	bool sent = transfer_sent(x->transfer) || end->error == TRANSFER_HEADER_BYTES ||
		    end->error == TRANSFER_HEADER_COUNT;
	char *message = http_transfer_message(h->shown_url, end, h->connect_timeout_ms, h->limits, &code);
	exchange_fail(x, code, sent, message);
}

static void on_end(void *arg, const struct transfer_end *end)
{
	struct exchange *x = arg;
	switch (x->state) {
	case EXCHANGE_DRAINING:
		exchange_end(x);
		break;
	case EXCHANGE_EVENTS:
		resume_later(x);
		break;
	case EXCHANGE_REFUSED:
		finish_refusal(x);
		break;
	case EXCHANGE_JSON:
		if (end->error == TRANSFER_OK) {
			read_json(x);
			break;
		}
		fail_as_transferred(x, end);
		break;
	default:
		if (x->resumed)
			resume_later(x);
		else
			fail_as_transferred(x, end);
	}
}

const struct transfer_callbacks http_response_callbacks = { on_head, on_data, on_end };

/* -- resuming a stream (H4a) */

static bool may_resume(const struct exchange *x)
{
	return !x->modern && !x->http->modern && x->http->mode == HTTP_MODE_STREAMABLE && http_is_open(x->http) &&
	       sse_parser_last_id(x->parser)[0] && x->resumes_in_vain < RESUMES_IN_VAIN;
}

/* The stream, or an attempt to resume it, has ended without the answer. */
static void resume_later(struct exchange *x)
{
	const char *id = sse_parser_last_id(x->parser);
	transfer_close(x->transfer);
	x->transfer = NULL;
	if (x->resume_id && strcmp(x->resume_id, id) == 0)
		x->resumes_in_vain++;
	else
		x->resumes_in_vain = 0;
	if (!may_resume(x)) {
		exchange_fail_no_response(x);
		return;
	}
	free(x->resume_id);
	x->resume_id = xstrdup(id);
	int64_t wait = sse_parser_retry_ms(x->parser) >= 0 ? sse_parser_retry_ms(x->parser) : HTTP_RETRY_MS;
	int64_t least = RESUME_STEP_MS * (int64_t)x->resumes;
	if (least > HTTP_RETRY_MS)
		least = HTTP_RETRY_MS;
	x->state = EXCHANGE_RESUMING;
	timer_set(x->timer, loop_now_ms() + (wait > least ? wait : least));
}

static void resume(struct exchange *x)
{
	struct http *h = x->http;
	x->state = EXCHANGE_WAITING;
	x->resumed = true;
	x->resumes++;
	sse_parser_restart(x->parser);
	char **lines = http_lines_make(h, &(struct http_lines){
						  .session = true,
						  .version = span_of(h->version),
						  .last_event_id = x->resume_id,
					  });
	x->transfer = http_transfer(h, "GET", h->url, lines, SPAN_NONE, &http_response_callbacks, x);
}

void http_response_timer(void *arg)
{
	struct exchange *x = arg;
	struct http *h = x->http;
	switch (x->state) {
	case EXCHANGE_WAITING: /* an answer of ours that the server does not take */
		exchange_fail(x, MCPD_E_TIMEOUT, true, xstrdup("timeout"));
		break;
	case EXCHANGE_JSON:
		exchange_fail(x, MCPD_E_PROTOCOL, true,
			      xasprintf("The response stopped in the middle: nothing came for %" PRId64
					"ms (httpIdleMs)",
					http_limit(h, LIMIT_HTTP_IDLE)));
		break;
	case EXCHANGE_REFUSED:
		finish_refusal(x);
		break;
	case EXCHANGE_RESUMING:
		resume(x);
		break;
	default:
		exchange_end(x);
	}
}
