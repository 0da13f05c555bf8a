/* mcp_client: calls, progress, cancellation and subscriptions, with servers of either era. */
#include "mcp_fixture.h"
#include "run.h"

#define META_KEYS                                                                                                      \
	"\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                                                  \
	"\"io.modelcontextprotocol/clientInfo\":{\"name\":\"test\",\"version\":\"9\"},"                                \
	"\"io.modelcontextprotocol/clientCapabilities\":"

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

static void finish(struct fixture *f, struct outcome *o)
{
	fake_answer(f->fake, last_call(f), "{}");
	outcome_free(o);
}

/* House rule 3: params and result byte for byte. */
START_TEST(call_to_a_legacy_server)
{
	struct fixture f;
	struct outcome o;
	fixture_legacy(&f, TRANSPORT_STDIO);
	const char *params = "{ \"name\":\"t\", \"arguments\":{\"n\":123456789012345678901234567890,\"n\":1.0} }";
	call_with(&f, &o, "call", "tools/call", params, (struct mcp_call_options){ .owner = 7, .timeout_ms = 1234 });
	struct fake_sent *sent = last_call(&f);
	assert_text(sent->params, params);
	ck_assert_int_eq(sent->timeout_ms, 1234);
	ck_assert_int_eq(sent->max_timeout_ms, 0);
	ck_assert(!sent->handshake);
	ck_assert_ptr_null(sent->headers);
	ck_assert_uint_eq(mcp_client_in_flight(f.client, 7), 1);
	ck_assert_uint_eq(mcp_client_in_flight(f.client, 8), 0);
	ck_assert_uint_eq(mcp_client_in_flight(f.client, 0), 1);
	fake_answer(f.fake, sent, "{\"content\":[],\"x\":1e400,\"x\":\"\\ud800\"}");
	ck_assert_int_eq(o.code, 0);
	assert_text(o.result, "{\"content\":[],\"x\":1e400,\"x\":\"\\ud800\"}");
	ck_assert_uint_eq(mcp_client_in_flight(f.client, 0), 0);
	outcome_free(&o);
	fixture_done(&f);
}
END_TEST

/* R21, PITFALLS "Relaying": the asker's token and its own protocol members go no further, all else does. */
START_TEST(meta_to_a_legacy_server)
{
	static const struct {
		const char *params, *plain, *with_token;
	} cases[] = {
		{ NULL, "(null)", "{\"_meta\":{\"progressToken\":%}}" },
		{ "{}", "{}", "{\"_meta\":{\"progressToken\":%}}" },
		{ "{\"_meta\":{\"progressToken\":1,\"a/b\":[ 1.0 ]}}", "{\"_meta\":{\"a/b\":[ 1.0 ]}}",
		  "{\"_meta\":{\"a/b\":[ 1.0 ],\"progressToken\":%}}" },
		{ "{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"x\","
		  "\"io.modelcontextprotocol/clientInfo\":{},"
		  "\"io.modelcontextprotocol/clientCapabilities\":{},\"io.modelcontextprotocol/logLevel\":\"debug\","
		  "\"io.modelcontextprotocol/subscriptionId\":1,"
		  "\"io.modelcontextprotocol/related-task\":{\"taskId\":\"1\"}}}",
		  "{\"_meta\":{\"io.modelcontextprotocol/related-task\":{\"taskId\":\"1\"}}}",
		  "{\"_meta\":{\"io.modelcontextprotocol/related-task\":{\"taskId\":\"1\"},\"progressToken\":%}}" },
	};
	struct fixture f;
	struct outcome o;
	fixture_legacy(&f, TRANSPORT_STDIO);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		call_with(&f, &o, "call", "tools/call", cases[i].params, (struct mcp_call_options){ .owner = 1 });
		assert_text(last_call(&f)->params, cases[i].plain);
		finish(&f, &o);
		call_with(&f, &o, "call", "tools/call", cases[i].params,
			  (struct mcp_call_options){ .owner = 1, .want_progress = true });
		int head = (int)(strchr(cases[i].with_token, '%') - cases[i].with_token);
		char *want = xasprintf("%.*s%" PRIu64 "%s", head, cases[i].with_token, o.number,
				       cases[i].with_token + head + 1);
		assert_text(last_call(&f)->params, want);
		free(want);
		finish(&f, &o);
	}
	fixture_done(&f);
}
END_TEST

