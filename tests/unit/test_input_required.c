/* input_required: reading what a modern server asks, and the params of the repeated call (2026-07-28, multi round-trip
 * requests). */
#include "mcp/input_required.h"

#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "alloc_fail.h"
#include "proto/json_scan.h"
#include "run.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define FORM "{\"method\":\"elicitation/create\",\"params\":{\"message\":\"?\"}}"
#define URL "{\"method\":\"elicitation/create\",\"params\":{\"mode\":\"url\"}}"
#define SAMPLE "{\"method\":\"sampling/createMessage\",\"params\":{}}"
#define ROOTS "{\"method\":\"roots/list\"}"
#define ASKS(requests) "{\"resultType\":\"input_required\",\"inputRequests\":" requests "}"

static struct input_round *round_of(const char *result)
{
	struct input_round *round;
	const char *problem;
	ck_assert_int_eq(json_check(span_of(result), NULL), 0);
	/* Gone after the call, so that a span into it would be seen. */
	char *copy = strdup(result);
	int r = input_round_new(span_of(copy), &round, &problem);
	free(copy);
	ck_assert_msg(r == 0, "%s: %s", result, problem);
	ck_assert_ptr_null(problem);
	return round;
}

static void assert_params(const struct input_round *round, const char *params, const char *want)
{
	struct buf out = BUF_INIT;
	ck_assert_int_eq(input_round_params(round, span_of(params), &out), 0);
	ck_assert_int_eq(json_check(buf_span(&out), NULL), 0);
	ck_assert_str_eq(buf_span(&out).ptr, want);
	buf_done(&out);
}

START_TEST(detection)
{
	ck_assert(input_required_is(SPAN_LIT("{\"resultType\":\"input_required\"}")));
	ck_assert(input_required_is(SPAN_LIT("{\"a\":[1],\"resultType\" : \"input\\u005frequired\"}")));
	ck_assert(!input_required_is(SPAN_LIT("{\"resultType\":\"complete\"}")));
	ck_assert(!input_required_is(SPAN_LIT("{\"a\":{\"resultType\":\"input_required\"}}")));
	ck_assert(!input_required_is(SPAN_LIT("{}")));
	ck_assert(!input_required_is(SPAN_LIT("[]")));
	ck_assert(!input_required_is(SPAN_NONE));
	ck_assert(input_required_allowed(SPAN_LIT("\"tools/call\"")));
	ck_assert(input_required_allowed(SPAN_LIT("\"prompts/get\"")));
	ck_assert(input_required_allowed(SPAN_LIT("\"resources/read\"")));
	ck_assert(!input_required_allowed(SPAN_LIT("\"tools/list\"")));
}
END_TEST

START_TEST(reading)
{
	struct input_round *round =
		round_of("{\"resultType\":\"input_required\",\"requestState\":\"a\\u0041\",\"inputRequests\":"
			 "{\"x\":" FORM ",\"y z\":" ROOTS "}}");
	ck_assert_uint_eq(round->n_requests, 2);
	ck_assert_uint_eq(round->waiting, 2);
	ck_assert(span_is(round->state, "\"a\\u0041\""));
	ck_assert(span_is(round->requests[0].key, "\"x\""));
	ck_assert(span_is(round->requests[0].method, "\"elicitation/create\""));
	ck_assert(span_is(round->requests[0].params, "{\"message\":\"?\"}"));
	ck_assert(span_is(round->requests[1].key, "\"y z\""));
	ck_assert_ptr_null(round->requests[1].params.ptr);
	input_round_free(round);
	input_round_free(NULL);
}
END_TEST

START_TEST(bad_results)
{
	static const char *const bad[] = {
		"{\"resultType\":\"input_required\"}",
		ASKS("[]"),
		ASKS("null"),
		"{\"resultType\":\"input_required\",\"requestState\":7}",
		ASKS("{\"a\":" FORM "},\"requestState\":null"),
		ASKS("{\"a\":7}"),
		ASKS("{\"a\":{}}"),
		ASKS("{\"a\":{\"method\":\"ping\"}}"),
		ASKS("{\"a\":{\"method\":7}}"),
		ASKS("{\"a\":{\"method\":\"roots/list\",\"params\":[]}}"),
		ASKS("{\"a\":" FORM ",\"\\u0061\":" FORM "}"),
	};
	for (size_t i = 0; i < COUNT(bad); i++) {
		struct input_round *round;
		const char *problem;
		ck_assert_int_eq(json_check(span_of(bad[i]), NULL), 0);
		ck_assert_msg(input_round_new(span_of(bad[i]), &round, &problem) == -EPROTO, "%s", bad[i]);
		ck_assert_ptr_nonnull(problem);
		ck_assert_ptr_null(round);
	}
}
END_TEST

START_TEST(too_many_questions)
{
	struct buf text = BUF_INIT;
	for (unsigned n = INPUT_REQUESTS_MAX; n <= INPUT_REQUESTS_MAX + 1; n++) {
		struct input_round *round;
		const char *problem;
		buf_reset(&text);
		buf_add_text(&text, "{\"inputRequests\":{");
		for (unsigned i = 0; i < n; i++)
			buf_addf(&text, "%s\"k%u\":" ROOTS, i ? "," : "", i);
		buf_add_text(&text, "}}");
		int r = input_round_new(buf_span(&text), &round, &problem);
		ck_assert_int_eq(r, n > INPUT_REQUESTS_MAX ? -EPROTO : 0);
		input_round_free(round);
	}
	buf_done(&text);
}
END_TEST

