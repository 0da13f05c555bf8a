/* era, handshake: which era a server is of, in every order in which its answers may come (contract L2). */
#include "mcp/era.h"
#include "mcp_fixture.h"
#include "run.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define UNSUPPORTED(list) "{\"code\":-32022,\"message\":\"v\",\"data\":{\"requested\":\"x\",\"supported\":" list "}}"

struct probe_case {
	const char *what;
	int code;
	const char *text; /* result, error or HTTP body */
	int http_status;
	bool modern_error, not_sent;
	enum era_verdict verdict;
	const char *contains; /* the message */
};

static const struct probe_case probe_cases[] = {
	{ "ours", 0, "{\"supportedVersions\":[\"2026-07-28\"]}", .verdict = ERA_MODERN },
	{ "ours among others", 0, "{\"supportedVersions\":[\"2025-11-25\",\"2026-07-28\"]}", .verdict = ERA_MODERN },
	{ "a legacy one of ours", 0, "{\"supportedVersions\":[\"2030-01-01\",\"2025-06-18\"]}", .verdict = ERA_LEGACY },
	{ "none of ours", 0, "{\"supportedVersions\":[\"2030-01-01\",\"2031-01-01\"]}", .verdict = ERA_INCOMPATIBLE,
	  .contains = "\"demo\" speaks the MCP versions 2030-01-01, 2031-01-01; mcpd speaks 2024-11-05, " },
	{ "an empty list", 0, "{\"supportedVersions\":[]}", .verdict = ERA_INCOMPATIBLE, .contains = "(none)" },
	{ "odd members", 0, "{\"supportedVersions\":[7,null]}", .verdict = ERA_INCOMPATIBLE, .contains = "7, null" },
	{ "an empty result", 0, "{}", .verdict = ERA_LEGACY },
	{ "no list", 0, "{\"supportedVersions\":\"2026-07-28\"}", .verdict = ERA_LEGACY },
	{ "no object", 0, "[1]", .verdict = ERA_LEGACY },
	{ "method not found", MCPD_E_SERVER, "{\"code\":-32601,\"message\":\"?\"}", .verdict = ERA_LEGACY },
	{ "any error", MCPD_E_SERVER, "{\"code\":-32602,\"message\":\"?\"}", .verdict = ERA_LEGACY },
	{ "unsupported, none of ours", MCPD_E_SERVER, UNSUPPORTED("[\"2030-01-01\"]"), .verdict = ERA_INCOMPATIBLE,
	  .contains = "2030-01-01" },
	{ "unsupported, a legacy one", MCPD_E_SERVER, UNSUPPORTED("[\"2024-11-05\"]"), .verdict = ERA_LEGACY },
	{ "unsupported, yet listed", MCPD_E_SERVER, UNSUPPORTED("[\"2026-07-28\"]"), .verdict = ERA_INCOMPATIBLE,
	  .contains = "2026-07-28" },
	{ "its code without a list", MCPD_E_SERVER, "{\"code\":-32022,\"message\":\"v\"}", .verdict = ERA_LEGACY },
	{ "a list without its code", MCPD_E_SERVER, "{\"code\":-32004,\"message\":\"v\",\"data\":{\"supported\":[]}}",
	  .verdict = ERA_LEGACY },
	{ "HTTP 400, plain", MCPD_E_HTTP, "Bad Request: no session", 400, .verdict = ERA_LEGACY },
	{ "HTTP 404, empty", MCPD_E_HTTP, NULL, 404, .verdict = ERA_LEGACY },
	{ "HTTP 405", MCPD_E_HTTP, "", 405, .verdict = ERA_LEGACY },
	{ "HTTP 500", MCPD_E_HTTP, "oops", 500, .verdict = ERA_LEGACY },
	{ "HTTP 403", MCPD_E_HTTP, "no", 403, .verdict = ERA_REFUSED, .contains = "server/discover failed" },
	{ "HTTP 401", MCPD_E_HTTP, "no", 401, .verdict = ERA_NEEDS_AUTH, .contains = "failed" },
	{ "HTTP 400, unsupported", MCPD_E_HTTP, "{\"jsonrpc\":\"2.0\",\"error\":" UNSUPPORTED("[\"2030-01-01\"]") "}", 400,
	  true, .verdict = ERA_INCOMPATIBLE, .contains = "2030-01-01" },
	{ "HTTP 400, legacy named", MCPD_E_HTTP, "{\"error\":" UNSUPPORTED("[\"2025-03-26\"]") "}", 400, true,
	  .verdict = ERA_LEGACY },
	{ "HTTP 400, header mismatch", MCPD_E_HTTP, "{\"error\":{\"code\":-32020,\"message\":\"h\"}}", 400, true,
	  .verdict = ERA_REFUSED, .contains = "failed" },
	{ "HTTP 404, method not found", MCPD_E_HTTP, "{\"error\":{\"code\":-32601,\"message\":\"h\"}}", 404, true,
	  .verdict = ERA_LEGACY },
	{ "auth", MCPD_E_NEEDS_AUTH, NULL, 401, .verdict = ERA_NEEDS_AUTH, .contains = "failed" },
	{ "timeout", MCPD_E_TIMEOUT, NULL, .verdict = ERA_TIMEOUT, .contains = "failed" },
	{ "cut after sending", MCPD_E_TRANSPORT, NULL, .verdict = ERA_LEGACY },
	{ "not reached", MCPD_E_TRANSPORT, NULL, .not_sent = true, .verdict = ERA_LOST, .contains = "failed: why" },
	{ "rubbish", MCPD_E_PROTOCOL, NULL, .verdict = ERA_LEGACY },
};

