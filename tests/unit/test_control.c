/* The control dialect: every method, every error with its data, events, questions (PROTOCOL.md). */
#include "run.h"
#include "session_fixture.h"

/* --- relaying and errors --- */

/* R19: what a server and a client say to each other passes byte for byte. */
START_TEST(R19_payloads_pass_byte_for_byte)
{
	begin();
	fake_add("s");
	struct peer *p = peer_new();
	ask(p,
	    "\"params\":{\"name\" : \"\\u0074\",\"server\":\"\\u0073\",\"x\":1,\"arguments\":{\"a\":1.10,\"a\":1e400 , "
	    "\"n\":123456789012345678901234567890,\"s\":\"\\ud800\\/\"},\"_meta\":{\"k\":-0}},\"method\":\"tools/call\",\"id\":1");
	passes(2);
	ck_assert_str_eq(fake_call_at(0)->params,
			 "{\"name\":\"\\u0074\",\"arguments\":{\"a\":1.10,\"a\":1e400 , "
			 "\"n\":123456789012345678901234567890,\"s\":\"\\ud800\\/\"},\"_meta\":{\"k\":-0}}");
	fake_result(fake_call_at(0), "{\"b\" : 1.0,\"b\":-0,\"s\":\"\\udfff \xe2\x80\xa8\"}");
	expect_line(p,
		    "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"b\" : 1.0,\"b\":-0,\"s\":\"\\udfff \xe2\x80\xa8\"}}");
	ask(p,
	    "\"id\":2,\"method\":\"mcp/request\",\"params\":{\"server\":\"s\",\"method\":\"prompts/get\",\"params\":{ \"name\":\"p\" }}");
	passes(2);
	ck_assert_str_eq(fake_call_at(1)->method, "\"prompts/get\"");
	ck_assert_str_eq(fake_call_at(1)->params, "{ \"name\":\"p\" }");
	fake_reply(fake_call_at(1),
		   &(struct transport_reply){ .code = MCPD_E_SERVER,
					      .message = "MCP error -7: x",
					      .error = SPAN_LIT("{\"message\":\"x\",\"code\":-7.0,\"data\":[1.0]}") });
	expect_error(p, "2", -32006, "MCP error -7: x",
		     "{\"server\":\"s\",\"error\":{\"message\":\"x\",\"code\":-7.0,\"data\":[1.0]}}");
	peer_close(p);
	end();
}
END_TEST

/* Every code of PROTOCOL "Errors" that a call can end with, and its data. */
START_TEST(every_failure_has_its_code_and_data)
{
	static const struct {
		struct transport_reply reply;
		const char *data;
	} cases[] = {
		{ { .code = MCPD_E_UNAVAILABLE, .message = "m" },
		  "{\"server\":\"s\",\"state\":\"failed\",\"lastError\":{\"message\":\"it broke\"}}" },
		{ { .code = MCPD_E_TRANSPORT, .message = "m", .sent = true },
		  "{\"server\":\"s\",\"maybeExecuted\":true}" },
		{ { .code = MCPD_E_TRANSPORT, .message = "m" }, "{\"server\":\"s\",\"state\":\"failed\"}" },
		{ { .code = MCPD_E_TIMEOUT, .message = "m", .timeout_ms = 20 },
		  "{\"server\":\"s\",\"timeoutMs\":20,\"state\":\"failed\"}" },
		{ { .code = MCPD_E_TIMEOUT, .message = "m", .timeout_ms = 20, .max_timeout_ms = 90, .sent = true },
		  "{\"server\":\"s\",\"timeoutMs\":20,\"maxTimeoutMs\":90,\"state\":\"failed\",\"maybeExecuted\":true}" },
		{ { .code = MCPD_E_CANCELLED, .message = "m" }, "{\"server\":\"s\",\"reason\":\"m\"}" },
		{ { .code = MCPD_E_HTTP,
		    .message = "m",
		    .http_status = 503,
		    .http_body = SPAN_LIT("a\"b"),
		    .sent = true },
		  "{\"server\":\"s\",\"status\":503,\"body\":\"a\\\"b\",\"maybeExecuted\":true}" },
		{ { .code = MCPD_E_HTTP,
		    .message = "m",
		    .http_status = 403,
		    .http_body = SPAN_LIT(""),
		    .www_authenticate = "Bearer",
		    .mcp_auth_server = "https://a" },
		  "{\"server\":\"s\",\"status\":403,\"body\":\"\",\"wwwAuthenticate\":\"Bearer\",\"mcpAuthServer\":\"https://a\"}" },
		{ { .code = MCPD_E_PROTOCOL, .message = "m", .sent = true },
		  "{\"server\":\"s\",\"maybeExecuted\":true}" },
		{ { .code = MCPD_E_LIMIT, .message = "m", .limit = LIMIT_SERVER_QUEUE },
		  "{\"server\":\"s\",\"limit\":\"serverQueueBytes\",\"value\":134217728}" },
		{ { .code = MCPD_E_NEEDS_AUTH, .message = "m", .http_status = 401 },
		  "{\"server\":\"s\",\"how\":\"mcpctl reload\",\"state\":\"failed\",\"lastError\":{\"message\":\"it broke\"},"
		  "\"status\":401}" },
	};
	begin();
	struct server *server = fake_add("s");
	fake_set_state(server, SERVER_FAILED);
	fake_set_error(server, "it broke");
	struct peer *p = peer_new();
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		ask(p, CALL("1"));
		passes(2);
		fake_reply(fake_call_at(-1), &cases[i].reply);
		expect_error(p, "1", cases[i].reply.code, "m", cases[i].data);
	}
	peer_close(p);
	end();
}
END_TEST

