#include "ipc/asking.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ipc/ipc_internal.h"
#include "log.h"
#include "proto/json_iter.h"

#define QUESTION_PREFIX "mcpd-"

static void write_id(struct buf *out, uint64_t question)
{
	buf_addf(out, "\"" QUESTION_PREFIX "%" PRIu64 "\"", question);
}

/* 0 for what is no id of ours. */
static uint64_t read_id(struct span id)
{
	char *text = json_string_dup(id);
	uint64_t question = 0;
	if (text && strncmp(text, QUESTION_PREFIX, strlen(QUESTION_PREFIX)) == 0)
		question = strtoull(text + strlen(QUESTION_PREFIX), NULL, 10);
	free(text);
	return question;
}

void asking_ask(struct session *s, uint64_t question, struct span method, struct span params)
{
	struct buf id = BUF_INIT;
	write_id(&id, question);
	struct buf *line = &session_ipc(s)->line;
	buf_reset(line);
	jsonrpc_write_request(line, buf_span(&id), method, params);
	session_send(s, line);
	buf_done(&id);
}

void asking_withdraw(struct session *s, uint64_t question, const char *reason)
{
	struct buf params = BUF_INIT;
	buf_add_text(&params, "{\"requestId\":");
	write_id(&params, question);
	buf_add_text(&params, ",\"reason\":");
	buf_add_json_text(&params, reason);
	buf_add_char(&params, '}');
	struct buf *line = &session_ipc(s)->line;
	buf_reset(line);
	jsonrpc_write_notification(line, JSONRPC_METHOD("notifications/cancelled"), buf_span(&params));
	session_send(s, line);
	buf_done(&params);
}

void asking_answer(struct session *s, const struct jsonrpc_message *m)
{
	uint64_t question = read_id(m->id);
	struct router *router = session_ipc(s)->options.router;
	int r = question ? router_answer(router, session_id(s), question, m->result, m->error) : -ENOENT;
	if (r == -EPERM)
		log_client(LOG_LEVEL_WARNING, router_client_label(router, session_id(s)),
			   "answered a question that another client was asked: refused");
	else if (r == -ENOENT)
		log_client(LOG_LEVEL_DEBUG, router_client_label(router, session_id(s)),
			   "answered what it was not asked, or too late");
}

void asking_bad_answer(struct session *s, struct jsonrpc_message *m)
{
	m->result = SPAN_NONE;
	m->error = SPAN_LIT("{\"code\":-32603,\"message\":\"the client's answer is no JSON-RPC message\"}");
	asking_answer(s, m);
}
