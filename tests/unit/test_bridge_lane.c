/* contrib/bridge/lane: lines of any length through a buffer of fixed size, whole or streamed, also when the target goes. */
#include "contrib/bridge/lane.h"

#include <stdlib.h>
#include <string.h>

#include "proto/buf.h"
#include "tests/unit/run.h"

static struct lane lane;

/* What was looked at, and what the test wants to become of it. */
static struct seen {
	struct buf bytes;
	size_t wholes, firsts, lasts, dropped;
	enum lane_verdict verdict;
	const char *drop; /* a whole line that begins so is dropped */
	uint64_t end;
} seen;

static enum lane_verdict look(void *arg, const struct lane_part *part)
{
	struct seen *s = arg;
	bool whole = part->first && part->last;
	if (whole && s->verdict == LANE_WAIT)
		return LANE_WAIT;
	s->wholes += whole;
	s->firsts += part->first && !part->last;
	s->lasts += !part->first && part->last;
	s->dropped += part->dropped;
	s->end = part->end;
	ck_assert(!part->last || part->text.ptr[part->text.len - 1] == '\n');
	buf_add_span(&s->bytes, part->text);
	if (whole && s->drop && strncmp(part->text.ptr, s->drop, strlen(s->drop)) == 0)
		return LANE_DROP;
	return s->verdict;
}

static void setup(void)
{
	lane_init(&lane);
	seen = (struct seen){ .verdict = LANE_FORWARD };
}

static void teardown(void)
{
	buf_done(&seen.bytes);
}

/* Puts in as much as there is room for. */
static size_t put(const char *text, size_t len)
{
	char *at;
	size_t room = lane_room(&lane, &at);
	len = len < room ? len : room;
	memcpy(at, text, len);
	lane_filled(&lane, len);
	return len;
}

static void put_all(const char *text)
{
	ck_assert_uint_eq(put(text, strlen(text)), strlen(text));
}

static void examine(void)
{
	lane_examine(&lane, look, &seen);
}

/* Takes out up to so much; appended to out. */
static size_t take(struct buf *out, size_t most)
{
	struct span pending = lane_pending(&lane, false);
	size_t n = pending.len < most ? pending.len : most;
	buf_add(out, pending.ptr, n);
	lane_wrote(&lane, n);
	return n;
}

static void check_pending(const char *text)
{
	ck_assert(span_is(lane_pending(&lane, false), text));
}

START_TEST(only_whole_lines_are_ready)
{
	put_all("one\ntw");
	check_pending("");
	examine();
	check_pending("one\n");
	ck_assert_uint_eq(seen.wholes, 1);
	ck_assert_uint_eq(seen.end, 4);
	put_all("o\nthree\n");
	examine();
	check_pending("one\ntwo\nthree\n");
	ck_assert(span_is(lane_pending(&lane, true), "one\n"));
	lane_wrote(&lane, 2);
	ck_assert(span_is(lane_pending(&lane, true), "e\n"));
	ck_assert(!lane_at_boundary(&lane));
	lane_wrote(&lane, 2);
	ck_assert(lane_at_boundary(&lane));
	ck_assert(!lane_is_empty(&lane));
	lane_wrote(&lane, 10);
	ck_assert(lane_at_boundary(&lane) && lane_is_empty(&lane));
	ck_assert_uint_eq(lane_forwarded(&lane), 14);
}
END_TEST

START_TEST(lines_may_be_dropped_or_wait)
{
	seen.drop = "no";
	put_all("no 1\nyes 1\nno 2\nyes 2\n");
	examine();
	check_pending("yes 1\nyes 2\n");
	ck_assert_uint_eq(seen.wholes, 4);
	seen.verdict = LANE_WAIT;
	put_all("yes 3\n");
	examine();
	examine();
	check_pending("yes 1\nyes 2\n");
	seen.verdict = LANE_FORWARD;
	examine();
	check_pending("yes 1\nyes 2\nyes 3\n");
	ck_assert_uint_eq(seen.end, 18);
}
END_TEST

START_TEST(a_line_without_an_end_gets_one)
{
	ck_assert(lane_finish(&lane));
	ck_assert(lane_is_empty(&lane));
	put_all("a\nlast");
	ck_assert(lane_finish(&lane));
	ck_assert(lane_finish(&lane));
	examine();
	check_pending("a\nlast\n");
}
END_TEST

/* Runs so many bytes of lines through, in and out in odd pieces; whether what comes out is what went in. */
static void run_through(const char *text, size_t len, size_t in, size_t out_size)
{
	struct buf out = BUF_INIT;
	size_t at = 0, forwarded = 0;
	while (out.len < len) {
		size_t left = len - at, moved = put(text + at, left < in ? left : in);
		at += moved;
		if (at == len)
			lane_finish(&lane);
		examine();
		size_t taken = take(&out, out_size);
		forwarded += taken;
		ck_assert_uint_eq(lane_forwarded(&lane), forwarded);
		ck_assert_msg(moved + taken > 0, "stuck at %zu of %zu", out.len, len);
	}
	ck_assert(memcmp(out.data, text, len) == 0);
	ck_assert(span_equal(buf_span(&seen.bytes), (struct span){ text, len }));
	ck_assert(lane_is_empty(&lane) && lane_at_boundary(&lane));
	buf_done(&out);
}

