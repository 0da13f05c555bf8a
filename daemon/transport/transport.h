/*
 * The transport interface (contract L3): what stdio and HTTP both offer to the MCP client above.
 *
 * A transport carries JSON-RPC to one server. It owns framing, the peer's process or transfers, request ids (contract
 * I1), the timeout clocks and teardown. `method` spans are JSON strings as written, quotes included, in both
 * directions. It knows no MCP method order. It never reconnects, retries or sends anything on its own (S11, H12, C5).
 *
 * Completions: each request and notify completes exactly once, never inside the call that made it, also when that
 * failed at once. Callbacks may call back into the transport, transport_close() included. After transport_close() every
 * pending operation completes with `Transport closed`, then on_close comes exactly once, and nothing after it.
 * transport_free() is for after on_close (or before connect); it is safe inside on_close.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/errors.h"
#include "proto/span.h"

struct transport;

/* What became of a request. Spans and texts are valid during the completion only. */
struct transport_reply {
	/* 0: result is set; else an enum mcpd_error: TRANSPORT, TIMEOUT, CANCELLED, SERVER, HTTP, PROTOCOL, LIMIT,
	 * NEEDS_AUTH */
	int code;
	struct span result;  /* JSON, verbatim (empty object text for a completed notify) */
	struct span error;   /* MCPD_E_SERVER: the server's error object, verbatim */
	const char *message; /* for people, in the contract's words; NULL when code is 0 */
	bool sent;           /* the request may have reached the server (PROTOCOL "maybeExecuted") */
	int limit;           /* MCPD_E_LIMIT: enum mcpd_limit */
	/* MCPD_E_TIMEOUT: the clock that ran out; max_timeout_ms 0 if progress never extended it */
	int64_t timeout_ms, max_timeout_ms;
	bool permanent; /* of connect(): trying again will fail the same way (S8: the command cannot be executed) */
	/* MCPD_E_HTTP and MCPD_E_NEEDS_AUTH */
	int http_status;
	struct span http_body;
	const char *www_authenticate, *mcp_auth_server; /* NULL if absent */
	bool session_lost;     /* HTTP: the server refused for want of a session, before running anything (R30) */
	bool era_modern_error; /* HTTP: a refusal that only a 2026-07-28 server gives */
};

typedef void transport_done_fn(void *arg, const struct transport_reply *reply);

struct transport_options {
	int64_t timeout_ms;     /* -1: the transport's default (C1); 0: none. What the message will say */
	int64_t deadline_ms;    /* on loop_now_ms(); 0: now + timeout_ms. For a request that has waited already */
	int64_t max_timeout_ms; /* how far transport_touch() may move the deadline, from now; 0: not at all */
	bool handshake;         /* initialize or the era probe: carries no session, no protocol version header (H5) */
	/* HTTP, modern: what the standard headers say beside the method (Mcp-Name, Mcp-Param-*); NULL-terminated
	 * list of full header lines or NULL. Copied. */
	const char *const *headers;
	transport_done_fn *done; /* NULL: nobody cares */
	void *arg;
};

struct transport_callbacks {
	/* connect() has come to its end: NULL, or the reason; on_close then follows by itself. Once, but not after
	 * transport_close(). */
	void (*on_connect)(void *arg, const struct transport_reply *failure);
	/* Exactly once, after every completion (S9, S10). reason for people: "exit status 1; last stderr lines:
	 * ...", NULL if closed by us. */
	void (*on_close)(void *arg, const char *reason);
	/* A failure that belongs to no request (S7, H10). */
	void (*on_error)(void *arg, const char *message);
	void (*on_notification)(void *arg, struct span method, struct span params);
	/* A request of the server (S5): answer with transport_respond(). `on_request_id`: the request of ours on
	 * whose own response stream it came (HTTP), 0 if that cannot be known (stdio, background stream): the proof
	 * of attribution. */
	void (*on_request)(void *arg, struct span id, struct span method, struct span params, uint64_t on_request_id);
	/* A late answer for a request that had been given up (C2): the tombstone's end. May be NULL. */
	void (*on_late_answer)(void *arg, uint64_t request);
	/* One line of the server's stderr, or of noise on its stdout (S13, R14: `noise`); may be NULL. */
	void (*on_log)(void *arg, struct span text, bool noise);
	/* HTTP: the background listener that transport_listen() opened has ended, or could not be opened: its HTTP
	 * status (405: switched off by the server; 0: none came) and a message for people. Not after
	 * transport_close(). May be NULL. */
	void (*on_listener_end)(void *arg, int http_status, const char *message);
};

