/* The HTTP transport's failures: refusals, lost sessions, servers that cannot be reached (contract H9; R30). */
#include "http_fixture.h"

#include "transport/http_reply.h"

/* -- H9 */

struct refusal_row {
	const char *status, *headers, *body;
	int code;
	const char *message;
	bool sent;
};

static const struct refusal_row refusal_rows[] = {
	{ "500 Internal Server Error", "", "boom", MCPD_E_HTTP, "HTTP 500: boom", true },
	{ "404 Not Found", "", " nothing\r\nhere \n", MCPD_E_HTTP, "HTTP 404: nothing\r\nhere", true },
	{ "404 Not Found", "", "", MCPD_E_HTTP, "HTTP 404: Not Found", true },
	{ "401 Unauthorized", "WWW-Authenticate: Bearer realm=\"a\"\r\nMcp-Auth-Server: https://as\r\n", "who?",
	  MCPD_E_NEEDS_AUTH, "HTTP 401: who? [WWW-Authenticate: Bearer realm=\"a\"; Mcp-Auth-Server: https://as]",
	  false },
	{ "401 Unauthorized", "mcp-auth-server:x  \r\n", "who?", MCPD_E_NEEDS_AUTH,
	  "HTTP 401: who? [Mcp-Auth-Server: x]", false },
	{ "401 Unauthorized", "", "who?", MCPD_E_NEEDS_AUTH, "HTTP 401: who?", false },
	{ "403 Forbidden", "WWW-Authenticate: Bearer error=\"insufficient_scope\"\r\n", "no", MCPD_E_HTTP,
	  "HTTP 403: no [WWW-Authenticate: Bearer error=\"insufficient_scope\"]", true },
	{ "307 Temporary Redirect", "Location: https://u:p@elsewhere/x?token=1\r\n", "", MCPD_E_HTTP,
	  "HTTP 307: Temporary Redirect [Location: https://***@elsewhere/x?***; redirects are not followed: set \"url\" to where the server is]",
	  true },
	{ "302 Found", "Location: /other\r\n", "moved", MCPD_E_HTTP,
	  "HTTP 302: moved [Location: /other; redirects are not followed: set \"url\" to where the server is]", true },
	{ "400 Bad Request", JSON_TYPE,
	  "{\"jsonrpc\":\"2.0\",\"id\":\"m-1\",\"error\":{\"code\":-32602,\"message\":\"m\"}}", MCPD_E_HTTP,
	  "HTTP 400: {\"jsonrpc\":\"2.0\",\"id\":\"m-1\",\"error\":{\"code\":-32602,\"message\":\"m\"}}", true },
};
#define N_REFUSALS (sizeof(refusal_rows) / sizeof(*refusal_rows))

static void script_refuse(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	const struct refusal_row *row = &refusal_rows[fixture.step];
	fake_respond(request->conn, row->status, row->headers, row->body);
}

START_TEST(H9_a_refusal_is_told_with_its_text_and_hints)
{
	const struct refusal_row *row = &refusal_rows[_i];
	struct call c = { 0 };
	fixture_open(script_refuse);
	fixture.step = (unsigned)_i;
	ask_done(&c, "x");
	ck_assert_int_eq(c.code, row->code);
	ck_assert_str_eq(c.message, row->message);
	ck_assert_int_eq(c.http_status, atoi(row->status));
	ck_assert_str_eq(c.body, row->body);
	ck_assert(c.sent == row->sent);
	ck_assert(!c.session_lost && !c.era_modern);
	if (strstr(row->headers, "WWW-Auth"))
		ck_assert(strstr(row->headers, c.www_authenticate));
	else
		ck_assert_ptr_null(c.www_authenticate);
	ck_assert((c.mcp_auth_server != NULL) == (strcasestr(row->headers, "mcp-auth") != NULL));
	/* No redirect was followed. */
	ck_assert_uint_eq(fixture.server.requests, 1);
	call_free(&c);
	fixture_close();
}
END_TEST

