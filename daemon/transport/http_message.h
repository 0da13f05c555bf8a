/* Messages that came on an HTTP stream: notifications and requests are told, answers handed to whoever reads the
 * stream (contract H3). */
#pragma once

#include "proto/jsonrpc.h"
#include "transport/sse_parser.h"

struct http;

/* Who reads a stream. */
struct http_reader {
	uint64_t on_request; /* the request on whose own stream this is, or 0 */
	/* One answer of the server (RESULT or ERROR). */
	void (*answer)(void *arg, const struct jsonrpc_message *message);
	/* An event that is no JSON (H10); takes the message. */
	void (*malformed)(void *arg, struct span text, char *message);
	/* An event over maxMessageBytes; `start` is what there was of its data (S7a). */
	void (*too_long)(void *arg, struct span start);
	/* An event of another type than `message`, with data; NULL: ignored. */
	void (*other)(void *arg, const struct sse_event *event);
	/* Something of ours has ended the stream: nothing more is wanted of it. */
	bool (*ended)(const void *arg);
	void *arg;
};

/* Tells one message, or each of a batch where the peer's version has them. 0, or -EINVAL if it is no JSON. */
int http_message(struct http *h, struct span text, const struct http_reader *reader, struct json_error *ret_error);
/* Reads events, as many as one pass may tell, and returns how many bytes that took. *ret_no_memory: the stream cannot
 * go on. */
size_t http_read_events(struct http *h, struct sse_parser *parser, struct span bytes, const struct http_reader *reader,
			bool *ret_no_memory);
