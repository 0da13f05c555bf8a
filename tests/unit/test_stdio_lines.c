/* transport/stdio.h: what servers write on stdout and stderr, well or badly (contract S6, S7, S7a, S13; R14 to R19). */
#include "run.h"

#include <errno.h>

#include "stdio_bench.h"

/* JSON text of a puppet's order to write this text, which is itself written into C strings here: see stdio_bench.h. */
static char *order_to_write(const char *text)
{
	struct buf order = BUF_INIT;
	buf_add_text(&order, "{\"write\":[");
	buf_add_json_text(&order, text);
	buf_add_text(&order, "]}");
	return buf_steal(&order);
}

static void tell_to_write(const char *text)
{
	char *order = order_to_write(text);
	tell("t", order);
	free(order);
}

static void ask_to_write(const char *name, const char *text)
{
	char *order = order_to_write(text);
	ask(name, order);
	free(order);
}

START_TEST(S6_R14_what_is_no_message_is_skipped_counted_and_logged)
{
	stdio_bench_connect(PUPPET_OPTIONS());
	ask_to_write("a", "Welcome to the server!\n"
			  "{not json\n"
			  "\n   \n\r\n"
			  "\x1b[32minfo\x1b[0m ready\n"
			  "{\"level\":\"info\",\"msg\":\"JSON, but no message\"}\n"
			  "42\n"
			  "[{\"id\":$ID,\"result\":\"a batch\"}]\n"
			  "{\"id\":$ID,\"result\":1,\"error\":{\"code\":1,\"message\":\"both\"}}\n"
			  "{\"id\":$ID,\"id\":$ID,\"result\":\"doubled\"}\n"
			  "{\"id\":$ID,\"result\":\"right\"}\n");
	loop_wait(loop, completions == 1);
	assert_events("noise Welcome to the server! (22)\n"
		      "noise {not json (9)\n"
		      "noise \x1b[32minfo\x1b[0m ready (19)\n"
		      "noise {\"level\":\"info\",\"msg\":\"JSON, but no message\"} (45)\n"
		      "noise 42 (2)\n"
		      "noise [{\"id\":\"m-1\",\"result\":\"a batch\"}] (33)\n"
		      "noise {\"id\":\"m-1\",\"result\":1,\"error\":{\"code\":1,\"message\":\"both\"}} (59)\n"
		      "noise {\"id\":\"m-1\",\"id\":\"m-1\",\"result\":\"doubled\"} (42)\n"
		      "done a \"right\" (7)\n");
	ck_assert_uint_eq(stdio_noise_lines(transport), 8);
	stdio_bench_stop();
}
END_TEST

START_TEST(S6_bytes_that_are_no_UTF8_are_noise)
{
	stdio_bench_connect(PUPPET_OPTIONS());
	/* {"id":ID,"result":"<ff>"} and a control character, then a good one */
	ask("a", "{\"hex\":\"7b226964223aID2c22726573756c74223a22ff227d0a7b226964223aID2c22726573756c74223a2201227d0a"
		 "7b226964223aID2c22726573756c74223a317d0a\"}");
	loop_wait(loop, completions == 1);
	assert_happened("done a 1 (1)\n");
	ck_assert_uint_eq(stdio_noise_lines(transport), 2);
	stdio_bench_stop();
}
END_TEST

/* The line is dropped, but nobody waits out their time for it. */
START_TEST(S6_an_answer_that_cannot_be_read_fails_its_request)
{
	stdio_bench_connect(PUPPET_OPTIONS());
	ask_to_write("nan", "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"x\":NaN}}\n");
	ask_to_write("both", "{\"id\":$ID,\"result\":1,\"error\":{\"code\":1,\"message\":\"both\"}}\n");
	ask_to_write("hidden", "{\"result\":NaN,\"id\":$ID}\n{\"id\":$ID,\"params\":{\"result\":NaN}}\n");
	loop_wait(loop, completions == 2);
	assert_happened("done nan -32008 The server's answer is not JSON: a value is expected at byte 42 (sent)\n");
	assert_happened(
		"done both -32008 The server's answer is no JSON-RPC message: both `result` and `error` (sent)\n");
	ck_assert_uint_eq(stdio_noise_lines(transport), 4);
	assert_alive();
	stdio_bench_stop();
}
END_TEST

