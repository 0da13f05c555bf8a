/* json_iter: walking validated JSON, what strings say, what numbers are. */
#include "proto/json_iter.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/json_scan.h"
#include "tests/unit/alloc_fail.h"
#include "tests/unit/guard.h"
#include "tests/unit/run.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static void assert_span(struct span s, const char *want)
{
	ck_assert_msg(want ? span_is(s, want) : s.ptr == NULL, "got '%.*s', want '%s'", (int)s.len, s.ptr ? s.ptr : "",
		      want ? want : "(absent)");
}

START_TEST(types_are_told_by_the_first_byte)
{
	static const struct {
		const char *text;
		enum json_kind type;
	} cases[] = {
		{ "null", JSON_NULL },    { "true", JSON_BOOL },  { "false", JSON_BOOL },  { "-1", JSON_NUMBER },
		{ "0", JSON_NUMBER },     { "9e9", JSON_NUMBER }, { "\"\"", JSON_STRING }, { "[]", JSON_ARRAY },
		{ " \n{}", JSON_OBJECT }, { "", JSON_ABSENT },    { " ", JSON_ABSENT },
	};
	for (size_t i = 0; i < COUNT(cases); i++)
		ck_assert_int_eq(json_type_of(guard_copy(span_of(cases[i].text))), cases[i].type);
	ck_assert_int_eq(json_type_of(SPAN_NONE), JSON_ABSENT);
	assert_span(json_trim(guard_copy(SPAN_LIT(" \t\r\n[ 1 ]\n "))), "[ 1 ]");
	assert_span(json_trim(guard_copy(SPAN_LIT("\n \n"))), "");
	assert_span(json_trim(SPAN_NONE), NULL);
}
END_TEST

START_TEST(members_come_in_order_as_written)
{
	static const char *const want[][2] = {
		{ "\"a\"", "1" },
		{ "\"\\u0062\"", "\"}{\\\"][,:\"" },
		{ "\"a\"", "{\"x\":[1,{}],\"y\":\"]\"}" },
		{ "\"caf\xc3\xa9\"", "[[], \"\\\\\" ]" },
		{ "\"\"", "-1.5E+3" },
		{ "\"last\"", "null" },
	};
	struct span object = guard_copy(
		SPAN_LIT(" {\"a\":1, \"\\u0062\" : \"}{\\\"][,:\" ,\"a\":{\"x\":[1,{}],\"y\":\"]\"},\n\"caf\xc3\xa9\":"
			 "[[], \"\\\\\" ],\"\":-1.5E+3,\"last\":null } "));
	ck_assert_int_eq(json_check(object, NULL), 0);
	struct json_iter it;
	struct span key, value;
	json_iter_init(&it, object);
	for (size_t i = 0; i < COUNT(want); i++) {
		ck_assert(json_iter_member(&it, &key, &value));
		assert_span(key, want[i][0]);
		assert_span(value, want[i][1]);
	}
	ck_assert(!json_iter_member(&it, &key, &value));
	ck_assert(!json_iter_member(&it, &key, &value));
}
END_TEST

START_TEST(elements_come_in_order_as_written)
{
	static const char *const want[] = { "1", "\"a,]\"", "[2,[3]]", "{\"b\":[4]}", "true", "-0.0e0" };
	struct span array = guard_copy(SPAN_LIT("[1, \"a,]\" ,[2,[3]],\n{\"b\":[4]},true , -0.0e0\n]"));
	struct json_iter it;
	struct span value;
	json_iter_init(&it, array);
	for (size_t i = 0; i < COUNT(want); i++) {
		ck_assert(json_iter_element(&it, &value));
		assert_span(value, want[i]);
	}
	ck_assert(!json_iter_element(&it, &value));
	ck_assert(!json_iter_element(&it, &value));
}
END_TEST

