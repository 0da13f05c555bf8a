/* Rows of calls, questions from servers, logging levels: the router over a manager that does as told. */
#include "idmap.h"
#include "router_fixture.h"
#include "run.h"

#define CALL "\"tools/call\""

/* --- idmap --- */

START_TEST(idmap_finds_what_was_put_and_misses_what_was_removed)
{
	static int objects[3000];
	struct idmap map = { 0 };
	ck_assert_ptr_null(idmap_get(&map, 5));
	ck_assert_ptr_null(idmap_remove(&map, 5));
	for (uint64_t i = 1; i < 3000; i++)
		idmap_put(&map, i * 7, &objects[i]);
	for (uint64_t i = 1; i < 3000; i += 2)
		ck_assert_ptr_eq(idmap_remove(&map, i * 7), &objects[i]);
	for (uint64_t i = 1; i < 3000; i++)
		ck_assert_ptr_eq(idmap_get(&map, i * 7), i % 2 ? NULL : &objects[i]);
	size_t at = 0, seen = 0;
	while (idmap_next(&map, &at))
		seen++;
	ck_assert_uint_eq(seen, map.count);
	ck_assert_uint_eq(seen, 1499);
	idmap_done(&map);
}
END_TEST

/* --- rows --- */

START_TEST(an_answer_ends_the_row_once_and_reaches_its_asker)
{
	fix_begin();
	struct server *server = fake_add("s");
	struct told a, b;
	fix_client(1, NULL);
	fix_client(2, NULL);
	fix_request(1, server, CALL, "{\"name\":\"x\"}", NULL, &a);
	fix_request(2, server, CALL, "{\"name\":\"x\"}", NULL, &b);
	ck_assert_uint_eq(router_in_flight(fix.router), 2);
	fake_result(fake_call_at(1), "{\"n\":1.10}");
	ck_assert_uint_eq(a.done, 0);
	ck_assert_uint_eq(b.done, 1);
	ck_assert_str_eq(b.result, "{\"n\":1.10}");
	fake_result(fake_call_at(0), "{}");
	ck_assert_uint_eq(a.done, 1);
	ck_assert_uint_eq(fix.n_ended, 2);
	ck_assert_uint_eq(router_in_flight(fix.router), 0);
	router_client_gone(fix.router, 1);
	router_client_gone(fix.router, 2);
	fix_end();
}
END_TEST

/* R21: each asker gets its own token back, whatever the server was given. */
START_TEST(R21_progress_carries_the_askers_own_token)
{
	fix_begin();
	struct server *server = fake_add("s");
	struct told a, b, c;
	fix_client(1, NULL);
	fix_client(2, NULL);
	fix_request(1, server, CALL, "{}", "1", &a);
	fix_request(2, server, CALL, "{}", "\"1\\u0041\"", &b);
	fix_request(2, server, CALL, "{}", NULL, &c);
	ck_assert(fake_call_at(0)->options.want_progress);
	ck_assert(!fake_call_at(2)->options.want_progress);
	struct fake_call *call = fake_call_at(0);
	call->options.progress(call->options.arg,
			       SPAN_LIT("{\"progressToken\":\"up-7\",\"progress\":1.0,\"total\":3}"));
	ck_assert_str_eq(a.progress, "{\"progressToken\":1,\"progress\":1.0,\"total\":3}");
	ck_assert_uint_eq(b.progressed, 0);
	call = fake_call_at(1);
	call->options.progress(call->options.arg, SPAN_LIT("{ \"progress\":2, \"progressToken\" : \"up-8\" }"));
	ck_assert_str_eq(b.progress, "{ \"progress\":2, \"progressToken\" : \"1\\u0041\" }");
	ck_assert_uint_eq(a.progressed, 1);
	call = fake_call_at(2);
	call->options.progress(call->options.arg, SPAN_LIT("{\"progressToken\":\"up-9\",\"progress\":1}"));
	ck_assert_uint_eq(c.progressed, 0);
	for (int i = 0; i < 3; i++)
		fake_result(fake_call_at(i), "{}");
	router_client_gone(fix.router, 1);
	router_client_gone(fix.router, 2);
	fix_end();
}
END_TEST

