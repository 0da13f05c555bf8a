#include "proto/jsonrpc.h"

#include <errno.h>

#include "proto/errors.h"

/* What is looked for in a message: the envelope, the parameters in the order of enum jsonrpc_param, and the `_meta`
 * that PARAM_PARAMS_META_PROGRESS_TOKEN lies in. */
enum want {
	WANT_JSONRPC,
	WANT_ID,
	WANT_METHOD,
	WANT_PARAMS,
	WANT_RESULT,
	WANT_ERROR,
	WANT_PARAM,
	WANT_PARAMS_META = WANT_PARAM + JSONRPC_PARAM_COUNT,
	WANT_COUNT,
};
#define ENVELOPE_BITS (((uint64_t)1 << WANT_PARAM) - 1)
#define PARAM_BITS (((uint64_t)1 << JSONRPC_PARAM_COUNT) - 1)

static const struct json_want wants[WANT_COUNT] = {
	[WANT_JSONRPC] = { "jsonrpc", -1 },
	[WANT_ID] = { "id", -1 },
	[WANT_METHOD] = { "method", -1 },
	[WANT_PARAMS] = { "params", -1 },
	[WANT_RESULT] = { "result", -1 },
	[WANT_ERROR] = { "error", -1 },
	[WANT_PARAM + PARAM_SERVER] = { "server", WANT_PARAMS },
	[WANT_PARAM + PARAM_NAME] = { "name", WANT_PARAMS },
	[WANT_PARAM + PARAM_ARGUMENTS] = { "arguments", WANT_PARAMS },
	[WANT_PARAM + PARAM_METHOD] = { "method", WANT_PARAMS },
	[WANT_PARAM + PARAM_PARAMS] = { "params", WANT_PARAMS },
	[WANT_PARAM + PARAM_TIMEOUT_MS] = { "timeoutMs", WANT_PARAMS },
	[WANT_PARAM + PARAM_META] = { "_meta", WANT_PARAMS },
	[WANT_PARAM + PARAM_META_PROGRESS_TOKEN] = { "progressToken", WANT_PARAM + PARAM_META },
	[WANT_PARAM + PARAM_PROGRESS_TOKEN] = { "progressToken", WANT_PARAMS },
	[WANT_PARAM + PARAM_PROGRESS] = { "progress", WANT_PARAMS },
	[WANT_PARAM + PARAM_REQUEST_ID] = { "requestId", WANT_PARAMS },
	[WANT_PARAM + PARAM_REASON] = { "reason", WANT_PARAMS },
	[WANT_PARAM + PARAM_URI] = { "uri", WANT_PARAMS },
	[WANT_PARAM + PARAM_PARAMS_META_PROGRESS_TOKEN] = { "progressToken", WANT_PARAMS_META },
	[WANT_PARAMS_META] = { "_meta", WANT_PARAM + PARAM_PARAMS },
};

static enum jsonrpc_kind invalid(struct jsonrpc_message *m, const char *problem)
{
	m->problem = problem;
	return JSONRPC_INVALID;
}

static bool is_id(struct span id)
{
	enum json_kind type = json_type_of(id);
	return type == JSON_STRING || type == JSON_NUMBER;
}

static enum jsonrpc_kind classify_call(struct jsonrpc_message *m, const struct span *found)
{
	if (json_type_of(m->method) != JSON_STRING)
		return invalid(m, "`method` is not a string");
	if (!json_string_is(found[WANT_JSONRPC], "2.0"))
		return invalid(m, "`jsonrpc` is not \"2.0\"");
	enum json_kind params = json_type_of(m->params);
	if (params != JSON_ABSENT && params != JSON_OBJECT && params != JSON_ARRAY)
		return invalid(m, "`params` is not an object");
	if (!found[WANT_ID].ptr)
		return JSONRPC_NOTIFICATION;
	if (!is_id(found[WANT_ID]))
		return invalid(m, "`id` is not a string or a number");
	return JSONRPC_REQUEST;
}

static enum jsonrpc_kind classify_answer(struct jsonrpc_message *m, const struct span *found)
{
	/* Some peers always write both members, the other one null. */
	bool error = m->error.ptr && !(json_type_of(m->error) == JSON_NULL && m->result.ptr);
	bool result = m->result.ptr && !(json_type_of(m->result) == JSON_NULL && error);
	if (!error && !result)
		return invalid(m, "neither `method` nor `result` nor `error`");
	if (error && result)
		return invalid(m, "both `result` and `error`");
	if (found[WANT_JSONRPC].ptr && !json_string_is(found[WANT_JSONRPC], "2.0"))
		return invalid(m, "`jsonrpc` is not \"2.0\"");
	if (!is_id(found[WANT_ID]) && !(error && json_type_of(found[WANT_ID]) == JSON_NULL))
		return invalid(m, "an answer whose `id` is not a string or a number");
	if (error && json_type_of(m->error) != JSON_OBJECT)
		return invalid(m, "`error` is not an object");
	if (error)
		m->result = SPAN_NONE;
	else
		m->error = SPAN_NONE;
	return error ? JSONRPC_ERROR : JSONRPC_RESULT;
}

static enum jsonrpc_kind classify(struct jsonrpc_message *m, const struct span *found, uint64_t doubled)
{
	enum json_kind type = json_type_of(m->text);
	if (type == JSON_ARRAY)
		return JSONRPC_BATCH;
	if (type != JSON_OBJECT)
		return invalid(m, "a message is an object");
	if (doubled & ENVELOPE_BITS)
		return invalid(m, "a member of the envelope occurs twice");
	return m->method.ptr ? classify_call(m, found) : classify_answer(m, found);
}

