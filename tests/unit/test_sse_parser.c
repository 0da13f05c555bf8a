/* sse_parser: the WHATWG rules (contract H3), cut at every position; bounded memory. */
#include "transport/sse_parser.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/buf.h"
#include "tests/unit/alloc_fail.h"
#include "tests/unit/guard.h"
#include "tests/unit/run.h"

#define MAX_BYTES 4096

/* What came out, one line an event: type, data, last id and retry time. Control characters as escapes. */
static void log_text(struct buf *log, struct span text)
{
	buf_add_json_string(log, text);
}

static void log_event(struct buf *log, struct sse_parser *p, enum sse_result result, const struct sse_event *event)
{
	if (result == SSE_TOO_LONG)
		buf_add_text(log, "TOO LONG ");
	log_text(log, event->type);
	log_text(log, event->data);
	buf_addf(log, "%s,%lld;", sse_parser_last_id(p), (long long)sse_parser_retry_ms(p));
}

static void feed(struct buf *log, struct sse_parser *p, struct span piece)
{
	struct span bytes = guard_copy(piece);
	struct sse_event event;
	enum sse_result result;
	while ((result = sse_parser_next(p, &bytes, &event)) != SSE_NEED_MORE) {
		ck_assert_int_ne(result, SSE_NO_MEMORY);
		log_event(log, p, result, &event);
	}
	ck_assert_uint_eq(bytes.len, 0);
}

static void end_log(struct buf *log, struct sse_parser *p)
{
	buf_addf(log, "end %s,%lld", sse_parser_last_id(p), (long long)sse_parser_retry_ms(p));
	sse_parser_free(p);
}

/* Cut before each of the positions, which ascend. */
static char *parse_cut(struct span text, const size_t *cuts, size_t n_cuts)
{
	struct buf log = BUF_INIT;
	struct sse_parser *p = sse_parser_new(MAX_BYTES);
	size_t at = 0;
	for (size_t i = 0; i <= n_cuts; i++) {
		size_t next = i < n_cuts ? cuts[i] : text.len;
		feed(&log, p, (struct span){ text.ptr + at, next - at });
		at = next;
	}
	end_log(&log, p);
	return buf_steal(&log);
}

struct sample {
	const char *text;
	size_t len;
	const char *expect;
};
#define SAMPLE(text, expect)                                                                                           \
	{                                                                                                              \
		text, sizeof(text) - 1, expect                                                                         \
	}

