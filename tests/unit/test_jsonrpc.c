/* jsonrpc: what a message is (L1, S2 to S5), what is none, ids, and how lines are written (S1). */
#include "proto/jsonrpc.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/errors.h"
#include "tests/unit/alloc_fail.h"
#include "tests/unit/guard.h"
#include "tests/unit/run.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static void assert_span(struct span s, const char *want)
{
	ck_assert_msg(want ? span_is(s, want) : s.ptr == NULL, "got '%.*s', want '%s'", (int)s.len, s.ptr ? s.ptr : "",
		      want ? want : "(absent)");
}

static struct jsonrpc_message parse(const char *text)
{
	struct jsonrpc_message m;
	struct json_error error = { 0, "", false };
	int rc = jsonrpc_parse(guard_copy(span_of(text)), &m, &error);
	ck_assert_msg(rc == 0, "%s: %s at %zu", text, error.reason, error.offset);
	return m;
}

/* L1, S2, S3, S5, R23: the kind follows from the members, in whatever order they come. */
START_TEST(l1_s3_s5_r23_kinds_of_messages)
{
	static const struct {
		const char *text;
		enum jsonrpc_kind kind;
		const char *id, *method;
	} cases[] = {
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", JSONRPC_REQUEST, "1", "\"ping\"" },
		{ " {\"method\":\"a\\/b\" ,\"id\": \"x\\u0031\",\"jsonrpc\":\"2.\\u0030\",\"params\":{}}\t",
		  JSONRPC_REQUEST, "\"x\\u0031\"", "\"a\\/b\"" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":-0,\"method\":\"m\",\"params\":[]}", JSONRPC_REQUEST, "-0", "\"m\"" },
		{ "{\"jsonrpc\":\"2.0\",\"method\":\"n\"}", JSONRPC_NOTIFICATION, NULL, "\"n\"" },
		{ "{\"jsonrpc\":\"2.0\",\"method\":\"\",\"extra\":{\"id\":1}}", JSONRPC_NOTIFICATION, NULL, "\"\"" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":\"7\",\"result\":{}}", JSONRPC_RESULT, "\"7\"", NULL },
		{ "{\"result\":null,\"id\":7}", JSONRPC_RESULT, "7", NULL },
		{ "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":1,\"message\":\"\"}}", JSONRPC_ERROR, "7", NULL },
		{ "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{}}", JSONRPC_ERROR, "null", NULL },
		/* Some peers write both members, the other one null. */
		{ "{\"id\":7,\"result\":1,\"error\":null}", JSONRPC_RESULT, "7", NULL },
		{ "{\"id\":7,\"result\":null,\"error\":{}}", JSONRPC_ERROR, "7", NULL },
		/* With a method it is never an answer. */
		{ "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{},\"method\":\"roots/list\"}", JSONRPC_REQUEST, "7",
		  "\"roots/list\"" },
		{ "{\"error\":{},\"jsonrpc\":\"2.0\",\"method\":\"x\"}", JSONRPC_NOTIFICATION, NULL, "\"x\"" },
		{ "[]", JSONRPC_BATCH, NULL, NULL },
		{ "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]", JSONRPC_BATCH, NULL, NULL },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct jsonrpc_message m = parse(cases[i].text);
		ck_assert_msg(m.kind == cases[i].kind, "%s is %d (%s)", cases[i].text, m.kind, m.problem);
		ck_assert_ptr_null(m.problem);
		assert_span(m.id, cases[i].id);
		assert_span(m.method, cases[i].method);
		if (m.kind == JSONRPC_RESULT)
			ck_assert(m.result.ptr && !m.error.ptr);
		if (m.kind == JSONRPC_ERROR)
			ck_assert(m.error.ptr && !m.result.ptr);
	}
}
END_TEST

