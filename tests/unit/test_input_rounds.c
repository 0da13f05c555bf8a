/* calling: input-required results of modern servers, asked upward and answered with a repeat of the call (2026-07-28).
 */
#include "mcp/input_required.h"
#include "mcp_fixture.h"
#include "run.h"

#define CAPABILITIES "{\"elicitation\":{},\"sampling\":{},\"roots\":{}}"
#define FORM "{\"method\":\"elicitation/create\",\"params\":{\"message\":\"?\"}}"
#define ASK_ONE                                                                                                        \
	"{\"resultType\":\"input_required\",\"requestState\":\"s\\u00e4\\/1\",\"inputRequests\":{\"k\":" FORM "}}"
#define ASK_TWO                                                                                                        \
	"{\"resultType\":\"input_required\",\"inputRequests\":{\"a\":" FORM ",\"b\":{\"method\":\"roots/list\"}}}"
#define ASK_NOTHING "{\"resultType\":\"input_required\",\"requestState\":\"again\"}"
#define DONE "{\"resultType\":\"complete\",\"content\":[1.0]}"
#define ACCEPT SPAN_LIT("{\"action\":\"accept\",\"n\":-0}")

static struct fake_sent *last_call(struct fixture *f)
{
	struct fake_sent *sent = fake_last(f->fake, "tools/call");
	ck_assert_ptr_nonnull(sent);
	return sent;
}

/* A call of client 7, who can answer everything. */
static void ask_call(struct fixture *f, struct outcome *o, struct mcp_call_options options)
{
	options.owner = 7;
	if (!options.capabilities.ptr)
		options.capabilities = SPAN_LIT(CAPABILITIES);
	call_with(f, o, "call", "tools/call", "{\"name\":\"t\",\"arguments\":{\"x\":1e400}}", options);
}

static struct mcp_call_options no_clock(void)
{
	return (struct mcp_call_options){ .timeout_ms = 0 };
}

START_TEST(one_round)
{
	struct fixture f;
	struct outcome o, other;
	fixture_modern(&f, TRANSPORT_STDIO);
	ask_call(&f, &o, (struct mcp_call_options){ .timeout_ms = NEVER_MS, .want_progress = true });
	struct fake_sent *first = last_call(&f);
	fake_answer(f.fake, first, ASK_ONE);
	char *want = xasprintf("asked \"elicitation/create\" {\"message\":\"?\"} stream owner 7 call %" PRIu64 "\n",
			       o.number);
	assert_text(diary(&f), want);
	free(want);
	ck_assert_uint_eq(o.n_done, 0);
	ck_assert_uint_eq(mcp_client_in_flight(f.client, 7), 1);
	/* State and answers are of this call alone. */
	call_with(&f, &other, "other", "tools/call", "{\"name\":\"t\"}",
		  (struct mcp_call_options){ .owner = 7, .capabilities = SPAN_LIT(CAPABILITIES) });
	ck_assert_ptr_null(strstr(last_call(&f)->params, "requestState"));
	fake_answer(f.fake, last_call(&f), DONE);
	outcome_free(&other);

	mcp_client_answer(f.client, f.question, ACCEPT, SPAN_NONE);
	struct fake_sent *second = last_call(&f);
	ck_assert_str_ne(first->id, second->id);
	assert_contains(second->params,
			"{\"name\":\"t\",\"arguments\":{\"x\":1e400},\"inputResponses\":{\"k\":"
			"{\"action\":\"accept\",\"n\":-0}},\"requestState\":\"s\\u00e4\\/1\",\"_meta\":{");
	assert_contains(second->params, "\"io.modelcontextprotocol/clientCapabilities\":" CAPABILITIES);
	char *token = xasprintf("\"progressToken\":%" PRIu64, o.number);
	assert_contains(second->params, token);
	free(token);
	/* The call's own clock goes on. */
	ck_assert_int_ne(first->deadline_ms, 0);
	ck_assert_int_eq(second->deadline_ms, first->deadline_ms);
	/* A second answer is one too many. */
	size_t n = fake_count(f.fake);
	mcp_client_answer(f.client, f.question, ACCEPT, SPAN_NONE);
	ck_assert_uint_eq(fake_count(f.fake), n);
	fake_answer(f.fake, second, DONE);
	ck_assert_int_eq(o.code, 0);
	assert_text(o.result, DONE);
	outcome_free(&o);
	fixture_done(&f);
}
END_TEST