static const struct sample samples[] = {
	SAMPLE("", "end ,-1"),
	SAMPLE("data:1\n\n", "\"message\"\"1\",-1;end ,-1"),
	/* One space goes, not two. */
	SAMPLE("data:\ttest\rdata: \ndata:test\n\n", "\"message\"\"\\ttest\\n\\ntest\",-1;end ,-1"),
	SAMPLE("data:  two\n\n", "\"message\"\" two\",-1;end ,-1"),
	/* BOM once. */
	SAMPLE("\xef\xbb\xbf"
	       "data:1\n\n\xef\xbb\xbf"
	       "data:2\n\ndata:3\n\n",
	       "\"message\"\"1\",-1;\"message\"\"3\",-1;end ,-1"),
	SAMPLE("\xef\xbb\xbf\xef\xbb\xbf"
	       "data:1\n\ndata:2\n\n",
	       "\"message\"\"2\",-1;end ,-1"),
	SAMPLE("\xef\xbb"
	       "data:1\ndata:x\n\n",
	       "\"message\"\"x\",-1;end ,-1"),
	/* Comments. */
	SAMPLE("data:1\r:\0\n:\r\ndata:2\n:xxxxxxxxx\rdata:3\n:data:fail\r:b\ndata:4\n\n",
	       "\"message\"\"1\\n2\\n3\\n4\",-1;end ,-1"),
	/* Nothing without the blank line. */
	SAMPLE("retry:1000\ndata:test1\n\nid:test\ndata:test2", "\"message\"\"test1\",1000;end ,1000"),
	SAMPLE("data:a\n\ndata:b\n", "\"message\"\"a\",-1;end ,-1"),
	/* Empty data is an event; no data is none, but its id counts. */
	SAMPLE("data:\n\ndata\ndata\n\ndata:test\n\n",
	       "\"message\"\"\",-1;\"message\"\"\\n\",-1;\"message\"\"test\",-1;end ,-1"),
	SAMPLE("id: 7\n\n", "end 7,-1"),
	SAMPLE("id: p1\nretry: 500\ndata: \n\n", "\"message\"\"\"p1,500;end p1,500"),
	/* Types. */
	SAMPLE("event:test\ndata:x\n\ndata:x\n\n", "\"test\"\"x\",-1;\"message\"\"x\",-1;end ,-1"),
	SAMPLE("event: \ndata:data\n\n", "\"message\"\"data\",-1;end ,-1"),
	SAMPLE("event:a\nevent:b\ndata:x\n\n", "\"b\"\"x\",-1;end ,-1"),
	SAMPLE("event:a\n\ndata:x\n\n", "\"message\"\"x\",-1;end ,-1"),
	SAMPLE("event: endpoint\ndata: /messages?sessionId=1\n\n", "\"endpoint\"\"/messages?sessionId=1\",-1;end ,-1"),
	/* Ids: they stay, may be reset, and a NUL makes one invalid. */
	SAMPLE("id: 1\ndata:a\n\ndata:b\n\nid\ndata:c\n\n",
	       "\"message\"\"a\"1,-1;\"message\"\"b\"1,-1;\"message\"\"c\",-1;end ,-1"),
	SAMPLE("id: 1\n\nid: 2\0x\ndata:a\n\n", "\"message\"\"a\"1,-1;end 1,-1"),
	SAMPLE("id: 1\ndata:a\n\nid: 2\ndata:b\n", "\"message\"\"a\"1,-1;end 1,-1"),
	/* Fields. */
	SAMPLE("data:\0\ndata:  2\rData:1\ndata\0:2\ndata:1\r\0data:4\nda-ta:3\rdata_5\ndata:3\rdata:\r\n data:32\ndata:4\n\n",
	       "\"message\"\"\\u0000\\n 2\\n1\\n3\\n\\n4\",-1;end ,-1"),
	SAMPLE("data:test\n data\ndata\nfoobar:xxx\njustsometext\n:thisisacommentyay\ndata:test\n\n",
	       "\"message\"\"test\\n\\ntest\",-1;end ,-1"),
	SAMPLE("data: a: b\n\n", "\"message\"\"a: b\",-1;end ,-1"),
	/* Retry: digits alone. */
	SAMPLE("retry:03000\ndata:x\n\n", "\"message\"\"x\",3000;end ,3000"),
	SAMPLE("retry:3000\nretry:1000x\ndata:x\n\n", "\"message\"\"x\",3000;end ,3000"),
	SAMPLE("retry\nretry:\nretry:-1\nretry: 1.5\ndata:test\n\n", "\"message\"\"test\",-1;end ,-1"),
	SAMPLE("retry:0\n\n", "end ,0"),
	SAMPLE("retry:99999999999999999999999999999\n\n", "end ,86400000"),
	/* Line ends of all kinds, mixed. */
	SAMPLE("data:test\r\ndata\ndata:test\r\n\r\n", "\"message\"\"test\\n\\ntest\",-1;end ,-1"),
	SAMPLE("data:a\r\rdata:b\n\ndata:c\r\n\r\ndata:d\n\r\ndata:e\r\r\n", /* CR, then CRLF */
	       "\"message\"\"a\",-1;\"message\"\"b\",-1;\"message\"\"c\",-1;\"message\"\"d\",-1;\"message\"\"e\",-1;end ,-1"),
	SAMPLE("\r\n\n\r\r\n:x\r\r\ndata:1\r\r", "\"message\"\"1\",-1;end ,-1"),
	/* R15: only CR and LF end a line. UTF-8 of several bytes, cut anywhere. */
	SAMPLE("data:a\xe2\x80\xa8"
	       "b\xc2\x85"
	       "c\vd\fe\n\n",
	       "\"message\"\"a\xe2\x80\xa8"
	       "b\xc2\x85"
	       "c\\u000bd\\fe\",-1;end ,-1"),
	SAMPLE("data:ok\xe2\x80\xa6 \xf0\x9f\x98\x80\n\n", "\"message\"\"ok\xe2\x80\xa6 \xf0\x9f\x98\x80\",-1;end ,-1"),
	SAMPLE("event: message\r\nid: e_1\r\ndata: {\"jsonrpc\":\"2.0\",\r\ndata: \"id\":1,\"result\":{}}\r\n\r\n: keep-alive\r\n\r\n",
	       "\"message\"\"{\\\"jsonrpc\\\":\\\"2.0\\\",\\n\\\"id\\\":1,\\\"result\\\":{}}\"e_1,-1;end e_1,-1"),
};
#define N_SAMPLES (sizeof(samples) / sizeof(*samples))

START_TEST(H3_samples_of_the_standard)
{
	const struct sample *s = &samples[_i];
	char *log = parse_cut((struct span){ s->text, s->len }, NULL, 0);
	ck_assert_str_eq(log, s->expect);
	free(log);
}
END_TEST

START_TEST(H3_every_cut_gives_the_same_events)
{
	const struct sample *s = &samples[_i];
	struct span text = { s->text, s->len };
	for (size_t a = 0; a <= s->len; a++) {
		for (size_t b = a; b <= s->len; b++) {
			char *log = parse_cut(text, (const size_t[]){ a, b }, 2);
			ck_assert_msg(strcmp(log, s->expect) == 0, "cut at %zu and %zu: %s", a, b, log);
			free(log);
		}
	}
}
END_TEST

