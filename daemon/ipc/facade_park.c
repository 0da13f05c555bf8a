/*
 * Questions of legacy servers to modern clients (2026-07-28, multi round-trip requests).
 *
 * A legacy server asks in the middle of a call and waits; a modern client takes questions only as the result of its
 * request, and sends that again with the answers. So the client's request is answered with an input-required result,
 * and the call to the server goes on without it: it is parked. The repeat names it by its `requestState`, hands the
 * answers to the server, and is answered by the same call: with its result, or with what was asked meanwhile. A result
 * that comes while nobody waits for it is kept for a while. The call's clock runs all the time, and its end, however it
 * comes, is told to whoever repeats it. Nothing here is known to another client.
 */
#include "ipc/facade_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/input_required.h"
#include "proto/json_edit.h"
#include "proto/json_iter.h"
#include "xalloc.h"

/* How long the end of a parked call is kept for a client that does not ask for it. */
#define KEEP_MS (10LL * 60 * 1000)
#define STATE_PREFIX "mcpd-"

/* A question of the server that the client has not answered. */
struct parked_question {
	struct parked_question *next;
	uint64_t id;           /* the router's; also its key in inputRequests */
	char *method, *params; /* JSON; params may be NULL */
};

struct parked {
	uint64_t state; /* what requestState says, beside the daemon's own mark; 0: nothing was told yet */
	struct parked_question *questions;
	/* The call has ended while the client was away. */
	char *kept; /* its result or error, JSON */
	bool kept_is_error;
	int64_t until_ms;
};

static void free_question(struct parked_question *q)
{
	free(q->method);
	free(q->params);
	free(q);
}

void parked_free(struct facade_call *call)
{
	struct parked *p = call->parked;
	if (!p)
		return;
	while (p->questions) {
		struct parked_question *q = p->questions;
		p->questions = q->next;
		free_question(q);
	}
	free(p->kept);
	free(p);
	call->parked = NULL;
}

/* --- asking --- */

/* A state of another life of the daemon must not name a call of this one. */
static void write_state(struct buf *out, const struct ipc *ipc, const struct parked *p)
{
	buf_addf(out, "\"" STATE_PREFIX "%" PRIx64 "-%" PRIu64 "\"", ipc->nonce, p->state);
}

static void add_question(struct buf *out, const struct parked_question *q)
{
	buf_addf(out, "\"%" PRIu64 "\":{\"method\":%s", q->id, q->method);
	if (q->params)
		buf_addf(out, ",\"params\":%s", q->params);
	buf_add_char(out, '}');
}

/* Answers the request that waits with what is asked. Each time has a state of its own, so that a repeat cannot be taken for
 * that of another round. */
static void tell_questions(struct facade_call *call)
{
	struct buf result = BUF_INIT;
	call->parked->state = ++session_ipc(call->session)->last_state;
	buf_add_text(&result, "{\"resultType\":\"input_required\",\"inputRequests\":{");
	for (const struct parked_question *q = call->parked->questions; q; q = q->next) {
		add_question(&result, q);
		buf_add_text(&result, q->next ? "," : "");
	}
	buf_add_text(&result, "},\"requestState\":");
	write_state(&result, session_ipc(call->session), call->parked);
	buf_add_char(&result, '}');
	request_result_buf(call->request, &result);
}

/* A question that is proven to be the client's but not which of its calls it is about may go with any of them that may
 * ask: the answer reaches the same question. It goes with one that the client waits for, where there is one, else with
 * the newest: an older one may be parked because the client has given up repeating it. */
static struct facade_call *find_call(struct facade *f, const struct client_question *q)
{
	struct ipc *ipc = session_ipc(f->session);
	uint64_t row = router_find_row(ipc->options.router, q->client, server_id(q->server), q->call);
	struct facade_call *found = NULL;
	for (struct facade_call *call = f->calls; call; call = call->next) {
		bool can_ask = call->modern && call->row && call->server == server_id(q->server) && call->method &&
			       input_required_allowed(span_of(call->method)) && (call->request || call->parked);
		if (can_ask && row && call->row == row)
			return call;
		/* The newest are first. */
		if (can_ask && !row && (!found || (call->request && !found->request)))
			found = call;
	}
	return found;
}

