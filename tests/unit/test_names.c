/* names: what tools and prompts are called where one list shows those of all servers (PROTOCOL "MCP dialect", R29). */
#include "ipc/names.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/json_iter.h"
#include "proto/limits.h"
#include "tests/unit/guard.h"
#include "tests/unit/run.h"

#define MAX 64

/* The shown name on the heap; checks what holds for all of them. */
static char *shown(const char *server, struct span name, size_t max)
{
	struct buf out = BUF_INIT;
	ck_assert_int_eq(names_write(&out, server, guard_copy(name), max), 0);
	ck_assert_uint_ge(out.len, 1);
	ck_assert_uint_le(out.len, max);
	ck_assert_uint_eq(strspn(out.data, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"),
			  out.len);
	return buf_steal(&out);
}

static bool match(const char *text, const char *server, struct span name, size_t max)
{
	struct buf quoted = BUF_INIT;
	buf_add_json_text(&quoted, text);
	bool same = names_match(buf_span(&quoted), server, name, max);
	buf_done(&quoted);
	return same;
}

/* "server|name" where names_split() takes the text apart, else "-". */
static const char *split(const char *text, size_t max)
{
	static char result[2 * MAX + 2];
	struct buf quoted = BUF_INIT;
	struct span server, name;
	buf_add_json_text(&quoted, text);
	if (names_split(guard_copy(buf_span(&quoted)), max, &server, &name))
		snprintf(result, sizeof(result), "%.*s|%.*s", (int)server.len, server.ptr, (int)name.len, name.ptr);
	else
		strcpy(result, "-");
	buf_done(&quoted);
	return result;
}

static bool is_hashed(const char *text)
{
	size_t len = strlen(text);
	return len >= 13 && text[len - 13] == '_' && strspn(text + len - 12, "0123456789abcdef") == 12;
}

/* What stays as it is. */
static const struct {
	const char *server, *name, *shown;
} plain[] = {
	{ "github", "create_issue", "github__create_issue" },
	{ "a", "b", "a__b" },
	{ "my-server_2", "A-b_C9", "my-server_2__A-b_C9" },
	/* The first separator ends the server's name. */
	{ "a", "_b", "a___b" },
	{ "a", "__b", "a____b" },
	{ "a", "b__c", "a__b__c" },
	{ "_a", "b_", "_a__b_" },
	/* Not quite the end of a hashed name. */
	{ "a", "get_0123456789a", "a__get_0123456789a" },
	{ "a", "get_0123456789abc", "a__get_0123456789abc" },
	{ "a", "get_0123456789aB", "a__get_0123456789aB" },
	{ "a", "0123456789a", "a__0123456789a" },
	{ "a", "get-0123456789ab", "a__get-0123456789ab" },
	{ "0123456789ab", "x", "0123456789ab__x" },
};

START_TEST(r29_names_that_fit_stay_as_they_are)
{
	for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++) {
		char quoted[80], parts[80];
		snprintf(quoted, sizeof(quoted), "\"%s\"", plain[i].name);
		snprintf(parts, sizeof(parts), "%s|%s", plain[i].server, plain[i].name);
		char *got = shown(plain[i].server, span_of(quoted), MAX);
		ck_assert_str_eq(got, plain[i].shown);
		ck_assert(match(got, plain[i].server, span_of(quoted), MAX));
		ck_assert_str_eq(split(got, MAX), parts);
		free(got);
	}
}
END_TEST

/* What gets a hash: server, name as JSON, the text in front of the hash. */
static const struct {
	const char *server, *name, *text;
} hashed[] = {
	{ "fs", "\"read.file\"", "fs__read_file" },
	{ "fs", "\"read/file\"", "fs__read_file" },
	{ "fs", "\"read\\/file\"", "fs__read_file" },
	{ "fs", "\"read file\"", "fs__read_file" },
	{ "fs", "\"\"", "fs__" },
	{ "fs", "\"h\xc3\xa9llo\"", "fs__h_llo" },
	{ "fs", "\"\xe6\x97\xa5\xe6\x9c\xac\"", "fs____" },
	{ "fs", "\"\\ud83d\\ude00x\"", "fs___x" },
	{ "fs", "\"a\\u0000b\"", "fs__a_b" },
	{ "fs", "\"\\ud800\"", "fs___" },
	{ "a__b", "\"c\"", "a__b__c" },
	{ "a_", "\"b\"", "a___b" },
	{ "my server", "\"run\"", "my_server__run" },
	{ "caf\xc3\xa9", "\"run\"", "caf___run" },
	/* What looks like hashed is hashed. */
	{ "a", "\"get_0123456789ab\"", "a__get_0123456789ab" },
	{ "a", "\"0123456789ab\"", "a__0123456789ab" },
};

