/* loop/stream.h: lines in, bytes out (contract S6, S14; PITFALLS "libevent", "Sockets"; R15 to R17). */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "loop/stream.h"
#include "loop_wait.h"

#define MAX_LINE ((size_t)1 << 20)

/* One stream under test and the other end of its descriptors. */
struct bench {
	struct stream *stream;
	int peer_in, peer_out; /* what the peer reads, and writes */
	unsigned lines, too_long, ended, broken, written, drained;
	int end_error, broken_error;
	bool unterminated;
	struct buf last;
	unsigned pass, lines_in_pass, most_in_pass;
	bool pause_at_line, close_at_line;
	int64_t work_us; /* that a line is */
};

static struct loop *loop;
static unsigned pass_number;

static void on_pass(void *arg)
{
	(void)arg;
	pass_number++;
}

static void on_line(void *arg, struct span line, bool unterminated)
{
	struct bench *b = arg;
	b->lines++;
	b->unterminated = unterminated;
	buf_reset(&b->last);
	buf_add_span(&b->last, line);
	if (b->pass != pass_number)
		b->lines_in_pass = 0;
	b->pass = pass_number;
	if (++b->lines_in_pass > b->most_in_pass)
		b->most_in_pass = b->lines_in_pass;
	for (int64_t until = loop_now_us() + b->work_us; loop_now_us() < until;)
		;
	if (b->pause_at_line)
		stream_pause(b->stream, true);
	if (b->close_at_line)
		stream_close(b->stream);
}

static void on_too_long(void *arg, struct span start)
{
	struct bench *b = arg;
	b->too_long++;
	ck_assert_uint_eq(start.len, MAX_LINE);
}

static void on_end(void *arg, int error)
{
	struct bench *b = arg;
	b->ended++;
	b->end_error = error;
}

static void on_broken(void *arg, int error)
{
	struct bench *b = arg;
	b->broken++;
	b->broken_error = error;
}

static void on_written(void *arg)
{
	((struct bench *)arg)->written++;
}

static void on_drained(void *arg)
{
	((struct bench *)arg)->drained++;
}

static void open_stream(struct bench *b, int read_fd, int write_fd, size_t max_queue)
{
	static const struct stream_callbacks callbacks = { on_line,   on_too_long, on_end,
							   on_broken, on_written,  on_drained };
	struct stream_options options = { .max_line = MAX_LINE, .max_queue = max_queue };
	b->stream = stream_new(loop, read_fd, write_fd, &options, &callbacks, b);
}

static void start(void)
{
	loop = loop_new();
	loop_set_pass_hook(loop, on_pass, NULL);
}

static void bench_pipes(struct bench *b, size_t max_queue)
{
	int to_stream[2], from_stream[2];
	*b = (struct bench){ 0 };
	ck_assert_int_eq(pipe(to_stream) | pipe(from_stream), 0);
	b->peer_out = to_stream[1];
	b->peer_in = from_stream[0];
	open_stream(b, to_stream[0], from_stream[1], max_queue);
}

static void bench_socket(struct bench *b, size_t max_queue)
{
	int pair[2];
	*b = (struct bench){ 0 };
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	b->peer_in = b->peer_out = pair[1];
	open_stream(b, pair[0], pair[0], max_queue);
}

static void bench_done(struct bench *b)
{
	stream_close(b->stream);
	stream_close(b->stream); /* idempotent until the pass is over */
	loop_settle(loop);
	if (b->peer_in >= 0)
		close(b->peer_in);
	if (b->peer_out >= 0 && b->peer_out != b->peer_in)
		close(b->peer_out);
	buf_done(&b->last);
}

static void finish(struct bench *b)
{
	bench_done(b);
	loop_free(loop);
}

/* Writes all of it, running the loop while the pipe is full. */
static void feed(struct bench *b, const char *bytes, size_t len)
{
	fcntl(b->peer_out, F_SETFL, O_NONBLOCK);
	while (len > 0) {
		ssize_t n = write(b->peer_out, bytes, len);
		if (n < 0) {
			ck_assert_int_eq(errno, EAGAIN);
			n = 0;
		}
		bytes += n;
		len -= (size_t)n;
		loop_once(loop, 0);
	}
}

static void feed_text(struct bench *b, const char *text)
{
	feed(b, text, strlen(text));
}

