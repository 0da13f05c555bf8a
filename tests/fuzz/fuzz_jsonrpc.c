/*
 * Any line through jsonrpc_parse(); what is a message is written again, read back the same, and has its `_meta` edited
 * without another byte changing.
 */
#include <errno.h>
#include <stdlib.h>

#include "proto/errors.h"
#include "proto/jsonrpc.h"

#define REQUIRE(condition)                                                                                             \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			abort();                                                                                       \
	} while (0)

static bool is_inside(struct span part, struct span whole)
{
	return !part.ptr || (part.ptr >= whole.ptr && part.len > 0 && part.ptr + part.len <= whole.ptr + whole.len);
}

/* The line holds one message, with those payload bytes but for line ends. */
static void check_line(struct buf *line, enum jsonrpc_kind kind, struct span id, struct span payload)
{
	struct jsonrpc_message m;
	struct span text = buf_span(line);
	REQUIRE(!buf_failed(line) && memchr(text.ptr, '\n', text.len) == text.ptr + text.len - 1 &&
		!memchr(text.ptr, '\r', text.len));
	REQUIRE(jsonrpc_parse(text, &m, NULL) == 0 && m.kind == kind);
	REQUIRE(!id.ptr || (jsonrpc_ids_equal(m.id, id) && jsonrpc_id_hash(m.id) == jsonrpc_id_hash(id)));
	struct span written = kind == JSONRPC_RESULT ? m.result : kind == JSONRPC_ERROR ? m.error : m.params;
	REQUIRE(written.len == payload.len);
	for (size_t i = 0; i < payload.len; i++)
		REQUIRE(written.ptr[i] == payload.ptr[i] ||
			(written.ptr[i] == ' ' && (payload.ptr[i] == '\n' || payload.ptr[i] == '\r')));
	buf_reset(line);
}

static void check_writers(const struct jsonrpc_message *m)
{
	struct buf line = BUF_INIT;
	switch (m->kind) {
	case JSONRPC_REQUEST:
		jsonrpc_write_request(&line, m->id, m->method, m->params);
		check_line(&line, m->kind, m->id, m->params);
		break;
	case JSONRPC_NOTIFICATION:
		jsonrpc_write_notification(&line, m->method, m->params);
		check_line(&line, m->kind, SPAN_NONE, m->params);
		break;
	case JSONRPC_RESULT:
		jsonrpc_write_result(&line, m->id, m->result);
		check_line(&line, m->kind, m->id, m->result);
		break;
	case JSONRPC_ERROR:
		jsonrpc_write_error_object(&line, m->id, m->error);
		check_line(&line, m->kind, m->id, m->error);
		break;
	default:
		break;
	}
	buf_done(&line);
}

/* The named members of all `_meta` objects: how many there are. */
static int count_tokens(struct span params, const char *name)
{
	struct json_iter it, inner;
	struct span key, value, inner_key, inner_value;
	int count = 0;
	for (json_iter_init(&it, params); json_iter_member(&it, &key, &value);) {
		if (!json_string_is(key, "_meta"))
			continue;
		for (json_iter_init(&inner, value); json_iter_member(&inner, &inner_key, &inner_value);)
			count += json_string_is(inner_key, name);
	}
	return count;
}

/* All but the `_meta` members is the same, in the same order. */
static void check_rest(struct span before, struct span after)
{
	struct json_iter a, b;
	struct span key_a, key_b, value_a, value_b;
	json_iter_init(&a, before);
	json_iter_init(&b, after);
	while (json_iter_member(&a, &key_a, &value_a)) {
		REQUIRE(json_iter_member(&b, &key_b, &value_b));
		REQUIRE(span_equal(key_a, key_b));
		REQUIRE(json_string_is(key_a, "_meta") || span_equal(value_a, value_b));
	}
	if (json_iter_member(&b, &key_b, &value_b))
		REQUIRE(json_string_is(key_b, "_meta") && !json_iter_member(&b, &key_b, &value_b));
}

static void check_edit(struct span params)
{
	const struct jsonrpc_meta_edit put[] = { { "progressToken", SPAN_LIT("\"t\"") }, { "gone", SPAN_NONE } };
	const struct jsonrpc_meta_edit remove[] = { { "progressToken", SPAN_NONE } };
	struct buf out = BUF_INIT, back = BUF_INIT;
	int rc = jsonrpc_edit_meta(&out, params, put, 2);
	REQUIRE(rc == 0 || (rc == -EINVAL && out.len == 0));
	if (rc == 0) {
		struct span edited = buf_span(&out);
		REQUIRE(json_check(edited, NULL) == 0);
		REQUIRE(count_tokens(edited, "progressToken") == 1 && count_tokens(edited, "gone") == 0);
		check_rest(params, edited);
		REQUIRE(jsonrpc_edit_meta(&back, edited, remove, 1) == 0);
		REQUIRE(json_check(buf_span(&back), NULL) == 0);
		REQUIRE(count_tokens(buf_span(&back), "progressToken") == 0);
		check_rest(params, buf_span(&back));
		/* Nothing to do, nothing done. */
		buf_reset(&back);
		REQUIRE(jsonrpc_edit_meta(&back, edited, NULL, 0) == 0);
		REQUIRE(span_equal(buf_span(&back), edited));
	}
	buf_done(&out);
	buf_done(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct span text = { (const char *)data, size };
	struct jsonrpc_message m;
	struct json_error error;
	struct span id;
	bool peeked = jsonrpc_peek_answer(text, &id);
	REQUIRE(!peeked || is_inside(id, text));
	if (jsonrpc_parse(text, &m, &error) < 0) {
		REQUIRE(error.offset <= size && error.reason && m.problem && m.kind == JSONRPC_INVALID);
		return 0;
	}
	REQUIRE((m.kind == JSONRPC_INVALID) == (m.problem != NULL));
	REQUIRE(is_inside(m.text, text) && is_inside(m.id, text) && is_inside(m.method, text) &&
		is_inside(m.params, text));
	REQUIRE(is_inside(m.result, text) && is_inside(m.error, text));
	for (int i = 0; i < JSONRPC_PARAM_COUNT; i++)
		REQUIRE(is_inside(m.param[i], m.params.ptr ? m.params : text));
	if (m.kind == JSONRPC_RESULT || (m.kind == JSONRPC_ERROR && json_type_of(m.id) != JSON_NULL))
		REQUIRE(peeked && id.ptr == m.id.ptr);
	check_writers(&m);
	if (m.kind == JSONRPC_REQUEST || m.kind == JSONRPC_NOTIFICATION)
		check_edit(m.params);
	return 0;
}
