/* mcp_client: what servers ask, and whose question it is (S5, ARCHITECTURE "Sharing"). */
#include "mcp/calls.h"
#include "mcp_fixture.h"
#include "run.h"

static struct fake_sent *last(struct fixture *f, const char *method)
{
	struct fake_sent *sent = fake_last(f->fake, method);
	ck_assert_msg(sent != NULL, "no %s was sent", method);
	return sent;
}

static struct fake_sent *last_call(struct fixture *f)
{
	return last(f, "tools/call");
}

/* S5: what a legacy server may ask, and what becomes of the rest. */
START_TEST(requests_of_a_legacy_server)
{
	struct fixture f;
	fixture_legacy(&f, TRANSPORT_STDIO);
	fake_request(f.fake, "\"m-1\"", "ping", "{}", NULL);
	assert_text(fake_last_response(f.fake)->id, "\"m-1\"");
	assert_text(fake_last_response(f.fake)->result, "{}");
	fake_request(f.fake, "2", "tools/list", NULL, NULL);
	assert_text(fake_last_response(f.fake)->error, "{\"code\":-32601,\"message\":\"Method not found\"}");
	ck_assert_str_eq(diary(&f), "");
	static const char *const questions[] = { "roots/list", "sampling/createMessage", "elicitation/create" };
	for (size_t i = 0; i < 3; i++) {
		fake_request(f.fake, "3", questions[i], "{\"x\":1.0}", NULL);
		char *want = xasprintf("asked \"%s\" {\"x\":1.0} no-call owner 0 call 0\n", questions[i]);
		assert_text(diary(&f), want);
		free(want);
		mcp_client_answer(f.client, f.question, SPAN_LIT("{\"y\":-0}"), SPAN_NONE);
		assert_text(fake_last_response(f.fake)->id, "3");
		assert_text(fake_last_response(f.fake)->result, "{\"y\":-0}");
	}
	/* Once. */
	size_t n = fake_count(f.fake);
	mcp_client_answer(f.client, f.question, SPAN_LIT("{}"), SPAN_NONE);
	mcp_client_answer(f.client, 12345, SPAN_LIT("{}"), SPAN_NONE);
	ck_assert_uint_eq(fake_count(f.fake), n);
	fake_request(f.fake, "4", "roots/list", NULL, NULL);
	mcp_client_answer(f.client, f.question, SPAN_NONE, SPAN_LIT("{\"code\":-1,\"message\":\"no\"}"));
	assert_text(fake_last_response(f.fake)->error, "{\"code\":-1,\"message\":\"no\"}");
	ck_assert_uint_eq(mcp_client_dropped(f.client), 0);
	fixture_done(&f);
}
END_TEST

START_TEST(answer_inside_the_question)
{
	struct fixture f;
	fixture_legacy(&f, TRANSPORT_STDIO);
	f.answer_at_once = "{\"roots\":[]}";
	fake_request(f.fake, "1", "roots/list", NULL, NULL);
	assert_text(fake_last_response(f.fake)->result, "{\"roots\":[]}");
	f.answer_at_once = NULL;
	f.close_in_question = true;
	fake_request(f.fake, "1", "roots/list", NULL, NULL);
	WAIT_UNTIL(&f, f.n_closed);
	fixture_done(&f);
}
END_TEST

/* A second question with an open one's id could only be answered in the first one's place. */
START_TEST(doubled_question_ids)
{
	struct fixture f;
	fixture_legacy(&f, TRANSPORT_STDIO);
	fake_request(f.fake, "\"a\"", "roots/list", NULL, NULL);
	uint64_t first = f.question;
	diary(&f);
	fake_request(f.fake, "\"\\u0061\"", "roots/list", NULL, NULL);
	assert_contains(diary(&f), "error The server has sent a request with the id of one that is still open");
	ck_assert_ptr_null(fake_last_response(f.fake));
	/* A number is another id than a string. */
	fake_request(f.fake, "1", "roots/list", NULL, NULL);
	fake_request(f.fake, "\"1\"", "roots/list", NULL, NULL);
	ck_assert_uint_eq(f.question, first + 2);
	mcp_client_answer(f.client, first, SPAN_LIT("{}"), SPAN_NONE);
	assert_text(fake_last_response(f.fake)->id, "\"a\"");
	/* Free again. */
	fake_request(f.fake, "\"a\"", "roots/list", NULL, NULL);
	ck_assert_uint_eq(f.question, first + 3);
	fixture_done(&f);
}
END_TEST

