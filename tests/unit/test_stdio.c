/* transport/stdio.h: what goes out, what comes in, and the clocks (contract S1 to S5, S8, S12, C1 to C5, I1). */
#include "run.h"

#include <errno.h>
#include <signal.h>

#include "stdio_bench.h"

/* The whole of the lines that the server has received, as it tells them. */
static void on_received(void *arg, const struct transport_reply *reply)
{
	ck_assert_int_eq(reply->code, 0);
	buf_add_span(arg, reply->result);
}

static struct buf ask_received(void)
{
	struct buf received = BUF_INIT;
	struct transport_options options = { .timeout_ms = -1, .done = on_received, .arg = &received };
	transport_request(transport, SPAN_LIT("\"tell\""), SPAN_LIT("{\"received\":1}"), &options);
	loop_wait(loop, received.len > 0);
	return received;
}

START_TEST(S1_one_object_one_newline)
{
	stdio_bench_connect(PUPPET_OPTIONS());
	tell("t", "{\n\"a\": 1.0,\r\n\"b\": \"x\\ny\"}");
	transport_notify(transport, SPAN_LIT("\"bare\""), SPAN_NONE, NULL);
	struct buf received = ask_received();
	ck_assert_str_eq(received.data,
			 "[\"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"method\\\":\\\"do\\\",\\\"params\\\":{ \\\"a\\\": 1.0,  "
			 "\\\"b\\\": \\\"x\\\\ny\\\"}}\\n\", "
			 "\"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"method\\\":\\\"bare\\\"}\\n\", "
			 "\"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":\\\"m-3\\\",\\\"method\\\":\\\"tell\\\","
			 "\\\"params\\\":{\\\"received\\\":1}}\\n\"]");
	buf_done(&received);
	stdio_bench_stop();
}
END_TEST

START_TEST(S2_I1_answers_find_their_requests_in_any_order)
{
	stdio_bench_connect(PUPPET_OPTIONS());
	uint64_t one = ask("one", "{}");
	uint64_t two = ask("two", "{}");
	uint64_t three = ask("three", "{}");
	ck_assert_uint_ne(one, two);
	struct span id = transport_wire_id(transport, three);
	ck_assert_str_eq(id.ptr, "\"m-3\"");
	tell("t",
	     "{\"write\":[\"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":\\\"m-3\\\",\\\"error\\\":{\\\"code\\\":-1,\\\"message\\\":"
	     "\\\"no\\\",\\\"data\\\":1.0}}\\n{\\\"id\\\":\\\"m-2\\\",\\\"result\\\":[2]}\\n"
	     "{\\\"id\\\":\\\"m-2\\\",\\\"result\\\":[3]}\\n{\\\"id\\\":\\\"m-1\\\",\\\"result\\\":null}\\n\"]}");
	loop_wait(loop, completions == 4);
	assert_events("done t {} (2)\n"
		      "done three error {\"code\":-1,\"message\":\"no\",\"data\":1.0}: MCP error -1: no\n"
		      "done two [2] (3)\n"
		      "done one null (4)\n");
	ck_assert_ptr_null(transport_wire_id(transport, three).ptr);
	stdio_bench_stop();
}
END_TEST

START_TEST(S3_S4_S5_notifications_unknown_answers_requests)
{
	stdio_bench_connect(PUPPET_OPTIONS());
	uint64_t number = ask("one", "{}");
	/* R23: a request of the server with the id of one of ours in flight is a request. */
	tell("t",
	     "{\"write\":[\"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"method\\\":\\\"note\\\",\\\"params\\\":{\\\"a\\\":-0}}\\n"
	     "{\\\"id\\\":\\\"m-99\\\",\\\"result\\\":{}}\\n{\\\"id\\\":7,\\\"result\\\":{}}\\n"
	     "{\\\"id\\\":null,\\\"error\\\":{\\\"code\\\":1,\\\"message\\\":\\\"?\\\"}}\\n"
	     "{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":\\\"m-1\\\",\\\"method\\\":\\\"roots/list\\\"}\\n"
	     "{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":1,\\\"method\\\":\\\"ping\\\",\\\"params\\\":{}}\\n\"]}");
	loop_wait(loop, happened("\"ping\""));
	assert_events("done t {} (2)\n"
		      "notification \"note\" {\"a\":-0}\n"
		      "request \"m-1\" \"roots/list\"  on 0\n"
		      "request 1 \"ping\" {} on 0\n");
	ck_assert_int_eq(transport_respond(transport, SPAN_LIT("1"), SPAN_LIT("{}"), SPAN_NONE), 0);
	ck_assert_int_eq(transport_respond(transport, SPAN_LIT("\"m-1\""), SPAN_NONE,
					   SPAN_LIT("{\"code\":-32601,\"message\":\"Method not found\"}")),
			 0);
	struct buf received = ask_received();
	ck_assert_ptr_nonnull(strstr(received.data,
				     "\"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":1,\\\"result\\\":{}}\\n\", "
				     "\"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"id\\\":\\\"m-1\\\",\\\"error\\\":{"
				     "\\\"code\\\":-32601,\\\"message\\\":\\\"Method not found\\\"}}\\n\""));
	buf_done(&received);
	/* Nothing of that was an answer. */
	ck_assert_ptr_nonnull(transport_wire_id(transport, number).ptr);
	stdio_bench_stop();
}
END_TEST

