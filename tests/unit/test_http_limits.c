/* The HTTP transport's limits: sizes, numbers, silence, floods; each has a name that is told. */
#include "http_fixture.h"

#include <sys/wait.h>

static void script_endless(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	fixture.held = request->conn;
	static const char *const heads[] = {
		"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"x\":\"",
		EVENT_STREAM "data: {\"x\":\"",
		EVENT_STREAM "data: x\ndata",
	};
	fake_send_text(request->conn, heads[fixture.step]);
}

START_TEST(a_response_or_event_over_maxMessageBytes_fails_its_request)
{
	static const char filler[] =
		"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
	for (unsigned step = 0; step < 3; step++) {
		struct call c = { 0 };
		fixture_start(script_endless);
		fixture.step = step;
		fixture.limits.value[LIMIT_MESSAGE_BYTES] = 100000;
		fixture_make(NULL, NULL);
		fixture_connect();
		ask(&c, "x");
		UNTIL(fixture.held);
		while (!c.done) {
			for (int i = 0; i < 100 && fixture.held->fd >= 0; i++)
				fake_send_text(fixture.held, step == 2 ? "\ndata" : filler);
			pass();
		}
		ck_assert_int_eq(c.code, MCPD_E_PROTOCOL);
		ck_assert_str_eq(c.message, "The response is longer than maxMessageBytes (100000)");
		ck_assert(c.sent);
		call_free(&c);
		fixture_close();
	}
}
END_TEST

static void script_headers(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	fake_send_text(request->conn, "HTTP/1.1 200 OK\r\n");
	for (int i = 0; i < (fixture.step ? 10 : 100); i++)
		fake_sendf(request->conn, "X-%d: %s\r\n", i,
			   fixture.step ? "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy" : "1");
	fake_sendf(request->conn, "Content-Length: 40\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}",
		   fake_id(request));
}

START_TEST(header_lines_and_bytes_are_limited)
{
	for (unsigned round = 0; round < 4; round++) {
		struct call c = { 0 };
		fixture_start(script_headers);
		fixture.step = round & 1;
		if (round < 2) {
			fixture.limits.value[LIMIT_HTTP_HEADERS] = 100;
			fixture.limits.value[LIMIT_HTTP_HEADER_BYTES] = 700;
		} else {
			fixture.limits.value[LIMIT_HTTP_HEADERS] = 101;
			fixture.limits.value[LIMIT_HTTP_HEADER_BYTES] = 2000;
		}
		if (round == 0)
			fixture.limits.value[LIMIT_HTTP_HEADER_BYTES] = 2000;
		fixture_make(NULL, NULL);
		fixture_connect();
		ask_done(&c, "x");
		ck_assert_int_eq(c.code, round < 2 ? MCPD_E_PROTOCOL : 0);
		if (round == 0)
			ck_assert_msg(strstr(c.message, "more header lines than maxHttpHeaders (100)"), "%s",
				      c.message);
		if (round == 1)
			ck_assert_msg(strstr(c.message, "headers longer than maxHttpHeaderBytes (700)"), "%s",
				      c.message);
		call_free(&c);
		fixture_close();
	}
}
END_TEST

static void script_hang(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	(void)request;
}

START_TEST(requests_to_one_server_are_limited)
{
	struct call calls[4] = { { 0 } };
	fixture_start(script_hang);
	fixture.limits.value[LIMIT_HTTP_STREAMS] = 3;
	fixture_make(NULL, NULL);
	fixture_connect();
	for (int i = 0; i < 4; i++)
		ask(&calls[i], "x");
	UNTIL(calls[3].done);
	ck_assert_int_eq(calls[3].code, MCPD_E_LIMIT);
	ck_assert_int_eq(calls[3].limit, LIMIT_HTTP_STREAMS);
	ck_assert(!calls[3].sent);
	ck_assert_str_eq(calls[3].message, "maxHttpStreams: 3 requests to this server are under way");
	ck_assert_uint_eq(calls[0].done + calls[1].done + calls[2].done, 0);
	/* Answers to the server have places of their own, as many. */
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(transport_respond(fixture.transport, SPAN_LIT("1"), SPAN_LIT("{}"), SPAN_NONE), 0);
	ck_assert_int_eq(transport_respond(fixture.transport, SPAN_LIT("1"), SPAN_LIT("{}"), SPAN_NONE), -ENOBUFS);
	/* One that is given up makes room. */
	transport_cancel(fixture.transport, calls[0].number, "r");
	call_free(&calls[3]);
	ask(&calls[3], "x");
	UNTIL(calls[0].done);
	for (int i = 0; i < 5; i++)
		pass();
	ck_assert_uint_eq(calls[3].done, 0);
	fixture_close();
	for (int i = 0; i < 4; i++)
		call_free(&calls[i]);
}
END_TEST

