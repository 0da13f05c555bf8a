/* json_scan: what is JSON and what is not, where the error is, and where the wanted members lie. */
#include "proto/json_scan.h"

#include <errno.h>
#include <stdio.h>

#include "proto/json_lex.h"
#include "tests/unit/guard.h"
#include "tests/unit/json_reference.h"
#include "tests/unit/run.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static void assert_span(struct span s, const char *want)
{
	ck_assert_msg(want ? span_is(s, want) : s.ptr == NULL, "got '%.*s', want '%s'", (int)s.len, s.ptr ? s.ptr : "",
		      want ? want : "(absent)");
}

/* The text repeated n times between head and tail, on the heap. */
static struct buf repeat(const char *head, const char *unit, size_t n, const char *tail)
{
	struct buf b = BUF_INIT;
	buf_add_text(&b, head);
	for (size_t i = 0; i < n; i++)
		buf_add_text(&b, unit);
	buf_add_text(&b, tail);
	ck_assert(!buf_failed(&b));
	return b;
}

static const char *plain_end_slowly(const char *at, const char *end)
{
	while (at < end && json_is_plain(*at))
		at++;
	return at;
}

/* Whether every way ends the plain run where a look at each byte does. */
static bool plain_ends_agree(struct span s)
{
	const char *end = s.ptr + s.len;
	const char *want = plain_end_slowly(s.ptr, end);
	bool agree = json_plain_end_swar(s.ptr, end) == want && json_plain_end(s.ptr, end) == want;
#ifdef __SSE2__
	agree = agree && json_plain_end_sse2(s.ptr, end) == want;
#endif
	return agree;
}

START_TEST(plain_runs_end_at_the_same_byte_in_every_way)
{
	char text[72];
	unsigned wrong = 0;
	for (size_t len = 0; len <= sizeof(text); len++) {
		for (int byte = 0; byte < 256; byte++) {
			/* Two odd bytes, so that one behind the first must not disturb it. */
			size_t place = len > 0 ? (size_t)byte * 31 % len : 0;
			memset(text, 'a', sizeof(text));
			if (len > 0) {
				text[len - 1] = '"';
				text[place] = (char)byte;
			}
			struct span s = guard_copy((struct span){ text, len });
			for (size_t from = 0; from <= len && from < 17; from++)
				wrong += !plain_ends_agree((struct span){ s.ptr + from, len - from });
		}
	}
	ck_assert_uint_eq(wrong, 0);
}
END_TEST

START_TEST(every_pair_of_bytes_is_found_in_every_way)
{
	/* Every value beside every other, all over two words. */
	char text[16];
	unsigned wrong = 0;
	for (unsigned pair = 0; pair < 0x10000; pair++) {
		size_t place = pair % 15;
		memset(text, ' ', sizeof(text));
		text[place] = (char)(pair >> 8);
		text[place + 1] = (char)pair;
		wrong += !plain_ends_agree((struct span){ text, sizeof(text) });
	}
	ck_assert_uint_eq(wrong, 0);
}
END_TEST

START_TEST(utf8_is_what_the_reference_says)
{
	/* All sequences of up to three bytes, and the four-byte ones with the interesting second bytes. */
	unsigned wrong = 0;
	for (uint32_t word = 0; word < 0x1000000; word++) {
		const char text[3] = { (char)(word >> 16), (char)(word >> 8), (char)word };
		struct reference r = { (const unsigned char *)text, (const unsigned char *)text + 3 };
		bool good = reference_utf8(&r);
		size_t want = good ? (size_t)(r.at - (const unsigned char *)text) : 0;
		wrong += json_utf8_length(text, text + 3) != want;
	}
	for (uint32_t word = 0; word < 0x1000000; word++) {
		const char text[4] = { (char)(0xf0 | word >> 20), (char)(word >> 12), (char)(word >> 4),
				       (char)(0x7f + word % 16 * 5) };
		struct reference r = { (const unsigned char *)text, (const unsigned char *)text + 4 };
		bool good = reference_utf8(&r);
		size_t want = good ? (size_t)(r.at - (const unsigned char *)text) : 0;
		wrong += json_utf8_length(text, text + 4) != want;
	}
	ck_assert_uint_eq(wrong, 0);
}
END_TEST

