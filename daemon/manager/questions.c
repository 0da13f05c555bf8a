#include "manager/questions.h"

#include <stdlib.h>

#include "log.h"
#include "manager/instance.h"
#include "manager/server_calls.h"
#include "manager/server_private.h"
#include "proto/json_iter.h"
#include "xalloc.h"

struct question {
	uint64_t id, number;
	struct instance *instance;
	TAILQ_ENTRY(question) link;
};

static void free_question(struct question *question)
{
	TAILQ_REMOVE(&question->instance->m->questions, question, link);
	free(question);
}

/* Whether a roots/list is about the server's own configuration: no client's call can be behind it. */
static bool is_about_no_client(const struct instance *inst, struct span method, enum mcp_proof proof, uint64_t owner)
{
	if (inst->owner || inst->calls > 0 || !json_string_is(method, "roots/list"))
		return false;
	return proof == MCP_PROOF_NO_CALL || proof == MCP_PROOF_NONE || owner == 0;
}

static void answer_roots(struct instance *inst, uint64_t number)
{
	struct server *server = manager_by_id(inst->m, inst->server_id);
	const char *roots = server && server->cfg->roots_json ? server->cfg->roots_json : "[]";
	char *result = xasprintf("{\"roots\":%s}", roots);
	mcp_client_answer(inst->client, number, span_of(result), SPAN_NONE);
	free(result);
}

static unsigned count_open(const struct instance *inst)
{
	unsigned n = 0;
	struct question *question;
	TAILQ_FOREACH(question, &inst->m->questions, link)
	n += question->instance == inst;
	return n;
}

void questions_ask(struct instance *inst, uint64_t number, struct span method, struct span params, enum mcp_proof proof,
		   uint64_t owner, uint64_t mcp_call)
{
	struct manager *m = inst->m;
	struct server *server = manager_by_id(m, inst->server_id);
	if (is_about_no_client(inst, method, proof, owner)) {
		answer_roots(inst, number);
		return;
	}
	if (!server || inst->closing)
		return;
	if (count_open(inst) >= (uint64_t)m->limits.value[LIMIT_REQUESTS_PER_SERVER]) {
		mcp_client_answer(inst->client, number, SPAN_NONE,
				  SPAN_LIT("{\"code\":-32603,\"message\":\"Too many requests wait for an answer\"}"));
		return;
	}
	struct question *question = xnew(struct question);
	question->id = manager_next_id(m);
	question->number = number;
	question->instance = inst;
	TAILQ_INSERT_TAIL(&m->questions, question, link);
	struct manager_question told = {
		.id = question->id,
		.method = method,
		.params = params,
		.proof = proof,
		.client = inst->owner ? inst->owner : owner,
		.call = mcp_call ? server_call_of(inst, mcp_call) : 0,
		.owned = inst->owner != 0,
	};
	m->callbacks.on_question(m->arg, server, &told);
}

void questions_withdrawn(struct instance *inst, uint64_t number, struct span reason)
{
	struct manager *m = inst->m;
	struct question *question;
	TAILQ_FOREACH(question, &m->questions, link)
	if (question->instance == inst && question->number == number) {
		uint64_t id = question->id;
		free_question(question);
		m->callbacks.on_question_withdrawn(m->arg, id, reason);
		return;
	}
}

void questions_drop(struct instance *inst)
{
	struct manager *m = inst->m;
	for (struct question *question = TAILQ_FIRST(&m->questions), *next; question; question = next) {
		next = TAILQ_NEXT(question, link);
		if (question->instance != inst)
			continue;
		outbox_question_withdrawn(m, question->id, NULL);
		free_question(question);
	}
}

void manager_answer(struct manager *m, uint64_t id, struct span result, struct span error)
{
	struct question *question;
	TAILQ_FOREACH(question, &m->questions, link)
	if (question->id == id) {
		struct instance *inst = question->instance;
		uint64_t number = question->number;
		free_question(question);
		mcp_client_answer(inst->client, number, result, error);
		return;
	}
}
