/* Calls that have become tasks: whose they are (router/tasks.h). */
#include "router/task_table.h"
#include "router_fixture.h"
#include "run.h"

#define CALL "\"tools/call\""
#define GET "\"tasks/get\""
#define CANCEL "\"tasks/cancel\""
#define RESULT "\"tasks/result\""
#define LIST "\"tasks/list\""
#define STATUS "notifications/tasks/status"

static struct server *begin(void)
{
	fix_begin();
	for (uint64_t id = 1; id <= 3; id++)
		fix_client(id, "{\"sampling\":{}}");
	struct server *server = fake_add("s");
	fake_set_tasks(server);
	return server;
}

static void end(void)
{
	for (uint64_t id = 1; id <= 3; id++)
		router_client_gone(fix.router, id);
	fix_end();
}

/* A call of the client's that becomes the task; its answer is in *told. more: further members of the task. */
static void become(uint64_t client, struct server *server, const char *id, const char *more, struct told *told)
{
	char *result = xasprintf("{\"task\":{\"taskId\":%s,\"status\":\"working\"%s}}", id, more);
	fix_request(client, server, CALL, "{\"name\":\"x\",\"task\":{\"ttl\":1}}", "\"mine\"", told);
	fake_result(fake_call_at(-1), result);
	free(result);
}

static void task(uint64_t client, struct server *server, const char *id)
{
	struct told told;
	become(client, server, id, "", &told);
	ck_assert_int_eq(told.code, 0);
	ck_assert_ptr_nonnull(strstr(told.result, id));
}

static void about(uint64_t client, struct server *server, const char *method, const char *id, struct told *told)
{
	char *params = xasprintf("{\"taskId\":%s}", id);
	fix_request(client, server, method, params, NULL, told);
	free(params);
}

/* The request is refused without the server's being asked. */
static void expect_unknown(uint64_t client, struct server *server, const char *method, const char *id)
{
	struct told told;
	size_t before = fake.n_calls;
	about(client, server, method, id, &told);
	fix_settle();
	ck_assert_uint_eq(fake.n_calls, before);
	ck_assert_uint_eq(told.done, 1);
	ck_assert_int_eq(told.code, MCPD_E_INVALID_PARAMS);
	ck_assert_ptr_nonnull(strstr(told.message, "no such task"));
}

/* It is sent, to the process that is there or to none; and answered with this. */
static void expect_sent(uint64_t client, struct server *server, const char *method, const char *id, const char *result)
{
	struct told told;
	about(client, server, method, id, &told);
	struct fake_call *call = fake_call_at(-1);
	ck_assert_str_eq(call->method, method);
	ck_assert_uint_eq(call->client, client);
	ck_assert(call->options.this_process);
	if (strstr(result, "\"code\""))
		fake_reply(call, &(struct transport_reply){ .code = MCPD_E_SERVER,
							    .error = span_of(result),
							    .message = "MCP error",
							    .sent = true });
	else
		fake_result(call, result);
	ck_assert_uint_eq(told.done, 1);
	if (!told.code)
		ck_assert_str_eq(told.result, result);
}

static void notify(struct server *server, uint64_t owner, const char *method, const char *params)
{
	char *quoted = xasprintf("\"%s\"", method);
	memset(fix.wanted, 0, sizeof fix.wanted);
	fix.n_notified = 0;
	fake.callbacks->on_notification(fake.arg, server, owner, span_of(quoted), span_of(params));
	free(quoted);
}

START_TEST(a_task_is_its_clients_alone)
{
	struct server *server = begin(), *other = fake_add("other");
	static const char *const methods[] = { GET, RESULT, CANCEL, "\"tasks/update\"", "\"tasks/to-come\"" };
	fake_set_tasks(other);
	task(1, server, "\"t\\/1\"");
	for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
		expect_unknown(2, server, methods[i], "\"t/1\"");
		expect_unknown(1, server, methods[i], "\"t/2\"");
		expect_unknown(1, other, methods[i], "\"t/1\"");
		expect_sent(1, server, methods[i], "\"\\u0074/1\"", "{}");
	}
	/* About no task: the server's to answer. */
	struct told told;
	fix_request(2, server, GET, "{\"taskId\":7}", NULL, &told);
	ck_assert_str_eq(fake_call_at(-1)->method, GET);
	fix_request(2, server, GET, NULL, NULL, &told);
	ck_assert_str_eq(fake_call_at(-1)->method, GET);
	end();
}
END_TEST

