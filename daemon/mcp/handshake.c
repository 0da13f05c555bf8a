#include "mcp/handshake.h"

#include <stdlib.h>

#include "mcp/era.h"
#include "proto/jsonrpc.h"
#include "xalloc.h"

static void on_timer(void *arg);
static void on_initialize(void *arg, const struct transport_reply *reply);

void handshake_init(struct handshake *h, struct loop *loop, const struct handshake_options *options,
		    struct facts *facts)
{
	*h = (struct handshake){ .options = *options, .facts = facts };
	h->timer = timer_new(loop, on_timer, h);
}

void handshake_done(struct handshake *h)
{
	timer_free(h->timer);
	h->timer = NULL;
	facts_done(&h->modern);
	free(h->failed_message);
	h->failed_message = NULL;
}

void handshake_stop(struct handshake *h)
{
	h->phase = HANDSHAKE_OVER;
	timer_cancel(h->timer);
}

static void drop_leg(struct handshake *h, struct handshake_leg *leg)
{
	if (leg->pending)
		transport_cancel(h->transport, leg->request, "the era is decided");
}

/* A remembered era that led nowhere is to be forgotten, unless the server was not even reached. */
static bool hint_is_wrong(const struct handshake *h, enum mcp_failure_kind kind, const struct transport_reply *reply)
{
	if (h->options.era_hint == MCP_ERA_UNKNOWN)
		return false;
	if (kind == MCP_FAIL_LOST)
		return !reply || reply->sent;
	return kind == MCP_FAIL_REFUSED || kind == MCP_FAIL_TIMEOUT;
}

static void fail(struct handshake *h, enum mcp_failure_kind kind, const char *message,
		 const struct transport_reply *reply)
{
	struct mcp_failure failure = {
		.kind = kind,
		.message = message,
		.reply = reply,
		.hint_failed = hint_is_wrong(h, kind, reply),
	};
	handshake_stop(h);
	drop_leg(h, &h->probe);
	drop_leg(h, &h->initialize);
	h->options.done(h->options.arg, &failure);
}

static void fail_as_remembered(struct handshake *h)
{
	fail(h, h->failed_kind, h->failed_message, NULL);
}

static void remember_failure(struct handshake *h, enum mcp_failure_kind kind, const char *message)
{
	if (h->failed_message)
		return;
	h->failed_kind = kind;
	h->failed_message = xstrdup(message);
}

static void succeed(struct handshake *h)
{
	handshake_stop(h);
	h->options.done(h->options.arg, NULL);
}

static enum mcp_failure_kind failure_kind(enum era_verdict verdict)
{
	switch (verdict) {
	case ERA_NEEDS_AUTH:
		return MCP_FAIL_NEEDS_AUTH;
	case ERA_LOST:
		return MCP_FAIL_LOST;
	case ERA_TIMEOUT:
		return MCP_FAIL_TIMEOUT;
	default:
		return MCP_FAIL_REFUSED;
	}
}

static void send_leg(struct handshake *h, struct handshake_leg *leg, struct span method, struct span params,
		     int64_t timeout_ms, transport_done_fn *done)
{
	struct transport_options options = {
		.timeout_ms = timeout_ms,
		.handshake = true,
		.done = done,
		.arg = h,
	};
	leg->pending = true;
	leg->request = transport_request(h->transport, method, params, &options);
}

static void send_initialize(struct handshake *h)
{
	struct buf params;
	buf_init(&params, 0);
	era_write_initialize_params(&params, h->options.capabilities, h->options.client_info);
	send_leg(h, &h->initialize, JSONRPC_METHOD("initialize"), buf_span(&params), h->options.timeout_ms,
		 on_initialize);
	buf_done(&params);
}

static void on_initialized(void *arg, const struct transport_reply *reply)
{
	struct handshake *h = arg;
	if (h->phase != HANDSHAKE_WON)
		return;
	if (reply->code == MCPD_E_TRANSPORT && !transport_is_connected(h->transport))
		return; /* handshake_transport_closed() comes and knows why */
	if (reply->code == MCPD_E_NEEDS_AUTH) {
		fail(h, MCP_FAIL_NEEDS_AUTH, reply->message, reply);
		return;
	}
	if (reply->code && h->options.note) {
		/* Servers are about that answer notifications/initialized with an error and work nevertheless. */
		char *message = xasprintf("notifications/initialized failed: %s", reply->message);
		h->options.note(h->options.arg, message);
		free(message);
		if (h->phase != HANDSHAKE_WON)
			return;
	}
	succeed(h);
}

static bool has_found_modern(const struct handshake *h)
{
	return h->modern.pub.era == MCP_ERA_MODERN;
}

static void win_legacy(struct handshake *h, const char *version, struct span result)
{
	if (facts_set(h->facts, MCP_ERA_LEGACY, version, result) < 0) {
		fail(h, MCP_FAIL_REFUSED, "out of memory", NULL);
		return;
	}
	h->phase = HANDSHAKE_WON;
	timer_cancel(h->timer);
	drop_leg(h, &h->probe);
	if (has_found_modern(h))
		h->facts->pub.remembered_era = MCP_ERA_MODERN;
	transport_set_protocol(h->transport, version, false);
	struct transport_options options = {
		.timeout_ms = h->options.timeout_ms,
		.done = on_initialized,
		.arg = h,
	};
	transport_notify(h->transport, JSONRPC_METHOD("notifications/initialized"), SPAN_NONE, &options);
}

