/* The HTTP transport's failures: refusals, lost sessions, unreachable servers, TLS, limits (contract H9, H10; R30). */
#include "http_fixture.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

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
	{ "401 Unauthorized", "WWW-Authenticate: Bearer realm=\"a\"\r\nMcp-Auth-Server: https://as\r\n", "who?", MCPD_E_NEEDS_AUTH,
	  "HTTP 401: who? [WWW-Authenticate: Bearer realm=\"a\"; Mcp-Auth-Server: https://as]", false },
	{ "401 Unauthorized", "mcp-auth-server:x  \r\n", "who?", MCPD_E_NEEDS_AUTH, "HTTP 401: who? [Mcp-Auth-Server: x]", false },
	{ "401 Unauthorized", "", "who?", MCPD_E_NEEDS_AUTH, "HTTP 401: who?", false },
	{ "403 Forbidden", "WWW-Authenticate: Bearer error=\"insufficient_scope\"\r\n", "no", MCPD_E_HTTP,
	  "HTTP 403: no [WWW-Authenticate: Bearer error=\"insufficient_scope\"]", true },
	{ "307 Temporary Redirect", "Location: https://u:p@elsewhere/x?token=1\r\n", "", MCPD_E_HTTP,
	  "HTTP 307: Temporary Redirect [Location: https://***@elsewhere/x?***; redirects are not followed: set \"url\" to where the server is]",
	  true },
	{ "302 Found", "Location: /other\r\n", "moved", MCPD_E_HTTP,
	  "HTTP 302: moved [Location: /other; redirects are not followed: set \"url\" to where the server is]", true },
	{ "400 Bad Request", JSON_TYPE, "{\"jsonrpc\":\"2.0\",\"id\":\"m-1\",\"error\":{\"code\":-32602,\"message\":\"m\"}}", MCPD_E_HTTP,
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
	{ "404 Not Found", "", "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32001,\"message\":\"Session not found\"}}", true, true },
	{ "404 Not Found", "", "{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32601,\"message\":\"Method not found\"}}", false, false },
	{ "400 Bad Request", "", "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32000,\"message\":\"Bad Request: No valid session ID provided\"}}", true, true },
	{ "400 Bad Request", "", "Bad Request: Server not initialized", true, true },
	{ "400 Bad Request", "", "Missing session ID", true, true },
	{ "400 Bad Request", "", "Invalid params", false, false },
	{ "400 Bad Request", "", "your session of tennis", false, false },
	{ "401 Unauthorized", "", "{\"error\":{\"code\":-32001,\"message\":\"Session expired\"}}", true, true },
	{ "401 Unauthorized", "WWW-Authenticate: Bearer\r\n", "{\"error\":{\"code\":-32001,\"message\":\"Session expired\"}}", false, false },
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
		fake_respond(request->conn, "200 OK", JSON_TYPE "Mcp-Session-Id: s1\r\n", "{\"jsonrpc\":\"2.0\",\"id\":\"m-1\",\"result\":{}}");
	else if (request->method[0] == 'D')
		fake_respond(request->conn, "200 OK", "", "");
	else
		fake_respond(request->conn, row->status, row->headers, row->body);
}

static void initialize(void)
{
	struct call c = { 0 };
	struct transport_options options = call_options(&c);
	options.handshake = true;
	ask_with(&c, "initialize", "{}", &options);
	UNTIL(c.done);
	ck_assert_int_eq(c.code, 0);
	call_free(&c);
}

