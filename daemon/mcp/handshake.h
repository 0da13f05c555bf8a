/*
 * The opening of a conversation (contract L2): which era the server is of, and what it tells about itself.
 *
 *   hint UNKNOWN                 server/discover; initialize as soon as that is answered as only a legacy server does,
 *                                or after the grace with the probe still pending: the first success decides, the
 *                                loser is dropped without a word to the server (C5)
 *   hint LEGACY, or skip_probe   initialize alone
 *   hint MODERN                  server/discover alone; initialize if a legacy server answers it
 *
 * Both may succeed. A process that has been sent initialize speaks legacy from then on, whatever it answered to the
 * probe (MCP 2026-07-28, Versioning: an initialize request selects legacy semantics, scoped to the process; servers
 * made with the official SDK do so). So on stdio a probe that succeeds beside a pending initialize has to wait for that
 * one's end, at most another grace: if initialize succeeds too the conversation is a legacy one, and what is remembered
 * is that the server can do better when asked alone. Over HTTP each request stands for itself and nobody waits.
 *
 * Embedded in the MCP client, whose transport it uses; its requests may outlive its decision, so it is done only with
 * the transport.
 */
#pragma once

#include "mcp/facts.h"
#include "mcp/mcp_client.h"

/* NULL: the facts are set and the transport knows its version; or why not. Once, unless handshake_stop() is first. */
typedef void handshake_done_fn(void *arg, const struct mcp_failure *failure);

struct handshake_options {
	const char *server;
	enum mcp_era era_hint;
	bool skip_probe;
	int64_t probe_grace_ms, timeout_ms;
	struct span capabilities, client_info; /* JSON objects */
	handshake_done_fn *done;
	void (*note)(void *arg, const char *message); /* something odd that is no failure */
	void *arg;
};

enum handshake_phase {
	HANDSHAKE_IDLE,
	HANDSHAKE_RUNNING,
	HANDSHAKE_WON, /* initialize was answered, `initialized` is under way */
	HANDSHAKE_OVER,
};

/* One of the two opening requests. */
struct handshake_leg {
	uint64_t request; /* at the transport; 0: not sent */
	bool pending;
};

/* All texts and spans of options outlive it. */
struct handshake {
	struct handshake_options options;
	struct transport *transport;
	struct facts *facts;
	enum handshake_phase phase;
	struct handshake_leg probe, initialize;
	struct timer *timer; /* the probe's grace; later, what is left to the one leg when the other has ended */
	struct facts modern; /* what the probe has found, while initialize is pending */
	/* A leg has failed while the other is pending: what to say if that fails too. The probe's word is the better
	 * one. */
	enum mcp_failure_kind failed_kind;
	char *failed_message;
	bool failed_by_probe;
};

void handshake_init(struct handshake *h, struct loop *loop, const struct handshake_options *options,
		    struct facts *facts);
/* The transport is connected. */
void handshake_start(struct handshake *h, struct transport *transport);
/* The transport has closed, after all completions. */
void handshake_transport_closed(struct handshake *h, const char *reason);
/* Nothing is called back any more. */
void handshake_stop(struct handshake *h);
void handshake_done(struct handshake *h);
