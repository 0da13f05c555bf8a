#include "transport/http_request.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "proto/http_header.h"
#include "proto/jsonrpc.h"
#include "transport/http_exchange.h"
#include "transport/http_internal.h"
#include "transport/http_response.h"
#include "xalloc.h"

/* How long an answer to a server's request may take to be accepted, where the transport has no timeout. */
#define RESPOND_MS 30000

/* Takes the lines. */
static void post(struct exchange *x, char **lines, struct span body, bool with_session)
{
	struct http *h = x->http;
	x->state = EXCHANGE_WAITING;
	x->had_session = with_session && h->session;
	x->transfer = http_transfer(h, "POST", h->mode == HTTP_MODE_SSE ? h->sse.endpoint : h->url, lines, body,
				    &http_response_callbacks, x);
}

static size_t unsent_bytes(const struct http *h)
{
	size_t n = 0;
	for (const struct exchange *x = h->exchanges; x; x = x->next)
		n += x->transfer ? transfer_unsent(x->transfer) : 0;
	return n;
}

static bool refuse(struct http *h, uint64_t number, int code, enum mcpd_limit limit, char *message)
{
	pending_fail(h->pending, number,
		     &(struct transport_reply){ .code = code, .limit = (int)limit, .message = message });
	free(message);
	return true;
}

/* Whether something keeps an operation from being sent; then its failure is due. */
static bool is_refused(struct http *h, uint64_t number, bool handshake, const struct buf *body)
{
	int64_t queue = http_limit(h, LIMIT_SERVER_QUEUE), streams = http_limit(h, LIMIT_HTTP_STREAMS);
	size_t unsent = unsent_bytes(h);
	if (!http_is_open(h))
		return refuse(h, number, MCPD_E_TRANSPORT, 0, xstrdup("Transport not connected"));
	if (buf_failed(body))
		return refuse(h, number, MCPD_E_TRANSPORT, 0, xstrdup("out of memory for the request"));
	if (h->n_asking >= streams)
		return refuse(h, number, MCPD_E_LIMIT, LIMIT_HTTP_STREAMS,
			      xasprintf("maxHttpStreams: %" PRId64 " requests to this server are under way", streams));
	/* One of whatever size may always go. */
	if (unsent > 0 && unsent + body->len > (size_t)queue)
		return refuse(
			h, number, MCPD_E_LIMIT, LIMIT_SERVER_QUEUE,
			xasprintf("serverQueueBytes: %" PRId64 " bytes are waiting to be sent to this server", queue));
	if (!h->lost_message || handshake)
		return false;
	/* R30: nothing goes out with a session that is gone. */
	pending_fail(h->pending, number,
		     &(struct transport_reply){ .code = MCPD_E_HTTP,
						.http_status = h->lost_status,
						.message = h->lost_message,
						.session_lost = true });
	return true;
}

/* The lines of a POST that carries a message. */
static char **message_lines(const struct http *h, bool modern, struct span method, struct span params,
			    const struct transport_options *options)
{
	struct buf version = BUF_INIT;
	struct span source = http_header_version_source(params);
	struct http_lines what = {
		.post = true,
		.session = !options->handshake && !modern,
		.version = options->handshake ? SPAN_NONE : span_of(h->version),
		.method = modern ? method : SPAN_NONE,
		.extra = options->headers,
	};
	if (source.ptr && http_header_add_json(&version, source) == 0)
		what.version = buf_span(&version);
	char **lines = http_lines_make(h, &what);
	buf_done(&version);
	return lines;
}

static uint64_t send_message(struct http *h, enum exchange_kind kind, struct span method, struct span params,
			     const struct transport_options *options)
{
	struct buf body = BUF_INIT;
	uint64_t number = pending_add(h->pending, kind == EXCHANGE_REQUEST ? PENDING_REQUEST : PENDING_NOTIFY, options);
	if (kind == EXCHANGE_REQUEST)
		jsonrpc_write_request(&body, pending_wire_id(h->pending, number), method, params);
	else
		jsonrpc_write_notification(&body, method, params);
	if (is_refused(h, number, options->handshake, &body))
		goto out;
	bool modern = http_header_version_source(params).ptr || h->modern;
	char **lines = message_lines(h, modern, method, params, options);
	if (!lines) {
		refuse(h, number, MCPD_E_TRANSPORT, 0, xstrdup("out of memory for the request"));
		goto out;
	}
	buf_truncate(&body, body.len - 1); /* the newline */
	struct exchange *x = exchange_new(h, kind);
	x->number = number;
	x->modern = modern;
	x->initialize = options->handshake && json_string_is(method, "initialize");
	if (x->initialize)
		buf_add_span(&x->request, buf_span(&body));
	pending_set_data(h->pending, number, x);
	post(x, lines, buf_span(&body), !options->handshake && !modern);
out:
	buf_done(&body);
	return number;
}

uint64_t http_send_request(struct http *h, struct span method, struct span params,
			   const struct transport_options *options)
{
	return send_message(h, EXCHANGE_REQUEST, method, params, options);
}

uint64_t http_send_notify(struct http *h, struct span method, struct span params,
			  const struct transport_options *options)
{
	return send_message(h, EXCHANGE_NOTIFY, method, params, options);
}

int http_send_response(struct http *h, struct span id, struct span result, struct span error)
{
	struct buf body = BUF_INIT;
	if (!http_is_open(h))
		return -ENOTCONN;
	if (h->n_responding >= http_limit(h, LIMIT_HTTP_STREAMS) ||
	    unsent_bytes(h) > (size_t)http_limit(h, LIMIT_SERVER_QUEUE))
		return -ENOBUFS;
	if (result.ptr)
		jsonrpc_write_result(&body, id, result);
	else
		jsonrpc_write_error_object(&body, id, error);
	char **lines = http_lines_make(
		h, &(struct http_lines){ .post = true, .session = true, .version = span_of(h->version) });
	int r = lines ? body.error : -ENOMEM;
	if (r < 0) {
		http_lines_free(lines);
		buf_done(&body);
		return r;
	}
	buf_truncate(&body, body.len - 1);
	struct exchange *x = exchange_new(h, EXCHANGE_RESPOND);
	post(x, lines, buf_span(&body), true);
	timer_set(x->timer, loop_now_ms() + (h->timeout_ms > 0 ? h->timeout_ms : RESPOND_MS));
	buf_done(&body);
	return 0;
}

void http_fallback_over(struct exchange *x, bool opened)
{
	if (!opened) {
		exchange_fail_as_refused(x);
		return;
	}
	http_error_done(&x->error);
	buf_done(&x->body);
	char **lines = http_lines_make(x->http, &(struct http_lines){ .post = true });
	if (lines)
		post(x, lines, buf_span(&x->request), false);
	else
		exchange_fail_no_memory(x);
}