static void feed_line(struct bench *b, size_t len, char fill)
{
	char *line = malloc(len + 1);
	memset(line, fill, len);
	line[len] = '\n';
	feed(b, line, len + 1);
	free(line);
}

static void assert_last(const struct bench *b, const char *text)
{
	ck_assert_uint_eq(b->last.len, strlen(text));
	ck_assert_mem_eq(b->last.data, text, b->last.len);
}

START_TEST(R17_a_byte_at_a_time)
{
	struct bench b;
	start();
	bench_pipes(&b, 1 << 20);
	/* Of 4-byte characters, and R15: nothing but 0x0A ends a line. */
	const char *line = "\xf0\x9f\x98\x80\xe2\x80\xa8\xe2\x80\xa9\xc2\x85\v\f\r end\n";
	for (const char *at = line; *at; at++)
		feed(&b, at, 1);
	loop_wait(loop, b.lines == 1);
	ck_assert_uint_eq(b.last.len, strlen(line) - 1);
	ck_assert_mem_eq(b.last.data, line, b.last.len);
	finish(&b);
}
END_TEST

static const size_t sizes[] = { 0, 1, (64 << 10) - 1, 64 << 10, (64 << 10) + 1, MAX_LINE - 1, MAX_LINE };

START_TEST(R16_lines_of_every_size_up_to_the_limit)
{
	struct bench b;
	start();
	bench_pipes(&b, 1 << 20);
	for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
		feed_line(&b, sizes[i], (char)('a' + (int)i));
		loop_wait(loop, b.lines == i + 1);
		ck_assert_uint_eq(b.last.len, sizes[i]);
		for (size_t at = 0; at < sizes[i]; at++)
			if (b.last.data[at] != (char)('a' + (int)i))
				ck_abort_msg("byte %zu of line %u is wrong", at, i);
	}
	finish(&b);
}
END_TEST

START_TEST(R16_S7a_lines_over_the_limit_are_told_and_skipped)
{
	struct bench b;
	start();
	bench_pipes(&b, 1 << 20);
	feed_text(&b, "before\n");
	feed_line(&b, MAX_LINE + 1, 'x');
	feed_line(&b, 20 << 20, 'y');
	feed_text(&b, "after\n");
	loop_wait(loop, b.lines == 2);
	assert_last(&b, "after");
	ck_assert_uint_eq(b.too_long, 2);
	ck_assert_uint_eq(b.ended, 0);
	finish(&b);
}
END_TEST

START_TEST(a_busy_peer_does_not_starve_another)
{
	struct bench busy, calm;
	start();
	bench_pipes(&busy, 1 << 20);
	bench_pipes(&calm, 1 << 20);
	char lines[30000];
	for (size_t i = 0; i < sizeof lines; i += 2)
		memcpy(lines + i, "x\n", 2);
	ck_assert_int_eq(write(busy.peer_out, lines, sizeof lines), sizeof lines);
	ck_assert_int_eq(write(calm.peer_out, "y\n", 2), 2);
	loop_wait(loop, calm.lines == 1);
	ck_assert_uint_lt(busy.lines, 15000);
	loop_wait(loop, busy.lines == 15000);
	/* A line's budget counts events and the gap's task apart. */
	ck_assert_uint_le(busy.most_in_pass, 128);
	bench_done(&calm);
	finish(&busy);
}
END_TEST

START_TEST(lines_that_are_much_work_do_not_fill_a_pass)
{
	struct bench busy, calm;
	start();
	bench_pipes(&busy, 1 << 20);
	bench_pipes(&calm, 1 << 20);
	busy.work_us = 600;
	for (int i = 0; i < 60; i++)
		ck_assert_int_eq(write(busy.peer_out, "x\n", 2), 2);
	ck_assert_int_eq(write(calm.peer_out, "y\n", 2), 2);
	loop_wait(loop, calm.lines == 1);
	ck_assert_uint_le(busy.lines, 8);
	loop_wait(loop, busy.lines == 60);
	/* Two in an event, and two in the gap's task. */
	ck_assert_uint_le(busy.most_in_pass, 4);
	bench_done(&calm);
	finish(&busy);
}
END_TEST

