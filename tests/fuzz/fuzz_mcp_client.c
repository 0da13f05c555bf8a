/*
 * What a server says, into the MCP client: the handshake of either era, calls with progress, questions, input-required
 * rounds, listings. First byte: which era is expected. The rest are lines; one that begins with '!' is a doing of the
 * floors above (c: a call, l: a listing, x: cancel the last call, a: answer the last question, r: refuse it, n: a
 * notification, p: a pass of the loop), every other is a line of the server.
 *
 * Whatever comes: each call and listing completes exactly once, on_ready comes at most once, on_closed exactly once, and
 * what is sent to the server is one line of JSON each.
 */
#include <stdlib.h>
#include <string.h>

#include "mcp/listing.h"
#include "mcp/mcp_client.h"
#include "proto/json_scan.h"
#include "transport/stdio_internal.h"

#define REQUIRE(condition)                                                                                             \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			abort();                                                                                       \
	} while (0)

#define CALLS_MAX 64

/* The server's end: the lines of stdio_message.c, without a process. */
struct peer {
	struct stdio stdio;
	struct task *task;
	bool connecting, closing, freed;
};

struct world {
	struct loop *loop;
	struct mcp_client *client;
	struct peer *peer;
	unsigned ready, closed, started, completed, listings, listed;
	bool done[CALLS_MAX];
	uint64_t last_call, last_question;
};

static void require_json(struct span text)
{
	REQUIRE(!text.ptr || (json_check(text, NULL) == 0 && !memchr(text.ptr, '\n', text.len)));
}

static uint64_t add(struct transport *t, enum pending_kind kind, struct span method, struct span params,
		    const struct transport_options *options)
{
	static const struct transport_options none = { .timeout_ms = -1 };
	struct peer *peer = (struct peer *)t;
	require_json(method);
	require_json(params);
	uint64_t number = pending_add(peer->stdio.pending, kind, options ? options : &none);
	if (peer->stdio.state != STDIO_CONNECTED)
		pending_fail(
			peer->stdio.pending, number,
			&(struct transport_reply){ .code = MCPD_E_TRANSPORT, .message = "Transport not connected" });
	else if (kind == PENDING_NOTIFY)
		pending_succeed(peer->stdio.pending, number);
	return number;
}

static uint64_t peer_request(struct transport *t, struct span method, struct span params,
			     const struct transport_options *options)
{
	return add(t, PENDING_REQUEST, method, params, options);
}

static uint64_t peer_notify(struct transport *t, struct span method, struct span params,
			    const struct transport_options *options)
{
	return add(t, PENDING_NOTIFY, method, params, options);
}

static void peer_connect(struct transport *t)
{
	struct peer *peer = (struct peer *)t;
	peer->connecting = true;
	task_schedule(peer->task);
}

static void peer_close(struct transport *t)
{
	struct peer *peer = (struct peer *)t;
	peer->stdio.state = STDIO_ENDING;
	peer->closing = true;
	task_schedule(peer->task);
}

static void peer_step(void *arg)
{
	struct peer *peer = arg;
	struct transport *t = &peer->stdio.base;
	if (peer->closing && peer->stdio.state != STDIO_CLOSED) {
		pending_fail_all(peer->stdio.pending, MCPD_E_TRANSPORT, "Transport closed");
		peer->stdio.state = STDIO_CLOSED;
		t->callbacks.on_close(t->arg, NULL);
	} else if (peer->connecting && !peer->closing) {
		peer->connecting = false;
		peer->stdio.state = STDIO_CONNECTED;
		t->callbacks.on_connect(t->arg, NULL);
	}
}

static void peer_free_now(void *arg)
{
	struct peer *peer = arg;
	pending_free(peer->stdio.pending);
	free(peer);
}

static void peer_free(struct transport *t)
{
	struct peer *peer = (struct peer *)t;
	task_free(peer->task);
	loop_bury(peer->stdio.loop, peer, peer_free_now);
}

static bool peer_is_connected(const struct transport *t)
{
	return ((const struct peer *)t)->stdio.state == STDIO_CONNECTED;
}

