/* The HTTP transport's event streams: answers, resumption, the background listener (contract H3, H4, H10, H11). */
#include "http_fixture.h"

/* -- H3 */

static void script_stream(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	static const char before[] = ": comment\n\n"
				     "data: {\"jsonrpc\":\"2.0\",\"method\":\"n/1\",\"params\":{\"a\":1}}\n\n"
				     "event: ping\ndata: {not json\n\n"
				     "event: message\nid: 5\ndata: {\"jsonrpc\":\"2.0\",\ndata: \"method\":\"n/2\"}\n\n"
				     "data: {\"jsonrpc\":\"2.0\",\"id\":\"m-1\",\"method\":\"roots/list\"}\n\n"
				     "data: \n\ndata\n\n"
				     "data: {\"jsonrpc\":\"2.0\",\"id\":\"m-77\",\"result\":{}}\n\n"
				     "data: {\"jsonrpc\":\"2.0\",\"id\":\"m-1\"}\n\n"
				     "data: 5\n\n";
	fixture.held = request->conn;
	fake_send_text(request->conn, CHUNKED_STREAM);
	if (fixture.step == 0) {
		send_chunk(request->conn, before);
		send_chunk(request->conn, answer_event(fake_id(request)));
		return;
	}
	/* One byte a chunk. */
	for (const char *part = before; part; part = part == before ? answer_event(fake_id(request)) : NULL) {
		for (const char *c = part; *c; c++) {
			char one[2] = { *c, '\0' };
			send_chunk(request->conn, one);
		}
	}
}

START_TEST(H3_the_answer_completes_the_request_before_the_stream_ends)
{
	for (unsigned step = 0; step < 2; step++) {
		struct call c = { 0 };
		fixture_open(script_stream);
		fixture.step = step;
		ask_done(&c, "tools/call");
		ck_assert_int_eq(c.code, 0);
		ck_assert_str_eq(c.result, "{\"ok\":true}");
		ck_assert_str_eq(logged(), "notification \"n/1\" {\"a\":1};notification \"n/2\" ;"
					   "request \"m-1\" \"roots/list\" on 1;done;");
		/* The stream may end by itself: the connection is used again. */
		fake_send_text(fixture.held, "0\r\n\r\n");
		struct call d = { 0 };
		int64_t until = loop_now_ms() + 50;
		while (loop_now_ms() < until)
			pass();
		fixture.step = 0;
		ask(&d, "tools/call");
		UNTIL(fixture.server.requests == 2);
		ck_assert_uint_eq(fixture.server.accepted, 1);
		call_free(&c);
		transport_close(fixture.transport);
		UNTIL(d.done);
		call_free(&d);
		fixture_close();
	}
}
END_TEST

START_TEST(H3_a_stream_that_does_not_end_after_its_answer_is_closed)
{
	struct call c = { 0 };
	fixture_open(script_stream);
	ask_done(&c, "tools/call");
	ck_assert_uint_eq(fixture.server.hangups, 0);
	UNTIL(fixture.server.hangups == 1);
	call_free(&c);
	fixture_close();
}
END_TEST

static void script_error_event(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	fake_sendf(request->conn,
		   EVENT_STREAM
		   "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-1.5,\"message\":\"\\u00e4\"}}\r\r",
		   fake_id(request));
	fixture.held = request->conn;
}

START_TEST(H3_an_error_answers_too)
{
	struct call c = { 0 };
	fixture_open(script_error_event);
	ask_done(&c, "tools/call");
	ck_assert_int_eq(c.code, MCPD_E_SERVER);
	ck_assert_str_eq(c.message, "MCP error -1.5: \xc3\xa4");
	ck_assert_str_eq(c.error, "{\"code\":-1.5,\"message\":\"\\u00e4\"}");
	call_free(&c);
	fixture_close();
}
END_TEST

static void script_malformed(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	fake_sendf(request->conn, EVENT_STREAM "data: {\"jsonrpc\":\n\n%s", answer_event(fake_id(request)));
}

