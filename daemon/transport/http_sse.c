#include "transport/http_sse.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <curl/curl.h>

#include "config/config_mask.h"
#include "proto/errors.h"
#include "proto/jsonrpc.h"
#include "transport/http_exchange.h"
#include "transport/http_internal.h"
#include "transport/http_message.h"
#include "transport/http_reply.h"
#include "transport/http_request.h"
#include "xalloc.h"

/* How long a server that refused a POST may take to show that it is one of 2024-11-05. */
#define FALLBACK_MS 5000

static void on_timer(void *arg);

/* -- the endpoint */

static char *part(CURLU *url, CURLUPart what)
{
	char *text = NULL;
	return curl_url_get(url, what, &text, CURLU_DEFAULT_PORT) == CURLUE_OK ? text : NULL;
}

static bool same_part(CURLU *a, CURLU *b, CURLUPart what)
{
	char *x = part(a, what), *y = part(b, what);
	bool same = x && y && strcasecmp(x, y) == 0;
	curl_free(x);
	curl_free(y);
	return same;
}

static void copy_part(CURLU *to, CURLU *from, CURLUPart what)
{
	char *text = part(from, what);
	curl_url_set(to, what, text, 0);
	curl_free(text);
}

char *http_sse_resolve(const char *base, const char *endpoint)
{
	CURLU *from = curl_url(), *to = curl_url();
	char *resolved = NULL, *text = NULL;
	if (!from || !to || !endpoint[0] || curl_url_set(from, CURLUPART_URL, base, 0) != CURLUE_OK ||
	    curl_url_set(to, CURLUPART_URL, base, 0) != CURLUE_OK)
		goto out;
	/* On a handle that has a URL, another one is taken relative to it. */
	if (curl_url_set(to, CURLUPART_URL, endpoint, 0) != CURLUE_OK)
		goto out;
	if (!same_part(from, to, CURLUPART_SCHEME) || !same_part(from, to, CURLUPART_HOST) ||
	    !same_part(from, to, CURLUPART_PORT))
		goto out;
	copy_part(to, from, CURLUPART_USER);
	copy_part(to, from, CURLUPART_PASSWORD);
	curl_url_set(to, CURLUPART_FRAGMENT, NULL, 0);
	if (curl_url_get(to, CURLUPART_URL, &text, 0) == CURLUE_OK)
		resolved = xstrdup(text);
out:
	curl_free(text);
	curl_url_cleanup(from);
	curl_url_cleanup(to);
	return resolved;
}

/* -- opening */

void http_sse_init(struct http_sse *s, struct http *h)
{
	*s = (struct http_sse){ .http = h };
	s->timer = timer_new(h->loop, on_timer, s);
}

void http_sse_close(struct http_sse *s)
{
	timer_cancel(s->timer);
	transfer_close(s->transfer);
	s->transfer = NULL;
	s->fallback = NULL;
}

void http_sse_done(struct http_sse *s)
{
	http_sse_close(s);
	timer_free(s->timer);
	sse_parser_free(s->parser);
	buf_done(&s->refusal);
	free(s->endpoint);
}

void http_sse_forget(struct http_sse *s)
{
	if (s->fallback)
		http_sse_close(s);
}

/* There will be no endpoint. */
static void fail(struct http_sse *s, const struct transport_reply *why)
{
	struct exchange *fallback = s->fallback;
	http_sse_close(s);
	if (fallback)
		http_fallback_over(fallback, false);
	else
		http_connected(s->http, why);
}

/* Takes the message. */
static void fail_with(struct http_sse *s, int code, char *message)
{
	fail(s, &(struct transport_reply){ .code = code, .message = message, .http_status = s->status });
	free(message);
}

/* What only a change of the configuration can mend. */
static void fail_for_good(struct http_sse *s, char *message)
{
	fail(s, &(struct transport_reply){ .code = MCPD_E_TRANSPORT, .message = message, .permanent = true });
	free(message);
}

static bool is_refused(const struct http_sse *s)
{
	return s->status != 0 && (s->status < 200 || s->status > 299);
}

static void refuse(struct http_sse *s)
{
	struct http_error error;
	struct transport_reply reply;
	http_error_of(&error, s->http->base.redactor, s->transfer, buf_span(&s->refusal), false);
	http_error_reply(&error, &reply);
	fail(s, &reply);
	http_error_done(&error);
}

static void on_timer(void *arg)
{
	struct http_sse *s = arg;
	if (is_refused(s)) {
		refuse(s);
		return;
	}
	fail_with(s, MCPD_E_TIMEOUT,
		  xasprintf("%s: no \"endpoint\" event after %lldms", s->http->shown_url, (long long)s->patience_ms));
}