START_TEST(r29_what_models_refuse_is_replaced_and_told_apart_by_a_hash)
{
	enum { N = sizeof(hashed) / sizeof(*hashed) };
	char *got[N];
	for (size_t i = 0; i < N; i++) {
		got[i] = shown(hashed[i].server, span_of(hashed[i].name), MAX);
		ck_assert_msg(is_hashed(got[i]), "%s", got[i]);
		size_t text = strlen(got[i]) - 13;
		ck_assert_msg(text == strlen(hashed[i].text) && memcmp(got[i], hashed[i].text, text) == 0, "%s",
			      got[i]);
		ck_assert(match(got[i], hashed[i].server, span_of(hashed[i].name), MAX));
		ck_assert_str_eq(split(got[i], MAX), "-");
	}
	for (size_t i = 0; i < N; i++) {
		for (size_t j = 0; j < N; j++) {
			struct span name = span_of(hashed[j].name);
			/* The slash is the same name in both spellings. */
			bool same = i == j || (i + j == 3 && (i == 1 || i == 2));
			ck_assert_msg((strcmp(got[i], got[j]) == 0) == same, "%zu %zu: %s", i, j, got[i]);
			ck_assert_msg(match(got[i], hashed[j].server, name, MAX) == same, "%zu %zu", i, j);
		}
	}
	for (size_t i = 0; i < N; i++)
		free(got[i]);
}
END_TEST

/* Across versions of mcpd: an agent's configuration may name them. */
START_TEST(r29_names_are_stable)
{
	char *got = shown("fs", SPAN_LIT("\"read.file\""), MAX);
	ck_assert_str_eq(got, "fs__read_file_a70c27002fc8");
	free(got);
}
END_TEST

/* A JSON string of n characters c, then the tail. */
static struct span repeated(char c, size_t n, const char *tail)
{
	static char text[1024];
	snprintf(text, sizeof(text), "\"%*s%s\"", (int)n, "", tail);
	memset(text + 1, c, n);
	return span_of(text);
}

START_TEST(r29_names_of_65_to_130_characters_are_shortened)
{
	for (size_t max = NAMES_MAX_LEAST; max <= 128; max++) {
		for (size_t len = 1; len <= 130; len++) {
			struct span name = repeated('t', len, "");
			char *got = shown("srv", name, max);
			bool fits = 5 + len <= max;
			ck_assert_uint_eq(strlen(got), fits ? 5 + len : max);
			ck_assert(is_hashed(got) == !fits);
			ck_assert_int_eq(strncmp(got, "srv__ttt", len < 3 ? 5 + len : 8), 0);
			ck_assert(match(got, "srv", name, max));
			ck_assert((strcmp(split(got, max), "-") != 0) == fits);
			ck_assert(!match(got, "srv", repeated('t', len, "t"), max));
			free(got);
		}
	}
}
END_TEST

START_TEST(r29_names_that_collide_once_shortened_do_not)
{
	char *a = shown("srv", repeated('t', 90, "a"), MAX), *b = shown("srv", repeated('t', 90, "b"), MAX);
	ck_assert_int_eq(strncmp(a, b, MAX - 12), 0);
	ck_assert_str_ne(a, b);
	ck_assert(match(a, "srv", repeated('t', 90, "a"), MAX));
	ck_assert(!match(a, "srv", repeated('t', 90, "b"), MAX));
	free(a);
	free(b);
}
END_TEST

START_TEST(r29_a_long_server_name_leaves_room_for_the_tool)
{
	char server[129];
	memset(server, 's', 128);
	server[128] = '\0';
	char *got = shown(server, SPAN_LIT("\"read_file\""), MAX);
	ck_assert_int_eq(strncmp(got, server, MAX - 13 - 11), 0);
	ck_assert_int_eq(strncmp(got + MAX - 13 - 11, "__read_file_", 12), 0);
	ck_assert(match(got, server, SPAN_LIT("\"read_file\""), MAX));
	free(got);
	got = shown(server, repeated('t', 200, ""), MAX);
	ck_assert_uint_eq(strlen(got), MAX);
	ck_assert_int_eq(strncmp(got, server, 24), 0);
	ck_assert_int_eq(strncmp(got + 24, "__ttttt", 7), 0);
	free(got);
}
END_TEST

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Every server and name of up to three characters out of these, in both forms: no two have the same name, and the way
 * back finds the one. */
START_TEST(r29_no_two_tools_share_a_name)
{
	static const char letters[] = "a_.";
	enum { N = 3 + 9 + 27 };
	static char texts[N][4];
	size_t n = 0;
	for (int len = 1; len <= 3; len++)
		for (int k = 0; k < (len == 1 ? 3 : len == 2 ? 9 : 27); k++, n++)
			for (int i = 0, rest = k; i < len; i++, rest /= 3)
				texts[n][i] = letters[rest % 3];
	ck_assert_uint_eq(n, N);
	static char *all[N * N];
	for (size_t i = 0; i < N * N; i++) {
		char quoted[8];
		snprintf(quoted, sizeof(quoted), "\"%s\"", texts[i % N]);
		all[i] = shown(texts[i / N], span_of(quoted), MAX);
		const char *parts = split(all[i], MAX);
		if (*parts != '-') {
			char mine[16];
			snprintf(mine, sizeof(mine), "%s|%s", texts[i / N], texts[i % N]);
			ck_assert_str_eq(parts, mine);
		}
	}
	qsort(all, N * N, sizeof(*all), compare);
	for (size_t i = 0; i < N * N; i++) {
		ck_assert_msg(i + 1 == N * N || strcmp(all[i], all[i + 1]) != 0, "%s", all[i]);
		free(all[i]);
	}
}
END_TEST