START_TEST(errors_are_placed_and_explained)
{
	const struct {
		struct span text;
		size_t offset;
		const char *reason;
	} cases[] = {
		{ SPAN_NONE, 0, "the text ends too early" },
		{ SPAN_LIT(""), 0, "the text ends too early" },
		{ SPAN_LIT("  "), 2, "the text ends too early" },
		{ SPAN_LIT("{"), 1, "the text ends too early" },
		{ SPAN_LIT("{\"a\":1"), 6, "the text ends too early" },
		{ SPAN_LIT("[1,"), 3, "the text ends too early" },
		{ SPAN_LIT("\"abc"), 4, "the text ends too early" },
		{ SPAN_LIT("-"), 1, "the text ends too early" },
		{ SPAN_LIT("hello"), 0, "a value is expected" },
		{ SPAN_LIT("[tru]"), 4, "a value is expected" },
		{ SPAN_LIT("[1 2]"), 3, "a comma or ] is expected" },
		{ SPAN_LIT("{\"a\":1 \"b\""), 7, "a comma or } is expected" },
		{ SPAN_LIT("{\"a\" 1}"), 5, "a colon is expected" },
		{ SPAN_LIT("{a:1}"), 1, "a member's name is expected" },
		{ SPAN_LIT("[1]]"), 3, "something follows the value" },
		{ SPAN_LIT("{}{}"), 2, "something follows the value" },
		{ SPAN_LIT("01"), 1, "something follows the value" },
		{ SPAN_LIT("[1.]"), 3, "a digit is expected" },
		{ SPAN_LIT("\"a\\x\""), 2, "no such escape in a string" },
		{ SPAN_LIT("\"a\nb\""), 2, "a raw control character in a string" },
		{ SPAN_LIT("\"a\0b\""), 2, "a raw control character in a string" },
		{ SPAN_LIT("\"\xc3\xa9\xff\""), 3, "a string that is not UTF-8" },
		{ SPAN_LIT("\xef\xbb\xbf{}"), 0, "a value is expected" },
		{ SPAN_LIT("{}\0"), 2, "something follows the value" },
	};
	for (size_t i = 0; i < COUNT(cases); i++) {
		struct json_error error = { 99, NULL, false };
		ck_assert_int_eq(json_check(guard_copy(cases[i].text), &error), -EINVAL);
		ck_assert_msg(error.offset == cases[i].offset, "%s: offset %zu, want %zu", cases[i].text.ptr,
			      error.offset, cases[i].offset);
		ck_assert_str_eq(error.reason, cases[i].reason);
		ck_assert_int_eq(json_check(guard_copy(cases[i].text), NULL), -EINVAL);
	}
}
END_TEST

START_TEST(the_depth_limit_is_exact)
{
	const struct {
		const char *open, *inner, *close;
	} kinds[] = {
		{ "[", "", "]" },
		{ "[", "7", "]" },
		{ "{\"a\":", "null", "}" },
		{ "[[],{\"b\":\"[[[[\"},", "[]", "]" },
	};
	for (size_t kind = 0; kind < COUNT(kinds); kind++) {
		size_t inner = strcmp(kinds[kind].inner, "[]") == 0;
		for (size_t depth = 1; depth < 300; depth++) {
			struct buf b = repeat("", kinds[kind].open, depth, kinds[kind].inner);
			for (size_t i = 0; i < depth; i++)
				buf_add_text(&b, kinds[kind].close);
			struct json_error error;
			int rc = json_check(guard_copy(buf_span(&b)), &error);
			ck_assert_int_eq(rc, depth + inner <= JSON_DEPTH_MAX ? 0 : -EINVAL);
			if (rc < 0)
				ck_assert_str_eq(error.reason, "nested too deeply");
			buf_done(&b);
		}
	}
	ck_assert_int_eq(JSON_DEPTH_MAX, 128);
}
END_TEST

START_TEST(brackets_must_match_at_every_depth)
{
	/* Objects and arrays mixed over the whole bit stack; one bracket of the wrong sort. */
	char close[JSON_DEPTH_MAX];
	struct buf b = BUF_INIT;
	for (size_t depth = 0; depth < JSON_DEPTH_MAX; depth++) {
		bool object = depth * depth % 3 == 1;
		buf_add_text(&b, object ? "{\"\":" : "[");
		close[JSON_DEPTH_MAX - 1 - depth] = object ? '}' : ']';
	}
	buf_add_char(&b, '0');
	size_t first = b.len;
	buf_add(&b, close, sizeof(close));
	ck_assert_int_eq(json_check(guard_copy(buf_span(&b)), NULL), 0);
	for (size_t i = first; i < b.len; i++) {
		struct json_error error;
		b.data[i] ^= ']' ^ '}';
		ck_assert_int_eq(json_check(guard_copy(buf_span(&b)), &error), -EINVAL);
		ck_assert_uint_eq(error.offset, i);
		b.data[i] ^= ']' ^ '}';
	}
	buf_done(&b);
}
END_TEST

