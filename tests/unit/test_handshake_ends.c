/* handshake: servers that cannot be reached or refuse, over HTTP too, and handshakes that are closed from above. */
#include "handshake_fixture.h"
#include "run.h"

static void start_http(struct fixture *f, enum mcp_era hint)
{
	struct mcp_client_options options = default_options(f);
	options.era_hint = hint;
	fixture_start(f, &options, &(struct fake_options){ .kind = TRANSPORT_HTTP });
}

/* HTTP: connected means usable (H6), so a server that cannot be reached is a failed request, and nothing to forget an
 * era for. */
START_TEST(http_not_reached)
{
	static const enum mcp_era hints[] = { MCP_ERA_UNKNOWN, MCP_ERA_LEGACY, MCP_ERA_MODERN };
	struct transport_reply reply = { .code = MCPD_E_TRANSPORT, .message = "Connection refused" };
	for (size_t i = 0; i < COUNT(hints); i++) {
		struct fixture f;
		start_http(&f, hints[i]);
		fake_fail(f.fake, fake_at(f.fake, 0), &reply);
		assert_failed(&f, MCP_FAIL_LOST, false, "Connection refused");
		ck_assert_uint_eq(fake_count(f.fake), 1);
		fixture_done(&f);
	}
}
END_TEST

START_TEST(http_cut_on_the_probe)
{
	struct fixture f;
	struct transport_reply reply = { .code = MCPD_E_TRANSPORT, .message = "reset", .sent = true };
	start_http(&f, MCP_ERA_UNKNOWN);
	fake_fail(f.fake, probe(&f), &reply);
	fake_fail(f.fake, initialize(&f), &reply);
	assert_failed(&f, MCP_FAIL_LOST, false, "reset");
	fixture_done(&f);
}
END_TEST

START_TEST(http_auth)
{
	struct fixture f;
	struct transport_reply reply = {
		.code = MCPD_E_NEEDS_AUTH, .message = "HTTP 401", .http_status = 401, .sent = true
	};
	start_http(&f, MCP_ERA_UNKNOWN);
	fake_fail(f.fake, probe(&f), &reply);
	assert_failed(&f, MCP_FAIL_NEEDS_AUTH, false, "HTTP 401");
	ck_assert(f.with_reply);
	fixture_done(&f);

	start_http(&f, MCP_ERA_LEGACY);
	fake_fail(f.fake, initialize(&f), &reply);
	assert_failed(&f, MCP_FAIL_NEEDS_AUTH, false, "HTTP 401");
	fixture_done(&f);

	/* At once, also with initialize out: its answer would be no other. */
	both_out(&f);
	fake_fail(f.fake, probe(&f), &reply);
	assert_failed(&f, MCP_FAIL_NEEDS_AUTH, false, "HTTP 401");
	ck_assert(f.with_reply);
	fixture_done(&f);
}
END_TEST

START_TEST(http_fallback)
{
	struct fixture f;
	struct transport_reply plain = {
		.code = MCPD_E_HTTP,
		.message = "HTTP 400: no session",
		.http_status = 400,
		.http_body = SPAN_LIT("no session"),
		.session_lost = true,
		.sent = true,
	};
	start_http(&f, MCP_ERA_UNKNOWN);
	fake_fail(f.fake, probe(&f), &plain);
	fake_answer(f.fake, initialize(&f), INIT_RESULT("2025-06-18"));
	settle(&f);
	assert_ready(&f, MCP_ERA_LEGACY);
	fixture_done(&f);

	struct transport_reply modern = plain;
	modern.era_modern_error = true;
	modern.http_body = SPAN_LIT("{\"error\":{\"code\":-32021,\"message\":\"capability\"}}");
	start_http(&f, MCP_ERA_UNKNOWN);
	fake_fail(f.fake, probe(&f), &modern);
	assert_failed(&f, MCP_FAIL_REFUSED, false, "HTTP 400");
	ck_assert_ptr_null(fake_last(f.fake, "initialize"));
	fixture_done(&f);
}
END_TEST

START_TEST(initialized_fails)
{
	struct fixture f;
	fixture_start(&f, NULL, &(struct fake_options){ .kind = TRANSPORT_HTTP, .notify_code = MCPD_E_HTTP });
	fake_answer(f.fake, probe(&f), "{}");
	fake_answer(f.fake, initialize(&f), INIT_RESULT("2025-06-18"));
	settle(&f);
	assert_ready(&f, MCP_ERA_LEGACY);
	assert_text(diary(&f), "error notifications/initialized failed: it went wrong\n");
	fixture_done(&f);

	fixture_start(&f, NULL, &(struct fake_options){ .kind = TRANSPORT_HTTP, .notify_code = MCPD_E_NEEDS_AUTH });
	fake_answer(f.fake, probe(&f), "{}");
	fake_answer(f.fake, initialize(&f), INIT_RESULT("2025-06-18"));
	settle(&f);
	ck_assert(f.failed);
	ck_assert_int_eq(f.kind, MCP_FAIL_NEEDS_AUTH);
	fixture_done(&f);
}
END_TEST

