/* framer: lines out of pieces cut anywhere, lines that are too long, and what it costs. */
#include "proto/framer.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "proto/buf.h"
#include "tests/unit/alloc_fail.h"
#include "tests/unit/run.h"

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* The program is linked with --wrap for these two, to count the bytes that are looked at and moved. */
void *__real_memchr(const void *bytes, int byte, size_t len);
void *__real_memmove(void *to, const void *from, size_t len);
void *__wrap_memchr(const void *bytes, int byte, size_t len);
void *__wrap_memmove(void *to, const void *from, size_t len);
static size_t bytes_looked_at, bytes_moved;

void *__wrap_memchr(const void *bytes, int byte, size_t len)
{
	const char *hit = __real_memchr(bytes, byte, len);
	bytes_looked_at += hit ? (size_t)(hit - (const char *)bytes) + 1 : len;
	return (void *)(uintptr_t)hit;
}

void *__wrap_memmove(void *to, const void *from, size_t len)
{
	bytes_moved += len;
	return __real_memmove(to, from, len);
}

/* Writes each result down as "L<line>" or "T<line>", between bars. */
static void note(struct buf *log, enum framer_result result, struct span line)
{
	buf_add_text(log, result == FRAMER_LINE ? "|L" : "|T");
	buf_add_span(log, line);
}

static void drain(struct framer *f, struct buf *log)
{
	enum framer_result result;
	struct span line;
	while ((result = framer_next(f, &line)) != FRAMER_NEED_MORE)
		note(log, result, line);
}

static void finish(struct framer *f, struct buf *log)
{
	enum framer_result result;
	struct span line;
	while ((result = framer_rest(f, &line)) != FRAMER_NEED_MORE)
		note(log, result, line);
}

/* Feeds the stream in pieces of that size and checks what comes out. */
static void assert_lines(struct span stream, size_t max_line, size_t piece, const char *want)
{
	struct framer f;
	struct buf log = BUF_INIT;
	bool fed = true;
	framer_init(&f, max_line);
	for (size_t at = 0; at < stream.len; at += piece) {
		size_t len = stream.len - at < piece ? stream.len - at : piece;
		/* Exactly as long, so that a sanitizer sees a byte read too far. */
		char *copy = malloc(len);
		memcpy(copy, stream.ptr + at, len);
		fed = fed && framer_feed(&f, copy, len) == 0;
		free(copy);
		drain(&f, &log);
	}
	ck_assert(fed);
	finish(&f, &log);
	struct span got = buf_span(&log);
	ck_assert_msg(span_is(got, want), "in pieces of %zu: got '%.*s', want '%s'", piece, (int)got.len, got.ptr,
		      want);
	framer_done(&f);
	ck_assert_ptr_null(f.data);
	buf_done(&log);
}

/* S6, R15, R17: in pieces of every size, also one byte at a time. */
START_TEST(s6_r15_r17_lines_cut_anywhere)
{
	const struct {
		struct span stream;
		const char *want;
	} cases[] = {
		{ SPAN_LIT(""), "" },
		{ SPAN_LIT("\n"), "|L" },
		{ SPAN_LIT("a\n"), "|La" },
		{ SPAN_LIT("a\nbc\n\nd\n"), "|La|Lbc|L|Ld" },
		{ SPAN_LIT("a\r\n\r\nb\r\n"), "|La|L|Lb" },
		{ SPAN_LIT("a\r\r\nb\rc\r\n"), "|La\r|Lb\rc" },
		/* An unterminated last line is delivered. */
		{ SPAN_LIT("a\nlast"), "|La|Llast" },
		{ SPAN_LIT("a\nlast\r"), "|La|Llast" },
		{ SPAN_LIT("\r"), "|L" },
		/* U+2028, U+2029, U+0085, VT, FF and a lone CR are data. */
		{ SPAN_LIT("x\xe2\x80\xa8y\xe2\x80\xa9z\n\xc2\x85 \v\f\rw\n"),
		  "|Lx\xe2\x80\xa8y\xe2\x80\xa9z|L\xc2\x85 \v\f\rw" },
		{ SPAN_LIT("\xf0\x9f\x98\x80\n\xff\xfe\n"), "|L\xf0\x9f\x98\x80|L\xff\xfe" },
	};
	for (size_t i = 0; i < COUNT(cases); i++)
		for (size_t piece = 1; piece <= cases[i].stream.len + 1; piece++)
			assert_lines(cases[i].stream, 100, piece, cases[i].want);
}
END_TEST