START_TEST(S6_the_unterminated_last_line_then_the_end)
{
	struct bench b;
	start();
	bench_pipes(&b, 1 << 20);
	feed_text(&b, "one\ntwo");
	close(b.peer_out);
	b.peer_out = -1;
	loop_wait(loop, b.ended == 1);
	ck_assert_uint_eq(b.lines, 2);
	ck_assert(b.unterminated);
	assert_last(&b, "two");
	ck_assert_int_eq(b.end_error, 0);
	loop_settle(loop);
	ck_assert_uint_eq(b.ended, 1);
	ck_assert_uint_eq(b.broken, 0);
	/* It can still write. */
	ck_assert_int_eq(stream_write(b.stream, SPAN_LIT("x\n")), 0);
	finish(&b);
}
END_TEST

START_TEST(S7_a_read_error_is_the_end_with_its_reason)
{
	struct bench b = { .peer_in = -1, .peer_out = -1 };
	start();
	int pair[2];
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
	ck_assert_int_eq(write(pair[0], "unread", 6), 6);
	open_stream(&b, pair[0], pair[0], 1000);
	close(pair[1]); /* with bytes unread: a reset */
	loop_wait(loop, b.ended == 1);
	ck_assert_int_eq(b.end_error, -ECONNRESET);
	finish(&b);
}
END_TEST

START_TEST(pause_holds_lines_back_and_gives_them_later)
{
	struct bench b;
	start();
	bench_pipes(&b, 1 << 20);
	b.pause_at_line = true;
	feed_text(&b, "1\n2\n3\n");
	loop_settle(loop);
	ck_assert_uint_eq(b.lines, 1);
	close(b.peer_out);
	b.peer_out = -1;
	stream_pause(b.stream, false);
	loop_settle(loop);
	ck_assert_uint_eq(b.lines, 2);
	ck_assert_uint_eq(b.ended, 0);
	b.pause_at_line = false;
	stream_pause(b.stream, false);
	loop_wait(loop, b.ended == 1);
	ck_assert_uint_eq(b.lines, 3);
	finish(&b);
}
END_TEST

START_TEST(close_inside_a_line_is_the_last_thing)
{
	struct bench b;
	start();
	bench_pipes(&b, 1 << 20);
	b.close_at_line = true;
	feed_text(&b, "1\n2\n3");
	close(b.peer_out);
	b.peer_out = -1;
	loop_settle(loop);
	ck_assert_uint_eq(b.lines, 1);
	ck_assert_uint_eq(b.ended, 0);
	b.stream = NULL;
	finish(&b);
}
END_TEST

START_TEST(drain_takes_all_that_is_there_at_once)
{
	struct bench b;
	start();
	bench_pipes(&b, 1 << 20);
	char lines[2000];
	for (size_t i = 0; i < sizeof lines; i += 2)
		memcpy(lines + i, "x\n", 2);
	ck_assert_int_eq(write(b.peer_out, lines, sizeof lines), sizeof lines);
	stream_drain(b.stream, 1 << 20);
	ck_assert_uint_eq(b.lines, 1000);
	ck_assert_uint_eq(b.ended, 0);
	ck_assert_uint_eq(stream_received(b.stream), sizeof lines);
	ck_assert_int_eq(write(b.peer_out, "rest", 4), 4);
	close(b.peer_out);
	b.peer_out = -1;
	stream_drain(b.stream, 1 << 20);
	ck_assert_uint_eq(b.lines, 1001);
	ck_assert_uint_eq(b.ended, 1);
	ck_assert_uint_eq(stream_received(b.stream), sizeof lines + 4);
	finish(&b);
}
END_TEST

START_TEST(unread_bytes_can_be_taken)
{
	struct bench b;
	start();
	bench_pipes(&b, 1 << 20);
	b.pause_at_line = true;
	feed_text(&b, "1\n2\n3");
	loop_settle(loop);
	struct buf rest = BUF_INIT;
	ck_assert_int_eq(stream_take_unread(b.stream, &rest), 0);
	ck_assert_str_eq(rest.data, "2\n3");
	buf_done(&rest);
	ck_assert_int_eq(stream_take_unread(b.stream, &rest), 0);
	ck_assert_uint_eq(rest.len, 0);
	b.pause_at_line = false;
	stream_pause(b.stream, false);
	feed_text(&b, "4\n");
	loop_wait(loop, b.lines == 2);
	assert_last(&b, "4");
	finish(&b);
}
END_TEST

