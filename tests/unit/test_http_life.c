/* The HTTP transport: connect, notify, close, clocks, cancellation, nothing sent twice (contract H6 to H8, H12, C1 to
 * C5, L3). */
#include "http_fixture.h"

static void script_plain(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	buf_addf(&fixture.asked, "%s %s\n%s%s\n", request->method, request->target, request->head, request->body);
	answer_json(request, "{\"n\":1.10}");
}

/* -- H6, H7, H8 */

START_TEST(H6_connect_does_no_network_IO)
{
	struct call c = { 0 };
	fixture_start(NULL);
	fixture_make("http://127.0.0.1:1/mcp", NULL);
	fixture_connect();
	ck_assert_int_eq(fixture.connect_code, 0);
	ck_assert(transport_is_connected(fixture.transport));
	ask_done(&c, "x");
	ck_assert_int_eq(c.code, MCPD_E_TRANSPORT);
	ck_assert(!c.sent);
	ck_assert_str_eq(c.message, "http://127.0.0.1:1/mcp: cannot connect (Connection refused)");
	ck_assert(transport_is_connected(fixture.transport));
	call_free(&c);
	fixture_close();
}
END_TEST

START_TEST(S12_nothing_is_sent_before_connect_and_after_close)
{
	struct call before = { 0 }, after = { 0 };
	fixture_start(script_plain);
	fixture_make(NULL, NULL);
	ask_done(&before, "x");
	ck_assert_str_eq(before.message, "Transport not connected");
	fixture_connect();
	transport_close(fixture.transport);
	ask(&after, "x");
	UNTIL(fixture.closed);
	ck_assert_uint_eq(after.done, 1);
	ck_assert_int_eq(after.code, MCPD_E_TRANSPORT);
	ck_assert_str_eq(after.message, "Transport not connected");
	ck_assert_uint_eq(fixture.server.requests, 0);
	call_free(&before);
	call_free(&after);
	fixture_close();
}
END_TEST

static void script_notify(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	ck_assert(!strstr(request->body, "\"id\""));
	static const char *const statuses[] = { "202 Accepted", "200 OK", "204 No Content", "500 Oops" };
	if (fixture.step == 2)
		fake_send_text(request->conn, "HTTP/1.1 204 No Content\r\n\r\n");
	else
		fake_respond(request->conn, statuses[fixture.step], "", fixture.step == 1 ? "{}" : "");
	fixture.step++;
}

START_TEST(H7_a_notification_succeeds_with_any_2xx)
{
	struct call c = { 0 };
	fixture_open(script_notify);
	for (int i = 0; i < 4; i++) {
		notify(&c, "notifications/x");
		UNTIL(c.done);
		ck_assert_int_eq(c.code, i < 3 ? 0 : MCPD_E_HTTP);
		if (i < 3)
			ck_assert_str_eq(c.result, "{}");
		else
			ck_assert_str_eq(c.message, "HTTP 500: Oops");
		call_free(&c);
	}
	fixture_close();
}
END_TEST

static void script_hang(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	buf_addf(&fixture.asked, "%s;", request->method);
	if (fake_is(request, "initialize"))
		fake_respond(request->conn, "200 OK", JSON_TYPE "Mcp-Session-Id: s1\r\n",
			     "{\"jsonrpc\":\"2.0\",\"id\":\"m-1\",\"result\":{}}");
	fixture.step++;
}

START_TEST(H8_close_fails_what_is_in_flight_and_ends_the_session)
{
	struct call a = { 0 }, b = { 0 };
	fixture_open(script_hang);
	ask_handshake("initialize", "{}");
	ask(&a, "x");
	notify(&b, "y");
	UNTIL(fixture.step == 3);
	buf_reset(&fixture.log);
	int64_t start = loop_now_ms();
	transport_close(fixture.transport);
	transport_close(fixture.transport);
	ck_assert_uint_eq(a.done + b.done, 0);
	UNTIL(fixture.closed);
	/* The DELETE is not answered: a second, and no more. */
	ck_assert_int_ge(loop_now_ms() - start, 1000);
	ck_assert_str_eq(logged(), "done;done;close;");
	ck_assert_str_eq(a.message, "Transport closed");
	ck_assert_str_eq(b.message, "Transport closed");
	ck_assert_int_eq(a.code, MCPD_E_TRANSPORT);
	ck_assert(a.sent && b.sent);
	ck_assert(!fixture.close_reason);
	ck_assert_str_eq(asked(), "POST;POST;POST;DELETE;");
	call_free(&a);
	call_free(&b);
	fixture_close();
}
END_TEST

START_TEST(H8_no_session_no_DELETE)
{
	fixture_open(script_plain);
	transport_close(fixture.transport);
	UNTIL(fixture.closed);
	ck_assert_uint_eq(fixture.server.requests, 0);
	fixture_close();
}
END_TEST

START_TEST(L3_close_and_free_from_inside_a_completion)
{
	struct call c = { 0 };
	fixture_open(script_plain);
	fixture.free_on_close = true;
	ask_done(&c, "x");
	transport_close(fixture.transport);
	UNTIL(fixture.closed);
	ck_assert_ptr_null(fixture.transport);
	call_free(&c);
	fixture_close();
}
END_TEST

