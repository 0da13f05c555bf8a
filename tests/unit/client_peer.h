/*
 * The daemon as the client library's tests play it: on a real socket and in one thread, so that it can die, stall, send rubbish, answer out of order or a
 * byte at a time exactly when a test wants it to. And what the library's callbacks have seen.
 */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "mcpd-client.h"
#include "run.h"

static char directory[64], socket_path[100];
static int listener = -1, peer = -1;

/* ---- the daemon's side ---- */

static void start_listening(void)
{
	strcpy(directory, "/tmp/mcpd-client-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(directory));
	snprintf(socket_path, sizeof socket_path, "%s/s", directory);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	strcpy(address.sun_path, socket_path);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
	ck_assert_int_eq(listen(listener, 8), 0);
}

static void stop_listening(void)
{
	if (peer >= 0)
		close(peer);
	close(listener);
	peer = -1;
	unlink(socket_path);
	rmdir(directory);
}

static void peer_send(const char *format, ...)
{
	char text[4096];
	va_list args;
	va_start(args, format);
	int len = vsnprintf(text, sizeof text, format, args);
	va_end(args);
	ck_assert_int_eq(send(peer, text, (size_t)len, MSG_NOSIGNAL), len);
}

/* What the client has sent so far; one read is enough on a local socket. */
__attribute__((unused)) static const char *peer_read(void)
{
	static char text[65536];
	ssize_t n = recv(peer, text, sizeof text - 1, MSG_DONTWAIT);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

#define HELLO_ANSWER "{\"jsonrpc\":\"2.0\",\"id\":\"hello\",\"result\":{\"protocol\":1}}\n"

/* ---- the client's side ---- */

struct seen {
	unsigned replies, progress, events, questions, states;
	int status, code, maybe, state_error;
	uint64_t request, question;
	enum mcpd_state state;
	char text[512]; /* the last result, message or params */
};

static void on_state(mcpd_client *client, enum mcpd_state state, int error, void *userdata)
{
	(void)client;
	struct seen *seen = userdata;
	seen->states++;
	seen->state = state;
	seen->state_error = error;
}

static void on_reply(mcpd_client *client, mcpd_reply *reply, void *userdata)
{
	(void)client;
	struct seen *seen = userdata;
	seen->replies++;
	seen->request = mcpd_reply_request(reply);
	seen->status = mcpd_reply_status(reply);
	seen->code = mcpd_reply_code(reply);
	seen->maybe = mcpd_reply_maybe_executed(reply);
	snprintf(seen->text, sizeof seen->text, "%s",
		 mcpd_reply_result(reply) ? mcpd_reply_result(reply) : mcpd_reply_message(reply));
}

static void on_progress(mcpd_client *client, uint64_t request, const char *params, void *userdata)
{
	(void)client;
	struct seen *seen = userdata;
	seen->progress++;
	seen->request = request;
	snprintf(seen->text, sizeof seen->text, "%s", params);
}

static void on_event(mcpd_client *client, const char *method, const char *params, void *userdata)
{
	(void)client;
	struct seen *seen = userdata;
	seen->events++;
	snprintf(seen->text, sizeof seen->text, "%s %s", method, params);
}

static void on_question(mcpd_client *client, uint64_t question, const char *method, const char *params, void *userdata)
{
	(void)client;
	struct seen *seen = userdata;
	seen->questions++;
	seen->question = question;
	snprintf(seen->text, sizeof seen->text, "%s %s", method ? method : "withdrawn", params ? params : "-");
}

__attribute__((unused)) static mcpd_client *new_client(struct seen *seen)
{
	mcpd_client *client;
	memset(seen, 0, sizeof *seen);
	ck_assert_int_eq(mcpd_client_new(&client), 0);
	ck_assert_int_eq(mcpd_set_socket(client, socket_path), 0);
	mcpd_on_state(client, on_state, seen);
	return client;
}

/* A client that has said hello and had its answer. */
__attribute__((unused)) static mcpd_client *connected_client(struct seen *seen)
{
	mcpd_client *client = new_client(seen);
	ck_assert_int_eq(mcpd_connect_start(client, 5000), 0);
	ck_assert_int_eq(mcpd_process(client), 0);
	if (peer >= 0)
		close(peer);
	peer = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
	ck_assert_int_ge(peer, 0);
	ck_assert_ptr_nonnull(strstr(peer_read(), "\"daemon/hello\""));
	peer_send(HELLO_ANSWER);
	ck_assert_int_eq(mcpd_process(client), 1);
	ck_assert_int_eq(seen->state, MCPD_CONNECTED);
	return client;
}

__attribute__((unused)) static uint64_t request(mcpd_client *client, const char *method, const char *params,
						struct seen *seen)
{
	uint64_t number = 0;
	ck_assert_int_eq(mcpd_request(client, method, params, NULL, on_reply, seen, &number), 0);
	ck_assert_uint_ne(number, 0);
	return number;
}

static inline int run_with_peer(const char *name, const TTest *const *tests)
{
	return run_tests_with(name, tests, start_listening, stop_listening);
}