START_TEST(an_unknown_server_is_named_with_those_that_are_known)
{
	begin();
	fake_add("one");
	fake_add("two");
	struct peer *p = peer_new();
	ask(p, "\"id\":1,\"method\":\"servers/get\",\"params\":{\"server\":\"three\"}");
	expect_error(p, "1", -32001, "three", "{\"known\":[\"one\",\"two\"]}");
	peer_close(p);
	end();
}
END_TEST

START_TEST(parameters_are_checked_by_the_table)
{
	static const struct {
		const char *method, *params, *part;
	} cases[] = {
		{ "tools/call", "{\"name\":\"t\"}", "`server` is missing" },
		{ "tools/call", "{\"server\":\"s\"}", "`name` is missing" },
		{ "tools/call", "{\"server\":7,\"name\":\"t\"}", "`server` must be a string" },
		{ "tools/call", "{\"server\":\"s\",\"name\":\"t\",\"arguments\":[]}", "`arguments` must be an object" },
		{ "tools/call", "{\"server\":\"s\",\"name\":\"t\",\"timeoutMs\":-1}",
		  "`timeoutMs` must be a whole number" },
		{ "tools/call", "{\"server\":\"s\",\"name\":\"t\",\"timeoutMs\":1.5}",
		  "`timeoutMs` must be a whole number" },
		{ "tools/call", "{\"server\":\"s\",\"name\":\"t\",\"timeoutMs\":\"5\"}",
		  "`timeoutMs` must be a whole number" },
		{ "tools/call", "{\"server\":\"s\",\"name\":\"t\",\"server\":\"x\"}", "`server` occurs twice" },
		{ "tools/call", "{\"server\":\"s\",\"name\":\"t\",\"_meta\":{\"progressToken\":{}}}",
		  "`progressToken`" },
		{ "mcp/request", "{\"server\":\"s\"}", "`method` is missing" },
		{ "mcp/request", "{\"server\":\"s\",\"method\":\"initialize\"}", "daemon's own" },
		{ "mcp/request", "{\"server\":\"s\",\"method\":\"subscriptions\\/listen\"}", "daemon's own" },
		{ "mcp/request", "{\"server\":\"s\",\"method\":\"x\",\"params\":[]}", "`params` must be an object" },
		{ "mcp/request", "{\"server\":\"s\",\"method\":\"x\",\"params\":{\"_meta\":1}}", "`_meta`" },
		{ "mcp/notify", "{\"server\":\"s\",\"method\":\"notifications/initialized\"}", "daemon's own" },
		{ "mcp/notify", "{\"server\":\"s\",\"method\":\"notifications/cancelled\"}", "daemon's own" },
		{ "events/subscribe", "{}", "`topics` is missing" },
		{ "events/subscribe", "{\"topics\":[]}", "at least one of `servers`, `tools`" },
		{ "events/subscribe", "{\"topics\":[\"weather\"]}", "`notifications`" },
		{ "events/subscribe", "{\"topics\":\"logs\"}", "`topics`" },
		{ "daemon/hello", "{\"protocol\":\"1\"}", "`protocol`" },
		{ "daemon/hello", "{\"client\":\"me\"}", "`client`" },
		{ "servers/logs", "{\"server\":\"s\",\"lines\":-3}", "`lines`" },
		{ "tools/list", "{\"waitMs\":null}", "`waitMs`" },
	};
	begin();
	fake_add("s");
	struct peer *p = peer_new();
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char *members = xasprintf("\"id\":1,\"method\":\"%s\",\"params\":%s", cases[i].method, cases[i].params);
		ask(p, members);
		expect_error(p, "1", -32602, cases[i].part, NULL);
		free(members);
	}
	ck_assert_uint_eq(fake.n_calls, 0);
	peer_close(p);
	end();
}
END_TEST

