/*
 * The MCP client: one conversation with one server over one transport, in whichever era the server speaks.
 *
 * It decides the order of methods (contract L2), negotiates the era (mcp/era.h), gives every request its own progress
 * token, adds the per-request `_meta` of modern servers, sends the cancel messages that transports do not send (C5),
 * and keeps account of whose requests are in flight, so that a question of the server can be proven to belong to one
 * client (ARCHITECTURE "Sharing"). It never sees a descriptor. It never reconnects: a lost transport is the end of this
 * object (M4).
 *
 * Method and payload spans are JSON as written (method with its quotes). Completions come exactly once, never inside
 * the call that made them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "loop/loop.h"
#include "proto/limits.h"
#include "proto/span.h"
#include "transport/transport.h"

struct mcp_client;

enum mcp_era { MCP_ERA_UNKNOWN, MCP_ERA_LEGACY, MCP_ERA_MODERN };

struct mcp_client_options {
	const char *server;     /* name, for messages */
	enum mcp_era era_hint;  /* remembered outcome (mcp/era.h); UNKNOWN: probe. LEGACY: initialize at once. MODERN:
				   discover, initialize only if that fails */
	bool skip_probe;        /* a started-again server that could not stand the probe: initialize only */
	int64_t probe_grace_ms; /* how long the probe is alone before initialize is sent too: 1000 */
	int64_t handshake_timeout_ms; /* for initialize, from its sending */
	int64_t max_timeout_ms;       /* how far progress may extend a request's clock */
	/* Client capabilities told at the handshake (legacy), and with each of the daemon's own requests (modern), as
	 * JSON object text. Copied. */
	const char *capabilities;
	const char *client_info; /* who we are to the server, a JSON object text; NULL: mcpd and its version. Copied. */
	const struct limits *limits; /* must outlive the client */
};

/* What the handshake found. Texts live as long as the client. */
struct mcp_server_facts {
	enum mcp_era era;
	/* What to hint at next time. The era, but for a server that has answered the probe as a modern one and, started
	 * too slowly to be spared it, has been made a legacy one by initialize (mcp/handshake.h): MODERN. */
	enum mcp_era remembered_era;
	const char *protocol_version;
	struct span server_info;  /* JSON object, verbatim, or absent */
	struct span capabilities; /* JSON object, verbatim, or absent */
	struct span instructions; /* JSON string, verbatim, or absent */
	bool has_tools, has_resources, has_prompts, has_logging, has_completions, has_resource_subscribe;
	bool has_tasks; /* it may turn calls into tasks (2025-11-25, or the modern extension) */
};

/* Why a handshake failed: what the manager does next follows from it. */
enum mcp_failure_kind {
	MCP_FAIL_LOST,         /* the transport closed or would not connect: may pass */
	MCP_FAIL_RETRY_LEGACY, /* the server exited on the probe, or let initialize time out after it: start it again
				  with skip_probe */
	MCP_FAIL_REFUSED,      /* an error answer, an unsupported version (named), a broken answer: may pass */
	MCP_FAIL_TIMEOUT,
	MCP_FAIL_NEEDS_AUTH,
	MCP_FAIL_PERMANENT, /* the command cannot be executed: failed at once (M5) */
};

struct mcp_failure {
	enum mcp_failure_kind kind;
	const char *message;                 /* for people, naming the server */
	const struct transport_reply *reply; /* where there was one; else NULL */
	bool hint_failed;                    /* the remembered era did not work: forget it */
};

/* How far it is proven whose call a server's question belongs to. */
enum mcp_proof {
	MCP_PROOF_NONE, /* requests of several owners, the daemon among them, are in flight (tombstones included; pings
			   of the daemon's do not count) */
	MCP_PROOF_NO_CALL, /* no client's request is in flight, at most the daemon's own */
	MCP_PROOF_STREAM,  /* it came on that request's own response stream, or as its input-required result */
	MCP_PROOF_TASK, /* it names a live task that came of a call of this owner, or is coming of one; `call` is 0 */
	MCP_PROOF_SOLE_OWNER, /* every request in flight and every live task is of this owner; `call` is 0 where it has
				 several */
};