START_TEST(l1_what_is_no_message_says_why)
{
	static const struct {
		const char *text, *id, *problem;
	} cases[] = {
		{ "1", NULL, "a message is an object" },
		{ "\"id\"", NULL, "a message is an object" },
		{ "null", NULL, "a message is an object" },
		{ "{}", NULL, "neither `method` nor `result` nor `error`" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1}", "1", "neither `method` nor `result` nor `error`" },
		{ "{\"id\":1,\"method\":\"m\"}", "1", "`jsonrpc` is not \"2.0\"" },
		{ "{\"jsonrpc\":2.0,\"id\":1,\"method\":\"m\"}", "1", "`jsonrpc` is not \"2.0\"" },
		{ "{\"jsonrpc\":\"2.0\\u0000\",\"id\":1,\"method\":\"m\"}", "1", "`jsonrpc` is not \"2.0\"" },
		{ "{\"jsonrpc\":\"1.0\",\"id\":1,\"result\":{}}", "1", "`jsonrpc` is not \"2.0\"" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":1}", "1", "`method` is not a string" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":null}", "1", "`method` is not a string" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":null}", "1", "`params` is not an object" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":\"{}\"}", "1",
		  "`params` is not an object" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"m\"}", "null", "`id` is not a string or a number" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":true,\"method\":\"m\"}", NULL, "`id` is not a string or a number" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":{\"a\":1},\"method\":\"m\"}", NULL, "`id` is not a string or a number" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":[1],\"method\":\"m\"}", NULL, "`id` is not a string or a number" },
		{ "{\"id\":null,\"result\":{}}", "null", "an answer whose `id` is not a string or a number" },
		{ "{\"id\":false,\"error\":{}}", NULL, "an answer whose `id` is not a string or a number" },
		{ "{\"result\":{}}", NULL, "an answer whose `id` is not a string or a number" },
		{ "{\"error\":{}}", NULL, "an answer whose `id` is not a string or a number" },
		{ "{\"id\":1,\"result\":{},\"error\":{}}", "1", "both `result` and `error`" },
		{ "{\"id\":1,\"error\":\"no\"}", "1", "`error` is not an object" },
		{ "{\"id\":1,\"error\":null}", "1", "`error` is not an object" },
		/* Doubled members of the envelope, spelt otherwise too. */
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"m\"}", NULL,
		  "a member of the envelope occurs twice" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"\\u0069d\":1,\"method\":\"m\"}", NULL,
		  "a member of the envelope occurs twice" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"m\\u0065thod\":\"m\"}", "1",
		  "a member of the envelope occurs twice" },
		{ "{\"id\":1,\"result\":1,\"resul\\u0074\":2}", "1", "a member of the envelope occurs twice" },
		{ "{\"id\":1,\"error\":{},\"error\":{}}", "1", "a member of the envelope occurs twice" },
		{ "{\"jsonrpc\":\"2.0\",\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}", "1",
		  "a member of the envelope occurs twice" },
		{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{},\"params\":{}}", "1",
		  "a member of the envelope occurs twice" },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct jsonrpc_message m = parse(cases[i].text);
		ck_assert_msg(m.kind == JSONRPC_INVALID, "%s is %d", cases[i].text, m.kind);
		ck_assert_msg(strcmp(m.problem, cases[i].problem) == 0, "%s: %s", cases[i].text, m.problem);
		assert_span(m.id, cases[i].id);
	}
}
END_TEST

START_TEST(s6_what_is_no_json_fails_without_members)
{
	static const char *const texts[] = { "", "Server started on port 80",
					     "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"",
					     "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}}", "{'id':1}" };
	for (size_t i = 0; i < COUNT(texts); i++) {
		struct jsonrpc_message m;
		struct json_error error = { 0, NULL, false };
		ck_assert_int_eq(jsonrpc_parse(guard_copy(span_of(texts[i])), &m, &error), -EINVAL);
		ck_assert_ptr_nonnull(error.reason);
		ck_assert_int_eq(m.kind, JSONRPC_INVALID);
		ck_assert_ptr_nonnull(m.problem);
		ck_assert(!m.id.ptr && !m.method.ptr && !m.params.ptr && !m.result.ptr && !m.error.ptr);
	}
}
END_TEST