START_TEST(S6_R17_CRLF_and_BOM_and_a_byte_at_a_time)
{
	stdio_bench_connect(PUPPET_OPTIONS());
	/* BOM, blanks, {"id":ID,"result":"<U+1F600>"}, CR LF */
	ask("a", "{\"hex\":\"efbbbf20097b226964223aID2c22726573756c74223a22f09f9880227d0d0a\"}");
	loop_wait(loop, completions == 1);
	assert_events("done a \"\xf0\x9f\x98\x80\" (6)\n");
	stdio_bench_stop();
}
END_TEST

START_TEST(S6_several_in_one_write_and_an_unterminated_last_line)
{
	stdio_bench_connect(PUPPET_OPTIONS());
	ask("a",
	    "{\"write\":[\"{\\\"id\\\":\\\"m-2\\\",\\\"result\\\":2}\\n"
	    "{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"method\\\":\\\"n\\\"}\\n{\\\"id\\\":$ID,\\\"result\\\":1}\"],\"exit\":0}");
	ask("b", "{}");
	loop_wait(loop, closes == 1);
	assert_events("done b 2 (1)\nnotification \"n\" \ndone a 1 (1)\nclose exit status 0\n");
	stdio_bench_stop();
}
END_TEST

START_TEST(S6_an_unterminated_last_line_that_does_not_parse)
{
	stdio_bench_connect(PUPPET_OPTIONS());
	ask("a", "{\"write\":[\"{\\\"id\\\":$ID,\\\"result\\\":1\"],\"exit\":0}");
	loop_wait(loop, closes == 1);
	assert_events(
		"noise {\"id\":\"m-1\",\"result\":1 (22)\ndone a -32003 Transport closed (sent)\nclose exit status 0\n");
	stdio_bench_stop();
}
END_TEST

START_TEST(R15_no_other_line_ends_inside_strings)
{
	stdio_bench_connect(PUPPET_OPTIONS());
	/* U+2028, U+2029, U+0085, DEL as they are; VT, FF, CR are control characters, which JSON has escaped only. */
	ask_to_write("a", "{\"id\":$ID,\"result\":\"\xe2\x80\xa8\xe2\x80\xa9\xc2\x85\x7f\\u000b\\f\\r\"}\n");
	loop_wait(loop, completions == 1);
	assert_events("done a \"\xe2\x80\xa8\xe2\x80\xa9\xc2\x85\x7f\\u000b\\f\\r\" (21)\n");
	stdio_bench_stop();
}
END_TEST

START_TEST(R19_results_and_errors_come_byte_for_byte)
{
	stdio_bench_connect(PUPPET_OPTIONS());
	ask_to_write("a", "{\"id\":$ID,\"result\":[12345678901234567890, 123456789012345678901234567890,1.0 ,-0,1e400,"
			  "{\"k\":1,\"k\":2},\"\\ud800\",\"\\/\"]}\n");
	loop_wait(loop, completions == 1);
	assert_happened("done a [12345678901234567890, 123456789012345678901234567890,1.0 ,-0,1e400,"
			"{\"k\":1,\"k\":2},\"\\ud800\",\"\\/\"] (");
	ask_to_write("b", "{\"id\":$ID,\"error\":{\"code\":-32000.0,\"message\":\"\\u00e9\",\"code\":1}}\n");
	loop_wait(loop, completions == 2);
	assert_happened(
		"done b error {\"code\":-32000.0,\"message\":\"\\u00e9\",\"code\":1}: MCP error -32000.0: \xc3\xa9\n");
	stdio_bench_stop();
}
END_TEST