START_TEST(too_many_questions)
{
	struct fixture f;
	fixture_legacy(&f, TRANSPORT_STDIO);
	for (int i = 0; i < 1024; i++) {
		char id[16];
		snprintf(id, sizeof(id), "%d", i);
		fake_request(f.fake, id, "roots/list", NULL, NULL);
	}
	ck_assert_ptr_null(fake_last_response(f.fake));
	fake_request(f.fake, "5000", "roots/list", NULL, NULL);
	assert_text(fake_last_response(f.fake)->id, "5000");
	assert_contains(fake_last_response(f.fake)->error, "Too many");
	buf_reset(&f.diary);
	mcp_client_close(f.client);
	WAIT_UNTIL(&f, f.n_closed);
	/* All are void with the connection. */
	buf_reset(&f.diary);
	fixture_done(&f);
}
END_TEST

START_TEST(server_withdraws_its_question)
{
	struct fixture f;
	fixture_legacy(&f, TRANSPORT_STDIO);
	fake_request(f.fake, "7", "sampling/createMessage", "{}", NULL);
	diary(&f);
	fake_notification(f.fake, "notifications/cancelled", "{\"requestId\":8}");
	fake_notification(f.fake, "notifications/cancelled", "{}");
	fake_notification(f.fake, "notifications/cancelled", NULL);
	assert_text(diary(&f), "");
	fake_notification(f.fake, "notifications/cancelled", "{\"requestId\":7,\"reason\":\"never mind\"}");
	assert_text(diary(&f), "void \"never mind\"\n");
	mcp_client_answer(f.client, f.question, SPAN_LIT("{}"), SPAN_NONE);
	ck_assert_ptr_null(fake_last_response(f.fake));
	/* The connection's end withdraws too. */
	fake_request(f.fake, "7", "sampling/createMessage", "{}", NULL);
	diary(&f);
	fake_exit(f.fake, "gone");
	WAIT_UNTIL(&f, f.n_closed);
	assert_text(diary(&f), "void \nclosed gone\n");
	fixture_done(&f);
}
END_TEST

/* S5: a modern server may not ask; it is dropped and counted, and gets no response. */
START_TEST(requests_of_a_modern_server)
{
	struct fixture f;
	fixture_modern(&f, TRANSPORT_STDIO);
	fake_request(f.fake, "1", "ping", NULL, NULL);
	assert_contains(diary(&f), "error A server of MCP 2026-07-28 has sent a request");
	fake_request(f.fake, "2", "roots/list", NULL, NULL);
	fake_request(f.fake, "3", "x", NULL, NULL);
	assert_text(diary(&f), "");
	ck_assert_uint_eq(mcp_client_dropped(f.client), 3);
	ck_assert_ptr_null(fake_last_response(f.fake));
	fixture_done(&f);
}
END_TEST

/* What a question is said to be when it comes now. Valid until the next look at the diary. */
static const char *ask_proof(struct fixture *f, const struct fake_sent *on)
{
	buf_reset(&f->diary);
	fake_request(f->fake, "99", "sampling/createMessage", "{}", on);
	mcp_client_answer(f->client, f->question, SPAN_LIT("{}"), SPAN_NONE);
	return diary(f) + strlen("asked \"sampling/createMessage\" {} ");
}

