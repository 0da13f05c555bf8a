/* A router over the manager of fake_manager.h, and what its callbacks were told. */
#pragma once

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_manager.h"
#include "loop/loop.h"
#include "proto/errors.h"
#include "router/router.h"
#include "xalloc.h"

#define TOLD_MAX 64

/* What came of one call of a client. */
struct told {
	unsigned done, progressed;
	int code;
	char result[512], message[256], progress[512];
	uint64_t row;
	unsigned queue_position;
	bool resent;
};

static struct fixture {
	struct loop *loop;
	struct manager *manager;
	struct router *router;
	/* questions */
	struct {
		uint64_t client, question;
		char *method, *params;
	} asked[TOLD_MAX];
	size_t n_asked;
	struct {
		uint64_t client, question;
		char *reason;
	} withdrawn[TOLD_MAX];
	size_t n_withdrawn;
	unsigned n_ended;
	struct {
		uint64_t client;
		char params[256];
	} task_progress; /* the last one */
	unsigned n_task_progress;
	/* the last notification */
	unsigned n_notified;
	bool wanted[TOLD_MAX]; /* by client id */
} fix;

static void told_done(void *arg, const struct call_info *info, const struct transport_reply *reply)
{
	struct told *told = arg;
	told->done++;
	told->code = reply->code;
	told->queue_position = info->queue_position;
	told->resent = info->resent;
	if (reply->result.ptr)
		snprintf(told->result, sizeof told->result, "%.*s", (int)reply->result.len, reply->result.ptr);
	if (reply->message)
		snprintf(told->message, sizeof told->message, "%s", reply->message);
}

static void told_progress(void *arg, struct span params)
{
	struct told *told = arg;
	ck_assert_msg(!told->done, "progress after the answer");
	told->progressed++;
	snprintf(told->progress, sizeof told->progress, "%.*s", (int)params.len, params.ptr);
}

static void fix_ask(void *arg, const struct client_question *question)
{
	(void)arg;
	size_t n = fix.n_asked++;
	fix.asked[n].client = question->client;
	fix.asked[n].question = question->id;
	fix.asked[n].method = xstrndup(question->method.ptr, question->method.len);
	fix.asked[n].params = question->params.ptr ? xstrndup(question->params.ptr, question->params.len) : xstrdup("");
}

static void fix_withdraw(void *arg, uint64_t client, uint64_t question, const char *reason)
{
	(void)arg;
	size_t n = fix.n_withdrawn++;
	fix.withdrawn[n].client = client;
	fix.withdrawn[n].question = question;
	fix.withdrawn[n].reason = xstrdup(reason);
}

static void fix_call_end(void *arg, const struct call_info *info, const struct transport_reply *reply)
{
	(void)arg;
	(void)info;
	(void)reply;
	fix.n_ended++;
}

static void fix_notification(void *arg, const struct router_notification *n)
{
	(void)arg;
	fix.n_notified++;
	for (uint64_t client = 1; client < 10; client++)
		fix.wanted[client] = router_notification_wanted(fix.router, n, client);
}

static void fix_task_progress(void *arg, uint64_t client, struct span params)
{
	(void)arg;
	fix.n_task_progress++;
	fix.task_progress.client = client;
	snprintf(fix.task_progress.params, sizeof fix.task_progress.params, "%.*s", (int)params.len, params.ptr);
}

static inline void fix_begin(void)
{
	static const struct router_callbacks callbacks = {
		.ask = fix_ask,
		.withdraw = fix_withdraw,
		.on_call_end = fix_call_end,
		.on_notification = fix_notification,
		.on_task_progress = fix_task_progress,
	};
	memset(&fix, 0, sizeof fix);
	fix.loop = loop_new();
	fix.router = router_new();
	fix.manager = fake_new(router_manager_callbacks(), fix.router);
	router_attach(fix.router, fix.loop, fix.manager);
	router_set_callbacks(fix.router, &callbacks, NULL);
}

/* A few passes: all that is deferred happens. */
static inline void fix_settle(void)
{
	for (int i = 0; i < 4; i++)
		loop_once(fix.loop, 0);
}

/* Ends all calls that the fake manager still has. */
static inline void fix_end(void)
{
	fix_settle();
	for (size_t i = 0; i < fake.n_calls; i++)
		if (fake.calls[i].open)
			fake_fail(&fake.calls[i], MCPD_E_TRANSPORT, "Transport closed", true);
	fix_settle();
	router_free(fix.router);
	fake_free();
	loop_free(fix.loop);
	for (size_t i = 0; i < fix.n_asked; i++) {
		free(fix.asked[i].method);
		free(fix.asked[i].params);
	}
	for (size_t i = 0; i < fix.n_withdrawn; i++)
		free(fix.withdrawn[i].reason);
}

/* A client, gone again before fix_end(). capabilities: NULL for one that says nothing. */
static inline void fix_client(uint64_t id, const char *capabilities)
{
	router_client_add(fix.router, id);
	if (capabilities)
		ck_assert_int_eq(router_client_describe(fix.router, id, SPAN_LIT("\"agent\""), span_of(capabilities)),
				 0);
}

/* A request; what becomes of it is told in *told. */
static inline uint64_t fix_request(uint64_t client, struct server *server, const char *method, const char *params,
				   const char *token, struct told *told)
{
	struct call_options options = {
		.client = client,
		.server = server,
		.method = span_of(method),
		.params = span_of(params),
		.timeout_ms = -1,
		.token = span_of(token),
		.done = told_done,
		.progress = told_progress,
		.arg = told,
	};
	memset(told, 0, sizeof *told);
	size_t before = told->done;
	told->row = router_request(fix.router, &options);
	ck_assert_uint_ne(told->row, 0);
	ck_assert_msg(told->done == before, "a completion ran inside the call that made it");
	return told->row;
}