START_TEST(S6_batches_are_taken_apart_for_2025_03_26_only)
{
	stdio_bench_connect(PUPPET_OPTIONS());
	ask("one", "{}");
	ask("two", "{}");
	transport_set_protocol(transport, "2025-03-26", false);
	tell_to_write(
		"[{\"id\":\"m-2\",\"result\":2}, 7, {\"jsonrpc\":\"2.0\",\"method\":\"n\"},[],"
		"{\"id\":\"m-1\",\"error\":{\"code\":1,\"message\":\"x\"}},{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"q\"}]\n[]\n");
	loop_wait(loop, happened("\"q\""));
	assert_events("done t {} (2)\n"
		      "done two 2 (1)\n"
		      "noise 7 (1)\n"
		      "notification \"n\" \n"
		      "noise [] (2)\n"
		      "done one error {\"code\":1,\"message\":\"x\"}: MCP error 1: x\n"
		      "request 5 \"q\"  on 0\n");
	forget_events();
	transport_set_protocol(transport, "2025-06-18", false);
	tell_to_write("[{\"jsonrpc\":\"2.0\",\"method\":\"n\"}]\n");
	loop_wait(loop, happened("noise ["));
	ck_assert(!happened("notification"));
	stdio_bench_stop();
}
END_TEST

/* The result is a string of this many bytes, quotes included. */
static void ask_for_length(size_t length)
{
	char params[300], expected[60];
	size_t start = completions;
	snprintf(params, sizeof params,
		 "{\"write\":[\"{\\\"id\\\":$ID,\\\"result\\\":\\\"\",[\"x\",%zu],\"\\\"}\\n\"]}", length - 2);
	ask("big", params);
	loop_wait(loop, completions > start);
	snprintf(expected, sizeof expected, "(%zu)\n", length);
	assert_happened("done big \"xxxxx");
	assert_happened(expected);
	forget_events();
}

START_TEST(R16_long_lines_up_to_the_limit)
{
	stdio_bench_connect(PUPPET_OPTIONS());
	static const size_t kib64 = 64 << 10, mib = 1 << 20;
	/* The line is longer than its result by the envelope. */
	size_t envelope = strlen("{\"id\":\"m-1\",\"result\":}");
	ask_for_length(kib64 - 1 - envelope);
	ask_for_length(kib64 - envelope);
	ask_for_length(kib64 + 1 - envelope);
	ask_for_length(mib + 1 - envelope);
	ask_for_length(20 * mib);
	stdio_bench_stop();
}
END_TEST

START_TEST(R16_S7a_over_the_limit_only_that_request_fails)
{
	stdio_bench_new(PUPPET_OPTIONS());
	limits.value[LIMIT_MESSAGE_BYTES] = 100000;
	connect_transport();
	forget_events();
	size_t envelope = strlen("{\"id\":\"m-1\",\"result\":}");
	ask_for_length(100000 - envelope); /* the limit itself */
	ask("other", "{}");
	ask("long", "{\"write\":[\" {\\\"id\\\":$ID,\\\"result\\\":\\\"\",[\"x\",100000],\"\\\"}\\n\"]}");
	loop_wait(loop, completions == 2);
	assert_events("done long -32008 The server's answer is longer than maxMessageBytes (100000 bytes) (sent)\n");
	assert_alive();
	forget_events();
	/* Whose answer it was cannot be told; nor is a request an answer. */
	uint64_t hidden = ask(
		"hidden",
		"{\"write\":[\"{\\\"result\\\":\\\"\",[\"x\",200000],\"\\\",\\\"id\\\":$ID}\\n"
		"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"method\\\":\\\"m\\\",\\\"id\\\":$ID,\\\"params\\\":\\\"\",[\"x\",200000],\"\\\"}\\n\"]}");
	assert_alive();
	ck_assert_ptr_nonnull(transport_wire_id(transport, hidden).ptr);
	assert_happened("noise {\"result\":\"xxx");
	ck_assert_uint_eq(stdio_noise_lines(transport), 2);
	/* A late answer that is too long ends its tombstone. */
	transport_cancel(transport, hidden, "no");
	loop_wait(loop, happened("done hidden"));
	char text[] = "{\"write\":[\"{\\\"id\\\":\\\"m-5\\\",\\\"result\\\":\\\"\",[\"x\",100000],\"\\\"}\\n\"]}";
	ck_assert_uint_eq(hidden, 5);
	tell("t", text);
	loop_wait(loop, happened("late 5"));
	stdio_bench_stop();
}
END_TEST

