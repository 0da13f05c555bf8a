/* handshake: which era a server is of, in every order in which its answers may come, and exits at every stage (contract
 * L2). */
#include "handshake_fixture.h"
#include "run.h"

START_TEST(modern_server)
{
	struct fixture f;
	start_with(&f, MCP_ERA_UNKNOWN, NEVER_MS);
	assert_text(fake_methods(f.fake), "server/discover");
	struct fake_sent *sent = probe(&f);
	ck_assert(sent->handshake);
	ck_assert_int_eq(sent->timeout_ms, 0);
	assert_text(sent->params, "{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","
				  "\"io.modelcontextprotocol/clientInfo\":{\"name\":\"test\",\"version\":\"9\"},"
				  "\"io.modelcontextprotocol/clientCapabilities\":{\"roots\":{}}}}");
	fake_answer(f.fake, sent, DISCOVER_RESULT);
	assert_ready(&f, MCP_ERA_MODERN);
	const struct mcp_server_facts *facts = mcp_client_facts(f.client);
	ck_assert(span_is(facts->server_info, "{\"name\":\"new\",\"version\":\"2\"}"));
	ck_assert(facts->has_tools && !facts->has_prompts && !facts->has_resources);
	ck_assert_ptr_null(facts->instructions.ptr);
	settle(&f);
	/* L2: neither initialize nor initialized to a modern server. */
	assert_text(fake_methods(f.fake), "server/discover");
	fixture_done(&f);
}
END_TEST

START_TEST(legacy_server_answers_the_probe_with_an_error)
{
	struct fixture f;
	start_with(&f, MCP_ERA_UNKNOWN, NEVER_MS);
	fake_error(f.fake, probe(&f), "{\"code\":-32602,\"message\":\"not initialized\"}");
	struct fake_sent *sent = initialize(&f);
	ck_assert(sent->handshake);
	ck_assert_int_eq(sent->timeout_ms, 5000);
	assert_text(sent->params, "{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"roots\":{}},"
				  "\"clientInfo\":{\"name\":\"test\",\"version\":\"9\"}}");
	fake_answer(f.fake, sent,
		    "{\"protocolVersion\":\"2025-06-18\",\"capabilities\":{\"prompts\":{},\"logging\":{},"
		    "\"completions\":{},\"resources\":{\"subscribe\":true}},\"serverInfo\":{\"name\":\"x\"},"
		    "\"instructions\":\"be \\u006eice\"}");
	/* L2: ready only once initialized has left. */
	ck_assert_uint_eq(f.n_ready, 0);
	assert_text(fake_methods(f.fake), "server/discover initialize notifications/initialized");
	struct fake_sent *initialized = fake_last(f.fake, "notifications/initialized");
	ck_assert_ptr_null(initialized->params);
	ck_assert(!initialized->handshake);
	settle(&f);
	assert_ready(&f, MCP_ERA_LEGACY);
	const struct mcp_server_facts *facts = mcp_client_facts(f.client);
	ck_assert(!facts->has_tools && facts->has_prompts && facts->has_resources && facts->has_logging);
	ck_assert(facts->has_completions && facts->has_resource_subscribe);
	ck_assert(span_is(facts->instructions, "\"be \\u006eice\""));
	ck_assert(span_is(facts->server_info, "{\"name\":\"x\"}"));
	fixture_done(&f);
}
END_TEST

START_TEST(legacy_server_answers_the_probe_with_a_result)
{
	struct fixture f;
	start_with(&f, MCP_ERA_UNKNOWN, NEVER_MS);
	fake_answer(f.fake, probe(&f), "{}");
	fake_answer(f.fake, initialize(&f), INIT_RESULT("2024-11-05"));
	settle(&f);
	assert_ready(&f, MCP_ERA_LEGACY);
	fixture_done(&f);
}
END_TEST

/* The probe unanswered: initialize goes out beside it, its success decides, and the probe is dropped without a word
 * (C5). */