/* The probe has won. */
static void win_modern(struct handshake *h)
{
	facts_done(h->facts);
	*h->facts = h->modern;
	h->modern = (struct facts){ 0 };
	handshake_stop(h);
	drop_leg(h, &h->initialize);
	transport_set_protocol(h->transport, h->facts->pub.protocol_version, true);
	succeed(h);
}

static void probe_succeeded(struct handshake *h, const char *version, struct span result)
{
	if (facts_set(&h->modern, MCP_ERA_MODERN, version, result) < 0) {
		fail(h, MCP_FAIL_REFUSED, "out of memory", NULL);
		return;
	}
	if (h->initialize.pending && transport_kind_of(h->transport) == TRANSPORT_STDIO)
		timer_set(h->timer, loop_now_ms() + h->options.probe_grace_ms);
	else
		win_modern(h);
}

/* initialize has come to nothing. A probe still pending may yet be answered by a modern server that refuses initialize.
 */
static void initialize_failed(struct handshake *h, const struct era_finding *finding,
			      const struct transport_reply *reply)
{
	enum mcp_failure_kind kind = failure_kind(finding->verdict);
	if (h->probe.pending && kind == MCP_FAIL_TIMEOUT) {
		fail(h, MCP_FAIL_RETRY_LEGACY, finding->message, reply);
	} else if (h->probe.pending && kind == MCP_FAIL_REFUSED) {
		remember_failure(h, kind, finding->message);
		timer_set(h->timer, loop_now_ms() + h->options.probe_grace_ms);
	} else if (h->failed_message) {
		fail_as_remembered(h);
	} else {
		fail(h, kind, finding->message, reply);
	}
}

static void on_initialize(void *arg, const struct transport_reply *reply)
{
	struct handshake *h = arg;
	h->initialize.pending = false;
	if (h->phase != HANDSHAKE_RUNNING)
		return;
	if (reply->code == MCPD_E_TRANSPORT && !transport_is_connected(h->transport))
		return; /* handshake_transport_closed() comes and knows why */
	struct era_finding finding;
	era_judge_initialize(h->options.server, reply, &finding);
	if (finding.verdict == ERA_LEGACY)
		win_legacy(h, finding.version, reply->result);
	else if (has_found_modern(h))
		win_modern(h);
	else
		initialize_failed(h, &finding, reply);
	era_finding_done(&finding);
}

/* The probe has come to nothing, and not because the server is a legacy one. */
static void probe_failed(struct handshake *h, const struct era_finding *finding, const struct transport_reply *reply)
{
	enum mcp_failure_kind kind = failure_kind(finding->verdict);
	if (!h->initialize.pending || kind == MCP_FAIL_NEEDS_AUTH) {
		fail(h, kind, finding->message, reply);
		return;
	}
	h->failed_by_probe = true;
	remember_failure(h, kind, finding->message);
}

static void on_probe(void *arg, const struct transport_reply *reply)
{
	struct handshake *h = arg;
	h->probe.pending = false;
	if (h->phase != HANDSHAKE_RUNNING)
		return;
	if (reply->code == MCPD_E_TRANSPORT && !transport_is_connected(h->transport))
		return;
	struct era_finding finding;
	era_judge_probe(h->options.server, reply, &finding);
	if (finding.verdict == ERA_MODERN) {
		probe_succeeded(h, finding.version, reply->result);
	} else if (finding.verdict == ERA_LEGACY) {
		timer_cancel(h->timer);
		if (!h->initialize.request)
			send_initialize(h);
		else if (!h->initialize.pending)
			fail_as_remembered(h);
	} else {
		probe_failed(h, &finding, reply);
	}
	era_finding_done(&finding);
}

static void on_timer(void *arg)
{
	struct handshake *h = arg;
	if (h->phase != HANDSHAKE_RUNNING)
		return;
	if (!h->initialize.request)
		send_initialize(h);
	else if (has_found_modern(h))
		win_modern(h);
	else if (h->failed_message && !h->initialize.pending)
		fail_as_remembered(h);
}

void handshake_start(struct handshake *h, struct transport *transport)
{
	bool hinted = h->options.era_hint == MCP_ERA_MODERN;
	h->transport = transport;
	h->phase = HANDSHAKE_RUNNING;
	if (h->options.skip_probe || h->options.era_hint == MCP_ERA_LEGACY) {
		send_initialize(h);
		return;
	}
	struct buf params;
	buf_init(&params, 0);
	era_write_probe_params(&params, h->options.capabilities, h->options.client_info);
	send_leg(h, &h->probe, JSONRPC_METHOD("server/discover"), buf_span(&params), hinted ? h->options.timeout_ms : 0,
		 on_probe);
	buf_done(&params);
	if (!hinted)
		timer_set(h->timer, loop_now_ms() + h->options.probe_grace_ms);
}

void handshake_transport_closed(struct handshake *h, const char *reason)
{
	if (h->phase != HANDSHAKE_RUNNING && h->phase != HANDSHAKE_WON)
		return;
	if (h->failed_by_probe && h->phase == HANDSHAKE_RUNNING) {
		fail_as_remembered(h);
		return;
	}
	/* Some legacy servers end themselves over a first message that is not initialize, answered or not. */
	bool over_probe = h->phase == HANDSHAKE_RUNNING && h->probe.request && !has_found_modern(h) &&
			  h->options.era_hint == MCP_ERA_UNKNOWN;
	char *message = xasprintf("Server \"%s\" closed the connection during the handshake%s%s", h->options.server,
				  reason ? ": " : "", reason ? reason : "");
	fail(h, over_probe ? MCP_FAIL_RETRY_LEGACY : MCP_FAIL_LOST, message, NULL);
	free(message);
}