START_TEST(what_is_no_task_is_none)
{
	struct server *server = begin(), *plain = fake_add("plain");
	struct told told;
	/* Not asked for. */
	fix_request(1, server, CALL, "{}", NULL, &told);
	fake_result(fake_call_at(-1), "{\"task\":{\"taskId\":\"a\",\"status\":\"working\"}}");
	expect_unknown(1, server, GET, "\"a\"");
	/* A server that has none. */
	become(1, plain, "\"a\"", "", &told);
	expect_unknown(1, plain, GET, "\"a\"");
	/* Failed. */
	fix_request(1, server, CALL, "{\"task\":{}}", NULL, &told);
	fake_fail(fake_call_at(-1), MCPD_E_TIMEOUT, "Request timeout after 1ms", true);
	/* Answered as ever. */
	fix_request(1, server, CALL, "{\"task\":{}}", NULL, &told);
	fake_result(fake_call_at(-1), "{\"content\":[]}");
	ck_assert_str_eq(told.result, "{\"content\":[]}");
	ck_assert(!fake_pinned(server));
	end();
}
END_TEST

START_TEST(modern_servers_make_tasks_as_they_like)
{
	struct server *server = begin();
	struct told told;
	fake_set_modern(server);
	fix_request(1, server, CALL, "{}", NULL, &told);
	fake_result(fake_call_at(-1),
		    "{\"resultType\":\"task\",\"taskId\":\"m\",\"status\":\"working\",\"ttlMs\":null}");
	expect_unknown(2, server, GET, "\"m\"");
	expect_sent(1, server, GET, "\"m\"", "{\"taskId\":\"m\",\"status\":\"input_required\",\"inputRequests\":{}}");
	expect_sent(1, server, "\"tasks/update\"", "\"m\"", "{}");
	notify(server, 0, "notifications/tasks", "{\"taskId\":\"m\",\"status\":\"working\"}");
	ck_assert(fix.wanted[1] && !fix.wanted[2]);
	ck_assert_uint_eq(fake_pinned(server), SERVER_PIN_TASKS);
	/* It says only that it has understood; nobody waits for the task any more. */
	expect_sent(1, server, CANCEL, "\"m\"", "{\"resultType\":\"complete\"}");
	ck_assert(!fake_pinned(server));
	/* The plain result of a tool that has a `task` of its own. */
	fix_request(1, server, CALL, "{\"task\":{}}", NULL, &told);
	fake_result(fake_call_at(-1),
		    "{\"resultType\":\"complete\",\"task\":{\"taskId\":\"x\",\"status\":\"working\"}}");
	expect_unknown(1, server, GET, "\"x\"");
	end();
}
END_TEST

