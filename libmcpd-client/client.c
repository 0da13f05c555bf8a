#include "client.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mcpd-version.h"

#define DEFAULT_MAX_MESSAGE ((64UL << 20) + (1UL << 16))

int client_fail(mcpd_client *client, int error, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(client->last_error, sizeof client->last_error, format, args);
	va_end(args);
	return error;
}

static void client_destroy(mcpd_client *client)
{
	requests_discard(client);
	questions_discard(client);
	if (client->fd >= 0)
		close(client->fd);
	reach_done(&client->reach);
	framer_done(&client->in);
	buf_done(&client->hello_out);
	buf_done(&client->out);
	free(client->buckets);
	free(client->socket_setting);
	free(client->start_program);
	free(client->hello_params);
	free(client->socket_path);
	free(client->hello);
	free(client);
}

void client_enter(mcpd_client *client)
{
	client->depth++;
}

bool client_leave(mcpd_client *client)
{
	bool doomed = client->doomed;
	if (--client->depth == 0 && doomed)
		client_destroy(client);
	return doomed;
}

MCPD_PUBLIC const char *mcpd_client_version(void)
{
	return MCPD_VERSION;
}

MCPD_PUBLIC int mcpd_client_new(mcpd_client **ret_client)
{
	mcpd_client *client = calloc(1, sizeof *client);
	if (!client)
		return -ENOMEM;
	client->fd = -1;
	client->max_message = DEFAULT_MAX_MESSAGE;
	client->start_program = dup_span(SPAN_LIT(""));
	if (!client->start_program) {
		free(client);
		return -ENOMEM;
	}
	*ret_client = client;
	return 0;
}

MCPD_PUBLIC void mcpd_client_free(mcpd_client *client)
{
	if (!client)
		return;
	if (client->depth > 0) {
		client->doomed = true;
		return;
	}
	client_destroy(client);
}

static int replace_text(char **slot, const char *text)
{
	char *copy = NULL;
	if (text) {
		copy = dup_span(span_of(text));
		if (!copy)
			return -ENOMEM;
	}
	free(*slot);
	*slot = copy;
	return 0;
}

MCPD_PUBLIC int mcpd_set_socket(mcpd_client *client, const char *path)
{
	return replace_text(&client->socket_setting, path);
}

MCPD_PUBLIC int mcpd_set_start(mcpd_client *client, const char *program)
{
	return replace_text(&client->start_program, program);
}

MCPD_PUBLIC int mcpd_set_identity(mcpd_client *client, const char *name, const char *version, const char *capabilities)
{
	struct span declared = span_of(capabilities);
	if (capabilities && (json_check(declared, NULL) < 0 || json_type_of(json_trim(declared)) != JSON_OBJECT))
		return client_fail(client, -EINVAL, "the client capabilities are no JSON object");
	struct buf params = BUF_INIT;
	buf_add_text(&params, "{\"protocol\":1,\"client\":{\"name\":");
	buf_add_json_text(&params, name ? name : "");
	if (version) {
		buf_add_text(&params, ",\"version\":");
		buf_add_json_text(&params, version);
	}
	buf_add_char(&params, '}');
	if (capabilities) {
		buf_add_text(&params, ",\"capabilities\":");
		jsonrpc_add_payload(&params, declared);
	}
	buf_add_char(&params, '}');
	char *text = buf_steal(&params);
	if (!text)
		return -ENOMEM;
	free(client->hello_params);
	client->hello_params = text;
	return 0;
}

MCPD_PUBLIC int mcpd_set_max_message(mcpd_client *client, size_t bytes)
{
	if (bytes < 1024)
		return client_fail(client, -EINVAL, "the longest message must be at least 1024 bytes");
	client->max_message = bytes;
	return 0;
}

MCPD_PUBLIC enum mcpd_state mcpd_get_state(const mcpd_client *client)
{
	return client->state;
}

MCPD_PUBLIC void mcpd_on_state(mcpd_client *client, mcpd_state_fn *fn, void *userdata)
{
	client->on_state = fn;
	client->on_state_userdata = userdata;
}

MCPD_PUBLIC void mcpd_on_event(mcpd_client *client, mcpd_event_fn *fn, void *userdata)
{
	client->on_event = fn;
	client->on_event_userdata = userdata;
}

MCPD_PUBLIC void mcpd_on_question(mcpd_client *client, mcpd_question_fn *fn, void *userdata)
{
	client->on_question = fn;
	client->on_question_userdata = userdata;
}

MCPD_PUBLIC const char *mcpd_last_error(const mcpd_client *client)
{
	return client->last_error;
}

MCPD_PUBLIC const char *mcpd_get_hello(const mcpd_client *client)
{
	return client->hello;
}

MCPD_PUBLIC int mcpd_get_fd(const mcpd_client *client)
{
	return client->step == STEP_REACH ? reach_fd(&client->reach) : client->fd;
}

static bool has_unsent(const mcpd_client *client)
{
	return client->hello_sent < client->hello_out.len || client->out_sent < client->out.len;
}

MCPD_PUBLIC int mcpd_get_events(const mcpd_client *client)
{
	if (mcpd_get_fd(client) < 0)
		return 0;
	if (client->step == STEP_REACH)
		return POLLIN;
	return POLLIN | (has_unsent(client) ? POLLOUT : 0);
}

static void earliest(int64_t *at, int64_t candidate)
{
	if (candidate && (!*at || candidate < *at))
		*at = candidate;
}

MCPD_PUBLIC int mcpd_get_timeout(const mcpd_client *client)
{
	/* A whole line may lie in the framer already: the descriptor would not tell. */
	if (client->lost || client->in.scanned < client->in.end)
		return 0;
	int64_t at = client->next_deadline_ms;
	if (client->state == MCPD_CONNECTING) {
		earliest(&at, client->connect_deadline_ms);
		if (client->step == STEP_REACH)
			earliest(&at, reach_at_ms(&client->reach));
	}
	if (!at)
		return -1;
	int64_t wait = at - client_now_ms();
	if (wait < 0)
		return 0;
	return wait > 1 << 30 ? 1 << 30 : (int)wait;
}