static const char document[] =
	"{\"jsonrpc\" :\"2.0\",\"id\":[1,-0,2.50e+3,true,false,null,{},[ ]],\n\t\"\\u0041\\\"\":{\"x\":"
	"\"caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80 \\ud800 \\n\","
	"\"x\":1E-400}, \"z\":\"0123456789abcdef0123456789\"}";

START_TEST(no_beginning_of_a_document_is_one)
{
	struct span whole = SPAN_LIT(document);
	ck_assert_int_eq(json_check(guard_copy(whole), NULL), 0);
	for (size_t len = 0; len < whole.len; len++) {
		struct json_error error;
		ck_assert_int_eq(json_check(guard_copy((struct span){ document, len }), &error), -EINVAL);
		ck_assert_uint_le(error.offset, len);
	}
}
END_TEST

START_TEST(any_changed_byte_gets_the_verdict_of_the_reference)
{
	char text[sizeof(document)];
	unsigned valid = 0, invalid = 0;
	for (size_t place = 0; place < sizeof(document) - 1; place++) {
		for (int byte = 0; byte < 256; byte++) {
			memcpy(text, document, sizeof(document));
			text[place] = (char)byte;
			struct span s = guard_copy((struct span){ text, sizeof(document) - 1 });
			bool want = reference_check(s);
			ck_assert_msg((json_check(s, NULL) == 0) == want, "byte 0x%02x at %zu", (unsigned)byte, place);
			valid += want;
			invalid += !want;
		}
	}
	ck_assert_uint_gt(valid, 5000);
	ck_assert_uint_gt(invalid, 20000);
}
END_TEST

enum {
	W_META,
	W_TOKEN,
	W_ID,
	W_PARAMS,
	W_LIST,
	W_EMPTY,
	W_COUNT,
};

/* Children in front of their parents too: the order does not matter. */
static const struct json_want wants[W_COUNT] = {
	[W_META] = { "_meta", W_PARAMS }, [W_TOKEN] = { "token", W_META }, [W_ID] = { "id", -1 },
	[W_PARAMS] = { "params", -1 },    [W_LIST] = { "list", -1 },       [W_EMPTY] = { "", W_PARAMS },
};

static uint64_t scan(const char *text, struct span *found, int want_rc)
{
	uint64_t doubled = ~(uint64_t)0;
	ck_assert_int_eq(json_scan(guard_copy(span_of(text)), wants, W_COUNT, found, &doubled, NULL), want_rc);
	return doubled;
}

START_TEST(wanted_members_are_found_where_they_belong)
{
	struct span found[W_COUNT];
	ck_assert_uint_eq(
		scan(" { \"params\" : {\"x\":{\"_meta\":{\"token\":1},\"id\":2},\"\":\"\","
		     "\"_meta\":{ \"a\":[{\"token\":3}],\"token\" : 4.50 }} ,"
		     "\"list\":[ 1,{\"id\":5},{\"params\":{\"_meta\":6}} ],\"i\":7,\"idx\":8,\"id\" : \"\\u0031\" } ",
		     found, 0),
		0);
	assert_span(found[W_ID], "\"\\u0031\"");
	assert_span(found[W_PARAMS], "{\"x\":{\"_meta\":{\"token\":1},\"id\":2},\"\":\"\","
				     "\"_meta\":{ \"a\":[{\"token\":3}],\"token\" : 4.50 }}");
	assert_span(found[W_META], "{ \"a\":[{\"token\":3}],\"token\" : 4.50 }");
	assert_span(found[W_TOKEN], "4.50");
	assert_span(found[W_LIST], "[ 1,{\"id\":5},{\"params\":{\"_meta\":6}} ]");
	assert_span(found[W_EMPTY], "\"\"");
}
END_TEST