START_TEST(s6_nul_bytes_are_data)
{
	struct framer f;
	struct span line;
	framer_init(&f, 100);
	ck_assert_int_eq(framer_feed(&f, "a\0b\n\0\n", 6), 0);
	ck_assert_int_eq(framer_next(&f, &line), FRAMER_LINE);
	ck_assert(span_equal(line, (struct span){ "a\0b", 3 }));
	ck_assert_int_eq(framer_next(&f, &line), FRAMER_LINE);
	ck_assert(span_equal(line, (struct span){ "\0", 1 }));
	ck_assert_int_eq(framer_next(&f, &line), FRAMER_NEED_MORE);
	framer_done(&f);
}
END_TEST

/* S7a: told once, with its first bytes, and the stream goes on. */
START_TEST(s7a_too_long_lines_are_told_once_and_skipped)
{
	const struct {
		struct span stream;
		const char *want;
	} cases[] = {
		{ SPAN_LIT("12345\n"), "|L12345" },
		{ SPAN_LIT("12345\r\n12345\n"), "|L12345|L12345" },
		{ SPAN_LIT("123456\nab\n"), "|T12345|Lab" },
		{ SPAN_LIT("123456\r\nab\n"), "|T12345|Lab" },
		{ SPAN_LIT("12345\r6\nab\n"), "|T12345|Lab" },
		{ SPAN_LIT("12345\r\r\nab\n"), "|T12345|Lab" },
		{ SPAN_LIT("ab\n123456789012345678901234567890\ncd\n"), "|Lab|T12345|Lcd" },
		{ SPAN_LIT("1234567\n1234567\n\nab"), "|T12345|T12345|L|Lab" },
		/* At the end of the stream nothing of it is left to tell. */
		{ SPAN_LIT("ab\n1234567890"), "|Lab|T12345" },
		{ SPAN_LIT("12345\r"), "|L12345" },
	};
	for (size_t i = 0; i < COUNT(cases); i++)
		for (size_t piece = 1; piece <= cases[i].stream.len + 1; piece++)
			assert_lines(cases[i].stream, 5, piece, cases[i].want);
}
END_TEST

/* What is to come out, found by looking at the whole stream at once. */
static void note_whole(struct buf *log, struct span stream, size_t max_line)
{
	const char *end = stream.ptr + stream.len;
	for (const char *at = stream.ptr; at < end;) {
		const char *stop = at;
		while (stop < end && *stop != '\n')
			stop++;
		size_t len = (size_t)(stop - at);
		len -= len > 0 && at[len - 1] == '\r';
		bool too_long = len > max_line;
		note(log, too_long ? FRAMER_TOO_LONG : FRAMER_LINE, (struct span){ at, too_long ? max_line : len });
		at = stop + 1;
	}
}

START_TEST(random_streams_come_out_whole)
{
	unsigned seed = 12345;
	for (int round = 0; round < 200; round++) {
		struct buf stream = BUF_INIT, want = BUF_INIT;
		for (int i = 0; i < 3000; i++) {
			seed = seed * 1103515245 + 12345;
			unsigned r = seed >> 16;
			buf_add_char(&stream, r % (unsigned)(round + 4) == 0 ? '\n' : "ab\r"[r / 256 % 3]);
		}
		note_whole(&want, buf_span(&stream), 20);
		for (size_t piece = 1; piece < 4000; piece = piece * 3 + seed % 5)
			assert_lines(buf_span(&stream), 20, piece, want.data);
		buf_done(&stream);
		buf_done(&want);
	}
}
END_TEST

START_TEST(space_is_given_as_wanted_and_filled_in_place)
{
	struct framer f;
	struct span line;
	size_t room;
	framer_init(&f, 1 << 20);
	for (size_t want = 0; want < 100000; want = want * 2 + 1) {
		char *space = framer_space(&f, want, &room);
		ck_assert_ptr_nonnull(space);
		ck_assert_uint_ge(room, want > 0 ? want : 1);
		memset(space, 'x', room);
	}
	char *space = framer_space(&f, 3, &room);
	memcpy(space, "a\nb", 3);
	framer_filled(&f, 3);
	ck_assert_int_eq(framer_next(&f, &line), FRAMER_LINE);
	ck_assert(span_is(line, "a"));
	ck_assert_int_eq(framer_next(&f, &line), FRAMER_NEED_MORE);
	/* More than there is room for behind it: what is left moves, or the memory grows. */
	space = framer_space(&f, 1000000, &room);
	memcpy(space, "c\n", 2);
	framer_filled(&f, 2);
	ck_assert_int_eq(framer_next(&f, &line), FRAMER_LINE);
	ck_assert(span_is(line, "bc"));
	ck_assert_int_eq(framer_rest(&f, &line), FRAMER_NEED_MORE);
	framer_done(&f);
}
END_TEST

