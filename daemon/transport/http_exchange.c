#include "transport/http_exchange.h"

#include <inttypes.h>
#include <stdlib.h>

#include "proto/jsonrpc.h"
#include "transport/http_internal.h"
#include "transport/http_response.h"
#include "transport/sse_parser.h"
#include "xalloc.h"

/* -- life */

static void destroy(void *arg)
{
	struct exchange *x = arg;
	timer_free(x->timer);
	sse_parser_free(x->parser);
	buf_done(&x->request);
	buf_done(&x->body);
	http_error_done(&x->error);
	free(x->resume_id);
	free(x);
}

struct exchange *exchange_new(struct http *h, enum exchange_kind kind)
{
	struct exchange *x = xnew(struct exchange);
	x->http = h;
	x->kind = kind;
	x->timer = timer_new(h->loop, http_response_timer, x);
	x->next = h->exchanges;
	x->link = &h->exchanges;
	if (x->next)
		x->next->link = &x->next;
	h->exchanges = x;
	*(kind == EXCHANGE_RESPOND ? &h->n_responding : &h->n_asking) += 1;
	return x;
}

static void uncount(struct exchange *x)
{
	struct http *h = x->http;
	if (x->state == EXCHANGE_DRAINING)
		h->n_draining--;
	else
		*(x->kind == EXCHANGE_RESPOND ? &h->n_responding : &h->n_asking) -= 1;
	h->buffered -= x->counted;
	x->counted = 0;
}

void exchange_end(struct exchange *x)
{
	struct http *h = x->http;
	if (x->dead)
		return;
	x->dead = true;
	uncount(x);
	*x->link = x->next;
	if (x->next)
		x->next->link = x->link;
	if (h->sse.fallback == x)
		http_sse_forget(&h->sse);
	transfer_close(x->transfer);
	x->transfer = NULL;
	timer_cancel(x->timer);
	pending_set_data(h->pending, x->number, NULL);
	loop_bury(h->loop, x, destroy);
}

void exchange_drain(struct exchange *x)
{
	struct http *h = x->http;
	if (!x->transfer || !http_is_open(h) || h->n_draining >= HTTP_DRAINS_MAX) {
		exchange_end(x);
		return;
	}
	uncount(x);
	pending_set_data(h->pending, x->number, NULL);
	x->state = EXCHANGE_DRAINING;
	x->number = 0;
	h->n_draining++;
	timer_set(x->timer, loop_now_ms() + HTTP_DRAIN_MS);
}

enum pending_phase exchange_give_up(struct exchange *x)
{
	if (!x)
		return PENDING_SENT;
	enum pending_phase phase = PENDING_UNSENT;
	if (x->streaming)
		phase = PENDING_STREAMING;
	else if (x->transfer && transfer_sent(x->transfer))
		phase = PENDING_SENT;
	x->number = 0;
	exchange_end(x);
	return phase;
}

void exchange_end_detached(struct http *h)
{
	for (struct exchange *x = h->exchanges, *next; x; x = next) {
		next = x->next;
		if (!x->number)
			exchange_end(x);
	}
}

/* -- ends */

static void tell_unanswered(struct http *h, const char *why)
{
	char *message = xasprintf("an answer to a request of the server could not be given: %s", why);
	http_tell_error(h, message);
	free(message);
}

void exchange_complete(struct exchange *x, const struct transport_reply *reply, bool may_drain)
{
	struct http *h = x->http;
	uint64_t number = x->number;
	if (may_drain)
		exchange_drain(x);
	else
		exchange_end(x);
	if (number)
		pending_complete(h->pending, number, reply);
	else if (x->kind == EXCHANGE_RESPOND && reply->code != 0)
		tell_unanswered(h, reply->message);
}

void exchange_fail(struct exchange *x, int code, bool sent, char *message)
{
	exchange_complete(x, &(struct transport_reply){ .code = code, .sent = sent, .message = message }, false);
	free(message);
}

void exchange_fail_as_refused(struct exchange *x)
{
	struct transport_reply reply;
	http_error_reply(&x->error, &reply);
	exchange_complete(x, &reply, false);
}

void exchange_fail_no_response(struct exchange *x)
{
	struct span id = pending_wire_id(x->http->pending, x->number);
	char *message = id.len > 2 ?
				xasprintf("No response received for request ID %.*s", (int)(id.len - 2), id.ptr + 1) :
				xstrdup("No response received");
	exchange_fail(x, MCPD_E_PROTOCOL, true, message);
}

void exchange_fail_no_memory(struct exchange *x)
{
	exchange_fail(x, MCPD_E_TRANSPORT, true, xstrdup("out of memory for the response"));
}

static char *too_long_message(const struct http *h)
{
	return xasprintf("The response is longer than maxMessageBytes (%" PRId64 ")",
			 http_limit(h, LIMIT_MESSAGE_BYTES));
}

void exchange_fail_too_long(struct exchange *x)
{
	exchange_fail(x, MCPD_E_PROTOCOL, true, too_long_message(x->http));
}

static void reply_of(const struct http *h, const struct jsonrpc_message *message, struct transport_reply *reply,
		     char **ret_message)
{
	*ret_message = message->error.ptr ? transport_error_text(&h->base, message->error) : NULL;
	*reply = (struct transport_reply){ .sent = true };
	if (message->error.ptr) {
		reply->code = MCPD_E_SERVER;
		reply->error = message->error;
		reply->message = *ret_message;
	} else {
		reply->result = message->result;
	}
}

void exchange_answer(struct exchange *x, const struct jsonrpc_message *message, int http_status)
{
	struct transport_reply reply;
	char *text;
	reply_of(x->http, message, &reply, &text);
	reply.http_status = http_status;
	exchange_complete(x, &reply, x->state == EXCHANGE_EVENTS);
	free(text);
}

/* -- answers that come apart from the POST (H14) */

void exchange_answer_apart(struct http *h, const struct jsonrpc_message *message)
{
	uint64_t number = pending_match(h->pending, message->id);
	struct exchange *x = number ? pending_data(h->pending, number) : NULL;
	struct transport_reply reply;
	char *text;
	if (!number)
		return;
	if (x)
		exchange_drain(x); /* its POST is answered after the answer */
	reply_of(h, message, &reply, &text);
	pending_complete(h->pending, number, &reply);
	free(text);
}

void exchange_fail_apart(struct http *h, uint64_t number, const char *message)
{
	struct exchange *x = pending_data(h->pending, number);
	if (x)
		exchange_drain(x);
	pending_complete(h->pending, number,
			 &(struct transport_reply){ .code = MCPD_E_PROTOCOL, .sent = true, .message = message });
}

void exchange_too_long_apart(struct http *h, uint64_t number)
{
	char *message = too_long_message(h);
	exchange_fail_apart(h, number, message);
	free(message);
}
