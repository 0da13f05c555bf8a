/* jsonrpc_meta: reserved members of `_meta` exchanged, and no other byte touched. */
#include "proto/jsonrpc_meta.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/json_scan.h"
#include "tests/unit/alloc_fail.h"
#include "tests/unit/guard.h"
#include "tests/unit/run.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

enum { NOTHING, TOKEN, NO_TOKEN, TWO, MIXED, EDITS };

/* What the cases below do, by the names above. */
static int edit(struct buf *out, struct span params, int which)
{
	const struct jsonrpc_meta_edit edits[EDITS][2] = {
		[TOKEN] = { { "progressToken", SPAN_LIT("\"new\"") } },
		[NO_TOKEN] = { { "progressToken", SPAN_NONE } },
		[TWO] = { { "progressToken", SPAN_LIT("9") }, { "a/b\"", SPAN_LIT("{\"x\": [ ]}") } },
		[MIXED] = { { "x", SPAN_NONE }, { "y", SPAN_LIT("1") } },
	};
	static const size_t counts[EDITS] = { 0, 1, 1, 2, 2 };
	return jsonrpc_edit_meta(out, params, edits[which], counts[which]);
}

static const struct {
	const char *params;
	int edits;
	const char *want;
} cases[] = {
	/* Where there is no `_meta`, one is made if there is something to put in. */
	{ NULL, TOKEN, "{\"_meta\":{\"progressToken\":\"new\"}}" },
	{ NULL, NO_TOKEN, "" },
	{ NULL, NOTHING, "" },
	{ "", TOKEN, "{\"_meta\":{\"progressToken\":\"new\"}}" },
	{ "{}", TOKEN, "{\"_meta\":{\"progressToken\":\"new\"}}" },
	{ "{ \n}", TOKEN, "{ \n\"_meta\":{\"progressToken\":\"new\"}}" },
	{ "{}", NO_TOKEN, "{}" },
	{ "{ }", NOTHING, "{ }" },
	{ "{\"a\":1}", TOKEN, "{\"a\":1,\"_meta\":{\"progressToken\":\"new\"}}" },
	{ "{ \"a\" : 1 }", TOKEN, "{ \"a\" : 1 ,\"_meta\":{\"progressToken\":\"new\"}}" },
	{ "{\"a\":1}", NO_TOKEN, "{\"a\":1}" },
	{ "{\"a\":1}", TWO, "{\"a\":1,\"_meta\":{\"progressToken\":9,\"a/b\\\"\":{\"x\": [ ]}}}" },
	{ NULL, MIXED, "{\"_meta\":{\"y\":1}}" },
	{ "{}", MIXED, "{\"_meta\":{\"y\":1}}" },
	{ "{\"_meta\":{\"x\":0,\"y\":2,\"z\":3}}", MIXED, "{\"_meta\":{\"z\":3,\"y\":1}}" },
	/* White space around params is not part of it. */
	{ " {\"a\":1}\n", NO_TOKEN, "{\"a\":1}" },
	/* A `_meta` is edited where it stands. */
	{ "{\"_meta\":{},\"a\":1}", TOKEN, "{\"_meta\":{\"progressToken\":\"new\"},\"a\":1}" },
	{ "{\"_meta\":{ },\"a\":1}", NO_TOKEN, "{\"_meta\":{ },\"a\":1}" },
	{ "{\"_meta\":{\"progressToken\":1},\"a\":1}", TOKEN, "{\"_meta\":{\"progressToken\":\"new\"},\"a\":1}" },
	{ "{\"a\":1, \"_meta\" : {\"progressToken\":{\"x\":[1,2]}} }", TOKEN,
	  "{\"a\":1, \"_meta\" : {\"progressToken\":\"new\"} }" },
	{ "{\"_meta\":{\"progressToken\":1}}", NO_TOKEN, "{\"_meta\":{}}" },
	{ "{\"_meta\":{\"x\":1,\"progressToken\":2}}", TOKEN, "{\"_meta\":{\"x\":1,\"progressToken\":\"new\"}}" },
	{ "{\"_meta\":{\"progressToken\":2,\"x\":1}}", TOKEN, "{\"_meta\":{\"x\":1,\"progressToken\":\"new\"}}" },
	{ "{\"_meta\":{\"x\":1,\"progressToken\":2,\"y\":3}}", NO_TOKEN, "{\"_meta\":{\"x\":1,\"y\":3}}" },
	{ "{\"_meta\":{ \"x\" : 1 , \"progressToken\":2 ,\n\"y\":3 } }", NO_TOKEN,
	  "{\"_meta\":{ \"x\" : 1 ,\n\"y\":3 } }" },
	{ "{\"_meta\":{ \"x\" : 1 ,\t\"y\":[] }}", NOTHING, "{\"_meta\":{ \"x\" : 1 ,\t\"y\":[] }}" },
	{ "{\"_meta\":{\"a/b\\\"\":0,\"x\":1,\"progressToken\":0}}", TWO,
	  "{\"_meta\":{\"x\":1,\"progressToken\":9,\"a/b\\\"\":{\"x\": [ ]}}}" },
	/* Names are compared decoded; every occurrence goes, one is written. */
	{ "{\"\\u005fmeta\":{\"progress\\u0054oken\":1,\"progressToken\":2,\"x\":0}}", TOKEN,
	  "{\"\\u005fmeta\":{\"x\":0,\"progressToken\":\"new\"}}" },
	{ "{\"_meta\":{\"a\\/b\\u0022\":0,\"progressTokens\":1}}", TWO,
	  "{\"_meta\":{\"progressTokens\":1,\"progressToken\":9,\"a/b\\\"\":{\"x\": [ ]}}}" },
	/* What has the same name elsewhere stays: R19. */
	{ "{\"progressToken\":1,\"a\":{\"_meta\":{\"progressToken\":2}},"
	  "\"a\":[{\"_meta\":0}],\"_meta\":{\"x\":{\"progressToken\":3},\"x\":-0}}",
	  NO_TOKEN,
	  "{\"progressToken\":1,\"a\":{\"_meta\":{\"progressToken\":2}},\"a\":[{\"_meta\":0}],"
	  "\"_meta\":{\"x\":{\"progressToken\":3},\"x\":-0}}" },
	{ "{\"n\":[1.10,1e400,18446744073709551616,-0],\"s\":\"\\ud800\\/\\u0041\",\"_meta\":{\"progressToken\":1}}",
	  TOKEN,
	  "{\"n\":[1.10,1e400,18446744073709551616,-0],\"s\":\"\\ud800\\/\\u0041\","
	  "\"_meta\":{\"progressToken\":\"new\"}}" },
	/* More than one `_meta`: the last gets the values, all lose the names. */
	{ "{\"_meta\":{\"progressToken\":1,\"x\":1},\"a\":0,"
	  "\"_meta\":{\"progressToken\":2,\"y\":2},\"_meta\":{},\"b\":0}",
	  TOKEN, "{\"_meta\":{\"x\":1},\"a\":0,\"_meta\":{\"y\":2},\"_meta\":{\"progressToken\":\"new\"},\"b\":0}" },
	{ "{\"_meta\":{\"progressToken\":1},\"_m\\u0065ta\":{\"progressToken\":2}}", NO_TOKEN,
	  "{\"_meta\":{},\"_m\\u0065ta\":{}}" },
};

