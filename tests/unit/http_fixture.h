/* A HTTP transport with a scripted server at its other end, for the test_http_*.c programs; what the transport tells
 * is written down. */
#pragma once

#include "loop/curl_loop.h"
#include "loop/loop.h"
#include "proto/buf.h"
#include "proto/errors.h"
#include "proto/jsonrpc.h"
#include "transport/http.h"

#include "tests/unit/fake_http.h"
#include "tests/unit/run.h"

#define PATIENCE_MS 20000

/* What became of an operation. */
struct call {
	unsigned done; /* how often its completion came */
	int code;
	bool sent, session_lost, era_modern;
	int http_status, limit;
	int64_t timeout_ms, max_timeout_ms;
	char *message, *result, *error, *body, *www_authenticate, *mcp_auth_server;
	struct fixture *fixture;
	uint64_t number;
};

struct fixture {
	struct loop *loop;
	struct curl_loop *curl;
	struct limits limits;
	struct fake_http server;
	struct transport *transport;
	struct buf log;   /* what was told, one text an event */
	struct buf asked; /* what the server was asked, written by scripts */
	bool closed;      /* on_close came */
	char *close_reason;
	bool free_on_close, close_on_notification;
	unsigned connects, closes;
	int connect_code;
	char *connect_message;
	unsigned step;          /* for scripts */
	struct fake_conn *held; /* for scripts */
	int64_t when;
};

static struct fixture fixture;

static inline char *text_of(struct span s)
{
	return s.ptr ? strndup(s.ptr, s.len) : NULL;
}

static inline void call_done(void *arg, const struct transport_reply *reply)
{
	struct call *c = arg;
	c->done++;
	c->code = reply->code;
	c->sent = reply->sent;
	c->session_lost = reply->session_lost;
	c->era_modern = reply->era_modern_error;
	c->http_status = reply->http_status;
	c->limit = reply->limit;
	c->timeout_ms = reply->timeout_ms;
	c->max_timeout_ms = reply->max_timeout_ms;
	c->message = reply->message ? strdup(reply->message) : NULL;
	c->result = text_of(reply->result);
	c->error = text_of(reply->error);
	c->body = text_of(reply->http_body);
	c->www_authenticate = reply->www_authenticate ? strdup(reply->www_authenticate) : NULL;
	c->mcp_auth_server = reply->mcp_auth_server ? strdup(reply->mcp_auth_server) : NULL;
	buf_addf(&fixture.log, "done;");
}

static inline void call_free(struct call *c)
{
	free(c->message);
	free(c->result);
	free(c->error);
	free(c->body);
	free(c->www_authenticate);
	free(c->mcp_auth_server);
	memset(c, 0, sizeof(*c));
}

static inline void note_connect(void *arg, const struct transport_reply *failure)
{
	(void)arg;
	fixture.connects++;
	fixture.connect_code = failure ? failure->code : 0;
	fixture.connect_message = failure ? strdup(failure->message) : NULL;
	buf_addf(&fixture.log, "connect;");
}

static inline void note_close(void *arg, const char *reason)
{
	(void)arg;
	fixture.closes++;
	fixture.closed = true;
	fixture.close_reason = reason ? strdup(reason) : NULL;
	buf_addf(&fixture.log, "close;");
	if (fixture.free_on_close) {
		transport_free(fixture.transport);
		fixture.transport = NULL;
	}
}

static inline void note_error(void *arg, const char *message)
{
	(void)arg;
	buf_addf(&fixture.log, "error %s;", message);
}

static inline void note_notification(void *arg, struct span method, struct span params)
{
	(void)arg;
	buf_addf(&fixture.log, "notification %.*s %.*s;", (int)method.len, method.ptr, (int)params.len,
		 params.ptr ? params.ptr : "");
	if (fixture.close_on_notification)
		transport_close(fixture.transport);
}

static inline void note_request(void *arg, struct span id, struct span method, struct span params, uint64_t on_request)
{
	(void)arg;
	(void)params;
	buf_addf(&fixture.log, "request %.*s %.*s on %d;", (int)id.len, id.ptr, (int)method.len, method.ptr,
		 (int)on_request);
}

static inline void note_late(void *arg, uint64_t request)
{
	(void)arg;
	buf_addf(&fixture.log, "late %d;", (int)request);
}

static inline void note_listener_end(void *arg, int status, const char *message)
{
	(void)arg;
	(void)message;
	buf_addf(&fixture.log, "listener %d;", status);
}

static inline const char *logged(void)
{
	return fixture.log.len ? fixture.log.data : "";
}

static inline const char *asked(void)
{
	return fixture.asked.len ? fixture.asked.data : "";
}

static inline void pass(void)
{
	loop_once(fixture.loop, 2);
	if (fixture.server.fd >= 0)
		fake_http_step(&fixture.server);
}