/* Bytes of messages, from the start: lines of stdin and stdout, bodies of HTTP; unsent: those now queued. */
struct transport_traffic {
	uint64_t received, sent, unsent;
};

enum transport_kind { TRANSPORT_STDIO, TRANSPORT_HTTP };

/* A transport is made by stdio_new() or http_new() with its callbacks and their arg. */
void transport_connect(struct transport *t);
bool transport_is_connected(const struct transport *t);
/* Spans are copied. A number for transport_cancel()/touch(), never 0, unique for the transport's life. */
uint64_t transport_request(struct transport *t, struct span method, struct span params,
			   const struct transport_options *options);
uint64_t transport_notify(struct transport *t, struct span method, struct span params,
			  const struct transport_options *options);
/* Completes with MCPD_E_CANCELLED and the reason (C4). Unknown or finished: nothing. */
void transport_cancel(struct transport *t, uint64_t request, const char *reason);
/* Progress came: the request's clock starts anew, up to its max_timeout_ms (R31). */
void transport_touch(struct transport *t, uint64_t request);
/* The id by which the server knows a request (JSON, quotes included), for notifications/cancelled; also valid inside
 * its completion. Absent if unknown. */
struct span transport_wire_id(const struct transport *t, uint64_t request);
/* Exactly one of result and error is present. 0 or a negative errno. */
int transport_respond(struct transport *t, struct span id, struct span result, struct span error);
/* After the handshake: HTTP needs the version for its headers, and starts sending per-era headers; stdio uses it to
 * take batches apart for 2025-03-26 only (S6). */
void transport_set_protocol(struct transport *t, const char *version, bool modern);
/* HTTP, legacy: opens the background listener (H11); stdio: nothing. Its end is told by on_listener_end. */
void transport_listen(struct transport *t);
enum transport_kind transport_kind_of(const struct transport *t);
pid_t transport_pid(const struct transport *t); /* 0 if there is no process */
/* Also after on_close, until transport_free(). */
void transport_get_traffic(const struct transport *t, struct transport_traffic *ret);
void transport_close(struct transport *t);
void transport_free(struct transport *t);

/* For implementations: `MCP error <code>: <message>` for a JSON-RPC error object. free() it. */
char *transport_error_text(const struct transport *t, struct span error);

/* What an implementation provides; the generic functions above dispatch to it. */
struct transport_ops {
	enum transport_kind kind;
	void (*connect)(struct transport *t);
	bool (*is_connected)(const struct transport *t);
	uint64_t (*request)(struct transport *t, struct span method, struct span params,
			    const struct transport_options *options);
	uint64_t (*notify)(struct transport *t, struct span method, struct span params,
			   const struct transport_options *options);
	void (*cancel)(struct transport *t, uint64_t request, const char *reason);
	void (*touch)(struct transport *t, uint64_t request);
	struct span (*wire_id)(const struct transport *t, uint64_t request);
	int (*respond)(struct transport *t, struct span id, struct span result, struct span error);
	void (*set_protocol)(struct transport *t, const char *version, bool modern);
	void (*listen)(struct transport *t);
	pid_t (*pid)(const struct transport *t);
	void (*get_traffic)(const struct transport *t, struct transport_traffic *ret);
	void (*close)(struct transport *t);
	void (*free)(struct transport *t);
};

/* The first member of every implementation's struct. */
struct transport {
	const struct transport_ops *ops;
	struct redactor *redactor; /* for what the server says beside its payloads; or NULL */
	struct transport_callbacks callbacks;
	void *arg;
};