START_TEST(declared_capabilities)
{
	static const struct {
		const char *request, *capabilities;
		bool declared;
	} cases[] = {
		{ FORM, "{\"elicitation\":{}}", true },
		{ FORM, "{\"elicitation\":{\"form\":{}}}", true },
		{ FORM, "{\"elicitation\":{\"form\":{},\"url\":{}}}", true },
		{ FORM, "{\"elicitation\":{\"url\":{}}}", false },
		{ FORM, "{\"sampling\":{}}", false },
		{ FORM, "{\"elicitation\":null}", false },
		{ FORM, "{}", false },
		{ FORM, NULL, false },
		{ URL, "{\"elicitation\":{}}", false },
		{ URL, "{\"elicitation\":{\"url\":{}}}", true },
		{ SAMPLE, "{\"sampling\":{}}", true },
		{ SAMPLE, "{\"elicitation\":{},\"roots\":{}}", false },
		{ ROOTS, "{\"roots\":{\"listChanged\":true}}", true },
		{ ROOTS, "{\"sampling\":{}}", false },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		char text[300];
		snprintf(text, sizeof(text), ASKS("{\"a\":%s}"), cases[i].request);
		struct input_round *round = round_of(text);
		const struct input_request *undeclared = input_round_undeclared(round, span_of(cases[i].capabilities));
		ck_assert_msg(!undeclared == cases[i].declared, "case %zu", i);
		ck_assert(!undeclared || undeclared == &round->requests[0]);
		input_round_free(round);
	}
	struct input_round *round = round_of(ASKS("{\"a\":" ROOTS ",\"b\":" SAMPLE "}"));
	ck_assert_ptr_eq(input_round_undeclared(round, SPAN_LIT("{\"roots\":{}}")), &round->requests[1]);
	input_round_free(round);
}
END_TEST

START_TEST(answers_and_params)
{
	struct input_round *round =
		round_of("{\"resultType\":\"input_required\",\"requestState\":\"s\\/\\ud800\",\"inputRequests\":"
			 "{\"b\":" FORM ",\"a\":" SAMPLE "}}");
	ck_assert_int_eq(input_round_answer(round, 1, SPAN_LIT("{\"model\":1.0}")), 0);
	ck_assert_uint_eq(round->waiting, 1);
	ck_assert_int_eq(input_round_answer(round, 1, SPAN_LIT("{}")), -EALREADY);
	ck_assert_uint_eq(round->waiting, 1);
	ck_assert_int_eq(input_round_answer(round, 0, SPAN_LIT("{\"action\":\"accept\"}")), 0);
	ck_assert_uint_eq(round->waiting, 0);
	/* The original's bytes, and the state's, as they are. */
	assert_params(round, "{ \"name\" : \"t\", \"arguments\":{\"n\":12345678901234567890,\"n\":-0} }",
		      "{\"name\":\"t\",\"arguments\":{\"n\":12345678901234567890,\"n\":-0},"
		      "\"inputResponses\":{\"b\":{\"action\":\"accept\"},\"a\":{\"model\":1.0}},"
		      "\"requestState\":\"s\\/\\ud800\"}");
	assert_params(round, "{}",
		      "{\"inputResponses\":{\"b\":{\"action\":\"accept\"},\"a\":{\"model\":1.0}},"
		      "\"requestState\":\"s\\/\\ud800\"}");
	struct buf out = BUF_INIT;
	ck_assert_int_eq(input_round_params(round, SPAN_LIT("[1]"), &out), -EINVAL);
	buf_done(&out);
	buf_init(&out, 10);
	ck_assert_int_eq(input_round_params(round, SPAN_LIT("{}"), &out), -E2BIG);
	buf_done(&out);
	input_round_free(round);
}
END_TEST

START_TEST(what_is_not_there_is_not_sent)
{
	struct input_round *round = round_of("{\"requestState\":\"only\"}");
	ck_assert_uint_eq(round->waiting, 0);
	/* Those of an earlier round are replaced, or taken out. */
	assert_params(round, "{\"requestState\":\"old\",\"name\":\"t\",\"inputResponses\":{\"x\":{}}}",
		      "{\"name\":\"t\",\"requestState\":\"only\"}");
	assert_params(round, NULL, "{\"requestState\":\"only\"}");
	input_round_free(round);
	round = round_of(ASKS("{}"));
	assert_params(round, "{\"requestState\":\"old\"}", "{\"inputResponses\":{}}");
	input_round_free(round);
}
END_TEST

/* Every size that a peer chooses may be too much: an error, and nothing kept. */
START_TEST(short_memory)
{
	struct span result = SPAN_LIT(ASKS("{\"a\":" FORM "}"));
	struct input_round *round;
	const char *problem;
	long live;
	for (unsigned nth = 1; nth <= 2; nth++) {
		alloc_watch(nth);
		int r = input_round_new(result, &round, &problem);
		ck_assert(alloc_done(&live));
		ck_assert_int_eq(r, -ENOMEM);
		ck_assert_ptr_null(round);
		ck_assert_int_eq(live, 0);
	}
	round = round_of(result.ptr);
	alloc_watch(1);
	int r = input_round_answer(round, 0, SPAN_LIT("{}"));
	ck_assert(alloc_done(&live));
	ck_assert_int_eq(r, -ENOMEM);
	ck_assert_uint_eq(round->waiting, 1);
	ck_assert_int_eq(input_round_answer(round, 0, SPAN_LIT("{}")), 0);
	input_round_free(round);
}
END_TEST

int main(void)
{
	return RUN_TESTS("input_required", detection, reading, bad_results, too_many_questions, declared_capabilities,
			 answers_and_params, what_is_not_there_is_not_sent, short_memory);
}