static void close_in_done(void *arg, const struct transport_reply *reply)
{
	call_done(arg, reply);
	transport_close(fixture.transport);
}

/* Answers when all are there, so that it comes in one pass: a request between two notifications. */
static void script_together(struct fake_http *server, const struct fake_request *request)
{
	static struct fake_conn *asking, *notifying[2];
	static char body[128];
	static const char begun[] = "HTTP/1.1 202 Accepted\r\nContent-Length: 5\r\n\r\n"; /* and not yet at its end */
	static unsigned n;
	(void)server;
	if (fake_is(request, "x")) {
		asking = request->conn;
		snprintf(body, sizeof(body), "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}", fake_id(request));
	} else if (fake_is(request, "z")) {
		notifying[n++] = request->conn;
	}
	if (++fixture.step == 4) {
		fake_send_text(notifying[0], begun);
		fake_respond(asking, "200 OK", JSON_TYPE, body);
		fake_send_text(notifying[1], begun);
	}
}

START_TEST(L3_a_completion_may_close)
{
	struct call calls[4] = { { 0 } };
	fixture_open(script_together);
	fixture.free_on_close = true;
	struct transport_options options = call_options(&calls[0]);
	options.done = close_in_done;
	ask_with(&calls[0], "x", "{}", &options);
	ask(&calls[1], "y");
	/* The success of one of them comes in the pass of the close, behind it. */
	notify(&calls[2], "z");
	notify(&calls[3], "z");
	UNTIL(fixture.closed);
	for (int i = 0; i < 4; i++) {
		ck_assert_uint_eq(calls[i].done, 1);
		call_free(&calls[i]);
	}
	fixture_close();
}
END_TEST

/* -- H12 */

static void script_crash(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	if (++fixture.step == 1)
		answer_json(request, "{}");
	else
		fake_conn_close(request->conn);
}

START_TEST(H12_R6_a_request_is_never_sent_twice)
{
	struct call a = { 0 }, b = { 0 };
	fixture_open(script_crash);
	ask_done(&a, "x");
	/* On the kept connection: libcurl by itself would try again on a fresh one. */
	ask_done(&b, "tools/call");
	ck_assert_int_eq(b.code, MCPD_E_TRANSPORT);
	ck_assert(b.sent);
	ck_assert_uint_eq(fixture.step, 2);
	ck_assert(strstr(b.message, "the connection was lost"));
	call_free(&a);
	call_free(&b);
	fixture_close();
}
END_TEST

static void script_reset(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	fixture.step++;
	fake_conn_reset(request->conn);
}

START_TEST(R32_a_connection_cut_after_accepting_fails_at_once)
{
	struct call c = { 0 };
	fixture_open(script_reset);
	ask_done(&c, "x");
	ck_assert_int_eq(c.code, MCPD_E_TRANSPORT);
	ck_assert(c.sent);
	ck_assert_uint_eq(fixture.step, 1);
	ck_assert(transport_is_connected(fixture.transport));
	call_free(&c);
	fixture_close();
}
END_TEST

/* -- C1 to C5 */

START_TEST(C3_timeouts_have_the_contracts_words)
{
	struct call a = { 0 }, b = { 0 };
	fixture_start(script_hang);
	fixture_make(NULL, &(struct http_options){ .timeout_ms = 50 });
	fixture_connect();
	ask(&a, "x");
	notify(&b, "y");
	UNTIL(a.done && b.done);
	ck_assert_str_eq(a.message, "Request timeout after 50ms");
	ck_assert_str_eq(b.message, "Notify timeout after 50ms");
	ck_assert_int_eq(a.code, MCPD_E_TIMEOUT);
	ck_assert_int_eq(a.timeout_ms, 50);
	/* C5: its connection is closed, and that is all. */
	UNTIL(fixture.server.hangups == 2);
	ck_assert_uint_eq(fixture.server.requests, 2);
	call_free(&a);
	call_free(&b);
	fixture_close();
}
END_TEST

START_TEST(C4_a_cancelled_request_carries_the_reason)
{
	struct call c = { 0 };
	fixture_open(script_hang);
	ask(&c, "x");
	UNTIL(fixture.step == 1);
	transport_cancel(fixture.transport, c.number, "no longer wanted");
	ck_assert_uint_eq(c.done, 0);
	UNTIL(c.done);
	ck_assert_int_eq(c.code, MCPD_E_CANCELLED);
	ck_assert_str_eq(c.message, "no longer wanted");
	ck_assert(c.sent);
	UNTIL(fixture.server.hangups == 1);
	transport_cancel(fixture.transport, c.number, "again");
	call_free(&c);
	fixture_close();
}
END_TEST

START_TEST(C4_one_that_was_not_sent_says_so)
{
	struct call c = { 0 };
	fixture_open(script_hang);
	ask(&c, "x");
	transport_cancel(fixture.transport, c.number, "at once");
	UNTIL(c.done);
	ck_assert(!c.sent);
	ck_assert_uint_eq(fixture.server.requests, 0);
	call_free(&c);
	fixture_close();
}
END_TEST