/* Passes until the condition holds; a test fails that waits too long. */
#define UNTIL(condition)                                                                                               \
	do {                                                                                                           \
		int64_t until_ = loop_now_ms() + PATIENCE_MS;                                                          \
		while (!(condition)) {                                                                                 \
			pass();                                                                                        \
			ck_assert_msg(loop_now_ms() < until_, "waited in vain for %s; log: %s", #condition, logged()); \
		}                                                                                                      \
	} while (0)

static inline void fixture_start(fake_http_script *script)
{
	memset(&fixture, 0, sizeof(fixture));
	limits_init(&fixture.limits);
	fixture.loop = loop_new();
	fixture.curl = curl_loop_new(fixture.loop);
	fixture.server.fd = -1;
	if (script)
		fake_http_start(&fixture.server, 0, script, NULL);
}

static const struct transport_callbacks fixture_callbacks = {
	.on_connect = note_connect,
	.on_close = note_close,
	.on_error = note_error,
	.on_notification = note_notification,
	.on_request = note_request,
	.on_late_answer = note_late,
	.on_listener_end = note_listener_end,
};

/* A transport as the options say; url NULL: that of the server. */
static inline void fixture_make(const char *url, const struct http_options *base)
{
	char own[128];
	snprintf(own, sizeof(own), "http://127.0.0.1:%d/mcp", fixture.server.port);
	struct http_options options = base ? *base : (struct http_options){ .timeout_ms = 30000 };
	options.name = "fake";
	options.url = url ? url : own;
	options.limits = &fixture.limits;
	if (options.connect_timeout_ms == 0)
		options.connect_timeout_ms = 10000;
	fixture.transport = http_new(fixture.loop, fixture.curl, &options, &fixture_callbacks, NULL);
}

static inline void fixture_connect(void)
{
	transport_connect(fixture.transport);
	ck_assert_uint_eq(fixture.connects, 0);
	UNTIL(fixture.connects);
	buf_reset(&fixture.log);
}

/* Everything at once, with a server and a connected transport. */
static inline void fixture_open(fake_http_script *script)
{
	fixture_start(script);
	fixture_make(NULL, NULL);
	fixture_connect();
	ck_assert(transport_is_connected(fixture.transport));
}

static inline void fixture_close(void)
{
	if (fixture.transport && !fixture.closed) {
		transport_close(fixture.transport);
		ck_assert(!transport_is_connected(fixture.transport));
		UNTIL(fixture.closed);
	}
	ck_assert_uint_le(fixture.closes, 1);
	transport_free(fixture.transport);
	if (fixture.server.fd >= 0)
		fake_http_stop(&fixture.server);
	loop_once(fixture.loop, 0);
	curl_loop_free(fixture.curl);
	loop_free(fixture.loop);
	buf_done(&fixture.log);
	buf_done(&fixture.asked);
	free(fixture.close_reason);
	free(fixture.connect_message);
}

static inline struct transport_options call_options(struct call *c)
{
	c->fixture = &fixture;
	return (struct transport_options){ .timeout_ms = -1, .done = call_done, .arg = c };
}

static inline void ask_with(struct call *c, const char *method, const char *params,
			    const struct transport_options *options)
{
	char quoted[64];
	snprintf(quoted, sizeof(quoted), "\"%s\"", method);
	c->number = transport_request(fixture.transport, span_of(quoted), span_of(params), options);
	ck_assert_uint_ne(c->number, 0);
	ck_assert_uint_eq(c->done, 0);
}

static inline void ask(struct call *c, const char *method)
{
	struct transport_options options = call_options(c);
	ask_with(c, method, "{}", &options);
}

static inline void notify(struct call *c, const char *method)
{
	struct transport_options options = call_options(c);
	char quoted[64];
	snprintf(quoted, sizeof(quoted), "\"%s\"", method);
	c->number = transport_notify(fixture.transport, span_of(quoted), SPAN_NONE, &options);
	ck_assert_uint_eq(c->done, 0);
}

/* Asks and waits. */
static inline void ask_done(struct call *c, const char *method)
{
	ask(c, method);
	UNTIL(c->done);
	ck_assert_uint_eq(c->done, 1);
}

#define EVENT_STREAM "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
#define JSON_TYPE "Content-Type: application/json\r\n"

#define CHUNKED_STREAM                                                                                                 \
	"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"

static inline void send_chunk(struct fake_conn *conn, const char *text)
{
	fake_sendf(conn, "%zx\r\n%s\r\n", strlen(text), text);
}

static inline const char *answer_event(const char *id)
{
	static char text[256];
	snprintf(text, sizeof(text), "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"ok\":true}}\n\n", id);
	return text;
}

static inline void answer_json(const struct fake_request *request, const char *result)
{
	char body[4096];
	snprintf(body, sizeof(body), "{\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}", fake_id(request), result);
	fake_respond(request->conn, "200 OK", JSON_TYPE, body);
}

static inline void ask_handshake(const char *method, const char *params)
{
	struct call c = { 0 };
	struct transport_options options = call_options(&c);
	options.handshake = true;
	ask_with(&c, method, params, &options);
	UNTIL(c.done);
	ck_assert_int_eq(c.code, 0);
	call_free(&c);
}

/* As run_tests(), with one test besides that is run for each row of a table (NULL: none). */
static inline int run_http_tests(const char *name, const TTest *row_test, int n_rows, const TTest *const *tests)
{
	Suite *suite = suite_create(name);
	TCase *tc = tcase_create(name);
	tcase_set_timeout(tc, RUN_TIMEOUT_SECONDS);
	if (row_test)
		tcase_add_loop_test(tc, row_test, 0, n_rows);
	for (; *tests; tests++)
		tcase_add_test(tc, *tests);
	suite_add_tcase(suite, tc);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}
#define RUN_HTTP_TESTS(name, row_test, n_rows, ...)                                                                    \
	run_http_tests((name), (row_test), (int)(n_rows), (const TTest *const[]){ __VA_ARGS__, NULL })