/* Reads from the peer's side, running the loop, until so many bytes are there. */
static char *collect(struct bench *b, size_t len)
{
	char *data = malloc(len + 1);
	fcntl(b->peer_in, F_SETFL, O_NONBLOCK);
	for (size_t have = 0; have < len;) {
		ssize_t n = read(b->peer_in, data + have, len - have);
		if (n < 0) {
			ck_assert_int_eq(errno, EAGAIN);
			ck_assert_int_eq(loop_once(loop, 1000), 0);
			continue;
		}
		ck_assert_int_gt(n, 0);
		have += (size_t)n;
	}
	data[len] = '\0';
	return data;
}

START_TEST(S14_what_the_pipe_does_not_take_is_queued_and_goes_out_whole)
{
	struct bench b;
	start();
	bench_pipes(&b, 8 << 20);
	size_t total = 0;
	char *expected = malloc(8 << 20);
	for (int i = 0; i < 3000; i++) {
		int n = sprintf(expected + total, "%d %*d\n", i, i % 2000 + 1, i);
		ck_assert_int_eq(stream_write(b.stream, (struct span){ expected + total, (size_t)n }), 0);
		total += (size_t)n;
	}
	ck_assert_uint_eq(stream_accepted(b.stream), total);
	ck_assert_uint_eq(stream_queued(b.stream), total - stream_written(b.stream));
	ck_assert_uint_gt(stream_queued(b.stream), 0);
	char *got = collect(&b, total);
	ck_assert_mem_eq(got, expected, total);
	loop_wait(loop, b.drained == 1);
	ck_assert_uint_eq(stream_written(b.stream), total);
	ck_assert_uint_eq(stream_queued(b.stream), 0);
	ck_assert_uint_ge(b.written, total / (64 << 10) - 1); /* at most 64 KiB in a pass */
	free(got);
	free(expected);
	finish(&b);
}
END_TEST

START_TEST(S14_past_the_limit_nothing_is_taken)
{
	struct bench b;
	start();
	bench_pipes(&b, 100000);
	char *frame = calloc(1, MAX_LINE + 2);
	struct span small = { frame, 60000 };
	/* An idle queue takes one frame up to the longest line. */
	ck_assert_int_eq(stream_write(b.stream, (struct span){ frame, MAX_LINE + 2 }), -ENOBUFS);
	ck_assert_int_eq(stream_write(b.stream, (struct span){ frame, MAX_LINE + 1 }), 0);
	size_t queued = stream_queued(b.stream);
	ck_assert_uint_gt(queued, 100000);
	ck_assert_int_eq(stream_write(b.stream, small), -ENOBUFS);
	ck_assert_uint_eq(stream_queued(b.stream), queued);
	free(collect(&b, MAX_LINE + 1));
	loop_wait(loop, stream_queued(b.stream) == 0);
	while (stream_write(b.stream, small) == 0)
		ck_assert_uint_le(stream_queued(b.stream), 100000);
	ck_assert_uint_eq(b.broken, 0);
	free(frame);
	finish(&b);
}
END_TEST

START_TEST(S14_dropping_the_unsent_finishes_what_was_begun)
{
	struct bench b;
	start();
	bench_pipes(&b, 8 << 20);
	size_t len = 200000; /* more than a pipe takes */
	char *frame = calloc(1, len);
	memset(frame, 'a', len);
	ck_assert_int_eq(stream_write(b.stream, (struct span){ frame, len }), 0);
	ck_assert_uint_gt(stream_written(b.stream), 0);
	uint64_t second = stream_accepted(b.stream);
	ck_assert_int_eq(stream_write(b.stream, SPAN_LIT("second")), 0);
	ck_assert_uint_le(stream_written(b.stream), second);
	stream_drop_unsent(b.stream);
	stream_finish_writing(b.stream);
	ck_assert_int_eq(stream_write(b.stream, SPAN_LIT("x")), -EPIPE);
	free(collect(&b, len));
	char byte;
	loop_settle(loop);
	ck_assert_int_eq(read(b.peer_in, &byte, 1), 0); /* the end, and no "second" */
	ck_assert_uint_eq(stream_queued(b.stream), 0);
	free(frame);
	finish(&b);
}
END_TEST

START_TEST(finish_writing_closes_when_the_queue_is_out)
{
	struct bench b;
	start();
	bench_socket(&b, 8 << 20);
	size_t len = 1 << 20;
	char *frame = calloc(1, len);
	ck_assert_int_eq(stream_write(b.stream, (struct span){ frame, len }), 0);
	stream_finish_writing(b.stream);
	free(collect(&b, len));
	loop_settle(loop);
	char byte;
	ck_assert_int_eq(read(b.peer_in, &byte, 1), 0);
	/* The other direction lives. */
	feed_text(&b, "still\n");
	loop_wait(loop, b.lines == 1);
	free(frame);
	finish(&b);
}
END_TEST