static void script_progress(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	fake_send_text(request->conn, EVENT_STREAM);
	fixture.held = request->conn;
}

START_TEST(R31_progress_moves_the_clock_and_a_begun_stream_has_its_own_words)
{
	struct call c = { 0 };
	fixture_open(script_progress);
	struct transport_options options = call_options(&c);
	options.timeout_ms = 300;
	options.max_timeout_ms = 700;
	int64_t start = loop_now_ms(); /* before the clock's own beginning */
	ask_with(&c, "x", "{}", &options);
	while (!c.done) {
		pass();
		transport_touch(fixture.transport, c.number);
	}
	ck_assert_int_ge(loop_now_ms() - start, 700);
	ck_assert_str_eq(c.message, "SSE response timeout after 300ms");
	ck_assert_int_eq(c.timeout_ms, 300);
	ck_assert_int_eq(c.max_timeout_ms, 700);
	call_free(&c);
	fixture_close();
}
END_TEST

/* -- answers to the server */

static void script_respond(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	buf_addf(&fixture.asked, "%s\n", request->body);
	fake_respond(request->conn, fixture.step++ == 0 ? "202 Accepted" : "400 Bad Request", "", "");
}

START_TEST(L3_respond_posts_an_answer)
{
	fixture_open(script_respond);
	ck_assert_int_eq(transport_respond(fixture.transport, SPAN_LIT("7"), SPAN_LIT("{\"a\":1}"), SPAN_NONE), 0);
	UNTIL(fixture.step == 1);
	ck_assert_int_eq(transport_respond(fixture.transport, SPAN_LIT("\"x\""), SPAN_NONE,
					   SPAN_LIT("{\"code\":-32601,\"message\":\"m\"}")),
			 0);
	UNTIL(strstr(logged(), "error "));
	ck_assert_str_eq(asked(), "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{\"a\":1}}\n"
				  "{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"error\":{\"code\":-32601,\"message\":\"m\"}}\n");
	ck_assert_str_eq(logged(),
			 "error an answer to a request of the server could not be given: HTTP 400: Bad Request;");
	fixture_close();
}
END_TEST

/* -- the rest */

START_TEST(many_requests_at_once)
{
	enum { N = 64 };
	static struct call calls[N];
	memset(calls, 0, sizeof(calls));
	fixture_open(script_plain);
	for (int i = 0; i < N; i++)
		ask(&calls[i], "x");
	for (int i = 0; i < N; i++)
		UNTIL(calls[i].done);
	for (int i = 0; i < N; i++) {
		ck_assert_int_eq(calls[i].code, 0);
		ck_assert_uint_eq(calls[i].done, 1);
		call_free(&calls[i]);
	}
	fixture_close();
}
END_TEST

START_TEST(a_large_request_leaves_whole)
{
	struct call c = { 0 };
	struct buf params = BUF_INIT;
	fixture_open(script_plain);
	buf_add_text(&params, "{\"x\":\"");
	for (int i = 0; i < 3000000; i++)
		buf_add_char(&params, (char)('a' + i % 26));
	buf_add_text(&params, "\"}");
	struct transport_options options = call_options(&c);
	ask_with(&c, "x", params.data, &options);
	UNTIL(c.done);
	ck_assert_int_eq(c.code, 0);
	ck_assert(strstr(asked(), params.data));
	buf_done(&params);
	call_free(&c);
	fixture_close();
}
END_TEST

START_TEST(a_reset_of_the_curl_loop_fails_transfers_and_goes_on)
{
	struct call a = { 0 }, b = { 0 };
	fixture_open(script_hang);
	ask(&a, "x");
	UNTIL(fixture.step == 1);
	curl_loop_reset(fixture.curl);
	ck_assert_uint_eq(a.done, 0);
	UNTIL(a.done);
	ck_assert_int_eq(a.code, MCPD_E_TRANSPORT);
	fixture.server.script = script_plain;
	ask_done(&b, "x");
	ck_assert_int_eq(b.code, 0);
	call_free(&a);
	call_free(&b);
	fixture_close();
}
END_TEST

int main(void)
{
	return RUN_HTTP_TESTS(
		"http_life", NULL, 0, H6_connect_does_no_network_IO, S12_nothing_is_sent_before_connect_and_after_close,
		H7_a_notification_succeeds_with_any_2xx, H8_close_fails_what_is_in_flight_and_ends_the_session,
		H8_no_session_no_DELETE, L3_close_and_free_from_inside_a_completion, L3_a_completion_may_close,
		H12_R6_a_request_is_never_sent_twice, R32_a_connection_cut_after_accepting_fails_at_once,
		C3_timeouts_have_the_contracts_words, C4_a_cancelled_request_carries_the_reason,
		C4_one_that_was_not_sent_says_so, R31_progress_moves_the_clock_and_a_begun_stream_has_its_own_words,
		L3_respond_posts_an_answer, many_requests_at_once, a_large_request_leaves_whole,
		a_reset_of_the_curl_loop_fails_transfers_and_goes_on);
}
