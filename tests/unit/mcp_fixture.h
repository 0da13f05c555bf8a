/*
 * An MCP client on a fake transport, and a diary of what it calls back. Included by the tests of daemon/mcp.
 *
 * Every test ends with fixture_done(), which closes what is open and frees everything: the loop asserts that no timer
 * or task is left.
 */
#pragma once

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_transport.h"
#include "mcp/mcp_client.h"
#include "proto/buf.h"
#include "xalloc.h"

#define NEVER_MS 3600000 /* for clocks that must not run out in a test */

struct fixture {
	struct loop *loop;
	struct mcp_client *client;
	struct fake_transport *fake;
	struct limits limits;
	struct buf diary; /* one line for each thing that was called back */
	unsigned n_ready, n_closed;
	enum mcp_failure_kind kind;
	bool failed, hint_failed, with_reply, freed;
	char *message;
	uint64_t question; /* the last one's number */
	/* Scripts for callbacks. */
	const char *answer_at_once, *refuse_at_once;
	uint64_t cancel_in_question;
	bool close_in_ready, close_in_question, close_in_done, free_in_closed;
};

/* What was written since the last look. */
static inline const char *diary(struct fixture *f)
{
	static char text[16384];
	ck_assert_uint_lt(f->diary.len, sizeof(text));
	memcpy(text, buf_span(&f->diary).ptr, f->diary.len);
	text[f->diary.len] = '\0';
	buf_reset(&f->diary);
	return text;
}

static inline void on_ready(void *arg, const struct mcp_failure *failure)
{
	struct fixture *f = arg;
	f->n_ready++;
	f->failed = failure != NULL;
	if (failure) {
		f->kind = failure->kind;
		f->hint_failed = failure->hint_failed;
		f->with_reply = failure->reply != NULL;
		free(f->message);
		f->message = xstrdup(failure->message);
	}
	if (f->close_in_ready)
		mcp_client_close(f->client);
}

static inline void on_closed(void *arg, const char *reason)
{
	struct fixture *f = arg;
	f->n_closed++;
	buf_addf(&f->diary, "closed %s\n", reason ? reason : "-");
	if (f->free_in_closed) {
		mcp_client_free(f->client);
		f->freed = true;
	}
}

static inline void on_notification(void *arg, struct span method, struct span params)
{
	struct fixture *f = arg;
	buf_addf(&f->diary, "notified %.*s %.*s\n", (int)method.len, method.ptr, (int)params.len, params.ptr);
}

static inline void on_request(void *arg, uint64_t number, struct span method, struct span params, enum mcp_proof proof,
			      uint64_t owner, uint64_t call)
{
	static const char *const proofs[] = { "none", "no-call", "stream", "task", "sole-owner" };
	struct fixture *f = arg;
	f->question = number;
	buf_addf(&f->diary, "asked %.*s %.*s %s owner %" PRIu64 " call %" PRIu64 "\n", (int)method.len, method.ptr,
		 (int)params.len, params.ptr, proofs[proof], owner, call);
	if (f->answer_at_once)
		mcp_client_answer(f->client, number, span_of(f->answer_at_once), SPAN_NONE);
	if (f->refuse_at_once)
		mcp_client_answer(f->client, number, SPAN_NONE, span_of(f->refuse_at_once));
	if (f->cancel_in_question)
		mcp_client_cancel(f->client, f->cancel_in_question, "enough");
	if (f->close_in_question)
		mcp_client_close(f->client);
}

static inline void on_task_progress(void *arg, struct span id, struct span params)
{
	struct fixture *f = arg;
	buf_addf(&f->diary, "task %.*s progress %.*s\n", (int)id.len, id.ptr, (int)params.len, params.ptr);
}

static inline void on_request_cancelled(void *arg, uint64_t number, struct span reason)
{
	struct fixture *f = arg;
	buf_addf(&f->diary, "void %s%.*s\n", number == f->question ? "" : "other ", (int)reason.len,
		 reason.ptr ? reason.ptr : "");
}