/* R22: a cancellation reaches the one call it is for. */
START_TEST(R22_cancel_goes_to_the_one_call)
{
	fix_begin();
	struct server *server = fake_add("s");
	struct told a, b;
	fix_client(1, NULL);
	fix_request(1, server, CALL, "{}", NULL, &a);
	fix_request(1, server, CALL, "{}", NULL, &b);
	router_cancel(fix.router, b.row, "no longer");
	router_cancel(fix.router, 4711, "unknown");
	ck_assert_ptr_null(fake_call_at(0)->cancelled);
	ck_assert_str_eq(fake_call_at(1)->cancelled, "no longer");
	fake_fail(fake_call_at(1), MCPD_E_CANCELLED, "no longer", true);
	ck_assert_int_eq(b.code, MCPD_E_CANCELLED);
	ck_assert_uint_eq(b.done, 1);
	router_cancel(fix.router, b.row, "too late");
	fake_result(fake_call_at(0), "{}");
	router_client_gone(fix.router, 1);
	fix_end();
}
END_TEST

/* PITFALLS "Lifetimes" 7: the late answer of a client that has gone is dropped. */
START_TEST(a_client_that_goes_leaves_tombstones)
{
	fix_begin();
	struct server *server = fake_add("s");
	struct told a, b, other;
	fix_client(1, NULL);
	fix_client(2, NULL);
	fix_request(1, server, CALL, "{}", "5", &a);
	fix_request(1, server, CALL, "{}", NULL, &b);
	fix_request(2, server, CALL, "{}", NULL, &other);
	router_client_gone(fix.router, 1);
	ck_assert_uint_eq(fake.gone[0], 1);
	ck_assert_ptr_nonnull(fake_call_at(0)->cancelled);
	ck_assert_ptr_nonnull(fake_call_at(1)->cancelled);
	ck_assert_ptr_null(fake_call_at(2)->cancelled);
	ck_assert_uint_eq(router_in_flight(fix.router), 1);
	struct fake_call *call = fake_call_at(0);
	call->options.progress(call->options.arg, SPAN_LIT("{\"progressToken\":1,\"progress\":1}"));
	call->options.queued(call->options.arg, 2);
	fake_result(call, "{}");
	fake_fail(fake_call_at(1), MCPD_E_CANCELLED, "gone", true);
	ck_assert_uint_eq(a.done + b.done + a.progressed, 0);
	ck_assert_uint_eq(fix.n_ended, 2);
	fake_result(fake_call_at(2), "{}");
	ck_assert_uint_eq(other.done, 1);
	router_client_gone(fix.router, 2);
	fix_end();
}
END_TEST

START_TEST(a_place_in_the_queue_is_told_as_progress_below_zero)
{
	fix_begin();
	struct server *server = fake_add("browser");
	struct told a;
	fix_client(1, NULL);
	fix_request(1, server, CALL, "{}", "\"t\"", &a);
	struct fake_call *call = fake_call_at(0);
	call->options.queued(call->options.arg, 2);
	ck_assert_str_eq(a.progress,
			 "{\"progressToken\":\"t\",\"progress\":-2,\"message\":\"waiting for browser: place 2 in the "
			 "queue\"}");
	call->options.queued(call->options.arg, 1);
	ck_assert_str_eq(a.progress,
			 "{\"progressToken\":\"t\",\"progress\":-1,\"message\":\"waiting for browser: next in turn\"}");
	fake_fail(call, MCPD_E_TIMEOUT, "Request timeout after 5ms", false);
	ck_assert_uint_eq(a.queue_position, 1);
	router_client_gone(fix.router, 1);
	fix_end();
}
END_TEST

