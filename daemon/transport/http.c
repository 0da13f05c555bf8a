#include "transport/http.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "config/config_mask.h"
#include "log.h"
#include "proto/http_header.h"
#include "transport/http_exchange.h"
#include "transport/http_internal.h"
#include "transport/http_reply.h"
#include "transport/http_request.h"
#include "xalloc.h"

/* What the server is given to end a session (H8). */
#define FAREWELL_MS 1000
/* A longer event id is no use: no server takes such a header. */
#define EVENT_ID_BYTES 4096

static struct http *of(struct transport *t)
{
	return (struct http *)t;
}

static const struct http *of_const(const struct transport *t)
{
	return (const struct http *)t;
}

/* -- header lines and transfers */

static size_t count(const char *const *list)
{
	size_t n = 0;
	while (list && list[n])
		n++;
	return n;
}

void http_lines_free(char **lines)
{
	for (char **line = lines; line && *line; line++)
		free(*line);
	free(lines);
}

/* False if memory is short: what callers give has no limit of its own. */
static bool copy_lines(char **to, size_t *n, const char *const *lines)
{
	for (; lines && *lines; lines++) {
		to[*n] = strdup(*lines);
		if (!to[(*n)++])
			return false;
	}
	return true;
}

char **http_lines_make(const struct http *h, const struct http_lines *what)
{
	char **lines = xnew_array(char *, count((const char *const *)h->headers) + count(what->extra) + 8);
	size_t n = 0;
	if (what->post)
		lines[n++] = xstrdup("Content-Type: application/json");
	lines[n++] = xstrdup(what->post ? "Accept: application/json, text/event-stream" : "Accept: text/event-stream");
	if (what->session && h->session && h->mode == HTTP_MODE_STREAMABLE)
		lines[n++] = xasprintf("Mcp-Session-Id: %s", h->session);
	if (what->version.len)
		lines[n++] = xasprintf("MCP-Protocol-Version: %.*s", (int)what->version.len, what->version.ptr);
	if (what->method.ptr) {
		struct buf method = BUF_INIT;
		buf_add_text(&method, "Mcp-Method: ");
		http_header_add_json(&method, what->method);
		lines[n] = buf_steal(&method);
		n += lines[n] != NULL;
	}
	if (what->last_event_id && what->last_event_id[0] && strlen(what->last_event_id) <= EVENT_ID_BYTES)
		lines[n++] = xasprintf("Last-Event-ID: %s", what->last_event_id);
	if (!copy_lines(lines, &n, (const char *const *)h->headers) || !copy_lines(lines, &n, what->extra)) {
		http_lines_free(lines);
		return NULL;
	}
	return lines;
}

struct transfer *http_transfer(struct http *h, const char *method, const char *url, char **lines, struct span body,
			       const struct transfer_callbacks *callbacks, void *arg)
{
	struct transfer *t = transfer_start(h->curl,
					    &(struct transfer_request){
						    .method = method,
						    .url = url,
						    .headers = (const char *const *)lines,
						    .body = body,
						    .ca_file = h->ca_file,
						    .insecure = h->insecure,
						    .connect_timeout_ms = h->connect_timeout_ms,
						    .max_headers = (size_t)http_limit(h, LIMIT_HTTP_HEADERS),
						    .max_header_bytes = (size_t)http_limit(h, LIMIT_HTTP_HEADER_BYTES),
						    .traffic = &h->traffic,
					    },
					    callbacks, arg);
	http_lines_free(lines);
	return t;
}

/* -- connecting */

void http_tell_error(struct http *h, const char *message)
{
	if (h->state < HTTP_CLOSING && h->base.callbacks.on_error)
		h->base.callbacks.on_error(h->base.arg, message);
}

void http_connected(struct http *h, const struct transport_reply *failure)
{
	if (h->state != HTTP_CONNECTING)
		return;
	h->state = failure ? HTTP_FAILED : HTTP_OPEN;
	if (h->base.callbacks.on_connect)
		h->base.callbacks.on_connect(h->base.arg, failure);
}

static void http_connect(struct transport *t)
{
	struct http *h = of(t);
	if (h->state != HTTP_NEW)
		return;
	if (h->mode == HTTP_MODE_SSE) {
		h->state = HTTP_CONNECTING;
		http_sse_open(&h->sse, NULL);
		return;
	}
	/* H6: usable at once, which is told in the next pass. */
	h->state = HTTP_OPEN;
	h->connect_due = true;
	task_schedule(h->task);
}