static void peer_cancel(struct transport *t, uint64_t request, const char *reason)
{
	pending_cancel(((struct peer *)t)->stdio.pending, request, reason);
}

static void peer_touch(struct transport *t, uint64_t request)
{
	pending_touch(((struct peer *)t)->stdio.pending, request);
}

static struct span peer_wire_id(const struct transport *t, uint64_t request)
{
	return pending_wire_id(((const struct peer *)t)->stdio.pending, request);
}

static int peer_respond(struct transport *t, struct span id, struct span result, struct span error)
{
	(void)t;
	require_json(id);
	require_json(result);
	require_json(error);
	REQUIRE((result.ptr != NULL) != (error.ptr != NULL));
	return 0;
}

static void peer_set_protocol(struct transport *t, const char *version, bool modern)
{
	(void)modern;
	((struct peer *)t)->stdio.batches = strcmp(version, "2025-03-26") == 0;
}

static void peer_listen(struct transport *t)
{
	(void)t;
}

static pid_t peer_pid(const struct transport *t)
{
	(void)t;
	return 0;
}

static enum pending_phase give_up(void *arg, uint64_t number, void *data)
{
	(void)arg;
	(void)number;
	(void)data;
	return PENDING_SENT;
}

static void on_late(void *arg, uint64_t number)
{
	struct peer *peer = arg;
	if (peer->stdio.base.callbacks.on_late_answer)
		peer->stdio.base.callbacks.on_late_answer(peer->stdio.base.arg, number);
}

static struct peer *peer_new(struct loop *loop, const struct limits *limits, struct mcp_client *client)
{
	static const struct transport_ops ops = {
		.kind = TRANSPORT_STDIO,
		.connect = peer_connect,
		.is_connected = peer_is_connected,
		.request = peer_request,
		.notify = peer_notify,
		.cancel = peer_cancel,
		.touch = peer_touch,
		.wire_id = peer_wire_id,
		.respond = peer_respond,
		.set_protocol = peer_set_protocol,
		.listen = peer_listen,
		.pid = peer_pid,
		.close = peer_close,
		.free = peer_free,
	};
	static const struct pending_hooks hooks = { give_up, on_late };
	struct peer *peer = calloc(1, sizeof *peer);
	peer->stdio.base = (struct transport){
		.ops = &ops,
		.callbacks = *mcp_client_transport_callbacks(),
		.arg = client,
	};
	peer->stdio.loop = loop;
	peer->stdio.limits = limits;
	peer->stdio.state = STDIO_STARTING;
	peer->stdio.pending = pending_new(loop, 0, &hooks, peer);
	peer->task = task_new(loop, peer_step, peer);
	return peer;
}

/* --- the floor above --- */

static void on_ready(void *arg, const struct mcp_failure *failure)
{
	struct world *w = arg;
	REQUIRE(w->ready++ == 0);
	REQUIRE(!failure || *failure->message);
}

static void on_closed(void *arg, const char *reason)
{
	struct world *w = arg;
	(void)reason;
	REQUIRE(w->closed++ == 0);
}

static void on_notification(void *arg, struct span method, struct span params)
{
	(void)arg;
	require_json(method);
	require_json(params);
}

static void on_request(void *arg, uint64_t number, struct span method, struct span params, enum mcp_proof proof,
		       uint64_t owner, uint64_t call)
{
	struct world *w = arg;
	on_notification(arg, method, params);
	REQUIRE(number && (proof != MCP_PROOF_STREAM || owner));
	(void)call;
	w->last_question = number;
}

static void on_request_cancelled(void *arg, uint64_t number, struct span reason)
{
	(void)arg;
	REQUIRE(number);
	require_json(reason);
}

static void on_done(void *arg, const struct transport_reply *reply)
{
	bool *done = arg;
	REQUIRE(!*done);
	*done = true;
	if (reply->code == 0)
		require_json(reply->result);
	else
		REQUIRE(reply->message && *reply->message);
}

static void on_progress(void *arg, struct span params)
{
	REQUIRE(!*(bool *)arg);
	require_json(params);
}