START_TEST(probe_table)
{
	for (size_t i = 0; i < COUNT(probe_cases); i++) {
		const struct probe_case *c = &probe_cases[i];
		struct span text = span_of(c->text);
		struct transport_reply reply = {
			.code = c->code,
			.result = c->code == 0 ? text : SPAN_NONE,
			.error = c->code == MCPD_E_SERVER ? text : SPAN_NONE,
			.http_body = c->code == MCPD_E_HTTP ? text : SPAN_NONE,
			.http_status = c->http_status,
			.era_modern_error = c->modern_error,
			.message = c->code ? "why" : NULL,
			.sent = !c->not_sent,
		};
		struct era_finding finding;
		era_judge_probe("demo", &reply, &finding);
		ck_assert_msg(finding.verdict == c->verdict, "%s: %d", c->what, finding.verdict);
		ck_assert_msg(!finding.message == !c->contains, "%s: message %s", c->what, finding.message);
		if (c->contains)
			assert_contains(finding.message, c->contains);
		if (c->verdict == ERA_MODERN)
			assert_text(finding.version, "2026-07-28");
		else
			ck_assert_ptr_null(finding.version);
		era_finding_done(&finding);
	}
}
END_TEST

START_TEST(long_foreign_text_is_cut)
{
	char *version = xcalloc(1, 5001);
	memset(version, 'v', 5000);
	char *result = xasprintf("{\"supportedVersions\":[\"%s\"]}", version);
	struct transport_reply reply = { .result = span_of(result), .sent = true };
	struct era_finding finding;
	era_judge_probe("demo", &reply, &finding);
	ck_assert_int_eq(finding.verdict, ERA_INCOMPATIBLE);
	ck_assert_uint_lt(strlen(finding.message), 600);
	era_finding_done(&finding);
	free(result);
	free(version);
}
END_TEST

/* L2: 2024-11-05 to 2025-11-25 are accepted; anything else fails and is named, with the server. */
START_TEST(initialize_versions)
{
	static const struct {
		const char *result;
		const char *version, *contains;
	} cases[] = {
		{ INIT_RESULT("2024-11-05"), "2024-11-05", NULL },
		{ INIT_RESULT("2025-03-26"), "2025-03-26", NULL },
		{ INIT_RESULT("2025-06-18"), "2025-06-18", NULL },
		{ INIT_RESULT("2025-11-25"), "2025-11-25", NULL },
		{ INIT_RESULT("2025-11-\\u00325"), "2025-11-25", NULL },
		{ INIT_RESULT("2026-07-28"), NULL, "\"demo\" answered initialize with the MCP version 2026-07-28; " },
		{ INIT_RESULT("1999-01-01"), NULL, "1999-01-01; mcpd speaks 2024-11-05, 2025-03-26, 2025-06-18, " },
		{ "{}", NULL, "\"demo\" answered initialize without a protocolVersion" },
		{ "{\"protocolVersion\":20251125}", NULL, "without a protocolVersion" },
		{ "null", NULL, "without a protocolVersion" },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct transport_reply reply = { .result = span_of(cases[i].result), .sent = true };
		struct era_finding finding;
		era_judge_initialize("demo", &reply, &finding);
		ck_assert_int_eq(finding.verdict, cases[i].version ? ERA_LEGACY : ERA_INCOMPATIBLE);
		if (cases[i].version)
			assert_text(finding.version, cases[i].version);
		else
			assert_contains(finding.message, cases[i].contains);
		era_finding_done(&finding);
	}
}
END_TEST

static void assert_failed(struct fixture *f, enum mcp_failure_kind kind, bool hint_failed, const char *contains)
{
	ck_assert_uint_eq(f->n_ready, 1);
	ck_assert(f->failed);
	ck_assert_int_eq(f->kind, kind);
	ck_assert_int_eq(f->hint_failed, hint_failed);
	assert_contains(f->message, "demo");
	assert_contains(f->message, contains);
}