static char *copy(struct span json)
{
	return json.ptr ? strndup(json.ptr, json.len) : NULL;
}

static struct parked_question *new_question(const struct client_question *told)
{
	struct parked_question *q = xnew(struct parked_question);
	q->id = told->id;
	q->method = copy(told->method);
	q->params = copy(told->params);
	if (q->method && (q->params || !told->params.ptr))
		return q;
	free_question(q);
	return NULL;
}

void facade_park_ask(struct facade *f, const struct client_question *told)
{
	struct ipc *ipc = session_ipc(f->session);
	struct facade_call *call = find_call(f, told);
	struct parked_question *q = call ? new_question(told) : NULL;
	if (!q) {
		router_answer(
			ipc->options.router, told->client, told->id, SPAN_NONE,
			SPAN_LIT("{\"code\":-32603,\"message\":\"the client has no request in flight that may ask "
				 "for input\"}"));
		return;
	}
	if (!call->parked)
		call->parked = xnew(struct parked);
	struct parked_question **at = &call->parked->questions;
	while (*at)
		at = &(*at)->next;
	*at = q;
	if (call->request)
		tell_questions(call);
}

void facade_park_withdraw(struct facade *f, uint64_t question)
{
	for (struct facade_call *call = f->calls; call; call = call->next) {
		struct parked_question **at = call->parked ? &call->parked->questions : NULL;
		for (; at && *at; at = &(*at)->next) {
			struct parked_question *q = *at;
			if (q->id != question)
				continue;
			*at = q->next;
			free_question(q);
			return;
		}
	}
}

/* --- what is kept --- */

static void on_park_time(void *arg)
{
	struct facade *f = arg;
	int64_t now = loop_now_ms(), next_ms = 0;
	for (struct facade_call *call = f->calls, *next; call; call = next) {
		next = call->next;
		if (!call->parked || !call->parked->kept)
			continue;
		if (call->parked->until_ms <= now)
			facade_free_call(call);
		else if (!next_ms || call->parked->until_ms < next_ms)
			next_ms = call->parked->until_ms;
	}
	if (next_ms)
		timer_set(f->park_timer, next_ms);
}

bool facade_park_keep(struct facade_call *call, bool is_error, struct span payload)
{
	struct facade *f = facade_of(call->session);
	struct parked *p = call->parked;
	p->kept = strndup(payload.ptr, payload.len);
	p->kept_is_error = is_error;
	p->until_ms = loop_now_ms() + KEEP_MS;
	if (!p->kept)
		return false;
	if (!f->park_timer)
		f->park_timer = timer_new(session_ipc(f->session)->options.loop, on_park_time, f);
	if (!timer_is_set(f->park_timer))
		timer_set(f->park_timer, p->until_ms);
	return true;
}

static void tell_kept(struct facade_call *call, struct request *r)
{
	struct span kept = span_of(call->parked->kept);
	if (call->parked->kept_is_error)
		request_error_object(r, kept);
	else
		facade_answer_result(r, call->modern, call->shape, kept);
	facade_free_call(call);
}

/* --- the repeat --- */

static struct facade_call *find_state(const struct facade *f, struct span state)
{
	struct facade_call *call = f->calls;
	for (; call; call = call->next) {
		struct buf own = BUF_INIT;
		if (!call->parked)
			continue;
		write_state(&own, session_ipc(f->session), call->parked);
		bool same = !buf_failed(&own) && json_strings_equal(buf_span(&own), state);
		buf_done(&own);
		if (same)
			break;
	}
	return call;
}

