/*
 * Any bytes through json_check(), json_scan() and the iteration. The verdict is that of the plain reference; what
 * json_scan() finds is what json_member() finds; every item lies inside the text; strings survive being decoded and
 * written again.
 */
#include <errno.h>
#include <stdlib.h>

#include "proto/json_scan.h"
#include "tests/unit/json_reference.h"

#define REQUIRE(condition)                                                                                             \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			abort();                                                                                       \
	} while (0)

enum { W_A, W_AB, W_ID, W_COUNT };
static const struct json_want wants[W_COUNT] = {
	[W_A] = { "a", -1 },
	[W_AB] = { "b", W_A },
	[W_ID] = { "id", -1 },
};

static bool is_inside(struct span part, struct span whole)
{
	return part.ptr >= whole.ptr && part.len <= whole.len && part.ptr + part.len <= whole.ptr + whole.len;
}

static bool is_same(struct span a, struct span b)
{
	return a.ptr == b.ptr && a.len == b.len;
}

static void check_string(struct span string)
{
	struct buf decoded = BUF_INIT, written = BUF_INIT, again = BUF_INIT;
	REQUIRE(json_string_decode(string, &decoded) == 0);
	buf_add_json_string(&written, buf_span(&decoded));
	REQUIRE(json_check(buf_span(&written), NULL) == 0);
	REQUIRE(json_string_decode(buf_span(&written), &again) == 0);
	REQUIRE(span_equal(buf_span(&decoded), buf_span(&again)));
	REQUIRE(json_strings_equal(string, string));
	if (json_strings_equal(string, buf_span(&written)))
		REQUIRE(json_string_hash(string) == json_string_hash(buf_span(&written)));
	char *text = json_string_dup(string);
	if (text)
		REQUIRE(strlen(text) == decoded.len && json_string_is(buf_span(&written), text));
	free(text);
	buf_done(&decoded);
	buf_done(&written);
	buf_done(&again);
}

/* Walks a valid value, not too deep for this small stack. */
static void walk(struct span value, int depth)
{
	struct json_iter it;
	struct span key, item;
	int64_t number;
	REQUIRE(json_check(value, NULL) == 0);
	switch (json_type_of(value)) {
	case JSON_STRING:
		check_string(value);
		break;
	case JSON_NUMBER:
		REQUIRE(json_int64(value, &number) != -EINVAL);
		break;
	case JSON_OBJECT:
		for (json_iter_init(&it, value); json_iter_member(&it, &key, &item);) {
			REQUIRE(is_inside(key, value) && is_inside(item, value));
			check_string(key);
			if (depth < 6)
				walk(item, depth + 1);
		}
		break;
	case JSON_ARRAY:
		for (json_iter_init(&it, value); json_iter_element(&it, &item);) {
			REQUIRE(is_inside(item, value));
			if (depth < 6)
				walk(item, depth + 1);
		}
		break;
	default:
		break;
	}
}

/* On bytes that are no JSON the iteration stays inside and ends. */
static void wander(struct span text)
{
	struct json_iter it;
	struct span key, item;
	size_t items = 0;
	for (json_iter_init(&it, text); json_iter_member(&it, &key, &item); items++)
		REQUIRE(is_inside(key, text) && is_inside(item, text));
	for (json_iter_init(&it, text); json_iter_element(&it, &item); items++)
		REQUIRE(is_inside(item, text));
	REQUIRE(items <= 2 * text.len);
	struct buf out = BUF_INIT;
	int rc = json_string_decode(text, &out);
	REQUIRE(rc == 0 || out.len == 0);
	json_strings_equal(text, text);
	json_string_is(text, "id");
	json_path(text, "a", "b", NULL);
	buf_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct span text = { (const char *)data, size };
	struct span found[W_COUNT];
	struct json_error error = { SIZE_MAX, NULL, false };
	uint64_t doubled;
	bool valid = json_check(text, &error) == 0;
	REQUIRE(valid == reference_check(text));
	REQUIRE(valid || (error.offset <= size && error.reason));
	REQUIRE((json_scan(text, wants, W_COUNT, found, &doubled, NULL) == 0) == valid);
	for (int i = 0; i < W_COUNT; i++)
		REQUIRE(!found[i].ptr || is_inside(found[i], text));
	wander(text);
	if (!valid)
		return 0;
	REQUIRE(is_same(found[W_A], json_member(text, "a")));
	REQUIRE(is_same(found[W_AB], json_path(text, "a", "b", NULL)));
	REQUIRE(is_same(found[W_ID], json_member(text, "id")));
	walk(json_trim(text), 0);
	return 0;
}