static void assert_ready(struct fixture *f, enum mcp_era era)
{
	bool modern;
	ck_assert_uint_eq(f->n_ready, 1);
	ck_assert_msg(!f->failed, "%s", f->message);
	ck_assert_int_eq(mcp_client_facts(f->client)->era, era);
	const char *version = fake_protocol(f->fake, &modern);
	ck_assert_int_eq(modern, era == MCP_ERA_MODERN);
	assert_text(version, mcp_client_facts(f->client)->protocol_version);
}

/* Grace that is over at once, or never. */
static void start_with(struct fixture *f, enum mcp_era hint, int64_t grace_ms)
{
	struct mcp_client_options options = default_options(f);
	options.era_hint = hint;
	options.probe_grace_ms = grace_ms;
	fixture_start(f, &options, NULL);
}

static struct fake_sent *probe(struct fixture *f)
{
	struct fake_sent *sent = fake_last(f->fake, "server/discover");
	ck_assert_ptr_nonnull(sent);
	return sent;
}

static struct fake_sent *initialize(struct fixture *f)
{
	struct fake_sent *sent = fake_last(f->fake, "initialize");
	ck_assert_ptr_nonnull(sent);
	return sent;
}

static void both_out(struct fixture *f)
{
	start_with(f, MCP_ERA_UNKNOWN, 1);
	WAIT_UNTIL(f, fake_last(f->fake, "initialize"));
	ck_assert(probe(f)->pending);
	assert_text(fake_methods(f->fake), "server/discover initialize");
}

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

/* The probe unanswered: initialize goes out beside it, its success decides, and the probe is dropped without a word (C5). */
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

START_TEST(slow_probe_wins_over_pending_initialize)
{
	struct fixture f;
	both_out(&f);
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
		assert_failed(&f, stages[i].kind, false, i == 4 ? "2030-01-01" : "exit status 1; last stderr lines: boom");
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

static void start_http(struct fixture *f, enum mcp_era hint)
{
	struct mcp_client_options options = default_options(f);
	options.era_hint = hint;
	fixture_start(f, &options, &(struct fake_options){ .kind = TRANSPORT_HTTP });
}

/* HTTP: connected means usable (H6), so a server that cannot be reached is a failed request, and nothing to forget an era for. */
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
	struct transport_reply reply = { .code = MCPD_E_NEEDS_AUTH, .message = "HTTP 401", .http_status = 401, .sent = true };
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
		.code = MCPD_E_HTTP, .message = "HTTP 400: no session", .http_status = 400,
		.http_body = SPAN_LIT("no session"), .session_lost = true, .sent = true,
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
		enum mcp_failure_kind failure;
	} cases[] = {
		{ TRANSPORT_STDIO, MCPD_E_TRANSPORT, MCP_FAIL_PERMANENT },
		{ TRANSPORT_HTTP, MCPD_E_TRANSPORT, MCP_FAIL_LOST },
		{ TRANSPORT_HTTP, MCPD_E_NEEDS_AUTH, MCP_FAIL_NEEDS_AUTH },
		{ TRANSPORT_HTTP, MCPD_E_TIMEOUT, MCP_FAIL_TIMEOUT },
		{ TRANSPORT_HTTP, MCPD_E_HTTP, MCP_FAIL_REFUSED },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct fixture f;
		fixture_start(&f, NULL,
			      &(struct fake_options){ .kind = cases[i].kind,
						      .connect_error = "npx: No such file or directory",
						      .connect_code = cases[i].code });
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
	return RUN_TESTS("era", probe_table, long_foreign_text_is_cut, initialize_versions, modern_server,
			 legacy_server_answers_the_probe_with_an_error, legacy_server_answers_the_probe_with_a_result,
			 silent_probe_initialize_wins, slow_probe_wins_over_pending_initialize,
			 probe_success_after_initialize_success_is_ignored,
			 initialize_refused_while_probe_pending_then_modern, initialize_refused_while_probe_stays_silent,
			 both_refused, incompatible_modern_server_with_initialize_pending,
			 incompatible_modern_server_that_takes_initialize, incompatible_modern_server,
			 modern_server_that_also_speaks_legacy_of_ours, foreign_initialize_version_fails,
			 initialize_times_out_after_unanswered_probe, initialize_times_out_after_answered_probe,
			 exit_at_every_stage, skip_probe, legacy_hint, modern_hint, http_not_reached,
			 http_cut_on_the_probe, http_auth, http_fallback, initialized_fails, connect_fails,
			 close_at_every_stage, close_inside_on_ready, free_or_close_before_start,
			 server_talks_during_the_handshake);
}
