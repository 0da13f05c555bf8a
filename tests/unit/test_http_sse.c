/* HTTP+SSE of 2024-11-05: as `type: "sse"`, and as what `http` falls back to (contract H14). */
#include "http_fixture.h"

#include "transport/http_sse.h"

/* -- H14 */

/* What an old server does; step is a bit set. */
enum {
	OLD_ABSOLUTE = 1,
	OLD_FOREIGN = 2,
	OLD_NO_STREAM = 4,
	OLD_SILENT = 8,
	OLD_401 = 16,
	OLD_POST_FAILS = 32,
	OLD_EARLY = 64
};
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
			snprintf(event, sizeof(event),
				 "event: endpoint\ndata: HTTP://127.0.0.1:%d/messages?sessionId=5\n\n", server->port);
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

/* All answers share the stream, so whose a malformed one was is told by its beginning. */
START_TEST(H10_a_malformed_event_fails_the_request_whose_answer_it_was)
{
	struct call spoilt = { 0 }, other = { 0 };
	open_old(0);
	fixture.server.script = script_accept;
	ask(&spoilt, "x");
	ask(&other, "y");
	UNTIL(fixture.server.requests == 3);
	send_chunk(fixture.held, "data: {\"jsonrpc\":\"2.0\",\"id\":\"m-1\",\"result\":NaN}\n\n");
	UNTIL(spoilt.done);
	ck_assert_int_eq(spoilt.code, MCPD_E_PROTOCOL);
	ck_assert(strstr(spoilt.message, "Invalid JSON in the event: "));
	ck_assert(spoilt.sent);
	ck_assert(!other.done);
	send_chunk(fixture.held, answer_event("\"m-2\""));
	UNTIL(other.done);
	ck_assert_int_eq(other.code, 0);
	call_free(&spoilt);
	call_free(&other);
	fixture_close();
}
END_TEST

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
	ck_assert(strstr(fixture.connect_message,
			 "its endpoint \"http://127.0.0.2:80/messages?***\" is not of the same origin"));
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
		{ "400 Bad Request", "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32022,\"message\":\"v\"}}",
		  "initialize", true },
		{ "400 Bad Request", "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32020,\"message\":\"h\"}}",
		  "initialize", true },
		{ "404 Not Found", "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601,\"message\":\"m\"}}",
		  "initialize", true },
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
	return RUN_HTTP_TESTS("http_sse", NULL, 0, H14_requests_go_to_the_endpoint_and_answers_come_on_the_stream,
			      H10_a_malformed_event_fails_the_request_whose_answer_it_was,
			      H14_the_streams_end_is_the_connections_end, H14_an_endpoint_of_another_origin_is_refused,
			      H14_connect_fails_with_the_reason, H14_a_refused_POST_fails_its_request_alone,
			      H14_a_late_answer_is_told_as_such, H14_http_falls_back_when_initialize_is_refused,
			      H14_without_an_old_server_the_first_refusal_stands,
			      H14_no_fall_back_on_auth_or_a_modern_error_or_another_method,
			      H14_giving_up_initialize_ends_the_fall_back, H14_endpoints);
}