static void script_modern_error(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	char body[256];
	snprintf(body, sizeof(body), "{\"jsonrpc\":\"2.0\",\"id\":%s,\"error\":{\"code\":%d,\"message\":\"m\"}}",
		 fixture.step == 2 ? "\"x\"" : fake_id(request), fixture.step == 1 ? -32601 : -32020);
	fake_respond(request->conn, fixture.step == 1 ? "404 Not Found" : "400 Bad Request", JSON_TYPE, body);
}

START_TEST(H9_a_modern_servers_error_answer_is_an_answer)
{
	for (unsigned step = 0; step < 3; step++) {
		struct call c = { 0 };
		fixture_open(script_modern_error);
		fixture.step = step;
		transport_set_protocol(fixture.transport, "2026-07-28", true);
		ask_done(&c, "tools/call");
		ck_assert_int_eq(c.code, step == 2 ? MCPD_E_HTTP : MCPD_E_SERVER);
		ck_assert_int_eq(c.http_status, step == 1 ? 404 : 400);
		if (step == 1)
			ck_assert_str_eq(c.message, "MCP error -32601: m");
		if (step == 2)
			ck_assert(c.era_modern);
		call_free(&c);
		fixture_close();
	}
}
END_TEST

/* -- R30 */

struct session_row {
	const char *status, *headers, *body;
	bool lost, repeatable;
};

static const struct session_row session_rows[] = {
	{ "404 Not Found", "", "", true, true },
	{ "404 Not Found", "",
	  "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32001,\"message\":\"Session not found\"}}", true,
	  true },
	{ "404 Not Found", "",
	  "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601,\"message\":\"Method not found\"}}", false, false },
	{ "400 Bad Request", "",
	  "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32000,\"message\":\"Bad Request: No valid session ID provided\"}}",
	  true, true },
	{ "400 Bad Request", "", "Bad Request: Server not initialized", true, true },
	{ "400 Bad Request", "", "Missing session ID", true, true },
	{ "400 Bad Request", "", "Invalid params", false, false },
	{ "400 Bad Request", "", "your session of tennis", false, false },
	{ "401 Unauthorized", "", "{\"error\":{\"code\":-32001,\"message\":\"Session expired\"}}", true, true },
	{ "401 Unauthorized", "WWW-Authenticate: Bearer\r\n",
	  "{\"error\":{\"code\":-32001,\"message\":\"Session expired\"}}", false, false },
	{ "503 Service Unavailable", "", "unknown session", true, false },
	{ "503 Service Unavailable", "", "overloaded", false, false },
	{ "500 Oops", "", "session not found", false, false },
};
#define N_SESSIONS (sizeof(session_rows) / sizeof(*session_rows))

static void script_session(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	const struct session_row *row = &session_rows[fixture.step];
	buf_addf(&fixture.asked, "%s;", request->method);
	if (fake_is(request, "initialize"))
		fake_respond(request->conn, "200 OK", JSON_TYPE "Mcp-Session-Id: s1\r\n",
			     "{\"jsonrpc\":\"2.0\",\"id\":\"m-1\",\"result\":{}}");
	else if (request->method[0] == 'D')
		fake_respond(request->conn, "200 OK", "", "");
	else
		fake_respond(request->conn, row->status, row->headers, row->body);
}

