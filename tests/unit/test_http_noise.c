/* The HTTP transport against servers that send rubbish, while requests are cancelled and the transport is closed at
 * any time: every operation ends exactly once, nothing leaks (house rule 4). The seed is fixed, so that a failure can
 * be had again. */
#include "http_fixture.h"

static uint64_t seed;

static unsigned chance(unsigned n)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(seed >> 33) % n;
}

static const char *const parts[] = {
	"HTTP/1.1 200 OK\r\n",
	"HTTP/1.1 202 Accepted\r\n",
	"HTTP/1.1 404 Not Found\r\n",
	"HTTP/1.1 100 Continue\r\n\r\n",
	"HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Bearer\r\n",
	"Content-Type: text/event-stream\r\n",
	"Content-Type: application/json\r\n",
	"Transfer-Encoding: chunked\r\n",
	"Content-Length: 40\r\n",
	"Mcp-Session-Id: s\r\n",
	"\r\n",
	"id: 1\nretry: 1\ndata:\n\n",
	"data: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\n",
	"data: {\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"r\"}\n\n",
	"data: {oops\n\n",
	"28\r\n",
	"0\r\n\r\n",
	"{\"jsonrpc\":\"2.0\",\"id\":\"m-1\",\"result\":{}}",
	"event: endpoint\ndata: /mcp\n\n",
	"\xff\xfe\x01garbage",
};
#define N_PARTS (sizeof(parts) / sizeof(*parts))

static void script_noise(struct fake_http *server, const struct fake_request *request)
{
	(void)server;
	struct fake_conn *conn = request->conn;
	/* Mostly a response that begins well. */
	if (chance(4)) {
		fake_send_text(conn, parts[chance(3)]);
		fake_send_text(conn, parts[5 + chance(2)]);
		if (chance(2))
			fake_send_text(conn, "Mcp-Session-Id: s\r\n");
		fake_send_text(conn, "\r\n");
	}
	for (unsigned n = chance(6); n > 0; n--)
		fake_send_text(conn, parts[chance(N_PARTS)]);
	if (chance(2))
		fake_sendf(conn, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{}}\n\n", fake_id(request));
	switch (chance(4)) {
	case 0:
		fake_conn_close(conn);
		break;
	case 1:
		fake_conn_reset(conn);
		break;
	}
}

static void start_something(struct call *c)
{
	struct transport_options options = call_options(c);
	static const char *const methods[] = { "initialize", "tools/call", "server/discover" };
	options.timeout_ms = 20 + chance(200);
	options.handshake = chance(3) == 0;
	if (chance(5) == 0)
		notify(c, "x");
	else
		ask_with(c, methods[chance(3)], "{}", &options);
}

static void round_of_noise(void)
{
	enum { N = 12 };
	struct call calls[N] = { { 0 } };
	fixture_start(script_noise);
	fixture_make(NULL,
		     &(struct http_options){ .timeout_ms = 300, .connect_timeout_ms = 200, .sse = chance(4) == 0 });
	fixture.free_on_close = chance(2);
	fixture.close_on_notification = chance(8) == 0;
	transport_connect(fixture.transport);
	for (int i = 0; i < N && fixture.transport; i++) {
		if (chance(3) == 0)
			transport_listen(fixture.transport);
		start_something(&calls[i]);
		for (unsigned n = chance(4); n > 0; n--)
			pass();
		if (fixture.transport && chance(3) == 0)
			transport_cancel(fixture.transport, calls[chance((unsigned)i + 1)].number, "r");
		if (fixture.transport && chance(6) == 0)
			transport_respond(fixture.transport, SPAN_LIT("1"), SPAN_LIT("{}"), SPAN_NONE);
		if (chance(20) == 0)
			curl_loop_reset(fixture.curl);
	}
	if (fixture.transport && chance(2))
		for (int i = 0; i < N; i++)
			UNTIL(calls[i].done || calls[i].number == 0);
	if (fixture.transport)
		transport_close(fixture.transport);
	UNTIL(fixture.closed);
	/* What was asked for after on_close fails too. */
	for (int i = 0; i < N && fixture.transport; i++)
		UNTIL(calls[i].done || calls[i].number == 0);
	for (int i = 0; i < N; i++) {
		ck_assert_msg(calls[i].number == 0 || calls[i].done == 1, "%d: %u", i, calls[i].done);
		call_free(&calls[i]);
	}
	fixture_close();
}

START_TEST(every_operation_ends_once_whatever_comes)
{
	seed = (uint64_t)_i + 1;
	for (int i = 0; i < 10; i++)
		round_of_noise();
}
END_TEST

int main(void)
{
	return RUN_HTTP_TESTS("http_noise", every_operation_ends_once_whatever_comes, 6, NULL);
}