START_TEST(S8_connected_means_that_the_command_runs)
{
	stdio_bench_new(&(struct stdio_options){
		.command = "/bin/sh",
		.args = (const char *const[]){ "-c", "echo $ADDED $PWD >&2; exec cat", NULL },
		.env = (const char *const[]){ "ADDED=yes", NULL },
		.cwd = "/usr",
		.grace_ms = 60000,
	});
	ck_assert(!transport_is_connected(transport));
	ck_assert_int_eq(transport_pid(transport), 0);
	transport_connect(transport);
	transport_connect(transport);
	ck_assert(!transport_is_connected(transport));
	assert_events("");
	loop_wait(loop, happened("log yes /usr (8)\n") && happened("connect "));
	assert_happened("connect ok\n");
	ck_assert(transport_is_connected(transport));
	ck_assert_int_gt(transport_pid(transport), 1);
	ck_assert_int_eq(getsid(transport_pid(transport)), transport_pid(transport));
	ck_assert_int_eq(transport_kind_of(transport), TRANSPORT_STDIO);
	transport_listen(transport);
	stdio_bench_stop();
}
END_TEST

START_TEST(S8_R10_a_command_that_cannot_be_executed_fails_connect_at_once)
{
	stdio_bench_new(&(struct stdio_options){ .command = "/nowhere/server", .grace_ms = 60000 });
	transport_connect(transport);
	loop_wait(loop, closes == 1);
	assert_events("connect cannot execute \"/nowhere/server\": No such file or directory (permanent)\n"
		      "close cannot execute \"/nowhere/server\": No such file or directory\n");
	stdio_bench_stop();
}
END_TEST

START_TEST(S12_not_connected_before_and_after)
{
	stdio_bench_new(PUPPET_OPTIONS());
	ask("before", "{}");
	tell("before2", "{}");
	ck_assert_int_eq(transport_respond(transport, SPAN_LIT("1"), SPAN_LIT("{}"), SPAN_NONE), -ENOTCONN);
	loop_settle(loop);
	assert_events("done before -32003 Transport not connected\ndone before2 -32003 Transport not connected\n");
	forget_events();
	connect_transport();
	assert_alive();
	forget_events();
	transport_close(transport);
	ask("after", "{}");
	loop_wait(loop, closes == 1);
	ck_assert_uint_eq(completions, 4);
	assert_happened("done after -32003 Transport not connected\n");
	/* on_close is the last. */
	ck_assert_str_eq(strstr(events.data, "close "), "close by us\n");
	stdio_bench_stop();
}
END_TEST

START_TEST(C1_the_requests_own_timeout_overrides_the_transports)
{
	stdio_bench_connect(PUPPET_OPTIONS(.timeout_ms = 300));
	ask("default", "{}");
	ask_with("own", "{}", (struct transport_options){ .timeout_ms = 20 });
	uint64_t none = ask_with("none", "{}", (struct transport_options){ .timeout_ms = 0 });
	tell("notify", "{}");
	loop_wait(loop, happened("done default"));
	assert_happened("done notify {} (2)\n");
	assert_happened("done own -32004 Request timeout after 20ms (sent)\n"
			"done default -32004 Request timeout after 300ms (sent)\n");
	ck_assert_ptr_nonnull(transport_wire_id(transport, none).ptr);
	stdio_bench_stop();
}
END_TEST