int jsonrpc_parse_within(struct span text, int64_t max_depth, struct jsonrpc_message *ret, struct json_error *ret_error)
{
	struct span found[WANT_COUNT];
	uint64_t doubled;
	struct json_error error = { 0 };
	*ret = (struct jsonrpc_message){ .kind = JSONRPC_INVALID, .problem = "not JSON", .text = json_trim(text) };
	int rc = json_scan_within(text, (unsigned)max_depth, wants, WANT_COUNT, found, &doubled, &error);
	if (rc < 0 && ret_error)
		*ret_error = error;
	if (rc < 0 && !error.too_deep)
		return rc;
	ret->problem = error.reason;
	/* An id that occurs twice, or is of a wrong type, is nobody's. */
	if ((is_id(found[WANT_ID]) || json_type_of(found[WANT_ID]) == JSON_NULL) && !(doubled & (uint64_t)1 << WANT_ID))
		ret->id = found[WANT_ID];
	ret->method = found[WANT_METHOD];
	ret->result = found[WANT_RESULT];
	ret->error = found[WANT_ERROR];
	if (rc < 0)
		return -E2BIG;
	ret->params = found[WANT_PARAMS];
	memcpy(ret->param, &found[WANT_PARAM], sizeof(ret->param));
	ret->doubled_params = doubled >> WANT_PARAM & PARAM_BITS;
	if (doubled & (uint64_t)1 << WANT_PARAMS_META)
		ret->doubled_params |= (uint64_t)1 << PARAM_PARAMS_META_PROGRESS_TOKEN;
	ret->kind = classify(ret, found, doubled);
	return 0;
}

int jsonrpc_parse(struct span text, struct jsonrpc_message *ret, struct json_error *ret_error)
{
	int rc = jsonrpc_parse_within(text, JSON_DEPTH_MAX, ret, ret_error);
	if (rc != -E2BIG)
		return rc;
	*ret = (struct jsonrpc_message){ .kind = JSONRPC_INVALID, .problem = "not JSON", .text = ret->text };
	return -EINVAL;
}

bool jsonrpc_peek_answer(struct span start, struct span *ret_id)
{
	struct span found[WANT_COUNT];
	uint64_t doubled;
	json_scan(start, wants, WANT_COUNT, found, &doubled, NULL);
	if (doubled & (uint64_t)1 << WANT_ID || found[WANT_METHOD].ptr || !is_id(found[WANT_ID]))
		return false;
	if (!found[WANT_RESULT].ptr && !found[WANT_ERROR].ptr)
		return false;
	*ret_id = found[WANT_ID];
	return true;
}

bool jsonrpc_ids_equal(struct span a, struct span b)
{
	if (json_type_of(a) == JSON_STRING)
		return json_strings_equal(a, b);
	return a.len > 0 && span_equal(a, b);
}

uint64_t jsonrpc_id_hash(struct span id)
{
	if (json_type_of(id) == JSON_STRING)
		return json_string_hash(id);
	/* As if it were a string: 1 and "1" then share a hash, which is allowed and rare. */
	uint64_t hash = 0xcbf29ce484222325u;
	for (size_t i = 0; i < id.len; i++)
		hash = (hash ^ (unsigned char)id.ptr[i]) * 0x100000001b3u;
	return hash;
}

void jsonrpc_add_payload(struct buf *out, struct span payload)
{
	size_t before = out->len;
	buf_add_span(out, payload);
	if (out->error || payload.len == 0)
		return;
	/* In valid JSON a raw line end is white space between tokens. */
	char *end = out->data + out->len;
	for (const char *c = "\r\n"; *c; c++) {
		char *at = out->data + before;
		while ((at = memchr(at, *c, (size_t)(end - at))))
			*at++ = ' ';
	}
}

static void begin(struct buf *out)
{
	buf_add_text(out, "{\"jsonrpc\":\"2.0\"");
}

static void add_id(struct buf *out, struct span id)
{
	buf_add_text(out, ",\"id\":");
	buf_add_span(out, id.len > 0 ? id : SPAN_LIT("null"));
}

static void add_method(struct buf *out, struct span method, struct span params)
{
	buf_add_text(out, ",\"method\":");
	buf_add_span(out, method);
	if (params.len > 0) {
		buf_add_text(out, ",\"params\":");
		jsonrpc_add_payload(out, params);
	}
	buf_add_text(out, "}\n");
}

void jsonrpc_write_request(struct buf *out, struct span id, struct span method, struct span params)
{
	begin(out);
	add_id(out, id);
	add_method(out, method, params);
}

void jsonrpc_write_notification(struct buf *out, struct span method, struct span params)
{
	begin(out);
	add_method(out, method, params);
}

void jsonrpc_write_result(struct buf *out, struct span id, struct span result)
{
	begin(out);
	add_id(out, id);
	buf_add_text(out, ",\"result\":");
	jsonrpc_add_payload(out, result);
	buf_add_text(out, "}\n");
}

void jsonrpc_write_error(struct buf *out, struct span id, int code, const char *message, struct span data)
{
	begin(out);
	add_id(out, id);
	buf_add_text(out, ",\"error\":{\"code\":");
	buf_add_int(out, code);
	buf_add_text(out, ",\"message\":");
	buf_add_json_text(out, message ? message : mcpd_error_title(code));
	if (data.len > 0) {
		buf_add_text(out, ",\"data\":");
		jsonrpc_add_payload(out, data);
	}
	buf_add_text(out, "}}\n");
}

void jsonrpc_write_error_object(struct buf *out, struct span id, struct span error)
{
	begin(out);
	add_id(out, id);
	buf_add_text(out, ",\"error\":");
	jsonrpc_add_payload(out, error);
	buf_add_text(out, "}\n");
}
