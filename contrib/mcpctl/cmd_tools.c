/* tools, call. */
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

#define SCHEMA_WAIT_MS 10000 /* how long a call by key=value waits for the tool's schema */

static int list_tools(struct ctl *ctl, const char *server, int wait_ms, mcpd_reply **ret_reply)
{
	struct buf params;
	params_begin(&params);
	if (server)
		params_text(&params, "server", server);
	if (wait_ms >= 0)
		params_int(&params, "waitMs", wait_ms);
	params_end(&params);
	int status = session_request(ctl, "tools/list", &params, false, ret_reply);
	buf_done(&params);
	return status;
}

/* The first line of a description is enough for a table. */
static struct span first_line(struct span text)
{
	const char *end = text.len ? memchr(text.ptr, '\n', text.len) : NULL;
	return end ? (struct span){ text.ptr, (size_t)(end - text.ptr) } : text;
}

static unsigned add_tools(struct table *table, struct span server)
{
	struct buf server_name = BUF_INIT, name = BUF_INIT, text = BUF_INIT;
	struct span tools = json_member(server, "tools"), tool;
	struct json_iter it;
	unsigned count = 0;
	bool deferred = span_is(json_member(server, "deferred"), "true");
	text_member(server, "name", &server_name);
	if (json_type_of(tools) != JSON_ARRAY)
		tools = SPAN_LIT("[]");
	for (json_iter_init(&it, tools); json_iter_element(&it, &tool); count++) {
		table_cell(table, span_of(server_name.data), deferred ? COLOUR_DIM : COLOUR_NONE);
		table_cell(table, text_member(tool, "name", &name), COLOUR_NONE);
		table_cell(table, first_line(text_member(tool, "description", &text)), COLOUR_NONE);
	}
	buf_done(&server_name);
	buf_done(&name);
	buf_done(&text);
	return count;
}

/* Servers that show nothing, or not their newest list: why. */
static void tell_absent(struct span servers)
{
	struct json_iter it;
	struct span server;
	for (json_iter_init(&it, servers); json_iter_element(&it, &server);) {
		struct buf name = BUF_INIT, state = BUF_INIT, error = BUF_INIT;
		text_member(server, "name", &name);
		text_member(server, "state", &state);
		struct span why = text_member(server, "error", &error);
		if (why.len)
			complain("%s: %s: %s", name.data, state.data, error.data);
		else if (span_is(json_trim(json_member(server, "tools")), "[]") && state.data &&
			 strcmp(state.data, "connected") != 0)
			complain("%s: %s: its tools are not known yet", name.data, state.data);
		buf_done(&name);
		buf_done(&state);
		buf_done(&error);
	}
}

static void say_schemas(struct span servers)
{
	struct json_iter it, tools;
	struct span server, tool;
	for (json_iter_init(&it, servers); json_iter_element(&it, &server);) {
		for (json_iter_init(&tools, json_member(server, "tools")); json_iter_element(&tools, &tool);) {
			say("%s", colour(COLOUR_BOLD));
			say_json_string(json_member(server, "name"));
			say(" ");
			say_json_string(json_member(tool, "name"));
			say("%s\n", colour(COLOUR_NONE));
			if (json_member(tool, "description").ptr) {
				say_json_string(json_member(tool, "description"));
				say("\n");
			}
			say("  input   ");
			say_text(json_member(tool, "inputSchema").ptr ? json_member(tool, "inputSchema") :
									SPAN_LIT("-"));
			if (json_member(tool, "outputSchema").ptr) {
				say("\n  output  ");
				say_text(json_member(tool, "outputSchema"));
			}
			say("\n");
		}
	}
}

