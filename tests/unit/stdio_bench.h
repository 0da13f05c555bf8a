/*
 * A stdio transport with a real server that does what it is told, for the tests of transport/stdio.h. All that the
 * transport tells is written down in `events`, in order, one line each, so that a test reads what happened and in which
 * order.
 */
#pragma once

#include <sys/stat.h>

#include "process_bench.h"
#include "proto/buf.h"
#include "transport/stdio.h"

/* A server that obeys its requests and notifications: "write": parts, each a text or [text, repeat], in which $ID is
 * the request's id; "hex": bytes to write, one at a time; "stderr": text; "close": a descriptor; "sleep": seconds;
 * "exit": a status; "kill": a signal; "received": answer with the lines received so far. */
static const char puppet[] =
	"import json, os, sys, time\n"
	"received = []\n"
	"def write(data):\n"
	"    while data: data = data[os.write(1, data):]\n"
	"for raw in sys.stdin.buffer:\n"
	"    received.append(raw.decode())\n"
	"    m = json.loads(raw)\n"
	"    p = m.get('params') or {}\n"
	"    id = json.dumps(m.get('id'))\n"
	"    if 'stderr' in p: os.write(2, p['stderr'].encode())\n"
	"    if 'noisy' in p: [os.write(2, b'x' * 1023 + b'\\n') for i in range(p['noisy'])]\n"
	"    for b in bytes.fromhex(p.get('hex', '').replace('ID', id.encode().hex())): os.write(1, bytes([b]))\n"
	"    parts = p.get('write', [])\n"
	"    texts = [t if isinstance(t, str) else t[0] * t[1] for t in parts]\n"
	"    write(''.join(texts).replace('$ID', id).encode('utf-8', 'surrogatepass'))\n"
	"    if 'received' in p:\n"
	"        write(json.dumps({'jsonrpc': '2.0', 'id': m['id'], 'result': received}).encode() + b'\\n')\n"
	"    if 'close' in p: os.close(p['close'])\n"
	"    if 'sleep' in p: time.sleep(p['sleep'])\n"
	"    if 'kill' in p: os.kill(os.getpid(), p['kill'])\n"
	"    if 'exit' in p: os._exit(p['exit'])\n"
	"os.write(2, b'end of input\\n')\n";

static struct transport *transport;
static struct buf events;
static struct limits limits;
static unsigned completions, closes;

static inline void event(const char *format, ...)
{
	char text[400];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	buf_add_text(&events, text);
	buf_add_char(&events, '\n');
}

/* Long ones are shown by their beginning and their length. */
#define SHOW(span) (int)((span).len < 200 ? (span).len : 40), (span).ptr ? (span).ptr : ""

static inline void bench_on_connect(void *arg, const struct transport_reply *failure)
{
	(void)arg;
	event("connect %s%s", failure ? failure->message : "ok", failure && failure->permanent ? " (permanent)" : "");
}

static inline void bench_on_close(void *arg, const char *reason)
{
	(void)arg;
	closes++;
	event("close %s", reason ? reason : "by us");
}

static inline void bench_on_error(void *arg, const char *message)
{
	(void)arg;
	event("error %s", message);
}

static inline void bench_on_notification(void *arg, struct span method, struct span params)
{
	(void)arg;
	event("notification %.*s %.*s", SHOW(method), SHOW(params));
}

static inline void bench_on_request(void *arg, struct span id, struct span method, struct span params, uint64_t on)
{
	(void)arg;
	event("request %.*s %.*s %.*s on %d", SHOW(id), SHOW(method), SHOW(params), (int)on);
}

static inline void bench_on_late(void *arg, uint64_t request)
{
	(void)arg;
	event("late %d", (int)request);
}

static inline void bench_on_log(void *arg, struct span text, bool noise)
{
	(void)arg;
	event("%s %.*s (%zu)", noise ? "noise" : "log", SHOW(text), text.len);
}

