/* mcp/http_headers and proto/http_header: the modern era's request headers (MCP 2026-07-28, Streamable HTTP, "Request
 * Metadata"). */
#include "mcp/http_headers.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/buf.h"
#include "proto/http_header.h"
#include "proto/json_scan.h"
#include "tests/unit/alloc_writer.h"
#include "tests/unit/guard.h"
#include "tests/unit/run.h"

static void check_value(struct span text, const char *expect)
{
	struct buf out = BUF_INIT;
	http_header_add_value(&out, guard_copy(text));
	ck_assert_str_eq(out.data, expect);
	buf_done(&out);
}

START_TEST(values_are_plain_or_in_base64)
{
	/* The standard's own examples. */
	check_value(SPAN_LIT("us-west1"), "us-west1");
	check_value(SPAN_LIT("Hello, \xe4\xb8\x96\xe7\x95\x8c"), "=?base64?SGVsbG8sIOS4lueVjA==?=");
	check_value(SPAN_LIT(" padded "), "=?base64?IHBhZGRlZCA=?=");
	check_value(SPAN_LIT("line1\nline2"), "=?base64?bGluZTEKbGluZTI=?=");
	check_value(SPAN_LIT("=?base64?literal?="), "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=");
	check_value(SPAN_LIT("us west 1"), "us west 1");
	check_value(SPAN_LIT("line1\r\nline2"), "=?base64?bGluZTENCmxpbmUy?=");
	check_value(SPAN_LIT("\tindented"), "=?base64?CWluZGVudGVk?=");
	check_value(SPAN_LIT("a\tb"), "=?base64?YQli?=");
	check_value(SPAN_LIT(""), "=?base64?"
				  "?=");
	check_value(SPAN_LIT("x"), "x");
	check_value(SPAN_LIT(" x"), "=?base64?IHg=?=");
	check_value(SPAN_LIT("x "), "=?base64?eCA=?=");
	check_value(SPAN_LIT("\x7f"), "=?base64?fw==?=");
	check_value(SPAN_LIT("a\0b"), "=?base64?YQBi?=");
	check_value(SPAN_LIT("=?base64?x"), "=?base64?x");
	check_value(SPAN_LIT("file:///a/b?c=d#e"), "file:///a/b?c=d#e");
}
END_TEST

static char *join(char **headers)
{
	struct buf out = BUF_INIT;
	for (char **h = headers; *h; h++) {
		buf_add_text(&out, *h);
		buf_add_char(&out, '\n');
	}
	buf_add_text(&out, "");
	char *text = out.data ? buf_steal(&out) : strdup("");
	buf_done(&out);
	return text;
}

static void check_headers(const char *method, const char *params, const char *schema, const char *expect)
{
	char **headers;
	char quoted[64];
	snprintf(quoted, sizeof(quoted), "\"%s\"", method);
	ck_assert(!params || json_check(span_of(params), NULL) == 0);
	ck_assert(!schema || json_check(span_of(schema), NULL) == 0);
	ck_assert_int_eq(http_headers_make(span_of(quoted), span_of(params), span_of(schema), &headers), 0);
	char *text = join(headers);
	ck_assert_str_eq(text, expect);
	free(text);
	http_headers_free(headers);
}

START_TEST(mcp_name_repeats_the_name_or_the_uri)
{
	check_headers("tools/call", "{\"name\":\"get_weather\",\"arguments\":{}}", NULL, "Mcp-Name: get_weather\n");
	check_headers("prompts/get", "{\"name\":\"a b\"}", NULL, "Mcp-Name: a b\n");
	check_headers("resources/read", "{\"uri\":\"file:\\/\\/\\/x\\u0041\"}", NULL, "Mcp-Name: file:///xA\n");
	check_headers("tasks/get", "{\"taskId\":\"t-1\"}", NULL, "Mcp-Name: t-1\n");
	check_headers("tools/call", "{\"name\":\"w\xc3\xa4rme\"}", NULL, "Mcp-Name: =?base64?d8Okcm1l?=\n");
	check_headers("tools/call", "{\"name\":\"a\\r\\nEvil: 1\"}", NULL, "Mcp-Name: =?base64?YQ0KRXZpbDogMQ==?=\n");
	check_headers("tools/list", "{\"name\":\"x\"}", NULL, "");
	check_headers("tools/call", "{\"name\":5}", NULL, "");
	check_headers("tools/call", NULL, NULL, "");
}
END_TEST

