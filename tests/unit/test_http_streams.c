/* The HTTP transport's event streams: answers, resumption, the background listener, HTTP+SSE (contract H3, H4, H10, H11, H14). */
#include "http_fixture.h"

#include "transport/http_sse.h"

#define CHUNKED_STREAM "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"

static void send_chunk(struct fake_conn *conn, const char *text)
{
	fake_sendf(conn, "%zx\r\n%s\r\n", strlen(text), text);
}

static const char *answer_event(const char *id)
{
	static char text[256];
	snprintf(text, sizeof(text), "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"ok\":true}}\n\n", id);
	return text;
}

/* -- H3 */

static void script_stream(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	static const char before[] =
		": comment\n\n"
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
	fake_sendf(request->conn, EVENT_STREAM "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":-1.5,\"message\":\"\\u00e4\"}}\r\r",
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
	fake_sendf(request->conn, EVENT_STREAM "data: {\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"b\"}\n\n%s",
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
	fake_send_text(request->conn, EVENT_STREAM "data: {\"jsonrpc\":\"2.0\",\"method\":\"n/ack\"}\n\n: keep-alive\n\n");
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
		fake_send_text(request->conn,
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
		fake_send_text(request->conn, EVENT_STREAM "id: l1\nretry: 150\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\n"
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

/* -- H14 */

/* What an old server does; step is a bit set. */
enum { OLD_ABSOLUTE = 1, OLD_FOREIGN = 2, OLD_NO_STREAM = 4, OLD_SILENT = 8, OLD_401 = 16, OLD_POST_FAILS = 32, OLD_EARLY = 64 };
static const char *post_refusal = "404 Not Found", *post_refusal_body = "nothing here";

static void script_old(struct fake_http *server, const struct fake_request *request)
{
	bool get = request->method[0] == 'G';
	buf_addf(&fixture.asked, "%s %s;", request->method, request->target);
	if (get && fixture.step & OLD_401) {
		fake_respond(request->conn, "401 Unauthorized", "WWW-Authenticate: Bearer x\r\n", "who?");
	} else if (get && fixture.step & OLD_NO_STREAM) {
		fake_respond(request->conn, "404 Not Found", "", "no stream either");
	} else if (get) {
		fixture.held = request->conn;
		fake_send_text(request->conn, CHUNKED_STREAM);
		char event[256];
		snprintf(event, sizeof(event), "event: endpoint\r\ndata: %s%s\r\n\r\n",
			 fixture.step & OLD_FOREIGN ? "http://127.0.0.2:80" : "", "/messages?sessionId=5");
		if (fixture.step & OLD_ABSOLUTE)
			snprintf(event, sizeof(event), "event: endpoint\ndata: HTTP://127.0.0.1:%d/messages?sessionId=5\n\n", server->port);
		if (!(fixture.step & OLD_SILENT))
			send_chunk(request->conn, event);
	} else if (strcmp(request->target, "/messages?sessionId=5") != 0) {
		fake_respond(request->conn, post_refusal, "", post_refusal_body);
	} else if (fixture.step & OLD_POST_FAILS) {
		fake_respond(request->conn, "400 Bad Request", "", "bad");
	} else {
		const char *id = fake_id(request);
		if (fixture.step & OLD_EARLY)
			send_chunk(fixture.held, answer_event(id));
		fake_respond(request->conn, "202 Accepted", "", "Accepted");
		if (!(fixture.step & OLD_EARLY) && strcmp(id, "null") != 0)
			send_chunk(fixture.held, answer_event(id));
	}
}

static void open_old(unsigned step)
{
	fixture_start(script_old);
	fixture.step = step;
	fixture_make(NULL, &(struct http_options){ .timeout_ms = 30000, .sse = true });
	fixture_connect();
}

START_TEST(H14_requests_go_to_the_endpoint_and_answers_come_on_the_stream)
{
	static const unsigned steps[] = { 0, OLD_ABSOLUTE, OLD_EARLY };
	for (unsigned i = 0; i < 3; i++) {
		struct call c = { 0 }, n = { 0 };
		open_old(steps[i]);
		ck_assert_int_eq(fixture.connect_code, 0);
		ask_done(&c, "initialize");
		ck_assert_int_eq(c.code, 0);
		ck_assert_str_eq(c.result, "{\"ok\":true}");
		notify(&n, "notifications/initialized");
		UNTIL(n.done);
		ck_assert_int_eq(n.code, 0);
		ck_assert_str_eq(asked(), "GET /mcp;POST /messages?sessionId=5;POST /messages?sessionId=5;");
		send_chunk(fixture.held, "data: {\"jsonrpc\":\"2.0\",\"id\":9,\"method\":\"ping\"}\n\ndata: {bad\n\n"
					 "data: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\n");
		UNTIL(strstr(logged(), "notification"));
		ck_assert(strstr(logged(), "request 9 \"ping\" on 0;error Invalid JSON in the event: "));
		call_free(&c);
		call_free(&n);
		fixture_close();
	}
}
END_TEST

/* Takes the POST and never answers on the stream. */
static void script_accept(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	fake_respond(request->conn, "202 Accepted", "", "");
}

START_TEST(H14_the_streams_end_is_the_connections_end)
{
	struct call c = { 0 };
	open_old(0);
	fixture.server.script = script_accept;
	ask(&c, "x");
	UNTIL(fixture.server.requests == 2);
	fake_conn_close(fixture.held);
	UNTIL(fixture.closed);
	ck_assert_str_eq(c.message, "Transport closed");
	ck_assert(c.sent);
	ck_assert_str_eq(logged(), "done;close;");
	ck_assert(strstr(fixture.close_reason, "127.0.0.1"));
	ck_assert(!transport_is_connected(fixture.transport));
	call_free(&c);
	fixture_close();
}
END_TEST

START_TEST(H14_an_endpoint_of_another_origin_is_refused)
{
	open_old(OLD_FOREIGN);
	ck_assert_int_eq(fixture.connect_code, MCPD_E_PROTOCOL);
	ck_assert(strstr(fixture.connect_message, "its endpoint \"http://127.0.0.2:80/messages?***\" is not of the same origin"));
	ck_assert(!transport_is_connected(fixture.transport));
	fixture_close();
}
END_TEST

START_TEST(H14_connect_fails_with_the_reason)
{
	open_old(OLD_NO_STREAM);
	ck_assert_int_eq(fixture.connect_code, MCPD_E_HTTP);
	ck_assert_str_eq(fixture.connect_message, "HTTP 404: no stream either");
	fixture_close();
	open_old(OLD_401);
	ck_assert_int_eq(fixture.connect_code, MCPD_E_NEEDS_AUTH);
	ck_assert_str_eq(fixture.connect_message, "HTTP 401: who? [WWW-Authenticate: Bearer x]");
	fixture_close();
	fixture_start(script_old);
	fixture.step = OLD_SILENT;
	fixture_make(NULL, &(struct http_options){ .sse = true, .connect_timeout_ms = 60 });
	fixture_connect();
	ck_assert_int_eq(fixture.connect_code, MCPD_E_TIMEOUT);
	ck_assert(strstr(fixture.connect_message, "no \"endpoint\" event after 60ms"));
	fixture_close();
	fixture_start(NULL);
	fixture_make("http://127.0.0.1:1/sse", &(struct http_options){ .sse = true });
	fixture_connect();
	ck_assert_int_eq(fixture.connect_code, MCPD_E_TRANSPORT);
	ck_assert_str_eq(fixture.connect_message, "http://127.0.0.1:1/sse: cannot connect (Connection refused)");
	fixture_close();
}
END_TEST

START_TEST(H14_a_refused_POST_fails_its_request_alone)
{
	struct call c = { 0 };
	open_old(OLD_POST_FAILS);
	ask_done(&c, "x");
	ck_assert_int_eq(c.code, MCPD_E_HTTP);
	ck_assert_str_eq(c.message, "HTTP 400: bad");
	ck_assert(transport_is_connected(fixture.transport));
	call_free(&c);
	fixture_close();
}
END_TEST

START_TEST(H14_a_late_answer_is_told_as_such)
{
	struct call c = { 0 };
	open_old(0);
	fixture.server.script = script_accept;
	ask(&c, "x");
	UNTIL(fixture.server.requests == 2);
	transport_cancel(fixture.transport, c.number, "no");
	UNTIL(c.done);
	ck_assert(c.sent);
	send_chunk(fixture.held, answer_event("\"m-1\""));
	UNTIL(strstr(logged(), "late 1;"));
	call_free(&c);
	fixture_close();
}
END_TEST

static void initialize(struct call *c)
{
	struct transport_options options = call_options(c);
	options.handshake = true;
	ask_with(c, "initialize", "{}", &options);
	UNTIL(c->done);
}

START_TEST(H14_http_falls_back_when_initialize_is_refused)
{
	static const char *const statuses[] = { "400 Bad Request", "404 Not Found", "405 Method Not Allowed" };
	for (unsigned i = 0; i < 3; i++) {
		struct call c = { 0 }, d = { 0 };
		fixture_open(script_old);
		post_refusal = statuses[i];
		post_refusal_body = "Cannot POST";
		initialize(&c);
		ck_assert_int_eq(c.code, 0);
		ck_assert_str_eq(c.result, "{\"ok\":true}");
		ask_done(&d, "tools/list");
		ck_assert_int_eq(d.code, 0);
		ck_assert_str_eq(asked(), "POST /mcp;GET /mcp;POST /messages?sessionId=5;POST /messages?sessionId=5;");
		fake_conn_close(fixture.held);
		UNTIL(fixture.closed);
		call_free(&c);
		call_free(&d);
		fixture_close();
	}
}
END_TEST

START_TEST(H14_without_an_old_server_the_first_refusal_stands)
{
	static const unsigned steps[] = { OLD_NO_STREAM, OLD_401, OLD_FOREIGN };
	for (unsigned i = 0; i < 3; i++) {
		struct call c = { 0 };
		fixture_open(script_old);
		fixture.step = steps[i];
		post_refusal = "404 Not Found";
		post_refusal_body = "nothing here";
		initialize(&c);
		ck_assert_int_eq(c.code, MCPD_E_HTTP);
		ck_assert_str_eq(c.message, "HTTP 404: nothing here");
		ck_assert_str_eq(asked(), "POST /mcp;GET /mcp;");
		ck_assert(transport_is_connected(fixture.transport));
		call_free(&c);
		fixture_close();
	}
}
END_TEST

START_TEST(H14_no_fall_back_on_auth_or_a_modern_error_or_another_method)
{
	static const struct {
		const char *status, *body, *method;
		bool modern;
	} rows[] = {
		{ "401 Unauthorized", "", "initialize", false },
		{ "403 Forbidden", "", "initialize", false },
		{ "500 Oops", "", "initialize", false },
		{ "400 Bad Request", "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32022,\"message\":\"v\"}}", "initialize", true },
		{ "400 Bad Request", "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32020,\"message\":\"h\"}}", "initialize", true },
		{ "404 Not Found", "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601,\"message\":\"m\"}}", "initialize", true },
		{ "404 Not Found", "", "server/discover", false },
		{ "404 Not Found", "", "tools/list", false },
	};
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct call c = { 0 };
		fixture_open(script_old);
		post_refusal = rows[i].status;
		post_refusal_body = rows[i].body;
		struct transport_options options = call_options(&c);
		options.handshake = true;
		ask_with(&c, rows[i].method, "{}", &options);
		UNTIL(c.done);
		ck_assert_int_eq(c.code, i == 0 ? MCPD_E_NEEDS_AUTH : MCPD_E_HTTP);
		ck_assert(c.era_modern == rows[i].modern);
		ck_assert_str_eq(c.body, rows[i].body);
		ck_assert_str_eq(asked(), "POST /mcp;");
		call_free(&c);
		fixture_close();
	}
}
END_TEST

START_TEST(H14_giving_up_initialize_ends_the_fall_back)
{
	struct call c = { 0 };
	fixture_open(script_old);
	fixture.step = OLD_SILENT;
	post_refusal = "404 Not Found";
	struct transport_options options = call_options(&c);
	options.handshake = true;
	options.timeout_ms = 100;
	ask_with(&c, "initialize", "{}", &options);
	UNTIL(c.done && fixture.server.hangups > 0);
	ck_assert_str_eq(c.message, "Request timeout after 100ms");
	call_free(&c);
	fixture_close();
}
END_TEST

START_TEST(H14_endpoints)
{
	static const struct {
		const char *base, *endpoint, *resolved;
	} rows[] = {
		{ "http://h:8080/a/sse", "/messages?x=1", "http://h:8080/messages?x=1" },
		{ "http://h:8080/a/sse", "messages", "http://h:8080/a/messages" },
		{ "http://h/a", "http://h/b", "http://h/b" },
		{ "http://h/a", "http://H:80/b", "http://H:80/b" },
		{ "https://h/a", "https://h:443/b", "https://h:443/b" },
		{ "http://u:p@h/a", "/b", "http://u:p@h/b" },
		{ "http://u:p@h/a", "http://h/b", "http://u:p@h/b" },
		{ "http://h/a", "http://evil:pw@h/b", "http://h/b" },
		{ "http://h/a?token=1", "?session=2", "http://h/a?session=2" },
		{ "http://h/a", "/b#frag", "http://h/b" },
		{ "http://h/a", "https://h/b", NULL },
		{ "http://h/a", "http://h:81/b", NULL },
		{ "http://h/a", "http://h.evil/b", NULL },
		{ "http://h/a", "//other/b", NULL },
		{ "http://h/a", "http://h@other/b", NULL },
		{ "http://h/a", "file:///etc/passwd", NULL },
		{ "http://h/a", "", NULL },
	};
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		char *resolved = http_sse_resolve(rows[i].base, rows[i].endpoint);
		if (rows[i].resolved)
			ck_assert_msg(resolved && strcmp(resolved, rows[i].resolved) == 0, "%s: %s", rows[i].endpoint,
				      resolved ? resolved : "refused");
		else
			ck_assert_msg(!resolved, "%s: %s", rows[i].endpoint, resolved);
		free(resolved);
	}
}
END_TEST

int main(void)
{
	return RUN_HTTP_TESTS("http_streams", NULL, 0,
			      H3_the_answer_completes_the_request_before_the_stream_ends,
			      H3_a_stream_that_does_not_end_after_its_answer_is_closed,
			      H3_an_error_answers_too,
			      H10_a_malformed_event_fails_the_request_of_its_stream,
			      L3_nothing_is_told_after_a_close_in_a_notification,
			      C5_cancelling_closes_the_stream,
			      H4_R32_a_stream_without_the_answer,
			      H4a_a_stream_with_event_ids_is_resumed_after_its_retry,
			      H4a_resuming_in_vain_comes_to_an_end,
			      H4a_not_in_the_modern_era,
			      H4a_within_the_requests_timeout,
			      H4a_a_server_that_cannot_resume,
			      H11_R33_the_listener_is_opened_told_of_and_opened_again,
			      H8_close_ends_the_listener_without_a_word,
			      H11_405_switches_it_off_silently,
			      H10_every_other_end_of_the_listener_is_an_error,
			      H11_no_listener_in_the_modern_era,
			      H14_requests_go_to_the_endpoint_and_answers_come_on_the_stream,
			      H14_the_streams_end_is_the_connections_end,
			      H14_an_endpoint_of_another_origin_is_refused,
			      H14_connect_fails_with_the_reason,
			      H14_a_refused_POST_fails_its_request_alone,
			      H14_a_late_answer_is_told_as_such,
			      H14_http_falls_back_when_initialize_is_refused,
			      H14_without_an_old_server_the_first_refusal_stands,
			      H14_no_fall_back_on_auth_or_a_modern_error_or_another_method,
			      H14_giving_up_initialize_ends_the_fall_back,
			      H14_endpoints);
}