START_TEST(unsent_bytes_to_one_server_are_limited)
{
	struct call a = { 0 }, b = { 0 };
	struct buf params = BUF_INIT;
	fixture_start(script_hang);
	fixture.limits.value[LIMIT_SERVER_QUEUE] = 65536;
	fixture_make(NULL, NULL);
	fixture_connect();
	buf_add_char(&params, '"');
	for (int i = 0; i < 60000; i++)
		buf_add_char(&params, 'x');
	buf_add_char(&params, '"');
	struct transport_options options = call_options(&a);
	ask_with(&a, "x", params.data, &options);
	options = call_options(&b);
	ask_with(&b, "x", params.data, &options);
	UNTIL(b.done);
	ck_assert_int_eq(b.code, MCPD_E_LIMIT);
	ck_assert_int_eq(b.limit, LIMIT_SERVER_QUEUE);
	ck_assert_uint_eq(a.done, 0);
	buf_done(&params);
	fixture_close();
	call_free(&a);
	call_free(&b);
}
END_TEST

static void script_long_error(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	fake_send_text(request->conn, "HTTP/1.1 500 Oops\r\n\r\n");
	for (int i = 0; i < 1000; i++)
		fake_send_text(request->conn, "0123456789");
	fixture.held = request->conn; /* and it goes on */
}

START_TEST(an_errors_text_is_cut)
{
	struct call c = { 0 };
	fixture_start(script_long_error);
	fixture.limits.value[LIMIT_HTTP_ERROR_BYTES] = 1000;
	fixture_make(NULL, NULL);
	fixture_connect();
	ask_done(&c, "x");
	ck_assert_int_eq(c.code, MCPD_E_HTTP);
	ck_assert_uint_eq(strlen(c.body), 1000);
	ck_assert_uint_eq(strlen(c.message), strlen("HTTP 500: ") + 1000);
	call_free(&c);
	fixture_close();
}
END_TEST

static void script_stall(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	fake_send_text(request->conn, fixture.step == 0 ? "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"js" :
				      fixture.step == 1 ? "HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\nboo" :
							  EVENT_STREAM "data: x");
}

START_TEST(a_response_that_stalls_is_given_up_but_a_silent_stream_is_not)
{
	for (unsigned step = 0; step < 3; step++) {
		struct call c = { 0 };
		fixture_start(script_stall);
		fixture.step = step;
		fixture.limits.value[LIMIT_HTTP_IDLE] = 100;
		fixture_make(NULL, &(struct http_options){ .timeout_ms = step == 2 ? 400 : 30000 });
		fixture_connect();
		ask_done(&c, "x");
		ck_assert_str_eq(c.message,
				 step == 0 ? "The response stopped in the middle: nothing came for 100ms (httpIdleMs)" :
				 step == 1 ? "HTTP 500: boo" :
					     "SSE response timeout after 400ms");
		call_free(&c);
		fixture_close();
	}
}
END_TEST

static void script_big_parts(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	fixture.step++;
	fake_send_text(request->conn, EVENT_STREAM "data: ");
	for (int i = 0; i < 4000; i++)
		fake_send_text(request->conn, "0123456789");
}