START_TEST(meta_to_a_modern_server)
{
	struct fixture f;
	struct outcome o;
	fixture_modern(&f, TRANSPORT_STDIO);
	/* An asker that declares nothing. */
	call_with(&f, &o, "call", "tools/call", NULL, (struct mcp_call_options){ .owner = 1 });
	assert_text(last_call(&f)->params, "{\"_meta\":{" META_KEYS "{}}}");
	finish(&f, &o);
	/* The daemon itself. */
	call_with(&f, &o, "call", "tools/call", "{\"a\":1}", (struct mcp_call_options){ .owner = 0 });
	assert_text(last_call(&f)->params, "{\"a\":1,\"_meta\":{" META_KEYS "{\"roots\":{}}}}");
	finish(&f, &o);
	/* An asker's own words for these are replaced, its other members are kept. */
	call_with(&f, &o, "call", "tools/call",
		  "{\"_meta\":{\"progressToken\":\"p\",\"io.modelcontextprotocol/logLevel\":\"debug\","
		  "\"traceparent\":\"t\","
		  "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"liar\"}},\"a\":1}",
		  (struct mcp_call_options){ .owner = 1,
					     .capabilities = SPAN_LIT("{\"sampling\":{}}"),
					     .log_level = SPAN_LIT("\"warning\""),
					     .want_progress = true });
	char *want = xasprintf("{\"_meta\":{\"traceparent\":\"t\",\"progressToken\":%" PRIu64 "," META_KEYS
			       "{\"sampling\":{}},\"io.modelcontextprotocol/logLevel\":\"warning\"},\"a\":1}",
			       o.number);
	assert_text(last_call(&f)->params, want);
	free(want);
	finish(&f, &o);
	fixture_done(&f);
}
END_TEST

START_TEST(bad_params)
{
	struct fixture f;
	struct outcome o;
	static const char *const bad[] = { "[1]", "7", "{\"_meta\":7}" };
	for (int modern = 0; modern < 2; modern++) {
		if (modern)
			fixture_modern(&f, TRANSPORT_STDIO);
		else
			fixture_legacy(&f, TRANSPORT_STDIO);
		for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
			call_with(&f, &o, "call", "tools/call", bad[i], (struct mcp_call_options){ .owner = 1 });
			WAIT_UNTIL(&f, o.n_done);
			ck_assert_int_eq(o.code, MCPD_E_INVALID_PARAMS);
			ck_assert(!o.sent);
			outcome_free(&o);
		}
		ck_assert_ptr_null(fake_last(f.fake, "tools/call"));
		fixture_done(&f);
	}
}
END_TEST

START_TEST(request_over_the_limit)
{
	struct fixture f;
	struct outcome o;
	fixture_modern(&f, TRANSPORT_STDIO);
	/* The params alone fit; with what is added they do not. */
	size_t len = (size_t)f.limits.value[LIMIT_MESSAGE_BYTES] - 20;
	char *params = xcalloc(1, len + 1);
	memset(params, 'a', len);
	memcpy(params, "{\"s\":\"", 6);
	memcpy(params + len - 2, "\"}", 2);
	call_with(&f, &o, "call", "tools/list", params, (struct mcp_call_options){ .owner = 1 });
	free(params);
	WAIT_UNTIL(&f, o.n_done);
	ck_assert_int_eq(o.code, MCPD_E_LIMIT);
	ck_assert_int_eq(o.limit, LIMIT_MESSAGE_BYTES);
	outcome_free(&o);
	fixture_done(&f);
}
END_TEST