struct mcp_client_callbacks {
	/* The handshake's end: NULL, or why it failed. Once, unless mcp_client_close() comes first. */
	void (*on_ready)(void *arg, const struct mcp_failure *failure);
	/* The transport is gone; every call has completed. Exactly once, also after mcp_client_close(). */
	void (*on_closed)(void *arg, const char *reason);
	/* Everything the server notifies but progress, cancellations (see on_request_cancelled), and what a modern
	 * server says to a subscription that is no more. May come before on_ready. */
	void (*on_notification)(void *arg, struct span method, struct span params);
	/* A question to a client: roots/list, sampling/createMessage, elicitation/create (S5; ping and unknown methods
	 * are answered here). `number` is for mcp_client_answer(), which may be called inside. `owner` and `call` are
	 * set as the proof allows, else 0. */
	void (*on_request)(void *arg, uint64_t number, struct span method, struct span params, enum mcp_proof proof,
			   uint64_t owner, uint64_t call);
	/* Progress of a call that has become a task and has been answered with it. id: the task's, a JSON string; in
	 * the params is the call's token, which is ours. May be NULL. */
	void (*on_task_progress)(void *arg, struct span id, struct span params);
	/* A question is void: the server withdrew it, the call whose input it was has ended, or the connection has.
	 * reason: a JSON string, or absent. */
	void (*on_request_cancelled)(void *arg, uint64_t number, struct span reason);
	void (*on_log)(void *arg, struct span text, bool noise);
	void (*on_error)(void *arg, const char *message);
	/* HTTP's background listener has ended; the manager reopens it (H11). */
	void (*on_listener_end)(void *arg, int http_status, const char *message);
};

struct mcp_client *mcp_client_new(struct loop *loop, const struct mcp_client_options *options,
				  const struct mcp_client_callbacks *callbacks, void *arg);
/* What to hand to stdio_new() or http_new(), with the client as arg. */
const struct transport_callbacks *mcp_client_transport_callbacks(void);
/* Takes the transport (freed with the client), connects it and runs the handshake. A handshake that fails also closes
 * the transport: on_closed follows on_ready. */
void mcp_client_start(struct mcp_client *client, struct transport *transport);
/* HTTP, legacy: opens the background listener, once ready and again after on_listener_end (H11). Nothing for other
 * servers. */
void mcp_client_listen(struct mcp_client *client);
const struct mcp_server_facts *mcp_client_facts(const struct mcp_client *client); /* valid once ready */
pid_t mcp_client_pid(const struct mcp_client *client);
/* Whether tools with invalid `x-mcp-header` annotations may not be shown (modern over HTTP; mcp/http_headers.h).
 * listing.h sees to it. */
bool mcp_client_checks_tools(const struct mcp_client *client);
/* Requests of a modern server, which may not send any, dropped so far (S5). */
uint64_t mcp_client_dropped(const struct mcp_client *client);

struct mcp_call_options {
	uint64_t owner;     /* the client of mcpd that asks; 0: the daemon itself */
	int64_t timeout_ms; /* as in struct transport_options */
	int64_t deadline_ms;
	bool want_progress; /* ask for progress with a token of our own; also extends the clock */
	/* The asker's client capabilities (modern servers: per-request _meta); absent: none, or with owner 0 the
	 * daemon's own. What they declare, the server may ask for: it comes as on_request with MCP_PROOF_STREAM. */
	struct span capabilities;
	bool relay_input_required; /* hand input-required results to the asker, who repeats the call itself, instead of
				      asking through on_request */
	struct span log_level;     /* JSON string for modern servers' per-request logLevel, or absent */
	/* modern HTTP: the tool's inputSchema for Mcp-Param-* headers, or absent */
	struct span input_schema;
	transport_done_fn *done;
	/* params of a notifications/progress; the progressToken in it is ours: replace it. Never after done. May be
	 * NULL. */
	void (*progress)(void *arg, struct span params);
	void *arg;
};

/* params is what the asker gave (an object, or absent); a progressToken in it is replaced or removed, and so are the
 * members of `_meta` that speak for a client (protocol version, client info, capabilities, log level, subscription id).
 * Never 0. Beside a transport's codes a call may complete with MCPD_E_INVALID_PARAMS (params or its `_meta` is no
 * object) and MCPD_E_INTERNAL (out of memory). A modern server's input-required result that nobody may answer completes
 * it with MCPD_E_PROTOCOL; one whose question the asker refused with MCPD_E_SERVER, `error` being the refusal. */
uint64_t mcp_client_call(struct mcp_client *client, struct span method, struct span params,
			 const struct mcp_call_options *options);
/* The call completes with MCPD_E_CANCELLED; the server is told (C5). A task that a call has become is for its owner to
 * cancel, with tasks/cancel. */
void mcp_client_cancel(struct mcp_client *client, uint64_t call, const char *reason);
/* The subscriptions/listen call that a modern server's notification with these params belongs to; 0: none that is open. */
uint64_t mcp_client_subscription(const struct mcp_client *client, struct span params);
void mcp_client_notify(struct mcp_client *client, struct span method, struct span params);
/* Answers a question, once; unknown numbers are ignored. Exactly one of result and error is present (JSON texts,
 * copied). */
void mcp_client_answer(struct mcp_client *client, uint64_t number, struct span result, struct span error);
/* Calls in flight for an owner (0: all), tombstones not counted. */
unsigned mcp_client_in_flight(const struct mcp_client *client, uint64_t owner);
/* Closes the transport; on_closed follows, never inside. Idempotent. */
void mcp_client_close(struct mcp_client *client);
/* After on_closed, or before start; safe inside on_closed. Takes NULL. */
void mcp_client_free(struct mcp_client *client);
