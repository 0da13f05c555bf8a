/* ipc/facade*.c over socketpairs, on a manager that does what the test says: the order of things that real servers
 * cannot be made to keep. */
#include "run.h"
#include "session_fixture.h"

#define META                                                                                                           \
	"\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                                       \
	"\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{}}}"
#define ELICIT "\"elicitation/create\""
#define MODERN_CALL(id) "\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"name\":\"t\"," META "}"

static struct peer *attached(const char *server)
{
	struct peer *p = peer_new();
	char *params = server ? xasprintf("{\"server\":\"%s\"}", server) : xstrdup("{}");
	char *text = xasprintf("\"id\":0,\"method\":\"mcp/attach\",\"params\":%s", params);
	ask(p, text);
	ck_assert_ptr_nonnull(strstr(next_line(p), "\"result\""));
	free(params);
	free(text);
	return p;
}

static struct peer *legacy(const char *server, const char *version)
{
	struct peer *p = attached(server);
	char *text = xasprintf("\"id\":0,\"method\":\"initialize\",\"params\":{\"protocolVersion\":\"%s\","
			       "\"capabilities\":{\"elicitation\":{}}}",
			       version);
	ask(p, text);
	free(text);
	ck_assert_ptr_nonnull(strstr(next_line(p), version));
	ask(p, "\"method\":\"notifications/initialized\"");
	return p;
}

/* The text of a member of the line's result. */
static char *member_of(const char *line, const char *name)
{
	struct span value = json_path(span_of(line), "result", name, NULL);
	ck_assert_msg(value.ptr != NULL, "no %s in %s", name, line);
	return xstrndup(value.ptr, value.len);
}

START_TEST(a_cancelled_request_gets_no_answer_even_if_the_server_answers)
{
	begin();
	fake_add("s");
	struct peer *p = legacy("s", "2025-11-25");
	ask(p, "\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"t\"}");
	passes(3);
	ask(p, "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":1,\"reason\":\"enough\"}");
	passes(3);
	ck_assert_str_eq(fake_call_at(0)->cancelled, "enough");
	fake_result(fake_call_at(0), "{\"content\":[]}");
	expect_silence(p);
	/* Its id is free again. */
	ask(p, "\"id\":1,\"method\":\"ping\"");
	expect_line(p, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
	peer_close(p);
	end();
}
END_TEST

START_TEST(a_batch_is_answered_when_the_last_of_it_is_and_without_what_was_cancelled)
{
	begin();
	fake_add("s");
	struct peer *p = legacy("s", "2025-03-26");
	send_text(p, "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"a\"}},"
		     "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"ping\"},"
		     "{\"jsonrpc\":\"2.0\",\"id\":3,\"method\":\"tools/call\",\"params\":{\"name\":\"b\"}}]");
	expect_silence(p);
	ask(p, "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":3}");
	expect_silence(p);
	fake_result(fake_call_at(0), "{\"x\":1}");
	expect_line(
		p,
		"[{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}},{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":1}}]");
	peer_close(p);
	end();
}
END_TEST

START_TEST(an_answer_that_comes_while_a_modern_client_is_asked_is_kept_for_it)
{
	begin();
	struct server *server = fake_add("s");
	struct peer *p = attached("s");
	ask(p, MODERN_CALL("1"));
	passes(3);
	fake_ask(server, 70, ELICIT, "{\"message\":\"?\"}", MCP_PROOF_SOLE_OWNER, 1, fake_call_at(0)->id, false);
	const char *line = next_line(p);
	ck_assert_ptr_nonnull(strstr(line, "\"input_required\""));
	char *state = member_of(line, "requestState");
	/* The server goes on without the answer. */
	fake_result(fake_call_at(0), "{\"content\":[1]}");
	expect_silence(p);
	char *again = xasprintf("\"id\":2,\"method\":\"tools/call\",\"params\":{\"name\":\"t\",\"inputResponses\":{},"
				"\"requestState\":%s," META "}",
				state);
	ask(p, again);
	expect_line(p, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"content\":[1],\"resultType\":\"complete\"}}");
	free(again);
	free(state);
	peer_close(p);
	end();
}
END_TEST

START_TEST(R24_a_question_goes_to_a_call_of_the_client_that_it_is_proven_to_be_about)
{
	begin();
	struct server *server = fake_add("s"), *other = fake_add("other");
	struct peer *p = attached(NULL);
	(void)other;
	ask(p, "\"id\":\"o\",\"method\":\"tools/call\",\"params\":{\"name\":\"other__t\"," META "}");
	ask(p, "\"id\":\"a\",\"method\":\"tools/call\",\"params\":{\"name\":\"s__t\"," META "}");
	ask(p, "\"id\":\"b\",\"method\":\"tools/call\",\"params\":{\"name\":\"s__t\"," META "}");
	passes(3);
	ck_assert_uint_eq(fake.n_calls, 3);
	/* The client is proven, which of its calls is not: one to that server is answered with the question. */
	fake_ask(server, 71, ELICIT, "{\"message\":\"?\"}", MCP_PROOF_SOLE_OWNER, 1, 0, false);
	ck_assert_ptr_nonnull(strstr(next_line(p), "\"id\":\"b\""));
	/* One that is proven to be about the other call goes there. */
	fake_ask(server, 72, ELICIT, "{\"message\":\"?\"}", MCP_PROOF_STREAM, 1, fake_call_at(1)->id, false);
	ck_assert_ptr_nonnull(strstr(next_line(p), "\"id\":\"a\""));
	expect_silence(p);
	peer_close(p);
	end();
}
END_TEST

