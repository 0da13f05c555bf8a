/*
 * A daemon's local side (ipc/) over socketpairs, with the manager of fake_manager.h below it, and the client's ends of
 * the connections.
 */
#pragma once

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fake_manager.h"
#include "ipc/ipc.h"
#include "loop/loop.h"
#include "proto/json_iter.h"
#include "proto/jsonrpc.h"
#include "xalloc.h"

static struct loop *loop;
static struct router *router;
static struct manager *manager;
static struct reload *reload;
static struct ipc *ipc;
static unsigned shutdowns;
static bool closed;

/* A client's end of the connection. */
struct peer {
	int fd;
	char *data; /* read and not yet taken */
	size_t len, cap;
	bool eof;
	char *line; /* the last one taken */
};

static inline void on_shutdown(void *arg)
{
	(void)arg;
	shutdowns++;
}

static inline void on_closed(void *arg)
{
	(void)arg;
	closed = true;
}

static inline void begin(void)
{
	static const char *const no_files[] = { NULL };
	static const char *const no_environment[] = { NULL };
	loop = loop_new();
	router = router_new();
	manager = fake_new(router_manager_callbacks(), router);
	router_attach(router, loop, manager);
	reload = reload_new(&(struct reload_options){ .files = no_files, .environment = no_environment });
	ipc = ipc_new(&(struct ipc_options){ .loop = loop,
					     .manager = manager,
					     .router = router,
					     .reload = reload,
					     .socket_path = "/run/x.sock",
					     .version = "1.2.3",
					     .started_ms = loop_now_ms(),
					     .on_shutdown = on_shutdown });
	shutdowns = 0;
	closed = false;
}

static inline void passes(int n)
{
	while (n-- > 0)
		loop_once(loop, 0);
}

static inline void end(void)
{
	ipc_close(ipc, 0, on_closed, NULL);
	for (int i = 0; i < 1000 && !closed; i++)
		loop_once(loop, 10);
	ck_assert(closed);
	for (size_t i = 0; i < fake.n_calls; i++)
		if (fake.calls[i].open)
			fake_fail(&fake.calls[i], MCPD_E_TRANSPORT, "Transport closed", true);
	passes(3);
	ipc_free(ipc);
	router_free(router);
	fake_free();
	reload_free(reload);
	loop_free(loop);
}

static inline struct peer *peer_new(void)
{
	int fds[2];
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
	fcntl(fds[1], F_SETFL, O_NONBLOCK);
	struct peer *p = xnew(struct peer);
	p->fd = fds[1];
	ipc_accept(ipc, fds[0]);
	return p;
}

static inline void peer_close(struct peer *p)
{
	close(p->fd);
	free(p->data);
	free(p->line);
	free(p);
	passes(4);
}

static inline void send_bytes(struct peer *p, const char *bytes, size_t len)
{
	while (len > 0) {
		ssize_t n = write(p->fd, bytes, len);
		if (n < 0) {
			ck_assert_int_eq(errno, EAGAIN);
			passes(1);
			continue;
		}
		bytes += n;
		len -= (size_t)n;
	}
}

static inline void send_text(struct peer *p, const char *text)
{
	send_bytes(p, text, strlen(text));
	send_bytes(p, "\n", 1);
}

/* A request with these members of the message, such as "id":1,"method":"x". */
static inline void ask(struct peer *p, const char *members)
{
	char *text = xasprintf("{\"jsonrpc\":\"2.0\",%s}", members);
	send_text(p, text);
	free(text);
}

static inline bool read_some(struct peer *p)
{
	if (p->cap - p->len < 1 << 16) {
		p->cap = p->cap * 2 + (1 << 17);
		p->data = xrealloc(p->data, p->cap, 1);
	}
	ssize_t n = read(p->fd, p->data + p->len, p->cap - p->len);
	if (n > 0)
		p->len += (size_t)n;
	p->eof |= n == 0 || (n < 0 && errno == ECONNRESET);
	return n > 0;
}

/* The next line; waits for it. */
static inline const char *next_line(struct peer *p)
{
	int64_t deadline = loop_now_ms() + 60000;
	char *newline;
	while (!p->len || !(newline = memchr(p->data, '\n', p->len))) {
		ck_assert_msg(loop_now_ms() < deadline, "no line came");
		loop_once(loop, 1);
		if (!read_some(p))
			ck_assert_msg(!p->eof, "the connection was closed before a line came");
	}
	size_t len = (size_t)(newline - p->data);
	free(p->line);
	p->line = xstrndup(p->data, len);
	memmove(p->data, newline + 1, p->len - len - 1);
	p->len -= len + 1;
	return p->line;
}

/* Nothing comes, after everything has had its chance. */
static inline void expect_silence(struct peer *p)
{
	passes(5);
	read_some(p);
	ck_assert_msg(p->len == 0, "something came: %.*s", (int)p->len, p->data);
	ck_assert(!p->eof);
}

static inline void expect_eof(struct peer *p)
{
	int64_t deadline = loop_now_ms() + 60000;
	while (!p->eof) {
		ck_assert_msg(loop_now_ms() < deadline, "the connection stays open");
		loop_once(loop, 1);
		read_some(p);
	}
	ck_assert_msg(p->len == 0, "something came: %.*s", (int)p->len, p->data);
}

static inline void expect_line(struct peer *p, const char *wanted)
{
	ck_assert_str_eq(next_line(p), wanted);
}

/* The next line is an error with this id (JSON) and code, whose data (JSON; NULL: any) and part of the message are
 * these. */
static inline void expect_error(struct peer *p, const char *id, int code, const char *message_part, const char *data)
{
	struct jsonrpc_message m;
	const char *line = next_line(p);
	ck_assert_int_eq(jsonrpc_parse(span_of(line), &m, NULL), 0);
	ck_assert_msg(m.kind == JSONRPC_ERROR, "no error: %s", line);
	ck_assert_msg(span_is(m.id, id), "the id is not %s: %s", id, line);
	int64_t got;
	ck_assert_int_eq(json_int64(json_member(m.error, "code"), &got), 0);
	ck_assert_msg(got == code, "the code is not %d: %s", code, line);
	char *message = json_string_dup(json_member(m.error, "message"));
	ck_assert_msg(strstr(message, message_part) != NULL, "\"%s\" is not in the message of %s", message_part, line);
	free(message);
	if (data)
		ck_assert_msg(span_is(json_member(m.error, "data"), data), "the data is not %s: %s", data, line);
}

#define CALL(id) "\"id\":" id ",\"method\":\"tools/call\",\"params\":{\"server\":\"s\",\"name\":\"t\"}"