START_TEST(H3_one_byte_at_a_time)
{
	const struct sample *s = &samples[_i];
	size_t cuts[1024];
	for (size_t i = 0; i < s->len; i++)
		cuts[i] = i;
	char *log = parse_cut((struct span){ s->text, s->len }, cuts, s->len);
	ck_assert_str_eq(log, s->expect);
	free(log);
}
END_TEST

/* An event of exactly the maximum passes; one byte more is told once and skipped, whatever the cuts; the next event
 * is whole. */
static void check_limit(size_t piece, size_t excess)
{
	struct buf text = BUF_INIT, log = BUF_INIT;
	struct sse_parser *p = sse_parser_new(MAX_BYTES);
	buf_add_text(&text, "id:9\n");
	size_t data = MAX_BYTES - 1 - strlen("data:") + excess;
	buf_add_text(&text, "data:");
	for (size_t i = 0; i < data; i++)
		buf_add_char(&text, 'x');
	buf_add_text(&text, "\n\ndata:next\n\n");
	for (size_t at = 0; at < text.len; at += piece) {
		size_t n = text.len - at < piece ? text.len - at : piece;
		feed(&log, p, (struct span){ text.data + at, n });
		ck_assert_uint_le(sse_parser_buffered(p), 8 * MAX_BYTES);
	}
	ck_assert(strstr(log.data, "\"message\"\"next\"9,-1;"));
	ck_assert_msg((strstr(log.data, "TOO LONG") != NULL) == (excess > 0), "%zu", excess);
	char *rest = strstr(log.data, "TOO LONG");
	ck_assert(!rest || !strstr(rest + 1, "TOO LONG"));
	ck_assert(!rest || strstr(rest, "\"xxxxxxxx"));
	end_log(&log, p);
	buf_done(&text);
	buf_done(&log);
}

START_TEST(an_event_over_the_limit_is_told_once_and_skipped)
{
	static const size_t pieces[] = { 1, 7, 4095, 4096, 4097, 100000 };
	for (size_t i = 0; i < sizeof(pieces) / sizeof(*pieces); i++) {
		check_limit(pieces[i], 0);
		check_limit(pieces[i], 1);
		check_limit(pieces[i], 20000);
	}
}
END_TEST

START_TEST(many_short_lines_count_too)
{
	struct buf log = BUF_INIT;
	struct sse_parser *p = sse_parser_new(MAX_BYTES);
	for (int i = 0; i < 100000; i++)
		feed(&log, p, SPAN_LIT("data\n"));
	ck_assert_uint_le(sse_parser_buffered(p), 8 * MAX_BYTES);
	feed(&log, p, SPAN_LIT("\ndata:ok\n\n"));
	ck_assert(strncmp(log.data, "TOO LONG", 8) == 0);
	ck_assert(strstr(log.data, "\"ok\""));
	end_log(&log, p);
	buf_done(&log);
}
END_TEST

START_TEST(a_restart_forgets_the_unfinished_event_but_not_the_id)
{
	struct buf log = BUF_INIT;
	struct sse_parser *p = sse_parser_new(MAX_BYTES);
	feed(&log, p, SPAN_LIT("retry: 20\nid: a\ndata:1\n\nid: b\nevent: e\ndata: 2\nda"));
	sse_parser_restart(p);
	ck_assert_str_eq(sse_parser_last_id(p), "a");
	ck_assert_int_eq(sse_parser_retry_ms(p), 20);
	feed(&log, p,
	     SPAN_LIT("\xef\xbb\xbf"
		      "data:3\n\n"));
	ck_assert_str_eq(log.data, "\"message\"\"1\"a,20;\"message\"\"3\"a,20;");
	end_log(&log, p);
	buf_done(&log);
}
END_TEST

/* Every field, lines that are cut and lines that are not, events that need more memory than the ones before, ids that grow, one event that is too long. */
#define STREAM_MAX_BYTES 200000

static struct span memory_stream(void)
{
	static struct buf stream;
	if (stream.len > 0)
		return buf_span(&stream);
	buf_add_text(&stream, "\xef\xbb: no BOM\nretry: 7\nid: a\nevent: first\ndata: one\ndata: two\n\n");
	for (int len = 100; len < 100000; len *= 7)
		buf_addf(&stream, "id: %0*d\r\nevent: %0*d\r\ndata: %0*d\r\ndata: %0*d\r\n\r\n", len / 3, 1, len / 2, 2,
			 len, 3, len, 4);
	buf_addf(&stream, "data: %0*d\ndata: %0*d\n\n", STREAM_MAX_BYTES / 2, 5, STREAM_MAX_BYTES, 6);
	buf_add_text(&stream, "id: last\ndata: end\n\n");
	return buf_span(&stream);
}