/* ARCHITECTURE "Sharing": whose a question is, by proof and never by guess. */
START_TEST(proofs)
{
	struct fixture f;
	struct outcome a, b, c, own;
	char *want;
	fixture_legacy(&f, TRANSPORT_STDIO);
	assert_text(ask_proof(&f, NULL), "no-call owner 0 call 0\n");
	/* One call. */
	call(&f, &a, 7);
	struct fake_sent *sent_a = last_call(&f);
	want = xasprintf("sole-owner owner 7 call %" PRIu64 "\n", a.number);
	assert_text(ask_proof(&f, NULL), want);
	free(want);
	/* Two of one client: whose is proven, which is not. */
	call(&f, &b, 7);
	struct fake_sent *sent_b = last_call(&f);
	assert_text(ask_proof(&f, NULL), "sole-owner owner 7 call 0\n");
	/* Another client's beside. */
	call(&f, &c, 8);
	struct fake_sent *sent_c = last_call(&f);
	assert_text(ask_proof(&f, NULL), "none owner 0 call 0\n");
	/* On a stream it is proven whatever else is in flight (HTTP). */
	want = xasprintf("stream owner 8 call %" PRIu64 "\n", c.number);
	assert_text(ask_proof(&f, sent_c), want);
	free(want);
	fake_answer(f.fake, sent_c, "{}");
	fake_answer(f.fake, sent_b, "{}");
	/* The daemon's own beside a client's: not proven; alone: no client's call. */
	call_with(&f, &own, "own", "tools/list", NULL, (struct mcp_call_options){ .owner = 0 });
	struct fake_sent *sent_own = last(&f, "tools/list");
	assert_text(ask_proof(&f, NULL), "none owner 0 call 0\n");
	assert_text(ask_proof(&f, sent_own), "no-call owner 0 call 0\n");
	fake_answer(f.fake, sent_a, "{}");
	assert_text(ask_proof(&f, NULL), "no-call owner 0 call 0\n");
	fake_answer(f.fake, sent_own, "{}");
	outcome_free(&a);
	outcome_free(&b);
	outcome_free(&c);
	outcome_free(&own);
	/* A ping of the daemon's makes no server ask. */
	call(&f, &a, 7);
	call_with(&f, &own, "own", "ping", NULL, (struct mcp_call_options){ .owner = 0 });
	want = xasprintf("sole-owner owner 7 call %" PRIu64 "\n", a.number);
	assert_text(ask_proof(&f, NULL), want);
	free(want);
	fake_answer(f.fake, last(&f, "ping"), "{}");
	fake_answer(f.fake, last_call(&f), "{}");
	outcome_free(&a);
	outcome_free(&own);
	buf_reset(&f.diary);
	fixture_done(&f);
}
END_TEST