START_TEST(R30_a_lost_session_is_told)
{
	for (unsigned i = 0; i < N_SESSIONS; i++) {
		const struct session_row *row = &session_rows[i];
		struct call a = { 0 }, b = { 0 }, c = { 0 }, n = { 0 };
		fixture_open(script_session);
		fixture.step = i;
		ask_handshake("initialize", "{}");
		ask(&a, "x");
		ask(&b, "y");
		UNTIL(a.done && b.done);
		ck_assert_msg(a.session_lost == row->lost, "row %u", i);
		ck_assert_msg(b.session_lost == row->lost, "row %u", i);
		if (row->lost)
			ck_assert_msg(a.sent == !row->repeatable, "row %u", i);
		ck_assert_int_eq(a.http_status, atoi(row->status));
		ck_assert_int_eq(a.code, strstr(row->headers, "WWW") ? MCPD_E_NEEDS_AUTH : MCPD_E_HTTP);
		/* Nothing more goes out without a session, and there is none to end. */
		ask(&c, "z");
		notify(&n, "z");
		UNTIL(c.done && n.done);
		ck_assert(c.session_lost == row->lost && n.session_lost == row->lost);
		ck_assert_str_eq(c.message, a.message);
		ck_assert_int_eq(c.http_status, a.http_status);
		if (row->lost)
			ck_assert(!c.sent && !n.sent);
		transport_close(fixture.transport);
		UNTIL(fixture.closed);
		ck_assert_str_eq(asked(), row->lost ? "POST;POST;POST;" : "POST;POST;POST;POST;POST;DELETE;");
		call_free(&a);
		call_free(&b);
		call_free(&c);
		call_free(&n);
		fixture_close();
	}
}
END_TEST

START_TEST(R30_without_a_session_none_is_lost)
{
	struct call c = { 0 };
	fixture_open(script_session);
	ask_done(&c, "x");
	ck_assert(!c.session_lost);
	call_free(&c);
	fixture_close();
}
END_TEST

START_TEST(R30_the_listener_notices_too)
{
	struct call c = { 0 };
	fixture_open(script_session);
	fixture.step = 5; /* 400 with a session error */
	ask_handshake("initialize", "{}");
	transport_listen(fixture.transport);
	UNTIL(strstr(logged(), "listener 404;"));
	ask_done(&c, "x");
	ck_assert(c.session_lost);
	call_free(&c);
	fixture_close();
}
END_TEST

/* -- servers that cannot be reached */

START_TEST(unknown_hosts_are_told_without_secrets)
{
	struct call c = { 0 };
	fixture_start(NULL);
	fixture_make("http://user:hunter2@no-such-host.invalid/mcp?token=hunter2", NULL);
	fixture_connect();
	ask_done(&c, "x");
	ck_assert_int_eq(c.code, MCPD_E_TRANSPORT);
	ck_assert(!c.sent);
	ck_assert_msg(strncmp(c.message, "http://***@no-such-host.invalid/mcp?***: no such host", 53) == 0, "%s",
		      c.message);
	ck_assert(!strstr(c.message, "hunter2"));
	call_free(&c);
	fixture_close();
}
END_TEST

START_TEST(bad_urls_are_told)
{
	static const char *const urls[] = { "ftp://127.0.0.1/x", "http://", "file:///etc/passwd" };
	for (unsigned i = 0; i < sizeof(urls) / sizeof(*urls); i++) {
		struct call c = { 0 };
		fixture_start(NULL);
		fixture_make(urls[i], NULL);
		fixture_connect();
		ask_done(&c, "x");
		ck_assert_msg(strstr(c.message, "this URL cannot be used"), "%s", c.message);
		call_free(&c);
		fixture_close();
	}
}
END_TEST

START_TEST(a_connect_timeout_has_its_own_words)
{
	struct call c = { 0 };
	char url[64];
	fixture_start(script_refuse);
	/* It accepts and never begins TLS, which is part of connecting. */
	snprintf(url, sizeof(url), "https://127.0.0.1:%d/mcp", fixture.server.port);
	fixture_make(url, &(struct http_options){ .timeout_ms = 30000, .connect_timeout_ms = 150 });
	fixture_connect();
	ask_done(&c, "x");
	ck_assert_int_eq(c.code, MCPD_E_TRANSPORT);
	ck_assert(!c.sent);
	ck_assert(strstr(c.message, ": no connection after 150ms"));
	call_free(&c);
	fixture_close();
}
END_TEST