START_TEST(H10_a_malformed_event_fails_the_request_of_its_stream)
{
	struct call c = { 0 };
	fixture_open(script_malformed);
	ask_done(&c, "tools/call");
	ck_assert_int_eq(c.code, MCPD_E_PROTOCOL);
	ck_assert_msg(strncmp(c.message, "Invalid JSON in the event: ", 27) == 0, "%s", c.message);
	ck_assert_str_eq(logged(), "done;");
	UNTIL(fixture.server.hangups == 1);
	call_free(&c);
	fixture_close();
}
END_TEST

static void script_two_notifications(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	fake_sendf(request->conn,
		   EVENT_STREAM
		   "data: {\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"b\"}\n\n%s",
		   answer_event(fake_id(request)));
}

START_TEST(L3_nothing_is_told_after_a_close_in_a_notification)
{
	struct call c = { 0 };
	fixture_open(script_two_notifications);
	fixture.close_on_notification = true;
	fixture.free_on_close = true;
	ask(&c, "tools/call");
	UNTIL(fixture.closed);
	ck_assert_str_eq(logged(), "notification \"a\" ;done;close;");
	ck_assert_str_eq(c.message, "Transport closed");
	call_free(&c);
	fixture_close();
}
END_TEST

/* -- C5, the modern era: closing the stream is the cancellation */

static void script_subscription(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	fake_send_text(request->conn,
		       EVENT_STREAM "data: {\"jsonrpc\":\"2.0\",\"method\":\"n/ack\"}\n\n: keep-alive\n\n");
}

START_TEST(C5_cancelling_closes_the_stream)
{
	struct call c = { 0 };
	fixture_open(script_subscription);
	transport_set_protocol(fixture.transport, "2026-07-28", true);
	struct transport_options options = call_options(&c);
	options.timeout_ms = 0; /* C1: none for subscriptions/listen */
	ask_with(&c, "subscriptions/listen", "{}", &options);
	UNTIL(strstr(logged(), "n/ack"));
	transport_cancel(fixture.transport, c.number, "enough");
	UNTIL(c.done && fixture.server.hangups == 1);
	ck_assert_str_eq(c.message, "enough");
	ck_assert_uint_eq(fixture.server.requests, 1);
	call_free(&c);
	fixture_close();
}
END_TEST

/* -- H4 */

static void script_no_answer(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	buf_addf(&fixture.asked, "%s;", request->method);
	fake_send_text(request->conn, EVENT_STREAM "data: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\n");
	if (fixture.step)
		fake_conn_reset(request->conn);
	else
		fake_conn_close(request->conn);
}

START_TEST(H4_R32_a_stream_without_the_answer)
{
	for (unsigned step = 0; step < 2; step++) {
		struct call c = { 0 };
		fixture_open(script_no_answer);
		fixture.step = step;
		ask_done(&c, "tools/call");
		ck_assert_int_eq(c.code, MCPD_E_PROTOCOL);
		ck_assert(c.sent);
		if (step == 0)
			ck_assert_str_eq(c.message, "No response received for request ID m-1");
		ck_assert_str_eq(asked(), "POST;");
		call_free(&c);
		fixture_close();
	}
}
END_TEST

static void script_resume(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	const char *last = fake_header(request, "Last-Event-ID");
	buf_addf(&fixture.asked, "%s %s", request->method, last ? last : "-");
	const char *session = fake_header(request, "Mcp-Session-Id");
	buf_addf(&fixture.asked, " %s;", session ? session : "-");
	if (fixture.step++ == 0) {
		fixture.when = loop_now_ms();
		fake_send_text(
			request->conn,
			"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nMcp-Session-Id: s\r\n\r\n"
			"id: e1\nretry: 120\ndata: \n\nid: e2\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\nid: e3\ndata: {\"cut");
		fake_conn_close(request->conn);
		return;
	}
	if (request->method[0] == 'D')
		return;
	ck_assert_int_ge(loop_now_ms() - fixture.when, 119);
	if (fixture.step == 2) {
		/* Nothing new, and gone again. */
		fixture.when = loop_now_ms();
		fake_send_text(request->conn, EVENT_STREAM ": hm\n\n");
		fake_conn_close(request->conn);
	} else if (fixture.step == 3) {
		fixture.when = loop_now_ms();
		fake_respond(request->conn, "409 Conflict", "", "still open");
	} else {
		fake_sendf(request->conn, EVENT_STREAM "data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n\n%s",
			   answer_event("\"m-1\""));
	}
}

