/* buf: growing, the maximum, sticky errors, JSON strings, and every allocation failed once. */
#include "proto/buf.h"

#include <stdlib.h>

#include "proto/json_scan.h"
#include "tests/unit/alloc_fail.h"
#include "tests/unit/guard.h"
#include "tests/unit/run.h"

static void assert_text(const struct buf *b, const char *want)
{
	struct span s = buf_span(b);
	ck_assert_msg(span_is(s, want), "got '%.*s', want '%s'", (int)s.len, s.ptr, want);
	ck_assert_int_eq(s.ptr[s.len], '\0');
}

START_TEST(an_empty_buffer_is_an_empty_text)
{
	struct buf b = BUF_INIT;
	assert_text(&b, "");
	buf_add(&b, NULL, 0);
	buf_add_text(&b, "");
	buf_add_span(&b, SPAN_NONE);
	buf_truncate(&b, 0);
	ck_assert(!buf_failed(&b));
	assert_text(&b, "");
	char *text = buf_steal(&b);
	ck_assert_str_eq(text, "");
	free(text);
	buf_done(&b);
}
END_TEST

START_TEST(pieces_are_joined)
{
	struct buf b = BUF_INIT;
	buf_add_text(&b, "one");
	buf_add_char(&b, ' ');
	buf_add_span(&b, SPAN_LIT("two"));
	buf_addf(&b, " %d-%s", 3, "x");
	assert_text(&b, "one two 3-x");
	buf_truncate(&b, 100);
	buf_truncate(&b, 3);
	assert_text(&b, "one");
	buf_reset(&b);
	assert_text(&b, "");
	buf_add_char(&b, '\0');
	ck_assert_uint_eq(b.len, 1);
	buf_done(&b);
	ck_assert_ptr_null(b.data);
}
END_TEST

START_TEST(formatted_text_longer_than_the_room_is_written_whole)
{
	for (int len = 0; len < 600; len++) {
		struct buf b = BUF_INIT;
		buf_add_char(&b, '<');
		buf_addf(&b, "%0*d>", len, 0);
		size_t digits = len > 0 ? (size_t)len : 1;
		ck_assert_uint_eq(b.len, digits + 2);
		ck_assert_int_eq(b.data[b.len - 1], '>');
		ck_assert_int_eq(b.data[b.len], '\0');
		buf_done(&b);
	}
}
END_TEST