START_TEST(r29_a_tool_cannot_take_the_name_of_another)
{
	/* A tool that is named like another's hashed name. */
	char *victim = shown("a", SPAN_LIT("\"x.y\""), MAX);
	char quoted[80];
	ck_assert_int_eq(strncmp(victim, "a__", 3), 0);
	snprintf(quoted, sizeof(quoted), "\"%s\"", victim + 3);
	char *thief = shown("a", span_of(quoted), MAX);
	ck_assert_str_ne(victim, thief);
	ck_assert(!match(victim, "a", span_of(quoted), MAX));
	free(victim);
	free(thief);
}
END_TEST

START_TEST(lone_surrogates_differ)
{
	char *a = shown("s", SPAN_LIT("\"\\ud800\""), MAX), *b = shown("s", SPAN_LIT("\"\\udfff\""), MAX);
	char *c = shown("s", SPAN_LIT("\"\\ufffd\""), MAX);
	ck_assert_str_ne(a, b);
	ck_assert_str_ne(a, c);
	ck_assert_str_ne(b, c);
	free(a);
	free(b);
	free(c);
}
END_TEST

START_TEST(names_may_be_written_with_escapes)
{
	ck_assert(names_match(SPAN_LIT("\"fs_\\u005fread\""), "fs", SPAN_LIT("\"read\""), MAX));
	ck_assert(names_match(SPAN_LIT(" \"fs__read\" "), "fs", SPAN_LIT("\"read\""), MAX));
	struct span server, name;
	ck_assert(!names_split(SPAN_LIT("\"fs_\\u005fread\""), MAX, &server, &name));
	/* And so may a server. */
	ck_assert(names_match(SPAN_LIT("\"fs__read\""), "fs", SPAN_LIT("\"\\u0072ead\""), MAX));
	char *got = shown("fs", SPAN_LIT("\"\\u0072ead\""), MAX);
	ck_assert_str_eq(got, "fs__read");
	free(got);
}
END_TEST

START_TEST(what_is_no_name_is_nobodys)
{
	static const char *const texts[] = { "", "_", "__", "a__", "__b", "a", "a_b", "a_.__b", "a__b.c", "a__b\n" };
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		ck_assert_str_eq(split(texts[i], MAX), "-");
		ck_assert(!match(texts[i], "a", SPAN_LIT("\"b\""), MAX));
	}
	char text[80] = "a__";
	memset(text + 3, 'b', 62);
	ck_assert_str_eq(split(text, MAX), "-");
	static const struct span none[] = { { NULL, 0 },    SPAN_LIT(""),     SPAN_LIT("\""),
					    SPAN_LIT("12"), SPAN_LIT("null"), SPAN_LIT("{\"a\":\"b\"}") };
	for (size_t i = 0; i < sizeof(none) / sizeof(*none); i++) {
		struct buf out = BUF_INIT;
		struct span server, name;
		ck_assert_int_eq(names_write(&out, "a", none[i], MAX), -EINVAL);
		ck_assert_uint_eq(out.len, 0);
		ck_assert(!names_match(none[i], "a", SPAN_LIT("\"b\""), MAX));
		ck_assert(!names_match(SPAN_LIT("\"a__b\""), "a", none[i], MAX));
		ck_assert(!names_split(none[i], MAX, &server, &name));
		buf_done(&out);
	}
}
END_TEST

START_TEST(a_full_buffer_is_left_as_it_was)
{
	static const char *const names[] = { "\"read\"", "\"re.ad\"" };
	for (int i = 0; i < 2; i++) {
		struct buf out;
		buf_init(&out, 8);
		buf_add_text(&out, "x");
		ck_assert_int_eq(names_write(&out, "files", span_of(names[i]), MAX), -E2BIG);
		ck_assert_str_eq(out.data, "x");
		buf_done(&out);
	}
}
END_TEST

START_TEST(the_limit_is_what_the_names_need)
{
	const struct limit_info *limit = &limit_table[limits_find("maxToolName")];
	ck_assert_int_eq(limit->def, 64);
	ck_assert_int_eq(limit->min, NAMES_MAX_LEAST);
	ck_assert_int_eq(limit->max, 128);
}
END_TEST

int main(void)
{
	return RUN_TESTS("names", r29_names_that_fit_stay_as_they_are,
			 r29_what_models_refuse_is_replaced_and_told_apart_by_a_hash, r29_names_are_stable,
			 r29_names_of_65_to_130_characters_are_shortened, r29_names_that_collide_once_shortened_do_not,
			 r29_a_long_server_name_leaves_room_for_the_tool, r29_no_two_tools_share_a_name,
			 r29_a_tool_cannot_take_the_name_of_another, lone_surrogates_differ,
			 names_may_be_written_with_escapes, what_is_no_name_is_nobodys, a_full_buffer_is_left_as_it_was,
			 the_limit_is_what_the_names_need);
}