START_TEST(what_is_no_container_has_nothing_in_it)
{
	static const char *const texts[] = { "",     " ",   "1",       "\"{}\"",    "null", "{}", "{ }", "[]",
					     "[\n]", "{1}", "{\"a\"}", "{\"a\" 1}", "{,}",  "[}", "{]",  "}" };
	for (size_t i = 0; i < COUNT(texts); i++) {
		struct json_iter it;
		struct span key, value;
		json_iter_init(&it, guard_copy(span_of(texts[i])));
		ck_assert_msg(!json_iter_member(&it, &key, &value), "%s", texts[i]);
		json_iter_init(&it, guard_copy(span_of(texts[i])));
		ck_assert_msg(!json_iter_element(&it, &value), "%s", texts[i]);
	}
	struct json_iter it;
	struct span key, value;
	json_iter_init(&it, SPAN_NONE);
	ck_assert(!json_iter_element(&it, &value));
	json_iter_init(&it, guard_copy(SPAN_LIT("[\"a\"]")));
	ck_assert(!json_iter_member(&it, &key, &value));
	json_iter_init(&it, guard_copy(SPAN_LIT("{\"a\":1}")));
	ck_assert(!json_iter_element(&it, &value));
}
END_TEST

static bool is_inside(struct span part, struct span whole)
{
	return part.ptr >= whole.ptr && part.ptr + part.len <= whole.ptr + whole.len;
}

/* Walks a text both ways; false if an item lies outside of it or there are more than it has bytes. */
static bool walk_stays_inside(struct span s)
{
	struct json_iter it;
	struct span key, value;
	size_t items = 0;
	json_iter_init(&it, s);
	while (json_iter_member(&it, &key, &value))
		if (!is_inside(key, s) || !is_inside(value, s) || items++ > s.len)
			return false;
	json_iter_init(&it, s);
	while (json_iter_element(&it, &value))
		if (!is_inside(value, s) || items++ > 2 * s.len)
			return false;
	return true;
}

START_TEST(bytes_that_are_no_json_stay_inside_and_end)
{
	static const char alphabet[] = "{}[]\",:\\ 1a\n\xc3";
	enum { LETTERS = sizeof(alphabet) - 1, LENGTH = 6 };
	size_t total = 1, wrong = 0;
	for (size_t i = 0; i < LENGTH; i++)
		total *= LETTERS;
	/* A part of all texts of such bytes, stepping by a prime. */
	for (size_t n = 0; n < total; n += 23) {
		char text[1 + LENGTH];
		size_t rest = n;
		for (size_t i = 1; i <= LENGTH; i++, rest /= LETTERS)
			text[i] = alphabet[rest % LETTERS];
		for (const char *first = "[{ "; *first; first++) {
			text[0] = *first;
			wrong += !walk_stays_inside(guard_copy((struct span){ text, sizeof(text) }));
		}
	}
	ck_assert_uint_eq(wrong, 0);
}
END_TEST

START_TEST(members_are_found_by_their_decoded_names)
{
	struct span s = guard_copy(
		SPAN_LIT("{\"x\":{\"id\":0},\"\\u0069d\":{\"\\u0061\":[1],\"b\":{\"c\":\"deep\"}},\"id\":2}"));
	assert_span(json_member(s, "id"), "{\"\\u0061\":[1],\"b\":{\"c\":\"deep\"}}");
	assert_span(json_member(s, "c"), NULL);
	assert_span(json_member(s, "i"), NULL);
	assert_span(json_member(s, ""), NULL);
	assert_span(json_path(s, "id", "b", "c", NULL), "\"deep\"");
	assert_span(json_path(s, "id", "a", NULL), "[1]");
	assert_span(json_path(s, "id", "a", "b", NULL), NULL);
	assert_span(json_path(s, "nobody", "a", "b", NULL), NULL);
	ck_assert_uint_eq(json_path(s, NULL).len, s.len);
	assert_span(json_path(SPAN_NONE, "id", NULL), NULL);
}
END_TEST

