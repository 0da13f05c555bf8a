/*
 * json_check() held against json-c on a corpus and on mutations of it (PITFALLS "json-c"): the same verdict, but for
 * the leniencies that json-c shows even when strict. Those are listed here, each with the place where the two part;
 * every one must be shown by the corpus, and whatever json-c takes that json_check() refuses must be one of them.
 * json-c is never the stricter one.
 */
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/json_scan.h"
#include "tests/unit/guard.h"
#include "tests/unit/json_reference.h"
#include "tests/unit/run.h"

#define LINE_BYTES 4096

/* The byte at that place, or 0 outside of the text. */
static unsigned char byte_at(struct span text, size_t place)
{
	return place < text.len ? (unsigned char)text.ptr[place] : 0;
}

static bool is_digit(unsigned char c)
{
	return c >= '0' && c <= '9';
}

static bool says(struct span text, size_t place, const char *word)
{
	size_t len = strlen(word);
	return place < text.len && text.len - place >= len && memcmp(text.ptr + place, word, len) == 0;
}

/* Whether json_check()'s error, at that place, is what json-c lets through. */
static bool is_nan(struct span text, size_t at)
{
	return says(text, at, "NaN");
}

static bool is_infinity(struct span text, size_t at)
{
	return says(text, at, "Infinity");
}

static bool is_single_quote(struct span text, size_t at)
{
	return byte_at(text, at) == '\'';
}

static bool is_raw_control(struct span text, size_t at)
{
	return at < text.len && byte_at(text, at) > 0 && byte_at(text, at) < 0x20;
}

static bool is_number_ending_in_dot(struct span text, size_t at)
{
	return at >= 2 && byte_at(text, at - 1) == '.' && is_digit(byte_at(text, at - 2));
}

static bool is_leading_dot(struct span text, size_t at)
{
	return at >= 1 && byte_at(text, at) == '.' && byte_at(text, at - 1) == '-';
}

static bool is_leading_zero(struct span text, size_t at)
{
	return at >= 1 && byte_at(text, at - 1) == '0' && is_digit(byte_at(text, at));
}