START_TEST(every_kind_of_value_has_its_exact_span)
{
	static const char *const values[] = {
		"null", "true", "false", "0",       "-12.5e+7",           "\"\"", "\"a\\\"b\"", "{}",
		"{ }",  "[]",   "[\n]",  "[[],{}]", "{\"id\":{\"id\":1}}"
	};
	static const char *const shapes[] = { "{\"id\":%s}", "{\"id\" : %s , \"z\":1}", "{\"a\":[{}],\"id\":%s\n}" };
	for (size_t shape = 0; shape < COUNT(shapes); shape++) {
		for (size_t i = 0; i < COUNT(values); i++) {
			struct span found[W_COUNT];
			struct buf b = BUF_INIT;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
			buf_addf(&b, shapes[shape], values[i]);
#pragma GCC diagnostic pop
			scan(b.data, found, 0);
			assert_span(found[W_ID], values[i]);
			assert_span(found[W_PARAMS], NULL);
			buf_done(&b);
		}
	}
}
END_TEST

START_TEST(names_are_compared_decoded)
{
	struct span found[W_COUNT];
	scan("{\"\\u0069\\u0064\":1,\"par\\u0061ms\":{\"\\u005Fmeta\":{\"tok\\u0065n\":2}}}", found, 0);
	assert_span(found[W_ID], "1");
	assert_span(found[W_TOKEN], "2");
	scan("{\"id\\u0000\":1,\"\\u0000id\":2,\"i\\u0000d\":3,\"ID\":4,\"id \":5,\"\\\\u0069d\":6,\"i\":7,\"idd\":8}",
	     found, 0);
	assert_span(found[W_ID], NULL);
}
END_TEST

START_TEST(doubled_members_keep_the_first_span)
{
	struct span found[W_COUNT];
	ck_assert_uint_eq(scan("{\"id\":1,\"\\u0069d\":2,\"id\":3}", found, 0), 1 << W_ID);
	assert_span(found[W_ID], "1");
	/* The members of a second `params` are not mixed with those of the first. */
	ck_assert_uint_eq(scan("{\"params\":{\"_meta\":{}},\"params\":{\"_meta\":{\"token\":1},\"\":2}}", found, 0),
			  1 << W_PARAMS);
	assert_span(found[W_META], "{}");
	assert_span(found[W_TOKEN], NULL);
	assert_span(found[W_EMPTY], NULL);
	ck_assert_uint_eq(scan("{\"params\":{\"_meta\":0,\"_meta\":{\"token\":1}}}", found, 0), 1 << W_META);
	assert_span(found[W_META], "0");
	assert_span(found[W_TOKEN], NULL);
	/* Doubles of what is not wanted are nobody's business (R19). */
	ck_assert_uint_eq(scan("{\"a\":1,\"a\":2,\"params\":{\"id\":1,\"id\":2}}", found, 0), 0);
}
END_TEST

START_TEST(parents_that_are_no_objects_have_no_members)
{
	struct span found[W_COUNT];
	scan("{\"params\":[{\"_meta\":{\"token\":1}}]}", found, 0);
	assert_span(found[W_PARAMS], "[{\"_meta\":{\"token\":1}}]");
	assert_span(found[W_META], NULL);
	scan("{\"params\":\"_meta\",\"id\":[[\"token\"]]}", found, 0);
	assert_span(found[W_META], NULL);
	static const char *const others[] = { "[{\"id\":1}]", "\"id\"", "1", "null", " [] " };
	for (size_t i = 0; i < COUNT(others); i++) {
		ck_assert_uint_eq(scan(others[i], found, 0), 0);
		for (size_t w = 0; w < W_COUNT; w++)
			assert_span(found[w], NULL);
	}
}
END_TEST

/* S7a: the beginning of a line that is too long. */
START_TEST(s7a_what_was_complete_before_the_text_ends_is_known)
{
	static const char text[] = "{\"id\":1234,\"list\":[1],\"params\":{\"_meta\":{\"token\":\"abc\"},\"\":tr";
	for (size_t len = 0; len <= sizeof(text) - 1; len++) {
		struct span found[W_COUNT];
		struct span part = guard_copy((struct span){ text, len });
		ck_assert_int_eq(json_scan(part, wants, W_COUNT, found, NULL, NULL), -EINVAL);
		const struct {
			size_t begun, complete; /* from these lengths on */
		} when[W_COUNT] = {
			[W_ID] = { 7, 11 },    [W_LIST] = { 19, 21 },  [W_PARAMS] = { 32, SIZE_MAX },
			[W_META] = { 41, 55 }, [W_TOKEN] = { 50, 54 }, [W_EMPTY] = { 60, SIZE_MAX },
		};
		for (size_t w = 0; w < W_COUNT; w++) {
			ck_assert_msg((found[w].ptr != NULL) == (len >= when[w].begun), "%zu begun at %zu", w, len);
			ck_assert_msg((found[w].len > 0) == (len >= when[w].complete), "%zu complete at %zu", w, len);
		}
	}
}
END_TEST