START_TEST(strings_are_compared_decoded)
{
	static const struct {
		const char *json, *text;
		bool same;
	} cases[] = {
		{ "\"\"", "", true },
		{ "\"id\"", "id", true },
		{ "\"id\"", "i", false },
		{ "\"i\"", "id", false },
		{ "\"\\u0069d\"", "id", true },
		{ "\"\\u0049d\"", "id", false },
		{ "\"id\\u0000\"", "id", false },
		{ "\"id\\u0000x\"", "id\0x", false },
		{ "\"\\u0000\"", "", false },
		{ "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t", true },
		{ "\"caf\\u00e9 \\u20AC\"", "caf\xc3\xa9 \xe2\x82\xac", true },
		{ "\"\\uD83D\\uDE00\"", "\xf0\x9f\x98\x80", true },
		{ "\"\\ud83d\"", "\xef\xbf\xbd", false },
		{ "\"\\ude00\\ud83d\"", "\xf0\x9f\x98\x80", false },
		{ "id", "id", false },
		{ "\"", "", false },
		{ "", "", false },
	};
	for (size_t i = 0; i < COUNT(cases); i++)
		ck_assert_msg(json_string_is(guard_copy(span_of(cases[i].json)), cases[i].text) == cases[i].same, "%s",
			      cases[i].json);
	ck_assert(!json_string_is(SPAN_NONE, ""));
}
END_TEST

START_TEST(equal_strings_are_those_that_say_the_same)
{
	static const struct {
		const char *a, *b;
		bool same;
	} cases[] = {
		{ "\"\"", "\"\"", true },
		{ "\"a\"", "\"a\"", true },
		{ "\"a\"", "\"b\"", false },
		{ "\"a\"", "\"ab\"", false },
		{ "\"\\u0061\"", "\"a\"", true },
		{ "\"\\u00e9\"", "\"\xc3\xa9\"", true },
		{ "\"\\/\"", "\"/\"", true },
		{ "\"\\u000a\"", "\"\\n\"", true },
		{ "\"\\u0000\"", "\"\\u0000\"", true },
		{ "\"\\u0000\"", "\"\"", false },
		{ "\"a\\u0000b\"", "\"a\\u0000c\"", false },
		{ "\"\\ud83d\\ude00\"", "\"\xf0\x9f\x98\x80\"", true },
		/* Lone surrogates: equal to themselves alone, so that two ids are not taken for one. */
		{ "\"\\ud800\"", "\"\\uD800\"", true },
		{ "\"\\ud800\"", "\"\\ud801\"", false },
		{ "\"\\ud800\"", "\"\\ufffd\"", false },
		{ "\"\\ud800\"", "\"\xef\xbf\xbd\"", false },
		{ "\"\\ud800x\"", "\"\\ud800\\u0078\"", true },
		{ "\"1\"", "1", false },
		{ "1", "1", false },
		{ "", "", false },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct span a = span_of(cases[i].a), b = span_of(cases[i].b);
		ck_assert_msg(json_strings_equal(a, guard_copy(b)) == cases[i].same, "%s %s", a.ptr, b.ptr);
		ck_assert_msg(json_strings_equal(b, guard_copy(a)) == cases[i].same, "%s %s", b.ptr, a.ptr);
		if (cases[i].same)
			ck_assert_uint_eq(json_string_hash(a), json_string_hash(b));
		else if (a.len > 1 && b.len > 1)
			ck_assert_uint_ne(json_string_hash(a), json_string_hash(b));
	}
}
END_TEST