START_TEST(a_client_that_goes_while_it_is_asked_leaves_nothing)
{
	begin();
	struct server *server = fake_add("s");
	struct peer *p = attached("s");
	ask(p, MODERN_CALL("1"));
	passes(3);
	fake_ask(server, 73, ELICIT, "{\"message\":\"?\"}", MCP_PROOF_SOLE_OWNER, 1, fake_call_at(0)->id, false);
	next_line(p);
	peer_close(p);
	ck_assert_ptr_nonnull(fake_call_at(0)->cancelled);
	ck_assert_uint_eq(fake.n_answers, 1);
	ck_assert_uint_eq(fake.answers[0].question, 73);
	ck_assert_ptr_nonnull(fake.answers[0].error);
	end();
}
END_TEST

START_TEST(a_list_that_is_not_there_is_waited_for_and_told_once)
{
	begin();
	struct server *server = fake_add("s");
	struct peer *p = legacy("s", "2025-11-25");
	fake_set_list(server, SERVER_PROMPTS, false, "[]", "r1");
	ask(p, "\"id\":1,\"method\":\"prompts/list\"");
	expect_silence(p);
	fake_set_list(server, SERVER_PROMPTS, true, "[{\"name\":\"p\"}]", "r2");
	fake.callbacks->on_list(fake.arg, server, SERVER_PROMPTS);
	fake.callbacks->on_listing(fake.arg, server);
	expect_line(p, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/prompts/list_changed\"}");
	expect_line(p, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"prompts\":[{\"name\":\"p\"}]}}");
	/* What it has seen is no news. */
	fake.callbacks->on_list(fake.arg, server, SERVER_PROMPTS);
	expect_silence(p);
	peer_close(p);
	end();
}
END_TEST

START_TEST(a_resource_waits_for_the_lists_that_say_whose_it_is)
{
	begin();
	struct server *a = fake_add("a"), *b = fake_add("b");
	struct peer *p = legacy(NULL, "2025-11-25");
	fake_set_list(a, SERVER_RESOURCES, false, "[]", "r1");
	ask(p, "\"id\":1,\"method\":\"resources/read\",\"params\":{\"uri\":\"x://b\",\"n\":1.10}");
	ask(p, "\"id\":2,\"method\":\"resources/read\",\"params\":{\"uri\":\"x://gone\"}");
	ask(p, "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":2}");
	expect_silence(p);
	ck_assert_uint_eq(fake.n_calls, 0);
	fake_set_list(a, SERVER_RESOURCES, true, "[{\"uri\":\"x://a\"}]", "r2");
	fake_set_list(b, SERVER_RESOURCES, true, "[{\"uri\":\"x://b\"}]", "r2");
	fake.callbacks->on_listing(fake.arg, a);
	passes(3);
	ck_assert_uint_eq(fake.n_calls, 1);
	ck_assert_ptr_eq(fake_call_at(0)->server, b);
	ck_assert_str_eq(fake_call_at(0)->params, "{\"uri\":\"x://b\",\"n\":1.10}");
	fake_result(fake_call_at(0), "{\"contents\":[]}");
	expect_line(p, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"contents\":[]}}");
	peer_close(p);
	end();
}
END_TEST

START_TEST(a_client_that_goes_while_it_subscribes_leaves_nothing)
{
	begin();
	fake_add("s");
	struct peer *p = attached("s");
	ask(p, "\"id\":1,\"method\":\"subscriptions/listen\",\"params\":{\"notifications\":"
	       "{\"resourceSubscriptions\":[\"a://b\",\"a://c\"]}," META "}");
	passes(3);
	ck_assert_uint_eq(fake.n_calls, 2);
	fake_result(fake_call_at(0), "{}");
	expect_silence(p); /* it is acknowledged once both are answered */
	peer_close(p);
	fake_result(fake_call_at(1), "{}");
	end();
}
END_TEST

int main(void)
{
	return RUN_TESTS("facade", a_cancelled_request_gets_no_answer_even_if_the_server_answers,
			 a_batch_is_answered_when_the_last_of_it_is_and_without_what_was_cancelled,
			 an_answer_that_comes_while_a_modern_client_is_asked_is_kept_for_it,
			 R24_a_question_goes_to_a_call_of_the_client_that_it_is_proven_to_be_about,
			 a_client_that_goes_while_it_is_asked_leaves_nothing,
			 a_client_that_goes_while_it_subscribes_leaves_nothing,
			 a_list_that_is_not_there_is_waited_for_and_told_once,
			 a_resource_waits_for_the_lists_that_say_whose_it_is);
}