START_TEST(two_questions_in_any_order)
{
	for (int order = 0; order < 2; order++) {
		struct fixture f;
		struct outcome o;
		fixture_modern(&f, TRANSPORT_HTTP);
		ask_call(&f, &o, no_clock());
		fake_answer(f.fake, last_call(&f), ASK_TWO);
		uint64_t b = f.question, a = b - 1;
		assert_contains(diary(&f), "asked \"roots/list\"  stream owner 7");
		mcp_client_answer(f.client, order ? b : a, order ? SPAN_LIT("{\"roots\":[]}") : ACCEPT, SPAN_NONE);
		ck_assert_uint_eq(fake_count_of(f.fake, "tools/call"), 1);
		mcp_client_answer(f.client, order ? a : b, order ? ACCEPT : SPAN_LIT("{\"roots\":[]}"), SPAN_NONE);
		ck_assert_uint_eq(fake_count_of(f.fake, "tools/call"), 2);
		assert_contains(last_call(&f)->params, "\"inputResponses\":{\"a\":{\"action\":\"accept\",\"n\":-0},"
						       "\"b\":{\"roots\":[]}},\"_meta\"");
		assert_text(last_call(&f)->headers, "Mcp-Name: t\n");
		fake_answer(f.fake, last_call(&f), DONE);
		outcome_free(&o);
		fixture_done(&f);
	}
}
END_TEST

/* R31: what progress has given the call, the repeat has too, up to the same end. */
START_TEST(progress_extends_the_repeat)
{
	struct fixture f;
	struct outcome o;
	struct mcp_client_options options = default_options(&f);
	options.max_timeout_ms = NEVER_MS + 1000;
	fixture_start(&f, &options, NULL);
	fake_answer(f.fake, fake_last(f.fake, "server/discover"), DISCOVER_RESULT);
	ask_call(&f, &o, (struct mcp_call_options){ .timeout_ms = NEVER_MS, .want_progress = true });
	struct fake_sent *first = last_call(&f);
	int64_t start = loop_now_ms();
	while (loop_now_ms() < start + 5)
		loop_once(f.loop, 1);
	char *text = xasprintf("{\"progressToken\":%" PRIu64 ",\"progress\":1}", o.number);
	fake_notification(f.fake, "notifications/progress", text);
	fake_answer(f.fake, first, ASK_ONE);
	/* Between two requests there is nothing that progress could be about. */
	diary(&f);
	fake_notification(f.fake, "notifications/progress", text);
	assert_text(diary(&f), "");
	free(text);
	mcp_client_answer(f.client, f.question, ACCEPT, SPAN_NONE);
	struct fake_sent *second = last_call(&f);
	ck_assert_int_gt(second->deadline_ms, first->deadline_ms);
	ck_assert_int_lt(second->max_timeout_ms, first->max_timeout_ms);
	fake_answer(f.fake, second, DONE);
	outcome_free(&o);
	fixture_done(&f);
}
END_TEST

START_TEST(several_rounds)
{
	struct fixture f;
	struct outcome o;
	fixture_modern(&f, TRANSPORT_STDIO);
	ask_call(&f, &o, no_clock());
	fake_answer(f.fake, last_call(&f), ASK_ONE);
	mcp_client_answer(f.client, f.question, ACCEPT, SPAN_NONE);
	/* Only the last round's answers and state go along. */
	fake_answer(f.fake, last_call(&f), ASK_NOTHING);
	assert_contains(last_call(&f)->params,
			"{\"name\":\"t\",\"arguments\":{\"x\":1e400},\"requestState\":\"again\",");
	fake_answer(f.fake, last_call(&f), ASK_TWO);
	mcp_client_answer(f.client, f.question, ACCEPT, SPAN_NONE);
	mcp_client_answer(f.client, f.question - 1, ACCEPT, SPAN_NONE);
	ck_assert_ptr_null(strstr(last_call(&f)->params, "requestState"));
	ck_assert_ptr_null(strstr(last_call(&f)->params, "\"k\""));
	ck_assert_uint_eq(fake_count_of(f.fake, "tools/call"), 4);
	fake_error(f.fake, last_call(&f), "{\"code\":1,\"message\":\"m\"}");
	ck_assert_int_eq(o.code, MCPD_E_SERVER);
	outcome_free(&o);
	fixture_done(&f);
}
END_TEST

