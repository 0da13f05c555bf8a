/* transport/stdio.h: every end of a connection, and what is in the queue then (contract S9, S10, S11, S14, L3;
 * PITFALLS "Lifetimes"). */
#include "run.h"

#include <errno.h>
#include <signal.h>

#include "stdio_bench.h"

START_TEST(S9_close_fails_what_is_in_flight_then_ends_the_process_then_tells)
{
	stdio_bench_connect(PUPPET_OPTIONS());
	ask("a", "{}");
	ask("b", "{}");
	tell("t", "{}");
	assert_alive();
	forget_events();
	pid_t pid = transport_pid(transport);
	transport_close(transport);
	transport_close(transport);
	ck_assert(!transport_is_connected(transport));
	assert_events(""); /* nothing inside the call */
	loop_wait(loop, closes == 1);
	assert_events("done a -32003 Transport closed (sent)\n"
		      "done b -32003 Transport closed (sent)\n"
		      "log end of input (12)\n" /* its input was closed, and it was given time */
		      "close by us\n");
	ck_assert_int_eq(kill(pid, 0), -1);
	ck_assert_int_eq(transport_pid(transport), 0);
	stdio_bench_stop();
}
END_TEST

START_TEST(S9_nothing_is_delivered_after_close)
{
	/* Answers and notifies as soon as its input ends. */
	stdio_bench_connect(&(struct stdio_options){
		.command = "/bin/sh",
		.args = (const char *const[]){ "-c",
					       "cat >/dev/null; echo '{\"id\":\"m-1\",\"result\":1}'; echo noise; "
					       "echo '{\"jsonrpc\":\"2.0\",\"method\":\"n\"}'; echo last words >&2",
					       NULL },
		.grace_ms = 60000,
	});
	ask("a", "{}");
	loop_settle(loop);
	transport_close(transport);
	loop_wait(loop, closes == 1);
	assert_events("done a -32003 Transport closed (sent)\nlog last words (10)\nclose by us\n");
	stdio_bench_stop();
}
END_TEST

static const char deaf[] = "import signal\n"
			   "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
			   "print('{\"jsonrpc\":\"2.0\",\"method\":\"ready\"}', flush=True)\n"
			   "while True: signal.pause()\n";

START_TEST(S9_R3_a_server_that_ignores_everything_is_killed)
{
	stdio_bench_connect(&(struct stdio_options){
		.command = PYTHON, .args = (const char *const[]){ "-c", deaf, NULL }, .grace_ms = 30 });
	loop_wait(loop, happened("ready"));
	pid_t pid = transport_pid(transport);
	int64_t begin = loop_now_ms();
	transport_close(transport);
	loop_wait(loop, closes == 1);
	ck_assert_int_ge(loop_now_ms() - begin, 60);
	ck_assert_int_eq(kill(pid, 0), -1);
	stdio_bench_stop();
}
END_TEST

START_TEST(S10_the_process_exits_complete_lines_first_then_the_rest_fails)
{
	stdio_bench_connect(PUPPET_OPTIONS());
	ask("lost", "{}");
	ask("a",
	    "{\"stderr\":\"first\\nsecond\\n\\nthird\\nfourth\\nfifth\\nsixth\",\"write\":[\"{\\\"id\\\":$ID,\\\"result\\\":1}\\n"
	    "{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"method\\\":\\\"last\\\"}\\n\"],\"exit\":3}");
	loop_wait(loop, closes == 1);
	assert_happened("done a 1 (1)\nnotification \"last\" \n");
	assert_happened("done lost -32003 Transport closed (sent)\n");
	/* The exit status and the last stderr lines. */
	const char *end = "close exit status 3; last stderr lines: second | third | fourth | fifth | sixth\n";
	ck_assert_str_eq(strstr(events.data, "close "), end);
	ck_assert(strstr(events.data, "notification") < strstr(events.data, "done lost"));
	stdio_bench_stop();
}
END_TEST

START_TEST(S10_much_in_the_pipe_at_the_end)
{
	stdio_bench_connect(PUPPET_OPTIONS());
	for (int i = 0; i < 500; i++)
		ask("a", "{}");
	char order[500];
	snprintf(order, sizeof order,
		 "{\"write\":[[\"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"method\\\":\\\"n\\\",\\\"params\\\":{}}\\n\",1200],"
		 "\"{\\\"id\\\":\\\"m-500\\\",\\\"result\\\":1}\\n\"],\"kill\":9}");
	tell("t", order);
	loop_wait(loop, closes == 1);
	unsigned n = 0;
	for (const char *at = events.data; (at = strstr(at, "notification")); at++)
		n++;
	ck_assert_uint_eq(n, 1200);
	assert_happened("done a 1 (1)\n");
	ck_assert_uint_eq(completions, 501);
	assert_happened("close killed by signal 9 (Killed)\n");
	stdio_bench_stop();
}
END_TEST