START_TEST(edits_change_meta_and_nothing_else)
{
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct buf b = BUF_INIT;
		buf_add_text(&b, "<");
		struct span params = cases[i].params ? guard_copy(span_of(cases[i].params)) : SPAN_NONE;
		ck_assert_int_eq(edit(&b, params, cases[i].edits), 0);
		ck_assert_msg(strcmp(b.data + 1, cases[i].want) == 0, "%s: got '%s', want '%s'", cases[i].params,
			      b.data + 1, cases[i].want);
		if (cases[i].want[0])
			ck_assert_int_eq(json_check(span_of(b.data + 1), NULL), 0);
		buf_done(&b);
	}
}
END_TEST

START_TEST(what_is_no_object_is_refused_untouched)
{
	static const char *const refused[] = {
		"[]",
		"[{\"_meta\":{}}]",
		"null",
		"1",
		"\"{}\"",
		"{\"_meta\":null}",
		"{\"_meta\":[]}",
		"{\"_meta\":\"progressToken\"}",
		"{\"a\":1,\"_meta\":0,\"_meta\":{}}",
		"{\"_meta\":{},\"_meta\":1}",
	};
	for (size_t i = 0; i < COUNT(refused); i++) {
		for (int edits = 0; edits < EDITS; edits++) {
			struct buf b = BUF_INIT;
			buf_add_text(&b, "before");
			ck_assert_int_eq(edit(&b, guard_copy(span_of(refused[i])), edits), -EINVAL);
			ck_assert(span_is(buf_span(&b), "before"));
			buf_done(&b);
		}
	}
}
END_TEST

START_TEST(many_metas_take_linear_time)
{
	/* A hostile document: 200,000 of them. */
	struct buf params = BUF_INIT, b = BUF_INIT;
	buf_add_text(&params, "{\"a\":0");
	for (int i = 0; i < 200000; i++)
		buf_add_text(&params, ",\"_meta\":{\"progressToken\":1}");
	buf_add_text(&params, "}");
	ck_assert_int_eq(edit(&b, buf_span(&params), TOKEN), 0);
	ck_assert_ptr_eq(strstr(b.data, "progressToken"), b.data + b.len - strlen("progressToken\":\"new\"}}"));
	ck_assert_int_eq(json_check(buf_span(&b), NULL), 0);
	buf_done(&params);
	buf_done(&b);
}
END_TEST

START_TEST(every_allocation_that_fails_is_reported)
{
	for (size_t i = 0; i < COUNT(cases); i++) {
		if (!cases[i].want[0])
			continue;
		for (unsigned nth = 1;; nth++) {
			struct buf b = BUF_INIT;
			long live;
			alloc_watch(nth);
			int rc = edit(&b, span_of(cases[i].params), cases[i].edits);
			buf_done(&b);
			bool failed = alloc_done(&live);
			ck_assert_int_eq(live, 0);
			ck_assert_int_eq(rc, failed ? -ENOMEM : 0);
			if (!failed) {
				ck_assert_uint_gt(nth, 1);
				break;
			}
		}
		size_t len = strlen(cases[i].want);
		for (size_t max = 1; max <= len; max++) {
			struct buf b;
			buf_init(&b, max);
			ck_assert_int_eq(edit(&b, span_of(cases[i].params), cases[i].edits), max < len ? -E2BIG : 0);
			buf_done(&b);
		}
	}
}
END_TEST

int main(void)
{
	return RUN_TESTS("jsonrpc_meta", edits_change_meta_and_nothing_else, what_is_no_object_is_refused_untouched,
			 many_metas_take_linear_time, every_allocation_that_fails_is_reported);
}
