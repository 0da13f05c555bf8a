/*
 * libmcpd-client in a libevent loop: one event for the descriptor, one for the clock, made anew after every turn since both may have changed. Prints the
 * daemon's events until the given number has come.
 *
 *     libevent_loop N [TOPIC ...]
 */
#include <event2/event.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include <mcpd-client.h>

struct program {
	struct event_base *base;
	struct event *event;
	mcpd_client *client;
	int wanted;
	int status;
};

static void on_ready(evutil_socket_t fd, short what, void *userdata);

static void wait_again(struct program *program)
{
	int events = mcpd_get_events(program->client), timeout = mcpd_get_timeout(program->client);
	short what = (short)((events & POLLIN ? EV_READ : 0) | (events & POLLOUT ? EV_WRITE : 0));
	struct timeval interval = { timeout / 1000, timeout % 1000 * 1000 };
	if (program->event)
		event_free(program->event);
	program->event = event_new(program->base, mcpd_get_fd(program->client), what, on_ready, program);
	event_add(program->event, timeout < 0 ? NULL : &interval);
}

static void on_ready(evutil_socket_t fd, short what, void *userdata)
{
	(void)fd, (void)what;
	struct program *program = userdata;
	mcpd_process(program->client);
	if (mcpd_get_state(program->client) == MCPD_DISCONNECTED || program->wanted <= 0)
		event_base_loopbreak(program->base);
	else
		wait_again(program);
}

static void on_event(mcpd_client *client, const char *method, const char *params, void *userdata)
{
	(void)client;
	struct program *program = userdata;
	if (program->wanted-- > 0)
		printf("%s %s\n", method, params);
}

static void on_subscribed(mcpd_client *client, mcpd_reply *reply, void *userdata)
{
	(void)client;
	struct program *program = userdata;
	if (mcpd_reply_status(reply) == 0)
		return;
	fprintf(stderr, "%s\n", mcpd_reply_message(reply));
	program->status = 1;
	program->wanted = 0;
}

static void on_state(mcpd_client *client, enum mcpd_state state, int error, void *userdata)
{
	struct program *program = userdata;
	if (state == MCPD_CONNECTED || !error)
		return;
	fprintf(stderr, "%s\n", mcpd_last_error(client));
	program->status = 1;
}

static void subscribe(struct program *program, int n_topics, char **topics)
{
	char params[512] = "{\"topics\":[";
	for (int i = 0; i < n_topics; i++)
		snprintf(params + strlen(params), sizeof params - strlen(params), "%s\"%s\"", i ? "," : "", topics[i]);
	snprintf(params + strlen(params), sizeof params - strlen(params), "]}");
	mcpd_request(program->client, "events/subscribe", params, NULL, on_subscribed, program, NULL);
}

int main(int argc, char **argv)
{
	static char *all[] = { "servers" };
	if (argc < 2) {
		fprintf(stderr, "usage: libevent_loop N [TOPIC ...]\n");
		return 2;
	}
	struct program program = { .base = event_base_new(), .wanted = atoi(argv[1]) };
	if (!program.base || mcpd_client_new(&program.client) < 0)
		return 1;
	mcpd_on_state(program.client, on_state, &program);
	mcpd_on_event(program.client, on_event, &program);
	if (mcpd_connect_start(program.client, 10000) == 0) {
		subscribe(&program, argc > 2 ? argc - 2 : 1, argc > 2 ? argv + 2 : all);
		wait_again(&program);
		event_base_dispatch(program.base);
	}
	if (program.event)
		event_free(program.event);
	mcpd_client_free(program.client);
	event_base_free(program.base);
	return program.status;
}