START_TEST(R18_S13_stderr_never_blocks_the_server)
{
	stdio_bench_connect(PUPPET_OPTIONS());
	ask("a", "{\"noisy\":1024,\"write\":[\"{\\\"id\\\":$ID,\\\"result\\\":1}\\n\"]}");
	loop_wait(loop, completions == 1);
	assert_happened("done a 1 (1)\n");
	unsigned lines = 0;
	loop_wait(loop, ({
			  lines = 0;
			  for (const char *at = events.data; (at = strstr(at, "log xxx")); at++)
				  lines++;
			  lines == 1024;
		  }));
	assert_happened("(1023)\n");
	stdio_bench_stop();
}
END_TEST

START_TEST(S13_a_long_stderr_line_is_cut)
{
	stdio_bench_new(PUPPET_OPTIONS());
	limits.value[LIMIT_LOG_LINE_BYTES] = 300;
	connect_transport();
	struct buf order = BUF_INIT;
	buf_add_text(&order, "{\"stderr\":\"one\\n");
	for (int i = 0; i < 1000; i++)
		buf_add_text(&order, "abcdefghij");
	buf_add_text(&order, "\\ntwo\\n\"}");
	tell("t", order.data);
	buf_done(&order);
	loop_wait(loop, happened("log two"));
	assert_happened("log one (3)\n");
	assert_happened("(300)\nlog two (3)\n");
	/* So is noise, before a character. */
	struct buf noise = BUF_INIT;
	for (int i = 0; i < 299; i++)
		buf_add_char(&noise, 'n');
	buf_add_text(&noise, "\xc3\xa9 and more\n");
	tell_to_write(noise.data);
	buf_done(&noise);
	loop_wait(loop, happened("noise "));
	assert_happened("(299)\n");
	stdio_bench_stop();
}
END_TEST

/* Linked with --wrap=read: the stream's reads, which ask for much, can be made to fail. */
static bool reads_fail;
ssize_t __real_read(int fd, void *data, size_t len);
ssize_t __wrap_read(int fd, void *data, size_t len);

ssize_t __wrap_read(int fd, void *data, size_t len)
{
	if (reads_fail && len > 1000) {
		errno = EIO;
		return -1;
	}
	return __real_read(fd, data, len);
}

START_TEST(S7_a_read_error_is_told_and_closes)
{
	stdio_bench_connect(PUPPET_OPTIONS());
	ask("a", "{}");
	assert_alive();
	forget_events();
	tell("t", "{\"write\":[\"{}\\n\"]}");
	reads_fail = true;
	loop_wait(loop, happened("error "));
	reads_fail = false;
	loop_wait(loop, closes == 1);
	ck_assert_ptr_nonnull(strstr(strstr(events.data, "error cannot read from the server: Input/output error\n"),
				     "done a -32003 Transport closed (sent)\n"));
	assert_happened("close cannot read from the server: Input/output error; last stderr lines: end of input\n");
	stdio_bench_stop();
}
END_TEST

int main(void)
{
	return RUN_TESTS("stdio_lines", S6_R14_what_is_no_message_is_skipped_counted_and_logged,
			 S6_bytes_that_are_no_UTF8_are_noise, S6_an_answer_that_cannot_be_read_fails_its_request,
			 S6_R17_CRLF_and_BOM_and_a_byte_at_a_time,
			 S6_several_in_one_write_and_an_unterminated_last_line,
			 S6_an_unterminated_last_line_that_does_not_parse, R15_no_other_line_ends_inside_strings,
			 R19_results_and_errors_come_byte_for_byte, S6_batches_are_taken_apart_for_2025_03_26_only,
			 R16_long_lines_up_to_the_limit, R16_S7a_over_the_limit_only_that_request_fails,
			 R18_S13_stderr_never_blocks_the_server, S13_a_long_stderr_line_is_cut,
			 S7_a_read_error_is_told_and_closes);
}
