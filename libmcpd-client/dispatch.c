/* Lines from the daemon: answers to requests, progress, events and questions. */
#include "client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

char *dup_span(struct span s)
{
	char *text = malloc(s.len + 1);
	if (!text)
		return NULL;
	memcpy(text, s.ptr, s.len);
	text[s.len] = '\0';
	return text;
}

static uint64_t number_of(struct span id)
{
	int64_t number;
	return json_type_of(id) == JSON_NUMBER && json_int64(id, &number) == 0 && number > 0 ? (uint64_t)number : 0;
}

static int dispatch_answer(mcpd_client *client, const struct jsonrpc_message *message)
{
	/* An error of no request: why the connection is about to be closed. */
	bool refused = message->kind == JSONRPC_ERROR && json_type_of(message->id) == JSON_NULL;
	if (client->step == STEP_HELLO && (refused || json_string_is(message->id, "hello")))
		return connect_established(client, message);
	struct request *request = request_take(client, number_of(message->id));
	if (!request)
		return 0; /* given up before; or an error that belongs to no request */
	if (message->kind == JSONRPC_RESULT)
		reply_set_result(request->reply, message->result);
	else
		reply_set_error(request->reply, message->error);
	request_finish(client, request);
	return 0;
}

static int dispatch_progress(mcpd_client *client, const struct jsonrpc_message *message)
{
	struct request *request = request_find(client, number_of(message->param[PARAM_PROGRESS_TOKEN]));
	if (!request || !request->progress)
		return 0;
	char *params = dup_span(message->params);
	if (!params)
		return -ENOMEM;
	client->callbacks++;
	request->progress(client, request->number, params, request->userdata);
	free(params);
	return 0;
}

static int dispatch_event(mcpd_client *client, const struct jsonrpc_message *message)
{
	if (!client->on_event)
		return 0;
	char *method = json_string_dup(message->method);
	char *params = dup_span(message->params.ptr ? message->params : SPAN_LIT("{}"));
	int r = method && params ? 0 : -ENOMEM;
	if (r == 0) {
		client->callbacks++;
		client->on_event(client, method, params, client->on_event_userdata);
	}
	free(method);
	free(params);
	return r;
}

int dispatch_line(mcpd_client *client, struct span line)
{
	struct jsonrpc_message message;
	if (jsonrpc_parse(line, &message, NULL) < 0)
		return client_fail(client, -EBADMSG, "the daemon sent a line that is no JSON");
	switch (message.kind) {
	case JSONRPC_RESULT:
	case JSONRPC_ERROR:
		return dispatch_answer(client, &message);
	case JSONRPC_REQUEST:
		return question_ask(client, &message);
	case JSONRPC_NOTIFICATION:
		if (json_string_is(message.method, "notifications/progress"))
			return dispatch_progress(client, &message);
		if (json_string_is(message.method, "notifications/cancelled"))
			return question_withdraw(client, &message);
		return dispatch_event(client, &message);
	case JSONRPC_BATCH:
	case JSONRPC_INVALID:
		break;
	}
	return client_fail(client, -EBADMSG, "the daemon sent a line that is no JSON-RPC message");
}