START_TEST(H4a_a_stream_with_event_ids_is_resumed_after_its_retry)
{
	struct call c = { 0 };
	fixture_open(script_resume);
	ask_done(&c, "tools/call");
	ck_assert_int_eq(c.code, 0);
	ck_assert_str_eq(asked(), "POST - -;GET e2 s;GET e2 s;GET e2 s;");
	ck_assert_str_eq(logged(), "notification \"n\" ;request 1 \"ping\" on 1;done;");
	call_free(&c);
	fixture_close();
}
END_TEST

static void script_resume_in_vain(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	buf_addf(&fixture.asked, "%s;", request->method);
	fake_send_text(request->conn, EVENT_STREAM "id: e1\nretry: 1\ndata:\n\n");
	fake_conn_close(request->conn);
}

START_TEST(H4a_resuming_in_vain_comes_to_an_end)
{
	struct call c = { 0 };
	fixture_open(script_resume_in_vain);
	ask_done(&c, "tools/call");
	ck_assert_str_eq(c.message, "No response received for request ID m-1");
	ck_assert_str_eq(asked(), "POST;GET;GET;GET;GET;GET;");
	call_free(&c);
	fixture_close();
}
END_TEST

START_TEST(H4a_not_in_the_modern_era)
{
	struct call c = { 0 };
	fixture_open(script_resume_in_vain);
	transport_set_protocol(fixture.transport, "2026-07-28", true);
	ask_done(&c, "tools/call");
	ck_assert_str_eq(c.message, "No response received for request ID m-1");
	ck_assert_str_eq(asked(), "POST;");
	call_free(&c);
	fixture_close();
}
END_TEST

START_TEST(H4a_within_the_requests_timeout)
{
	struct call c = { 0 };
	fixture_open(script_resume);
	struct transport_options options = call_options(&c);
	options.timeout_ms = 60;
	ask_with(&c, "tools/call", "{}", &options);
	UNTIL(c.done);
	ck_assert_str_eq(c.message, "SSE response timeout after 60ms");
	ck_assert_str_eq(asked(), "POST - -;");
	call_free(&c);
	fixture_close();
}
END_TEST

static void script_resume_refused(struct fake_http *server, const struct fake_request *request)
{
	if (request->method[0] == 'P')
		script_resume_in_vain(server, request);
	else
		fake_respond(request->conn, "405 Method Not Allowed", "", "");
}

START_TEST(H4a_a_server_that_cannot_resume)
{
	struct call c = { 0 };
	fixture_open(script_resume_refused);
	ask_done(&c, "tools/call");
	ck_assert_str_eq(c.message, "No response received for request ID m-1");
	call_free(&c);
	fixture_close();
}
END_TEST

/* -- H11 */

static void script_listener(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	const char *accept = fake_header(request, "Accept");
	buf_addf(&fixture.asked, "%s %s", request->method, accept);
	const char *last = fake_header(request, "Last-Event-ID");
	buf_addf(&fixture.asked, " %s;", last ? last : "-");
	fixture.held = request->conn;
	switch (fixture.step++) {
	case 0:
		fake_send_text(request->conn,
			       EVENT_STREAM "id: l1\nretry: 150\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\n"
					    "data: {oops\n\n"
					    "data: {\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"roots/list\"}\n\n");
		break;
	case 1:
		ck_assert_int_ge(loop_now_ms() - fixture.when, 149);
		fake_respond(request->conn, "409 Conflict", "", "one is open");
		break;
	case 2:
		fake_send_text(request->conn, EVENT_STREAM);
		break;
	}
}

