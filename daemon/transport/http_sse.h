/*
 * HTTP+SSE of 2024-11-05 (contract H14): a GET whose first event, `endpoint`, says where to POST; all answers come on
 * that stream, and its end is the connection's end.
 */
#pragma once

#include <stdint.h>

#include "proto/buf.h"

struct exchange;
struct http;
struct sse_parser;
struct timer;
struct transfer;

struct http_sse {
	struct http *http;
	struct transfer *transfer; /* NULL: not open */
	struct sse_parser *parser;
	struct timer *timer; /* until the endpoint is told */
	int64_t patience_ms;
	int status;
	struct buf refusal;        /* body of a response that is no success */
	char *endpoint;            /* NULL: not told yet */
	struct exchange *fallback; /* the initialize that waits for it, or NULL: connect() does */
};

void http_sse_init(struct http_sse *s, struct http *h);
void http_sse_done(struct http_sse *s);
/* Opens the stream for connect(), which is told with http_connected(), or for an initialize, told with
 * http_fallback_over(). */
void http_sse_open(struct http_sse *s, struct exchange *fallback);
/* That initialize has been given up: no more fallback. */
void http_sse_forget(struct http_sse *s);
/* Ends it without a word. */
void http_sse_close(struct http_sse *s);

/* The endpoint's absolute URL: relative to `base` or absolute, of the same origin only; userinfo as in base. NULL if
 * it is not allowed. free() it. */
char *http_sse_resolve(const char *base, const char *endpoint);