/* L2: nothing leaves before the handshake is through, nor after the end. */
START_TEST(call_out_of_season)
{
	struct fixture f;
	struct outcome early, late;
	fixture_start(&f, NULL, NULL);
	call(&f, &early, 1);
	mcp_client_notify(f.client, SPAN_LIT("\"notifications/x\""), SPAN_NONE);
	WAIT_UNTIL(&f, early.n_done);
	ck_assert_int_eq(early.code, MCPD_E_TRANSPORT);
	assert_text(early.message, "Transport not connected");
	ck_assert(!early.sent);
	outcome_free(&early);
	assert_text(fake_methods(f.fake), "server/discover");
	mcp_client_close(f.client);
	call(&f, &late, 1);
	WAIT_UNTIL(&f, f.n_closed);
	ck_assert_int_eq(late.code, MCPD_E_TRANSPORT);
	outcome_free(&late);
	fixture_done(&f);
}
END_TEST

/* S9, S10: every call completes, then on_closed, once. */
START_TEST(closing_completes_calls)
{
	for (int way = 0; way < 3; way++) {
		struct fixture f;
		struct outcome o[3];
		fixture_start(&f, NULL, &(struct fake_options){ .close_at_once = way == 1 });
		fake_answer(f.fake, last(&f, "server/discover"), DISCOVER_RESULT);
		for (size_t i = 0; i < 3; i++)
			call(&f, &o[i], i);
		diary(&f);
		f.close_in_done = f.free_in_closed = true;
		if (way == 2)
			fake_exit(f.fake, "boom");
		else
			mcp_client_close(f.client);
		ck_assert_uint_eq(f.n_closed, 0);
		WAIT_UNTIL(&f, f.n_closed);
		const char *text = diary(&f);
		assert_text(text, way == 2 ? "done call -32003\ndone call -32003\ndone call -32003\nclosed boom\n" :
					     "done call -32003\ndone call -32003\ndone call -32003\nclosed -\n");
		for (size_t i = 0; i < 3; i++) {
			assert_text(o[i].message, "Transport closed");
			outcome_free(&o[i]);
		}
		fixture_done(&f);
	}
}
END_TEST

START_TEST(thousands_of_calls)
{
	enum { N = 5000 };
	struct fixture f;
	struct outcome *o = xnew_array(struct outcome, N);
	fixture_legacy(&f, TRANSPORT_STDIO);
	size_t first = fake_count(f.fake);
	for (size_t i = 0; i < N; i++)
		call(&f, &o[i], 1 + i % 3);
	ck_assert_uint_eq(mcp_client_in_flight(f.client, 0), N);
	ck_assert_uint_eq(mcp_client_in_flight(f.client, 2), N / 3 + 1);
	for (size_t i = 0; i < N; i += 2)
		fake_answer(f.fake, fake_at(f.fake, first + i), "{}");
	for (size_t i = 1; i < N; i += 2)
		mcp_client_cancel(f.client, o[i].number, NULL);
	settle(&f);
	for (size_t i = 0; i < N; i++) {
		ck_assert_int_eq(o[i].code, i % 2 ? MCPD_E_CANCELLED : 0);
		outcome_free(&o[i]);
	}
	ck_assert_uint_eq(mcp_client_in_flight(f.client, 0), 0);
	free(o);
	buf_reset(&f.diary);
	fixture_done(&f);
}
END_TEST