static void set_endpoint(struct http_sse *s, struct span data)
{
	struct http *h = s->http;
	char *told = xstrndup(data.ptr, data.len);
	s->endpoint = http_sse_resolve(h->url, told);
	if (!s->endpoint) {
		struct buf shown = BUF_INIT;
		mask_url(&shown, told);
		fail_with(s, MCPD_E_PROTOCOL,
			  xasprintf("%s: its endpoint \"%s\" is not of the same origin", h->shown_url,
				    shown.data ? shown.data : ""));
		buf_done(&shown);
		free(told);
		return;
	}
	free(told);
	struct exchange *fallback = s->fallback;
	timer_cancel(s->timer);
	s->fallback = NULL;
	h->mode = HTTP_MODE_SSE;
	if (fallback)
		http_fallback_over(fallback, true);
	else
		http_connected(h, NULL);
}

/* -- the stream's messages */

static void on_answer(void *arg, const struct jsonrpc_message *message)
{
	struct http_sse *s = arg;
	exchange_answer_apart(s->http, message);
}

static void on_malformed(void *arg, struct span text, char *message)
{
	struct http_sse *s = arg;
	struct span id;
	uint64_t number = jsonrpc_peek_answer(text, &id) ? pending_match(s->http->pending, id) : 0;
	if (number)
		exchange_fail_apart(s->http, number, message);
	else
		http_tell_error(s->http, message);
	free(message);
}

static void on_too_long(void *arg, struct span start)
{
	struct http_sse *s = arg;
	struct span id;
	uint64_t number = jsonrpc_peek_answer(start, &id) ? pending_match(s->http->pending, id) : 0;
	if (number)
		exchange_too_long_apart(s->http, number);
	else
		http_tell_error(s->http, "an event of the stream is longer than maxMessageBytes; it was skipped");
}

static void on_other(void *arg, const struct sse_event *event)
{
	struct http_sse *s = arg;
	if (!s->endpoint && span_is(event->type, "endpoint"))
		set_endpoint(s, event->data);
}

static bool has_ended(const void *arg)
{
	const struct http_sse *s = arg;
	return !s->transfer;
}

/* -- the transfer */

static void on_head(void *arg)
{
	struct http_sse *s = arg;
	s->status = transfer_status(s->transfer);
	if (is_refused(s) && s->fallback)
		refuse(s);
	else if (!is_refused(s) &&
		 !http_is_media_type(transfer_header(s->transfer, "Content-Type"), "text/event-stream"))
		fail_with(s, MCPD_E_PROTOCOL,
			  xasprintf("%s: the answer to GET is no event stream", s->http->shown_url));
}

static size_t on_data(void *arg, struct span bytes)
{
	struct http_sse *s = arg;
	const struct http_reader reader = {
		.answer = on_answer,
		.malformed = on_malformed,
		.too_long = on_too_long,
		.other = on_other,
		.ended = has_ended,
		.arg = s,
	};
	bool no_memory;
	if (is_refused(s)) {
		size_t room = (size_t)http_limit(s->http, LIMIT_HTTP_ERROR_BYTES) - s->refusal.len;
		buf_add(&s->refusal, bytes.ptr, bytes.len < room ? bytes.len : room);
		if (bytes.len >= room)
			refuse(s);
		return bytes.len;
	}
	size_t taken = http_read_events(s->http, s->parser, bytes, &reader, &no_memory);
	if (no_memory && s->endpoint)
		http_lost(s->http, xstrdup("out of memory for an event"));
	else if (no_memory)
		fail_with(s, MCPD_E_PROTOCOL, xstrdup("out of memory for an event"));
	return taken;
}

static void on_end(void *arg, const struct transfer_end *end)
{
	struct http_sse *s = arg;
	struct http *h = s->http;
	int code = MCPD_E_PROTOCOL;
	if (is_refused(s)) {
		refuse(s);
		return;
	}
	char *why = end->error == TRANSFER_OK ?
			    xasprintf("%s: the server ended the event stream", h->shown_url) :
			    http_transfer_message(h->shown_url, end, h->connect_timeout_ms, h->limits, &code);
	if (s->endpoint)
		http_lost(h, why);
	else if (end->error == TRANSFER_BAD_URL)
		fail_for_good(s, why);
	else
		fail_with(s, code, why);
}

void http_sse_open(struct http_sse *s, struct exchange *fallback)
{
	static const struct transfer_callbacks callbacks = { on_head, on_data, on_end };
	struct http *h = s->http;
	s->fallback = fallback;
	s->status = 0;
	buf_reset(&s->refusal);
	s->patience_ms = h->connect_timeout_ms > 0 ? h->connect_timeout_ms : FALLBACK_MS;
	if (fallback && s->patience_ms > FALLBACK_MS)
		s->patience_ms = FALLBACK_MS;
	timer_set(s->timer, loop_now_ms() + s->patience_ms);
	if (!s->parser)
		s->parser = sse_parser_new((size_t)http_limit(h, LIMIT_MESSAGE_BYTES));
	sse_parser_restart(s->parser);
	char **lines = http_lines_make(h, &(struct http_lines){ .post = false });
	s->transfer = http_transfer(h, "GET", h->url, lines, SPAN_NONE, &callbacks, s);
}