START_TEST(as_many_wants_as_there_may_be)
{
	struct json_want many[JSON_WANT_MAX];
	struct span found[JSON_WANT_MAX];
	char names[JSON_WANT_MAX][16];
	struct buf b = BUF_INIT;
	/* A path as deep as the table is long. */
	for (int i = 0; i < JSON_WANT_MAX; i++) {
		snprintf(names[i], sizeof(names[i]), "n%d", i);
		many[i] = (struct json_want){ names[i], i - 1 };
		buf_addf(&b, "{\"x\":[],\"n%d\":", i);
	}
	buf_add_text(&b, "{}");
	for (int i = 0; i < JSON_WANT_MAX; i++)
		buf_addf(&b, ",\"n%d\":0}", JSON_WANT_MAX - 1 - i);
	uint64_t doubled;
	ck_assert_int_eq(json_scan(guard_copy(buf_span(&b)), many, JSON_WANT_MAX, found, &doubled, NULL), 0);
	ck_assert_uint_eq(doubled, ((uint64_t)1 << JSON_WANT_MAX) - 1);
	assert_span(found[JSON_WANT_MAX - 1], "{}");
	for (int i = 0; i < JSON_WANT_MAX - 1; i++)
		ck_assert_int_eq(found[i].ptr[found[i].len - 1], '}');
	buf_done(&b);
}
END_TEST

START_TEST(huge_numbers_and_strings_are_valid)
{
	struct buf digits = repeat("{\"id\":-1", "0123456789", 800000, "e+000000000000000000000000000000000000009}");
	struct span found[W_COUNT];
	ck_assert_int_eq(json_scan(buf_span(&digits), wants, W_COUNT, found, NULL, NULL), 0);
	ck_assert_uint_eq(found[W_ID].len, digits.len - 7);
	buf_done(&digits);

	/* 64 MiB, the default of maxMessageBytes, and a bad byte at its very end. */
	struct buf b = BUF_INIT;
	size_t len = (size_t)64 << 20;
	ck_assert_int_eq(buf_reserve(&b, len), 0);
	memset(b.data, 'x', len);
	b.data[0] = b.data[len - 1] = '"';
	ck_assert_int_eq(json_check((struct span){ b.data, len }, NULL), 0);
	struct json_error error;
	b.data[len - 2] = '\x1f';
	ck_assert_int_eq(json_check((struct span){ b.data, len }, &error), -EINVAL);
	ck_assert_uint_eq(error.offset, len - 2);
	buf_done(&b);
}
END_TEST

START_TEST(millions_of_brackets_need_no_stack)
{
	struct buf b = repeat("", "[", 5000000, "");
	struct json_error error;
	ck_assert_int_eq(json_check(buf_span(&b), &error), -EINVAL);
	ck_assert_uint_eq(error.offset, JSON_DEPTH_MAX);
	buf_done(&b);
	b = repeat("[0", ",[[[]]]", 1000000, "]");
	ck_assert_int_eq(json_check(buf_span(&b), NULL), 0);
	buf_done(&b);
}
END_TEST

int main(void)
{
	return RUN_TESTS(
		"json_scan", plain_runs_end_at_the_same_byte_in_every_way, every_pair_of_bytes_is_found_in_every_way,
		utf8_is_what_the_reference_says, errors_are_placed_and_explained, the_depth_limit_is_exact,
		brackets_must_match_at_every_depth, no_beginning_of_a_document_is_one,
		any_changed_byte_gets_the_verdict_of_the_reference, wanted_members_are_found_where_they_belong,
		every_kind_of_value_has_its_exact_span, names_are_compared_decoded, doubled_members_keep_the_first_span,
		parents_that_are_no_objects_have_no_members, s7a_what_was_complete_before_the_text_ends_is_known,
		as_many_wants_as_there_may_be, huge_numbers_and_strings_are_valid, millions_of_brackets_need_no_stack);
}