START_TEST(R30_a_lost_session_is_told)
{
	for (unsigned i = 0; i < N_SESSIONS; i++) {
		const struct session_row *row = &session_rows[i];
		struct call a = { 0 }, b = { 0 }, c = { 0 }, n = { 0 };
		fixture_open(script_session);
		fixture.step = i;
		initialize();
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
	initialize();
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
	ck_assert_msg(strncmp(c.message, "http://***@no-such-host.invalid/mcp?***: no such host", 53) == 0, "%s", c.message);
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
	ck_assert_msg(strstr(b.message, "https://example.invalid/mcp: the proxy refused") && strstr(b.message, "407"), "%s", b.message);
	unsetenv("http_proxy");
	unsetenv("https_proxy");
	call_free(&a);
	call_free(&b);
	fixture_close();
}
END_TEST

/* -- TLS: certificates made here, `openssl s_server` at the other end */

static char tls_dir[] = "/tmp/mcpd-test-tls-XXXXXX";

static void run(const char *format, ...)
{
	char command[1024];
	va_list args;
	va_start(args, format);
	vsnprintf(command, sizeof(command), format, args);
	va_end(args);
	ck_assert_msg(system(command) == 0, "%s", command);
}

static void make_certificate(const char *name, const char *host, const char *days)
{
	run("cd %s && openssl req -newkey rsa:2048 -nodes -keyout %s.key -subj /CN=%s -out %s.csr 2>/dev/null && "
	    "printf 'subjectAltName=%s' > %s.ext && "
	    "openssl x509 -req -in %s.csr -CA ca.pem -CAkey ca.key -CAcreateserial %s -extfile %s.ext -out %s.pem 2>/dev/null",
	    tls_dir, name, name, name, host, name, name, days, name, name);
}

static void make_certificates(void)
{
	ck_assert_ptr_nonnull(mkdtemp(tls_dir));
	run("cd %s && openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -subj /CN=test-ca -days 2 -out ca.pem 2>/dev/null", tls_dir);
	make_certificate("good", "DNS:localhost,IP:127.0.0.1", "-days 2");
	make_certificate("other", "DNS:other.example", "-days 2");
	/* Ended yesterday. */
	make_certificate("old", "DNS:localhost,IP:127.0.0.1", "-days -1");
}

static int free_port(void)
{
	struct fake_http server;
	fake_http_start(&server, 0, NULL, NULL);
	int port = server.port;
	fake_http_stop(&server);
	return port;
}

/* Without connecting, which would use up the one answer. */
static bool is_listening(int port)
{
	char line[512], wanted[40];
	bool found = false;
	FILE *f = fopen("/proc/net/tcp", "r");
	snprintf(wanted, sizeof(wanted), ":%04X 00000000:0000 0A", port);
	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, wanted) != NULL;
	if (f)
		fclose(f);
	return found;
}