START_TEST(hello_tells_versions_and_methods)
{
	begin();
	struct peer *p = peer_new();
	ask(p,
	    "\"id\":1,\"method\":\"daemon/hello\",\"params\":{\"protocol\":1,\"client\":{\"name\":\"x\"},\"other\":1}");
	const char *line = next_line(p);
	ck_assert_ptr_nonnull(strstr(line, "\"protocol\":1,\"daemon\":{\"name\":\"mcpd\",\"version\":\"1.2.3\"}"));
	ck_assert_ptr_nonnull(strstr(line, "\"tools/call\""));
	ck_assert_ptr_nonnull(strstr(line, "\"mcp/attach\""));
	ask(p, "\"id\":2,\"method\":\"daemon/hello\",\"params\":{\"protocol\":2}");
	expect_error(p, "2", -32602, "version", "{\"supported\":[1]}");
	ask(p, "\"id\":3,\"method\":\"daemon/hello\"");
	ck_assert_ptr_nonnull(strstr(next_line(p), "\"result\""));
	peer_close(p);
	end();
}
END_TEST

/* --- cancelling, progress --- */

START_TEST(cancelled_calls_end_with_the_reason)
{
	begin();
	fake_add("s");
	struct peer *p = peer_new();
	ask(p, CALL("\"x\""));
	ask(p, "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"\\u0078\",\"reason\":\"bored\"}");
	ask(p, "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":99}");
	ask(p, "\"method\":\"notifications/cancelled\"");
	ask(p, "\"method\":\"notifications/whatever\",\"params\":{}");
	passes(3);
	ck_assert_str_eq(fake_call_at(0)->cancelled, "bored");
	fake_fail(fake_call_at(0), MCPD_E_CANCELLED, "bored", true);
	expect_error(p, "\"x\"", -32005, "bored", "{\"server\":\"s\",\"reason\":\"bored\",\"maybeExecuted\":true}");
	/* A waiting order ends at once; what it waited for goes on, and finds nobody. */
	ask(p, "\"id\":2,\"method\":\"servers/connect\",\"params\":{\"server\":\"s\"}");
	ask(p, "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":2}");
	expect_error(p, "2", -32005, "Cancelled", "{\"reason\":\"cancelled by the client\"}");
	fake.orders[0].done(fake.orders[0].arg, fake.orders[0].server, NULL);
	expect_silence(p);
	peer_close(p);
	end();
}
END_TEST