START_TEST(l1_parameters_are_found_in_the_same_pass)
{
	static const char *const want[JSONRPC_PARAM_COUNT] = {
		[PARAM_SERVER] = "\"s\"",
		[PARAM_NAME] = "\"n\"",
		[PARAM_ARGUMENTS] = "{\"server\":0,\"_meta\":{\"progressToken\":0},\"params\":{\"_meta\":0}}",
		[PARAM_METHOD] = "\"inner\"",
		[PARAM_PARAMS] = "{\"name\":1,\"_meta\":{\"progressToken\":\"deep\"}}",
		[PARAM_TIMEOUT_MS] = "50",
		[PARAM_META] = "{\"x\":[{\"progressToken\":0}],\"progressToken\":\"t\"}",
		[PARAM_META_PROGRESS_TOKEN] = "\"t\"",
		[PARAM_PROGRESS_TOKEN] = "3",
		[PARAM_PROGRESS] = "0.50",
		[PARAM_REQUEST_ID] = "\"r\"",
		[PARAM_REASON] = "\"why\"",
		[PARAM_URI] = "\"file:///\"",
		[PARAM_PARAMS_META_PROGRESS_TOKEN] = "\"deep\"",
	};
	struct jsonrpc_message m =
		parse("{\"jsonrpc\":\"2.0\",\"server\":9,\"params\":{\"server\":\"s\",\"name\":\"n\",\"arguments\":"
		      "{\"server\":0,\"_meta\":{\"progressToken\":0},"
		      "\"params\":{\"_meta\":0}},\"method\":\"inner\",\"params\":"
		      "{\"name\":1,\"_meta\":{\"progressToken\":\"deep\"}},\"timeoutMs\":50,\"_meta\":"
		      "{\"x\":[{\"progressToken\":0}],\"progressToken\":\"t\"},\"progressToken\":3,\"progress\":0.50,"
		      "\"requestId\":\"r\",\"reason\":\"why\",\"uri\":\"file:///\"},\"method\":\"outer\",\"id\":1}");
	ck_assert_int_eq(m.kind, JSONRPC_REQUEST);
	assert_span(m.method, "\"outer\"");
	ck_assert_uint_eq(m.doubled_params, 0);
	for (int i = 0; i < JSONRPC_PARAM_COUNT; i++)
		assert_span(m.param[i], want[i]);

	m = parse("{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"result\":{\"server\":1},\"x\":{\"name\":2}}");
	for (int i = 0; i < JSONRPC_PARAM_COUNT; i++)
		assert_span(m.param[i], NULL);
}
END_TEST