static bool http_is_connected(const struct transport *t)
{
	return http_is_open(of_const(t));
}

static void http_set_protocol(struct transport *t, const char *version, bool modern)
{
	struct http *h = of(t);
	free(h->version);
	h->version = xstrdup(version);
	h->modern = modern;
	h->batches = strcmp(version, "2025-03-26") == 0;
	if (modern) {
		free(h->session);
		h->session = NULL;
		http_listener_close(&h->listener);
	}
}

void http_session_gone(struct http *h, const struct http_error *error)
{
	free(h->session);
	h->session = NULL;
	if (h->lost_message)
		return;
	h->lost_message = xstrdup(error->message);
	h->lost_status = error->status;
}

/* -- closing */

static void on_farewell_head(void *arg)
{
	(void)arg;
}

static size_t on_farewell_data(void *arg, struct span bytes)
{
	(void)arg;
	return bytes.len;
}

/* However it ended: a failure to end the session is nobody's concern. */
static void farewell_over(struct http *h)
{
	timer_cancel(h->farewell_timer);
	transfer_close(h->farewell);
	h->farewell = NULL;
	task_schedule(h->task);
}

static void on_farewell_end(void *arg, const struct transfer_end *end)
{
	(void)end;
	farewell_over(arg);
}

static void on_farewell_timer(void *arg)
{
	farewell_over(arg);
}

static void say_farewell(struct http *h)
{
	static const struct transfer_callbacks callbacks = { on_farewell_head, on_farewell_data, on_farewell_end };
	char **lines = http_lines_make(h, &(struct http_lines){ .session = true, .version = span_of(h->version) });
	h->farewell = http_transfer(h, "DELETE", h->url, lines, SPAN_NONE, &callbacks, h);
	timer_set(h->farewell_timer, loop_now_ms() + FAREWELL_MS);
}

/* Takes the reason. Everything is stopped at once; completions and on_close follow from the task. */
static void begin_close(struct http *h, char *reason)
{
	if (h->state >= HTTP_CLOSING) {
		free(reason);
		return;
	}
	h->state = HTTP_CLOSING;
	h->close_reason = reason;
	http_listener_close(&h->listener);
	http_sse_close(&h->sse);
	exchange_end_detached(h);
	if (h->session && h->mode == HTTP_MODE_STREAMABLE)
		say_farewell(h);
	task_schedule(h->task);
}

void http_lost(struct http *h, char *reason)
{
	begin_close(h, reason);
}

static void http_close(struct transport *t)
{
	begin_close(of(t), NULL);
}

static void on_task(void *arg)
{
	struct http *h = arg;
	if (h->connect_due) {
		h->connect_due = false;
		if (h->state == HTTP_OPEN && h->base.callbacks.on_connect)
			h->base.callbacks.on_connect(h->base.arg, NULL);
	}
	if (h->state != HTTP_CLOSING)
		return;
	if (!h->failed_all) {
		h->failed_all = true;
		pending_fail_all(h->pending, MCPD_E_TRANSPORT, "Transport closed");
	}
	if (h->farewell)
		return;
	if (pending_count(h->pending) > 0) {
		task_schedule(h->task); /* asked for by a completion just now */
		return;
	}
	h->state = HTTP_CLOSED;
	if (h->base.callbacks.on_close)
		h->base.callbacks.on_close(h->base.arg, h->close_reason);
}

static void destroy(void *object)
{
	struct http *h = object;
	assert(!h->exchanges && !h->farewell);
	pending_free(h->pending);
	http_listener_done(&h->listener);
	http_sse_done(&h->sse);
	task_free(h->task);
	timer_free(h->farewell_timer);
	http_lines_free(h->headers);
	free(h->name);
	free(h->url);
	free(h->shown_url);
	free(h->ca_file);
	free(h->session);
	free(h->lost_message);
	free(h->version);
	free(h->close_reason);
	redactor_free(h->base.redactor);
	free(h);
}

static void http_free(struct transport *t)
{
	struct http *h = of(t);
	assert(h->state == HTTP_NEW || h->state == HTTP_CLOSED);
	h->state = HTTP_CLOSED;
	task_cancel(h->task);
	loop_bury(h->loop, h, destroy);
}

/* -- operations */

