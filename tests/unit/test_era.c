/* era: what single answers say of a server's era (contract L2). */
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
	{ "HTTP 400, unsupported", MCPD_E_HTTP, "{\"jsonrpc\":\"2.0\",\"error\":" UNSUPPORTED("[\"2030-01-01\"]") "}",
	  400, true, .verdict = ERA_INCOMPATIBLE, .contains = "2030-01-01" },
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

int main(void)
{
	return RUN_TESTS("era", probe_table, long_foreign_text_is_cut, initialize_versions);
}
