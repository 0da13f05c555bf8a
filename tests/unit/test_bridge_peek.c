/* contrib/bridge/peek: what a line says, however its bytes come; held against jsonrpc_parse(). */
#include "contrib/bridge/peek.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/jsonrpc.h"
#include "tests/unit/guard.h"
#include "tests/unit/run.h"

static struct peek peek;

/* Feeds a whole line in pieces of that size; the number of messages in it. The accessors speak of the last one. */
static size_t feed(struct span line, size_t piece)
{
	size_t messages = 0;
	peek_begin(&peek);
	while (line.len > 0) {
		struct span part = guard_copy((struct span){ line.ptr, line.len < piece ? line.len : piece });
		bool message;
		size_t n = peek_feed(&peek, part, &message);
		if (n < 1 || n > part.len)
			ck_abort_msg("took %zu of %zu", n, part.len);
		messages += message;
		line.ptr += n;
		line.len -= n;
	}
	return messages;
}

static void check_value(enum peek_member member, const char *expected)
{
	struct span value = peek_value(&peek, member);
	ck_assert_msg(expected ? span_is(value, expected) : !value.ptr, "member %d: %.*s", member, (int)value.len,
		      value.ptr ? value.ptr : "");
}

static const struct {
	const char *line, *id, *method;
} messages[] = {
	{ "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"a/b\"}", "1", "\"a/b\"" },
	{ "{\"method\":\"a/b\",\"params\":{\"id\":2,\"method\":\"no\",\"x\":[{\"id\":3}]},\"jsonrpc\":\"2.0\",\"id\":1.50}",
	  "1.50", "\"a/b\"" },
	{ " \t{ \"id\" : \"a\\\"}{\" , \"method\" : \"m\\n\" } \r\n", "\"a\\\"}{\"", "\"m\\n\"" },
	{ "{\"\\u0069d\":7,\"m\\u0065thod\":\"x\"}", "7", "\"x\"" },
	{ "{\"id\":-1e5,\"result\":{\"id\":9}}", "-1e5", NULL },
	{ "{\"id\":null,\"error\":{}}", "null", NULL },
	{ "{\"id\":1,\"id\":1,\"method\":\"x\"}", NULL, "\"x\"" },
	{ "{\"id\":{\"a\":1},\"method\":[\"x\"]}", NULL, NULL },
	{ "{\"method\":\"\xe2\x80\xa8\"}", NULL, "\"\xe2\x80\xa8\"" },
	{ "{\"params\":{\"id\":1},\"method\":\"x\"}", NULL, "\"x\"" },
	{ "{\"a\":[[],[{}],{\"b\":[]}],\"id\":true}", "true", NULL },
	{ "{\"s\":\"\\\\\",\"id\":\"\\\\\\\\\"}", "\"\\\\\\\\\"", NULL },
};

START_TEST(ids_and_methods_in_pieces_of_any_size)
{
	for (size_t i = 0; i < sizeof(messages) / sizeof(*messages); i++) {
		struct span line = span_of(messages[i].line);
		for (size_t piece = 1; piece <= line.len; piece++) {
			ck_assert_uint_eq(feed(line, piece), 1);
			check_value(PEEK_ID, messages[i].id);
			check_value(PEEK_METHOD, messages[i].method);
		}
	}
}
END_TEST

START_TEST(members_of_params_and_results)
{
	struct span line = SPAN_LIT(
		"{\"params\":{\"requestId\":\"r\",\"level\":\"debug\",\"uri\":\"a://b\",\"notifications\":{\"toolsListChanged\":true,"
		"\"promptsListChanged\":false,\"resourceSubscriptions\":[\"toolsListChanged\"]},\"_meta\":{\"x\":{\"y\":1},"
		"\"io.modelcontextprotocol/subscriptionId\":4}},\"method\":\"m\",\"result\":{\"protocolVersion\":\"1\","
		"\"capabilities\":{\"tools\":{\"listChanged\":true},\"prompts\":{},\"resources\":{\"subscribe\":true,"
		"\"listChanged\":false}},\"tools\":{\"listChanged\":false}}}");
	for (size_t piece = 1; piece <= line.len; piece++) {
		ck_assert_uint_eq(feed(line, piece), 1);
		check_value(PEEK_REQUEST_ID, "\"r\"");
		check_value(PEEK_LEVEL, "\"debug\"");
		check_value(PEEK_URI, "\"a://b\"");
		check_value(PEEK_SUBSCRIPTION_ID, "4");
		check_value(PEEK_ACK_TOOLS, "true");
		check_value(PEEK_ACK_PROMPTS, "false");
		check_value(PEEK_ACK_RESOURCES, NULL);
		check_value(PEEK_TOOLS_CHANGE, "true");
		check_value(PEEK_PROMPTS_CHANGE, NULL);
		check_value(PEEK_RESOURCES_CHANGE, "false");
		check_value(PEEK_PARAMS, NULL);
		ck_assert(peek_has(&peek, PEEK_PARAMS) && peek_has(&peek, PEEK_RESULT) && !peek_has(&peek, PEEK_ERROR));
	}
}
END_TEST

START_TEST(a_batch_is_several_messages)
{
	struct span line =
		SPAN_LIT("[{\"id\":1,\"method\":\"a\"},{\"method\":\"b\"},[{\"id\":2}],3,{\"id\":4,\"result\":1}]");
	static const char *const ids[] = { "1", NULL, "4" };
	size_t n = 0;
	peek_begin(&peek);
	while (line.len > 0) {
		bool message;
		size_t taken = peek_feed(&peek, line, &message);
		line.ptr += taken;
		line.len -= taken;
		if (message)
			check_value(PEEK_ID, ids[n++]);
	}
	ck_assert_uint_eq(n, 3);
	ck_assert_uint_eq(peek.base, 1);
}
END_TEST