/* M5, S8: a command that cannot be executed; H14: an event stream that cannot be opened. */
START_TEST(connect_fails)
{
	static const struct {
		enum transport_kind kind;
		int code;
		bool may_pass;
		enum mcp_failure_kind failure;
	} cases[] = {
		{ TRANSPORT_STDIO, MCPD_E_TRANSPORT, false, MCP_FAIL_PERMANENT },
		{ TRANSPORT_STDIO, MCPD_E_TRANSPORT, true, MCP_FAIL_LOST },
		{ TRANSPORT_HTTP, MCPD_E_TRANSPORT, false, MCP_FAIL_PERMANENT },
		{ TRANSPORT_HTTP, MCPD_E_TRANSPORT, true, MCP_FAIL_LOST },
		{ TRANSPORT_HTTP, MCPD_E_NEEDS_AUTH, true, MCP_FAIL_NEEDS_AUTH },
		{ TRANSPORT_HTTP, MCPD_E_TIMEOUT, true, MCP_FAIL_TIMEOUT },
		{ TRANSPORT_HTTP, MCPD_E_HTTP, true, MCP_FAIL_REFUSED },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct fixture f;
		fixture_start(&f, NULL,
			      &(struct fake_options){ .kind = cases[i].kind,
						      .connect_error = "npx: No such file or directory",
						      .connect_code = cases[i].code,
						      .connect_may_pass = cases[i].may_pass });
		assert_failed(&f, cases[i].failure, false, "npx: No such file or directory");
		ck_assert(f.with_reply);
		ck_assert_uint_eq(fake_count(f.fake), 0);
		WAIT_UNTIL(&f, f.n_closed);
		fixture_done(&f);
	}
}
END_TEST

/* Closed from above at every stage: no on_ready, one on_closed. */
START_TEST(close_at_every_stage)
{
	for (int stage = 0; stage < 10; stage++) {
		struct fixture f;
		struct mcp_client_options options = default_options(&f);
		bool hand = stage % 5 == 0;
		options.probe_grace_ms = stage % 5 == 2 ? 1 : NEVER_MS;
		fixture_start(&f, &options,
			      &(struct fake_options){ .connect_by_hand = hand, .close_at_once = stage >= 5 });
		if (stage % 5 == 2)
			WAIT_UNTIL(&f, fake_last(f.fake, "initialize"));
		if (stage % 5 >= 3)
			fake_answer(f.fake, probe(&f), "{}");
		if (stage % 5 == 4)
			fake_answer(f.fake, initialize(&f), INIT_RESULT("2025-06-18"));
		mcp_client_close(f.client);
		mcp_client_close(f.client);
		ck_assert_uint_eq(f.n_closed, 0);
		if (hand)
			fake_connected(f.fake);
		WAIT_UNTIL(&f, f.n_closed);
		ck_assert_uint_eq(f.n_ready, 0);
		assert_text(diary(&f), "closed -\n");
		fixture_done(&f);
	}
}
END_TEST

START_TEST(close_inside_on_ready)
{
	for (int round = 0; round < 4; round++) {
		struct fixture f;
		fixture_start(&f, NULL, &(struct fake_options){ .close_at_once = round >= 2 });
		f.close_in_ready = f.free_in_closed = true;
		if (round % 2)
			fake_answer(f.fake, probe(&f), DISCOVER_RESULT);
		else
			fake_error(f.fake, probe(&f), UNSUPPORTED("[]"));
		ck_assert_uint_eq(f.n_ready, 1);
		WAIT_UNTIL(&f, f.n_closed);
		fixture_done(&f);
	}
}
END_TEST

START_TEST(free_or_close_before_start)
{
	struct mcp_client_callbacks callbacks = { .on_closed = on_closed };
	struct fixture f = { 0 };
	f.loop = loop_new();
	limits_init(&f.limits);
	struct mcp_client_options options = default_options(&f);
	mcp_client_free(mcp_client_new(f.loop, &options, &callbacks, &f));
	mcp_client_free(NULL);
	f.client = mcp_client_new(f.loop, &options, &callbacks, &f);
	f.free_in_closed = true;
	mcp_client_close(f.client);
	ck_assert_uint_eq(f.n_closed, 0);
	ck_assert_int_eq(mcp_client_pid(f.client), 0);
	WAIT_UNTIL(&f, f.n_closed);
	settle(&f);
	loop_free(f.loop);
	buf_done(&f.diary);
}
END_TEST

/* What comes before the conversation is open: pings are answered, and the rest is as ever. */
START_TEST(server_talks_during_the_handshake)
{
	struct fixture f;
	start_with(&f, MCP_ERA_UNKNOWN, NEVER_MS);
	fake_request(f.fake, "\"p\"", "ping", NULL, NULL);
	assert_text(fake_last_response(f.fake)->result, "{}");
	fake_notification(f.fake, "notifications/message", "{\"level\":\"info\"}");
	assert_contains(diary(&f), "notified \"notifications/message\"");
	/* A question put while the era was open, by what turns out to be a modern server: it gets no response. */
	fake_request(f.fake, "5", "roots/list", NULL, NULL);
	fake_answer(f.fake, probe(&f), DISCOVER_RESULT);
	size_t sent = fake_count(f.fake);
	mcp_client_answer(f.client, f.question, SPAN_LIT("{}"), SPAN_NONE);
	ck_assert_uint_eq(fake_count(f.fake), sent);
	fixture_done(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS("handshake_ends", http_not_reached, http_cut_on_the_probe, http_auth, http_fallback,
			 initialized_fails, connect_fails, close_at_every_stage, close_inside_on_ready,
			 free_or_close_before_start, server_talks_during_the_handshake);
}