/* R21, R26: progress to its own call alone; unknown, late and malformed tokens are dropped. */
START_TEST(progress)
{
	struct fixture f;
	struct outcome a, b, c;
	fixture_legacy(&f, TRANSPORT_STDIO);
	struct mcp_call_options options = { .owner = 1, .timeout_ms = 900, .want_progress = true };
	call_with(&f, &a, "a", "tools/call", "{\"_meta\":{\"progressToken\":1}}", options);
	struct fake_sent *sent_a = last_call(&f);
	options.owner = 2;
	call_with(&f, &b, "b", "tools/call", "{\"_meta\":{\"progressToken\":1}}", options);
	struct fake_sent *sent_b = last_call(&f);
	call(&f, &c, 3);
	struct fake_sent *sent_c = last_call(&f);
	ck_assert_int_eq(sent_a->max_timeout_ms, 600000);
	ck_assert_str_ne(sent_a->params, sent_b->params);
	char *text = xasprintf("{\"progressToken\":%" PRIu64 ",\"progress\":1.0}", b.number);
	fake_notification(f.fake, "notifications/progress", text);
	char *want = xasprintf("progress b %s\n", text);
	assert_text(diary(&f), want);
	ck_assert_uint_eq(sent_a->touched, 0);
	ck_assert_uint_eq(sent_b->touched, 1);
	free(want);

	static const char *const stray[] = {
		"{\"progressToken\":999999,\"progress\":1}",
		"{\"progressToken\":\"1\",\"progress\":1}",
		"{\"progressToken\":-1}",
		"{\"progressToken\":0}",
		"{\"progressToken\":1.5}",
		"{\"progressToken\":18446744073709551617}",
		"{\"progressToken\":null}",
		"{}",
		NULL,
	};
	for (size_t i = 0; i < sizeof(stray) / sizeof(stray[0]); i++)
		fake_notification(f.fake, "notifications/progress", stray[i]);
	/* Not asked for. */
	char *unwanted = xasprintf("{\"progressToken\":%" PRIu64 "}", c.number);
	fake_notification(f.fake, "notifications/progress", unwanted);
	ck_assert_uint_eq(sent_c->touched, 0);
	free(unwanted);
	assert_text(diary(&f), "");
	/* After the answer. */
	fake_answer(f.fake, sent_b, "{}");
	diary(&f);
	fake_notification(f.fake, "notifications/progress", text);
	assert_text(diary(&f), "");
	free(text);
	/* After the cancellation, before it is through. */
	mcp_client_cancel(f.client, a.number, "x");
	text = xasprintf("{\"progressToken\":%" PRIu64 "}", a.number);
	fake_notification(f.fake, "notifications/progress", text);
	assert_text(diary(&f), "");
	free(text);
	settle(&f);
	fake_answer(f.fake, sent_c, "{}");
	outcome_free(&a);
	outcome_free(&b);
	outcome_free(&c);
	fixture_done(&f);
}
END_TEST

/* C4, C5, R22: the right request is named to the server, by the id it knows, with the reason. */
START_TEST(cancel)
{
	struct fixture f;
	struct outcome a, b;
	fixture_legacy(&f, TRANSPORT_STDIO);
	call(&f, &a, 1);
	struct fake_sent *sent = last_call(&f);
	call(&f, &b, 2);
	mcp_client_cancel(f.client, a.number, "the \"user\" left");
	mcp_client_cancel(f.client, a.number, "again");
	mcp_client_cancel(f.client, 999, "unknown");
	ck_assert_uint_eq(a.n_done, 0);
	settle(&f);
	ck_assert_int_eq(a.code, MCPD_E_CANCELLED);
	assert_text(a.message, "the \"user\" left");
	ck_assert_uint_eq(fake_count_of(f.fake, "notifications/cancelled"), 1);
	char *want = xasprintf("{\"requestId\":%s,\"reason\":\"the \\\"user\\\" left\"}", sent->id);
	assert_text(last(&f, "notifications/cancelled")->params, want);
	free(want);
	ck_assert_uint_eq(b.n_done, 0);
	fake_late_answer(f.fake, sent);
	mcp_client_cancel(f.client, b.number, NULL);
	settle(&f);
	assert_contains(last(&f, "notifications/cancelled")->params, "\"m-");
	ck_assert_ptr_null(strstr(last(&f, "notifications/cancelled")->params, "reason"));
	outcome_free(&a);
	outcome_free(&b);
	fixture_done(&f);
}
END_TEST

