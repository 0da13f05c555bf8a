/* Questions of servers to this client: kept until answered or withdrawn. */
#include "client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int send_answer(mcpd_client *client, struct span id, struct span result, int code, const char *message)
{
	struct buf line = BUF_INIT;
	if (result.ptr)
		jsonrpc_write_result(&line, id, result);
	else
		jsonrpc_write_error(&line, id, code, message, SPAN_NONE);
	int r = io_queue(client, &line);
	buf_done(&line);
	return r;
}

static struct question **question_slot(mcpd_client *client, uint64_t number)
{
	struct question **at = &client->questions;
	while (*at && (*at)->number != number)
		at = &(*at)->next;
	return at;
}

int question_ask(mcpd_client *client, const struct jsonrpc_message *message)
{
	if (!client->on_question)
		return send_answer(client, message->id, SPAN_NONE, -32601, "this client answers no questions");
	struct question *question = malloc(sizeof *question + message->id.len);
	char *method = json_string_dup(message->method);
	char *params = dup_span(message->params.ptr ? message->params : SPAN_LIT("{}"));
	int r = -ENOMEM;
	if (question && method && params) {
		question->number = ++client->last_question;
		question->id_len = message->id.len;
		memcpy(question->id, message->id.ptr, message->id.len);
		question->next = client->questions;
		client->questions = question;
		client->callbacks++;
		client->on_question(client, question->number, method, params, client->on_question_userdata);
		question = NULL; /* belongs to the list, or was answered */
		r = 0;
	}
	free(question);
	free(method);
	free(params);
	return r;
}

int question_withdraw(mcpd_client *client, const struct jsonrpc_message *message)
{
	struct span id = message->param[PARAM_REQUEST_ID];
	struct question **at = &client->questions;
	while (*at && (!id.ptr || !jsonrpc_ids_equal((struct span){ (*at)->id, (*at)->id_len }, id)))
		at = &(*at)->next;
	if (!*at)
		return 0;
	struct span reason = message->param[PARAM_REASON];
	char *text = reason.ptr ? dup_span(reason) : NULL;
	if (reason.ptr && !text)
		return -ENOMEM;
	struct question *question = *at;
	uint64_t number = question->number;
	*at = question->next;
	free(question);
	if (client->on_question) {
		client->callbacks++;
		client->on_question(client, number, NULL, text, client->on_question_userdata);
	}
	free(text);
	return 0;
}

void questions_discard(mcpd_client *client)
{
	while (client->questions) {
		struct question *question = client->questions;
		client->questions = question->next;
		free(question);
	}
}

static int answer(mcpd_client *client, uint64_t number, struct span result, int code, const char *message)
{
	struct question **at = question_slot(client, number);
	struct question *question = *at;
	if (!question)
		return client_fail(client, -ENOENT, "no such question, or it was answered or withdrawn");
	if (client->state == MCPD_DISCONNECTED || client->lost)
		return client_fail(client, -ENOTCONN, "not connected");
	int r = send_answer(client, (struct span){ question->id, question->id_len }, result, code, message);
	if (r < 0)
		return r; /* still to be answered */
	*at = question->next;
	free(question);
	return 0;
}

MCPD_PUBLIC int mcpd_answer(mcpd_client *client, uint64_t question, const char *result)
{
	struct span text = span_of(result);
	if (!result || json_check(text, NULL) < 0)
		return client_fail(client, -EINVAL, "the answer is no JSON");
	return answer(client, question, json_trim(text), 0, NULL);
}

MCPD_PUBLIC int mcpd_answer_error(mcpd_client *client, uint64_t question, int code, const char *message)
{
	return answer(client, question, SPAN_NONE, code, message ? message : "refused");
}