/* Hands an answer to the server. The question is out of the list first: that call may end others. */
static void answer_question(struct facade_call *call, struct parked_question **at, struct span answer)
{
	struct parked_question *q = *at;
	struct router *router = session_ipc(call->session)->options.router;
	uint64_t id = q->id;
	*at = q->next;
	free_question(q);
	if (json_type_of(answer) == JSON_OBJECT)
		router_answer(router, session_id(call->session), id, answer, SPAN_NONE);
	else
		router_answer(router, session_id(call->session), id, SPAN_NONE,
			      SPAN_LIT("{\"code\":-32603,\"message\":\"the client's answer is no object\"}"));
}

static void take_answers(struct facade_call *call, struct span responses)
{
	struct parked_question **at = &call->parked->questions;
	while (*at) {
		char key[24];
		snprintf(key, sizeof key, "%" PRIu64, (*at)->id);
		struct span answer = json_member(responses, key);
		if (answer.ptr)
			answer_question(call, at, answer);
		else
			at = &(*at)->next;
	}
}

static bool is_our_state(struct span state)
{
	char *text = json_string_dup(state);
	bool ours = text && strncmp(text, STATE_PREFIX, strlen(STATE_PREFIX)) == 0;
	free(text);
	return ours;
}

bool facade_park_resume(struct request *r, const struct facade_message *fm)
{
	struct span state = json_member(fm->m->params, "requestState");
	if (!fm->modern || !is_our_state(state))
		return false;
	struct facade_call *call = find_state(fm->facade, state);
	if (!call || call->request || !json_strings_equal(fm->m->method, span_of(call->method))) {
		request_error(r, MCPD_E_INVALID_PARAMS,
			      "this requestState is not one that waits: the call has been answered, has been given up, "
			      "or was made before a restart; make it anew without requestState",
			      SPAN_NONE);
		return true;
	}
	take_answers(call, json_member(fm->m->params, "inputResponses"));
	if (call->parked->kept) {
		tell_kept(call, r);
		return true;
	}
	facade_attach_request(call, r);
	router_set_token(request_ipc(r)->options.router, call->row, fm->m->param[PARAM_META_PROGRESS_TOKEN]);
	if (call->parked->questions)
		tell_questions(call);
	return true;
}

/* --- a legacy server that wants a URL to be visited first --- */

static void add_elicitation(struct buf *out, size_t index, struct span elicitation)
{
	struct json_edit mode = { "mode", JSON_EDIT_DEFAULT, SPAN_LIT("\"url\"") };
	buf_addf(out, "%s\"%zu\":{\"method\":\"elicitation/create\",\"params\":", index ? "," : "", index);
	if (json_edit(out, elicitation, &mode, 1) < 0)
		buf_add_text(out, "{}");
	buf_add_char(out, '}');
}

static bool has_ability(const struct request *r, enum client_ability ability)
{
	struct router *router = request_ipc(r)->options.router;
	return router_client_abilities(router, session_id(request_session(r))) & ability;
}

/* The client repeats the request when the user has been there; nothing waits meanwhile, so that the repeat is a call
 * like any other. */
bool facade_park_url_error(struct request *r, struct span error)
{
	struct span list = json_path(error, "data", "elicitations", NULL), elicitation;
	struct json_iter it;
	struct buf result = BUF_INIT;
	size_t n = 0;
	json_iter_init(&it, list);
	buf_add_text(&result, "{\"resultType\":\"input_required\",\"inputRequests\":{");
	while (json_iter_element(&it, &elicitation) && n < INPUT_REQUESTS_MAX)
		add_elicitation(&result, n++, elicitation);
	buf_add_text(&result, "}}");
	if (n == 0) {
		buf_done(&result);
		return false;
	}
	if (has_ability(r, CLIENT_ELICITATION_URL)) {
		request_result_buf(r, &result);
		return true;
	}
	buf_done(&result);
	request_error(r, MCP_E_MISSING_CAPABILITY, "the server asks for a URL to be visited, which the client cannot",
		      SPAN_LIT("{\"requiredCapabilities\":{\"elicitation\":{\"url\":{}}}}"));
	return true;
}