#define PROPERTIES(properties) "{\"type\":\"object\",\"properties\":{" properties "}}"
#define PROPERTY(name, type, header) "\"" name "\":{\"type\":\"" type "\",\"x-mcp-header\":\"" header "\"}"

START_TEST(mcp_param_repeats_annotated_arguments)
{
	static const char schema[] = PROPERTIES(
		PROPERTY("region", "string", "Region") "," PROPERTY("priority", "integer", "Priority") "," PROPERTY(
			"verbose", "boolean", "Verbose") ",\"query\":{\"type\":\"string\"},"
							 "\"deep\":" PROPERTIES(PROPERTY("er", "string", "Method")));
	check_headers(
		"tools/call",
		"{\"name\":\"t\",\"arguments\":{\"region\":\"us-west1\",\"priority\":42,\"verbose\":false,\"query\":\"q\","
		"\"deep\":{\"er\":\" x\"}}}",
		schema,
		"Mcp-Name: t\nMcp-Param-Region: us-west1\nMcp-Param-Priority: 42\nMcp-Param-Verbose: false\n"
		"Mcp-Param-Method: =?base64?IHg=?=\n");
	/* null and absent have none; neither has what is no such value. */
	check_headers("tools/call", "{\"name\":\"t\",\"arguments\":{\"region\":null,\"priority\":1}}", schema,
		      "Mcp-Name: t\nMcp-Param-Priority: 1\n");
	check_headers("tools/call", "{\"name\":\"t\",\"arguments\":{\"region\":{},\"verbose\":[1]}}", schema,
		      "Mcp-Name: t\n");
	check_headers("tools/call", "{\"name\":\"t\"}", schema, "Mcp-Name: t\n");
	/* A property of the same name elsewhere is not meant. */
	check_headers("tools/call", "{\"name\":\"t\",\"arguments\":{\"er\":\"x\"}}", schema, "Mcp-Name: t\n");
	/* Of two the last, as servers read it. */
	check_headers("tools/call", "{\"name\":\"t\",\"arguments\":{\"region\":\"a\",\"region\":\"b\"}}", schema,
		      "Mcp-Name: t\nMcp-Param-Region: b\n");
	check_headers("tools/call", "{\"name\":\"t\",\"arguments\":{\"re\\u0067ion\":\"\"}}", schema,
		      "Mcp-Name: t\nMcp-Param-Region: =?base64?"
		      "?=\n");
}
END_TEST

START_TEST(integers_are_decimal_and_safe)
{
	static const char schema[] = PROPERTIES(PROPERTY("n", "integer", "N"));
	static const struct {
		const char *number, *header;
	} cases[] = {
		{ "0", "0" },
		{ "-7", "-7" },
		{ "42.0", "42" },
		{ "1e3", "1000" },
		{ "9007199254740991", "9007199254740991" },
		{ "-9007199254740991", "-9007199254740991" },
		{ "9007199254740992", NULL },
		{ "12345678901234567890", NULL },
		{ "3.14", NULL },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		char params[128], expect[128] = "Mcp-Name: t\n";
		snprintf(params, sizeof(params), "{\"name\":\"t\",\"arguments\":{\"n\":%s}}", cases[i].number);
		if (cases[i].header)
			snprintf(expect, sizeof(expect), "Mcp-Name: t\nMcp-Param-N: %s\n", cases[i].header);
		check_headers("tools/call", params, schema, expect);
	}
}
END_TEST

