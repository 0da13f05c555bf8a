/*
 * A manager whose servers are scripted transports, and a diary of what it tells upwards. Included by the tests of
 * daemon/manager.
 *
 * instance_transport() is replaced: each connection that the manager makes is a fake_transport, kept in f.fakes in the
 * order of making. Every test ends with fixture_done(): a shutdown, after which the loop asserts that no timer or task
 * is left. With MANAGER_FIXTURE_REAL defined, nothing is replaced.
 */
#pragma once

#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_transport.h"
#include "log.h"
#include "manager/instance.h"
#include "manager/server_private.h"
#include "proto/buf.h"
#include "proto/json_iter.h"
#include "xalloc.h"

#define MAX_FAKES 4096
#define TOOLS_A "[{\"name\":\"a\",\"inputSchema\":{\"type\":\"object\"}}]"
#define TOOLS_B "[{\"name\":\"b\"},{\"name\":\"a\",\"n\":123456789012345678901234567890}]"

struct connection {
	char *server;
	struct transport *transport;
	struct fake_transport *fake;
};

static struct fixture {
	struct loop *loop;
	struct process_host *host; /* real servers only */
	struct manager *m;
	struct connection made[MAX_FAKES];
	size_t n_made;
	struct fake_options fake; /* for those made from now on */
	struct buf diary;
	char *cache_dir;
	uint64_t question;
	struct manager_question asked;
	const char *capabilities[8]; /* by client */
	bool shut;
	/* Scripts for callbacks: called with the server, once. */
	void (*in_reconnected)(struct server *server);
	void (*in_server)(struct server *server);
} f;

#ifndef MANAGER_FIXTURE_REAL /* defined: servers are what the configuration says */
struct transport *instance_transport(struct manager *m, const struct server_config *cfg, struct mcp_client *client)
{
	ck_assert_uint_lt(f.n_made, MAX_FAKES);
	struct connection *c = &f.made[f.n_made++];
	c->server = xstrdup(cfg->name);
	f.fake.kind = cfg->transport == CONFIG_STDIO ? TRANSPORT_STDIO : TRANSPORT_HTTP;
	c->transport = fake_transport_new(m->loop, &f.fake, mcp_client_transport_callbacks(), client, &c->fake);
	return c->transport;
}
#endif

/* ---- the diary ---- */

/* What was written since the last look. */
static inline const char *diary(void)
{
	static char text[32768];
	ck_assert_uint_lt(f.diary.len, sizeof text);
	memcpy(text, buf_span(&f.diary).ptr, f.diary.len);
	text[f.diary.len] = '\0';
	buf_reset(&f.diary);
	return text;
}

static inline void on_server(void *arg, struct server *server)
{
	struct server_info info;
	(void)arg;
	server_get_info(server, &info);
	buf_addf(&f.diary, "%s %s\n", server_name(server), server_state_name(info.state));
	if (f.in_server) {
		void (*script)(struct server *) = f.in_server;
		f.in_server = NULL;
		script(server);
	}
}

static inline void on_server_removed(void *arg, const char *name)
{
	(void)arg;
	buf_addf(&f.diary, "%s removed\n", name);
}

static inline void on_list(void *arg, struct server *server, enum server_list list)
{
	(void)list;
	(void)arg;
	buf_addf(&f.diary, "%s tools\n", server_name(server));
}

static inline void on_listing(void *arg, struct server *server)
{
	(void)arg;
	(void)server;
}

static inline void on_log(void *arg, struct server *server, const char *at, struct span text)
{
	(void)arg;
	ck_assert_uint_eq(strlen(at), 24);
	buf_addf(&f.diary, "%s log %.*s\n", server_name(server), (int)text.len, text.ptr);
}

static inline void on_notification(void *arg, struct server *server, uint64_t owner, struct span method,
				   struct span params)
{
	(void)arg;
	buf_addf(&f.diary, "%s notified %" PRIu64 " %.*s %.*s\n", server_name(server), owner, (int)method.len,
		 method.ptr, (int)params.len, params.ptr);
}

