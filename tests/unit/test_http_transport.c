/* The HTTP transport: requests, answers, sessions (contract H1, H2, H5, I1). */
#include "http_fixture.h"

/* -- H1, H2 */

static void script_plain(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	buf_addf(&fixture.asked, "%s %s\n%s%s\n", request->method, request->target, request->head, request->body);
	answer_json(request, "{\"n\":1.10}");
}

START_TEST(H1_a_request_is_one_POST_of_one_object)
{
	struct call c = { 0 };
	fixture_start(script_plain);
	fixture_make(NULL,
		     &(struct http_options){ .timeout_ms = 30000,
					     .headers = (const char *const[]){ "X-Own: a b", "Authorization: Bearer t",
									       "X-Empty: ", NULL } });
	fixture_connect();
	ask_done(&c, "tools/list");
	ck_assert_int_eq(c.code, 0);
	ck_assert_str_eq(c.result, "{\"n\":1.10}");
	ck_assert(c.sent);
	ck_assert(strncmp(asked(), "POST /mcp\n", 10) == 0);
	ck_assert(strstr(asked(), "Content-Type: application/json\r\n"));
	ck_assert(strstr(asked(), "Accept: application/json, text/event-stream\r\n"));
	ck_assert(strstr(asked(), "X-Own: a b\r\n"));
	ck_assert(strstr(asked(), "X-Empty:\r\n"));
	ck_assert(strstr(asked(), "Authorization: Bearer t\r\n"));
	ck_assert(!strcasestr(asked(), "Accept-Encoding"));
	ck_assert(!strcasestr(asked(), "Expect"));
	ck_assert(!strcasestr(asked(), "Mcp-"));
	ck_assert(
		strstr(asked(), "\r\n{\"jsonrpc\":\"2.0\",\"id\":\"m-1\",\"method\":\"tools/list\",\"params\":{}}\n"));
	call_free(&c);
	fixture_close();
}
END_TEST

START_TEST(I1_ids_are_strings_and_never_the_same)
{
	struct call a = { 0 }, b = { 0 };
	fixture_open(script_plain);
	ask_done(&a, "x");
	ask_done(&b, "x");
	ck_assert_uint_ne(a.number, b.number);
	ck_assert(strstr(asked(), "\"id\":\"m-1\"") && strstr(asked(), "\"id\":\"m-2\""));
	/* R19: one connection does for both. */
	ck_assert_uint_eq(fixture.server.accepted, 1);
	call_free(&a);
	call_free(&b);
	fixture_close();
}
END_TEST

/* One row: a response, and what the request becomes. $ID stands for the id. */
struct answer_row {
	const char *status, *headers, *body;
	int code;
	const char *result, *message;
};

static const struct answer_row answer_rows[] = {
	{ "200 OK", JSON_TYPE, "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{\"a\":1}}", 0, "{\"a\":1}", NULL },
	{ "201 Created", "Content-Type: text/plain\r\n", "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":[]}", 0, "[]",
	  NULL },
	{ "200 OK", "", " \r\n\xef\xbb\xbf{\"result\" : -0,\n\"id\":$ID,\"jsonrpc\":\"2.0\"}\n", MCPD_E_PROTOCOL, NULL,
	  "Invalid JSON in the response: " },
	{ "200 OK", "", "\xef\xbb\xbf{\"result\" : -0,\n\"id\":$ID,\"jsonrpc\":\"2.0\"}\n", 0, "-0", NULL },
	{ "200 OK", JSON_TYPE,
	  "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"error\":{\"code\":-32602,\"message\":\"no \\\"x\\\"\"}}", MCPD_E_SERVER,
	  NULL, "MCP error -32602: no \"x\"" },
	{ "200 OK", JSON_TYPE, "{\"jsonrpc\":\"2.0\",\"id\":null,\"error\":{\"code\":-32700,\"message\":\"p\"}}",
	  MCPD_E_SERVER, NULL, "MCP error -32700: p" },
	{ "200 OK", JSON_TYPE, "{\"jsonrpc\":\"2.0\",\"error\":{\"code\":1,\"message\":\"p\"}}", MCPD_E_SERVER, NULL,
	  "MCP error 1: p" },
	{ "202 Accepted", "", "", MCPD_E_PROTOCOL, NULL, "Invalid JSON in the response: " },
	{ "200 OK", JSON_TYPE, "{not json", MCPD_E_PROTOCOL, NULL, "Invalid JSON in the response: " },
	{ "200 OK", JSON_TYPE, "<html>", MCPD_E_PROTOCOL, NULL, "Invalid JSON in the response: " },
	{ "200 OK", JSON_TYPE, "{\"jsonrpc\":\"2.0\",\"id\":\"other\",\"result\":{}}", MCPD_E_PROTOCOL, NULL,
	  "No response received for request ID m-1" },
	{ "200 OK", JSON_TYPE, "{}", MCPD_E_PROTOCOL, NULL, "No response received for request ID m-1" },
	{ "200 OK", JSON_TYPE, "[{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{}}]", MCPD_E_PROTOCOL, NULL,
	  "No response received for request ID m-1" },
	{ "200 OK", JSON_TYPE "Content-Encoding: gzip\r\n", "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{}}",
	  MCPD_E_PROTOCOL, NULL, "The response has Content-Encoding gzip, which was not asked for" },
	{ "200 OK", JSON_TYPE "Content-Encoding: identity\r\n", "{\"jsonrpc\":\"2.0\",\"id\":$ID,\"result\":{}}", 0,
	  "{}", NULL },
};
#define N_ANSWERS (sizeof(answer_rows) / sizeof(*answer_rows))