static void check_tool(const char *schema, const char *problem)
{
	struct buf tool = BUF_INIT;
	buf_addf(&tool, "{\"name\":\"t\",\"inputSchema\":%s}", schema);
	ck_assert_int_eq(json_check(buf_span(&tool), NULL), 0);
	char *why = http_headers_check_tool(guard_copy(buf_span(&tool)));
	if (problem)
		ck_assert_msg(why && strstr(why, problem), "%s: %s", schema, why ? why : "accepted");
	else
		ck_assert_msg(!why, "%s: %s", schema, why);
	free(why);
	/* Nothing is sent for a tool that should not have been called. */
	if (problem)
		check_headers("tools/call", "{\"name\":\"t\",\"arguments\":{\"a\":\"x\",\"b\":\"y\"}}", schema,
			      "Mcp-Name: t\n");
	buf_done(&tool);
}

START_TEST(annotations_are_checked)
{
	check_tool("{}", NULL);
	check_tool("true", NULL);
	check_tool(PROPERTIES(PROPERTY("a", "string", "A")), NULL);
	check_tool(PROPERTIES(PROPERTY("a", "string", "A") "," PROPERTY("b", "boolean", "B")), NULL);
	/* The ten kinds of bad tools that the conformance suite knows. */
	check_tool(PROPERTIES(PROPERTY("a", "string", "")), "header name");
	check_tool(PROPERTIES(PROPERTY("a", "object", "A")), "of type");
	check_tool(PROPERTIES(PROPERTY("a", "array", "A")), "of type");
	check_tool(PROPERTIES(PROPERTY("a", "null", "A")), "of type");
	check_tool(PROPERTIES(PROPERTY("a", "number", "A")), "of type");
	check_tool(PROPERTIES(PROPERTY("a", "string", "A") "," PROPERTY("b", "string", "A")), "already");
	check_tool(PROPERTIES(PROPERTY("a", "string", "MyField") "," PROPERTY("b", "string", "myfield")), "already");
	check_tool(PROPERTIES(PROPERTY("a", "string", "My Region")), "header name");
	check_tool(PROPERTIES(PROPERTY("a", "string", "My:Region")), "header name");
	check_tool(PROPERTIES(PROPERTY("a", "string", "R\xc3\xa9gion")), "header name");
	check_tool(PROPERTIES(PROPERTY("a", "string", "A\\tB")), "header name");
	check_tool(PROPERTIES(PROPERTY("a", "string", "A\\r\\nB: c")), "header name");
	check_tool(PROPERTIES(PROPERTY("a", "string", "A\\u0000")), "header name");
	check_tool(PROPERTIES("\"a\":{\"x-mcp-header\":\"A\"}"), "of type");
	check_tool(PROPERTIES("\"a\":{\"type\":[\"string\",\"null\"],\"x-mcp-header\":\"A\"}"), "of type");
	check_tool(PROPERTIES("\"a\":{\"type\":\"string\",\"x-mcp-header\":null}"), "header name");
	check_tool(PROPERTIES("\"a\":{\"type\":\"string\",\"x-mcp-header\":{}}"), "property \"a\"");
}
END_TEST

