#include "router/question.h"

#include <errno.h>
#include <stdlib.h>

#include "idmap.h"
#include "log.h"
#include "proto/json_iter.h"
#include "xalloc.h"

#define ADVICE                                                                                                         \
	"questions of this server cannot be told apart while several clients use it; set \"sharing\": \"per-client\" " \
	"or \"exclusive\" for it"

struct question {
	uint64_t id; /* the manager's, which is unique too */
	uint64_t client;
	uint64_t server, call;
};

struct questions {
	struct manager *manager;
	const struct clients *clients;
	const struct question_callbacks *callbacks;
	void *arg;
	struct idmap open;
};

/* Which ability a client needs for a method, beyond that for what the params ask. */
static const struct question_method {
	const char *method;
	enum client_ability ability;
	const char *capability; /* as hello says it */
	const char *member;     /* a member of params that needs more ... */
	const char *value;      /* ... if it has this value; NULL: any */
	enum client_ability more;
	const char *more_capability;
} methods[] = {
	{ "sampling/createMessage", CLIENT_SAMPLING, "sampling", "tools", NULL, CLIENT_SAMPLING_TOOLS,
	  "sampling.tools" },
	{ "elicitation/create", CLIENT_ELICITATION, "elicitation", "mode", "url", CLIENT_ELICITATION_URL,
	  "elicitation.url" },
	{ "roots/list", CLIENT_ROOTS, "roots", NULL, NULL, 0, NULL },
};

struct questions *questions_new(struct manager *manager, const struct clients *clients,
				const struct question_callbacks *callbacks, void *arg)
{
	struct questions *qs = xnew(struct questions);
	qs->manager = manager;
	qs->clients = clients;
	qs->callbacks = callbacks;
	qs->arg = arg;
	return qs;
}

void questions_free(struct questions *qs)
{
	if (!qs)
		return;
	size_t at = 0;
	struct question *q;
	while ((q = idmap_next(&qs->open, &at)))
		free(q);
	idmap_done(&qs->open);
	free(qs);
}

/* Answers the server with an error object that mcpd makes itself. */
static void refuse(struct questions *qs, uint64_t id, int code, const char *message)
{
	struct buf error = BUF_INIT;
	buf_addf(&error, "{\"code\":%d,\"message\":", code);
	buf_add_json_text(&error, message);
	buf_add_char(&error, '}');
	struct span text =
		buf_failed(&error) ? SPAN_LIT("{\"code\":-32603,\"message\":\"out of memory\"}") : buf_span(&error);
	manager_answer(qs->manager, id, SPAN_NONE, text);
	buf_done(&error);
}

static void answer_configured_roots(struct questions *qs, struct server *server, uint64_t id)
{
	struct server_info info;
	server_get_info(server, &info);
	struct buf result = BUF_INIT;
	buf_add_text(&result, "{\"roots\":");
	buf_add_text(&result, info.config->roots_json ? info.config->roots_json : "[]");
	buf_add_char(&result, '}');
	if (buf_failed(&result))
		refuse(qs, id, MCPD_E_INTERNAL, "out of memory");
	else
		manager_answer(qs->manager, id, buf_span(&result), SPAN_NONE);
	buf_done(&result);
}

static void refuse_unproven(struct questions *qs, struct server *server, const struct manager_question *mq)
{
	char *message = xasprintf("mcpd cannot prove which client this request belongs to: %s, and it does not guess. "
				  "Set \"sharing\": \"per-client\" or \"exclusive\" for server \"%s\".",
				  mq->proof == MCP_PROOF_NO_CALL ? "no client's request is in flight" :
								   "requests of several askers are in flight",
				  server_name(server));
	struct server_info info;
	server_get_info(server, &info);
	/* Told once: a server that asks often does not fill the log. */
	log_server(info.advice ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARNING, server_name(server), "a %.*s was refused: %s",
		   (int)mq->method.len, mq->method.ptr, ADVICE);
	server_note_refusal(server, ADVICE);
	refuse(qs, mq->id, MCPD_E_INTERNAL, message);
	free(message);
}

static const struct question_method *find_method(struct span name)
{
	for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
		if (json_string_is(name, methods[i].method))
			return &methods[i];
	return NULL;
}

/* The capability that the client lacks for this question, or NULL. */
static const char *lacks(const struct question_method *m, unsigned abilities, struct span params)
{
	struct span member = m->member ? json_member(params, m->member) : SPAN_NONE;
	bool needs_more = member.ptr && (!m->value || json_string_is(member, m->value));
	if (needs_more && !(abilities & m->more))
		return m->more_capability;
	/* What asks for more than the plain form does not need the plain form too. */
	if (!(needs_more && m->value) && !(abilities & m->ability))
		return m->capability;
	return NULL;
}

static bool is_object_or_absent(struct span value)
{
	return !value.ptr || json_type_of(value) == JSON_OBJECT;
}