/* C5 by era and transport, for a timeout and a cancellation; never for what was not sent. */
START_TEST(who_is_told_of_the_end)
{
	static const struct {
		bool modern;
		enum transport_kind kind;
		unsigned told;
	} cases[] = {
		{ false, TRANSPORT_STDIO, 2 },
		{ false, TRANSPORT_HTTP, 2 },
		{ true, TRANSPORT_STDIO, 2 },
		{ true, TRANSPORT_HTTP, 0 },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fixture f;
		struct outcome a, b, c, d;
		if (cases[i].modern)
			fixture_modern(&f, cases[i].kind);
		else
			fixture_legacy(&f, cases[i].kind);
		call(&f, &a, 1);
		fake_time_out(f.fake, last_call(&f));
		ck_assert_int_eq(a.code, MCPD_E_TIMEOUT);
		ck_assert_int_eq(a.timeout_ms, 50);
		if (cases[i].told)
			assert_contains(last(&f, "notifications/cancelled")->params, "Request timeout after 50ms");
		call(&f, &b, 1);
		mcp_client_cancel(f.client, b.number, "x");
		settle(&f);
		struct transport_reply unsent = { .code = MCPD_E_TIMEOUT, .message = "Request timeout after 1ms" };
		call(&f, &c, 1);
		fake_fail(f.fake, last_call(&f), &unsent);
		/* Ended otherwise: nothing to tell. */
		struct transport_reply broken = { .code = MCPD_E_PROTOCOL, .message = "?", .sent = true };
		call(&f, &d, 1);
		fake_fail(f.fake, last_call(&f), &broken);
		settle(&f);
		ck_assert_uint_eq(fake_count_of(f.fake, "notifications/cancelled"), cases[i].told);
		outcome_free(&a);
		outcome_free(&b);
		outcome_free(&c);
		outcome_free(&d);
		fixture_done(&f);
	}
}
END_TEST

/* subscriptions/listen: no clock of its own; what is said to it is heard while it is open. */
START_TEST(subscriptions)
{
	struct fixture f;
	struct outcome o;
	fixture_modern(&f, TRANSPORT_STDIO);
	call_with(&f, &o, "listen", "subscriptions/listen", "{\"notifications\":{\"toolsListChanged\":true}}",
		  (struct mcp_call_options){ .owner = 0, .timeout_ms = 0 });
	struct fake_sent *sent = last(&f, "subscriptions/listen");
	ck_assert_int_eq(sent->timeout_ms, 0);
	ck_assert_int_eq(sent->deadline_ms, 0);
	char *tagged = xasprintf("{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":%s}}", sent->id);
	char *want = xasprintf("notified \"notifications/tools/list_changed\" %s\n", tagged);
	fake_notification(f.fake, "notifications/tools/list_changed", tagged);
	assert_text(diary(&f), want);
	fake_notification(f.fake, "notifications/tools/list_changed",
			  "{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":\"m-999\"}}");
	assert_text(diary(&f), "");
	/* The server ends it: the call ends, and it is not told of its own doing. */
	fake_notification(f.fake, "notifications/cancelled", "{\"requestId\":\"m-999\"}");
	char *cancelled = xasprintf("{\"requestId\":%s}", sent->id);
	fake_notification(f.fake, "notifications/cancelled", cancelled);
	fake_notification(f.fake, "notifications/cancelled", cancelled);
	free(cancelled);
	WAIT_UNTIL(&f, o.n_done);
	ck_assert_int_eq(o.code, MCPD_E_CANCELLED);
	assert_text(o.message, "The server ended the subscription");
	ck_assert_ptr_null(fake_last(f.fake, "notifications/cancelled"));
	outcome_free(&o);
	diary(&f);
	fake_notification(f.fake, "notifications/tools/list_changed", tagged);
	assert_text(diary(&f), "");
	free(tagged);
	free(want);
	/* We end it. */
	call_with(&f, &o, "listen", "subscriptions/listen", "{\"notifications\":{}}",
		  (struct mcp_call_options){ .owner = 0, .timeout_ms = 0 });
	mcp_client_cancel(f.client, o.number, NULL);
	settle(&f);
	ck_assert_uint_eq(fake_count_of(f.fake, "notifications/cancelled"), 1);
	outcome_free(&o);
	fixture_done(&f);
}
END_TEST

