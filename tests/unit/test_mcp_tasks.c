/* mcp_client: calls that become tasks, with servers of either era: what messages say of them, whose questions are
 * proven by them, whose progress goes on. */
#include <errno.h>

#include "mcp/calls.h"
#include "mcp_fixture.h"
#include "proto/json_iter.h"
#include "run.h"

#define RELATED(id) "{\"_meta\":{\"io.modelcontextprotocol/related-task\":{\"taskId\":" id "}}}"

/* --- messages --- */

static void add(void *arg, const struct task_told *told)
{
	buf_addf(arg, "%.*s %s %lld; ", (int)told->id.len, told->id.ptr, told->over ? "over" : "live",
		 (long long)told->ttl_ms);
}

START_TEST(what_answers_say_of_tasks)
{
	static const struct {
		const char *method, *result, *error, *want;
	} cases[] = {
		{ "tasks/get", "{\"taskId\":\"a\",\"status\":\"working\",\"ttl\":60000}", NULL, "\"a\" live 60000; " },
		{ "tasks/get", "{\"status\":\"input_required\",\"ttlMs\":5}", NULL, "\"a\" live 5; " },
		{ "tasks/get", "{\"taskId\":\"a\",\"status\":\"failed\",\"ttl\":null}", NULL, "\"a\" over -1; " },
		{ "tasks/get", "{\"taskId\":\"a\",\"status\":\"completed\",\"ttl\":-7}", NULL, "\"a\" over -1; " },
		{ "tasks/get", "{}", NULL, "" },
		{ "tasks/get", NULL, "{\"code\":-32602,\"message\":\"no such task\"}", "\"a\" over -1; " },
		{ "tasks/get", NULL, "{\"code\":-32603,\"message\":\"not now\"}", "" },
		{ "tasks/cancel", "{\"taskId\":\"a\",\"status\":\"cancelled\"}", NULL, "\"a\" over -1; " },
		{ "tasks/cancel", "{\"resultType\":\"complete\"}", NULL, "" },
		{ "tasks/cancel", NULL, "{\"code\":-32602,\"message\":\"it has ended\"}", "\"a\" over -1; " },
		{ "tasks/cancel", NULL, "{\"code\":-32601,\"message\":\"?\"}", "" },
		{ "tasks/result", "{\"content\":[]}", NULL, "\"a\" over -1; " },
		{ "tasks/result", NULL, "{\"code\":1,\"message\":\"the call's own\"}", "\"a\" over -1; " },
		{ "tasks/list",
		  "{\"tasks\":[{\"taskId\":\"b\",\"status\":\"working\"},{},7,{\"taskId\":\"c\",\"status\":"
		  "\"cancelled\"}]}",
		  NULL, "\"b\" live -1; \"c\" over -1; " },
		{ "tasks/list", "{\"tasks\":7}", NULL, "" },
		{ "tasks/update", "{}", NULL, "" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct buf got = BUF_INIT;
		char *method = xasprintf("\"%s\"", cases[i].method);
		struct transport_reply reply = {
			.code = cases[i].error ? MCPD_E_SERVER : 0,
			.result = span_of(cases[i].result),
			.error = span_of(cases[i].error),
		};
		task_walk_answer(task_method_of(span_of(method)), SPAN_LIT("\"a\""), &reply, add, &got);
		ck_assert_msg(span_is(buf_span(&got), cases[i].want), "case %zu: %.*s", i, (int)got.len,
			      buf_span(&got).ptr);
		/* What did not come from the server says nothing. */
		buf_reset(&got);
		reply = (struct transport_reply){ .code = MCPD_E_TIMEOUT };
		task_walk_answer(task_method_of(span_of(method)), SPAN_LIT("\"a\""), &reply, add, &got);
		ck_assert_uint_eq(got.len, 0);
		buf_done(&got);
		free(method);
	}
}
END_TEST

START_TEST(which_methods_and_messages_are_about_tasks)
{
	struct task_told told;
	ck_assert_int_eq(task_method_of(SPAN_LIT("\"tasks/get\"")), TASK_METHOD_GET);
	ck_assert_int_eq(task_method_of(SPAN_LIT("\"t\\u0061sks\\/list\"")), TASK_METHOD_LIST);
	ck_assert_int_eq(task_method_of(SPAN_LIT("\"tasks/update\"")), TASK_METHOD_OTHER);
	ck_assert_int_eq(task_method_of(SPAN_LIT("\"tasks\\/x\"")), TASK_METHOD_OTHER);
	ck_assert_int_eq(task_method_of(SPAN_LIT("\"tasks\"")), TASK_METHOD_NONE);
	ck_assert_int_eq(task_method_of(SPAN_LIT("\"tools/call\"")), TASK_METHOD_NONE);
	ck_assert_int_eq(task_method_of(SPAN_LIT("\"\\\\\"")), TASK_METHOD_NONE);
	/* A task is told in another place in each era, and what the other era means by it is a plain result. */
	ck_assert(task_of_result(false, SPAN_LIT("{\"task\":{\"taskId\":\"x\",\"status\":\"working\"}}"), &told));
	ck_assert(span_is(told.id, "\"x\"") && !told.over);
	ck_assert(task_of_result(true, SPAN_LIT("{\"resultType\":\"task\",\"taskId\":\"y\",\"status\":\"failed\"}"),
				 &told));
	ck_assert(span_is(told.id, "\"y\"") && told.over);
	ck_assert(!task_of_result(true, SPAN_LIT("{\"resultType\":\"complete\",\"task\":{\"taskId\":\"x\"}}"), &told));
	ck_assert(!task_of_result(false, SPAN_LIT("{\"resultType\":\"task\",\"taskId\":\"y\"}"), &told));
	ck_assert(!task_of_result(false, SPAN_LIT("{\"task\":{\"taskId\":7}}"), &told));
	ck_assert(!task_of_result(false, SPAN_LIT("[]"), &told));
	ck_assert(task_of_notification(SPAN_LIT("\"notifications/tasks/status\""), SPAN_LIT("{\"taskId\":\"x\"}"),
				       &told));
	ck_assert(task_of_notification(SPAN_LIT("\"notifications/tasks\""), SPAN_LIT("{\"taskId\":\"x\"}"), &told));
	ck_assert(!task_of_notification(SPAN_LIT("\"notifications/tasks\""), SPAN_NONE, &told));
	ck_assert(!task_of_notification(SPAN_LIT("\"notifications/x\""), SPAN_LIT("{\"taskId\":\"x\"}"), &told));
	ck_assert(span_is(task_related(SPAN_LIT(RELATED("\"x\""))), "\"x\""));
	ck_assert_ptr_null(task_related(SPAN_LIT(RELATED("7"))).ptr);
	ck_assert_ptr_null(task_related(SPAN_NONE).ptr);
}
END_TEST

/* --- a connection's --- */

static struct fake_sent *last(struct fixture *f, const char *method)
{
	struct fake_sent *sent = fake_last(f->fake, method);
	ck_assert_msg(sent != NULL, "no %s was sent", method);
	return sent;
}

/* A call of the owner's that becomes the task. Returns the token that the server was given. */
static char *become_task(struct fixture *f, uint64_t owner, const char *id, const char *more)
{
	struct outcome o;
	bool modern = mcp_client_facts(f->client)->era == MCP_ERA_MODERN;
	call_with(f, &o, "call", "tools/call", modern ? "{\"name\":\"t\"}" : "{\"name\":\"t\",\"task\":{}}",
		  (struct mcp_call_options){ .owner = owner, .timeout_ms = -1, .want_progress = true });
	struct fake_sent *sent = last(f, "tools/call");
	struct span token = json_path(span_of(sent->params), "_meta", "progressToken", NULL);
	char *copy = xstrndup(token.ptr, token.len);
	char *result = xasprintf(modern ? "{\"resultType\":\"task\",\"taskId\":%s,\"status\":\"working\"%s}" :
					  "{\"task\":{\"taskId\":%s,\"status\":\"working\"%s}}",
				 id, more);
	fake_answer(f->fake, sent, result);
	assert_text(o.result, result);
	free(result);
	outcome_free(&o);
	buf_reset(&f->diary);
	return copy;
}

static void task(struct fixture *f, uint64_t owner, const char *id)
{
	free(become_task(f, owner, id, ""));
}

static const char *ask(struct fixture *f, const char *params)
{
	static char said[128];
	buf_reset(&f->diary);
	fake_request(f->fake, "1", "sampling/createMessage", params, NULL);
	const char *told = diary(f), *proof = strstr(told, params);
	ck_assert_msg(proof != NULL, "%s", told);
	snprintf(said, sizeof said, "%s", proof + strlen(params) + 1);
	mcp_client_answer(f->client, f->question, SPAN_LIT("{}"), SPAN_NONE);
	return said;
}

/* A request about a task, and its answer. */
static void request(struct fixture *f, uint64_t owner, const char *method, const char *id, const char *result)
{
	struct outcome o;
	char *params = xasprintf("{\"taskId\":%s}", id);
	call_with(f, &o, "request", method, params, (struct mcp_call_options){ .owner = owner, .timeout_ms = -1 });
	if (strstr(result, "\"code\""))
		fake_error(f->fake, last(f, method), result);
	else
		fake_answer(f->fake, last(f, method), result);
	outcome_free(&o);
	free(params);
}

/* ARCHITECTURE "Sharing": a live task is a request in flight of its client. */
START_TEST(a_live_task_counts_for_proofs)
{
	struct fixture f;
	struct outcome other;
	fixture_legacy(&f, TRANSPORT_STDIO);
	task(&f, 7, "\"t1\"");
	assert_text(ask(&f, "{}"), "sole-owner owner 7 call 0\n");
	/* Another client's call beside it: what names the task is the task's, what names none is nobody's. */
	call_with(&f, &other, "other", "tools/call", "{}", (struct mcp_call_options){ .owner = 8, .timeout_ms = -1 });
	assert_text(ask(&f, "{}"), "none owner 0 call 0\n");
	assert_text(ask(&f, RELATED("\"t1\"")), "task owner 7 call 0\n");
	assert_text(ask(&f, RELATED("\"t\\u0031\"")), "task owner 7 call 0\n");
	assert_text(ask(&f, RELATED("\"t2\"")), "none owner 0 call 0\n");
	/* A stream says more than a name. */
	fake_request(f.fake, "5", "roots/list", RELATED("\"t1\""), last(&f, "tools/call"));
	ck_assert_ptr_nonnull(strstr(diary(&f), " stream owner 8 "));
	fake_answer(f.fake, last(&f, "tools/call"), "{}");
	outcome_free(&other);
	task(&f, 8, "\"t2\"");
	assert_text(ask(&f, "{}"), "none owner 0 call 0\n");
	assert_text(ask(&f, RELATED("\"t2\"")), "task owner 8 call 0\n");
	fake_notification(f.fake, "notifications/tasks/status", "{\"taskId\":\"t2\",\"status\":\"completed\"}");
	assert_text(ask(&f, "{}"), "sole-owner owner 7 call 0\n");
	assert_text(ask(&f, RELATED("\"t2\"")), "sole-owner owner 7 call 0\n");
	buf_reset(&f.diary);
	fixture_done(&f);
}
END_TEST

/* A question may come before the answer that says which task the call has become. */
START_TEST(a_task_that_is_being_made_counts_for_proofs)
{
	struct fixture f;
	struct outcome making, other, also;
	struct mcp_call_options options = { .owner = 7, .timeout_ms = -1 };
	fixture_legacy(&f, TRANSPORT_STDIO);
	call_with(&f, &making, "making", "tools/call", "{\"task\":{}}", options);
	struct fake_sent *sent_making = last(&f, "tools/call");
	options.owner = 8;
	call_with(&f, &other, "other", "tools/call", "{}", options);
	struct fake_sent *sent_other = last(&f, "tools/call");
	assert_text(ask(&f, "{}"), "none owner 0 call 0\n");
	assert_text(ask(&f, RELATED("\"new\"")), "task owner 7 call 0\n");
	/* Whoever has given up waiting for it may be meant all the same. */
	fake_time_out(f.fake, sent_making);
	assert_text(ask(&f, RELATED("\"new\"")), "task owner 7 call 0\n");
	call_with(&f, &also, "also", "tools/call", "{\"task\":{}}", options);
	assert_text(ask(&f, RELATED("\"new\"")), "none owner 0 call 0\n");
	fake_answer(f.fake, last(&f, "tools/call"), "{\"task\":{\"taskId\":\"new\",\"status\":\"working\"}}");
	assert_text(ask(&f, RELATED("\"new\"")), "task owner 8 call 0\n");
	fake_late_answer(f.fake, sent_making);
	fake_answer(f.fake, sent_other, "{}");
	outcome_free(&making), outcome_free(&other), outcome_free(&also);
	buf_reset(&f.diary);
	fixture_done(&f);
}
END_TEST

START_TEST(a_task_ends_with_what_is_said_of_it)
{
	static const struct {
		const char *method, *result;
		bool over;
	} cases[] = {
		{ "tasks/get", "{\"taskId\":\"t\",\"status\":\"working\"}", false },
		{ "tasks/get", "{\"taskId\":\"t\",\"status\":\"completed\"}", true },
		{ "tasks/result", "{\"content\":[]}", true },
		{ "tasks/result", "{\"code\":-32000,\"message\":\"it failed\"}", true },
		{ "tasks/cancel", "{\"taskId\":\"t\",\"status\":\"cancelled\"}", true },
		{ "tasks/cancel", "{\"code\":-32601,\"message\":\"no\"}", false },
		{ "tasks/list", "{\"tasks\":[{\"taskId\":\"x\"},{\"taskId\":\"t\",\"status\":\"failed\"}]}", true },
		{ "tools/list", "{\"taskId\":\"t\",\"status\":\"completed\"}", false },
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct fixture f;
		fixture_legacy(&f, TRANSPORT_STDIO);
		task(&f, 7, "\"t\"");
		request(&f, 7, cases[i].method, "\"\\u0074\"", cases[i].result);
		ck_assert_msg(!strcmp(ask(&f, "{}"),
				      cases[i].over ? "no-call owner 0 call 0\n" : "sole-owner owner 7 call 0\n"),
			      "case %zu", i);
		buf_reset(&f.diary);
		fixture_done(&f);
	}
}
END_TEST

START_TEST(what_is_no_task_does_not_count)
{
	struct fixture f;
	struct outcome o;
	fixture_legacy(&f, TRANSPORT_STDIO);
	/* Not asked for, or nothing that tells of one, or one that has ended by then. */
	static const char *const calls[][2] = {
		{ "{}", "{\"task\":{\"taskId\":\"x\",\"status\":\"working\"}}" },
		{ "{\"task\":{}}", "{\"content\":[]}" },
		{ "{\"task\":{}}", "{\"task\":{\"taskId\":\"x\",\"status\":\"completed\"}}" },
	};
	for (size_t i = 0; i < 3; i++) {
		call_with(&f, &o, "call", "tools/call", calls[i][0],
			  (struct mcp_call_options){ .owner = 7, .timeout_ms = -1 });
		fake_answer(f.fake, last(&f, "tools/call"), calls[i][1]);
		outcome_free(&o);
		assert_text(ask(&f, "{}"), "no-call owner 0 call 0\n");
	}
	/* Its id is used again, by a call of somebody else. */
	task(&f, 7, "\"x\"");
	task(&f, 8, "\"x\"");
	assert_text(ask(&f, RELATED("\"x\"")), "task owner 8 call 0\n");
	assert_text(ask(&f, "{}"), "sole-owner owner 8 call 0\n");
	/* The daemon's own word to end it makes no server ask. */
	struct outcome cancel;
	call_with(&f, &cancel, "cancel", "tasks/cancel", "{\"taskId\":\"x\"}", (struct mcp_call_options){ .owner = 0 });
	assert_text(ask(&f, "{}"), "sole-owner owner 8 call 0\n");
	fake_answer(f.fake, last(&f, "tasks/cancel"), "{\"taskId\":\"x\",\"status\":\"cancelled\"}");
	outcome_free(&cancel);
	buf_reset(&f.diary);
	fixture_done(&f);
}
END_TEST

/* 2025-11-25 "Tasks": the progress token is good until the task's end. */
START_TEST(progress_goes_on_until_the_tasks_end)
{
	for (int modern = 0; modern < 2; modern++) {
		struct fixture f;
		if (modern)
			fixture_modern(&f, TRANSPORT_STDIO);
		else
			fixture_legacy(&f, TRANSPORT_STDIO);
		char *token = become_task(&f, 7, "\"t\\/1\"", ",\"ttl\":5");
		char *params = xasprintf("{\"progressToken\":%s,\"progress\":1.50}", token);
		char *want = xasprintf("task \"t\\/1\" progress %s\n", params);
		fake_notification(f.fake, "notifications/progress", params);
		assert_text(diary(&f), want);
		fake_notification(f.fake, "notifications/progress", "{\"progressToken\":4711,\"progress\":1}");
		assert_text(diary(&f), "");
		fake_notification(f.fake, modern ? "notifications/tasks" : "notifications/tasks/status",
				  "{\"taskId\":\"t/1\",\"status\":\"cancelled\"}");
		diary(&f);
		fake_notification(f.fake, "notifications/progress", params);
		assert_text(diary(&f), "");
		free(want);
		free(params);
		free(token);
		fixture_done(&f);
	}
}
END_TEST

static struct task_told told_of(const char *id, int64_t ttl_ms)
{
	return (struct task_told){ .id = span_of(id), .ttl_ms = ttl_ms };
}

START_TEST(tasks_are_bounded_in_number_and_in_time)
{
	struct server_tasks tasks = { 0 };
	struct task_told told = told_of("\"short\"", 0);
	ck_assert_int_eq(server_tasks_add(&tasks, &told, 1, 7, false), 0);
	tasks.first->until_ms -= TASK_GRACE_MS + 1;
	ck_assert_ptr_null(server_tasks_find(&tasks, SPAN_LIT("\"short\"")));
	ck_assert_uint_eq(tasks.n, 0);
	/* What is said of it anew moves its end; a cancellation that changes nothing sets one. */
	told = told_of("\"long\"", 1000000);
	ck_assert_int_eq(server_tasks_add(&tasks, &told, 1, 7, false), 0);
	int64_t until = tasks.first->until_ms;
	ck_assert_int_gt(until, loop_now_ms() + 900000);
	told = told_of("\"l\\u006fng\"", 2000000);
	server_tasks_note(&tasks, &told);
	ck_assert_int_gt(tasks.first->until_ms, until + 900000);
	told.ttl_ms = -1;
	server_tasks_note(&tasks, &told);
	ck_assert_int_gt(tasks.first->until_ms, until + 900000);
	server_tasks_cancelled(&tasks, SPAN_LIT("\"long\""));
	ck_assert_int_le(tasks.first->until_ms, loop_now_ms() + TASK_GRACE_MS);
	told = told_of("\"endless\"", INT64_MAX);
	ck_assert_int_eq(server_tasks_add(&tasks, &told, 1, 7, false), 0);
	ck_assert_int_eq(tasks.first->until_ms, 0);
	while (tasks.n < TASKS_MAX) {
		char id[16];
		snprintf(id, sizeof id, "\"%zu\"", tasks.n);
		told = told_of(id, -1);
		ck_assert_int_eq(server_tasks_add(&tasks, &told, 1, 7, false), 0);
	}
	ck_assert(!tasks.overflow);
	/* From here on nothing is proven by counting. */
	struct loop *loop = loop_new();
	struct call_table table;
	uint64_t owner, call;
	call_table_init(&table, loop);
	told = told_of("\"one more\"", -1);
	ck_assert_int_eq(call_table_prove(&table, &tasks, 0, SPAN_NONE, &owner, &call), MCP_PROOF_SOLE_OWNER);
	ck_assert_int_eq(server_tasks_add(&tasks, &told, 1, 8, false), -ENOMEM);
	ck_assert_int_eq(call_table_prove(&table, &tasks, 0, SPAN_NONE, &owner, &call), MCP_PROOF_NONE);
	ck_assert_int_eq(call_table_prove(&table, &tasks, 0, SPAN_LIT("\"long\""), &owner, &call), MCP_PROOF_TASK);
	call_table_done(&table);
	loop_free(loop);
	server_tasks_done(&tasks);
}
END_TEST

int main(void)
{
	return RUN_TESTS("mcp_tasks", what_answers_say_of_tasks, which_methods_and_messages_are_about_tasks,
			 a_live_task_counts_for_proofs, a_task_that_is_being_made_counts_for_proofs,
			 a_task_ends_with_what_is_said_of_it, what_is_no_task_does_not_count,
			 progress_goes_on_until_the_tasks_end, tasks_are_bounded_in_number_and_in_time);
}
