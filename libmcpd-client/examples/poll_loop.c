/*
 * libmcpd-client in a program's own poll(2) loop: many calls in flight at once, progress, and answers to questions of servers.
 *
 *     poll_loop N SERVER TOOL [ARGUMENTS]      makes the call N times at once
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <mcpd-client.h>

struct calls {
	int left, failed;
};

static void on_reply(mcpd_client *client, mcpd_reply *reply, void *userdata)
{
	(void)client;
	struct calls *calls = userdata;
	calls->left--;
	if (mcpd_reply_status(reply) == 0) {
		printf("%s\n", mcpd_reply_result(reply));
		return;
	}
	calls->failed++;
	fprintf(stderr, "call %llu: %s%s\n", (unsigned long long)mcpd_reply_request(reply), mcpd_reply_message(reply),
		mcpd_reply_maybe_executed(reply) ? " (it may have run)" : "");
}

static void on_progress(mcpd_client *client, uint64_t request, const char *params, void *userdata)
{
	(void)client, (void)userdata;
	fprintf(stderr, "call %llu: progress %s\n", (unsigned long long)request, params);
}

/* A question of a server, about one of our calls: this program has one root and answers nothing else. */
static void on_question(mcpd_client *client, uint64_t question, const char *method, const char *params, void *userdata)
{
	(void)params, (void)userdata;
	if (!method)
		return; /* withdrawn */
	if (strcmp(method, "roots/list") == 0)
		mcpd_answer(client, question, "{\"roots\":[{\"uri\":\"file:///tmp\",\"name\":\"tmp\"}]}");
	else
		mcpd_answer_error(client, question, -32601, "this program answers only roots/list");
}

static void on_state(mcpd_client *client, enum mcpd_state state, int error, void *userdata)
{
	(void)userdata;
	if (state == MCPD_DISCONNECTED && error)
		fprintf(stderr, "disconnected: %s\n", mcpd_last_error(client));
}

/* The loop: these three questions to the library, poll(2), and mcpd_process(). */
static void run(mcpd_client *client, struct calls *calls)
{
	while (calls->left > 0) {
		struct pollfd fd = { .fd = mcpd_get_fd(client), .events = (short)mcpd_get_events(client) };
		poll(&fd, 1, mcpd_get_timeout(client));
		mcpd_process(client);
	}
}

int main(int argc, char **argv)
{
	if (argc < 4) {
		fprintf(stderr, "usage: poll_loop N SERVER TOOL [ARGUMENTS]\n");
		return 2;
	}
	mcpd_client *client;
	if (mcpd_client_new(&client) < 0)
		return 1;
	struct calls calls = { 0, 0 };
	mcpd_on_state(client, on_state, NULL);
	mcpd_on_question(client, on_question, NULL);
	mcpd_set_identity(client, "example-poll", "1", "{\"roots\":{}}");
	if (mcpd_connect_start(client, 10000) < 0)
		fprintf(stderr, "%s\n", mcpd_last_error(client));
	struct mcpd_request_options options = { .size = sizeof options, .timeout_ms = 30000, .progress = on_progress };
	for (int i = 0; i < atoi(argv[1]); i++) {
		/* Queued until the connection stands. */
		if (mcpd_request_tool(client, argv[2], argv[3], argc > 4 ? argv[4] : NULL, &options, on_reply, &calls,
				      NULL) == 0)
			calls.left++;
		else
			calls.failed++;
	}
	run(client, &calls);
	mcpd_client_free(client);
	return calls.failed ? 1 : 0;
}