/* Given up is not over: the server may still be working on it, and ask. */
START_TEST(proofs_with_tombstones)
{
	struct fixture f;
	struct outcome timed_out, cancelled, other, unsent;
	char *want;
	fixture_legacy(&f, TRANSPORT_STDIO);
	call(&f, &timed_out, 7);
	struct fake_sent *sent_timed_out = last_call(&f);
	fake_time_out(f.fake, sent_timed_out);
	assert_text(ask_proof(&f, NULL), "sole-owner owner 7 call 0\n");
	want = xasprintf("stream owner 7 call %" PRIu64 "\n", timed_out.number);
	assert_text(ask_proof(&f, sent_timed_out), want);
	free(want);
	ck_assert_uint_eq(mcp_client_in_flight(f.client, 0), 0);
	call(&f, &other, 8);
	struct fake_sent *sent_other = last_call(&f);
	assert_text(ask_proof(&f, NULL), "none owner 0 call 0\n");
	fake_late_answer(f.fake, sent_timed_out);
	fake_late_answer(f.fake, sent_timed_out);
	want = xasprintf("sole-owner owner 8 call %" PRIu64 "\n", other.number);
	assert_text(ask_proof(&f, NULL), want);
	call(&f, &cancelled, 9);
	struct fake_sent *sent_cancelled = last_call(&f);
	mcp_client_cancel(f.client, cancelled.number, "x");
	settle(&f);
	assert_text(ask_proof(&f, NULL), "none owner 0 call 0\n");
	fake_late_answer(f.fake, sent_cancelled);
	/* What never reached the server leaves nothing. */
	struct transport_reply reply = { .code = MCPD_E_TIMEOUT, .message = "t" };
	call(&f, &unsent, 10);
	fake_fail(f.fake, last_call(&f), &reply);
	assert_text(ask_proof(&f, NULL), want);
	free(want);
	fake_answer(f.fake, sent_other, "{}");
	assert_text(ask_proof(&f, NULL), "no-call owner 0 call 0\n");
	/* On HTTP an answer's stream that breaks off leaves a server at work, on stdio a broken answer is an answer. */
	fixture_done(&f);
	for (int http = 0; http < 2; http++) {
		fixture_legacy(&f, http ? TRANSPORT_HTTP : TRANSPORT_STDIO);
		struct outcome broken;
		struct transport_reply no_answer = { .code = MCPD_E_PROTOCOL, .message = "No response", .sent = true };
		call(&f, &broken, 7);
		fake_fail(f.fake, last_call(&f), &no_answer);
		assert_text(ask_proof(&f, NULL), http ? "sole-owner owner 7 call 0\n" : "no-call owner 0 call 0\n");
		outcome_free(&broken);
		fixture_done(&f);
	}
	outcome_free(&timed_out);
	outcome_free(&cancelled);
	outcome_free(&other);
	outcome_free(&unsent);
}
END_TEST

/* Tombstones end by themselves, and there is an end to their number: then nothing is proven for a while. */
START_TEST(tombstones_are_bounded)
{
	struct loop *loop = loop_new();
	struct call_table table;
	struct server_tasks tasks = { 0 };
	uint64_t owner, number;
	call_table_init(&table, loop);
	int64_t far = loop_now_ms() + NEVER_MS, near = loop_now_ms() + 5;
	struct call *call = call_table_add(&table);
	call->owner = 1;
	call_table_give_up(&table, call, far);
	call = call_table_add(&table);
	call->owner = 2;
	call_table_give_up(&table, call, near);
	ck_assert_int_eq(call_table_prove(&table, &tasks, 0, SPAN_NONE, &owner, &number), MCP_PROOF_NONE);
	while (table.n_given_up > 1)
		loop_once(loop, 10);
	ck_assert_int_ge(loop_now_ms(), near);
	ck_assert_int_eq(call_table_prove(&table, &tasks, 0, SPAN_NONE, &owner, &number), MCP_PROOF_SOLE_OWNER);
	ck_assert_uint_eq(owner, 1);
	/* The timer goes on to the next. */
	call = call_table_add(&table);
	call_table_give_up(&table, call, loop_now_ms() + 5);
	while (table.n_given_up > 1)
		loop_once(loop, 10);
	while (table.n_given_up < CALLS_GIVEN_UP_MAX)
		call_table_give_up(&table, call_table_add(&table), far);
	call = call_table_add(&table);
	call_table_give_up(&table, call, loop_now_ms() + 30000);
	ck_assert_uint_eq(table.n_given_up, CALLS_GIVEN_UP_MAX);
	ck_assert_uint_eq(table.n_live, 0);
	while (table.given_up)
		call_table_remove(&table, table.given_up);
	ck_assert_int_eq(call_table_prove(&table, &tasks, 0, SPAN_NONE, &owner, &number), MCP_PROOF_NONE);
	call_table_done(&table);
	loop_free(loop);
}
END_TEST

int main(void)
{
	return RUN_TESTS("mcp_questions", requests_of_a_legacy_server, answer_inside_the_question, doubled_question_ids,
			 too_many_questions, server_withdraws_its_question, requests_of_a_modern_server, proofs,
			 proofs_with_tombstones, tombstones_are_bounded);
}