int cmd_tools(struct ctl *ctl, int argc, char **argv)
{
	static const char *const headings[] = { "SERVER", "TOOL", "DESCRIPTION", NULL };
	mcpd_reply *reply;
	int status = list_tools(ctl, argc > 0 ? argv[0] : NULL, ctl->timeout_ms, &reply);
	if (status != EXIT_OK)
		return status;
	struct span result = span_of(mcpd_reply_result(reply)), servers = json_member(result, "servers"), server;
	if (json_type_of(servers) != JSON_ARRAY)
		servers = SPAN_LIT("[]");
	if (ctl->json) {
		say_json(result);
	} else if (ctl->schema) {
		say_schemas(servers);
	} else {
		struct table *table = table_new(headings);
		struct json_iter it;
		for (json_iter_init(&it, servers); json_iter_element(&it, &server);)
			add_tools(table, server);
		table_print(table);
	}
	if (!ctl->json)
		tell_absent(servers);
	mcpd_reply_unref(reply);
	return EXIT_OK;
}

/* The tool's inputSchema, in reply's memory; absent if the list does not have it. */
static struct span find_schema(const mcpd_reply *reply, const char *tool_name)
{
	struct span servers = json_member(span_of(mcpd_reply_result(reply)), "servers"), server, tool;
	struct json_iter it, tools;
	if (json_type_of(servers) != JSON_ARRAY)
		return SPAN_NONE;
	for (json_iter_init(&it, servers); json_iter_element(&it, &server);)
		for (json_iter_init(&tools, json_member(server, "tools")); json_iter_element(&tools, &tool);)
			if (json_string_is(json_member(tool, "name"), tool_name))
				return json_member(tool, "inputSchema");
	return SPAN_NONE;
}

static bool build_arguments(struct ctl *ctl, int argc, char **argv, struct buf *arguments, int *ret_status)
{
	mcpd_reply *tools = NULL;
	struct span schema = SPAN_NONE;
	if (arguments_need_schema(argc - 2, argv + 2)) {
		*ret_status = list_tools(ctl, argv[0], SCHEMA_WAIT_MS, &tools);
		if (*ret_status != EXIT_OK)
			return false;
		schema = find_schema(tools, argv[1]);
	}
	bool ok = arguments_build(argc - 2, argv + 2, schema, arguments);
	*ret_status = EXIT_USAGE;
	mcpd_reply_unref(tools);
	return ok;
}

static int print_call_result(struct ctl *ctl, struct span result)
{
	int status = EXIT_OK;
	struct span content = json_member(result, "content"), first;
	struct json_iter it;
	bool any = false;
	if (json_type_of(content) == JSON_ARRAY) {
		json_iter_init(&it, content);
		any = json_iter_element(&it, &first);
	}
	if (any)
		status = content_print(ctl, content);
	else if (json_member(result, "structuredContent").ptr)
		say_json(json_member(result, "structuredContent"));
	else if (!json_member(result, "content").ptr)
		say_json(result); /* a shape of its own, such as a task */
	return status;
}

int cmd_call(struct ctl *ctl, int argc, char **argv)
{
	struct buf arguments = BUF_INIT, params;
	mcpd_reply *reply;
	int status;
	if (!build_arguments(ctl, argc, argv, &arguments, &status)) {
		buf_done(&arguments);
		return status;
	}
	params_begin(&params);
	params_text(&params, "server", argv[0]);
	params_text(&params, "name", argv[1]);
	params_json(&params, "arguments", buf_span(&arguments));
	if (ctl->timeout_ms >= 0)
		params_int(&params, "timeoutMs", ctl->timeout_ms);
	params_end(&params);
	status = session_request(ctl, "tools/call", &params, true, &reply);
	buf_done(&arguments);
	buf_done(&params);
	if (status != EXIT_OK)
		return status;
	struct span result = span_of(mcpd_reply_result(reply));
	if (ctl->json)
		say_json(result);
	else
		status = print_call_result(ctl, result);
	if (status == EXIT_OK && span_is(json_member(result, "isError"), "true"))
		status = EXIT_TOOL_ERROR;
	mcpd_reply_unref(reply);
	return status;
}