START_TEST(silent_probe_initialize_wins)
{
	struct fixture f;
	both_out(&f);
	fake_answer(f.fake, initialize(&f), INIT_RESULT("2025-03-26"));
	ck_assert(probe(&f)->given_up);
	settle(&f);
	assert_ready(&f, MCP_ERA_LEGACY);
	assert_text(fake_methods(f.fake), "server/discover initialize notifications/initialized");
	/* The probe's late answer changes nothing, and it holds up no proof. */
	fake_late_answer(f.fake, probe(&f));
	fake_request(f.fake, "1", "roots/list", NULL, NULL);
	assert_contains(diary(&f), "no-call");
	fixture_done(&f);
}
END_TEST

/* The probe succeeds beside a pending initialize. On stdio initialize may yet make the process a legacy one: its end is
 * waited for, but not for ever. */
START_TEST(slow_probe_wins_over_initialize)
{
	for (int refused = 0; refused < 2; refused++) {
		struct fixture f;
		both_out(&f);
		fake_answer(f.fake, probe(&f), DISCOVER_RESULT);
		ck_assert_uint_eq(f.n_ready, 0);
		if (refused)
			fake_error(f.fake, initialize(&f), UNSUPPORTED("[\"2026-07-28\"]"));
		WAIT_UNTIL(&f, f.n_ready);
		assert_ready(&f, MCP_ERA_MODERN);
		ck_assert_int_eq(mcp_client_facts(f.client)->remembered_era, MCP_ERA_MODERN);
		ck_assert(span_is(mcp_client_facts(f.client)->server_info, "{\"name\":\"new\",\"version\":\"2\"}"));
		ck_assert(refused || initialize(&f)->given_up);
		settle(&f);
		assert_text(fake_methods(f.fake), "server/discover initialize");
		fixture_done(&f);
	}
}
END_TEST

/* Both succeed: the process has been made a legacy one, and it is remembered that the server can do better. */
START_TEST(slow_server_of_both_eras)
{
	struct fixture f;
	both_out(&f);
	fake_answer(f.fake, probe(&f), DISCOVER_RESULT);
	fake_answer(f.fake, initialize(&f), INIT_RESULT("2025-11-25"));
	settle(&f);
	assert_ready(&f, MCP_ERA_LEGACY);
	ck_assert_int_eq(mcp_client_facts(f.client)->remembered_era, MCP_ERA_MODERN);
	ck_assert(span_is(mcp_client_facts(f.client)->server_info, "{\"name\":\"srv\",\"version\":\"1\"}"));
	assert_text(fake_methods(f.fake), "server/discover initialize notifications/initialized");
	fixture_done(&f);
	/* It goes while it is waited for. */
	both_out(&f);
	fake_answer(f.fake, probe(&f), DISCOVER_RESULT);
	fake_exit(f.fake, "exit status 4");
	assert_failed(&f, MCP_FAIL_LOST, false, "exit status 4");
	fixture_done(&f);
}
END_TEST

/* Over HTTP each request stands for itself. */
START_TEST(http_probe_wins_at_once)
{
	struct fixture f;
	struct mcp_client_options options = default_options(&f);
	options.probe_grace_ms = 1;
	fixture_start(&f, &options, &(struct fake_options){ .kind = TRANSPORT_HTTP });
	WAIT_UNTIL(&f, fake_last(f.fake, "initialize"));
	fake_answer(f.fake, probe(&f), DISCOVER_RESULT);
	assert_ready(&f, MCP_ERA_MODERN);
	ck_assert(initialize(&f)->given_up);
	settle(&f);
	assert_text(fake_methods(f.fake), "server/discover initialize");
	fixture_done(&f);
}
END_TEST

START_TEST(probe_success_after_initialize_success_is_ignored)
{
	struct fixture f;
	struct mcp_client_options options = default_options(&f);
	options.probe_grace_ms = 1;
	fixture_start(&f, &options, NULL);
	WAIT_UNTIL(&f, fake_last(f.fake, "initialize"));
	/* Both answers in one read: the probe's comes before the transport has heard that it is dropped. */
	struct fake_sent *sent = probe(&f);
	fake_answer(f.fake, initialize(&f), INIT_RESULT("2025-11-25"));
	sent->due = false;
	fake_answer(f.fake, sent, DISCOVER_RESULT);
	settle(&f);
	assert_ready(&f, MCP_ERA_LEGACY);
	fixture_done(&f);
}
END_TEST