static inline void bench_on_done(void *arg, const struct transport_reply *reply)
{
	completions++;
	if (reply->code == 0)
		event("done %s %.*s (%zu)", (const char *)arg, SHOW(reply->result), reply->result.len);
	else if (reply->code == MCPD_E_SERVER)
		event("done %s error %.*s: %s", (const char *)arg, SHOW(reply->error), reply->message);
	else
		event("done %s %d %s%s", (const char *)arg, reply->code, reply->message, reply->sent ? " (sent)" : "");
}

static const struct transport_callbacks bench_callbacks = {
	.on_connect = bench_on_connect,
	.on_close = bench_on_close,
	.on_error = bench_on_error,
	.on_notification = bench_on_notification,
	.on_request = bench_on_request,
	.on_late_answer = bench_on_late,
	.on_log = bench_on_log,
};

static inline bool happened(const char *text)
{
	return events.data && strstr(events.data, text);
}

#define assert_happened(text) ck_assert_msg(happened(text), "no \"%s\" in:\n%s", (text), events.data)
#define assert_events(text) ck_assert_str_eq(events.data ? events.data : "", (text))

static inline void forget_events(void)
{
	buf_done(&events);
}

/* A transport that is not connected. */
static inline void stdio_bench_new(const struct stdio_options *given)
{
	bench_start();
	limits_init(&limits);
	struct stdio_options options = *given;
	options.name = "test";
	options.limits = &limits;
	options.host = host;
	if (!options.timeout_ms)
		options.timeout_ms = 60000;
	transport = stdio_new(loop, &options, &bench_callbacks, NULL);
}

static inline void connect_transport(void)
{
	transport_connect(transport);
	loop_wait(loop, happened("connect "));
}

static inline void stdio_bench_connect(const struct stdio_options *given)
{
	stdio_bench_new(given);
	connect_transport();
	assert_happened("connect ok\n");
	/* A line of the server's log may have come before. */
	char *at = strstr(events.data, "connect ok\n");
	size_t len = strlen("connect ok\n");
	memmove(at, at + len, strlen(at + len) + 1);
	events.len -= len;
}

#define PUPPET_OPTIONS(...)                                                                                            \
	(&(struct stdio_options){ .command = PYTHON,                                                                   \
				  .args = (const char *const[]){ "-c", puppet, NULL },                                 \
				  .grace_ms = 60000,                                                                   \
				  __VA_ARGS__ })

static inline uint64_t ask_with(const char *name, const char *params, struct transport_options options)
{
	unsigned before = completions;
	options.done = bench_on_done;
	options.arg = (void *)name;
	uint64_t number = transport_request(transport, SPAN_LIT("\"do\""), span_of(params), &options);
	ck_assert_uint_ne(number, 0);
	ck_assert_uint_eq(completions, before); /* never inside the call */
	return number;
}

static inline uint64_t ask(const char *name, const char *params)
{
	return ask_with(name, params, (struct transport_options){ .timeout_ms = -1 });
}

static inline uint64_t tell_with(const char *name, const char *params, struct transport_options options)
{
	unsigned before = completions;
	options.done = bench_on_done;
	options.arg = (void *)name;
	uint64_t number = transport_notify(transport, SPAN_LIT("\"do\""), span_of(params), &options);
	ck_assert_uint_eq(completions, before);
	return number;
}

static inline uint64_t tell(const char *name, const char *params)
{
	return tell_with(name, params, (struct transport_options){ .timeout_ms = -1 });
}

/* The answer of a server that still works. */
static inline void assert_alive(void)
{
	ask("alive", "{\"write\":[\"{\\\"id\\\":$ID,\\\"result\\\":\\\"yes\\\"}\\n\"]}");
	loop_wait(loop, happened("done alive"));
	assert_happened("done alive \"yes\" (5)\n");
}

/* Closes, if that has not happened, and frees all. */
static inline void stdio_bench_stop(void)
{
	transport_close(transport);
	loop_wait(loop, closes == 1);
	transport_free(transport);
	loop_settle(loop);
	ck_assert_uint_eq(closes, 1);
	forget_events();
	bench_stop();
}