static inline void on_task_progress(void *arg, struct server *server, uint64_t owner, struct span id,
				    struct span params)
{
	(void)arg;
	buf_addf(&f.diary, "%s task %" PRIu64 " %.*s progress %.*s\n", server_name(server), owner, (int)id.len, id.ptr,
		 (int)params.len, params.ptr);
}

static inline void on_question(void *arg, struct server *server, const struct manager_question *question)
{
	static const char *const proofs[] = { "none", "no-call", "stream", "task", "sole-owner" };
	(void)arg;
	f.question = question->id;
	f.asked = *question;
	buf_addf(&f.diary, "%s asks %.*s %s client %" PRIu64 "%s%s\n", server_name(server), (int)question->method.len,
		 question->method.ptr, proofs[question->proof], question->client, question->call ? " with call" : "",
		 question->owned ? " owned" : "");
}

static inline void on_question_withdrawn(void *arg, uint64_t question, struct span reason)
{
	(void)arg;
	buf_addf(&f.diary, "withdrawn %s%.*s\n", question == f.question ? "" : "other ", (int)reason.len,
		 reason.ptr ? reason.ptr : "");
}

static inline void on_reconnected(void *arg, struct server *server, uint64_t owner)
{
	(void)arg;
	buf_addf(&f.diary, "%s new connection %" PRIu64 "\n", server_name(server), owner);
	if (f.in_reconnected) {
		void (*script)(struct server *) = f.in_reconnected;
		f.in_reconnected = NULL;
		script(server);
	}
}

static inline const char *capabilities_of(void *arg, uint64_t client)
{
	(void)arg;
	return client < 8 ? f.capabilities[client] : NULL;
}

/* ---- making and ending ---- */

/* Passes until nothing is due. */
static inline void settle(void)
{
	for (int i = 0; i < 12; i++)
		loop_once(f.loop, 0);
}