START_TEST(lines_of_all_lengths_in_all_pieces)
{
	static const size_t lengths[] = { 1,
					  2,
					  100,
					  LANE_BYTES - 1,
					  LANE_BYTES,
					  LANE_BYTES + 1,
					  3,
					  40000,
					  2 * LANE_BYTES,
					  30000,
					  5 * LANE_BYTES,
					  1,
					  LANE_BYTES,
					  7 };
	static const size_t pieces[] = { 97, 100, 4096, LANE_BYTES - 1, LANE_BYTES };
	struct buf text = BUF_INIT;
	for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
		for (size_t j = 1; j < lengths[i]; j++)
			buf_add_char(&text, (char)('a' + (i + j) % 26));
		buf_add_char(&text, '\n');
	}
	for (size_t in = 0; in < 5; in++) {
		for (size_t out = 1; out < 5; out++) {
			teardown();
			setup();
			run_through(text.data, text.len, pieces[in], pieces[out]);
			/* LANE_BYTES fit, with the line end; one more does not. */
			ck_assert_uint_eq(seen.firsts, 3);
			ck_assert_uint_eq(seen.lasts, 3);
			ck_assert_uint_eq(seen.wholes, 11);
		}
	}
	buf_done(&text);
}
END_TEST

/* n bytes of a line that does not end. */
static void put_long(size_t n)
{
	static char text[LANE_BYTES];
	memset(text, 'x', sizeof(text));
	while (n > 0) {
		size_t moved = put(text, n < sizeof(text) ? n : sizeof(text));
		n -= moved;
		examine();
		ck_assert_uint_gt(moved, 0);
		if (n > 0)
			lane_wrote(&lane, lane_pending(&lane, false).len);
	}
}

START_TEST(what_was_not_wholly_written_is_written_anew)
{
	put_all("one\ntwo\nthree\n");
	examine();
	lane_wrote(&lane, 6);
	ck_assert_uint_eq(lane_forwarded(&lane), 6);
	ck_assert_int_eq(lane_rewind(&lane), LANE_WHOLE);
	check_pending("");
	buf_reset(&seen.bytes);
	examine();
	ck_assert(span_is(buf_span(&seen.bytes), "two\nthree\n"));
	check_pending("two\nthree\n");
}
END_TEST

START_TEST(the_rest_of_a_torn_line_goes_nowhere)
{
	put_all("first\n");
	put_long(3 * LANE_BYTES);
	ck_assert_int_eq(lane_rewind(&lane), LANE_TORN);
	check_pending("");
	lane_wrote(&lane, 0);
	put_all("the rest\nnext\n");
	examine();
	ck_assert_uint_ge(seen.dropped, 1);
	check_pending("next\n");
	ck_assert_uint_eq(seen.lasts, 1);
}
END_TEST

START_TEST(a_torn_line_whose_end_is_there_is_forgotten)
{
	put_long(LANE_BYTES);
	ck_assert_uint_eq(lane_pending(&lane, false).len, LANE_BYTES);
	lane_wrote(&lane, LANE_BYTES - 10);
	put_all("end\nnext\n");
	examine();
	ck_assert_uint_eq(seen.lasts, 1);
	ck_assert_uint_gt(seen.end, lane_forwarded(&lane));
	ck_assert_int_eq(lane_rewind(&lane), LANE_TORN_LAST);
	examine();
	check_pending("next\n");
}
END_TEST

START_TEST(a_streamed_line_may_be_dropped_from_its_beginning)
{
	seen.verdict = LANE_DROP;
	put_long(3 * LANE_BYTES);
	check_pending("");
	seen.verdict = LANE_FORWARD;
	put_all("the rest\nnext\n");
	examine();
	check_pending("next\n");
	ck_assert(lane_at_boundary(&lane));
}
END_TEST

START_TEST(a_source_that_goes_leaves_at_most_one_torn_line)
{
	put_all("whole\npart");
	examine();
	lane_wrote(&lane, 6);
	ck_assert(!lane_cut(&lane));
	ck_assert(lane_is_empty(&lane));
	put_long(LANE_BYTES + 5);
	lane_wrote(&lane, lane_pending(&lane, false).len);
	ck_assert(lane_cut(&lane));
	ck_assert(lane_is_empty(&lane) && lane_at_boundary(&lane));
	put_all("new\n");
	examine();
	check_pending("new\n");
}
END_TEST

int main(void)
{
	const TTest *const tests[] = { only_whole_lines_are_ready,
				       lines_may_be_dropped_or_wait,
				       a_line_without_an_end_gets_one,
				       lines_of_all_lengths_in_all_pieces,
				       what_was_not_wholly_written_is_written_anew,
				       the_rest_of_a_torn_line_goes_nowhere,
				       a_torn_line_whose_end_is_there_is_forgotten,
				       a_streamed_line_may_be_dropped_from_its_beginning,
				       a_source_that_goes_leaves_at_most_one_torn_line,
				       NULL };
	return run_tests_with("bridge_lane", tests, setup, teardown);
}