START_TEST(a_call_sent_again_says_so)
{
	fix_begin();
	struct told a;
	fix_client(1, NULL);
	fix_request(1, fake_add("s"), CALL, "{}", NULL, &a);
	struct fake_call *call = fake_call_at(0);
	call->options.resent(call->options.arg);
	fake_result(call, "{}");
	ck_assert(a.resent);
	router_client_gone(fix.router, 1);
	fix_end();
}
END_TEST

/* --- clients --- */

START_TEST(labels_are_unique_and_harmless)
{
	fix_begin();
	fix_client(7, NULL);
	ck_assert_str_eq(router_client_label(fix.router, 7), "#7");
	ck_assert_int_eq(router_client_describe(fix.router, 7, SPAN_LIT("\"a\\nb\""), SPAN_NONE), 0);
	ck_assert_str_eq(router_client_label(fix.router, 7), "a b#7");
	ck_assert_str_eq(router_client_label(fix.router, 8), "");
	char name[300];
	snprintf(name, sizeof name, "\"%0*d\\u00e9\"", 63, 0);
	ck_assert_int_eq(router_client_describe(fix.router, 7, span_of(name), SPAN_NONE), 0);
	ck_assert_uint_eq(strlen(router_client_label(fix.router, 7)), 63 + 2); /* é would have been cut in two */
	router_client_gone(fix.router, 7);
	fix_end();
}
END_TEST

START_TEST(capabilities_are_asked_of_the_router)
{
	fix_begin();
	fix_client(1, "{\"roots\":{}}");
	fix_client(2, NULL);
	ck_assert_str_eq(fake.capabilities(fake.capabilities_arg, 1), "{\"roots\":{}}");
	ck_assert_ptr_null(fake.capabilities(fake.capabilities_arg, 2));
	ck_assert_ptr_null(fake.capabilities(fake.capabilities_arg, 3));
	router_client_gone(fix.router, 1);
	router_client_gone(fix.router, 2);
	fix_end();
}
END_TEST

/* --- questions --- */

#define SAMPLING "\"sampling/createMessage\""
#define ELICIT "\"elicitation/create\""
#define ROOTS "\"roots/list\""

static void expect_refusal(size_t n, const char *part)
{
	ck_assert_uint_eq(fake.n_answers, n + 1);
	ck_assert_ptr_nonnull(fake.answers[n].error);
	ck_assert_msg(strstr(fake.answers[n].error, part), "\"%s\" is not in %s", part, fake.answers[n].error);
}

/* R24: the question goes to the one whose call it is; nobody else may answer, and nobody twice. */
START_TEST(R24_only_the_asked_client_may_answer)
{
	fix_begin();
	struct server *server = fake_add("s");
	fix_client(1, "{\"sampling\":{}}");
	fix_client(2, "{\"sampling\":{}}");
	fake_ask(server, 90, SAMPLING, "{\"messages\":[]}", MCP_PROOF_SOLE_OWNER, 2, 0, false);
	ck_assert_uint_eq(fix.n_asked, 1);
	ck_assert_uint_eq(fix.asked[0].client, 2);
	ck_assert_str_eq(fix.asked[0].method, SAMPLING);
	ck_assert_str_eq(fix.asked[0].params, "{\"messages\":[]}");
	uint64_t q = fix.asked[0].question;
	ck_assert_int_eq(router_answer(fix.router, 1, q, SPAN_LIT("{}"), SPAN_NONE), -EPERM);
	ck_assert_uint_eq(fake.n_answers, 0);
	ck_assert_int_eq(router_answer(fix.router, 2, q, SPAN_LIT("{\"x\": 1.0}"), SPAN_NONE), 0);
	ck_assert_uint_eq(fake.n_answers, 1);
	ck_assert_uint_eq(fake.answers[0].question, 90);
	ck_assert_str_eq(fake.answers[0].result, "{\"x\": 1.0}");
	ck_assert_int_eq(router_answer(fix.router, 2, q, SPAN_LIT("{}"), SPAN_NONE), -ENOENT);
	ck_assert_int_eq(router_answer(fix.router, 2, 4711, SPAN_LIT("{}"), SPAN_NONE), -ENOENT);
	ck_assert_uint_eq(fake.n_answers, 1);
	router_client_gone(fix.router, 1);
	router_client_gone(fix.router, 2);
	fix_end();
}
END_TEST

