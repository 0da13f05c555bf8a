/*
 * What a server writes on its stdout, cut off anywhere: first byte odd: a peer that may send batches; the rest are
 * lines, the longest of which are too long. Whatever comes, each request completes exactly once, spans lie inside the
 * line, and every line that is no message is told as noise (contract S2 to S7a, C2).
 */
#include <stdlib.h>
#include <string.h>

#include "transport/stdio_internal.h"

#define REQUIRE(condition)                                                                                             \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			abort();                                                                                       \
	} while (0)

#define LONGEST 200
#define REQUESTS 4

static struct span line; /* the one that is being looked at */
static unsigned completions, noises;

static void require_inside(struct span span)
{
	REQUIRE(!span.ptr || (span.ptr >= line.ptr && span.ptr + span.len <= line.ptr + line.len));
}

static void on_done(void *arg, const struct transport_reply *reply)
{
	unsigned *done = arg;
	REQUIRE((*done)++ == 0);
	completions++;
	require_inside(reply->error);
	if (reply->code == 0)
		require_inside(reply->result);
	else
		REQUIRE(reply->message && *reply->message);
}

static void on_notification(void *arg, struct span method, struct span params)
{
	(void)arg;
	require_inside(method);
	require_inside(params);
}

static void on_request(void *arg, struct span id, struct span method, struct span params, uint64_t on)
{
	REQUIRE(id.ptr && on == 0);
	require_inside(id);
	on_notification(arg, method, params);
}

static void on_log(void *arg, struct span text, bool noise)
{
	(void)arg;
	REQUIRE(noise && text.len <= LONGEST / 2);
	require_inside(text);
	noises++;
}

static enum pending_phase give_up(void *arg, uint64_t number, void *data)
{
	(void)arg;
	(void)number;
	(void)data;
	return PENDING_SENT;
}

static void read_lines(struct stdio *s, const char *at, const char *end)
{
	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		const char *stop = newline ? newline : end;
		line = (struct span){ at, (size_t)(stop - at) };
		if (line.len > LONGEST) {
			line.len = LONGEST;
			stdio_too_long(s, line);
		} else {
			stdio_line(s, line);
		}
		at = stop + 1;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct pending_hooks hooks = { .give_up = give_up };
	if (size == 0)
		return 0;
	struct limits limits;
	limits_init(&limits);
	limits.value[LIMIT_LOG_LINE_BYTES] = LONGEST / 2;
	struct loop *loop = loop_new();
	struct stdio s = { .state = STDIO_CONNECTED, .limits = &limits, .batches = data[0] & 1 };
	s.base.callbacks = (struct transport_callbacks){ .on_notification = on_notification,
							 .on_request = on_request,
							 .on_log = on_log };
	s.pending = pending_new(loop, 0, &hooks, &s);
	unsigned done[REQUESTS] = { 0 };
	completions = noises = 0;
	for (int i = 0; i < REQUESTS; i++) {
		struct transport_options options = { .done = on_done, .arg = &done[i] };
		uint64_t number = pending_add(s.pending, PENDING_REQUEST, &options);
		if (i == 0)
			pending_cancel(s.pending, number, "given up");
	}
	loop_once(loop, 0);
	/* A copy of exactly that size, so that a look past its end is seen. */
	char *lines = malloc(size);
	memcpy(lines, data + 1, size - 1);
	read_lines(&s, lines, lines + size - 1);
	REQUIRE(s.noise_lines == noises);
	line = SPAN_NONE;
	pending_fail_all(s.pending, MCPD_E_TRANSPORT, "Transport closed");
	REQUIRE(completions == REQUESTS);
	pending_free(s.pending);
	loop_free(loop);
	free(lines);
	return 0;
}