START_TEST(decoding_gives_utf8)
{
	const struct {
		const char *json;
		struct span text;
	} cases[] = {
		{ "\"\"", SPAN_LIT("") },
		{ "\"plain\"", SPAN_LIT("plain") },
		{ "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", SPAN_LIT("\"\\/\b\f\n\r\t") },
		{ "\"a\\u0000b\"", SPAN_LIT("a\0b") },
		{ "\"\\u007f\\u0080\\u07ff\\u0800\\uffff\"", SPAN_LIT("\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xef\xbf\xbf") },
		{ "\"\\ud800\\udc00\\uDBFF\\uDFFF\"", SPAN_LIT("\xf0\x90\x80\x80\xf4\x8f\xbf\xbf") },
		{ "\"\\ud83d\"", SPAN_LIT("\xef\xbf\xbd") },
		{ "\"\\ud83dx\"", SPAN_LIT("\xef\xbf\xbdx") },
		{ "\"\\ud83d\\n\"", SPAN_LIT("\xef\xbf\xbd\n") },
		{ "\"\\ud83d\\nde00\"", SPAN_LIT("\xef\xbf\xbd\nde00") },
		{ "\"\\ud83dxude00\"", SPAN_LIT("\xef\xbf\xbdxude00") },
		{ "\"\\ud83d\\u0041\"", SPAN_LIT("\xef\xbf\xbd"
						 "A") },
		{ "\"\\ud83d\\ud83d\\ude00\"", SPAN_LIT("\xef\xbf\xbd\xf0\x9f\x98\x80") },
		{ "\"\\udc00\\ud800\"", SPAN_LIT("\xef\xbf\xbd\xef\xbf\xbd") },
		{ "\"\\udc00\\udc00\"", SPAN_LIT("\xef\xbf\xbd\xef\xbf\xbd") },
		{ "\"\\ud800\\udbff\\ue000\"", SPAN_LIT("\xef\xbf\xbd\xef\xbf\xbd\xee\x80\x80") },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct buf b = BUF_INIT;
		buf_add_text(&b, "<");
		ck_assert_int_eq(json_check(span_of(cases[i].json), NULL), 0);
		ck_assert_int_eq(json_string_decode(guard_copy(span_of(cases[i].json)), &b), 0);
		struct span got = { b.data + 1, b.len - 1 };
		ck_assert_msg(span_equal(got, cases[i].text), "%s", cases[i].json);
		buf_done(&b);
		char *text = json_string_dup(span_of(cases[i].json));
		ck_assert_int_eq(text == NULL, memchr(cases[i].text.ptr, 0, cases[i].text.len) != NULL);
		if (text)
			ck_assert_str_eq(text, cases[i].text.ptr);
		free(text);
	}
}
END_TEST

START_TEST(what_is_no_string_is_not_decoded)
{
	static const char *const cases[] = { "",      "\"",    "1",       "null",      "[\"a\"]",
					     "\"abc", "abc\"", "\"a\\\"", "\"ab\\x\"", "\"ab\\u12\"" };
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct buf b = BUF_INIT;
		buf_add_text(&b, "before");
		ck_assert_int_eq(json_string_decode(guard_copy(span_of(cases[i])), &b), -EINVAL);
		ck_assert(span_is(buf_span(&b), "before"));
		buf_done(&b);
		ck_assert_ptr_null(json_string_dup(span_of(cases[i])));
	}
	struct buf b = BUF_INIT;
	ck_assert_int_eq(json_string_decode(SPAN_NONE, &b), -EINVAL);
	/* Comparing such bytes ends, whatever it says. */
	struct span bad = guard_copy(SPAN_LIT("\"ab\\x\""));
	ck_assert(!json_string_is(bad, "abx"));
	ck_assert(json_strings_equal(bad, bad));
	ck_assert_uint_eq(json_string_hash(bad), json_string_hash(bad));
}
END_TEST

START_TEST(decoding_reports_a_full_buffer)
{
	struct buf b;
	buf_init(&b, 5);
	ck_assert_int_eq(json_string_decode(SPAN_LIT("\"12\\n45\""), &b), 0);
	ck_assert_int_eq(json_string_decode(SPAN_LIT("\"\""), &b), 0);
	ck_assert_int_eq(json_string_decode(SPAN_LIT("\"6\""), &b), -E2BIG);
	buf_done(&b);
}
END_TEST

START_TEST(every_allocation_that_fails_is_reported)
{
	for (unsigned nth = 1;; nth++) {
		long live;
		alloc_watch(nth);
		char *text = json_string_dup(SPAN_LIT("\"0123456789\\n0123456789\""));
		bool failed = alloc_done(&live);
		if (!failed) {
			ck_assert_str_eq(text, "0123456789\n0123456789");
			ck_assert_int_eq(live, 1);
			ck_assert_uint_gt(nth, 1);
			free(text);
			break;
		}
		ck_assert_ptr_null(text);
		ck_assert_int_eq(live, 0);
	}
	struct buf b = BUF_INIT;
	long live;
	alloc_watch(1);
	int rc = json_string_decode(SPAN_LIT("\"x\""), &b);
	alloc_done(&live);
	ck_assert_int_eq(rc, -ENOMEM);
	ck_assert_int_eq(live, 0);
}
END_TEST

