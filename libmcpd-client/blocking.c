/* The blocking forms, made of the non-blocking ones and poll(2). */
#include "client.h"

#include <errno.h>
#include <poll.h>

MCPD_PUBLIC int mcpd_wait(mcpd_client *client, int timeout_ms)
{
	int own = mcpd_get_timeout(client);
	int wait = own >= 0 && (timeout_ms < 0 || own < timeout_ms) ? own : timeout_ms;
	if (wait < 0 && mcpd_get_fd(client) < 0)
		return 0; /* nothing can happen */
	struct pollfd pollfd = { .fd = mcpd_get_fd(client), .events = (short)mcpd_get_events(client) };
	if (poll(&pollfd, 1, wait) < 0 && errno != EINTR)
		return client_fail(client, -errno, "poll failed");
	return mcpd_process(client);
}

MCPD_PUBLIC int mcpd_connect(mcpd_client *client, int timeout_ms)
{
	int r = mcpd_connect_start(client, timeout_ms);
	if (r < 0)
		return r;
	client_enter(client);
	do {
		r = mcpd_wait(client, -1);
	} while (r >= 0 && client->state == MCPD_CONNECTING && !client->doomed);
	bool connected = client->state == MCPD_CONNECTED;
	client_leave(client);
	return r < 0 ? r : connected ? 0 : -ECONNRESET;
}

struct waiting {
	mcpd_reply *reply;
};

static void keep_reply(mcpd_client *client, mcpd_reply *reply, void *userdata)
{
	(void)client;
	struct waiting *waiting = userdata;
	waiting->reply = mcpd_reply_ref(reply);
}

static int wait_for_reply(mcpd_client *client, uint64_t request, struct waiting *waiting, mcpd_reply **ret_reply)
{
	int r = 0;
	client_enter(client);
	while (!waiting->reply && r != -ENOMEM && !client->doomed)
		r = mcpd_wait(client, -1);
	if (!waiting->reply && !client->doomed)
		request_abandon(client, request);
	client_leave(client);
	if (!waiting->reply)
		return r < 0 ? r : -ECANCELED;
	int status = mcpd_reply_status(waiting->reply);
	if (status < 0) {
		mcpd_reply_unref(waiting->reply);
		return status;
	}
	*ret_reply = waiting->reply;
	return 0;
}

MCPD_PUBLIC int mcpd_call(mcpd_client *client, const char *method, const char *params, int timeout_ms,
			  mcpd_reply **ret_reply)
{
	struct waiting waiting = { NULL };
	struct mcpd_request_options options = { .size = sizeof options, .timeout_ms = timeout_ms < 0 ? 0 : timeout_ms };
	uint64_t request;
	int r = mcpd_request(client, method, params, &options, keep_reply, &waiting, &request);
	return r < 0 ? r : wait_for_reply(client, request, &waiting, ret_reply);
}

MCPD_PUBLIC int mcpd_call_tool(mcpd_client *client, const char *server, const char *tool, const char *arguments,
			       int timeout_ms, mcpd_reply **ret_reply)
{
	struct waiting waiting = { NULL };
	struct mcpd_request_options options = { .size = sizeof options, .timeout_ms = timeout_ms < 0 ? 0 : timeout_ms };
	uint64_t request;
	int r = mcpd_request_tool(client, server, tool, arguments, &options, keep_reply, &waiting, &request);
	return r < 0 ? r : wait_for_reply(client, request, &waiting, ret_reply);
}