START_TEST(S10_R5_killed_in_the_middle_of_a_call)
{
	stdio_bench_connect(PUPPET_OPTIONS());
	ask("a", "{\"sleep\":1000}");
	loop_settle(loop);
	kill(transport_pid(transport), SIGKILL);
	loop_wait(loop, closes == 1);
	assert_events("done a -32003 Transport closed (sent)\nclose killed by signal 9 (Killed)\n");
	stdio_bench_stop();
}
END_TEST

START_TEST(S10_a_grandchild_that_holds_the_pipe_does_not_hold_the_end)
{
	stdio_bench_connect(&(struct stdio_options){
		.command = "/bin/sh",
		.args =
			(const char *const[]){
				"-c", "sleep 1000 & read x; read y; echo '{\"id\":\"m-1\",\"result\":1}'; exit 4",
				NULL },
		.grace_ms = 60000,
	});
	ask("a", "{}");
	ask("b", "{}");
	loop_wait(loop, closes == 1);
	assert_events("done a 1 (1)\ndone b -32003 Transport closed (sent)\nclose exit status 4\n");
	stdio_bench_stop();
}
END_TEST

START_TEST(S10_a_server_that_closes_its_output_or_input)
{
	stdio_bench_connect(&(struct stdio_options){
		.command = "/bin/sh",
		.args = (const char *const[]){ "-c", "trap '' TERM; exec >&-; while :; do sleep 0.01; done", NULL },
		.grace_ms = 10,
	});
	loop_wait(loop, closes == 1);
	assert_events("close the server closed its standard output\n");
	closes = 0;
	transport_free(transport);
	loop_settle(loop);
	bench_stop();

	forget_events();
	stdio_bench_connect(&(struct stdio_options){
		.command = "/bin/sh",
		.args = (const char *const[]){ "-c", "exec <&-; echo closed >&2; while :; do sleep 0.01; done", NULL },
		.grace_ms = 10,
	});
	loop_wait(loop, happened("log closed"));
	ask("a", "{}");
	loop_wait(loop, closes == 1);
	assert_happened("done a -32003 Transport closed\n"); /* not a byte was sent */
	assert_happened("close the server closed its standard input; last stderr lines: closed\n");
	stdio_bench_stop();
}
END_TEST

START_TEST(S11_a_closed_transport_stays_closed)
{
	stdio_bench_connect(&(struct stdio_options){ .command = "true", .grace_ms = 60000 });
	loop_wait(loop, closes == 1);
	assert_events("close exit status 0\n");
	transport_connect(transport);
	loop_settle(loop);
	ck_assert(!transport_is_connected(transport));
	ask("a", "{}");
	loop_settle(loop);
	assert_events("close exit status 0\ndone a -32003 Transport not connected\n");
	stdio_bench_stop();
}
END_TEST

START_TEST(closed_before_and_during_connect)
{
	stdio_bench_new(PUPPET_OPTIONS());
	transport_close(transport);
	assert_events("");
	loop_wait(loop, closes == 1);
	assert_events("close by us\n");
	closes = 0;
	transport_free(transport);
	loop_settle(loop);
	bench_stop();

	forget_events();
	stdio_bench_new(PUPPET_OPTIONS());
	transport_connect(transport);
	transport_close(transport);
	loop_wait(loop, closes == 1);
	ck_assert(!happened("connect"));
	closes = 0;
	transport_free(transport);
	loop_settle(loop);
	bench_stop();

	/* Never connected: freed as it is; what had failed is told. */
	forget_events();
	stdio_bench_new(PUPPET_OPTIONS());
	ask("a", "{}");
	transport_free(transport);
	loop_settle(loop);
	assert_events("done a -32003 Transport not connected\n");
	forget_events();
	bench_stop();
}
END_TEST

static void free_inside(void *arg, const char *reason)
{
	bench_on_close(arg, reason);
	transport_free(transport);
}

static void close_inside(void *arg, struct span method, struct span params)
{
	bench_on_notification(arg, method, params);
	transport_close(transport);
}

START_TEST(L3_callbacks_may_close_and_free)
{
	stdio_bench_new(PUPPET_OPTIONS());
	transport->callbacks.on_close = free_inside;
	transport->callbacks.on_notification = close_inside;
	connect_transport();
	forget_events();
	tell("t",
	     "{\"write\":[\"{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"method\\\":\\\"n\\\"}\\n{\\\"jsonrpc\\\":\\\"2.0\\\",\\\"method\\\":\\\"o\\\"}\\n\"]}");
	loop_wait(loop, closes == 1);
	loop_settle(loop);
	ck_assert_str_eq(strstr(events.data, "notification"),
			 "notification \"n\" \nlog end of input (12)\nclose by us\n");
	forget_events();
	bench_stop();
}
END_TEST

static void ask_inside(void *arg, const struct transport_reply *reply)
{
	bench_on_done(arg, reply);
	ask("again", "{}");
}

