/* The background listener: a GET for what a legacy server sends unasked (contract H10, H11, R33). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/buf.h"

struct http;
struct sse_parser;
struct timer;
struct transfer;

struct http_listener {
	struct http *http;
	struct transfer *transfer; /* NULL: not open */
	struct sse_parser *parser; /* kept from one stream to the next: knows the last event id and `retry` */
	struct timer *timer;       /* waits for `retry`, or for the rest of a refusal */
	struct buf refusal;        /* its body */
	int64_t ended_ms;          /* when the last stream ended */
	int status;
	bool off;         /* the server has none (405) */
	bool had_session; /* the GET carried one */
};

void http_listener_init(struct http_listener *l, struct http *h);
void http_listener_done(struct http_listener *l);
/* Opens it, if it is not open and the server has one. */
void http_listener_open(struct http_listener *l);
/* Ends it without a word. */
void http_listener_close(struct http_listener *l);
