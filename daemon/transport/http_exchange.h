/*
 * One POST and what comes of it: a request with its answer, as JSON or as a stream that may be resumed; a
 * notification; an answer to a server's request. For transport/http*.c only: http_request.c sends, http_response.c
 * reads, this is the object they share and how it ends.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/buf.h"
#include "proto/span.h"
#include "transport/http_reply.h"
#include "transport/pending.h"
#include "transport/transport.h"

struct http;
struct jsonrpc_message;
struct sse_parser;
struct timer;

enum exchange_kind { EXCHANGE_REQUEST, EXCHANGE_NOTIFY, EXCHANGE_RESPOND };

enum exchange_state {
	EXCHANGE_WAITING,  /* for the response's head */
	EXCHANGE_JSON,     /* the body of an answer */
	EXCHANGE_EVENTS,   /* a stream */
	EXCHANGE_REFUSED,  /* the body of an error */
	EXCHANGE_RESUMING, /* waits before the GET */
	EXCHANGE_FALLBACK, /* waits for the endpoint of HTTP+SSE */
	EXCHANGE_DRAINING, /* answered; waits for the end of the response */
};

struct exchange {
	struct http *http;
	struct exchange *next, **link;
	enum exchange_kind kind;
	enum exchange_state state;
	uint64_t number; /* at pending; 0: none, or completed */
	struct transfer *transfer;
	struct timer *timer; /* what it means depends on the state */
	bool dead;
	bool modern; /* the request is one of the modern era */
	bool initialize;
	bool had_session;
	bool streaming;     /* its SSE response has begun */
	bool resumed;       /* the transfer is a GET that resumes the stream */
	struct buf request; /* kept for the fallback only */
	struct buf body;    /* of the response */
	size_t counted;     /* of http.buffered */
	size_t drained;
	struct sse_parser *parser;
	char *resume_id; /* the last event id when the stream ended */
	unsigned resumes, resumes_in_vain;
	struct http_error error;
};

struct exchange *exchange_new(struct http *h, enum exchange_kind kind);
/* Stops everything; the memory stays until the pass is over, so that what it holds may still be told. */
void exchange_end(struct exchange *x);
/* Lets the response come to its end, so that the connection can be used again, if that does not take long. */
void exchange_drain(struct exchange *x);
/* Ends those that belong to no operation in flight: answers under way, streams that are drained. */
void exchange_end_detached(struct http *h);
/* The hook of pending: stops it, and says how far it came. NULL: its POST is over (H14). */
enum pending_phase exchange_give_up(struct exchange *x);

/* Completes the operation: to be the last statement, since the completion may do anything. */
void exchange_complete(struct exchange *x, const struct transport_reply *reply, bool may_drain);
/* Takes the message. */
void exchange_fail(struct exchange *x, int code, bool sent, char *message);
void exchange_fail_as_refused(struct exchange *x);
void exchange_fail_no_response(struct exchange *x); /* H4 */
void exchange_fail_no_memory(struct exchange *x);
void exchange_fail_too_long(struct exchange *x);
/* A RESULT or ERROR. http_status: what it came with, if that was no success. */
void exchange_answer(struct exchange *x, const struct jsonrpc_message *message, int http_status);

/* HTTP+SSE: an answer on the stream, and one that cannot be read (copies the message) or was too long to be. */
void exchange_answer_apart(struct http *h, const struct jsonrpc_message *message);
void exchange_fail_apart(struct http *h, uint64_t number, const char *message);
void exchange_too_long_apart(struct http *h, uint64_t number);