/* ARCHITECTURE "Sharing": what cannot be proven is refused, with the reason, and advice is left. */
START_TEST(unproven_questions_are_refused_with_the_reason)
{
	fix_begin();
	struct server *server = fake_add("s");
	fix_client(1, "{\"sampling\":{},\"elicitation\":{},\"roots\":{}}");
	fake_ask(server, 1, SAMPLING, "{}", MCP_PROOF_NONE, 0, 0, false);
	expect_refusal(0, "several askers");
	ck_assert_ptr_nonnull(strstr(fake.answers[0].error, "per-client"));
	ck_assert_ptr_nonnull(fake.advice);
	ck_assert_ptr_nonnull(strstr(fake.advice, "exclusive"));
	fake_ask(server, 2, ELICIT, "{}", MCP_PROOF_NO_CALL, 0, 0, false);
	expect_refusal(1, "no client's request is in flight");
	fake_ask(server, 3, ROOTS, "{}", MCP_PROOF_NONE, 0, 0, false);
	expect_refusal(2, "several askers");
	ck_assert_uint_eq(fix.n_asked, 0);
	router_client_gone(fix.router, 1);
	fix_end();
}
END_TEST

START_TEST(capabilities_decide_what_a_client_is_asked)
{
	static const struct {
		const char *capabilities, *method, *params, *refused; /* NULL: asked */
	} cases[] = {
		{ "{\"sampling\":{}}", SAMPLING, "{}", NULL },
		{ "{\"elicitation\":{}}", SAMPLING, "{}", "`sampling`" },
		{ NULL, SAMPLING, "{}", "`sampling`" },
		{ "{\"sampling\":{}}", SAMPLING, "{\"tools\":[]}", "`sampling.tools`" },
		{ "{\"sampling\":{\"tools\":{}}}", SAMPLING, "{\"tools\":[]}", NULL },
		{ "{\"elicitation\":{}}", ELICIT, "{}", NULL },
		{ "{\"elicitation\":{}}", ELICIT, "{\"mode\":\"url\"}", "`elicitation.url`" },
		{ "{\"elicitation\":{\"url\":{}}}", ELICIT, "{\"mode\":\"url\"}", NULL },
		{ "{\"elicitation\":{\"url\":{}}}", ELICIT, "{\"mode\":\"form\"}", "`elicitation`" },
		{ "{\"elicitation\":{\"url\":{},\"form\":{}}}", ELICIT, "{\"mode\":\"form\"}", NULL },
		{ "{\"sampling\":true}", SAMPLING, "{}", "`sampling`" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		fix_begin();
		fix_client(1, cases[i].capabilities);
		fake_ask(fake_add("s"), 5, cases[i].method, cases[i].params, MCP_PROOF_STREAM, 1, 0, false);
		if (cases[i].refused)
			expect_refusal(0, cases[i].refused);
		else
			ck_assert_msg(fix.n_asked == 1 && fake.n_answers == 0, "case %zu was not asked", i);
		router_client_gone(fix.router, 1);
		fix_end();
	}
}
END_TEST

/* ARCHITECTURE "Sharing": roots/list with no call in flight is the configuration's to answer; a per-client instance
 * asks its client. */
START_TEST(roots_come_from_the_configuration_or_from_the_own_client)
{
	fix_begin();
	struct server *server = fake_add("s");
	fix_client(1, "{\"roots\":{}}");
	fix_client(2, "{}");
	fake_ask(server, 1, ROOTS, NULL, MCP_PROOF_NO_CALL, 0, 0, false);
	ck_assert_str_eq(fake.answers[0].result, "{\"roots\":[]}");
	fake_set_roots(server, "[{\"uri\":\"file:///home/u\"}]");
	fake_ask(server, 2, ROOTS, NULL, MCP_PROOF_NO_CALL, 0, 0, false);
	ck_assert_str_eq(fake.answers[1].result, "{\"roots\":[{\"uri\":\"file:///home/u\"}]}");
	fake_ask(server, 3, ROOTS, NULL, MCP_PROOF_NO_CALL, 1, 0, true);
	ck_assert_uint_eq(fix.n_asked, 1);
	ck_assert_uint_eq(fix.asked[0].client, 1);
	ck_assert_str_eq(fix.asked[0].params, "");
	fake_ask(server, 4, ROOTS, NULL, MCP_PROOF_NO_CALL, 2, 0, true);
	ck_assert_str_eq(fake.answers[2].result, "{\"roots\":[{\"uri\":\"file:///home/u\"}]}");
	router_client_gone(fix.router, 1);
	router_client_gone(fix.router, 2);
	fix_end();
}
END_TEST

START_TEST(a_client_that_leaves_fails_only_its_own_questions)
{
	fix_begin();
	struct server *server = fake_add("s");
	fix_client(1, "{\"sampling\":{}}");
	fix_client(2, "{\"sampling\":{}}");
	fake_ask(server, 1, SAMPLING, "{}", MCP_PROOF_STREAM, 1, 0, false);
	fake_ask(server, 2, SAMPLING, "{}", MCP_PROOF_STREAM, 2, 0, false);
	router_client_gone(fix.router, 1);
	expect_refusal(0, "left without answering");
	ck_assert_uint_eq(fake.answers[0].question, 1);
	ck_assert_int_eq(router_answer(fix.router, 2, 2, SPAN_LIT("{}"), SPAN_NONE), 0);
	fake_ask(server, 3, SAMPLING, "{}", MCP_PROOF_STREAM, 1, 0, false);
	expect_refusal(2, "has gone");
	router_client_gone(fix.router, 2);
	fix_end();
}
END_TEST

START_TEST(questions_are_withdrawn_by_the_server_and_with_their_call)
{
	fix_begin();
	struct server *server = fake_add("s");
	struct told a;
	fix_client(1, "{\"sampling\":{}}");
	fix_request(1, server, CALL, "{}", NULL, &a);
	fake_ask(server, 1, SAMPLING, "{}", MCP_PROOF_STREAM, 1, fake_call_at(0)->id, false);
	fake_ask(server, 2, SAMPLING, "{}", MCP_PROOF_STREAM, 1, fake_call_at(0)->id, false);
	fake.callbacks->on_question_withdrawn(fake.arg, 2, SPAN_LIT("\"never mind\""));
	fake.callbacks->on_question_withdrawn(fake.arg, 99, SPAN_NONE);
	ck_assert_uint_eq(fix.n_withdrawn, 1);
	ck_assert_uint_eq(fix.withdrawn[0].question, 2);
	ck_assert_str_eq(fix.withdrawn[0].reason, "never mind");
	ck_assert_uint_eq(fake.n_answers, 0);
	fake_fail(fake_call_at(0), MCPD_E_TIMEOUT, "Request timeout after 1ms", true);
	ck_assert_uint_eq(fix.n_withdrawn, 2);
	ck_assert_uint_eq(fix.withdrawn[1].question, 1);
	expect_refusal(0, "has ended");
	ck_assert_int_eq(router_answer(fix.router, 1, 1, SPAN_LIT("{}"), SPAN_NONE), -ENOENT);
	router_client_gone(fix.router, 1);
	fix_end();
}
END_TEST

/* --- logging levels --- */

#define SET_LEVEL "\"logging/setLevel\""

static void set_level(uint64_t client, struct server *server, const char *level, struct told *told)
{
	char params[64];
	snprintf(params, sizeof params, "{\"level\":\"%s\"}", level);
	fix_request(client, server, SET_LEVEL, params, NULL, told);
}

static void message(struct server *server, uint64_t owner, const char *level)
{
	char params[64];
	snprintf(params, sizeof params, "{\"level\":\"%s\",\"data\":1}", level);
	fake.callbacks->on_notification(fake.arg, server, owner, SPAN_LIT("\"notifications/message\""),
					span_of(params));
}

/* PITFALLS "Relaying": the most verbose wins upstream, each client gets what it asked for. */
START_TEST(the_most_verbose_level_wins_upstream)
{
	fix_begin();
	struct server *server = fake_add("s");
	struct told a, b;
	for (uint64_t id = 1; id <= 3; id++)
		fix_client(id, NULL);
	message(server, 0, "debug");
	ck_assert(fix.wanted[1] && fix.wanted[2] && fix.wanted[3]);
	set_level(1, server, "error", &a);
	ck_assert_str_eq(fake_call_at(-1)->params, "{\"level\":\"error\"}");
	fake_result(fake_call_at(-1), "{}");
	set_level(2, server, "debug", &b);
	ck_assert_str_eq(fake_call_at(-1)->params, "{\"level\":\"debug\"}");
	fake_result(fake_call_at(-1), "{}");
	ck_assert_uint_eq(fake.n_calls, 2);
	/* Less verbose than what the server has been told: nothing goes out. */
	set_level(1, server, "warning", &a);
	ck_assert_uint_eq(fake.n_calls, 2);
	fix_settle();
	ck_assert_uint_eq(a.done, 1);
	ck_assert_str_eq(a.result, "{}");
	message(server, 0, "warning");
	ck_assert(fix.wanted[1] && fix.wanted[2] && fix.wanted[3]);
	message(server, 0, "info");
	ck_assert(!fix.wanted[1] && fix.wanted[2] && fix.wanted[3]);
	message(server, 0, "debug");
	ck_assert(!fix.wanted[1] && fix.wanted[2] && !fix.wanted[3]);
	/* The verbose one goes: the server is told what is left. */
	router_client_gone(fix.router, 2);
	ck_assert_uint_eq(fake.n_calls, 3);
	ck_assert_str_eq(fake_call_at(-1)->params, "{\"level\":\"warning\"}");
	ck_assert_uint_eq(fake_call_at(-1)->client, 0);
	fake_result(fake_call_at(-1), "{}");
	/* A new connection has forgotten it. */
	fake.callbacks->on_reconnected(fake.arg, server, 0);
	ck_assert_uint_eq(fake.n_calls, 4);
	ck_assert_str_eq(fake_call_at(-1)->params, "{\"level\":\"warning\"}");
	fake_result(fake_call_at(-1), "{}");
	router_client_gone(fix.router, 1);
	router_client_gone(fix.router, 3);
	fix_end();
}
END_TEST

START_TEST(a_level_that_the_server_refuses_counts_for_nobody)
{
	fix_begin();
	struct server *server = fake_add("s");
	struct told a, b;
	fix_client(1, NULL);
	fix_client(2, NULL);
	set_level(1, server, "debug", &a);
	fake_fail(fake_call_at(0), MCPD_E_SERVER, "MCP error -32601: no", true);
	ck_assert_int_eq(a.code, MCPD_E_SERVER);
	set_level(2, server, "debug", &b);
	ck_assert_uint_eq(fake.n_calls, 2); /* asked again, not taken for settled */
	fake_result(fake_call_at(1), "{}");
	set_level(1, server, "chatty", &a); /* no level: the server's to refuse */
	ck_assert_uint_eq(fake.n_calls, 3);
	fake_fail(fake_call_at(2), MCPD_E_SERVER, "MCP error -32602: what", true);
	router_client_gone(fix.router, 1);
	router_client_gone(fix.router, 2);
	fix_end();
}
END_TEST

START_TEST(per_client_instances_have_levels_of_their_own)
{
	fix_begin();
	struct server *server = fake_add("s");
	fake_set_sharing(server, CONFIG_PER_CLIENT);
	struct told a, b;
	fix_client(1, NULL);
	fix_client(2, NULL);
	set_level(1, server, "debug", &a);
	fake_result(fake_call_at(-1), "{}");
	set_level(2, server, "error", &b);
	ck_assert_uint_eq(fake.n_calls, 2);
	ck_assert_str_eq(fake_call_at(-1)->params, "{\"level\":\"error\"}");
	fake_result(fake_call_at(-1), "{}");
	message(server, 1, "debug");
	ck_assert(fix.wanted[1] && !fix.wanted[2]);
	router_client_gone(fix.router, 1);
	ck_assert_uint_eq(fake.n_calls, 2); /* its instance ends with it */
	router_client_gone(fix.router, 2);
	fix_end();
}
END_TEST

START_TEST(modern_servers_get_the_level_with_each_request)
{
	fix_begin();
	struct server *server = fake_add("s");
	fake_set_modern(server);
	struct told a, b;
	fix_client(1, NULL);
	fix_client(2, NULL);
	set_level(1, server, "debug", &a);
	fix_settle();
	ck_assert_uint_eq(a.done, 1);
	ck_assert_uint_eq(fake.n_calls, 0);
	fix_request(1, server, CALL, "{}", NULL, &a);
	fix_request(2, server, CALL, "{}", NULL, &b);
	ck_assert_str_eq(fake_call_at(0)->log_level, "\"debug\"");
	ck_assert_ptr_null(fake_call_at(1)->log_level);
	fake_result(fake_call_at(0), "{}");
	fake_result(fake_call_at(1), "{}");
	message(server, 0, "debug");
	ck_assert(fix.wanted[1] && !fix.wanted[2]);
	router_client_gone(fix.router, 1);
	router_client_gone(fix.router, 2);
	fix_end();
}
END_TEST

/* R25: what an own instance notifies is for its own client. */
START_TEST(notifications_of_an_own_instance_are_its_clients)
{
	fix_begin();
	struct server *server = fake_add("s");
	fix_client(1, NULL);
	fix_client(2, NULL);
	fake.callbacks->on_notification(fake.arg, server, 2, SPAN_LIT("\"notifications/x\""), SPAN_NONE);
	ck_assert(!fix.wanted[1] && fix.wanted[2]);
	fake.callbacks->on_notification(fake.arg, server, 0, SPAN_LIT("\"notifications/x\""), SPAN_NONE);
	ck_assert(fix.wanted[1] && fix.wanted[2]);
	router_client_gone(fix.router, 1);
	router_client_gone(fix.router, 2);
	fix_end();
}
END_TEST

START_TEST(a_server_that_is_removed_takes_its_levels_along)
{
	fix_begin();
	struct server *server = fake_add("s");
	struct told a;
	fix_client(1, NULL);
	set_level(1, server, "debug", &a);
	fake_result(fake_call_at(0), "{}");
	fake_remove(server);
	router_client_gone(fix.router, 1);
	ck_assert_uint_eq(fake.n_calls, 1);
	fix_end();
}
END_TEST

int main(void)
{
	return RUN_TESTS(
		"router", idmap_finds_what_was_put_and_misses_what_was_removed,
		an_answer_ends_the_row_once_and_reaches_its_asker, R21_progress_carries_the_askers_own_token,
		R22_cancel_goes_to_the_one_call, a_client_that_goes_leaves_tombstones,
		a_place_in_the_queue_is_told_as_progress_below_zero, a_call_sent_again_says_so,
		labels_are_unique_and_harmless, capabilities_are_asked_of_the_router,
		R24_only_the_asked_client_may_answer, unproven_questions_are_refused_with_the_reason,
		capabilities_decide_what_a_client_is_asked, roots_come_from_the_configuration_or_from_the_own_client,
		a_client_that_leaves_fails_only_its_own_questions,
		questions_are_withdrawn_by_the_server_and_with_their_call, the_most_verbose_level_wins_upstream,
		a_level_that_the_server_refuses_counts_for_nobody, per_client_instances_have_levels_of_their_own,
		modern_servers_get_the_level_with_each_request, notifications_of_an_own_instance_are_its_clients,
		a_server_that_is_removed_takes_its_levels_along);
}