START_TEST(initialize_refused_while_probe_pending_then_modern)
{
	struct fixture f;
	both_out(&f);
	fake_error(f.fake, initialize(&f), "{\"code\":-32601,\"message\":\"no initialize here\"}");
	ck_assert_uint_eq(f.n_ready, 0);
	fake_answer(f.fake, probe(&f), DISCOVER_RESULT);
	assert_ready(&f, MCP_ERA_MODERN);
	fixture_done(&f);
}
END_TEST

START_TEST(initialize_refused_while_probe_stays_silent)
{
	struct fixture f;
	both_out(&f);
	fake_error(f.fake, initialize(&f), "{\"code\":-1,\"message\":\"no\"}");
	WAIT_UNTIL(&f, f.n_ready);
	assert_failed(&f, MCP_FAIL_REFUSED, false, "initialize failed: MCP error");
	ck_assert(probe(&f)->given_up);
	fixture_done(&f);
}
END_TEST

START_TEST(both_refused)
{
	struct fixture f;
	both_out(&f);
	fake_error(f.fake, initialize(&f), "{\"code\":-1,\"message\":\"no\"}");
	fake_error(f.fake, probe(&f), "{\"code\":-32601,\"message\":\"no\"}");
	assert_failed(&f, MCP_FAIL_REFUSED, false, "initialize failed");
	fixture_done(&f);
}
END_TEST

/* A modern server of other versions only: they are what the user must hear of, whatever initialize got. */
START_TEST(incompatible_modern_server_with_initialize_pending)
{
	struct fixture f;
	both_out(&f);
	fake_answer(f.fake, probe(&f), "{\"supportedVersions\":[\"2030-01-01\"]}");
	ck_assert_uint_eq(f.n_ready, 0);
	fake_error(f.fake, initialize(&f), "{\"code\":-1,\"message\":\"no\"}");
	assert_failed(&f, MCP_FAIL_REFUSED, false, "2030-01-01");
	fixture_done(&f);
}
END_TEST

START_TEST(incompatible_modern_server_that_takes_initialize)
{
	struct fixture f;
	both_out(&f);
	fake_answer(f.fake, probe(&f), "{\"supportedVersions\":[\"2030-01-01\"]}");
	fake_answer(f.fake, initialize(&f), INIT_RESULT("2025-11-25"));
	settle(&f);
	assert_ready(&f, MCP_ERA_LEGACY);
	fixture_done(&f);
}
END_TEST

START_TEST(incompatible_modern_server)
{
	struct fixture f;
	start_with(&f, MCP_ERA_UNKNOWN, NEVER_MS);
	fake_error(f.fake, probe(&f), UNSUPPORTED("[\"2030-01-01\"]"));
	assert_failed(&f, MCP_FAIL_REFUSED, false, "2030-01-01");
	ck_assert(f.with_reply);
	ck_assert_ptr_null(fake_last(f.fake, "initialize"));
	/* A failed handshake closes the transport. */
	WAIT_UNTIL(&f, f.n_closed);
	ck_assert(fake_closed(f.fake));
	fixture_done(&f);
}
END_TEST

START_TEST(modern_server_that_also_speaks_legacy_of_ours)
{
	struct fixture f;
	start_with(&f, MCP_ERA_UNKNOWN, NEVER_MS);
	fake_answer(f.fake, probe(&f), "{\"supportedVersions\":[\"2030-01-01\",\"2025-11-25\"]}");
	fake_answer(f.fake, initialize(&f), INIT_RESULT("2025-11-25"));
	settle(&f);
	assert_ready(&f, MCP_ERA_LEGACY);
	fixture_done(&f);
}
END_TEST

START_TEST(foreign_initialize_version_fails)
{
	struct fixture f;
	start_with(&f, MCP_ERA_UNKNOWN, NEVER_MS);
	fake_answer(f.fake, probe(&f), "{}");
	fake_answer(f.fake, initialize(&f), INIT_RESULT("1999-01-01"));
	assert_failed(&f, MCP_FAIL_REFUSED, false, "1999-01-01");
	settle(&f);
	ck_assert_ptr_null(fake_last(f.fake, "notifications/initialized"));
	fixture_done(&f);
}
END_TEST

