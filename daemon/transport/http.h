/*
 * The HTTP transport (contract H1 to H14): one implementation for Streamable HTTP of all revisions (2025-03-26 to
 * 2026-07-28) and for the HTTP+SSE of 2024-11-05.
 *
 * Who does what:
 * - The method's layer says what a request is: `handshake` for initialize and the era probe, `_meta` in params for
 *   modern requests. From the body the transport derives `MCP-Protocol-Version` and `Mcp-Method` of a modern request,
 *   the probe included; `Mcp-Name` and `Mcp-Param-*` come in options.headers.
 * - transport_set_protocol() after the handshake: legacy requests get `MCP-Protocol-Version` from then on; a modern
 *   server's session id is neither stored nor sent.
 * - An `initialize` that is refused with 400, 404 or 405, and not by a modern server's error, makes the transport
 *   fall back to HTTP+SSE by itself: it opens the stream and sends the same initialize to its endpoint. If there is
 *   no such endpoint, initialize fails with the first refusal. From then on the stream's end is the connection's end
 *   (on_close), as with `sse`.
 * - session_lost in a reply (R30): this transport is of no more use; close it and run the connect flow again with a
 *   new one. The request may be repeated only where `sent` is false. Requests made after the loss fail in the same
 *   way, unsent.
 * - The background listener's end is told by on_listener_end: 405 for good; 404 if the session is lost (as above);
 *   else it may be opened again with transport_listen(), which itself waits for the stream's `retry` and continues
 *   behind the last event that was seen.
 * - Giving a request up (cancel, timeout, close) closes its stream; nothing is sent (C5).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "loop/loop.h"
#include "proto/limits.h"
#include "transport/transport.h"

struct curl_loop;

struct http_options {
	const char *name;            /* the server's, for messages */
	const char *url;             /* may hold secrets: never shown */
	const char *shown_url;       /* for messages; NULL: url with userinfo and query masked */
	const char *const *headers;  /* "Name: value", NULL-terminated, or NULL; never shown */
	const char *ca_file;         /* PEM file to trust in place of the system's, or NULL */
	bool insecure;               /* do not check the server's certificate; warned about in the log */
	int64_t timeout_ms;          /* default for requests (C1) */
	int64_t connect_timeout_ms;  /* name, connection and TLS; with `sse` also until the endpoint is told */
	struct redactor *redactor;   /* or NULL; the transport's from here on */
	bool sse;                    /* type "sse": HTTP+SSE of 2024-11-05 from the start (H14) */
	const struct limits *limits; /* must outlive the transport */
};

/* Copies what it needs. Never NULL. */
struct transport *http_new(struct loop *loop, struct curl_loop *curl, const struct http_options *options,
			   const struct transport_callbacks *callbacks, void *arg);