/* Passes until the condition holds; a hang is a failure. */
#define WAIT_UNTIL(condition)                                                                                          \
	do {                                                                                                           \
		int64_t wait_limit = loop_now_ms() + 60000;                                                            \
		while (!(condition)) {                                                                                 \
			ck_assert_msg(loop_now_ms() < wait_limit, "waited in vain for " #condition);                   \
			loop_once(f.loop, 20);                                                                         \
		}                                                                                                      \
	} while (0)

/* Passes for so long, and the condition holds all the time. */
#define STAYS(ms, condition)                                                                                           \
	do {                                                                                                           \
		int64_t stays_until = loop_now_ms() + (ms);                                                            \
		while (loop_now_ms() < stays_until) {                                                                  \
			loop_once(f.loop, 10);                                                                         \
			ck_assert_msg((condition), "did not stay: " #condition);                                       \
		}                                                                                                      \
	} while (0)

static inline void new_manager(void)
{
	static const struct manager_callbacks callbacks = {
		.on_server = on_server,
		.on_server_removed = on_server_removed,
		.on_list = on_list,
		.on_listing = on_listing,
		.on_log = on_log,
		.on_notification = on_notification,
		.on_task_progress = on_task_progress,
		.on_question = on_question,
		.on_question_withdrawn = on_question_withdrawn,
		.on_reconnected = on_reconnected,
	};
	f.m = manager_new(&(struct manager_options){ .loop = f.loop, .host = f.host, .cache_dir = f.cache_dir },
			  &callbacks, NULL);
	manager_set_capabilities(f.m, capabilities_of, NULL);
	f.shut = false;
}

/* servers: the members of "mcpServers", with ' for ". */
static inline struct config *make_config(const char *servers, const char *daemon)
{
	char *text = xasprintf("{'mcpServers':{%s},'mcpd':{%s}}", servers, daemon ? daemon : "");
	for (char *c = text; *c; c++)
		if (*c == '\'')
			*c = '"';
	struct config_problem *problems = NULL;
	size_t n = 0;
	static const char *const environment[] = { "HOME=/", NULL };
	struct config *config = config_parse(span_of(text), "/etc/test.json", environment, &problems, &n);
	ck_assert_msg(config != NULL, "%s", n ? problems[0].message : text);
	free(text);
	return config;
}

static inline void configure(const char *servers)
{
	manager_configure(f.m, make_config(servers, NULL), NULL);
}

static inline void on_shut(void *arg)
{
	(void)arg;
	f.shut = true;
}

static inline void end_manager(int64_t drain_ms)
{
	manager_shutdown(f.m, drain_ms, on_shut, NULL);
	WAIT_UNTIL(f.shut);
	manager_free(f.m);
	f.m = NULL;
	settle();
}

static inline void fixture_start(const char *servers)
{
	log_init(0, NULL);
	memset(&f, 0, sizeof f);
	f.loop = loop_new();
	buf_init(&f.diary, 0);
	new_manager();
	configure(servers);
}

static inline void remove_cache(void)
{
	char *command = f.cache_dir ? xasprintf("rm -rf '%s'", f.cache_dir) : NULL;
	if (command)
		ck_assert_int_eq(system(command), 0);
	free(command);
	free(f.cache_dir);
}

static inline void fixture_start_cached(const char *servers)
{
	char dir[] = "/tmp/mcpd-manager-XXXXXX";
	fixture_start("");
	end_manager(0);
	f.cache_dir = xstrdup(mkdtemp(dir));
	new_manager();
	configure(servers);
}

/* Another life of the daemon. */
static inline void restart(const char *servers)
{
	end_manager(0);
	new_manager();
	diary();
	configure(servers);
}

static inline void fixture_done(void)
{
	if (f.m)
		end_manager(0);
	loop_free(f.loop);
	buf_done(&f.diary);
	for (size_t i = 0; i < f.n_made; i++)
		free(f.made[i].server);
	remove_cache();
}

/* ---- the servers' side ---- */

static inline struct server *server_of(const char *name)
{
	struct server *server = manager_find(f.m, span_of(name));
	ck_assert_ptr_nonnull(server);
	return server;
}

static inline enum server_state state_of(const char *name)
{
	struct server_info info;
	server_get_info(server_of(name), &info);
	return info.state;
}

#define assert_state(name, want) ck_assert_str_eq(server_state_name(state_of(name)), (want))

/* The last connection made of all. */
static inline struct fake_transport *last(void)
{
	ck_assert_uint_gt(f.n_made, 0);
	return f.made[f.n_made - 1].fake;
}

/* Answers the probe as a legacy server does, then initialize. capabilities: JSON object text. */
static inline void shake_hands(struct fake_transport *fake, const char *capabilities)
{
	struct fake_sent *probe = fake_last(fake, "server/discover");
	if (probe && probe->pending)
		fake_error(fake, probe, "{\"code\":-32601,\"message\":\"no\"}");
	char *result =
		xasprintf("{\"protocolVersion\":\"2025-11-25\",\"capabilities\":%s,\"serverInfo\":{\"name\":\"srv\","
			  "\"version\":\"1\"},\"instructions\":\"be nice\"}",
			  capabilities);
	ck_assert_ptr_nonnull(fake_last(fake, "initialize"));
	fake_answer(fake, fake_last(fake, "initialize"), result);
	free(result);
	settle();
}

static inline void answer_tools(struct fake_transport *fake, const char *tools)
{
	struct fake_sent *sent = fake_last(fake, "tools/list");
	ck_assert(sent && sent->pending);
	char *result = xasprintf("{\"tools\":%s}", tools);
	fake_answer(fake, sent, result);
	free(result);
	settle();
}

/* A legacy server with these tools, from its start until it is connected. */
static inline void bring_up(struct fake_transport *fake, const char *tools)
{
	settle();
	shake_hands(fake, "{\"tools\":{\"listChanged\":true}}");
	answer_tools(fake, tools);
}

static inline void bring_up_modern(struct fake_transport *fake, const char *capabilities, const char *tools_result)
{
	settle();
	char *result = xasprintf(
		"{\"resultType\":\"complete\",\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":%s,\"ttlMs\":0,"
		"\"cacheScope\":\"public\"}",
		capabilities);
	fake_answer(fake, fake_last(fake, "server/discover"), result);
	free(result);
	settle();
	fake_answer(fake, fake_last(fake, "tools/list"), tools_result);
	settle();
}

/* ---- calls ---- */

struct outcome {
	const char *name;
	unsigned n_done, n_progress, n_resent, position;
	int code;
	bool sent;
	char *result, *error, *message, *auth;
	int limit;
	int64_t timeout_ms;
	uint64_t number;
	void (*then)(struct outcome *outcome);
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
	o->auth = reply->www_authenticate ? xstrdup(reply->www_authenticate) : NULL;
	buf_addf(&f.diary, "done %s %d\n", o->name, o->code);
	if (o->then)
		o->then(o);
}

static inline void outcome_progress(void *arg, struct span params)
{
	struct outcome *o = arg;
	(void)params;
	ck_assert_uint_eq(o->n_done, 0);
	o->n_progress++;
}

static inline void outcome_queued(void *arg, unsigned position)
{
	struct outcome *o = arg;
	ck_assert_uint_eq(o->n_done, 0);
	o->position = position;
}

static inline void outcome_resent(void *arg)
{
	struct outcome *o = arg;
	ck_assert_uint_eq(o->n_done, 0);
	o->n_resent++;
}

static inline void call_with(struct outcome *o, const char *name, const char *server, uint64_t client,
			     const char *method, const char *params, int64_t timeout_ms)
{
	void (*then)(struct outcome *) = o->then;
	/* The asker's bytes are gone when server_call() returns. */
	char *quoted = xasprintf("\"%s\"", method), *copy = xstrdup(params);
	*o = (struct outcome){ .name = name, .then = then };
	o->number = server_call(server_of(server), &(struct server_call_options){
							   .client = client,
							   .method = span_of(quoted),
							   .params = span_of(copy),
							   .timeout_ms = timeout_ms,
							   .want_progress = true,
							   .done = outcome_done,
							   .progress = outcome_progress,
							   .queued = outcome_queued,
							   .resent = outcome_resent,
							   .arg = o,
						   });
	ck_assert_uint_ne(o->number, 0);
	ck_assert_uint_eq(o->n_done, 0);
	memset(quoted, 'x', strlen(quoted));
	memset(copy, 'x', strlen(copy));
	free(quoted);
	free(copy);
}

static inline void call(struct outcome *o, const char *name, const char *server, uint64_t client)
{
	call_with(o, name, server, client, "tools/call",
		  "{\"name\":\"a\",\"arguments\":{\"n\":12345678901234567890123}}", -1);
}

static inline void outcome_free(struct outcome *o)
{
	ck_assert_msg(o->n_done == 1, "%s completed %u times", o->name, o->n_done);
	free(o->result);
	free(o->error);
	free(o->message);
	free(o->auth);
}

static inline void assert_done(struct outcome *o, int code, const char *message)
{
	ck_assert_msg(o->n_done == 1, "%s completed %u times", o->name, o->n_done);
	ck_assert_msg(o->code == code, "%s: %d %s", o->name, o->code, o->message ? o->message : "");
	if (message)
		ck_assert_msg(o->message && strstr(o->message, message), "%s: '%s' does not contain '%s'", o->name,
			      o->message ? o->message : "(null)", message);
}

/* Answers the last call of the connection. */
static inline void answer_call(struct fake_transport *fake, const char *result)
{
	struct fake_sent *sent = fake_last(fake, "tools/call");
	ck_assert(sent && sent->pending);
	fake_answer(fake, sent, result);
}

static inline void assert_contains(const char *got, const char *want)
{
	ck_assert_msg(got && strstr(got, want), "'%s' does not contain '%s'", got ? got : "(null)", want);
}