START_TEST(initialize_times_out_after_unanswered_probe)
{
	struct fixture f;
	both_out(&f);
	fake_time_out(f.fake, initialize(&f));
	assert_failed(&f, MCP_FAIL_RETRY_LEGACY, false, "Request timeout after");
	settle(&f);
	/* C5: never a cancel message for initialize or the probe. */
	assert_text(fake_methods(f.fake), "server/discover initialize");
	fixture_done(&f);
}
END_TEST

START_TEST(initialize_times_out_after_answered_probe)
{
	struct fixture f;
	start_with(&f, MCP_ERA_UNKNOWN, NEVER_MS);
	fake_error(f.fake, probe(&f), "{\"code\":-32601,\"message\":\"no\"}");
	fake_time_out(f.fake, initialize(&f));
	assert_failed(&f, MCP_FAIL_TIMEOUT, false, "Request timeout after");
	ck_assert(f.with_reply);
	settle(&f);
	assert_text(fake_methods(f.fake), "server/discover initialize");
	fixture_done(&f);
}
END_TEST

/* A server that exits, at every stage of an unhinted handshake. */
START_TEST(exit_at_every_stage)
{
	static const struct {
		const char *stage;
		enum mcp_failure_kind kind;
	} stages[] = {
		{ "on the probe", MCP_FAIL_RETRY_LEGACY },
		{ "with both out", MCP_FAIL_RETRY_LEGACY },
		{ "after the probe's error", MCP_FAIL_RETRY_LEGACY },
		{ "after initialize was refused", MCP_FAIL_RETRY_LEGACY },
		{ "after naming its versions", MCP_FAIL_REFUSED },
		{ "after initialize", MCP_FAIL_LOST },
	};
	struct fixture f;
	for (size_t i = 0; i < COUNT(stages); i++) {
		bool both = i == 1 || i == 3 || i == 4;
		struct mcp_client_options options = default_options(&f);
		options.probe_grace_ms = both ? 1 : NEVER_MS;
		fixture_start(&f, &options, &(struct fake_options){ .notify_code = MCPD_E_TRANSPORT });
		if (both)
			WAIT_UNTIL(&f, fake_last(f.fake, "initialize"));
		if (i == 2 || i == 5)
			fake_error(f.fake, probe(&f), "{\"code\":-32601,\"message\":\"no\"}");
		if (i == 3)
			fake_error(f.fake, initialize(&f), "{\"code\":-1,\"message\":\"no\"}");
		if (i == 4)
			fake_answer(f.fake, probe(&f), "{\"supportedVersions\":[\"2030-01-01\"]}");
		if (i == 5)
			fake_answer(f.fake, initialize(&f), INIT_RESULT("2025-11-25"));
		ck_assert_msg(f.n_ready == 0, "%s", stages[i].stage);
		fake_exit(f.fake, "exit status 1; last stderr lines: boom");
		ck_assert_msg(f.kind == stages[i].kind, "%s: %d", stages[i].stage, f.kind);
		assert_failed(&f, stages[i].kind, false,
			      i == 4 ? "2030-01-01" : "exit status 1; last stderr lines: boom");
		WAIT_UNTIL(&f, f.n_closed);
		assert_text(diary(&f), "closed exit status 1; last stderr lines: boom\n");
		fixture_done(&f);
	}
}
END_TEST

START_TEST(skip_probe)
{
	struct fixture f;
	struct mcp_client_options options = default_options(&f);
	options.skip_probe = true;
	fixture_start(&f, &options, NULL);
	assert_text(fake_methods(f.fake), "initialize");
	fake_answer(f.fake, initialize(&f), INIT_RESULT("2025-11-25"));
	settle(&f);
	assert_ready(&f, MCP_ERA_LEGACY);
	fixture_done(&f);
	/* It is not started again for ever. */
	fixture_start(&f, &options, NULL);
	fake_exit(f.fake, "exit status 3");
	assert_failed(&f, MCP_FAIL_LOST, false, "exit status 3");
	fixture_done(&f);
	fixture_start(&f, &options, NULL);
	fake_time_out(f.fake, initialize(&f));
	assert_failed(&f, MCP_FAIL_TIMEOUT, false, "timeout");
	fixture_done(&f);
}
END_TEST