START_TEST(S10_a_completion_may_ask_again_and_is_told_before_the_close)
{
	stdio_bench_connect(PUPPET_OPTIONS());
	struct transport_options options = { .timeout_ms = -1, .done = ask_inside, .arg = (void *)"first" };
	transport_request(transport, SPAN_LIT("\"do\""), SPAN_LIT("{\"exit\":0}"), &options);
	loop_wait(loop, closes == 1);
	assert_events("done first -32003 Transport closed (sent)\n"
		      "done again -32003 Transport not connected\n"
		      "close exit status 0\n");
	stdio_bench_stop();
}
END_TEST

/* Params of this many bytes. */
static char *long_params(size_t len)
{
	char *text = malloc(len + 1);
	memset(text, 'x', len);
	memcpy(text, "{\"a\":\"", 6);
	memcpy(text + len - 2, "\"}", 3);
	return text;
}

START_TEST(S14_past_the_queues_limit_a_request_fails_at_once)
{
	stdio_bench_new(&(struct stdio_options){
		.command = "/bin/sh",
		/* Reads nothing until it is told to. */
		.args = (const char *const[]){ "-c", "kill -STOP $$; exec cat", NULL },
		.grace_ms = 60000,
	});
	limits.value[LIMIT_SERVER_QUEUE] = 300000;
	connect_transport();
	forget_events();
	char *params = long_params(100000);
	/* About 64 KiB of the first are in the pipe. */
	for (int i = 0; i < 3; i++)
		ask("a", params);
	ck_assert_uint_eq(completions, 0);
	loop_settle(loop);
	ask("full", params);
	tell("full2", params);
	ck_assert_int_eq(transport_respond(transport, SPAN_LIT("1"), span_of(params), SPAN_NONE), -ENOBUFS);
	loop_settle(loop);
	assert_events(
		"done full -32009 The server does not read: serverQueueBytes (300000 bytes) are waiting to be sent to it\n"
		"done full2 -32009 The server does not read: serverQueueBytes (300000 bytes) are waiting to be sent to it\n");
	forget_events();
	/* What was taken goes out whole: the requests come back as the cat's requests. */
	unsigned n = 0;
	while (n < 3) {
		kill(transport_pid(transport), SIGCONT);
		loop_once(loop, 5);
		n = 0;
		for (const char *at = events.data; at && (at = strstr(at, "request \"m-")); at++)
			n++;
	}
	assert_happened("request \"m-3\" \"do\" {\"a\":\"xxx");
	ck_assert_uint_eq(stdio_noise_lines(transport), 0);
	free(params);
	stdio_bench_stop();
}
END_TEST

START_TEST(S9_S14_sent_is_exact_and_the_unsent_never_leaves)
{
	stdio_bench_connect(&(struct stdio_options){
		.command = "/bin/sh",
		.args = (const char *const[]){ "-c", "kill -STOP $$; tr -d x | tee /dev/stderr", NULL },
		.grace_ms = 60000,
	});
	char *params = long_params(200000);
	ask("begun", params);
	ask("queued", "{\"never\":1}");
	uint64_t cancelled = ask("cancelled", "{\"never\":2}");
	tell("told", "{\"never\":3}");
	transport_cancel(transport, cancelled, "no");
	loop_settle(loop);
	assert_events("done cancelled -32005 no\n");
	transport_close(transport);
	while (closes == 0) {
		pid_t pid = transport_pid(transport);
		if (pid > 0)
			kill(pid, SIGCONT);
		loop_once(loop, 5);
	}
	assert_happened("done begun -32003 Transport closed (sent)\n"
			"done queued -32003 Transport closed\n"
			"done told -32003 Transport closed\n");
	/* What the server has read is the frame that was begun, whole, and nothing more. */
	assert_happened(
		"log {\"jsonrpc\":\"2.0\",\"id\":\"m-1\",\"method\":\"do\",\"params\":{\"a\":\"\"}} (60)\nclose by us\n");
	free(params);
	stdio_bench_stop();
}
END_TEST

int main(void)
{
	return RUN_TESTS(
		"stdio_end", S9_close_fails_what_is_in_flight_then_ends_the_process_then_tells,
		S9_nothing_is_delivered_after_close, S9_R3_a_server_that_ignores_everything_is_killed,
		S10_the_process_exits_complete_lines_first_then_the_rest_fails, S10_much_in_the_pipe_at_the_end,
		S10_R5_killed_in_the_middle_of_a_call, S10_a_grandchild_that_holds_the_pipe_does_not_hold_the_end,
		S10_a_server_that_closes_its_output_or_input, S11_a_closed_transport_stays_closed,
		closed_before_and_during_connect, L3_callbacks_may_close_and_free,
		S10_a_completion_may_ask_again_and_is_told_before_the_close,
		S14_past_the_queues_limit_a_request_fails_at_once, S9_S14_sent_is_exact_and_the_unsent_never_leaves);
}
