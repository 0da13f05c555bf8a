/*
 * Reaching the daemon. One attempt is: connect(2); where nothing listens and the caller wants it, start the daemon once or twice and connect again; then
 * hello. Starting is free of races because the daemon sorts it out: starts are serialised by its lock, and one that finds another daemon says so and ends only when
 * that one listens. So "the pipe of the started daemon has ended" means "connect now". A daemon that is just leaving closes what it has not accepted: a
 * connection that ends before hello was answered is tried again.
 */
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/socket_path.h"

#define RETRY_MS 10 /* the daemon's backlog is full, or it is leaving: the cases that give no event to wait for */
#define MAX_STARTS 2
#define MAX_LOSSES 3
#define START_LOG_MAX 4096

extern char **environ;

static void reset_connection(mcpd_client *client)
{
	if (client->fd >= 0)
		close(client->fd);
	client->fd = -1;
	client->step = STEP_NONE;
	client->state = MCPD_DISCONNECTED;
	spawn_reap(client->starter);
	client->starter = 0;
	framer_done(&client->in);
	buf_done(&client->hello_out);
	buf_done(&client->out);
	buf_done(&client->start_log);
	client->hello_sent = client->out_sent = 0;
	client->queued_total = 0;
	questions_discard(client);
}

/* Requests that followed hello go with it once more: hello is answered before they are looked at, so none was run. */
bool connect_again(mcpd_client *client, int error)
{
	bool cut = error == -ECONNRESET || error == -EPIPE;
	if (client->step != STEP_HELLO || !cut || client->losses == MAX_LOSSES)
		return false;
	client->losses++;
	close(client->fd);
	client->fd = -1;
	framer_done(&client->in);
	client->out_sent = 0;
	client->step = STEP_SOCKET;
	client->retry_at_ms = client_now_ms() + RETRY_MS;
	return true;
}

void connect_lost(mcpd_client *client, int error)
{
	client_enter(client);
	/* Requests are judged by what was sent, so before the counters go; and told when a callback may already connect anew. */
	struct request *ended = requests_end(client, error);
	reset_connection(client);
	requests_deliver(client, ended);
	if (!client->doomed && client->on_state) {
		client->callbacks++;
		client->on_state(client, MCPD_DISCONNECTED, error, client->on_state_userdata);
	}
	client_leave(client);
}

static int begin_hello(mcpd_client *client)
{
	framer_init(&client->in, client->max_message);
	client->step = STEP_HELLO;
	buf_reset(&client->hello_out);
	client->hello_sent = 0;
	jsonrpc_write_request(&client->hello_out, SPAN_LIT("\"hello\""), SPAN_LIT("\"daemon/hello\""),
			      client->hello_params ? span_of(client->hello_params) : SPAN_LIT("{\"protocol\":1}"));
	if (buf_failed(&client->hello_out))
		return client_fail(client, -ENOMEM, "out of memory");
	return io_flush(client);
}

static int begin_start(mcpd_client *client)
{
	client->starts++;
	buf_done(&client->start_log);
	buf_init(&client->start_log, START_LOG_MAX);
	int r = spawn_daemon(client, &client->fd, &client->starter);
	if (r == 0)
		client->step = STEP_STARTING;
	return r;
}

/* What can be said when nothing listens: the path, and what the daemon itself gave as its reason. */
static int refused(mcpd_client *client, int error)
{
	struct span said = buf_span(&client->start_log);
	while (said.len && said.ptr[said.len - 1] == '\n')
		said.len--;
	if (client->starts && said.len)
		return client_fail(client, error, "the daemon did not start: %.*s", (int)said.len, said.ptr);
	if (client->starts)
		return client_fail(client, error, "the daemon was started but does not listen on %s",
				   client->socket_path);
	return client_fail(client, error, "no daemon listens on %s (%s); start it with: mcpd", client->socket_path,
			   strerror(-error));
}

static int try_socket(mcpd_client *client)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return client_fail(client, -errno, "cannot make a socket: %s", strerror(errno));
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	strncpy(address.sun_path, client->socket_path, sizeof address.sun_path - 1);
	if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) {
		client->fd = fd;
		return begin_hello(client);
	}
	int error = -errno;
	close(fd);
	if (error == -EAGAIN || error == -EINTR) {
		client->retry_at_ms = client_now_ms() + RETRY_MS;
		return 0;
	}
	bool nobody = error == -ENOENT || error == -ECONNREFUSED;
	bool may_start = !client->start_program || client->start_program[0];
	if (nobody && may_start && client->starts < MAX_STARTS)
		return begin_start(client);
	if (nobody)
		return refused(client, error);
	return client_fail(client, error, "cannot connect to %s: %s", client->socket_path, strerror(-error));
}

/* Reads the started daemon's messages; its end sends us back to connect(2). */
static int read_start_log(mcpd_client *client)
{
	for (;;) {
		char bytes[512];
		ssize_t n = read(client->fd, bytes, sizeof bytes);
		if (n > 0) {
			if (client->start_log.len + (size_t)n <= START_LOG_MAX)
				buf_add(&client->start_log, bytes, (size_t)n);
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		close(client->fd);
		client->fd = -1;
		spawn_reap(client->starter);
		client->starter = 0;
		client->step = STEP_SOCKET;
		return try_socket(client);
	}
}

int connect_step(mcpd_client *client)
{
	int64_t now = client_now_ms();
	if (client->connect_deadline_ms && now >= client->connect_deadline_ms)
		return client_fail(client, -ETIMEDOUT, "no connection to %s in time", client->socket_path);
	if (client->step == STEP_SOCKET && now >= client->retry_at_ms)
		return try_socket(client);
	if (client->step == STEP_STARTING)
		return read_start_log(client);
	return 0;
}

int connect_established(mcpd_client *client, const struct jsonrpc_message *message)
{
	if (message->kind == JSONRPC_ERROR) {
		char *text = json_string_dup(json_member(message->error, "message"));
		client_fail(client, 0, "the daemon refused hello: %s", text ? text : "no message");
		free(text);
		return -EPROTONOSUPPORT;
	}
	char *hello = dup_span(message->result);
	if (!hello)
		return -ENOMEM;
	free(client->hello);
	client->hello = hello;
	client->state = MCPD_CONNECTED;
	client->step = STEP_NONE;
	client->connect_deadline_ms = 0;
	if (client->on_state) {
		client->callbacks++;
		client->on_state(client, MCPD_CONNECTED, 0, client->on_state_userdata);
	}
	return 0;
}

MCPD_PUBLIC int mcpd_connect_start(mcpd_client *client, int timeout_ms)
{
	if (client->lost || client->state != MCPD_DISCONNECTED)
		return client_fail(client, -EISCONN, "connected or connecting already");
	char *path = NULL;
	char *problem = NULL;
	int r = socket_path_find(client->socket_setting, (const char *const *)environ, &path, &problem);
	if (r < 0) {
		client_fail(client, r, "%s", problem ? problem : "out of memory");
		free(problem);
		return r;
	}
	free(client->socket_path);
	client->socket_path = path;
	client->starts = client->losses = 0;
	client->retry_at_ms = client_now_ms();
	client->connect_deadline_ms = timeout_ms < 0 ? 0 : client_now_ms() + timeout_ms;
	client->state = MCPD_CONNECTING;
	client->step = STEP_SOCKET;
	client->last_error[0] = '\0';
	return 0;
}

MCPD_PUBLIC void mcpd_disconnect(mcpd_client *client)
{
	if (client->state == MCPD_DISCONNECTED || client->lost)
		return;
	client->lost = -ECONNRESET;
	client_fail(client, 0, "disconnected by the caller");
}