START_TEST(answers_inside_the_questions)
{
	struct fixture f;
	struct outcome o;
	fixture_modern(&f, TRANSPORT_STDIO);
	f.answer_at_once = "{}";
	ask_call(&f, &o, no_clock());
	fake_answer(f.fake, last_call(&f), ASK_TWO);
	assert_contains(last_call(&f)->params, "\"inputResponses\":{\"a\":{},\"b\":{}}");
	fake_answer(f.fake, last_call(&f), DONE);
	outcome_free(&o);
	/* Refused at once: the second is not even asked. */
	f.answer_at_once = NULL;
	f.refuse_at_once = "{\"code\":-1,\"message\":\"no\"}";
	diary(&f);
	ask_call(&f, &o, no_clock());
	fake_answer(f.fake, last_call(&f), ASK_TWO);
	ck_assert_ptr_null(strstr(diary(&f), "roots"));
	WAIT_UNTIL(&f, o.n_done);
	ck_assert_int_eq(o.code, MCPD_E_SERVER);
	outcome_free(&o);
	/* Cancelled inside. */
	f.refuse_at_once = NULL;
	ask_call(&f, &o, no_clock());
	f.cancel_in_question = o.number;
	fake_answer(f.fake, last_call(&f), ASK_TWO);
	WAIT_UNTIL(&f, o.n_done);
	ck_assert_int_eq(o.code, MCPD_E_CANCELLED);
	outcome_free(&o);
	/* Closed inside, also by a transport that closes at once. */
	fixture_done(&f);
	for (int at_once = 0; at_once < 2; at_once++) {
		fixture_start(&f, NULL, &(struct fake_options){ .close_at_once = at_once });
		fake_answer(f.fake, fake_last(f.fake, "server/discover"), DISCOVER_RESULT);
		ask_call(&f, &o, no_clock());
		f.close_in_question = f.free_in_closed = true;
		fake_answer(f.fake, last_call(&f), ASK_TWO);
		WAIT_UNTIL(&f, f.n_closed);
		ck_assert_int_eq(o.code, MCPD_E_TRANSPORT);
		assert_text(o.message, "Transport closed");
		outcome_free(&o);
		fixture_done(&f);
	}
}
END_TEST

START_TEST(refused)
{
	struct fixture f;
	struct outcome o;
	fixture_modern(&f, TRANSPORT_STDIO);
	ask_call(&f, &o, no_clock());
	fake_answer(f.fake, last_call(&f), ASK_TWO);
	diary(&f);
	/* Never inside the answer; the other question is void. */
	mcp_client_answer(f.client, f.question - 1, SPAN_NONE,
			  SPAN_LIT("{\"code\":-1,\"message\":\"User \\u00e9 said no\",\"x\":1.0}"));
	ck_assert_uint_eq(o.n_done, 0);
	WAIT_UNTIL(&f, o.n_done);
	assert_text(diary(&f), "void \ndone call -32006\n");
	assert_text(o.message,
		    "The input that the server asked for (\"elicitation/create\") was refused: User \xc3\xa9 said no");
	assert_text(o.error, "{\"code\":-1,\"message\":\"User \\u00e9 said no\",\"x\":1.0}");
	ck_assert(o.sent);
	ck_assert_uint_eq(fake_count_of(f.fake, "tools/call"), 1);
	/* Nothing is in flight at the server: nothing to tell it. */
	ck_assert_ptr_null(fake_last(f.fake, "notifications/cancelled"));
	outcome_free(&o);
	/* A refusal without a message. */
	ask_call(&f, &o, no_clock());
	fake_answer(f.fake, last_call(&f), ASK_ONE);
	mcp_client_answer(f.client, f.question, SPAN_NONE, SPAN_LIT("{\"code\":-1}"));
	WAIT_UNTIL(&f, o.n_done);
	assert_text(o.message, "The input that the server asked for (\"elicitation/create\") was refused");
	outcome_free(&o);
	fixture_done(&f);
}
END_TEST

struct bad_case {
	const char *what;
	const char *method;
	const char *result;
	const char *capabilities;
	uint64_t owner;
	const char *message;
};

static const struct bad_case bad_cases[] = {
	{ "nothing declared", "tools/call", ASK_ONE, NULL, 7, "has not declared" },
	{ "something else declared", "tools/call", ASK_ONE, "{\"roots\":{}}", 7,
	  "asks for \"elicitation/create\", which the client has not declared" },
	{ "one of two declared", "prompts/get", ASK_TWO, "{\"elicitation\":{}}", 7, "asks for \"roots/list\"" },
	{ "the daemon's own call", "tools/call", ASK_ONE, CAPABILITIES, 0, "cannot have any" },
	{ "a method that has none", "tools/list", ASK_ONE, CAPABILITIES, 7, "cannot have any" },
	{ "empty", "resources/read", "{\"resultType\":\"input_required\"}", CAPABILITIES, 7,
	  "Invalid input-required result" },
	{ "no object", "tools/call", "{\"resultType\":\"input_required\",\"inputRequests\":[]}", CAPABILITIES, 7,
	  "Invalid" },
};