/* Feeds text in pieces and logs as far as that goes; false if memory was short. */
static bool feed_pieces(struct buf *log, struct sse_parser *p, struct span text, size_t piece, size_t *ret_logged_id)
{
	struct sse_event event;
	for (size_t at = 0; at < text.len; at += piece) {
		struct span bytes = { text.ptr + at, text.len - at < piece ? text.len - at : piece };
		enum sse_result result;
		while ((result = sse_parser_next(p, &bytes, &event)) != SSE_NEED_MORE) {
			if (result == SSE_NO_MEMORY)
				return false;
			log_event(log, p, result, &event);
			*ret_logged_id = strlen(sse_parser_last_id(p));
		}
	}
	return true;
}

static void fail_each_allocation(size_t piece)
{
	/* Large enough never to grow: only the parser allocates. */
	struct buf whole = BUF_INIT, log = BUF_INIT;
	buf_reserve(&whole, 4 << 20);
	buf_reserve(&log, 4 << 20);
	struct span text = memory_stream();
	size_t id_len = 0, any;
	struct sse_parser *p = sse_parser_new(STREAM_MAX_BYTES);
	ck_assert(feed_pieces(&whole, p, text, piece, &any));
	end_log(&whole, p);
	ck_assert_ptr_nonnull(strstr(whole.data, "TOO LONG"));
	unsigned nth = 1;
	for (;; nth++) {
		long live;
		buf_reset(&log);
		id_len = 0;
		alloc_watch(nth);
		p = sse_parser_new(STREAM_MAX_BYTES);
		bool good = feed_pieces(&log, p, text, piece, &id_len);
		bool failed = alloc_state.failed;
		/* What was told was true, the id is that of what was told last, and there is no going on. */
		bool prefix = strncmp(log.data ? log.data : "", whole.data, log.len) == 0;
		bool id_stays = good || strlen(sse_parser_last_id(p)) == id_len;
		struct span more = SPAN_LIT("data: x\n\n");
		struct sse_event event;
		bool stays = good || sse_parser_next(p, &more, &event) == SSE_NO_MEMORY;
		/* But a new start. */
		bool again = true;
		if (!good && p) {
			buf_reset(&log);
			sse_parser_restart(p);
			again = feed_pieces(&log, p, text, piece, &any);
		}
		sse_parser_free(p);
		alloc_done(&live);
		ck_assert_int_eq(live, 0);
		ck_assert_msg(prefix && id_stays && stays && again && good == !failed,
			      "allocation %u in pieces of %zu: %d %d %d %d %d", nth, piece, prefix, id_stays, stays,
			      again, good);
		if (!failed)
			break;
	}
	ck_assert_uint_ge(nth, 15);
	buf_done(&log);
	buf_done(&whole);
}

START_TEST(every_allocation_that_fails_ends_the_stream)
{
	static const size_t pieces[] = { 31, 4096, 1 << 20 };
	fail_each_allocation(pieces[_i]);
}
END_TEST

START_TEST(a_parser_that_was_not_made_finds_no_memory)
{
	struct span bytes = SPAN_LIT("data:1\n\n");
	struct sse_event event;
	long live;
	alloc_watch(1);
	struct sse_parser *p = sse_parser_new(MAX_BYTES);
	ck_assert(alloc_done(&live));
	ck_assert_ptr_null(p);
	sse_parser_restart(p);
	ck_assert_int_eq(sse_parser_next(p, &bytes, &event), SSE_NO_MEMORY);
	ck_assert_str_eq(sse_parser_last_id(p), "");
	ck_assert_int_eq(sse_parser_retry_ms(p), -1);
	ck_assert_uint_eq(sse_parser_buffered(p), 0);
	sse_parser_free(p);
}
END_TEST

int main(void)
{
	Suite *suite = suite_create("sse_parser");
	TCase *tc = tcase_create("sse_parser");
	tcase_set_timeout(tc, RUN_TIMEOUT_SECONDS);
	tcase_add_loop_test(tc, H3_samples_of_the_standard, 0, N_SAMPLES);
	tcase_add_loop_test(tc, H3_every_cut_gives_the_same_events, 0, N_SAMPLES);
	tcase_add_loop_test(tc, H3_one_byte_at_a_time, 0, N_SAMPLES);
	tcase_add_test(tc, an_event_over_the_limit_is_told_once_and_skipped);
	tcase_add_test(tc, many_short_lines_count_too);
	tcase_add_test(tc, a_restart_forgets_the_unfinished_event_but_not_the_id);
	tcase_add_loop_test(tc, every_allocation_that_fails_ends_the_stream, 0, 3);
	tcase_add_test(tc, a_parser_that_was_not_made_finds_no_memory);
	suite_add_tcase(suite, tc);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