START_TEST(unfinished_responses_of_one_server_share_a_budget)
{
	struct call calls[10] = { { 0 } };
	fixture_start(script_big_parts);
	fixture.limits.value[LIMIT_HTTP_BUFFER] = 300000;
	fixture_make(NULL, NULL);
	fixture_connect();
	for (int i = 0; i < 10; i++)
		ask(&calls[i], "x");
	unsigned failed = 0;
	for (int64_t until = loop_now_ms() + PATIENCE_MS; failed == 0 && loop_now_ms() < until;) {
		pass();
		for (int i = 0; i < 10; i++)
			failed += calls[i].done;
	}
	ck_assert_uint_gt(failed, 0);
	ck_assert_uint_lt(failed, 10);
	for (int i = 0; i < 10; i++)
		if (calls[i].done)
			ck_assert_str_eq(
				calls[i].message,
				"The unfinished responses of this server are larger than httpBufferBytes (300000)");
	fixture_close();
	for (int i = 0; i < 10; i++)
		call_free(&calls[i]);
}
END_TEST

static size_t resident_bytes(void)
{
	long pages = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "r");
	if (f && fscanf(f, "%ld %ld", &pages, &resident) != 2)
		resident = 0;
	if (f)
		fclose(f);
	return (size_t)resident * 4096;
}

static unsigned heard;

static void count_notification(void *arg, struct span method, struct span params)
{
	(void)arg;
	(void)method;
	(void)params;
	heard++;
}

static void script_flood(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	if (fake_is(request, "quick"))
		answer_json(request, "{}");
	else
		fixture.held = request->conn;
}

/* A child process floods, so that it never waits for us: 100 MB of events as fast as they go. Calls beside it are
 * answered all the while. */
START_TEST(a_flood_of_events_is_told_in_bounded_memory_and_harms_no_other)
{
	enum { EVENTS = 100000 };
	struct call flood = { 0 };
	struct transport_callbacks callbacks = fixture_callbacks;
	char own[64];
	fixture_start(script_flood);
	callbacks.on_notification = count_notification;
	snprintf(own, sizeof(own), "http://127.0.0.1:%d/mcp", fixture.server.port);
	fixture.transport = http_new(fixture.loop, fixture.curl,
				     &(struct http_options){ .name = "fake",
							     .url = own,
							     .timeout_ms = 0,
							     .connect_timeout_ms = 10000,
							     .limits = &fixture.limits },
				     &callbacks, NULL);
	fixture_connect();
	heard = 0;
	ask(&flood, "flood");
	UNTIL(fixture.held);
	pid_t pid = fork();
	if (pid == 0) {
		static const char event[] =
			"data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":"
			"{\"data\":\"%1000s\"}}\n\n";
		fcntl(fixture.held->fd, F_SETFL, 0);
		fake_send_text(fixture.held, EVENT_STREAM);
		struct buf many = BUF_INIT;
		for (int i = 0; i < 1000; i++)
			buf_addf(&many, event, "x");
		for (int i = 0; i < EVENTS / 1000; i++)
			fake_send(fixture.held, many.data, many.len);
		_exit(0);
	}
	size_t before = resident_bytes();
	(void)before;
	unsigned answered = 0;
	while (heard < EVENTS) {
		struct call quick = { 0 };
		ask_done(&quick, "quick");
		ck_assert_int_eq(quick.code, 0);
		call_free(&quick);
		answered++;
	}
	ck_assert_uint_gt(answered, 10);
#ifndef __SANITIZE_ADDRESS__ /* which keeps what was freed */
	ck_assert_uint_lt(resident_bytes(), before + (24u << 20));
#endif
	waitpid(pid, NULL, 0);
	fixture_close();
	call_free(&flood);
}
END_TEST

int main(void)
{
	return RUN_HTTP_TESTS("http_limits", NULL, 0, a_response_or_event_over_maxMessageBytes_fails_its_request,
			      header_lines_and_bytes_are_limited, requests_to_one_server_are_limited,
			      unsent_bytes_to_one_server_are_limited, an_errors_text_is_cut,
			      a_response_that_stalls_is_given_up_but_a_silent_stream_is_not,
			      unfinished_responses_of_one_server_share_a_budget,
			      a_flood_of_events_is_told_in_bounded_memory_and_harms_no_other);
}