static void on_listed(void *arg, const struct listing_result *result)
{
	struct world *w = arg;
	w->listed++;
	if (!result->failure)
		require_json(result->elements);
}

static void call(struct world *w)
{
	static const struct span params = { "{\"name\":\"t\",\"_meta\":{\"progressToken\":1,\"x\":2}}", 46 };
	if (w->started == CALLS_MAX)
		return;
	struct mcp_call_options options = {
		.owner = w->started % 3, /* the daemon itself among them */
		.timeout_ms = 0,
		.want_progress = true,
		.capabilities = SPAN_LIT("{\"elicitation\":{},\"sampling\":{},\"roots\":{}}"),
		.relay_input_required = w->started % 5 == 4,
		.done = on_done,
		.progress = on_progress,
		.arg = &w->done[w->started++],
	};
	w->last_call = mcp_client_call(w->client, SPAN_LIT("\"tools/call\""),
				       (struct span){ params.ptr, strlen(params.ptr) }, &options);
}

static void act(struct world *w, const struct limits *limits, char what)
{
	switch (what) {
	case 'c':
		call(w);
		break;
	case 'l':
		listing_start(w->client, SPAN_LIT("\"tools/list\""), "tools", 0, limits, on_listed, w);
		w->listings++;
		break;
	case 'x':
		mcp_client_cancel(w->client, w->last_call, "enough");
		break;
	case 'a':
		mcp_client_answer(w->client, w->last_question, SPAN_LIT("{\"action\":\"accept\"}"), SPAN_NONE);
		break;
	case 'r':
		mcp_client_answer(w->client, w->last_question, SPAN_NONE, SPAN_LIT("{\"code\":1,\"message\":\"no\"}"));
		break;
	case 'n':
		mcp_client_notify(w->client, SPAN_LIT("\"notifications/x\""), SPAN_NONE);
		break;
	default:
		loop_once(w->loop, 0);
		break;
	}
}

static void play(struct world *w, const struct limits *limits, const char *at, const char *end)
{
	while (at < end && !w->closed) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *stop = newline ? newline : end;
		if (*at == '!' && stop > at + 1)
			act(w, limits, at[1]);
		else
			stdio_line(&w->peer->stdio, (struct span){ at, (size_t)(stop - at) });
		loop_once(w->loop, 0);
		at = stop + 1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct mcp_client_callbacks callbacks = {
		.on_ready = on_ready,
		.on_closed = on_closed,
		.on_notification = on_notification,
		.on_request = on_request,
		.on_request_cancelled = on_request_cancelled,
	};
	if (size == 0)
		return 0;
	struct limits limits;
	struct world w = { .loop = loop_new() };
	limits_init(&limits);
	struct mcp_client_options options = {
		.server = "s",
		.era_hint = (enum mcp_era)(data[0] % 3),
		.skip_probe = data[0] & 4,
		.probe_grace_ms = 1000000,
		.handshake_timeout_ms = 1000000,
		.max_timeout_ms = 1000000,
		.capabilities = "{\"elicitation\":{},\"sampling\":{},\"roots\":{}}",
		.limits = &limits,
	};
	w.client = mcp_client_new(w.loop, &options, &callbacks, &w);
	w.peer = peer_new(w.loop, &limits, w.client);
	mcp_client_start(w.client, &w.peer->stdio.base);
	loop_once(w.loop, 0);
	/* A copy of exactly that size, so that a look past its end is seen. */
	char *lines = malloc(size);
	memcpy(lines, data + 1, size - 1);
	play(&w, &limits, lines, lines + size - 1);
	mcp_client_close(w.client);
	for (int i = 0; i < 8; i++)
		loop_once(w.loop, 0);
	REQUIRE(w.closed == 1 && w.listed == w.listings);
	for (unsigned i = 0; i < w.started; i++)
		REQUIRE(w.done[i]);
	mcp_client_free(w.client);
	loop_once(w.loop, 0);
	loop_free(w.loop);
	free(lines);
	return 0;
}