START_TEST(notifications_and_logs)
{
	struct fixture f;
	fixture_legacy(&f, TRANSPORT_HTTP);
	fake_notification(f.fake, "notifications/resources/updated", "{\"uri\":\"a\",\"n\":1.0}");
	assert_text(diary(&f), "notified \"notifications/resources/updated\" {\"uri\":\"a\",\"n\":1.0}\n");
	/* A tag means nothing to a legacy client. */
	fake_notification(f.fake, "x", "{\"_meta\":{\"io.modelcontextprotocol/subscriptionId\":1}}");
	assert_contains(diary(&f), "notified");
	fake_log(f.fake, "hello");
	assert_text(diary(&f), "log hello\n");
	mcp_client_notify(f.client, SPAN_LIT("\"notifications/roots/list_changed\""), SPAN_LIT("{\"a\":1}"));
	assert_text(last(&f, "notifications/roots/list_changed")->params, "{\"a\":1}");
	ck_assert_int_eq(mcp_client_pid(f.client), 4711);
	/* H11 */
	mcp_client_listen(f.client);
	mcp_client_listen(f.client);
	ck_assert_uint_eq(fake_listens(f.fake), 2);
	fake_listener_end(f.fake, 405, "switched off");
	assert_text(diary(&f), "listener 405 switched off\n");
	/* Closing: it is not heard any more, but its log is. */
	mcp_client_close(f.client);
	fake_notification(f.fake, "x", NULL);
	fake_request(f.fake, "1", "roots/list", NULL, NULL);
	fake_listener_end(f.fake, 0, "aborted");
	mcp_client_listen(f.client);
	assert_text(diary(&f), "");
	fake_log(f.fake, "bye");
	assert_text(diary(&f), "log bye\n");
	fixture_done(&f);
}
END_TEST

START_TEST(no_listener_for_modern_servers)
{
	struct fixture f;
	fixture_modern(&f, TRANSPORT_HTTP);
	mcp_client_listen(f.client);
	ck_assert_uint_eq(fake_listens(f.fake), 0);
	fixture_done(&f);
}
END_TEST

START_TEST(headers_of_a_modern_server)
{
	struct fixture f;
	struct outcome o;
	struct mcp_call_options options = {
		.owner = 1,
		.input_schema = SPAN_LIT("{\"type\":\"object\",\"properties\":{\"r\":{\"type\":\"string\","
					 "\"x-mcp-header\":\"Region\"}}}"),
	};
	fixture_modern(&f, TRANSPORT_HTTP);
	call_with(&f, &o, "call", "tools/call", "{\"name\":\"t\",\"arguments\":{\"r\":\"eu\"}}", options);
	assert_text(last_call(&f)->headers, "Mcp-Name: t\nMcp-Param-Region: eu\n");
	finish(&f, &o);
	call_with(&f, &o, "call", "resources/read", "{\"uri\":\"file:///x\"}", (struct mcp_call_options){ .owner = 1 });
	assert_text(last(&f, "resources/read")->headers, "Mcp-Name: file:///x\n");
	fake_answer(f.fake, last(&f, "resources/read"), "{}");
	outcome_free(&o);
	call_with(&f, &o, "call", "tools/list", NULL, (struct mcp_call_options){ .owner = 1 });
	ck_assert_ptr_null(last(&f, "tools/list")->headers);
	fake_answer(f.fake, last(&f, "tools/list"), "{}");
	outcome_free(&o);
	buf_reset(&f.diary);
	fixture_done(&f);
	/* On stdio there is no header layer. */
	fixture_modern(&f, TRANSPORT_STDIO);
	call_with(&f, &o, "call", "tools/call", "{\"name\":\"t\",\"arguments\":{\"r\":\"eu\"}}", options);
	ck_assert_ptr_null(last_call(&f)->headers);
	finish(&f, &o);
	fixture_done(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS("mcp_client", call_to_a_legacy_server, meta_to_a_legacy_server, meta_to_a_modern_server,
			 bad_params, request_over_the_limit, call_out_of_season, closing_completes_calls,
			 thousands_of_calls, progress, cancel, who_is_told_of_the_end, subscriptions,
			 notifications_and_logs, no_listener_for_modern_servers, headers_of_a_modern_server);
}