START_TEST(doubled_parameters_are_marked)
{
	struct jsonrpc_message m =
		parse("{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":{\"name\":1,\"uri\":1,\"n\\u0061me\":2,"
		      "\"_meta\":{\"progressToken\":1,\"progressToken\":2},\"arguments\":{\"a\":1,\"a\":2}}}");
	ck_assert_int_eq(m.kind, JSONRPC_NOTIFICATION);
	ck_assert_uint_eq(m.doubled_params, 1 << PARAM_NAME | 1 << PARAM_META_PROGRESS_TOKEN);
	assert_span(m.param[PARAM_NAME], "1");
	m = parse("{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":{\"_meta\":{\"progressToken\":1},"
		  "\"_meta\":{\"progressToken\":2}}}");
	ck_assert_uint_eq(m.doubled_params, 1 << PARAM_META);
	assert_span(m.param[PARAM_META_PROGRESS_TOKEN], "1");
	/* An inner `_meta` that occurs twice makes its token doubtful. */
	m = parse("{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":{\"params\":{\"_meta\":{},"
		  "\"_meta\":{\"progressToken\":2}}}}");
	ck_assert_uint_eq(m.doubled_params, 1 << PARAM_PARAMS_META_PROGRESS_TOKEN);
}
END_TEST

/* R19: spans are the bytes as they came. */
START_TEST(r19_payloads_are_spans_of_the_line)
{
	static const char *const payloads[] = {
		"{\"a\":18446744073709551616,\"a\":-0}",
		"[1.10, 1e400,\t123456789012345678901234567890 ]",
		"{ \"s\" : \"\\ud800\\/\xe2\x80\xa8\" }",
	};
	for (size_t i = 0; i < COUNT(payloads); i++) {
		struct buf b = BUF_INIT;
		buf_addf(&b, "{\"id\":1,\"result\": %s }", payloads[i]);
		struct jsonrpc_message m = parse(b.data);
		ck_assert_int_eq(m.kind, JSONRPC_RESULT);
		assert_span(m.result, payloads[i]);
		buf_done(&b);
	}
}
END_TEST

START_TEST(nesting_has_a_limit_that_can_be_set)
{
	struct jsonrpc_message m;
	struct json_error error = { 0, NULL, false };
	struct span line = SPAN_LIT("{\"jsonrpc\":\"2.0\",\"id\":\"a\",\"method\":\"x\",\"params\":{\"y\":[[]]}}");
	ck_assert_int_eq(jsonrpc_parse_within(line, 4, &m, &error), 0);
	ck_assert_int_eq(m.kind, JSONRPC_REQUEST);
	/* What came before is known. */
	ck_assert_int_eq(jsonrpc_parse_within(line, 3, &m, &error), -E2BIG);
	ck_assert(error.too_deep);
	ck_assert_int_eq(m.kind, JSONRPC_INVALID);
	ck_assert_str_eq(m.problem, "nested too deeply");
	ck_assert(span_is(m.id, "\"a\"") && span_is(m.method, "\"x\"") && !m.params.ptr);
	line = SPAN_LIT("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"y\":[[]]}}");
	ck_assert_int_eq(jsonrpc_parse_within(line, 3, &m, NULL), -E2BIG);
	ck_assert(span_is(m.id, "1") && m.result.ptr && !m.method.ptr);
	/* What came behind is not, and a container is no id. */
	line = SPAN_LIT("{\"id\":[[[]]],\"method\":\"x\"}");
	ck_assert_int_eq(jsonrpc_parse_within(line, 3, &m, NULL), -E2BIG);
	ck_assert(!m.id.ptr && !m.method.ptr);
	/* What is no JSON is none, however deep. */
	line = SPAN_LIT("{\"id\":1,]");
	ck_assert_int_eq(jsonrpc_parse_within(line, 3, &m, &error), -EINVAL);
	ck_assert(!error.too_deep && !m.id.ptr);
}
END_TEST

START_TEST(a_message_as_deep_as_may_be)
{
	for (int depth = JSON_DEPTH_MAX - 1; depth <= JSON_DEPTH_MAX; depth++) {
		struct buf b = BUF_INIT;
		buf_add_text(&b, "{\"id\":1,\"result\":");
		for (int i = 0; i < depth; i++)
			buf_add_text(&b, "{\"a\":");
		buf_add_text(&b, "0");
		for (int i = 0; i <= depth; i++)
			buf_add_char(&b, '}');
		struct jsonrpc_message m;
		struct json_error error;
		int rc = jsonrpc_parse(guard_copy(buf_span(&b)), &m, &error);
		ck_assert_int_eq(rc, depth < JSON_DEPTH_MAX ? 0 : -EINVAL);
		if (rc < 0)
			ck_assert_str_eq(error.reason, "nested too deeply");
		buf_done(&b);
	}
}
END_TEST

START_TEST(s7a_the_beginning_of_a_long_line_shows_whose_answer_it_was)
{
	static const struct {
		const char *text, *id;
	} cases[] = {
		{ "{\"jsonrpc\":\"2.0\",\"id\":\"12\",\"result\":{\"a\":\"xxx", "\"12\"" },
		{ "{\"id\":12,\"error\":{\"m", "12" },
		{ "{\"id\":12,\"result\":", NULL }, /* nothing of it has come */
		{ "{\"id\":12,\"result\":[", "12" },
		{ "{\"result\":[1],\"id\":12,\"x\":\"", "12" },
		{ "{\"result\":[1],\"id\":12", NULL }, /* 12 or 123 */
		{ "{\"result\":[1],\"id\":\"12", NULL },
		{ "{\"result\":{\"id\":12,\"result\":[", NULL },
		{ "{\"id\":12,\"method\":\"m\",\"result\":{", NULL },
		{ "{\"id\":12,\"params\":{\"result\":1,", NULL },
		{ "{\"id\":12,\"id\":13,\"result\":{", NULL },
		{ "{\"id\":null,\"error\":{", NULL },
		{ "[{\"id\":12,\"result\":{", NULL },
		{ "not JSON {\"id\":12,\"result\":{", NULL },
		{ "", NULL },
		{ "{\"id\":12,\"result\":{}}", "12" },
		{ "{\"id\":12,\"result\":[NaN]}", "12" },
		{ "{\"id\":12,\"result\":\"\xff\"}", "12" },
		{ "{\"id\":12,\"result\":1,\"error\":{}}", "12" },
		{ "{\"id\":12,\"result\":1,\"result\":2}", "12" },
		{ "{\"id\":12,\"error\":5}", "12" },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct span id = SPAN_NONE;
		bool found = jsonrpc_peek_answer(guard_copy(span_of(cases[i].text)), &id);
		ck_assert_msg(found == (cases[i].id != NULL), "%s", cases[i].text);
		assert_span(id, cases[i].id);
	}
}
END_TEST

/* PROTOCOL "Framing": strings are compared decoded, numbers by their bytes. */
START_TEST(ids_are_equal_or_not)
{
	static const struct {
		const char *a, *b;
		bool same;
	} cases[] = {
		{ "1", "1", true },
		{ "1", "1.0", false },
		{ "1", "\"1\"", false },
		{ "-0", "0", false },
		{ "12345678901234567890", "12345678901234567891", false },
		{ "\"a\"", "\"a\"", true },
		{ "\"a\"", "\"\\u0061\"", true },
		{ "\"a\"", "\"b\"", false },
		{ "\"\"", "\"\"", true },
		{ "\"\\ud800\"", "\"\\udbff\"", false },
		{ "null", "null", true },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct span a = span_of(cases[i].a), b = span_of(cases[i].b);
		ck_assert_msg(jsonrpc_ids_equal(a, b) == cases[i].same, "%s %s", a.ptr, b.ptr);
		ck_assert_msg(jsonrpc_ids_equal(b, a) == cases[i].same, "%s %s", a.ptr, b.ptr);
		if (cases[i].same)
			ck_assert_uint_eq(jsonrpc_id_hash(a), jsonrpc_id_hash(b));
	}
	ck_assert(!jsonrpc_ids_equal(SPAN_NONE, SPAN_NONE));
	ck_assert(!jsonrpc_ids_equal(SPAN_NONE, SPAN_LIT("1")));
	ck_assert_uint_ne(jsonrpc_id_hash(SPAN_LIT("1")), jsonrpc_id_hash(SPAN_LIT("2")));
	ck_assert_uint_ne(jsonrpc_id_hash(SPAN_LIT("12")), jsonrpc_id_hash(SPAN_LIT("13")));
	/* Whatever stands behind it. */
	ck_assert_uint_eq(jsonrpc_id_hash((struct span){ "12,", 2 }), jsonrpc_id_hash(guard_copy(SPAN_LIT("12"))));
	ck_assert(jsonrpc_ids_equal((struct span){ "12,", 2 }, guard_copy(SPAN_LIT("12"))));
	ck_assert_uint_ne(jsonrpc_id_hash(SPAN_LIT("\"a\"")), jsonrpc_id_hash(SPAN_LIT("\"b\"")));
}
END_TEST

static void assert_written(struct buf *b, const char *want)
{
	struct span got = buf_span(b);
	ck_assert_msg(span_is(got, want), "got '%.*s', want '%s'", (int)got.len, got.ptr, want);
	ck_assert_int_eq(json_check(got, NULL), 0);
	/* S1: one newline, at the end. */
	ck_assert_ptr_eq(memchr(got.ptr, '\n', got.len), got.ptr + got.len - 1);
	ck_assert_ptr_null(memchr(got.ptr, '\r', got.len));
	buf_reset(b);
}

START_TEST(s1_messages_are_written_on_one_line)
{
	struct buf b = BUF_INIT;
	jsonrpc_write_request(&b, SPAN_LIT("\"1\""), JSONRPC_METHOD("tools/list"), SPAN_NONE);
	assert_written(&b, "{\"jsonrpc\":\"2.0\",\"id\":\"1\",\"method\":\"tools/list\"}\n");
	jsonrpc_write_request(&b, SPAN_LIT("1.0"), SPAN_LIT("\"a\\/b\""), SPAN_LIT("{\"a\":-0,\"a\":1e400}"));
	assert_written(&b, "{\"jsonrpc\":\"2.0\",\"id\":1.0,\"method\":\"a\\/b\",\"params\":{\"a\":-0,\"a\":1e400}}\n");
	jsonrpc_write_notification(&b, JSONRPC_METHOD("notifications/initialized"), SPAN_NONE);
	assert_written(&b, "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
	jsonrpc_write_notification(&b, JSONRPC_METHOD("n"), SPAN_LIT("{}"));
	assert_written(&b, "{\"jsonrpc\":\"2.0\",\"method\":\"n\",\"params\":{}}\n");
	jsonrpc_write_result(&b, SPAN_LIT("7"), SPAN_LIT("null"));
	assert_written(&b, "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":null}\n");
	jsonrpc_write_error(&b, SPAN_NONE, MCPD_E_PARSE, "no \"JSON\"\n", SPAN_NONE);
	assert_written(
		&b,
		"{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"no \\\"JSON\\\"\\n\"}}\n");
	jsonrpc_write_error(&b, SPAN_LIT("7"), MCPD_E_TIMEOUT, NULL, SPAN_LIT("{\"timeoutMs\":5}"));
	assert_written(&b, "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":-32004,"
			   "\"message\":\"Request timeout\",\"data\":{\"timeoutMs\":5}}}\n");
	jsonrpc_write_error_object(&b, SPAN_LIT("7"), SPAN_LIT("{\"code\":1,\"message\":\"\"}"));
	assert_written(&b, "{\"jsonrpc\":\"2.0\",\"id\":7,\"error\":{\"code\":1,\"message\":\"\"}}\n");
	buf_done(&b);
}
END_TEST

START_TEST(s1_pretty_printed_payloads_lose_their_line_ends_and_nothing_else)
{
	struct span pretty = SPAN_LIT("{\r\n\t\"a\" : \"x\\n\\r\xe2\x80\xa8\",\n\n  \"b\":[\r1\n]\n}");
	const char *flat = "{  \t\"a\" : \"x\\n\\r\xe2\x80\xa8\",    \"b\":[ 1 ] }";
	struct buf b = BUF_INIT, want = BUF_INIT;
	jsonrpc_add_payload(&b, SPAN_LIT("\n"));
	jsonrpc_add_payload(&b, pretty);
	jsonrpc_add_payload(&b, SPAN_NONE);
	ck_assert(b.data[0] == ' ' && strcmp(b.data + 1, flat) == 0);
	buf_reset(&b);

	jsonrpc_write_request(&b, SPAN_LIT("1"), JSONRPC_METHOD("m"), pretty);
	buf_addf(&want, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":%s}\n", flat);
	assert_written(&b, want.data);
	buf_reset(&want);
	jsonrpc_write_notification(&b, JSONRPC_METHOD("m"), pretty);
	buf_addf(&want, "{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":%s}\n", flat);
	assert_written(&b, want.data);
	buf_reset(&want);
	jsonrpc_write_result(&b, SPAN_LIT("1"), pretty);
	buf_addf(&want, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":%s}\n", flat);
	assert_written(&b, want.data);
	buf_reset(&want);
	jsonrpc_write_error(&b, SPAN_LIT("1"), -1, "m", pretty);
	buf_addf(&want, "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-1,\"message\":\"m\",\"data\":%s}}\n", flat);
	assert_written(&b, want.data);
	buf_reset(&want);
	jsonrpc_write_error_object(&b, SPAN_LIT("1"), pretty);
	buf_addf(&want, "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":%s}\n", flat);
	assert_written(&b, want.data);
	buf_done(&want);
	buf_done(&b);
}
END_TEST

static int write_all(struct buf *b)
{
	char text[400];
	memset(text, ' ', sizeof(text));
	text[0] = '\n';
	text[1] = '[';
	text[sizeof(text) - 1] = ']';
	struct span payload = { text, sizeof(text) };
	jsonrpc_write_request(b, SPAN_LIT("1"), JSONRPC_METHOD("m"), payload);
	jsonrpc_write_notification(b, JSONRPC_METHOD("m"), payload);
	jsonrpc_write_result(b, SPAN_LIT("1"), payload);
	jsonrpc_write_error(b, SPAN_LIT("1"), -1, "message", payload);
	jsonrpc_write_error_object(b, SPAN_LIT("1"), payload);
	return b->error;
}

START_TEST(every_allocation_that_fails_is_reported)
{
	unsigned failures = 0;
	for (unsigned nth = 1;; nth++) {
		struct buf b = BUF_INIT;
		long live;
		alloc_watch(nth);
		int rc = write_all(&b);
		bool wrote = b.len > 0;
		buf_done(&b);
		bool failed = alloc_done(&live);
		ck_assert_int_eq(live, 0);
		ck_assert_int_eq(rc, failed ? -ENOMEM : 0);
		if (!failed) {
			ck_assert(wrote);
			break;
		}
		failures++;
	}
	ck_assert_uint_ge(failures, 3);
	/* And the maximum at every length. */
	struct buf whole = BUF_INIT;
	ck_assert_int_eq(write_all(&whole), 0);
	for (size_t max = 1; max < whole.len; max++) {
		struct buf b;
		buf_init(&b, max);
		int rc = write_all(&b);
		size_t len = b.len;
		buf_done(&b);
		if (rc != -E2BIG || len > max)
			ck_abort_msg("maximum %zu: %d, %zu bytes", max, rc, len);
	}
	buf_done(&whole);
}
END_TEST

START_TEST(parsing_allocates_nothing)
{
	struct jsonrpc_message m;
	long live;
	struct span text = SPAN_LIT("{\"jsonrpc\":\"2.0\",\"id\":\"\\u0031\",\"method\":\"m\","
				    "\"params\":{\"_meta\":{\"progressToken\":[[]]}}}");
	alloc_watch(1);
	int rc = jsonrpc_parse(text, &m, NULL);
	bool same = jsonrpc_ids_equal(m.id, SPAN_LIT("\"1\"")) && json_string_is(m.id, "1");
	ck_assert(!alloc_done(&live));
	ck_assert_int_eq(rc, 0);
	ck_assert(same);
}
END_TEST

int main(void)
{
	return RUN_TESTS("jsonrpc", l1_s3_s5_r23_kinds_of_messages, l1_what_is_no_message_says_why,
			 s6_what_is_no_json_fails_without_members, l1_parameters_are_found_in_the_same_pass,
			 doubled_parameters_are_marked, r19_payloads_are_spans_of_the_line, a_message_as_deep_as_may_be,
			 nesting_has_a_limit_that_can_be_set,
			 s7a_the_beginning_of_a_long_line_shows_whose_answer_it_was, ids_are_equal_or_not,
			 s1_messages_are_written_on_one_line,
			 s1_pretty_printed_payloads_lose_their_line_ends_and_nothing_else,
			 every_allocation_that_fails_is_reported, parsing_allocates_nothing);
}
