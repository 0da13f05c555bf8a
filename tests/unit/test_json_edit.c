#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "alloc_writer.h"
#include "proto/json_edit.h"
#include "run.h"

static char edited_text[4096];

static const char *edited(const char *object, const struct json_edit *edits, size_t n)
{
	struct buf out = BUF_INIT;
	ck_assert_int_eq(json_edit(&out, span_of(object), edits, n), 0);
	snprintf(edited_text, sizeof edited_text, "%s", out.data);
	buf_done(&out);
	return edited_text;
}

START_TEST(what_is_not_named_is_copied_byte_for_byte)
{
	static const struct json_edit edit = { "name", JSON_EDIT_REPLACE, { "\"b\"", 3 } };
	ck_assert_str_eq(
		edited("{ \"x\" : 1.10, \"name\":\"a\", \"y\":[ 1e400 ],\"x\":-0, \"\\ud800\":null}", &edit, 1),
		"{\"x\" : 1.10,\"name\":\"b\",\"y\":[ 1e400 ],\"x\":-0,\"\\ud800\":null}");
}
END_TEST

START_TEST(names_are_compared_decoded_and_every_occurrence_counts)
{
	static const struct json_edit edit = { "name", JSON_EDIT_REPLACE, { "0", 1 } };
	ck_assert_str_eq(edited("{\"\\u006eame\":1,\"name\":2}", &edit, 1), "{\"\\u006eame\":0,\"name\":0}");
	ck_assert_str_eq(edited("{\"names\":1,\"a\":{\"name\":2}}", &edit, 1), "{\"names\":1,\"a\":{\"name\":2}}");
}
END_TEST

START_TEST(each_mode_does_what_it_says)
{
	static const struct json_edit edits[] = {
		{ "r", JSON_EDIT_REPLACE, { "1", 1 } },
		{ "d", JSON_EDIT_DEFAULT, { "2", 1 } },
		{ "s", JSON_EDIT_SET, { "3", 1 } },
		{ "x", JSON_EDIT_DROP, { NULL, 0 } },
	};
	ck_assert_str_eq(edited("{}", edits, 4), "{\"d\":2,\"s\":3}");
	ck_assert_str_eq(edited("{\"r\":0,\"d\":0,\"s\":0,\"x\":0}", edits, 4), "{\"r\":1,\"d\":0,\"s\":3}");
	ck_assert_str_eq(edited("{\"x\":0}", edits + 3, 1), "{}");
	ck_assert_str_eq(edited("{\"x\":0,\"a\":1,\"x\":2}", edits + 3, 1), "{\"a\":1}");
}
END_TEST

START_TEST(what_is_no_object_is_refused)
{
	static const struct json_edit edit = { "x", JSON_EDIT_SET, { "1", 1 } };
	struct buf out = BUF_INIT;
	ck_assert_int_eq(json_edit(&out, SPAN_LIT("[1]"), &edit, 1), -EINVAL);
	ck_assert_int_eq(json_edit(&out, SPAN_NONE, &edit, 1), -EINVAL);
	ck_assert_uint_eq(out.len, 0);
	buf_init(&out, 8);
	ck_assert_int_eq(json_edit(&out, SPAN_LIT("{\"abc\":12345}"), &edit, 1), -E2BIG);
	buf_done(&out);
}
END_TEST

static void edit_all(struct buf *out)
{
	static const struct json_edit edits[] = {
		{ "r", JSON_EDIT_REPLACE, { "100000000000", 12 } },
		{ "s", JSON_EDIT_SET, { "300000000000", 12 } },
		{ "x", JSON_EDIT_DROP, { NULL, 0 } },
	};
	static const struct span object = SPAN_LIT("{\"r\":1,\"other\":\"member\",\"x\":2}");
	int error = 0;
	for (int i = 0; i < 20; i++)
		error = json_edit(out, object, edits, 3);
	if (error != out->error)
		abort(); /* ck_assert() would allocate */
}

START_TEST(every_allocation_that_fails_is_reported)
{
	fail_each_of_writer(edit_all, 3);
}
END_TEST

int main(void)
{
	return RUN_TESTS("json_edit", what_is_not_named_is_copied_byte_for_byte,
			 names_are_compared_decoded_and_every_occurrence_counts, each_mode_does_what_it_says,
			 what_is_no_object_is_refused, every_allocation_that_fails_is_reported);
}