START_TEST(C2_C5_late_answers_go_nowhere_and_nothing_is_sent_for_the_given_up)
{
	stdio_bench_connect(PUPPET_OPTIONS());
	uint64_t cancelled = ask("cancelled", "{}");
	ask_with("late", "{}", (struct transport_options){ .timeout_ms = 10 });
	transport_cancel(transport, cancelled, "the asker has gone");
	transport_cancel(transport, 12345, "nobody");
	loop_wait(loop, completions == 2);
	assert_happened("done cancelled -32005 the asker has gone (sent)\n"); /* C4 */
	assert_happened("done late -32004 Request timeout after 10ms (sent)\n");
	forget_events();
	tell("t",
	     "{\"write\":[\"{\\\"id\\\":\\\"m-2\\\",\\\"result\\\":1}\\n{\\\"id\\\":\\\"m-1\\\",\\\"result\\\":1}\\n"
	     "{\\\"id\\\":\\\"m-1\\\",\\\"result\\\":1}\\n\"]}");
	loop_wait(loop, happened("late 1"));
	assert_alive();
	assert_happened("late 2\nlate 1\ndone alive \"yes\" (5)\n");
	struct buf received = ask_received();
	ck_assert_ptr_null(strstr(received.data, "cancelled\\\""));
	unsigned lines = 0;
	for (const char *at = received.data; (at = strstr(at, "\\n\"")); at++)
		lines++;
	ck_assert_uint_eq(lines, 5); /* two requests, t, alive, and this one */
	buf_done(&received);
	stdio_bench_stop();
}
END_TEST

START_TEST(R31_progress_extends_the_clock)
{
	stdio_bench_connect(PUPPET_OPTIONS());
	int64_t begin = loop_now_ms();
	uint64_t number =
		ask_with("slow", "{}", (struct transport_options){ .timeout_ms = 300, .max_timeout_ms = 700 });
	while (!happened("done slow")) {
		transport_touch(transport, number);
		loop_once(loop, 10);
		ck_assert_int_lt(loop_now_ms() - begin, LOOP_WAIT_MS);
	}
	ck_assert_int_ge(loop_now_ms() - begin, 700);
	assert_events("done slow -32004 Request timeout after 300ms (sent)\n");
	stdio_bench_stop();
}
END_TEST

static const char *megabyte(void)
{
	static char text[(1 << 20) + 10];
	if (!text[0]) {
		memset(text, 'x', sizeof text - 1);
		memcpy(text, "{\"a\":\"", 6);
		memcpy(text + sizeof text - 3, "\"}", 2);
	}
	return text;
}

START_TEST(C3_a_notification_times_out_in_a_full_pipe)
{
	stdio_bench_connect(&(struct stdio_options){
		.command = "sleep", .args = (const char *const[]){ "1000", NULL }, .grace_ms = 1 });
	tell_with("first", megabyte(), (struct transport_options){ .timeout_ms = 30 });
	tell_with("second", "{}", (struct transport_options){ .timeout_ms = 60 });
	ask_with("third", "{}", (struct transport_options){ .timeout_ms = 90 });
	loop_wait(loop, completions == 3);
	/* `sent` is exact: no byte of the second and third has left. */
	assert_events("done first -32004 Notify timeout after 30ms (sent)\n"
		      "done second -32004 Notify timeout after 60ms\n"
		      "done third -32004 Request timeout after 90ms\n");
	stdio_bench_stop();
}
END_TEST

START_TEST(L3_a_notification_is_complete_when_it_is_written)
{
	stdio_bench_connect(&(struct stdio_options){
		.command = "/bin/sh",
		.args = (const char *const[]){ "-c", "kill -STOP $$; cat >/dev/null", NULL },
		.grace_ms = 60000,
	});
	tell("big", megabyte());
	tell("small", "{}");
	for (int i = 0; i < 20; i++)
		loop_once(loop, 5);
	ck_assert_uint_eq(completions, 0);
	while (completions < 2) {
		kill(transport_pid(transport), SIGCONT);
		loop_once(loop, 5);
	}
	assert_events("done big {} (2)\ndone small {} (2)\n");
	stdio_bench_stop();
}
END_TEST

int main(void)
{
	return RUN_TESTS("stdio", S1_one_object_one_newline, S2_I1_answers_find_their_requests_in_any_order,
			 S3_S4_S5_notifications_unknown_answers_requests, S8_connected_means_that_the_command_runs,
			 S8_R10_a_command_that_cannot_be_executed_fails_connect_at_once,
			 S12_not_connected_before_and_after, C1_the_requests_own_timeout_overrides_the_transports,
			 C2_C5_late_answers_go_nowhere_and_nothing_is_sent_for_the_given_up,
			 R31_progress_extends_the_clock, C3_a_notification_times_out_in_a_full_pipe,
			 L3_a_notification_is_complete_when_it_is_written);
}