static void script_proxy(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	buf_addf(&fixture.asked, "%s %s;", request->method, request->target);
	if (request->method[0] == 'C')
		fake_respond(request->conn, "407 Proxy Authentication Required", "", "");
	else
		answer_json(request, "{}");
}

START_TEST(proxies_come_from_the_environment)
{
	struct call a = { 0 }, b = { 0 };
	char proxy[64];
	fixture_start(script_proxy);
	snprintf(proxy, sizeof(proxy), "http://127.0.0.1:%d", fixture.server.port);
	setenv("http_proxy", proxy, 1);
	setenv("https_proxy", proxy, 1);
	fixture_make("http://example.invalid/mcp", NULL);
	fixture_connect();
	ask_done(&a, "x");
	ck_assert_int_eq(a.code, 0);
	ck_assert_str_eq(asked(), "POST http://example.invalid/mcp;");
	transport_close(fixture.transport);
	UNTIL(fixture.closed);
	transport_free(fixture.transport);
	fixture.closed = false;
	fixture.closes = fixture.connects = 0;
	fixture_make("https://example.invalid/mcp", NULL);
	fixture_connect();
	ask_done(&b, "x");
	ck_assert_int_eq(b.code, MCPD_E_TRANSPORT);
	ck_assert_msg(strstr(b.message, "https://example.invalid/mcp: the proxy refused") && strstr(b.message, "407"),
		      "%s", b.message);
	unsetenv("http_proxy");
	unsetenv("https_proxy");
	call_free(&a);
	call_free(&b);
	fixture_close();
}
END_TEST

/* -- pure functions */

START_TEST(media_types)
{
	ck_assert(http_is_media_type(span_of("text/event-stream"), "text/event-stream"));
	ck_assert(http_is_media_type(span_of(" Text/Event-Stream ; charset=utf-8"), "text/event-stream"));
	ck_assert(!http_is_media_type(span_of("text/event-streams"), "text/event-stream"));
	ck_assert(!http_is_media_type(span_of("application/json, text/event-stream"), "text/event-stream"));
	ck_assert(!http_is_media_type(span_of(""), "text/event-stream"));
	ck_assert(!http_is_media_type(SPAN_NONE, "text/event-stream"));
}
END_TEST

START_TEST(modern_errors)
{
	static const struct {
		int status;
		const char *body;
		bool modern;
	} rows[] = {
		{ 400, "{\"error\":{\"code\":-32020}}", true },
		{ 400, "{\"error\":{\"code\":-32021}}", true },
		{ 405, "{\"error\":{\"code\":-32022}}", true },
		{ 400, "{\"error\":{\"code\":-32023}}", false },
		{ 400, "{\"error\":{\"code\":-32000}}", false },
		{ 404, "{\"error\":{\"code\":-32601}}", true },
		{ 400, "{\"error\":{\"code\":-32601}}", false },
		{ 401, "{\"error\":{\"code\":-32022}}", false },
		{ 403, "{\"error\":{\"code\":-32022}}", false },
		{ 500, "{\"error\":{\"code\":-32022}}", false },
		{ 400, "{\"error\":\"-32022\"}", false },
		{ 400, "-32022", false },
		{ 400, "", false },
		{ 400, "{\"error\":{\"code\":-32022}", false },
	};
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		ck_assert_msg(http_is_modern_error(rows[i].status, span_of(rows[i].body)) == rows[i].modern, "%d %s",
			      rows[i].status, rows[i].body);
}
END_TEST

int main(void)
{
	return RUN_HTTP_TESTS("http_errors", H9_a_refusal_is_told_with_its_text_and_hints, N_REFUSALS,
			      H9_a_modern_servers_error_answer_is_an_answer, R30_a_lost_session_is_told,
			      R30_without_a_session_none_is_lost, R30_the_listener_notices_too,
			      unknown_hosts_are_told_without_secrets, bad_urls_are_told,
			      a_connect_timeout_has_its_own_words, proxies_come_from_the_environment, media_types,
			      modern_errors);
}