START_TEST(annotations_are_reached_through_properties_alone)
{
	static const char *const holders[] = {
		"\"items\":%s",
		"\"prefixItems\":[{},%s]",
		"\"contains\":%s",
		"\"additionalProperties\":%s",
		"\"propertyNames\":%s",
		"\"patternProperties\":{\"x\":%s}",
		"\"oneOf\":[%s]",
		"\"anyOf\":[{},%s]",
		"\"allOf\":[%s]",
		"\"not\":%s",
		"\"if\":%s",
		"\"then\":%s",
		"\"else\":%s",
		"\"$defs\":{\"x\":%s}",
		"\"definitions\":{\"x\":%s}",
		"\"dependentSchemas\":{\"x\":%s}",
	};
	static const char *const schemas[] = {
		"{\"type\":\"string\",\"x-mcp-header\":\"A\"}",
		PROPERTIES(PROPERTY("a", "string", "A")),
	};
	for (size_t i = 0; i < sizeof(holders) / sizeof(*holders); i++) {
		for (size_t k = 0; k < sizeof(schemas) / sizeof(*schemas); k++) {
			char member[512], schema[1024];
			snprintf(member, sizeof(member), holders[i], schemas[k]);
			snprintf(schema, sizeof(schema), "{%s}", member);
			check_tool(schema, "through \"properties\" alone");
			snprintf(schema, sizeof(schema), "{\"properties\":{\"p\":{%s}}}", member);
			check_tool(schema, "through \"properties\" alone");
		}
	}
	check_tool("{\"x-mcp-header\":\"A\",\"type\":\"string\"}", "inputSchema: ");
	/* Data that looks like an annotation is none. */
	check_tool(
		"{\"default\":{\"x-mcp-header\":5},\"examples\":[{\"x-mcp-header\":5}],\"const\":{\"x-mcp-header\":5}}",
		NULL);
	check_tool(PROPERTIES("\"x-mcp-header\":{\"type\":\"string\"}"), NULL);
	check_tool(PROPERTIES("\"items\":{\"type\":\"string\",\"x-mcp-header\":\"A\"}"), NULL);
	check_tool(PROPERTIES("\"a\":" PROPERTIES("\"b\":" PROPERTIES(PROPERTY("c", "integer", "C")))), NULL);
}
END_TEST

START_TEST(a_tool_has_a_bounded_number_of_headers)
{
	for (int n = HTTP_HEADERS_PER_TOOL; n <= HTTP_HEADERS_PER_TOOL + 1; n++) {
		struct buf schema = BUF_INIT;
		buf_add_text(&schema, "{\"properties\":{");
		for (int i = 0; i < n; i++)
			buf_addf(&schema, "%s\"p%d\":{\"type\":\"string\",\"x-mcp-header\":\"H%d\"}", i ? "," : "", i,
				 i);
		buf_add_text(&schema, "}}");
		check_tool(schema.data, n > HTTP_HEADERS_PER_TOOL ? "more than" : NULL);
		buf_done(&schema);
	}
}
END_TEST

START_TEST(deep_schemas_are_fine)
{
	struct buf schema = BUF_INIT;
	for (int i = 0; i < 60; i++)
		buf_add_text(&schema, "{\"properties\":{\"a\":");
	buf_add_text(&schema, "{\"type\":\"string\",\"x-mcp-header\":\"Deep\"}");
	for (int i = 0; i < 60; i++)
		buf_add_text(&schema, "}}");
	check_tool(schema.data, NULL);
	buf_done(&schema);
}
END_TEST

static void write_values(struct buf *out)
{
	http_header_add_value(
		out,
		SPAN_LIT("plain, and longer than what is allocated at first, which is more than a hundred bytes; "));
	http_header_add_value(
		out,
		SPAN_LIT(" encoded, and longer than what is allocated next, which is more than two hundred bytes "));
	http_header_add_json(
		out, SPAN_LIT("\"decoded \\u0020 and longer than what is allocated at first, which is more than a "
			      "hundred bytes; and so the text that is decoded is moved once, too\""));
}

START_TEST(every_allocation_that_fails_is_reported)
{
	fail_each_of_writer(write_values, 4);
}
END_TEST

int main(void)
{
	return RUN_TESTS("http_headers", values_are_plain_or_in_base64, mcp_name_repeats_the_name_or_the_uri,
			 mcp_param_repeats_annotated_arguments, integers_are_decimal_and_safe, annotations_are_checked,
			 annotations_are_reached_through_properties_alone, a_tool_has_a_bounded_number_of_headers,
			 deep_schemas_are_fine, every_allocation_that_fails_is_reported);
}