START_TEST(lists_are_cut_to_the_clients_own)
{
	struct server *server = begin();
	struct told told;
	task(1, server, "\"a\"");
	task(2, server, "\"b\"");
	task(1, server, "\"c\"");
	static const struct {
		const char *result, *want[4]; /* by client */
	} cases[] = {
		{ "{\"tasks\": [{\"taskId\":\"a\",\"n\":1.0}, {\"taskId\":\"b\"} ,{ \"taskId\" : \"\\u0063\"}, "
		  "{\"taskId\":\"d\"}, {}, 7], \"nextCursor\":\"x\\/y\", \"_meta\":{\"k\":1e400}}",
		  { NULL,
		    "{\"tasks\": [{\"taskId\":\"a\",\"n\":1.0},{ \"taskId\" : \"\\u0063\"}], "
		    "\"nextCursor\":\"x\\/y\", \"_meta\":{\"k\":1e400}}",
		    "{\"tasks\": [{\"taskId\":\"b\"}], \"nextCursor\":\"x\\/y\", \"_meta\":{\"k\":1e400}}",
		    "{\"tasks\": [], \"nextCursor\":\"x\\/y\", \"_meta\":{\"k\":1e400}}" } },
		{ "{\"tasks\":[{\"taskId\":\"a\"}],\"x\":0,\"t\\u0061sks\":[{\"taskId\":\"b\"}]}",
		  { NULL, "{\"tasks\":[{\"taskId\":\"a\"}],\"x\":0,\"t\\u0061sks\":[]}",
		    "{\"tasks\":[],\"x\":0,\"t\\u0061sks\":[{\"taskId\":\"b\"}]}",
		    "{\"tasks\":[],\"x\":0,\"t\\u0061sks\":[]}" } },
		{ "{\"tasks\":{\"taskId\":\"a\"}}", { NULL, "{\"tasks\":[]}", "{\"tasks\":[]}", "{\"tasks\":[]}" } },
		{ "{}", { NULL, "{}", "{}", "{}" } },
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		for (uint64_t client = 1; client <= 3; client++) {
			fix_request(client, server, LIST, "{\"cursor\":\"c\"}", NULL, &told);
			ck_assert_str_eq(fake_call_at(-1)->params, "{\"cursor\":\"c\"}");
			fake_result(fake_call_at(-1), cases[i].result);
			ck_assert_str_eq(told.result, cases[i].want[client]);
		}
	}
	/* An error passes. */
	fix_request(1, server, LIST, NULL, NULL, &told);
	fake_fail(fake_call_at(-1), MCPD_E_SERVER, "MCP error -32601: no", true);
	ck_assert_int_eq(told.code, MCPD_E_SERVER);
	end();
}
END_TEST

START_TEST(notifications_about_a_task_are_for_its_client)
{
	struct server *server = begin();
	task(1, server, "\"a\"");
	notify(server, 0, STATUS, "{\"taskId\":\"\\u0061\",\"status\":\"working\"}");
	ck_assert(fix.wanted[1] && !fix.wanted[2] && !fix.wanted[3]);
	notify(server, 0, STATUS, "{\"taskId\":\"nobodys\",\"status\":\"working\"}");
	ck_assert_uint_eq(fix.n_notified, 0);
	notify(server, 0, "notifications/message",
	       "{\"level\":\"info\",\"data\":1,\"_meta\":{\"io.modelcontextprotocol/related-task\":{\"taskId\":\"a\"}}}");
	ck_assert(fix.wanted[1] && !fix.wanted[2]);
	notify(server, 0, "notifications/x",
	       "{\"_meta\":{\"io.modelcontextprotocol/related-task\":{\"taskId\":\"nobodys\"}}}");
	ck_assert(fix.wanted[1] && fix.wanted[2] && fix.wanted[3]);
	/* It is remembered behind its end, for its result. */
	notify(server, 0, STATUS, "{\"taskId\":\"a\",\"status\":\"completed\"}");
	ck_assert(fix.wanted[1] && !fix.wanted[2]);
	expect_sent(1, server, RESULT, "\"a\"", "{\"content\":[]}");
	expect_unknown(2, server, RESULT, "\"a\"");
	end();
}
END_TEST

START_TEST(progress_of_a_task_comes_with_its_clients_token)
{
	struct server *server = begin();
	struct told told;
	task(1, server, "\"a\"");
	fix_request(2, server, CALL, "{\"task\":{}}", NULL, &told);
	fake_result(fake_call_at(-1), "{\"task\":{\"taskId\":\"b\",\"status\":\"working\"}}");
	fake.callbacks->on_task_progress(fake.arg, server, 0, SPAN_LIT("\"\\u0061\""),
					 SPAN_LIT("{\"progressToken\":77,\"progress\":1.0}"));
	ck_assert_uint_eq(fix.task_progress.client, 1);
	ck_assert_str_eq(fix.task_progress.params, "{\"progressToken\":\"mine\",\"progress\":1.0}");
	/* Not asked for; not known; of another instance. */
	fake.callbacks->on_task_progress(fake.arg, server, 0, SPAN_LIT("\"b\""), SPAN_LIT("{\"progressToken\":78}"));
	fake.callbacks->on_task_progress(fake.arg, server, 0, SPAN_LIT("\"c\""), SPAN_LIT("{\"progressToken\":79}"));
	fake.callbacks->on_task_progress(fake.arg, server, 9, SPAN_LIT("\"a\""), SPAN_LIT("{\"progressToken\":77}"));
	ck_assert_uint_eq(fix.n_task_progress, 1);
	end();
}
END_TEST