START_TEST(input_that_cannot_be)
{
	struct fixture f;
	fixture_modern(&f, TRANSPORT_STDIO);
	for (size_t i = 0; i < sizeof(bad_cases) / sizeof(bad_cases[0]); i++) {
		const struct bad_case *c = &bad_cases[i];
		struct outcome o;
		call_with(&f, &o, "call", c->method, "{\"name\":\"t\"}",
			  (struct mcp_call_options){ .owner = c->owner, .capabilities = span_of(c->capabilities) });
		fake_answer(f.fake, fake_last(f.fake, c->method), c->result);
		ck_assert_msg(o.n_done == 1 && o.code == MCPD_E_PROTOCOL, "%s: %d", c->what, o.code);
		ck_assert(o.sent);
		assert_contains(o.message, c->message);
		outcome_free(&o);
		assert_text(diary(&f), "done call -32008\n");
	}
	fixture_done(&f);
}
END_TEST

START_TEST(state_without_questions_needs_no_capability)
{
	struct fixture f;
	struct outcome o;
	fixture_modern(&f, TRANSPORT_STDIO);
	call_with(&f, &o, "call", "tools/call", "{\"name\":\"t\"}", (struct mcp_call_options){ .owner = 7 });
	fake_answer(f.fake, last_call(&f), ASK_NOTHING);
	fake_answer(f.fake, last_call(&f), DONE);
	ck_assert_int_eq(o.code, 0);
	outcome_free(&o);
	fixture_done(&f);
}
END_TEST

START_TEST(rounds_are_bounded)
{
	struct fixture f;
	struct outcome o;
	fixture_modern(&f, TRANSPORT_STDIO);
	ask_call(&f, &o, no_clock());
	for (int i = 0; i < INPUT_ROUNDS_MAX; i++) {
		ck_assert_uint_eq(o.n_done, 0);
		fake_answer(f.fake, last_call(&f), ASK_NOTHING);
	}
	fake_answer(f.fake, last_call(&f), ASK_NOTHING);
	ck_assert_int_eq(o.code, MCPD_E_PROTOCOL);
	assert_contains(o.message, "again and again");
	ck_assert_uint_eq(fake_count_of(f.fake, "tools/call"), INPUT_ROUNDS_MAX + 1);
	outcome_free(&o);
	fixture_done(&f);
}
END_TEST

START_TEST(ended_while_asking)
{
	for (int way = 0; way < 3; way++) {
		struct fixture f;
		struct outcome o;
		fixture_modern(&f, TRANSPORT_STDIO);
		ask_call(&f, &o, way == 1 ? (struct mcp_call_options){ .timeout_ms = 30 } : no_clock());
		fake_answer(f.fake, last_call(&f), ASK_ONE);
		diary(&f);
		if (way == 0) {
			mcp_client_cancel(f.client, o.number, "changed my mind");
			mcp_client_cancel(f.client, o.number, "twice");
			ck_assert_uint_eq(o.n_done, 0);
		} else if (way == 2) {
			fake_exit(f.fake, "gone");
		}
		WAIT_UNTIL(&f, o.n_done);
		static const int codes[] = { MCPD_E_CANCELLED, MCPD_E_TIMEOUT, MCPD_E_TRANSPORT };
		static const char *const messages[] = { "changed my mind", "Request timeout after 30ms",
							"Transport closed" };
		ck_assert_int_eq(o.code, codes[way]);
		assert_text(o.message, messages[way]);
		ck_assert_int_eq(o.timeout_ms, way == 1 ? 30 : 0);
		ck_assert(o.sent);
		assert_contains(diary(&f), "void \ndone call");
		/* Its answer comes too late. */
		mcp_client_answer(f.client, f.question, ACCEPT, SPAN_NONE);
		ck_assert_uint_eq(fake_count_of(f.fake, "tools/call"), 1);
		ck_assert_ptr_null(fake_last(f.fake, "notifications/cancelled"));
		outcome_free(&o);
		fixture_done(&f);
	}
}
END_TEST