START_TEST(integers_are_written_in_full)
{
	static const struct {
		int64_t value;
		const char *text;
	} cases[] = {
		{ 0, "0" },
		{ 7, "7" },
		{ -1, "-1" },
		{ -32700, "-32700" },
		{ INT64_MAX, "9223372036854775807" },
		{ INT64_MIN, "-9223372036854775808" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct buf b = BUF_INIT;
		buf_add_int(&b, cases[i].value);
		assert_text(&b, cases[i].text);
		buf_done(&b);
	}
}
END_TEST

START_TEST(the_maximum_is_exact_and_the_error_stays)
{
	struct buf b;
	buf_init(&b, 5);
	buf_add_text(&b, "12345");
	ck_assert(!buf_failed(&b));
	ck_assert_int_eq(buf_reserve(&b, 0), 0);
	buf_add_char(&b, '6');
	ck_assert(buf_failed(&b));
	ck_assert_int_eq(b.error, -E2BIG);
	ck_assert_int_eq(buf_reserve(&b, 0), -E2BIG);
	buf_truncate(&b, 1);
	buf_add_char(&b, 'x');
	assert_text(&b, "1");
	ck_assert_ptr_null(buf_steal(&b));
	ck_assert(!buf_failed(&b));
	ck_assert_uint_eq(b.max, 5);

	buf_addf(&b, "%s", "123456");
	ck_assert_int_eq(b.error, -E2BIG);
	assert_text(&b, "");
	buf_reset(&b);
	buf_addf(&b, "%s", "54321");
	assert_text(&b, "54321");
	buf_done(&b);
}
END_TEST

START_TEST(lengths_that_would_wrap_are_too_big)
{
	struct buf b = BUF_INIT;
	buf_add_text(&b, "x");
	ck_assert_int_eq(buf_reserve(&b, SIZE_MAX), -E2BIG);
	buf_reset(&b);
	ck_assert_int_eq(buf_reserve(&b, SIZE_MAX / 2 + 1), -E2BIG);
	buf_done(&b);
	buf_init(&b, SIZE_MAX);
	ck_assert_int_eq(buf_reserve(&b, SIZE_MAX - 1), -E2BIG);
	buf_done(&b);
}
END_TEST

START_TEST(json_strings_escape_what_must_be_and_nothing_else)
{
	const struct {
		struct span text;
		const char *json;
	} cases[] = {
		{ SPAN_NONE, "\"\"" },
		{ SPAN_LIT(""), "\"\"" },
		{ SPAN_LIT("plain / text"), "\"plain / text\"" },
		{ SPAN_LIT("\"\\"), "\"\\\"\\\\\"" },
		{ SPAN_LIT("\b\f\n\r\t"), "\"\\b\\f\\n\\r\\t\"" },
		{ SPAN_LIT("a\0b\x01\x1f\x7f"), "\"a\\u0000b\\u0001\\u001f\x7f\"" },
		{ SPAN_LIT("\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xe2\x80\xa8"),
		  "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xe2\x80\xa8\"" },
		{ SPAN_LIT("\xc3\xa9"), "\"\xc3\xa9\"" },
		{ SPAN_LIT("\xe2\x82\xac"), "\"\xe2\x82\xac\"" },
		{ SPAN_LIT("\xf0\x9f\x98\x80"), "\"\xf0\x9f\x98\x80\"" },
		/* Not UTF-8: a lone continuation, an overlong slash, a surrogate, too high, cut off. */
		{ SPAN_LIT("<\x80>"), "\"<\xef\xbf\xbd>\"" },
		{ SPAN_LIT("\xc0\xaf"), "\"\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ SPAN_LIT("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ SPAN_LIT("\xf4\x90\x80\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ SPAN_LIT("abc\xc3"), "\"abc\xef\xbf\xbd\"" },
		{ SPAN_LIT("\xf0\x9f\x98"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"" },
		{ SPAN_LIT("abc\xe2\x82"), "\"abc\xef\xbf\xbd\xef\xbf\xbd\"" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct buf b = BUF_INIT;
		buf_add_json_string(&b, guard_copy(cases[i].text));
		assert_text(&b, cases[i].json);
		buf_done(&b);
	}
}
END_TEST

START_TEST(any_byte_at_any_place_gives_valid_json)
{
	char text[40];
	for (size_t place = 0; place < sizeof(text); place++) {
		for (int byte = 0; byte < 256; byte++) {
			memset(text, 'x', sizeof(text));
			text[place] = (char)byte;
			struct buf json = BUF_INIT, again = BUF_INIT;
			buf_add_json_string(&json, guard_copy((struct span){ text, sizeof(text) }));
			ck_assert_int_eq(json_check(buf_span(&json), NULL), 0);
			ck_assert_int_eq(json_string_decode(buf_span(&json), &again), 0);
			if (byte < 0x80)
				ck_assert(span_equal(buf_span(&again), (struct span){ text, sizeof(text) }));
			else
				ck_assert_uint_eq(again.len, sizeof(text) + 2);
			buf_done(&json);
			buf_done(&again);
		}
	}
}
END_TEST

START_TEST(a_failed_json_string_writes_no_more)
{
	char text[64] = { 0 };
	struct buf b;
	buf_init(&b, 10);
	buf_add_json_string(&b, (struct span){ text, sizeof(text) });
	ck_assert_int_eq(b.error, -E2BIG);
	ck_assert_uint_le(b.len, 10);
	buf_done(&b);
}
END_TEST

/* Grows several times, in every way there is. */
static int build(struct buf *b)
{
	for (int i = 0; i < 50; i++) {
		buf_add_text(b, "0123456789");
		buf_addf(b, "%0300d", i);
		buf_add_json_text(b, "\x01\x02\x03 text \xff");
		buf_add_int(b, i);
		buf_add_char(b, ',');
	}
	return b->error;
}

START_TEST(every_allocation_that_fails_is_reported)
{
	struct buf whole = BUF_INIT;
	ck_assert_int_eq(build(&whole), 0);
	unsigned failures = 0;
	for (unsigned nth = 1;; nth++) {
		struct buf b = BUF_INIT;
		long live, after;
		alloc_watch(nth);
		int rc = build(&b);
		bool failed = alloc_done(&live);
		size_t len = b.len;
		alloc_watch(0);
		char *stolen = buf_steal(&b);
		alloc_done(&after);
		ck_assert_ptr_null(b.data);
		if (!failed) {
			ck_assert_int_eq(rc, 0);
			ck_assert_str_eq(stolen, whole.data);
			free(stolen);
			break;
		}
		failures++;
		ck_assert_int_eq(rc, -ENOMEM);
		ck_assert_ptr_null(stolen);
		ck_assert_int_eq(live + after, 0);
		ck_assert_uint_lt(len, whole.len);
	}
	ck_assert_uint_ge(failures, 5);
	buf_done(&whole);
}
END_TEST

START_TEST(stealing_nothing_needs_memory_too)
{
	struct buf b = BUF_INIT;
	long live;
	alloc_watch(1);
	char *stolen = buf_steal(&b);
	ck_assert(alloc_done(&live));
	ck_assert_ptr_null(stolen);
	ck_assert_int_eq(live, 0);
}
END_TEST

int main(void)
{
	return RUN_TESTS("buf", an_empty_buffer_is_an_empty_text, pieces_are_joined,
			 formatted_text_longer_than_the_room_is_written_whole, integers_are_written_in_full,
			 the_maximum_is_exact_and_the_error_stays, lengths_that_would_wrap_are_too_big,
			 json_strings_escape_what_must_be_and_nothing_else, any_byte_at_any_place_gives_valid_json,
			 a_failed_json_string_writes_no_more, every_allocation_that_fails_is_reported,
			 stealing_nothing_needs_memory_too);
}