static bool is_overlong(struct span text, size_t at)
{
	unsigned char first = byte_at(text, at), second = byte_at(text, at + 1);
	return first == 0xc0 || first == 0xc1 || (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
}

static bool is_encoded_surrogate(struct span text, size_t at)
{
	return byte_at(text, at) == 0xed && byte_at(text, at + 1) >= 0xa0;
}

static bool is_too_high(struct span text, size_t at)
{
	unsigned char first = byte_at(text, at);
	return (first >= 0xf5 && first <= 0xf7) || (first == 0xf4 && byte_at(text, at + 1) >= 0x90);
}

static struct {
	const char *name;
	bool (*is_shown)(struct span text, size_t error_offset);
	unsigned shown; /* by the corpus */
} leniencies[] = {
	{ "nan", is_nan, 0 },
	{ "infinity", is_infinity, 0 },
	{ "single_quotes", is_single_quote, 0 }, /* of keys */
	{ "raw_control", is_raw_control, 0 },
	{ "number_dot", is_number_ending_in_dot, 0 },
	{ "leading_dot", is_leading_dot, 0 },   /* behind a minus */
	{ "leading_zero", is_leading_zero, 0 }, /* of what is negative, zero or no integer */
	{ "utf8_overlong", is_overlong, 0 },
	{ "utf8_surrogate", is_encoded_surrogate, 0 },
	{ "utf8_too_high", is_too_high, 0 },
};
#define LENIENCIES (sizeof(leniencies) / sizeof(*leniencies))

/* Index of the leniency that the text shows, or -1. */
static int shown_leniency(struct span text, size_t error_offset)
{
	for (size_t i = 0; i < LENIENCIES; i++)
		if (leniencies[i].is_shown(text, error_offset))
			return (int)i;
	return -1;
}

static bool json_c_accepts(struct span text, int depth)
{
	struct json_tokener *tokener = json_tokener_new_ex(depth);
	ck_assert_ptr_nonnull(tokener);
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
	struct json_object *value = json_tokener_parse_ex(tokener, text.ptr, (int)text.len);
	bool whole = json_tokener_get_parse_end(tokener) == text.len;
	/* A number at the top goes on until it is told that nothing follows. */
	if (json_tokener_get_error(tokener) == json_tokener_continue)
		value = json_tokener_parse_ex(tokener, "", 1);
	bool accepted = json_tokener_get_error(tokener) == json_tokener_success && whole;
	json_object_put(value);
	json_tokener_free(tokener);
	return accepted;
}

/* %XX is a byte. */
static size_t decode_line(char *text)
{
	char *to = text;
	for (const char *from = text; *from; to++) {
		unsigned byte;
		int used = 0;
		if (*from == '%' && sscanf(from, "%%%2x%n", &byte, &used) == 1 && used == 3) {
			*to = (char)byte;
			from += 3;
		} else {
			*to = *from++;
		}
	}
	return (size_t)(to - text);
}

/* Calls `each` for the cases of a corpus file; returns how many there are. */
static unsigned for_each_case(const char *file, void (*each)(const char *label, struct span text))
{
	char path[LINE_BYTES], line[LINE_BYTES];
	unsigned cases = 0;
	snprintf(path, sizeof(path), "%s/%s", JSON_CORPUS, file);
	FILE *stream = fopen(path, "r");
	ck_assert_msg(stream != NULL, "%s cannot be opened", path);
	while (fgets(line, sizeof(line), stream)) {
		line[strcspn(line, "\n")] = '\0';
		char *blank = strchr(line, ' ');
		if (line[0] == '#' || !blank)
			continue;
		*blank = '\0';
		each(line, (struct span){ blank + 1, decode_line(blank + 1) });
		cases++;
	}
	fclose(stream);
	return cases;
}

static void assert_verdicts(const char *label, struct span text, bool ours, bool json_c)
{
	struct json_error error = { 0, "accepted", false };
	struct span copy = guard_copy(text);
	ck_assert_msg((json_check(copy, &error) == 0) == ours, "%s: json_check() says: %s at %zu", label, error.reason,
		      error.offset);
	ck_assert_msg(reference_check(copy) == ours, "%s: the reference", label);
	ck_assert_msg(json_c_accepts(copy, 1000) == json_c, "%s: json-c", label);
}

static void assert_valid(const char *label, struct span text)
{
	assert_verdicts(label, text, true, true);
}

static void assert_invalid(const char *label, struct span text)
{
	assert_verdicts(label, text, false, false);
}

static void assert_lenient(const char *label, struct span text)
{
	/* One more word in these lines: the name. */
	const char *blank = memchr(text.ptr, ' ', text.len);
	ck_assert_msg(blank != NULL, "%s: no name", label);
	text = (struct span){ blank + 1, text.len - (size_t)(blank + 1 - text.ptr) };
	assert_verdicts(label, text, false, true);
	struct json_error error;
	json_check(text, &error);
	int shown = shown_leniency(text, error.offset);
	ck_assert_msg(shown >= 0 && strcmp(leniencies[shown].name, label) == 0, "%s: the text shows another leniency",
		      label);
	leniencies[shown].shown++;
}

START_TEST(valid_texts_are_accepted_by_both)
{
	ck_assert_uint_ge(for_each_case("valid.txt", assert_valid), 100);
}
END_TEST

START_TEST(invalid_texts_are_refused_by_both)
{
	ck_assert_uint_ge(for_each_case("invalid.txt", assert_invalid), 150);
}
END_TEST

START_TEST(every_leniency_of_json_c_is_known_and_shown)
{
	for_each_case("lenient.txt", assert_lenient);
	for (size_t i = 0; i < LENIENCIES; i++)
		ck_assert_msg(leniencies[i].shown > 0, "%s is not shown by the corpus", leniencies[i].name);
}
END_TEST

/* json-c's own limit is 32 by default; raised, the two agree at ours. */
START_TEST(depth_is_limited_alike)
{
	for (size_t depth = JSON_DEPTH_MAX - 2; depth <= JSON_DEPTH_MAX + 2; depth++) {
		for (const char *kind = "[{"; *kind; kind++) {
			struct buf b = BUF_INIT;
			for (size_t i = 0; i < depth; i++)
				buf_add_text(&b, *kind == '[' ? "[" : "{\"a\":");
			buf_add_text(&b, "1");
			for (size_t i = 0; i < depth; i++)
				buf_add_char(&b, *kind == '[' ? ']' : '}');
			bool accepted = json_check(buf_span(&b), NULL) == 0;
			ck_assert_int_eq(accepted, depth <= JSON_DEPTH_MAX);
			ck_assert_int_eq(json_c_accepts(buf_span(&b), JSON_DEPTH_MAX + 1), accepted);
			ck_assert(!json_c_accepts(buf_span(&b), JSON_TOKENER_DEFAULT_DEPTH));
			buf_done(&b);
		}
	}
}
END_TEST

#define SEEDS_MAX 1000
#define MUTANT_MAX 256

static struct {
	char text[MUTANT_MAX / 2];
	size_t len;
} seeds[SEEDS_MAX];
static unsigned n_seeds;
static uint32_t random_state = 1;

static uint32_t random_below(size_t limit)
{
	random_state = random_state * 1664525u + 1013904223u;
	return (random_state >> 8) % (uint32_t)limit;
}

static void add_seed(const char *label, struct span text)
{
	(void)label;
	if (text.len == 0 || text.len > sizeof(seeds[0].text) || n_seeds == SEEDS_MAX)
		return;
	memcpy(seeds[n_seeds].text, text.ptr, text.len);
	seeds[n_seeds++].len = text.len;
}

/* Changes, inserts or removes a byte, or puts the beginning of another seed in. */
static size_t mutate(char *text, size_t len)
{
	static const char alphabet[] =
		"{}[]\",:\\/ \n\t0123456789.eE+-truefalsnulNaNInfinity'*u\x00\x01\x7f\x80\xbf\xc2\xe0\xed\xf0\xf4\xff";
	char byte = alphabet[random_below(sizeof(alphabet) - 1)];
	size_t place = random_below(len);
	size_t piece = 1;
	const char *from = &byte;
	switch (random_below(4)) {
	case 0:
		text[place] = byte;
		return len;
	case 1:
		memmove(text + place, text + place + 1, len - place - 1);
		return len - 1;
	case 2: {
		unsigned other = random_below(n_seeds);
		piece = seeds[other].len < 20 ? seeds[other].len : 20;
		from = seeds[other].text;
		break;
	}
	default:
		break;
	}
	memmove(text + place + piece, text + place, len - place);
	memcpy(text + place, from, piece);
	return len + piece;
}

START_TEST(mutations_get_the_same_verdict_but_for_the_known_leniencies)
{
	for_each_case("valid.txt", add_seed);
	for_each_case("invalid.txt", add_seed);
	unsigned accepted = 0, refused = 0, lenient = 0;
	for (int round = 0; round < 300000; round++) {
		char text[MUTANT_MAX];
		unsigned seed = random_below(n_seeds);
		size_t len = seeds[seed].len;
		memcpy(text, seeds[seed].text, len);
		for (uint32_t times = random_below(3); len > 0 && times < 3; times++)
			len = mutate(text, len);
		struct span s = guard_copy((struct span){ text, len });
		struct json_error error;
		bool ours = json_check(s, &error) == 0;
		bool json_c = json_c_accepts(s, 1000);
		if (ours != reference_check(s))
			ck_abort_msg("'%.*s': the reference disagrees", (int)len, text);
		if (ours && !json_c)
			ck_abort_msg("'%.*s': json-c refuses", (int)len, text);
		if (json_c && !ours && shown_leniency(s, error.offset) < 0)
			ck_abort_msg("'%.*s': an unknown leniency of json-c at %zu: %s", (int)len, text, error.offset,
				     error.reason);
		accepted += ours;
		refused += !ours && !json_c;
		lenient += !ours && json_c;
	}
	ck_assert_uint_gt(accepted, 10000);
	ck_assert_uint_gt(refused, 10000);
	ck_assert_uint_gt(lenient, 1000);
}
END_TEST

int main(void)
{
	return RUN_TESTS("json_compare", valid_texts_are_accepted_by_both, invalid_texts_are_refused_by_both,
			 every_leniency_of_json_c_is_known_and_shown, depth_is_limited_alike,
			 mutations_get_the_same_verdict_but_for_the_known_leniencies);
}