START_TEST(an_idle_stop_waits_for_live_tasks)
{
	static const struct {
		const char *method, *result; /* a request, or else */
		const char *notification;
	} ends[] = {
		{ GET, "{\"taskId\":\"a\",\"status\":\"completed\"}", NULL },
		{ GET, "{\"code\":-32602,\"message\":\"expired\"}", NULL },
		{ RESULT, "{\"content\":[]}", NULL },
		{ RESULT, "{\"code\":-1,\"message\":\"the call's\"}", NULL },
		{ CANCEL, "{\"taskId\":\"a\",\"status\":\"cancelled\"}", NULL },
		{ NULL, NULL, "{\"taskId\":\"a\",\"status\":\"failed\"}" },
	};
	struct server *server = begin();
	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
		task(1, server, "\"a\"");
		task(2, server, "\"b\"");
		ck_assert_uint_eq(fake_pinned(server), SERVER_PIN_TASKS);
		expect_sent(1, server, GET, "\"a\"", "{\"taskId\":\"a\",\"status\":\"working\"}");
		expect_sent(1, server, GET, "\"a\"", "{\"code\":-32603,\"message\":\"not now\"}");
		if (ends[i].method)
			expect_sent(1, server, ends[i].method, "\"a\"", ends[i].result);
		else
			notify(server, 0, STATUS, ends[i].notification);
		ck_assert(fake_pinned(server));
		/* By somebody else's list, too. */
		struct told told;
		fix_request(3, server, LIST, NULL, NULL, &told);
		fake_result(fake_call_at(-1), "{\"tasks\":[{\"taskId\":\"b\",\"status\":\"cancelled\"}]}");
		ck_assert_str_eq(told.result, "{\"tasks\":[]}");
		ck_assert_msg(!fake_pinned(server), "case %zu", i);
	}
	end();
}
END_TEST

/* C5: a task ends with its client. */
START_TEST(C5_tasks_end_with_their_client)
{
	struct server *server = begin(), *own = fake_add("own");
	fake_set_tasks(own);
	fake_set_sharing(own, CONFIG_PER_CLIENT);
	task(1, server, "\"a\\u0041\"");
	task(1, server, "\"done\"");
	notify(server, 0, STATUS, "{\"taskId\":\"done\",\"status\":\"completed\"}");
	task(2, server, "\"b\"");
	task(1, own, "\"c\"");
	size_t before = fake.n_calls;
	router_client_gone(fix.router, 1);
	/* Its own process ends anyway. */
	ck_assert_uint_eq(fake.n_calls, before + 1);
	struct fake_call *call = fake_call_at(-1);
	ck_assert_ptr_eq(call->server, server);
	ck_assert_str_eq(call->method, CANCEL);
	ck_assert_str_eq(call->params, "{\"taskId\":\"a\\u0041\"}");
	ck_assert_uint_eq(call->client, 0);
	ck_assert(call->options.this_process);
	ck_assert(fake_pinned(server) && !fake_pinned(own));
	fake_result(call, "{\"taskId\":\"aA\",\"status\":\"cancelled\"}");
	notify(server, 0, STATUS, "{\"taskId\":\"aA\",\"status\":\"cancelled\"}");
	ck_assert_uint_eq(fix.n_notified, 0);
	router_client_gone(fix.router, 2);
	ck_assert_uint_eq(fake.n_calls, before + 2);
	ck_assert(!fake_pinned(server));
	router_client_gone(fix.router, 3);
	fix_end();
}
END_TEST