START_TEST(legacy_hint)
{
	struct fixture f;
	start_with(&f, MCP_ERA_LEGACY, 1);
	assert_text(fake_methods(f.fake), "initialize");
	fake_answer(f.fake, initialize(&f), INIT_RESULT("2025-11-25"));
	settle(&f);
	assert_ready(&f, MCP_ERA_LEGACY);
	assert_text(fake_methods(f.fake), "initialize notifications/initialized");
	fixture_done(&f);

	start_with(&f, MCP_ERA_LEGACY, 1);
	fake_error(f.fake, initialize(&f), "{\"code\":-32601,\"message\":\"modern only\"}");
	assert_failed(&f, MCP_FAIL_REFUSED, true, "initialize failed");
	fixture_done(&f);

	start_with(&f, MCP_ERA_LEGACY, 1);
	fake_time_out(f.fake, initialize(&f));
	assert_failed(&f, MCP_FAIL_TIMEOUT, true, "timeout");
	fixture_done(&f);

	start_with(&f, MCP_ERA_LEGACY, 1);
	fake_exit(f.fake, "killed");
	assert_failed(&f, MCP_FAIL_LOST, true, "killed");
	fixture_done(&f);
}
END_TEST

START_TEST(modern_hint)
{
	struct fixture f;
	start_with(&f, MCP_ERA_MODERN, 1);
	/* The grace does not count: initialize only if discover fails. */
	for (int64_t until = loop_now_ms() + 30; loop_now_ms() < until;)
		loop_once(f.loop, 10);
	assert_text(fake_methods(f.fake), "server/discover");
	ck_assert_int_eq(probe(&f)->timeout_ms, 5000);
	fake_answer(f.fake, probe(&f), DISCOVER_RESULT);
	assert_ready(&f, MCP_ERA_MODERN);
	fixture_done(&f);

	start_with(&f, MCP_ERA_MODERN, 1);
	fake_error(f.fake, probe(&f), "{\"code\":-32601,\"message\":\"downgraded\"}");
	fake_answer(f.fake, initialize(&f), INIT_RESULT("2025-11-25"));
	settle(&f);
	assert_ready(&f, MCP_ERA_LEGACY);
	fixture_done(&f);

	start_with(&f, MCP_ERA_MODERN, 1);
	fake_error(f.fake, probe(&f), "{\"code\":-32601,\"message\":\"no\"}");
	fake_error(f.fake, initialize(&f), "{\"code\":-32601,\"message\":\"no\"}");
	assert_failed(&f, MCP_FAIL_REFUSED, true, "initialize failed");
	fixture_done(&f);

	start_with(&f, MCP_ERA_MODERN, 1);
	fake_time_out(f.fake, probe(&f));
	assert_failed(&f, MCP_FAIL_TIMEOUT, true, "server/discover failed: Request timeout");
	fixture_done(&f);

	start_with(&f, MCP_ERA_MODERN, 1);
	fake_exit(f.fake, "exit status 2");
	assert_failed(&f, MCP_FAIL_LOST, true, "exit status 2");
	fixture_done(&f);
}
END_TEST

int main(void)
{
	return RUN_TESTS(
		"handshake", modern_server, legacy_server_answers_the_probe_with_an_error,
		legacy_server_answers_the_probe_with_a_result, silent_probe_initialize_wins,
		slow_probe_wins_over_initialize, slow_server_of_both_eras, http_probe_wins_at_once,
		probe_success_after_initialize_success_is_ignored, initialize_refused_while_probe_pending_then_modern,
		initialize_refused_while_probe_stays_silent, both_refused,
		incompatible_modern_server_with_initialize_pending, incompatible_modern_server_that_takes_initialize,
		incompatible_modern_server, modern_server_that_also_speaks_legacy_of_ours,
		foreign_initialize_version_fails, initialize_times_out_after_unanswered_probe,
		initialize_times_out_after_answered_probe, exit_at_every_stage, skip_probe, legacy_hint, modern_hint);
}