/* With the transport's default clock, which is not known here, the asker's time is the longest that progress could get.
 */
START_TEST(default_clock_while_asking)
{
	struct fixture f;
	struct outcome o;
	struct mcp_client_options options = default_options(&f);
	options.max_timeout_ms = 40;
	fixture_start(&f, &options, NULL);
	fake_answer(f.fake, fake_last(f.fake, "server/discover"), DISCOVER_RESULT);
	ask_call(&f, &o, (struct mcp_call_options){ .timeout_ms = -1 });
	fake_answer(f.fake, last_call(&f), ASK_ONE);
	WAIT_UNTIL(&f, o.n_done);
	ck_assert_int_eq(o.code, MCPD_E_TIMEOUT);
	assert_text(o.message, "Request timeout after 40ms");
	outcome_free(&o);
	fixture_done(&f);
}
END_TEST

START_TEST(cancelled_after_a_repeat)
{
	struct fixture f;
	struct outcome o;
	fixture_modern(&f, TRANSPORT_STDIO);
	ask_call(&f, &o, no_clock());
	fake_answer(f.fake, last_call(&f), ASK_ONE);
	mcp_client_answer(f.client, f.question, ACCEPT, SPAN_NONE);
	mcp_client_cancel(f.client, o.number, "stop");
	settle(&f);
	ck_assert_int_eq(o.code, MCPD_E_CANCELLED);
	/* The request that is out is the one that is named. */
	char *want = xasprintf("{\"requestId\":%s,\"reason\":\"stop\"}", last_call(&f)->id);
	assert_text(fake_last(f.fake, "notifications/cancelled")->params, want);
	free(want);
	outcome_free(&o);
	fixture_done(&f);
}
END_TEST

START_TEST(relayed)
{
	struct fixture f;
	struct outcome o;
	fixture_modern(&f, TRANSPORT_STDIO);
	ask_call(&f, &o, (struct mcp_call_options){ .relay_input_required = true });
	fake_answer(f.fake, last_call(&f), ASK_ONE);
	ck_assert_int_eq(o.code, 0);
	assert_text(o.result, ASK_ONE);
	outcome_free(&o);
	assert_text(diary(&f), "done call 0\n");
	/* Its own repeat goes through as it is. */
	call_with(&f, &o, "call", "tools/call", "{\"inputResponses\":{\"k\":{}},\"requestState\":\"s\\u00e4\\/1\"}",
		  (struct mcp_call_options){ .owner = 7, .relay_input_required = true });
	assert_contains(last_call(&f)->params,
			"{\"inputResponses\":{\"k\":{}},\"requestState\":\"s\\u00e4\\/1\",\"_meta\":{");
	fake_answer(f.fake, last_call(&f), DONE);
	outcome_free(&o);
	fixture_done(&f);
}
END_TEST

/* A legacy server's result is nobody's business. */
START_TEST(legacy_result_of_that_shape)
{
	struct fixture f;
	struct outcome o;
	fixture_legacy(&f, TRANSPORT_STDIO);
	ask_call(&f, &o, no_clock());
	fake_answer(f.fake, last_call(&f), ASK_ONE);
	assert_text(o.result, ASK_ONE);
	outcome_free(&o);
	fixture_done(&f);
}
END_TEST

START_TEST(repeat_over_the_limit)
{
	struct fixture f;
	struct outcome o;
	fixture_modern(&f, TRANSPORT_STDIO);
	f.limits.value[LIMIT_MESSAGE_BYTES] = 4096;
	ask_call(&f, &o, no_clock());
	fake_answer(f.fake, last_call(&f), ASK_ONE);
	char *answer = xcalloc(1, 5001);
	memset(answer, '1', 5000);
	mcp_client_answer(f.client, f.question, span_of(answer), SPAN_NONE);
	free(answer);
	WAIT_UNTIL(&f, o.n_done);
	ck_assert_int_eq(o.code, MCPD_E_LIMIT);
	ck_assert_int_eq(o.limit, LIMIT_MESSAGE_BYTES);
	ck_assert(o.sent);
	outcome_free(&o);
	fixture_done(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS("input_rounds", one_round, two_questions_in_any_order, progress_extends_the_repeat,
			 several_rounds, answers_inside_the_questions, refused, input_that_cannot_be,
			 state_without_questions_needs_no_capability, rounds_are_bounded, ended_while_asking,
			 default_clock_while_asking, cancelled_after_a_repeat, relayed, legacy_result_of_that_shape,
			 repeat_over_the_limit);
}