/* Hands the question to its client. */
static void ask(struct questions *qs, struct server *server, const struct manager_question *mq)
{
	if (!is_object_or_absent(mq->params) || !is_object_or_absent(json_member(mq->params, "_meta"))) {
		refuse(qs, mq->id, MCPD_E_INVALID_PARAMS, "params, or _meta in it, is not an object");
		return;
	}
	struct question *q = xnew(struct question);
	*q = (struct question){ mq->id, mq->client, server_id(server), mq->call };
	idmap_put(&qs->open, q->id, q);
	struct client_question told = { mq->id, mq->client, server, mq->call, mq->method, mq->params };
	qs->callbacks->ask(qs->arg, &told);
}

void questions_on_question(struct questions *qs, struct server *server, const struct manager_question *mq)
{
	const struct question_method *m = find_method(mq->method);
	if (!m) {
		refuse(qs, mq->id, MCPD_E_METHOD_NOT_FOUND, "Method not found");
		return;
	}
	bool proven = mq->owned || mq->proof == MCP_PROOF_STREAM || mq->proof == MCP_PROOF_TASK ||
		      mq->proof == MCP_PROOF_SOLE_OWNER;
	bool known = mq->client && clients_known(qs->clients, mq->client);
	const char *missing = known ? lacks(m, clients_abilities(qs->clients, mq->client), mq->params) : NULL;
	bool roots = m->ability == CLIENT_ROOTS;
	if (proven && known && !missing) {
		ask(qs, server, mq);
	} else if (roots && ((proven && known) || (!proven && mq->proof == MCP_PROOF_NO_CALL))) {
		/* The configuration speaks for clients that have nothing to say about roots. */
		answer_configured_roots(qs, server, mq->id);
	} else if (!proven) {
		refuse_unproven(qs, server, mq);
	} else if (!known) {
		refuse(qs, mq->id, MCPD_E_INTERNAL, "the client whose request this belongs to has gone");
	} else {
		char *message = xasprintf("the client whose request this belongs to has not declared `%s`", missing);
		refuse(qs, mq->id, MCPD_E_METHOD_NOT_FOUND, message);
		free(message);
	}
}

/* Takes the question out; the client is told that it need not answer. */
static void withdraw(struct questions *qs, struct question *q, const char *reason)
{
	struct question gone = *q;
	idmap_remove(&qs->open, q->id);
	free(q);
	qs->callbacks->withdraw(qs->arg, gone.client, gone.id, reason);
}

void questions_on_withdrawn(struct questions *qs, uint64_t id, struct span reason)
{
	struct question *q = idmap_get(&qs->open, id);
	if (!q)
		return;
	char *text = json_string_dup(reason);
	withdraw(qs, q, text ? text : "the server no longer asks");
	free(text);
}

int questions_answer(struct questions *qs, uint64_t client, uint64_t id, struct span result, struct span error)
{
	struct question *q = idmap_get(&qs->open, id);
	if (!q)
		return -ENOENT;
	if (q->client != client)
		return -EPERM;
	idmap_remove(&qs->open, id);
	free(q);
	manager_answer(qs->manager, id, result, error);
	return 0;
}

typedef bool wanted_fn(const struct question *q, uint64_t a, uint64_t b);

/* The numbers of the questions that are wanted, in *ret_ids; callbacks may change the map, so it is not walked while
 * they run. */
static size_t collect(const struct questions *qs, wanted_fn *wanted, uint64_t a, uint64_t b, uint64_t **ret_ids)
{
	size_t n = 0, at = 0;
	const struct question *q;
	*ret_ids = NULL;
	while ((q = idmap_next(&qs->open, &at))) {
		if (!wanted(q, a, b))
			continue;
		*ret_ids = xrealloc(*ret_ids, n + 1, sizeof **ret_ids);
		(*ret_ids)[n++] = q->id;
	}
	return n;
}

static bool is_of_client(const struct question *q, uint64_t client, uint64_t unused)
{
	(void)unused;
	return q->client == client;
}

static bool is_of_call(const struct question *q, uint64_t server, uint64_t call)
{
	return q->server == server && q->call == call;
}

void questions_client_gone(struct questions *qs, uint64_t client)
{
	uint64_t *ids;
	size_t n = collect(qs, is_of_client, client, 0, &ids);
	for (size_t i = 0; i < n; i++) {
		free(idmap_remove(&qs->open, ids[i]));
		refuse(qs, ids[i], MCPD_E_INTERNAL, "the client left without answering");
	}
	free(ids);
}

void questions_call_ended(struct questions *qs, uint64_t server, uint64_t upstream)
{
	if (!qs->open.count || !upstream)
		return;
	uint64_t *ids;
	size_t n = collect(qs, is_of_call, server, upstream, &ids);
	for (size_t i = 0; i < n; i++) {
		struct question *q = idmap_get(&qs->open, ids[i]);
		if (!q)
			continue;
		withdraw(qs, q, "the call it belonged to has ended");
		refuse(qs, ids[i], MCPD_E_INTERNAL, "the request it belonged to has ended");
	}
	free(ids);
}