/* Whatever is asked, the answer is that of request m-1. */
static pid_t start_tls_server(const char *certificate, int port)
{
	char command[1024];
	snprintf(command, sizeof(command),
		 "cd %s && { printf 'HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: 40\\r\\n\\r\\n"
		 "{\"jsonrpc\":\"2.0\",\"id\":\"m-1\",\"result\":{}}'; sleep 60; } | "
		 "exec openssl s_server -quiet -accept 127.0.0.1:%d -cert %s.pem -key %s.key >/dev/null 2>&1",
		 tls_dir, port, certificate, certificate);
	pid_t pid = fork();
	if (pid == 0) {
		setpgid(0, 0);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	for (int64_t until = loop_now_ms() + PATIENCE_MS; loop_now_ms() < until; usleep(20000))
		if (is_listening(port))
			return pid;
	ck_abort_msg("openssl s_server does not start");
	return -1;
}

static void check_tls(const char *certificate, const char *ca_file, bool insecure, const char *message)
{
	struct call c = { 0 };
	char url[64], ca[128];
	int port = free_port();
	pid_t pid = start_tls_server(certificate, port);
	fixture_start(NULL);
	snprintf(url, sizeof(url), "https://127.0.0.1:%d/mcp", port);
	snprintf(ca, sizeof(ca), "%s/%s", tls_dir, ca_file ? ca_file : "");
	fixture_make(url, &(struct http_options){ .timeout_ms = 30000, .ca_file = ca_file ? ca : NULL, .insecure = insecure });
	fixture_connect();
	ask_done(&c, "x");
	if (message) {
		ck_assert_int_eq(c.code, MCPD_E_TRANSPORT);
		ck_assert(!c.sent);
		ck_assert_msg(strstr(c.message, message) && strncmp(c.message, url, strlen(url)) == 0, "%s", c.message);
	} else {
		ck_assert_msg(c.code == 0, "%s", c.message);
	}
	call_free(&c);
	fixture_close();
	kill(-pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

START_TEST(TLS_failures_are_told_apart)
{
	if (system("openssl version >/dev/null 2>&1") != 0)
		return;
	make_certificates();
	check_tls("good", "ca.pem", false, NULL);
	check_tls("good", NULL, false, "the server's certificate is not trusted");
	check_tls("good", NULL, true, NULL);
	check_tls("other", "ca.pem", false, "the server's certificate is for another host");
	check_tls("old", "ca.pem", false, "the server's certificate has expired");
	check_tls("old", "ca.pem", true, NULL);
	check_tls("good", "missing.pem", false, "\"caFile\" cannot be read");
	run("rm -r %s", tls_dir);
}
END_TEST

START_TEST(TLS_towards_a_server_that_speaks_none)
{
	struct call c = { 0 };
	char url[64];
	fixture_start(script_refuse);
	snprintf(url, sizeof(url), "https://127.0.0.1:%d/mcp", fixture.server.port);
	fixture_make(url, NULL);
	fixture_connect();
	ask(&c, "x");
	UNTIL(fixture.server.accepted == 1);
	fake_send_text(&fixture.server.conns[0], "HTTP/1.1 400 Bad Request\r\n\r\n");
	UNTIL(c.done);
	ck_assert_msg(strstr(c.message, ": TLS failed ("), "%s", c.message);
	call_free(&c);
	fixture_close();
}
END_TEST

/* -- limits */

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
	static const char filler[] = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
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
		fake_sendf(request->conn, "X-%d: %s\r\n", i, fixture.step ? "yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy" : "1");
	fake_sendf(request->conn, "Content-Length: 40\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}", fake_id(request));
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
			ck_assert_msg(strstr(c.message, "more header lines than maxHttpHeaders (100)"), "%s", c.message);
		if (round == 1)
			ck_assert_msg(strstr(c.message, "headers longer than maxHttpHeaderBytes (700)"), "%s", c.message);
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
			fixture.step == 1	       ? "HTTP/1.1 500 Oops\r\nContent-Length: 100\r\n\r\nboo" :
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
		ck_assert_str_eq(c.message, step == 0 ? "The response stopped in the middle: nothing came for 100ms (httpIdleMs)" :
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
			ck_assert_str_eq(calls[i].message,
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

/* A child process floods, so that it never waits for us: 200,000 events as fast as they go. Calls beside it are answered all the while. */
START_TEST(a_flood_of_events_is_told_in_bounded_memory_and_harms_no_other)
{
	enum { EVENTS = 200000 };
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
		static const char event[] = "data: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"n\":1}}\n\n";
		fcntl(fixture.held->fd, F_SETFL, 0);
		fake_send_text(fixture.held, EVENT_STREAM);
		struct buf many = BUF_INIT;
		for (int i = 0; i < 1000; i++)
			buf_add_text(&many, event);
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
	ck_assert_uint_lt(resident_bytes(), before + (48u << 20));
#endif
	waitpid(pid, NULL, 0);
	fixture_close();
	call_free(&flood);
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
		{ 400, "{\"error\":{\"code\":-32020}}", true },	 { 400, "{\"error\":{\"code\":-32021}}", true },
		{ 405, "{\"error\":{\"code\":-32022}}", true },	 { 400, "{\"error\":{\"code\":-32023}}", false },
		{ 400, "{\"error\":{\"code\":-32000}}", false }, { 404, "{\"error\":{\"code\":-32601}}", true },
		{ 400, "{\"error\":{\"code\":-32601}}", false }, { 401, "{\"error\":{\"code\":-32022}}", false },
		{ 403, "{\"error\":{\"code\":-32022}}", false }, { 500, "{\"error\":{\"code\":-32022}}", false },
		{ 400, "{\"error\":\"-32022\"}", false },	 { 400, "-32022", false },
		{ 400, "", false },				 { 400, "{\"error\":{\"code\":-32022}", false },
	};
	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		ck_assert_msg(http_is_modern_error(rows[i].status, span_of(rows[i].body)) == rows[i].modern, "%d %s",
			      rows[i].status, rows[i].body);
}
END_TEST

int main(void)
{
	return RUN_HTTP_TESTS("http_errors", H9_a_refusal_is_told_with_its_text_and_hints, N_REFUSALS,
			      H9_a_modern_servers_error_answer_is_an_answer,
			      R30_a_lost_session_is_told,
			      R30_without_a_session_none_is_lost,
			      R30_the_listener_notices_too,
			      unknown_hosts_are_told_without_secrets,
			      bad_urls_are_told,
			      a_connect_timeout_has_its_own_words,
			      proxies_come_from_the_environment,
			      TLS_failures_are_told_apart,
			      TLS_towards_a_server_that_speaks_none,
			      a_response_or_event_over_maxMessageBytes_fails_its_request,
			      header_lines_and_bytes_are_limited,
			      requests_to_one_server_are_limited,
			      unsent_bytes_to_one_server_are_limited,
			      an_errors_text_is_cut,
			      a_response_that_stalls_is_given_up_but_a_silent_stream_is_not,
			      unfinished_responses_of_one_server_share_a_budget,
			      a_flood_of_events_is_told_in_bounded_memory_and_harms_no_other,
			      media_types,
			      modern_errors);
}