static inline void on_log(void *arg, struct span text, bool noise)
{
	struct fixture *f = arg;
	buf_addf(&f->diary, "log %.*s%s\n", (int)text.len, text.ptr, noise ? " (noise)" : "");
}

static inline void on_error(void *arg, const char *message)
{
	struct fixture *f = arg;
	buf_addf(&f->diary, "error %s\n", message);
}

static inline void on_listener_end(void *arg, int http_status, const char *message)
{
	struct fixture *f = arg;
	buf_addf(&f->diary, "listener %d %s\n", http_status, message);
}

/* Passes until nothing is due. */
static inline void settle(struct fixture *f)
{
	for (int i = 0; i < 10; i++)
		loop_once(f->loop, 0);
}

/* Passes until the condition holds; a hang is a failure. */
#define WAIT_UNTIL(f, condition)                                                                                       \
	do {                                                                                                           \
		int64_t wait_limit = loop_now_ms() + 60000;                                                            \
		while (!(condition)) {                                                                                 \
			ck_assert_msg(loop_now_ms() < wait_limit, "waited in vain for " #condition);                   \
			loop_once((f)->loop, 20);                                                                      \
		}                                                                                                      \
	} while (0)

static inline struct mcp_client_options default_options(struct fixture *f)
{
	return (struct mcp_client_options){
		.server = "demo",
		.probe_grace_ms = NEVER_MS,
		.handshake_timeout_ms = 5000,
		.max_timeout_ms = 600000,
		.capabilities = "{\"roots\":{}}",
		.client_info = "{\"name\":\"test\",\"version\":\"9\"}",
		.limits = &f->limits,
	};
}

/* A client that is connecting. NULL: defaults. */
static inline void fixture_start(struct fixture *f, const struct mcp_client_options *options,
				 const struct fake_options *fake)
{
	static const struct mcp_client_callbacks callbacks = {
		.on_ready = on_ready,
		.on_closed = on_closed,
		.on_notification = on_notification,
		.on_request = on_request,
		.on_task_progress = on_task_progress,
		.on_request_cancelled = on_request_cancelled,
		.on_log = on_log,
		.on_error = on_error,
		.on_listener_end = on_listener_end,
	};
	*f = (struct fixture){ 0 };
	f->loop = loop_new();
	ck_assert_ptr_nonnull(f->loop);
	limits_init(&f->limits);
	buf_init(&f->diary, 0);
	struct mcp_client_options standard = default_options(f);
	struct mcp_client_options used = options ? *options : standard;
	used.limits = &f->limits;
	f->client = mcp_client_new(f->loop, &used, &callbacks, f);
	mcp_client_start(f->client, fake_transport_new(f->loop, fake ? fake : &(struct fake_options){ 0 },
						       mcp_client_transport_callbacks(), f->client, &f->fake));
	settle(f);
}

#define INIT_RESULT(version)                                                                                           \
	"{\"protocolVersion\":\"" version "\",\"capabilities\":{\"tools\":{},\"tasks\":{}},"                           \
	"\"serverInfo\":{\"name\":\"srv\",\"version\":\"1\"},\"instructions\":\"be nice\"}"
#define DISCOVER_RESULT                                                                                                \
	"{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{\"tools\":{},"          \
	"\"extensions\":{\"io.modelcontextprotocol/tasks\":{}}},\"ttlMs\":0,\"cacheScope\":\"public\","                \
	"\"_meta\":{\"io.modelcontextprotocol/serverInfo\":{\"name\":\"new\",\"version\":\"2\"}}}"

/* A legacy server that is ready. */
static inline void fixture_legacy(struct fixture *f, enum transport_kind kind)
{
	fixture_start(f, NULL, &(struct fake_options){ .kind = kind });
	fake_error(f->fake, fake_last(f->fake, "server/discover"), "{\"code\":-32601,\"message\":\"no\"}");
	fake_answer(f->fake, fake_last(f->fake, "initialize"), INIT_RESULT("2025-11-25"));
	settle(f);
	ck_assert_uint_eq(f->n_ready, 1);
	ck_assert(!f->failed);
}

/* A modern server that is ready. */
static inline void fixture_modern(struct fixture *f, enum transport_kind kind)
{
	fixture_start(f, NULL, &(struct fake_options){ .kind = kind });
	fake_answer(f->fake, fake_last(f->fake, "server/discover"), DISCOVER_RESULT);
	settle(f);
	ck_assert_uint_eq(f->n_ready, 1);
	ck_assert(!f->failed);
}

static inline void fixture_done(struct fixture *f)
{
	if (!f->freed) {
		mcp_client_close(f->client);
		WAIT_UNTIL(f, f->n_closed > 0);
		mcp_client_free(f->client);
	}
	settle(f);
	ck_assert_uint_eq(f->n_closed, 1);
	ck_assert_uint_le(f->n_ready, 1);
	loop_free(f->loop);
	buf_done(&f->diary);
	free(f->message);
}

/* One call and what became of it. */
struct outcome {
	struct fixture *f;
	uint64_t number;
	unsigned n_done;
	int code;
	bool sent;
	char *result, *error, *message;
	int limit;
	int64_t timeout_ms;
	const char *name;
};

static inline void outcome_done(void *arg, const struct transport_reply *reply)
{
	struct outcome *o = arg;
	o->n_done++;
	o->code = reply->code;
	o->sent = reply->sent;
	o->limit = reply->limit;
	o->timeout_ms = reply->timeout_ms;
	o->result = reply->result.ptr ? xstrndup(reply->result.ptr, reply->result.len) : NULL;
	o->error = reply->error.ptr ? xstrndup(reply->error.ptr, reply->error.len) : NULL;
	o->message = reply->message ? xstrdup(reply->message) : NULL;
	buf_addf(&o->f->diary, "done %s %d\n", o->name, o->code);
	if (o->f->close_in_done)
		mcp_client_close(o->f->client);
}

static inline void outcome_progress(void *arg, struct span params)
{
	struct outcome *o = arg;
	ck_assert_uint_eq(o->n_done, 0);
	buf_addf(&o->f->diary, "progress %s %.*s\n", o->name, (int)params.len, params.ptr);
}

static inline void outcome_free(struct outcome *o)
{
	ck_assert_msg(o->n_done == 1, "%s completed %u times", o->name, o->n_done);
	free(o->result);
	free(o->error);
	free(o->message);
}

/* Fills options in for the outcome and calls. method without quotes. */
static inline void call_with(struct fixture *f, struct outcome *o, const char *name, const char *method,
			     const char *params, struct mcp_call_options options)
{
	char *quoted = xasprintf("\"%s\"", method);
	*o = (struct outcome){ .f = f, .name = name };
	options.done = outcome_done;
	options.progress = outcome_progress;
	options.arg = o;
	o->number = mcp_client_call(f->client, span_of(quoted), span_of(params), &options);
	ck_assert_uint_ne(o->number, 0);
	ck_assert_uint_eq(o->n_done, 0);
	free(quoted);
}

static inline void call(struct fixture *f, struct outcome *o, uint64_t owner)
{
	call_with(f, o, "call", "tools/call", "{\"name\":\"t\"}",
		  (struct mcp_call_options){ .owner = owner, .timeout_ms = -1 });
}

static inline void assert_text(const char *got, const char *want)
{
	ck_assert_str_eq(got ? got : "(null)", want);
}

static inline void assert_contains(const char *got, const char *want)
{
	ck_assert_msg(got && strstr(got, want), "'%s' does not contain '%s'", got ? got : "(null)", want);
}