START_TEST(tasks_end_with_the_servers_process)
{
	struct server *server = begin();
	task(1, server, "\"a\"");
	fake.callbacks->on_reconnected(fake.arg, server, 0);
	expect_unknown(1, server, GET, "\"a\"");
	ck_assert(!fake_pinned(server));
	/* While there is none, nothing waits for the next: its ids mean something else. */
	task(1, server, "\"a\"");
	fake_set_state(server, SERVER_RECONNECTING);
	expect_unknown(1, server, GET, "\"a\"");
	fake_set_state(server, SERVER_CONNECTED);
	expect_unknown(1, server, GET, "\"a\"");
	/* Another client's process is another one. */
	fake_set_sharing(server, CONFIG_PER_CLIENT);
	task(1, server, "\"a\"");
	task(2, server, "\"a\"");
	fake.callbacks->on_reconnected(fake.arg, server, 2);
	expect_unknown(2, server, GET, "\"a\"");
	expect_sent(1, server, GET, "\"a\"", "{\"taskId\":\"a\",\"status\":\"working\"}");
	notify(server, 1, STATUS, "{\"taskId\":\"a\",\"status\":\"working\"}");
	ck_assert(fix.wanted[1] && !fix.wanted[2]);
	fake_remove(server);
	end();
}
END_TEST

START_TEST(release_forgets_the_tasks)
{
	struct server *server = begin();
	fake_set_sharing(server, CONFIG_EXCLUSIVE);
	fake_set_holder(server, 1);
	task(1, server, "\"a\"");
	ck_assert_int_eq(router_release(fix.router, 1, server), 0);
	expect_unknown(1, server, GET, "\"a\"");
	end();
}
END_TEST

START_TEST(an_id_that_is_used_again_is_the_newer_tasks)
{
	struct server *server = begin();
	task(1, server, "\"1\"");
	task(2, server, "\"1\"");
	expect_unknown(1, server, GET, "\"1\"");
	expect_sent(2, server, GET, "\"1\"", "{\"taskId\":\"1\",\"status\":\"working\"}");
	ck_assert_ptr_null(router_task_server(fix.router, 1, SPAN_LIT("\"1\"")));
	end();
}
END_TEST

START_TEST(the_server_of_a_task_is_known)
{
	struct server *server = begin(), *other = fake_add("other");
	fake_set_tasks(other);
	task(1, server, "\"a\"");
	task(1, other, "\"b\"");
	task(2, other, "\"a\"");
	ck_assert_ptr_eq(router_task_server(fix.router, 1, SPAN_LIT("\"a\"")), server);
	ck_assert_ptr_eq(router_task_server(fix.router, 1, SPAN_LIT("\"\\u0062\"")), other);
	ck_assert_ptr_eq(router_task_server(fix.router, 2, SPAN_LIT("\"a\"")), other);
	ck_assert_ptr_null(router_task_server(fix.router, 2, SPAN_LIT("\"b\"")));
	ck_assert_ptr_null(router_task_server(fix.router, 3, SPAN_LIT("\"a\"")));
	/* Two servers with one id: it is not guessed which is meant. */
	task(1, other, "\"a\"");
	ck_assert_ptr_null(router_task_server(fix.router, 1, SPAN_LIT("\"a\"")));
	end();
}
END_TEST

START_TEST(tasks_are_bounded)
{
	struct server *server = begin();
	struct told told;
	fake.config.limits.value[LIMIT_TASKS] = 3;
	task(1, server, "\"a\"");
	task(1, server, "\"b\"");
	task(1, server, "\"c\"");
	/* All live: a further one is not even asked for. */
	size_t before = fake.n_calls;
	fix_request(1, server, CALL, "{\"task\":{}}", NULL, &told);
	fix_settle();
	ck_assert_uint_eq(fake.n_calls, before);
	ck_assert_int_eq(told.code, MCPD_E_LIMIT);
	ck_assert_ptr_nonnull(strstr(told.message, "maxTasksPerClient"));
	/* What asks for none, and other clients, are not concerned. */
	fix_request(1, server, CALL, "{}", NULL, &told);
	ck_assert_uint_eq(fake.n_calls, before + 1);
	task(2, server, "\"x\"");
	/* The oldest that has ended makes room. */
	notify(server, 0, STATUS, "{\"taskId\":\"c\",\"status\":\"completed\"}");
	notify(server, 0, STATUS, "{\"taskId\":\"b\",\"status\":\"completed\"}");
	task(1, server, "\"d\"");
	expect_unknown(1, server, RESULT, "\"b\"");
	expect_sent(1, server, RESULT, "\"c\"", "{}");
	/* Several at once: they have been sent when there is no more room. */
	fix_request(1, server, CALL, "{\"task\":{}}", NULL, &told);
	struct fake_call *first = fake_call_at(-1);
	struct told second_told;
	fix_request(1, server, CALL, "{\"task\":{}}", NULL, &second_told);
	struct fake_call *second = fake_call_at(-1);
	fake_result(first, "{\"task\":{\"taskId\":\"e\",\"status\":\"working\"}}");
	ck_assert_int_eq(told.code, 0);
	fake_result(second, "{\"task\":{\"taskId\":\"f\",\"status\":\"working\"}}");
	ck_assert_int_eq(second_told.code, MCPD_E_LIMIT);
	ck_assert_str_eq(fake_call_at(-1)->method, CANCEL);
	ck_assert_str_eq(fake_call_at(-1)->params, "{\"taskId\":\"f\"}");
	expect_unknown(1, server, GET, "\"f\"");
	end();
}
END_TEST

