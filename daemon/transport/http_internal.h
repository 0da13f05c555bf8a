/* What the files of the HTTP transport share; for transport/http*.c only. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "loop/loop.h"
#include "loop/transfer.h"
#include "proto/buf.h"
#include "proto/limits.h"
#include "proto/span.h"
#include "transport/http_listener.h"
#include "transport/http_sse.h"
#include "transport/pending.h"
#include "transport/transport.h"

struct curl_loop;
struct exchange;
struct http_error;

/* Messages of one stream told in one pass (PITFALLS "libevent": fairness). */
#define HTTP_EVENTS_PER_PASS 64
/* Before an event stream is opened again where it set no `retry`. */
#define HTTP_RETRY_MS 1000
/* An answered stream gets this long to end by itself, so that its connection can be used again. */
#define HTTP_DRAIN_MS 1000
#define HTTP_DRAIN_BYTES ((size_t)64 << 10)
#define HTTP_DRAINS_MAX 16

enum http_state {
	HTTP_NEW,
	HTTP_CONNECTING,
	HTTP_OPEN,
	HTTP_FAILED, /* connect() failed: waits for close */
	HTTP_CLOSING,
	HTTP_CLOSED,
};

enum http_mode { HTTP_MODE_STREAMABLE, HTTP_MODE_SSE };

struct http {
	struct transport base;
	struct loop *loop;
	struct curl_loop *curl;
	char *name, *url, *shown_url, *ca_file;
	char **headers;
	bool insecure;
	int64_t timeout_ms, connect_timeout_ms;
	const struct limits *limits;

	enum http_state state;
	enum http_mode mode;
	struct pending *pending;
	struct task *task;
	bool connect_due;

	char *session;      /* NULL: none */
	char *lost_message; /* not NULL: the session is lost, and how that was told */
	int lost_status;
	char *version;
	bool modern;
	bool batches; /* 2025-03-26: arrays are taken apart (S6) */

	struct exchange *exchanges;
	unsigned n_asking, n_responding, n_draining;
	size_t buffered; /* bytes of unfinished responses */
	struct transfer_traffic traffic;

	struct http_listener listener;
	struct http_sse sse;

	/* Closing. */
	struct transfer *farewell; /* the DELETE */
	struct timer *farewell_timer;
	bool failed_all;
	char *close_reason;
};

static inline int64_t http_limit(const struct http *h, enum mcpd_limit limit)
{
	return h->limits->value[limit];
}

static inline bool http_is_open(const struct http *h)
{
	return h->state == HTTP_OPEN;
}

/* The connection has come to its end by itself (H14). Takes the reason. */
void http_lost(struct http *h, char *reason);
/* connect() has come to its end (H14); NULL: it is open. */
void http_connected(struct http *h, const struct transport_reply *failure);
/* A reply said that the session is gone (R30). */
void http_session_gone(struct http *h, const struct http_error *error);
/* A failure that belongs to no request. */
void http_tell_error(struct http *h, const char *message);

/* What goes into a request's header lines. */
struct http_lines {
	bool post, session;
	struct span version;       /* value of MCP-Protocol-Version, or absent */
	struct span method;        /* JSON string, for Mcp-Method, or absent */
	const char *last_event_id; /* NULL or "": none */
	const char *const *extra;
};
/* NULL-terminated; free with http_lines_free(). NULL when memory is short. */
char **http_lines_make(const struct http *h, const struct http_lines *what);
void http_lines_free(char **lines);
/* Starts a transfer to the server with everything that its definition says. */
struct transfer *http_transfer(struct http *h, const char *method, const char *url, char **lines, struct span body,
			       const struct transfer_callbacks *callbacks, void *arg);