/* R26, R21: progress with the client's own token, and none after the answer. */
START_TEST(R26_progress_goes_to_the_asker_before_the_answer)
{
	begin();
	fake_add("s");
	struct peer *p = peer_new(), *q = peer_new();
	ask(p,
	    "\"id\":1,\"method\":\"tools/call\",\"params\":{\"server\":\"s\",\"name\":\"t\",\"_meta\":{\"progressToken\":1.0}}");
	passes(2);
	struct fake_call *call = fake_call_at(0);
	call->options.progress(call->options.arg, SPAN_LIT("{\"progressToken\":\"u\",\"progress\":0.50}"));
	expect_line(
		p,
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":1.0,\"progress\":0.50}}");
	fake_result(call, "{}");
	expect_line(p, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
	expect_silence(q);
	peer_close(p);
	peer_close(q);
	end();
}
END_TEST

/* --- events --- */

START_TEST(a_subscription_is_active_before_its_answer_and_shows_what_is_there)
{
	begin();
	struct server *a = fake_add("a"), *b = fake_add("b");
	struct peer *p = peer_new(), *q = peer_new();
	ask(p, "\"id\":1,\"method\":\"events/subscribe\",\"params\":{\"topics\":[\"servers\",\"tools\",\"logs\"]}");
	expect_line(p, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
	ck_assert_ptr_nonnull(strstr(
		next_line(p), "\"events/server\",\"params\":{\"server\":{\"name\":\"a\",\"state\":\"connected\""));
	ck_assert_ptr_nonnull(strstr(next_line(p), "{\"name\":\"b\""));
	ask(q, "\"id\":1,\"method\":\"events/subscribe\",\"params\":{\"topics\":[\"servers\"],\"server\":\"b\"}");
	expect_line(q, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
	ck_assert_ptr_nonnull(strstr(next_line(q), "{\"name\":\"b\""));
	fake.callbacks->on_server(fake.arg, a);
	fake.callbacks->on_server(fake.arg, b);
	ck_assert_ptr_nonnull(strstr(next_line(p), "{\"name\":\"a\""));
	ck_assert_ptr_nonnull(strstr(next_line(p), "{\"name\":\"b\""));
	ck_assert_ptr_nonnull(strstr(next_line(q), "{\"name\":\"b\""));
	expect_silence(q);
	fake.callbacks->on_list(fake.arg, a, SERVER_TOOLS);
	expect_line(p, "{\"jsonrpc\":\"2.0\",\"method\":\"events/tools\",\"params\":{\"server\":\"a\",\"revision\":"
		       "\"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"}}");
	fake.callbacks->on_log(fake.arg, b, "2026-01-01T00:00:00.000Z", SPAN_LIT("hi\xff\"\t"));
	expect_line(p, "{\"jsonrpc\":\"2.0\",\"method\":\"events/log\",\"params\":{\"server\":\"b\",\"at\":"
		       "\"2026-01-01T00:00:00.000Z\",\"text\":\"hi\xef\xbf\xbd\\\"\\t\"}}");
	fake_remove(b);
	expect_line(
		p,
		"{\"jsonrpc\":\"2.0\",\"method\":\"events/server\",\"params\":{\"server\":{\"name\":\"b\"},\"removed\":true}}");
	expect_line(
		q,
		"{\"jsonrpc\":\"2.0\",\"method\":\"events/server\",\"params\":{\"server\":{\"name\":\"b\"},\"removed\":true}}");
	ask(p, "\"id\":2,\"method\":\"events/unsubscribe\",\"params\":{\"topics\":[\"servers\"]}");
	expect_line(p, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}");
	fake.callbacks->on_server(fake.arg, a);
	expect_silence(p);
	peer_close(p);
	peer_close(q);
	end();
}
END_TEST

START_TEST(calls_and_notifications_are_told_to_those_who_asked)
{
	begin();
	struct server *server = fake_add("s");
	struct peer *p = peer_new(), *q = peer_new();
	ask(p, "\"id\":1,\"method\":\"events/subscribe\",\"params\":{\"topics\":[\"calls\",\"notifications\"]}");
	next_line(p);
	ask(q, "\"id\":1,\"method\":\"daemon/hello\",\"params\":{\"client\":{\"name\":\"agent\"}}");
	next_line(q);
	ask(q, CALL("5"));
	passes(2);
	fake_fail(fake_call_at(0), MCPD_E_TIMEOUT, "Request timeout after 1ms", true);
	next_line(q);
	const char *line = next_line(p);
	ck_assert_ptr_nonnull(
		strstr(line, "\"events/call\",\"params\":{\"server\":\"s\",\"method\":\"tools/call\",\"name\":\"t\","
			     "\"client\":\"agent#2\",\"durationMs\":"));
	ck_assert_ptr_nonnull(strstr(line, "\"outcome\":\"timeout\"}"));
	fake.callbacks->on_notification(fake.arg, server, 0, SPAN_LIT("\"notifications/x\""), SPAN_LIT("{\"n\":1.0}"));
	expect_line(p,
		    "{\"jsonrpc\":\"2.0\",\"method\":\"events/notification\",\"params\":{\"server\":\"s\",\"method\":"
		    "\"notifications/x\",\"params\":{\"n\":1.0}}}");
	expect_silence(q);
	peer_close(p);
	peer_close(q);
	end();
}
END_TEST

/* --- questions --- */

START_TEST(R24_questions_are_asked_and_answered_by_id)
{
	begin();
	struct server *server = fake_add("s");
	struct peer *p = peer_new(), *q = peer_new();
	ask(p, "\"id\":1,\"method\":\"daemon/hello\",\"params\":{\"capabilities\":{\"elicitation\":{}}}");
	next_line(p);
	fake_ask(server, 5, "\"elicitation/create\"", "{\"message\":\"?\"}", MCP_PROOF_SOLE_OWNER, 1, 0, false);
	expect_line(
		p,
		"{\"jsonrpc\":\"2.0\",\"id\":\"mcpd-5\",\"method\":\"elicitation/create\",\"params\":{\"message\":\"?\","
		"\"_meta\":{\"dev.mcpd/server\":\"s\"}}}");
	ask(q, "\"id\":\"mcpd-5\",\"result\":{\"action\":\"accept\"}"); /* not its question */
	ask(p, "\"id\":\"mcpd-6\",\"result\":{}");
	ask(p, "\"id\":5,\"result\":{}");
	passes(3);
	ck_assert_uint_eq(fake.n_answers, 0);
	ask(p, "\"id\":\"mcpd\\u002d5\",\"error\":{\"code\":-1,\"message\":\"no\",\"data\":1.0}");
	passes(3);
	ck_assert_uint_eq(fake.n_answers, 1);
	ck_assert_str_eq(fake.answers[0].error, "{\"code\":-1,\"message\":\"no\",\"data\":1.0}");
	fake_ask(server, 7, "\"elicitation/create\"", "{}", MCP_PROOF_SOLE_OWNER, 1, 0, false);
	next_line(p);
	fake.callbacks->on_question_withdrawn(fake.arg, 7, SPAN_LIT("\"late\""));
	expect_line(
		p,
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":\"mcpd-7\",\"reason\":"
		"\"late\"}}");
	expect_silence(q);
	peer_close(p);
	peer_close(q);
	end();
}
END_TEST

/* --- listings --- */

START_TEST(M2_a_listing_waits_only_for_what_may_come)
{
	begin();
	struct server *a = fake_add("a"), *b = fake_add("b");
	fake_set_listing(a, true, false, "[{\"name\":\"x\",\"n\":1.0}]", "r1");
	fake_set_listing(b, false, true, "[]", "r2");
	fake_set_state(b, SERVER_CONNECTING);
	struct peer *p = peer_new();
	ask(p, "\"id\":1,\"method\":\"tools/list\",\"params\":{\"server\":\"a\"}");
	expect_line(
		p,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"revision\":\"r1\",\"servers\":[{\"name\":\"a\",\"state\":"
		"\"connected\",\"deferred\":false,\"tools\":[{\"name\":\"x\",\"n\":1.0}]}]}}");
	ask(p, "\"id\":2,\"method\":\"tools/list\",\"params\":{\"server\":\"a\",\"ifRevision\":\"r1\"}");
	expect_line(p, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"revision\":\"r1\",\"notModified\":true}}");
	ask(p, "\"id\":3,\"method\":\"tools/list\",\"params\":{\"waitMs\":600000}");
	expect_silence(p);
	fake_set_listing(b, true, false, "[{\"name\":\"y\"}]", "r3");
	fake_set_state(b, SERVER_CONNECTED);
	fake.callbacks->on_listing(fake.arg, b);
	ck_assert_ptr_nonnull(
		strstr(next_line(p),
		       "\"name\":\"b\",\"state\":\"connected\",\"deferred\":false,\"tools\":[{\"name\":\"y\"}]"));
	fake_set_listing(b, false, true, "[]", "r2");
	ask(p, "\"id\":4,\"method\":\"tools/list\",\"params\":{\"waitMs\":0}");
	ck_assert_ptr_nonnull(strstr(next_line(p), "\"deferred\":true,\"tools\":[]"));
	int64_t before = loop_now_ms();
	ask(p, "\"id\":5,\"method\":\"tools/list\",\"params\":{\"waitMs\":30}");
	ck_assert_ptr_nonnull(strstr(next_line(p), "\"deferred\":true,\"tools\":[]"));
	ck_assert_int_ge(loop_now_ms() - before, 30);
	/* One that is waited for may be cancelled, and may lose its client. */
	ask(p, "\"id\":6,\"method\":\"tools/list\",\"params\":{\"waitMs\":600000}");
	ask(p, "\"method\":\"notifications/cancelled\",\"params\":{\"requestId\":6}");
	expect_error(p, "6", -32005, "Cancelled", NULL);
	ask(p, "\"id\":7,\"method\":\"tools/list\",\"params\":{\"waitMs\":600000}");
	passes(2);
	peer_close(p);
	fake.callbacks->on_listing(fake.arg, b);
	end();
}
END_TEST

START_TEST(the_revision_of_all_depends_on_contents_alone)
{
	begin();
	struct server *a = fake_add("a"), *b = fake_add("b");
	fake_set_listing(a, true, false, "[]", "r1");
	fake_set_listing(b, true, false, "[]", "r2");
	struct peer *p = peer_new();
	char revision[3][128];
	for (int i = 0; i < 3; i++) {
		if (i == 1) {
			fake_set_state(b, SERVER_FAILED);
			fake_set_listing(b, true, true, "[]", "r2");
		} else if (i == 2) {
			fake_set_listing(b, true, true, "[]", "r3");
		}
		ask(p, "\"id\":1,\"method\":\"tools/list\"");
		const char *line = next_line(p);
		struct span r = json_path(span_of(line), "result", "revision", NULL);
		snprintf(revision[i], sizeof revision[i], "%.*s", (int)r.len, r.ptr);
	}
	ck_assert_str_eq(revision[0], revision[1]);
	ck_assert_str_ne(revision[0], revision[2]);
	peer_close(p);
	end();
}
END_TEST

/* --- the rest of the methods --- */

START_TEST(orders_are_answered_when_the_state_is_reached)
{
	begin();
	struct server *server = fake_add("s");
	struct peer *p = peer_new();
	ask(p, "\"id\":1,\"method\":\"servers/reconnect\",\"params\":{\"server\":\"s\",\"timeoutMs\":77}");
	passes(2);
	ck_assert_int_eq(fake.orders[0].order, SERVER_ORDER_RECONNECT);
	ck_assert_int_eq(fake.orders[0].timeout_ms, 77);
	fake.orders[0].done(fake.orders[0].arg, server, NULL);
	ck_assert_ptr_nonnull(strstr(next_line(p), "\"id\":1,\"result\":{\"name\":\"s\",\"state\":\"connected\""));
	ask(p, "\"id\":2,\"method\":\"servers/connect\",\"params\":{\"server\":\"s\"}");
	ask(p, "\"id\":3,\"method\":\"servers/connect\",\"params\":{\"server\":\"s\"}");
	ask(p, "\"id\":4,\"method\":\"servers/disconnect\",\"params\":{\"server\":\"s\"}");
	passes(2);
	fake_set_state(server, SERVER_FAILED);
	fake_set_error(server, "no such command");
	fake.orders[1].done(fake.orders[1].arg, server,
			    &(struct transport_reply){ .code = MCPD_E_TRANSPORT, .message = "no such command" });
	expect_error(p, "2", -32002, "no such command",
		     "{\"server\":\"s\",\"state\":\"failed\",\"lastError\":{\"message\":\"no such command\"}}");
	fake.orders[2].done(fake.orders[2].arg, server,
			    &(struct transport_reply){
				    .code = MCPD_E_TIMEOUT, .message = "Request timeout after 5ms", .timeout_ms = 5 });
	expect_error(p, "3", -32004, "Request timeout", "{\"server\":\"s\",\"timeoutMs\":5,\"state\":\"failed\"}");
	fake.orders[3].done(fake.orders[3].arg, NULL, NULL);
	expect_error(p, "4", -32002, "removed", "{\"server\":\"s\"}");
	peer_close(p);
	end();
}
END_TEST

START_TEST(release_is_for_the_holder_of_an_exclusive_server)
{
	begin();
	struct server *server = fake_add("s");
	struct peer *p = peer_new();
	fake_set_sharing(server, CONFIG_EXCLUSIVE);
	ask(p, "\"id\":1,\"method\":\"servers/release\",\"params\":{\"server\":\"s\"}");
	expect_error(p, "1", -32602, "does not hold", NULL);
	fake_set_holder(server, 1);
	ask(p, "\"id\":2,\"method\":\"servers/release\",\"params\":{\"server\":\"s\"}");
	expect_line(p, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}");
	peer_close(p);
	end();
}
END_TEST

START_TEST(notify_needs_a_connection)
{
	begin();
	struct server *server = fake_add("s");
	struct peer *p = peer_new();
	ask(p,
	    "\"id\":1,\"method\":\"mcp/notify\",\"params\":{\"server\":\"s\",\"method\":\"notifications/roots/list_changed\"}");
	expect_line(p, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
	ck_assert_str_eq(fake.notified, "\"notifications/roots/list_changed\"");
	fake_set_state(server, SERVER_IDLE);
	ask(p, "\"id\":2,\"method\":\"mcp/notify\",\"params\":{\"server\":\"s\",\"method\":\"notifications/x\"}");
	expect_error(p, "2", -32003, "Transport not connected", "{\"server\":\"s\",\"state\":\"idle\"}");
	peer_close(p);
	end();
}
END_TEST

START_TEST(a_shutdown_refuses_new_calls_and_lets_the_others_end)
{
	begin();
	fake_add("s");
	struct peer *p = peer_new();
	ask(p, CALL("1"));
	ask(p, "\"id\":2,\"method\":\"daemon/shutdown\"");
	expect_line(p, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}");
	ck_assert_uint_eq(shutdowns, 1);
	ipc_stop_calls(ipc);
	ask(p, CALL("3"));
	expect_error(p, "3", -32002, "shutting down", "{\"server\":\"s\",\"state\":\"connected\"}");
	fake_result(fake_call_at(0), "{}");
	expect_line(p, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
	ipc_close(ipc, 60000, on_closed, NULL);
	expect_eof(p);
	peer_close(p);
	for (int i = 0; i < 1000 && !closed; i++)
		loop_once(loop, 10);
	ck_assert(closed);
	passes(3);
	ipc_free(ipc);
	router_free(router);
	fake_free();
	reload_free(reload);
	loop_free(loop);
}
END_TEST

START_TEST(logs_are_the_last_lines)
{
	begin();
	fake_add("s");
	struct peer *p = peer_new();
	ask(p, "\"id\":1,\"method\":\"servers/logs\",\"params\":{\"server\":\"s\"}");
	expect_line(
		p,
		"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"lines\":[{\"at\":\"2026-01-01T00:00:00.000Z\",\"text\":\"first\"},"
		"{\"at\":\"2026-01-01T00:00:00.000Z\",\"text\":\"tab\\there\"}]}}");
	ask(p, "\"id\":2,\"method\":\"servers/logs\",\"params\":{\"server\":\"s\",\"lines\":0}");
	expect_line(p, "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"lines\":[]}}");
	peer_close(p);
	end();
}
END_TEST

int main(void)
{
	return RUN_TESTS("control", R19_payloads_pass_byte_for_byte, every_failure_has_its_code_and_data,
			 an_unknown_server_is_named_with_those_that_are_known, parameters_are_checked_by_the_table,
			 hello_tells_versions_and_methods, cancelled_calls_end_with_the_reason,
			 R26_progress_goes_to_the_asker_before_the_answer,
			 a_subscription_is_active_before_its_answer_and_shows_what_is_there,
			 calls_and_notifications_are_told_to_those_who_asked,
			 R24_questions_are_asked_and_answered_by_id, M2_a_listing_waits_only_for_what_may_come,
			 the_revision_of_all_depends_on_contents_alone, orders_are_answered_when_the_state_is_reached,
			 release_is_for_the_holder_of_an_exclusive_server, notify_needs_a_connection,
			 a_shutdown_refuses_new_calls_and_lets_the_others_end, logs_are_the_last_lines);
}
