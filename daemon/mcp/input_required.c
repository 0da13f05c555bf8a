#include "mcp/input_required.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/json_iter.h"

/* What may be asked, and the client capability that allows it. */
static const struct {
	const char *method, *capability;
} askable[] = {
	{ "elicitation/create", "elicitation" },
	{ "sampling/createMessage", "sampling" },
	{ "roots/list", "roots" },
};

static const char *const repeatable[] = { "tools/call", "prompts/get", "resources/read" };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

bool input_required_is(struct span result)
{
	return json_string_is(json_member(result, "resultType"), "input_required");
}

bool input_required_allowed(struct span method)
{
	for (size_t i = 0; i < COUNT(repeatable); i++)
		if (json_string_is(method, repeatable[i]))
			return true;
	return false;
}

static const char *capability_of(struct span method)
{
	for (size_t i = 0; i < COUNT(askable); i++)
		if (json_string_is(method, askable[i].method))
			return askable[i].capability;
	return NULL;
}

static bool is_doubled(const struct input_round *round, struct span key)
{
	for (size_t i = 0; i < round->n_requests; i++)
		if (json_strings_equal(round->requests[i].key, key))
			return true;
	return false;
}

static const char *read_request(struct input_round *round, struct span key, struct span value)
{
	struct input_request request = {
		.key = key,
		.method = json_member(value, "method"),
		.params = json_member(value, "params"),
	};
	enum json_kind params = json_type_of(request.params);
	if (!capability_of(request.method))
		return "it asked something that no server may ask";
	if (params != JSON_ABSENT && params != JSON_OBJECT)
		return "the params of an input request are no object";
	if (is_doubled(round, key))
		return "two input requests have the same key";
	if (round->n_requests == INPUT_REQUESTS_MAX)
		return "it asked too many things at once";
	round->requests[round->n_requests++] = request;
	return NULL;
}

static const char *read_round(struct input_round *round, struct span result)
{
	struct json_iter it;
	struct span key, value, requests = json_member(result, "inputRequests");
	enum json_kind requests_type = json_type_of(requests);
	round->state = json_member(result, "requestState");
	if (requests_type != JSON_OBJECT && requests_type != JSON_ABSENT)
		return "inputRequests is no object";
	if (round->state.ptr && json_type_of(round->state) != JSON_STRING)
		return "requestState is no string";
	if (!requests.ptr && !round->state.ptr)
		return "it has neither inputRequests nor requestState";
	round->asks = requests.ptr != NULL;
	json_iter_init(&it, requests);
	while (json_iter_member(&it, &key, &value)) {
		const char *problem = read_request(round, key, value);
		if (problem)
			return problem;
	}
	round->waiting = round->n_requests;
	return NULL;
}

int input_round_new(struct span result, struct input_round **ret, const char **ret_problem)
{
	*ret = NULL;
	*ret_problem = NULL;
	struct input_round *round = calloc(1, sizeof(*round));
	if (!round)
		return -ENOMEM;
	round->text = malloc(result.len + 1);
	if (!round->text) {
		input_round_free(round);
		return -ENOMEM;
	}
	memcpy(round->text, result.ptr, result.len);
	round->text[result.len] = '\0';
	*ret_problem = read_round(round, (struct span){ round->text, result.len });
	if (*ret_problem) {
		input_round_free(round);
		return -EPROTO;
	}
	*ret = round;
	return 0;
}

void input_round_free(struct input_round *round)
{
	if (!round)
		return;
	for (size_t i = 0; i < round->n_requests; i++)
		free(round->requests[i].answer);
	free(round->text);
	free(round);
}

static bool is_object(struct span value)
{
	return json_type_of(value) == JSON_OBJECT;
}

static bool is_declared(const struct input_request *request, struct span capabilities)
{
	struct span capability = json_member(capabilities, capability_of(request->method));
	if (!is_object(capability))
		return false;
	if (!json_string_is(request->method, "elicitation/create"))
		return true;
	/* {} alone has always meant forms; URLs came later and must be named. */
	bool url = is_object(json_member(capability, "url"));
	if (json_string_is(json_member(request->params, "mode"), "url"))
		return url;
	return is_object(json_member(capability, "form")) || !url;
}

const struct input_request *input_round_undeclared(const struct input_round *round, struct span capabilities)
{
	for (size_t i = 0; i < round->n_requests; i++)
		if (!is_declared(&round->requests[i], capabilities))
			return &round->requests[i];
	return NULL;
}

int input_round_answer(struct input_round *round, size_t index, struct span result)
{
	struct input_request *request = &round->requests[index];
	if (request->answer)
		return -EALREADY;
	request->answer = malloc(result.len + 1);
	if (!request->answer)
		return -ENOMEM;
	memcpy(request->answer, result.ptr, result.len);
	request->answer[result.len] = '\0';
	round->waiting--;
	return 0;
}

static bool is_of_a_round(struct span key)
{
	return json_string_is(key, "inputResponses") || json_string_is(key, "requestState");
}

/* The members of params but for those of an earlier round; whether there was any. */
static bool add_original(struct buf *out, struct span params)
{
	struct json_iter it;
	struct span key, value;
	bool any = false;
	json_iter_init(&it, params);
	while (json_iter_member(&it, &key, &value)) {
		if (is_of_a_round(key))
			continue;
		if (any)
			buf_add_char(out, ',');
		buf_add_span(out, key);
		buf_add_char(out, ':');
		buf_add_span(out, value);
		any = true;
	}
	return any;
}

static void add_answers(struct buf *out, const struct input_round *round)
{
	buf_add_text(out, "\"inputResponses\":{");
	for (size_t i = 0; i < round->n_requests; i++) {
		if (i)
			buf_add_char(out, ',');
		buf_add_span(out, round->requests[i].key);
		buf_add_char(out, ':');
		buf_add_text(out, round->requests[i].answer);
	}
	buf_add_char(out, '}');
}

int input_round_params(const struct input_round *round, struct span params, struct buf *out)
{
	if (params.len && !is_object(params))
		return -EINVAL;
	buf_add_char(out, '{');
	bool comma = add_original(out, params);
	if (round->asks) {
		if (comma)
			buf_add_char(out, ',');
		add_answers(out, round);
		comma = true;
	}
	if (round->state.ptr) {
		if (comma)
			buf_add_char(out, ',');
		buf_add_text(out, "\"requestState\":");
		buf_add_span(out, round->state);
	}
	buf_add_char(out, '}');
	return out->error;
}
