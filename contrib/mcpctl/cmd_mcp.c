/* request, resources, read, prompts, prompt, complete: MCP beyond tools. */
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

#define MAX_PAGES 1000

static int mcp_request(struct ctl *ctl, const char *server, const char *method, struct span params,
		       mcpd_reply **ret_reply)
{
	struct buf request;
	params_begin(&request);
	params_text(&request, "server", server);
	params_text(&request, "method", method);
	if (params.ptr)
		params_json(&request, "params", params);
	if (ctl->timeout_ms >= 0)
		params_int(&request, "timeoutMs", ctl->timeout_ms);
	params_end(&request);
	int status = session_request(ctl, "mcp/request", &request, true, ret_reply);
	buf_done(&request);
	return status;
}

int cmd_request(struct ctl *ctl, int argc, char **argv)
{
	struct span params = SPAN_NONE;
	mcpd_reply *reply;
	if (argc > 2) {
		struct json_error error;
		params = span_of(argv[2]);
		if (json_check(params, &error) < 0) {
			complain("the params are no JSON: byte %zu: %s", error.offset, error.reason);
			return EXIT_USAGE;
		}
	}
	int status = mcp_request(ctl, argv[0], argv[1], params, &reply);
	if (status != EXIT_OK)
		return status;
	say_json(span_of(mcpd_reply_result(reply)));
	mcpd_reply_unref(reply);
	return EXIT_OK;
}

/* ---- lists ---- */

/* Which list a command shows. */
struct list_kind {
	const char *method;     /* resources/list */
	const char *member;     /* resources; also the capability */
	const char *id, *about; /* members for the table */
	const char *const *headings;
};

/* All pages of one server's list, as the elements of an array (no brackets). */
static int collect(struct ctl *ctl, const char *server, const struct list_kind *kind, struct buf *elements)
{
	struct buf cursor = BUF_INIT;
	int status = EXIT_OK;
	bool more = true;
	for (unsigned page = 0; more && page < MAX_PAGES && status == EXIT_OK; page++) {
		mcpd_reply *reply;
		status = mcp_request(ctl, server, kind->method, cursor.len ? buf_span(&cursor) : SPAN_NONE, &reply);
		if (status != EXIT_OK)
			break;
		struct span result = span_of(mcpd_reply_result(reply)), element;
		struct span list = json_member(result, kind->member), next = json_member(result, "nextCursor");
		struct json_iter it;
		if (json_type_of(list) == JSON_ARRAY)
			for (json_iter_init(&it, list); json_iter_element(&it, &element);) {
				if (elements->len)
					buf_add_char(elements, ',');
				buf_add_span(elements, element);
			}
		/* A server that repeats its cursor would page for ever. */
		more = json_type_of(next) == JSON_STRING && !span_equal(json_member(buf_span(&cursor), "cursor"), next);
		buf_reset(&cursor);
		if (more) {
			buf_add_text(&cursor, "{\"cursor\":");
			buf_add_span(&cursor, next);
			buf_add_char(&cursor, '}');
		}
		mcpd_reply_unref(reply);
	}
	buf_done(&cursor);
	return status;
}

struct listing {
	struct ctl *ctl;
	const struct list_kind *kind;
	struct table *table;
	struct buf json; /* elements of "servers" */
};

static int add_list(struct listing *listing, const char *server)
{
	struct buf elements = BUF_INIT, array = BUF_INIT, id = BUF_INIT, about = BUF_INIT;
	struct json_iter it;
	struct span element;
	int status = collect(listing->ctl, server, listing->kind, &elements);
	buf_add_char(&array, '[');
	buf_add_span(&array, buf_span(&elements));
	buf_add_char(&array, ']');
	if (status == EXIT_OK && listing->ctl->json) {
		buf_addf(&listing->json, "%s{\"name\":", listing->json.len ? "," : "");
		buf_add_json_text(&listing->json, server);
		buf_addf(&listing->json, ",\"%s\":", listing->kind->member);
		buf_add_span(&listing->json, buf_span(&array));
		buf_add_char(&listing->json, '}');
	} else if (status == EXIT_OK) {
		for (json_iter_init(&it, buf_span(&array)); json_iter_element(&it, &element);) {
			struct span text = text_member(element, listing->kind->about, &about);
			if (!text.ptr)
				text = text_member(element, "name", &about);
			table_cell(listing->table, span_of(server), COLOUR_NONE);
			table_cell(listing->table, text_member(element, listing->kind->id, &id), COLOUR_NONE);
			table_cell(listing->table, text.ptr ? text : SPAN_LIT(""), COLOUR_NONE);
		}
	}
	buf_done(&elements);
	buf_done(&array);
	buf_done(&id);
	buf_done(&about);
	return status;
}

/* Every server that says it has such things. */
static int add_all_lists(struct listing *listing)
{
	mcpd_reply *reply;
	int status = session_request(listing->ctl, "servers/list", NULL, false, &reply);
	if (status != EXIT_OK)
		return status;
	struct span servers = json_member(span_of(mcpd_reply_result(reply)), "servers"), server;
	struct json_iter it;
	if (json_type_of(servers) != JSON_ARRAY)
		servers = SPAN_LIT("[]");
	for (json_iter_init(&it, servers); json_iter_element(&it, &server);) {
		char *name = json_string_dup(json_member(server, "name"));
		if (name && json_member(json_member(server, "capabilities"), listing->kind->member).ptr) {
			int r = add_list(listing, name);
			if (status == EXIT_OK)
				status = r;
		}
		free(name);
	}
	mcpd_reply_unref(reply);
	return status;
}