START_TEST(sizes_that_would_wrap_are_no_memory)
{
	struct framer f;
	size_t room = 1;
	framer_init(&f, SIZE_MAX);
	ck_assert_int_eq(framer_feed(&f, "abc", 3), 0);
	ck_assert_ptr_null(framer_space(&f, SIZE_MAX - 1, &room));
	ck_assert_uint_eq(room, 0);
	ck_assert_int_eq(framer_feed(&f, "d\n", 2), 0);
	struct span line;
	ck_assert_int_eq(framer_next(&f, &line), FRAMER_LINE);
	ck_assert(span_is(line, "abcd"));
	framer_done(&f);
}
END_TEST

/* PITFALLS "libevent": a search that starts anew with each piece takes quadratic time. */
START_TEST(a_16_mib_line_in_4_kib_pieces_costs_linear_time)
{
	enum { PIECE = 4096 };
	const size_t total = (size_t)16 << 20;
	struct framer f;
	struct span line;
	size_t grown = 0, most = 0;
	framer_init(&f, total);
	bytes_looked_at = bytes_moved = 0;
	for (size_t at = 0; at < total; at += PIECE) {
		size_t room, cap = f.cap;
		char *space = framer_space(&f, PIECE, &room);
		memset(space, 'x', PIECE);
		framer_filled(&f, PIECE);
		grown += f.cap != cap;
		most = f.cap > most ? f.cap : most;
		if (framer_next(&f, &line) != FRAMER_NEED_MORE)
			ck_abort_msg("a line without an end");
	}
	ck_assert_int_eq(framer_feed(&f, "\n", 1), 0);
	ck_assert_int_eq(framer_next(&f, &line), FRAMER_LINE);
	ck_assert_uint_eq(line.len, total);
	ck_assert_uint_eq(bytes_looked_at, total + 1);
	ck_assert_uint_eq(bytes_moved, 0);
	ck_assert_uint_le(grown, 16);
	ck_assert_uint_le(most, total + PIECE);
	framer_done(&f);
}
END_TEST

START_TEST(short_lines_cost_linear_time_too)
{
	/* Lines that never end where a read does, so that something is always left over. */
	enum { PIECE = 4096, PIECES = 4096 };
	struct framer f;
	struct span line;
	size_t lines = 0, left = 0;
	framer_init(&f, 1 << 20);
	bytes_looked_at = bytes_moved = 0;
	for (size_t i = 0; i < PIECES; i++) {
		size_t room;
		char *space = framer_space(&f, PIECE, &room);
		for (size_t j = 0; j < PIECE; j++)
			space[j] = (i * PIECE + j) % 61 == 60 ? '\n' : 'y';
		framer_filled(&f, PIECE);
		while (framer_next(&f, &line) == FRAMER_LINE)
			lines++;
		left = f.end - f.start;
	}
	ck_assert_uint_eq(lines, (size_t)PIECE * PIECES / 61);
	ck_assert_uint_eq(left, (size_t)PIECE * PIECES % 61);
	ck_assert_uint_eq(bytes_looked_at, (size_t)PIECE * PIECES);
	ck_assert_uint_le(bytes_moved, (size_t)61 * PIECES);
	ck_assert_uint_le(f.cap, 3 * PIECE);
	framer_done(&f);
}
END_TEST

START_TEST(an_endless_line_takes_no_more_memory_than_the_limit)
{
	enum { PIECE = 1000, LIMIT = 10000 };
	char piece[PIECE];
	struct framer f;
	struct span line;
	size_t told = 0;
	memset(piece, 'z', sizeof(piece));
	framer_init(&f, LIMIT);
	for (int i = 0; i < 2000; i++) {
		ck_assert_int_eq(framer_feed(&f, piece, sizeof(piece)), 0);
		enum framer_result result = framer_next(&f, &line);
		if (result == FRAMER_TOO_LONG) {
			told++;
			ck_assert_uint_eq(line.len, LIMIT);
			result = framer_next(&f, &line);
		}
		ck_assert_int_eq(result, FRAMER_NEED_MORE);
		ck_assert_uint_le(f.cap, LIMIT + PIECE);
	}
	ck_assert_uint_eq(told, 1);
	ck_assert_int_eq(framer_feed(&f, "\nok\n", 4), 0);
	ck_assert_int_eq(framer_next(&f, &line), FRAMER_LINE);
	ck_assert(span_is(line, "ok"));
	framer_done(&f);
}
END_TEST