START_TEST(writing_to_nobody_breaks_once_and_not_inside_the_call)
{
	struct bench b;
	start();
	bench_pipes(&b, 1 << 20);
	close(b.peer_in);
	b.peer_in = -1;
	ck_assert_int_eq(stream_write(b.stream, SPAN_LIT("x\n")), -EPIPE);
	ck_assert_uint_eq(b.broken, 0);
	ck_assert_int_eq(stream_write(b.stream, SPAN_LIT("x\n")), -EPIPE);
	loop_wait(loop, b.broken == 1);
	ck_assert_int_eq(b.broken_error, -EPIPE);
	loop_settle(loop);
	ck_assert_uint_eq(b.broken, 1);
	/* Reading goes on. */
	feed_text(&b, "y\n");
	loop_wait(loop, b.lines == 1);
	finish(&b);
}
END_TEST

START_TEST(a_half_close_is_no_hang_up_but_the_rest_is_noticed)
{
	struct bench b;
	start();
	bench_socket(&b, 1 << 20);
	shutdown(b.peer_out, SHUT_WR);
	loop_wait(loop, b.ended == 1);
	/* No event fires for ever: passes that are allowed to sleep do. */
	unsigned before = pass_number;
	int64_t end = loop_now_ms() + 100;
	while (loop_now_ms() < end)
		loop_once(loop, end - loop_now_ms());
	ck_assert_uint_lt(pass_number - before, 20);
	ck_assert_uint_eq(b.broken, 0);
	ck_assert_int_eq(stream_write(b.stream, SPAN_LIT("answer\n")), 0);
	char *answer = collect(&b, 7);
	ck_assert_str_eq(answer, "answer\n");
	free(answer);
	close(b.peer_in);
	b.peer_in = b.peer_out = -1;
	loop_wait(loop, b.broken == 1);
	loop_settle(loop);
	ck_assert_uint_eq(b.broken, 1);
	finish(&b);
}
END_TEST

START_TEST(a_hang_up_is_noticed_while_paused)
{
	struct bench b;
	start();
	bench_socket(&b, 1 << 20);
	stream_pause(b.stream, true);
	loop_settle(loop);
	ck_assert_uint_eq(b.broken, 0);
	close(b.peer_in);
	b.peer_in = b.peer_out = -1;
	loop_wait(loop, b.broken == 1);
	finish(&b);
}
END_TEST

START_TEST(descriptors_are_closed_with_the_stream)
{
	start();
	for (int round = 0; round < 3; round++) {
		struct bench b;
		bench_socket(&b, 1 << 20);
		stream_pause(b.stream, true); /* with its watch on a hang-up */
		loop_once(loop, 0);
		int peer = b.peer_in;
		stream_close(b.stream);
		struct pollfd fds = { .fd = peer, .events = POLLIN };
		ck_assert_int_eq(poll(&fds, 1, 0), 1);
		ck_assert_int_ne(fds.revents & POLLHUP, 0);
		b.stream = NULL;
		bench_done(&b);
	}
	loop_free(loop);
}
END_TEST

int main(void)
{
	return RUN_TESTS("stream", R17_a_byte_at_a_time, R16_lines_of_every_size_up_to_the_limit,
			 R16_S7a_lines_over_the_limit_are_told_and_skipped, a_busy_peer_does_not_starve_another,
			 lines_that_are_much_work_do_not_fill_a_pass, S6_the_unterminated_last_line_then_the_end,
			 S7_a_read_error_is_the_end_with_its_reason, pause_holds_lines_back_and_gives_them_later,
			 close_inside_a_line_is_the_last_thing, drain_takes_all_that_is_there_at_once,
			 unread_bytes_can_be_taken, S14_what_the_pipe_does_not_take_is_queued_and_goes_out_whole,
			 S14_past_the_limit_nothing_is_taken, S14_dropping_the_unsent_finishes_what_was_begun,
			 finish_writing_closes_when_the_queue_is_out,
			 writing_to_nobody_breaks_once_and_not_inside_the_call,
			 a_half_close_is_no_hang_up_but_the_rest_is_noticed, a_hang_up_is_noticed_while_paused,
			 descriptors_are_closed_with_the_stream);
}