/* A line with a string of n characters somewhere. */
static struct span long_line(const char *before, size_t n, const char *after)
{
	static char text[40000];
	snprintf(text, sizeof(text), "%s%*s%s", before, (int)n, "", after);
	memset(text + strlen(before), 'x', n);
	return span_of(text);
}

START_TEST(what_is_too_long_is_told_to_be)
{
	ck_assert_uint_eq(feed(long_line("{\"id\":\"", PEEK_VALUE_MAX - 2, "\",\"method\":\"m\"}"), 1000), 1);
	ck_assert_uint_eq(peek_value(&peek, PEEK_ID).len, PEEK_VALUE_MAX);
	ck_assert(!peek_is_lost(&peek, PEEK_ID));
	ck_assert_uint_eq(feed(long_line("{\"id\":\"", PEEK_VALUE_MAX - 1, "\",\"method\":\"m\"}"), 1000), 1);
	check_value(PEEK_ID, NULL);
	check_value(PEEK_METHOD, "\"m\"");
	ck_assert(peek_is_lost(&peek, PEEK_ID) && peek_has(&peek, PEEK_ID));
	/* Long keys and values that are nobody's take no room. */
	ck_assert_uint_eq(feed(long_line("{\"", 30000, "\":1,\"id\":5}"), 7), 1);
	check_value(PEEK_ID, "5");
	ck_assert_uint_eq(feed(long_line("{\"params\":{\"a\":\"", 30000, "\"},\"id\":5}"), 7), 1);
	check_value(PEEK_ID, "5");
}
END_TEST

START_TEST(a_value_is_there_once_it_is_complete)
{
	struct span line = SPAN_LIT("{\"id\":12,\"result\":{}}");
	bool message;
	peek_begin(&peek);
	for (size_t i = 0; i < line.len; i++) {
		peek_feed(&peek, (struct span){ line.ptr + i, 1 }, &message);
		check_value(PEEK_ID, i < strlen("{\"id\":12") ? NULL : "12");
	}
	ck_assert(message);
}
END_TEST

/* Texts that are no messages end, and say nothing that harms. */
START_TEST(noise)
{
	static const char *const texts[] = { "",
					     "\n",
					     "null",
					     "\"a",
					     "}",
					     "]",
					     "}}}{",
					     "{]",
					     "[}",
					     "{\"id\"",
					     "{\"id\":",
					     "{:}",
					     "{\"id\":\"",
					     "{,,\"id\":1",
					     "\\\"{\"",
					     "[[[[",
					     "{\"id\":1]{\"id\":2}",
					     "{\"params\":{\"uri\":]}" };
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		for (size_t piece = 1; piece <= strlen(texts[i]); piece++)
			feed(span_of(texts[i]), piece);
	ck_assert_uint_eq(feed(SPAN_LIT("{\"id\":3}"), 100), 1);
	check_value(PEEK_ID, "3");
}
END_TEST

static void add_random(struct buf *out, unsigned depth)
{
	static const char *const scalars[] = {
		"1", "\"id\"", "\"a\\\"b\"", "null", "true", "-0.5e3", "\"\"", "\"{[\""
	};
	static const char *const keys[] = { "id", "method", "params", "result", "error", "uri", "_meta", "x" };
	unsigned n = (unsigned)rand() % 4, kind = depth > 4 ? 0 : (unsigned)rand() % 3;
	if (kind == 0) {
		buf_add_text(out, scalars[rand() % 8]);
		return;
	}
	buf_add_char(out, kind == 1 ? '{' : '[');
	for (unsigned i = 0; i < n; i++) {
		buf_add_text(out, i ? "," : "");
		if (kind == 1)
			buf_addf(out, "\"%s\":", keys[rand() % 8]);
		add_random(out, depth + 1);
	}
	buf_add_char(out, kind == 1 ? '}' : ']');
}

/* Where the parser finds an id or a method once, so does the peek. */
START_TEST(random_messages_agree_with_the_parser)
{
	unsigned compared = 0;
	srand(7);
	for (int i = 0; i < 20000; i++) {
		struct buf line = BUF_INIT;
		struct jsonrpc_message m;
		add_random(&line, 0);
		size_t n = feed(buf_span(&line), 1 + (size_t)rand() % 9);
		ck_assert_int_eq(jsonrpc_parse(buf_span(&line), &m, NULL), 0);
		if (json_type_of(buf_span(&line)) == JSON_OBJECT) {
			ck_assert_uint_eq(n, 1);
			struct span id = peek_value(&peek, PEEK_ID), method = peek_value(&peek, PEEK_METHOD);
			enum json_kind kind = json_type_of(m.method);
			if (m.id.ptr)
				ck_assert(span_equal(id, m.id));
			if (m.method.ptr && kind != JSON_OBJECT && kind != JSON_ARRAY &&
			    !(peek.doubled >> PEEK_METHOD & 1))
				ck_assert(span_equal(method, m.method));
			ck_assert(peek_has(&peek, PEEK_RESULT) == (m.result.ptr != NULL) || m.kind == JSONRPC_ERROR ||
				  m.kind == JSONRPC_RESULT);
			compared++;
		}
		buf_done(&line);
	}
	ck_assert_uint_gt(compared, 5000);
}
END_TEST

int main(void)
{
	return RUN_TESTS("bridge_peek", ids_and_methods_in_pieces_of_any_size, members_of_params_and_results,
			 a_batch_is_several_messages, what_is_too_long_is_told_to_be,
			 a_value_is_there_once_it_is_complete, noise, random_messages_agree_with_the_parser);
}