START_TEST(memory_is_given_back_after_a_large_line)
{
	struct framer f;
	struct span line;
	framer_init(&f, 1 << 22);
	framer_shrink(&f);
	ck_assert_ptr_null(f.data);
	for (int i = 0; i < 1000; i++) {
		char piece[1024];
		memset(piece, 'b', sizeof(piece));
		ck_assert_int_eq(framer_feed(&f, piece, sizeof(piece)), 0);
	}
	/* Not while most of it is in use. */
	framer_shrink(&f);
	ck_assert_uint_ge(f.cap, 1024000);
	ck_assert_int_eq(framer_feed(&f, "\nnext\nrest", 10), 0);
	ck_assert_int_eq(framer_next(&f, &line), FRAMER_LINE);
	ck_assert_uint_eq(line.len, 1024000);
	framer_shrink(&f);
	ck_assert_uint_le(f.cap, 65536);
	ck_assert_int_eq(framer_next(&f, &line), FRAMER_LINE);
	ck_assert(span_is(line, "next"));
	ck_assert_int_eq(framer_rest(&f, &line), FRAMER_LINE);
	ck_assert(span_is(line, "rest"));
	framer_done(&f);
}
END_TEST

START_TEST(every_allocation_that_fails_is_reported_and_loses_nothing)
{
	char piece[5000];
	memset(piece, 'm', sizeof(piece));
	unsigned failures = 0;
	for (unsigned nth = 1;; nth++) {
		struct framer f;
		struct span line;
		long live;
		int again = 0;
		framer_init(&f, 1 << 20);
		alloc_watch(nth);
		for (int i = 0; i < 20; i++) {
			int rc = framer_feed(&f, piece, sizeof(piece));
			/* It is as before: the same piece can be given once more. */
			if (rc == -ENOMEM) {
				again++;
				rc = framer_feed(&f, piece, sizeof(piece));
			}
			again += rc != 0 ? 100 : 0;
		}
		enum framer_result result = framer_rest(&f, &line);
		size_t len = line.len;
		framer_done(&f);
		bool failed = alloc_done(&live);
		ck_assert_int_eq(result, FRAMER_LINE);
		ck_assert_uint_eq(len, 20 * sizeof(piece));
		ck_assert_int_eq(live, 0);
		ck_assert_int_eq(again, failed);
		if (!failed)
			break;
		failures++;
	}
	ck_assert_uint_ge(failures, 4);
}
END_TEST

START_TEST(giving_memory_back_may_fail)
{
	struct framer f;
	struct span line;
	long live;
	framer_init(&f, 1 << 20);
	char *big = calloc(1, 200000);
	big[199999] = '\n';
	ck_assert_int_eq(framer_feed(&f, big, 200000), 0);
	ck_assert_int_eq(framer_feed(&f, "rest", 4), 0);
	free(big);
	ck_assert_int_eq(framer_next(&f, &line), FRAMER_LINE);
	alloc_watch(1);
	framer_shrink(&f);
	ck_assert(alloc_done(&live));
	ck_assert_uint_ge(f.cap, 200000);
	ck_assert_int_eq(framer_rest(&f, &line), FRAMER_LINE);
	ck_assert(span_is(line, "rest"));
	framer_done(&f);
}
END_TEST

/* S6: a BOM, CRs and white space around a message. */
START_TEST(s6_lines_are_cleaned)
{
	static const char *const cases[][2] = {
		{ "", "" },
		{ " \t \r", "" },
		{ "{}", "{}" },
		{ " {} \r", "{}" },
		{ "\xef\xbb\xbf{}", "{}" },
		{ "\xef\xbb\xbf \t{ }", "{ }" },
		{ "\xef\xbb\xbf", "" },
		{ "\xef\xbb\xbf\xef\xbb\xbf{}", "\xef\xbb\xbf{}" },
		{ "{\"a\":\"\xef\xbb\xbf\"}", "{\"a\":\"\xef\xbb\xbf\"}" },
		{ "\xef\xbb", "\xef\xbb" },
		{ "\v{}\f", "\v{}\f" },
	};
	for (size_t i = 0; i < COUNT(cases); i++)
		ck_assert_msg(span_is(framer_clean(span_of(cases[i][0])), cases[i][1]), "case %zu", i);
	ck_assert_uint_eq(framer_clean(SPAN_NONE).len, 0);
}
END_TEST

int main(void)
{
	return RUN_TESTS("framer", s6_r15_r17_lines_cut_anywhere, s6_nul_bytes_are_data,
			 s7a_too_long_lines_are_told_once_and_skipped, random_streams_come_out_whole,
			 space_is_given_as_wanted_and_filled_in_place, sizes_that_would_wrap_are_no_memory,
			 a_16_mib_line_in_4_kib_pieces_costs_linear_time, short_lines_cost_linear_time_too,
			 an_endless_line_takes_no_more_memory_than_the_limit, memory_is_given_back_after_a_large_line,
			 every_allocation_that_fails_is_reported_and_loses_nothing, giving_memory_back_may_fail,
			 s6_lines_are_cleaned);
}