static uint64_t http_request(struct transport *t, struct span method, struct span params,
			     const struct transport_options *options)
{
	return http_send_request(of(t), method, params, options);
}

static uint64_t http_notify(struct transport *t, struct span method, struct span params,
			    const struct transport_options *options)
{
	return http_send_notify(of(t), method, params, options);
}

static void http_cancel(struct transport *t, uint64_t request, const char *reason)
{
	pending_cancel(of(t)->pending, request, reason);
}

static void http_touch(struct transport *t, uint64_t request)
{
	pending_touch(of(t)->pending, request);
}

static struct span http_wire_id(const struct transport *t, uint64_t request)
{
	return pending_wire_id(of_const(t)->pending, request);
}

static int http_respond(struct transport *t, struct span id, struct span result, struct span error)
{
	return http_send_response(of(t), id, result, error);
}

static void http_listen(struct transport *t)
{
	http_listener_open(&of(t)->listener);
}

static pid_t http_pid(const struct transport *t)
{
	(void)t;
	return 0;
}

static enum pending_phase on_give_up(void *arg, uint64_t number, void *data)
{
	(void)arg;
	(void)number;
	return exchange_give_up(data);
}

static void on_late(void *arg, uint64_t number)
{
	struct http *h = arg;
	if (h->state < HTTP_CLOSING && h->base.callbacks.on_late_answer)
		h->base.callbacks.on_late_answer(h->base.arg, number);
}

static void http_get_traffic(const struct transport *t, struct transport_traffic *ret)
{
	const struct http *h = (const struct http *)t;
	*ret = (struct transport_traffic){ .received = h->traffic.received, .sent = h->traffic.sent };
	for (const struct exchange *x = h->exchanges; x; x = x->next)
		ret->unsent += x->transfer ? transfer_unsent(x->transfer) : 0;
}

static const struct transport_ops http_ops = {
	.kind = TRANSPORT_HTTP,
	.connect = http_connect,
	.is_connected = http_is_connected,
	.request = http_request,
	.notify = http_notify,
	.cancel = http_cancel,
	.touch = http_touch,
	.wire_id = http_wire_id,
	.respond = http_respond,
	.set_protocol = http_set_protocol,
	.listen = http_listen,
	.pid = http_pid,
	.get_traffic = http_get_traffic,
	.close = http_close,
	.free = http_free,
};

static char **copy_list(const char *const *list)
{
	size_t n = count(list);
	char **copy = xnew_array(char *, n + 1);
	for (size_t i = 0; i < n; i++)
		copy[i] = xstrdup(list[i]);
	return copy;
}

static char *shown(const char *url)
{
	struct buf out = BUF_INIT;
	mask_url(&out, url);
	char *text = buf_steal(&out);
	return text ? text : xstrdup("the server");
}

struct transport *http_new(struct loop *loop, struct curl_loop *curl, const struct http_options *options,
			   const struct transport_callbacks *callbacks, void *arg)
{
	static const struct pending_hooks hooks = { .give_up = on_give_up, .on_late = on_late };
	struct http *h = xnew(struct http);
	h->base = (struct transport){
		.ops = &http_ops, .redactor = options->redactor, .callbacks = *callbacks, .arg = arg
	};
	h->loop = loop;
	h->curl = curl;
	h->name = xstrdup(options->name);
	h->url = xstrdup(options->url);
	h->shown_url = options->shown_url ? xstrdup(options->shown_url) : shown(options->url);
	h->ca_file = options->ca_file ? xstrdup(options->ca_file) : NULL;
	h->headers = copy_list(options->headers);
	h->insecure = options->insecure;
	h->timeout_ms = options->timeout_ms;
	h->connect_timeout_ms = options->connect_timeout_ms;
	h->limits = options->limits;
	h->mode = options->sse ? HTTP_MODE_SSE : HTTP_MODE_STREAMABLE;
	h->pending = pending_new(loop, options->timeout_ms, &hooks, h);
	h->task = task_new(loop, on_task, h);
	h->farewell_timer = timer_new(loop, on_farewell_timer, h);
	http_listener_init(&h->listener, h);
	http_sse_init(&h->sse, h);
	if (h->insecure)
		log_server(LOG_LEVEL_WARNING, h->name,
			   "\"insecure\" is set: anybody on the way to %s can pose as it, read and change everything",
			   h->shown_url);
	return &h->base;
}
