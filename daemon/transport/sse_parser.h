/*
 * Event streams by the WHATWG rules ("Server-sent events", parsing and interpreting an event stream; contract H3):
 * bytes in, in pieces of any size, events out. LF, CR and CRLF end a line wherever the pieces were cut; a BOM at the
 * start is skipped; comments and unknown fields are ignored; several `data` lines are joined by LF.
 *
 * Memory is bounded by the longest event: what one event holds of data, type, id and the line being read never passes
 * max_bytes. An event that would is reported once, with the data it had so far, and skipped to its end; the stream
 * goes on.
 *
 * Bytes are not decoded: what is no UTF-8 comes out as it went in, and whoever reads the data refuses it.
 *
 * Without memory the stream cannot go on; what was delivered stays delivered, and the last event id is that of the last event
 * that was. sse_parser_restart() makes a fresh start.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/span.h"

struct sse_parser;

struct sse_event {
	struct span type; /* "message" where the stream named none */
	struct span data; /* may be empty: `data:` alone is an event */
};

enum sse_result {
	SSE_NEED_MORE,
	SSE_EVENT,
	SSE_TOO_LONG,  /* ret_event->data is what there was of it; its type may not have been seen yet */
	SSE_NO_MEMORY, /* the stream cannot go on; the same again until a restart */
};

/* NULL without memory. All functions below take that for a parser that finds none. */
struct sse_parser *sse_parser_new(size_t max_bytes);
void sse_parser_free(struct sse_parser *p);
/* Takes bytes from the front of *bytes until an event is complete. Spans are valid until the next call. */
enum sse_result sse_parser_next(struct sse_parser *p, struct span *bytes, struct sse_event *ret_event);
/* A new stream begins that continues the one before: an unfinished event is forgotten, the last event id and the
 * retry time stay. */
void sse_parser_restart(struct sse_parser *p);
/* Of the last event that was complete, one without data included. "" if there was none, or it was reset. Valid until
 * the next call. */
const char *sse_parser_last_id(const struct sse_parser *p);
/* The reconnection time the stream set, in milliseconds, or -1. */
int64_t sse_parser_retry_ms(const struct sse_parser *p);
/* How many bytes of memory the unfinished event takes. */
size_t sse_parser_buffered(const struct sse_parser *p);