START_TEST(numbers_that_are_integers)
{
	static const struct {
		const char *text;
		int64_t value;
	} cases[] = {
		{ "0", 0 },
		{ "-0", 0 },
		{ "-0.00e99999999999999999999", 0 },
		{ "0e-5", 0 },
		{ "1", 1 },
		{ "-1", -1 },
		{ "1.0", 1 },
		{ "-1.000", -1 },
		{ "1e3", 1000 },
		{ "1E+3", 1000 },
		{ "1.5e1", 15 },
		{ "1.50e1", 15 },
		{ "1200e-2", 12 },
		{ "0.00012e5", 12 },
		{ "9223372036854775807", INT64_MAX },
		{ "-9223372036854775808", INT64_MIN },
		{ "9223372036854775807.0", INT64_MAX },
		{ "0.9223372036854775807e19", INT64_MAX },
		{ "-92233720368547758080e-1", INT64_MIN },
		{ " 5 ", 5 },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		int64_t value = 77;
		ck_assert_msg(json_int64(guard_copy(span_of(cases[i].text)), &value) == 0, "%s", cases[i].text);
		ck_assert_msg(value == cases[i].value, "%s", cases[i].text);
	}
}
END_TEST

START_TEST(numbers_that_are_none)
{
	static const char *const out_of_range[] = { "0.5",
						    "-1.01",
						    "12345e-2",
						    "1e-1",
						    "9223372036854775808",
						    "-9223372036854775809",
						    "1e19",
						    "-1e400",
						    "1e99999999999999999999",
						    "1e-99999999999999999999",
						    "123456789012345678901234567890",
						    "10e18",
						    "0.1e-9999999999999999999" };
	static const char *const no_numbers[] = { "",    "-",    "+1",       ".5",    "1.",   "1e",   "01",
						  "1x",  "0x10", "NaN",      "\"1\"", "null", "true", "[1]",
						  "1 2", "1,",   "Infinity", "--1",   "1e+",  "1.e5" };
	int64_t value = 77;
	for (size_t i = 0; i < COUNT(out_of_range); i++)
		ck_assert_msg(json_int64(guard_copy(span_of(out_of_range[i])), &value) == -ERANGE, "%s",
			      out_of_range[i]);
	for (size_t i = 0; i < COUNT(no_numbers); i++)
		ck_assert_msg(json_int64(guard_copy(span_of(no_numbers[i])), &value) == -EINVAL, "%s", no_numbers[i]);
	ck_assert_int_eq(json_int64(SPAN_NONE, &value), -EINVAL);
	ck_assert_int_eq(value, 77);
}
END_TEST

START_TEST(long_numbers_take_linear_time)
{
	/* 10^-n * 10^n with n = 4 million, and a great many digits. */
	struct buf b = BUF_INIT;
	buf_add_text(&b, "0.");
	for (int i = 0; i < 4000000 - 1; i++)
		buf_add_char(&b, '0');
	buf_add_text(&b, "7e4000000");
	int64_t value;
	ck_assert_int_eq(json_int64(buf_span(&b), &value), 0);
	ck_assert_int_eq(value, 7);
	b.data[b.len - 1] = '1';
	ck_assert_int_eq(json_int64(buf_span(&b), &value), 0);
	ck_assert_int_eq(value, 70);
	buf_reset(&b);
	for (int i = 0; i < 4000000; i++)
		buf_add_char(&b, '7');
	ck_assert_int_eq(json_int64(buf_span(&b), &value), -ERANGE);
	buf_done(&b);
}
END_TEST

int main(void)
{
	return RUN_TESTS("json_iter", types_are_told_by_the_first_byte, members_come_in_order_as_written,
			 elements_come_in_order_as_written, what_is_no_container_has_nothing_in_it,
			 bytes_that_are_no_json_stay_inside_and_end, members_are_found_by_their_decoded_names,
			 strings_are_compared_decoded, equal_strings_are_those_that_say_the_same, decoding_gives_utf8,
			 what_is_no_string_is_not_decoded, decoding_reports_a_full_buffer,
			 every_allocation_that_fails_is_reported, numbers_that_are_integers, numbers_that_are_none,
			 long_numbers_take_linear_time);
}
