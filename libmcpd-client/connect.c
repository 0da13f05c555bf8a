/*
 * Connecting: the socket is reached (reach.h), then hello is said. A daemon that is just leaving closes what it has not accepted: a connection that ends before
 * hello was answered is tried again.
 */
#include "client.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "proto/socket_path.h"

#define MAX_LOSSES 3

extern char **environ;

static void reset_connection(mcpd_client *client)
{
	if (client->fd >= 0)
		close(client->fd);
	client->fd = -1;
	client->step = STEP_NONE;
	client->state = MCPD_DISCONNECTED;
	reach_done(&client->reach);
	framer_done(&client->in);
	buf_done(&client->hello_out);
	buf_done(&client->out);
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
	client->step = STEP_REACH;
	reach_again(&client->reach);
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

int connect_step(mcpd_client *client)
{
	if (client->connect_deadline_ms && client_now_ms() >= client->connect_deadline_ms)
		return client_fail(client, -ETIMEDOUT, "no connection to %s in time", client->socket_path);
	if (client->step != STEP_REACH)
		return 0;
	int r = reach_step(&client->reach);
	if (r < 0)
		return client_fail(client, r, "%s", client->reach.problem);
	if (client->reach.state != REACH_CONNECTED)
		return 0;
	client->fd = reach_take(&client->reach);
	return begin_hello(client);
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
	client->losses = 0;
	reach_begin(&client->reach, client->socket_path, client->start_program);
	client->connect_deadline_ms = timeout_ms < 0 ? 0 : client_now_ms() + timeout_ms;
	client->state = MCPD_CONNECTING;
	client->step = STEP_REACH;
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