static char *with_id(const char *text, const char *id)
{
	const char *at = strstr(text, "$ID");
	char *out;
	ck_assert_int_ge(
		at ? asprintf(&out, "%.*s%s%s", (int)(at - text), text, id, at + 3) : asprintf(&out, "%s", text), 0);
	return out;
}

static void script_row(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	const struct answer_row *row = &answer_rows[fixture.step];
	char *body = with_id(row->body, fake_id(request));
	fake_respond(request->conn, row->status, row->headers, body);
	free(body);
}

START_TEST(H2_any_2xx_that_is_no_stream_is_one_response)
{
	const struct answer_row *row = &answer_rows[_i];
	struct call c = { 0 };
	fixture_open(script_row);
	fixture.step = (unsigned)_i;
	ask_done(&c, "tools/list");
	ck_assert_int_eq(c.code, row->code);
	ck_assert(c.sent);
	if (row->result)
		ck_assert_str_eq(c.result, row->result);
	if (row->message)
		ck_assert_msg(strncmp(c.message, row->message, strlen(row->message)) == 0, "%s", c.message);
	call_free(&c);
	fixture_close();
}
END_TEST

static void script_batch(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	char body[512];
	snprintf(
		body, sizeof(body),
		"[{\"jsonrpc\":\"2.0\",\"method\":\"n\"},{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}},{\"jsonrpc\":\"2.0\",\"method\":\"m\"}]",
		fake_id(request));
	fake_respond(request->conn, "200 OK", JSON_TYPE, body);
}

START_TEST(S6_a_batch_is_taken_apart_for_2025_03_26)
{
	struct call c = { 0 };
	fixture_open(script_batch);
	transport_set_protocol(fixture.transport, "2025-03-26", false);
	ask_done(&c, "x");
	ck_assert_int_eq(c.code, 0);
	ck_assert_str_eq(logged(), "notification \"n\" ;done;");
	call_free(&c);
	fixture_close();
}
END_TEST

/* -- H5 */

static void script_session(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	const char *session = fake_header(request, "Mcp-Session-Id");
	buf_addf(&fixture.asked, "%s session=%s", request->method, session ? session : "-");
	const char *version = fake_header(request, "MCP-Protocol-Version");
	buf_addf(&fixture.asked, " version=%s", version ? version : "-");
	const char *method = fake_header(request, "Mcp-Method");
	buf_addf(&fixture.asked, " method=%s", method ? method : "-");
	const char *name = fake_header(request, "Mcp-Name");
	buf_addf(&fixture.asked, " name=%s;", name ? name : "-");
	if (request->method[0] == 'D') {
		fake_respond(request->conn, "200 OK", "", "");
		return;
	}
	char body[256];
	snprintf(body, sizeof(body), "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}", fake_id(request));
	char headers[128];
	snprintf(headers, sizeof(headers), JSON_TYPE "mcp-session-id: s%u\r\n", ++fixture.step);
	fake_respond(request->conn, "200 OK", headers, body);
}

START_TEST(H5_legacy_sessions_are_stored_and_sent)
{
	struct call c = { 0 };
	fixture_open(script_session);
	ask_handshake("initialize", "{}");
	transport_set_protocol(fixture.transport, "2025-11-25", false);
	notify(&c, "notifications/initialized");
	UNTIL(c.done);
	call_free(&c);
	ask_done(&c, "tools/list");
	call_free(&c);
	/* initialize carries none, also if there is one. */
	ask_handshake("initialize", "{}");
	transport_close(fixture.transport);
	UNTIL(fixture.closed);
	ck_assert_str_eq(asked(), "POST session=- version=- method=- name=-;"
				  "POST session=s1 version=2025-11-25 method=- name=-;"
				  "POST session=s2 version=2025-11-25 method=- name=-;"
				  "POST session=- version=- method=- name=-;"
				  "DELETE session=s4 version=2025-11-25 method=- name=-;");
	fixture_close();
}
END_TEST

#define META "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}"

START_TEST(H5_modern_requests_have_their_headers_and_no_session)
{
	struct call c = { 0 };
	fixture_open(script_session);
	ask_handshake("server/discover", "{" META "}");
	transport_set_protocol(fixture.transport, "2026-07-28", true);
	struct transport_options options = call_options(&c);
	options.headers = (const char *const[]){ "Mcp-Name: echo", NULL };
	ask_with(&c, "tools/call", "{\"name\":\"echo\"," META "}", &options);
	UNTIL(c.done);
	call_free(&c);
	notify(&c, "notifications/x");
	UNTIL(c.done);
	transport_close(fixture.transport);
	UNTIL(fixture.closed);
	ck_assert_str_eq(asked(), "POST session=- version=2026-07-28 method=server/discover name=-;"
				  "POST session=- version=2026-07-28 method=tools/call name=echo;"
				  "POST session=- version=2026-07-28 method=notifications/x name=-;");
	call_free(&c);
	fixture_close();
}
END_TEST

START_TEST(H5_a_probe_leaves_no_session_behind)
{
	struct call c = { 0 };
	fixture_open(script_session);
	ask_handshake("server/discover", "{" META "}");
	ask_done(&c, "x");
	ck_assert(strstr(asked(), ";POST session=- version=- method=- name=-;"));
	call_free(&c);
	fixture_close();
}
END_TEST

int main(void)
{
	return RUN_HTTP_TESTS("http_transport", H2_any_2xx_that_is_no_stream_is_one_response, N_ANSWERS,
			      H1_a_request_is_one_POST_of_one_object, I1_ids_are_strings_and_never_the_same,
			      S6_a_batch_is_taken_apart_for_2025_03_26, H5_legacy_sessions_are_stored_and_sent,
			      H5_modern_requests_have_their_headers_and_no_session,
			      H5_a_probe_leaves_no_session_behind);
}