static int show_lists(struct ctl *ctl, const struct list_kind *kind, const char *server)
{
	struct listing listing = { .ctl = ctl, .kind = kind, .table = ctl->json ? NULL : table_new(kind->headings) };
	int status = server ? add_list(&listing, server) : add_all_lists(&listing);
	if (ctl->json && (status == EXIT_OK || listing.json.len)) {
		say("{\"servers\":[");
		say_bytes(buf_span(&listing.json));
		say("]}\n");
	}
	if (!ctl->json)
		table_print(listing.table);
	buf_done(&listing.json);
	return status;
}

int cmd_resources(struct ctl *ctl, int argc, char **argv)
{
	static const char *const headings[] = { "SERVER", "URI", "NAME", NULL };
	static const struct list_kind kind = { "resources/list", "resources", "uri", "title", headings };
	return show_lists(ctl, &kind, argc > 0 ? argv[0] : NULL);
}

int cmd_prompts(struct ctl *ctl, int argc, char **argv)
{
	static const char *const headings[] = { "SERVER", "PROMPT", "DESCRIPTION", NULL };
	static const struct list_kind kind = { "prompts/list", "prompts", "name", "description", headings };
	return show_lists(ctl, &kind, argc > 0 ? argv[0] : NULL);
}

/* ---- single things ---- */

int cmd_read(struct ctl *ctl, int argc, char **argv)
{
	(void)argc;
	struct buf params;
	mcpd_reply *reply;
	params_begin(&params);
	params_text(&params, "uri", argv[1]);
	params_end(&params);
	int status = mcp_request(ctl, argv[0], "resources/read", buf_span(&params), &reply);
	buf_done(&params);
	if (status != EXIT_OK)
		return status;
	struct span result = span_of(mcpd_reply_result(reply)), contents = json_member(result, "contents"), one;
	struct json_iter it;
	if (ctl->json)
		say_json(result);
	else if (json_type_of(contents) == JSON_ARRAY)
		for (json_iter_init(&it, contents); json_iter_element(&it, &one);) {
			int r = content_print_resource(ctl, one);
			if (status == EXIT_OK)
				status = r;
		}
	mcpd_reply_unref(reply);
	return status;
}

static int print_prompt(struct ctl *ctl, struct span result)
{
	struct span messages = json_member(result, "messages"), message;
	struct json_iter it;
	int status = EXIT_OK;
	if (json_type_of(messages) != JSON_ARRAY)
		return EXIT_OK;
	for (json_iter_init(&it, messages); json_iter_element(&it, &message);) {
		say("%s", colour(COLOUR_BOLD));
		say_json_string(json_member(message, "role"));
		say(":%s\n", colour(COLOUR_NONE));
		struct span content = json_member(message, "content");
		int r = json_type_of(content) == JSON_ARRAY ? content_print(ctl, content) :
							      content_print_block(ctl, content);
		if (status == EXIT_OK)
			status = r;
	}
	return status;
}

int cmd_prompt(struct ctl *ctl, int argc, char **argv)
{
	struct buf arguments = BUF_INIT, params;
	mcpd_reply *reply;
	/* A prompt's arguments are strings, all of them. */
	if (!arguments_build(argc - 2, argv + 2, SPAN_NONE, &arguments)) {
		buf_done(&arguments);
		return EXIT_USAGE;
	}
	params_begin(&params);
	params_text(&params, "name", argv[1]);
	params_json(&params, "arguments", buf_span(&arguments));
	params_end(&params);
	int status = mcp_request(ctl, argv[0], "prompts/get", buf_span(&params), &reply);
	buf_done(&arguments);
	buf_done(&params);
	if (status != EXIT_OK)
		return status;
	if (ctl->json)
		say_json(span_of(mcpd_reply_result(reply)));
	else
		status = print_prompt(ctl, span_of(mcpd_reply_result(reply)));
	mcpd_reply_unref(reply);
	return status;
}

/* `complete SERVER PROMPT-OR-URI ARGUMENT [PREFIX]`: a URI template has a colon, a prompt's name has none. */
int cmd_complete(struct ctl *ctl, int argc, char **argv)
{
	struct buf params, reference, argument;
	mcpd_reply *reply;
	bool uri = strstr(argv[1], "://") != NULL;
	params_begin(&reference);
	params_text(&reference, "type", uri ? "ref/resource" : "ref/prompt");
	params_text(&reference, uri ? "uri" : "name", argv[1]);
	params_end(&reference);
	params_begin(&argument);
	params_text(&argument, "name", argv[2]);
	params_text(&argument, "value", argc > 3 ? argv[3] : "");
	params_end(&argument);
	params_begin(&params);
	params_json(&params, "ref", buf_span(&reference));
	params_json(&params, "argument", buf_span(&argument));
	params_end(&params);
	int status = mcp_request(ctl, argv[0], "completion/complete", buf_span(&params), &reply);
	buf_done(&reference);
	buf_done(&argument);
	buf_done(&params);
	if (status != EXIT_OK)
		return status;
	struct span result = span_of(mcpd_reply_result(reply)), value;
	struct span values = json_member(json_member(result, "completion"), "values");
	struct json_iter it;
	if (ctl->json)
		say_json(result);
	else if (json_type_of(values) == JSON_ARRAY)
		for (json_iter_init(&it, values); json_iter_element(&it, &value);) {
			say_json_string(value);
			say("\n");
		}
	mcpd_reply_unref(reply);
	return EXIT_OK;
}