START_TEST(a_task_is_forgotten_behind_its_ttl)
{
	struct server *server = begin();
	struct task_table *table = task_table_new(fix.loop, fix.manager, 50);
	static const int64_t ttls[] = { 100, 0, INT64_MAX, -1, 400 };
	char id[8];
	for (size_t i = 0; i < sizeof ttls / sizeof ttls[0]; i++) {
		snprintf(id, sizeof id, "\"%zu\"", i);
		struct task_told told = { span_of(id), false, ttls[i] };
		ck_assert_ptr_nonnull(task_table_add(table, 1, server_id(server), 0, &told, SPAN_LIT("7")));
	}
	int64_t begun_ms = loop_now_ms();
	/* What the server says of it anew moves its end. */
	struct task_told later = { SPAN_LIT("\"1\""), false, 200 };
	task_table_note(table, task_table_find(table, server_id(server), 0, later.id), &later);
	static const struct {
		size_t i;
		int64_t ms;
	} ends[] = { { 0, 150 }, { 1, 250 }, { 4, 450 } };
	for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
		snprintf(id, sizeof id, "\"%zu\"", ends[i].i);
		while (task_table_find(table, server_id(server), 0, span_of(id)))
			loop_once(fix.loop, 50);
		ck_assert_int_ge(loop_now_ms() - begun_ms, ends[i].ms);
	}
	ck_assert(fake_pinned(server));
	task_table_forget(table, task_table_find(table, server_id(server), 0, SPAN_LIT("\"2\"")));
	struct task_entry *last = task_table_first(table, 1);
	ck_assert(span_is(last->id, "\"3\"") && span_is(last->token, "7"));
	/* One that has ended is no reason to wait, and one that is forgotten neither. */
	task_table_note(table, last, &(struct task_told){ .id = last->id, .over = true, .ttl_ms = -1 });
	ck_assert(!fake_pinned(server));
	task_table_forget(table, last);
	ck_assert_ptr_null(task_table_first(table, 1));
	task_table_free(table);
	end();
}
END_TEST

/* ARCHITECTURE "Sharing": what names a live task is that client's to answer. */
START_TEST(a_question_with_a_task_goes_to_its_client)
{
	struct server *server = begin();
	fake_ask(server, 7, "\"sampling/createMessage\"", "{}", MCP_PROOF_TASK, 2, 0, false);
	ck_assert_uint_eq(fix.n_asked, 1);
	ck_assert_uint_eq(fix.asked[0].client, 2);
	ck_assert_int_eq(router_answer(fix.router, 2, 7, SPAN_LIT("{}"), SPAN_NONE), 0);
	end();
}
END_TEST

int main(void)
{
	return RUN_TESTS("tasks", a_task_is_its_clients_alone, what_is_no_task_is_none,
			 modern_servers_make_tasks_as_they_like, lists_are_cut_to_the_clients_own,
			 notifications_about_a_task_are_for_its_client, progress_of_a_task_comes_with_its_clients_token,
			 an_idle_stop_waits_for_live_tasks, C5_tasks_end_with_their_client,
			 tasks_end_with_the_servers_process, release_forgets_the_tasks,
			 an_id_that_is_used_again_is_the_newer_tasks, the_server_of_a_task_is_known, tasks_are_bounded,
			 a_task_is_forgotten_behind_its_ttl, a_question_with_a_task_goes_to_its_client);
}
