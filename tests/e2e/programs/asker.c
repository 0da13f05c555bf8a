/*
 * A client in C, through libmcpd-client, for test_everything_at_once.py: makes calls that make the server ask, with several in flight and random pauses, and
 * answers every question with its own name. Whatever comes back must carry that name and no other.
 *
 *     asker NAME SEED COUNT SERVER...
 *
 * Prints {"answered":n,"refused":n,"progress":n}; exits 1 with the text when an answer is another client's or a call is lost.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mcpd-client.h"

#define IN_FLIGHT 4

static struct asker {
	const char *name;
	unsigned left, in_flight, answered, refused, progress;
	char mine[80]; /* what an answer to our question carries */
} asker;

static void fail(const char *what, const char *text)
{
	fprintf(stderr, "asker %s: %s: %s\n", asker.name, what, text);
	exit(1);
}

static void on_question(mcpd_client *client, uint64_t question, const char *method, const char *params, void *userdata)
{
	char answer[300];
	(void)params, (void)userdata;
	if (!method)
		return;
	if (strcmp(method, "roots/list") == 0)
		snprintf(answer, sizeof answer, "{\"roots\":[{\"uri\":\"file:///%s\",\"name\":\"%s\"}]}", asker.mine,
			 asker.mine);
	else if (strcmp(method, "elicitation/create") == 0)
		snprintf(answer, sizeof answer, "{\"action\":\"accept\",\"content\":{\"name\":\"%s\"}}", asker.mine);
	else
		snprintf(answer, sizeof answer,
			 "{\"role\":\"assistant\",\"model\":\"m\",\"content\":{\"type\":\"text\",\"text\":\"%s\"}}",
			 asker.mine);
	mcpd_answer(client, question, answer);
}

static void on_reply(mcpd_client *client, mcpd_reply *reply, void *userdata)
{
	(void)client;
	bool asking = userdata != NULL;
	asker.in_flight--;
	if (mcpd_reply_status(reply) != 0)
		fail("a call failed", mcpd_reply_message(reply));
	const char *text = mcpd_reply_result(reply);
	/* Names are "I-am-NAME-": another's would be seen. */
	const char *named = strstr(text, "I-am-");
	if (named && strncmp(named, asker.mine, strlen(asker.mine)) != 0)
		fail("an answer of another client", text);
	if (asking && named)
		asker.answered++;
	else if (asking && strstr(text, "\"isError\":true"))
		asker.refused++;
	else if (asking && !strstr(text, "no roots"))
		fail("neither answered nor refused", text);
}

static void on_progress(mcpd_client *client, uint64_t request, const char *params, void *userdata)
{
	(void)client, (void)request, (void)params, (void)userdata;
	asker.progress++;
}

static void call_something(mcpd_client *client, const char *server)
{
	static const struct {
		const char *tool, *arguments;
		bool asks;
	} calls[] = {
		{ "trigger-sampling-request", "{\"prompt\":\"who\"}", true },
		{ "trigger-elicitation-request", "{}", true },
		{ "trigger-long-running-operation", "{\"duration\":0.05,\"steps\":2}", false },
	};
	struct mcpd_request_options options = { .size = sizeof options, .timeout_ms = 60000 };
	size_t i = (size_t)random() % 3;
	if (!calls[i].asks)
		options.progress = on_progress;
	if (mcpd_request_tool(client, server, calls[i].tool, calls[i].arguments, &options, on_reply,
			      calls[i].asks ? &asker : NULL, NULL) < 0)
		fail("no request", mcpd_last_error(client));
	asker.left--;
	asker.in_flight++;
}

int main(int argc, char **argv)
{
	mcpd_client *client;
	if (argc < 5 || mcpd_client_new(&client) < 0)
		return 2;
	asker.name = argv[1];
	snprintf(asker.mine, sizeof asker.mine, "I-am-%s-", asker.name);
	srandom((unsigned)atoi(argv[2]));
	asker.left = (unsigned)atoi(argv[3]);
	mcpd_on_question(client, on_question, NULL);
	mcpd_set_identity(client, asker.name, "1", "{\"sampling\":{},\"elicitation\":{\"form\":{}},\"roots\":{}}");
	if (mcpd_connect(client, 30000) < 0)
		fail("no connection", mcpd_last_error(client));
	while (asker.left > 0 || asker.in_flight > 0) {
		if (asker.left > 0 && asker.in_flight < IN_FLIGHT && random() % 4 != 0)
			call_something(client, argv[4 + random() % (argc - 4)]);
		if (mcpd_wait(client, (int)(random() % 5)) < 0)
			fail("the connection was lost", mcpd_last_error(client));
	}
	printf("{\"answered\":%u,\"refused\":%u,\"progress\":%u}\n", asker.answered, asker.refused, asker.progress);
	mcpd_client_free(client);
	return 0;
}