START_TEST(H11_R33_the_listener_is_opened_told_of_and_opened_again)
{
	struct call c = { 0 };
	fixture_open(script_listener);
	transport_set_protocol(fixture.transport, "2025-06-18", false);
	transport_listen(fixture.transport);
	transport_listen(fixture.transport);
	UNTIL(strstr(logged(), "roots/list"));
	ck_assert(strstr(logged(), "notification \"n\" ;error Invalid JSON in the event: "));
	ck_assert(strstr(logged(), ";request 4 \"roots/list\" on 0;"));
	buf_reset(&fixture.log);
	/* It is cut: not an error, but told; and `retry` and the event id count for the next. */
	fixture.when = loop_now_ms();
	fake_conn_close(fixture.held);
	UNTIL(strstr(logged(), "listener"));
	ck_assert_str_eq(logged(), "listener 200;");
	transport_listen(fixture.transport);
	UNTIL(strstr(logged(), "listener 409;"));
	ck_assert(strstr(logged(), "error background stream: HTTP 409: one is open;"));
	/* Calls are unharmed. */
	fixture.server.script = script_two_notifications;
	ask_done(&c, "x");
	ck_assert_int_eq(c.code, 0);
	fixture.server.script = script_listener;
	transport_listen(fixture.transport);
	UNTIL(fixture.step == 3);
	ck_assert_str_eq(asked(), "GET text/event-stream -;GET text/event-stream l1;GET text/event-stream l1;");
	buf_reset(&fixture.log);
	fixture_close();
	call_free(&c);
}
END_TEST

START_TEST(H8_close_ends_the_listener_without_a_word)
{
	fixture_open(script_listener);
	transport_listen(fixture.transport);
	UNTIL(strstr(logged(), "roots/list"));
	buf_reset(&fixture.log);
	transport_close(fixture.transport);
	UNTIL(fixture.closed && fixture.server.hangups == 1);
	ck_assert_str_eq(logged(), "close;");
	fixture_close();
}
END_TEST

static void script_405(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	fake_respond(request->conn, "405 Method Not Allowed", "", "no");
	fixture.step++;
}

START_TEST(H11_405_switches_it_off_silently)
{
	fixture_open(script_405);
	transport_listen(fixture.transport);
	UNTIL(strstr(logged(), "listener"));
	ck_assert_str_eq(logged(), "listener 405;");
	transport_listen(fixture.transport);
	for (int i = 0; i < 10; i++)
		pass();
	ck_assert_uint_eq(fixture.step, 1);
	fixture_close();
}
END_TEST

static void script_listener_broken(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	if (fixture.step++ == 0) {
		fake_conn_reset(request->conn);
	} else {
		fake_respond(request->conn, "200 OK", JSON_TYPE, "{}");
	}
}

START_TEST(H10_every_other_end_of_the_listener_is_an_error)
{
	fixture_open(script_listener_broken);
	transport_listen(fixture.transport);
	UNTIL(strstr(logged(), "listener 0;"));
	ck_assert(strstr(logged(), "error background stream: http://127.0.0.1:"));
	buf_reset(&fixture.log);
	transport_listen(fixture.transport);
	UNTIL(strstr(logged(), "listener"));
	ck_assert_str_eq(logged(), "error background stream: the answer to GET is no event stream;listener 200;");
	fixture_close();
}
END_TEST

START_TEST(H11_no_listener_in_the_modern_era)
{
	fixture_open(script_405);
	transport_set_protocol(fixture.transport, "2026-07-28", true);
	transport_listen(fixture.transport);
	for (int i = 0; i < 10; i++)
		pass();
	ck_assert_uint_eq(fixture.server.requests, 0);
	fixture_close();
}
END_TEST

int main(void)
{
	return RUN_HTTP_TESTS(
		"http_streams", NULL, 0, H3_the_answer_completes_the_request_before_the_stream_ends,
		H3_a_stream_that_does_not_end_after_its_answer_is_closed, H3_an_error_answers_too,
		H10_a_malformed_event_fails_the_request_of_its_stream,
		L3_nothing_is_told_after_a_close_in_a_notification, C5_cancelling_closes_the_stream,
		H4_R32_a_stream_without_the_answer, H4a_a_stream_with_event_ids_is_resumed_after_its_retry,
		H4a_resuming_in_vain_comes_to_an_end, H4a_not_in_the_modern_era, H4a_within_the_requests_timeout,
		H4a_a_server_that_cannot_resume, H11_R33_the_listener_is_opened_told_of_and_opened_again,
		H8_close_ends_the_listener_without_a_word, H11_405_switches_it_off_silently,
		H10_every_other_end_of_the_listener_is_an_error, H11_no_listener_in_the_modern_era);
}
