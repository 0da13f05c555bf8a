/* servers, connect, disconnect, reconnect, logs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

static enum colour state_colour(struct span state)
{
	if (json_string_is(state, "connected"))
		return COLOUR_GOOD;
	if (json_string_is(state, "failed") || json_string_is(state, "needs-auth"))
		return COLOUR_BAD;
	if (json_string_is(state, "connecting") || json_string_is(state, "reconnecting"))
		return COLOUR_BUSY;
	return COLOUR_DIM;
}

static void cell_text(struct table *table, struct span value, enum colour which)
{
	struct buf text = BUF_INIT;
	if (json_string_decode(value, &text) < 0) {
		buf_reset(&text);
		if (value.ptr)
			buf_add_span(&text, value);
	}
	table_cell(table, text.len ? buf_span(&text) : SPAN_LIT("-"), which);
	buf_done(&text);
}

/* What a person wants to know beside the state: the trouble, or who it is. */
static void cell_notes(struct table *table, struct span server)
{
	struct span error = json_member(json_member(server, "lastError"), "message");
	struct span state = json_member(server, "state");
	if (error.ptr && !json_string_is(state, "connected")) {
		cell_text(table, error, COLOUR_BAD);
		return;
	}
	struct span info = json_member(server, "serverInfo");
	struct buf text = BUF_INIT;
	json_string_decode(json_member(info, "name"), &text);
	if (text.len && json_type_of(json_member(info, "version")) == JSON_STRING) {
		buf_add_char(&text, ' ');
		json_string_decode(json_member(info, "version"), &text);
	}
	table_cell(table, buf_span(&text), COLOUR_NONE);
	buf_done(&text);
}

static void cell_number(struct table *table, const char *format, double number)
{
	char text[32];
	snprintf(text, sizeof text, format, number);
	table_cell(table, span_of(text), COLOUR_NONE);
}

static void cell_memory(struct table *table, struct span bytes)
{
	int64_t number;
	if (json_int64(bytes, &number) < 0)
		cell_text(table, SPAN_NONE, COLOUR_NONE);
	else
		cell_number(table, "%.0f MiB", (double)number / (1 << 20));
}

static void cell_cpu(struct table *table, struct span ms)
{
	int64_t number;
	if (json_int64(ms, &number) < 0)
		cell_text(table, SPAN_NONE, COLOUR_NONE);
	else
		cell_number(table, "%.1f s", (double)number / 1000);
}

static void add_server(struct table *table, struct span server)
{
	cell_text(table, json_member(server, "name"), COLOUR_NONE);
	cell_text(table, json_member(server, "state"), state_colour(json_member(server, "state")));
	cell_text(table, json_member(server, "transport"), COLOUR_NONE);
	cell_text(table, json_member(server, "sharing"), COLOUR_NONE);
	cell_text(table, json_member(server, "pid"), COLOUR_NONE);
	cell_memory(table, json_path(server, "resources", "memoryBytes", NULL));
	cell_cpu(table, json_path(server, "resources", "cpuMs", NULL));
	cell_text(table, json_member(server, "toolCount"), COLOUR_NONE);
	cell_notes(table, server);
}

static struct table *server_table(void)
{
	static const char *const headings[] = { "NAME",   "STATE", "TRANSPORT", "SHARING", "PID",
						"MEMORY", "CPU",   "TOOLS",     "SERVER",  NULL };
	return table_new(headings);
}

int cmd_servers(struct ctl *ctl, int argc, char **argv)
{
	(void)argc, (void)argv;
	mcpd_reply *reply;
	int status = session_request(ctl, "servers/list", NULL, false, &reply);
	if (status != EXIT_OK)
		return status;
	struct span result = span_of(mcpd_reply_result(reply)), servers = json_member(result, "servers"), server;
	if (ctl->json) {
		say_json(result);
	} else {
		struct table *table = server_table();
		struct json_iter it;
		unsigned count = 0;
		if (json_type_of(servers) == JSON_ARRAY)
			for (json_iter_init(&it, servers); json_iter_element(&it, &server); count++)
				add_server(table, server);
		table_print(table);
		if (!count)
			complain("no servers are configured; `mcpctl status` names the configuration file");
	}
	mcpd_reply_unref(reply);
	return EXIT_OK;
}

static int order(struct ctl *ctl, const char *method, const char *name)
{
	struct buf params;
	mcpd_reply *reply;
	params_begin(&params);
	params_text(&params, "server", name);
	if (ctl->timeout_ms >= 0)
		params_int(&params, "timeoutMs", ctl->timeout_ms);
	params_end(&params);
	int status = session_request(ctl, method, &params, false, &reply);
	buf_done(&params);
	if (status != EXIT_OK)
		return status;
	struct span server = span_of(mcpd_reply_result(reply));
	if (ctl->json) {
		say_json(server);
	} else {
		struct table *table = server_table();
		add_server(table, server);
		table_print(table);
	}
	mcpd_reply_unref(reply);
	return EXIT_OK;
}

int cmd_connect(struct ctl *ctl, int argc, char **argv)
{
	(void)argc;
	return order(ctl, "servers/connect", argv[0]);
}

int cmd_disconnect(struct ctl *ctl, int argc, char **argv)
{
	(void)argc;
	return order(ctl, "servers/disconnect", argv[0]);
}

int cmd_reconnect(struct ctl *ctl, int argc, char **argv)
{
	(void)argc;
	return order(ctl, "servers/reconnect", argv[0]);
}

static void say_log_line(struct span line)
{
	say("%s", colour(COLOUR_DIM));
	say_json_string(json_member(line, "at"));
	say("%s  ", colour(COLOUR_NONE));
	say_json_string(json_member(line, "text"));
	say("\n");
}

struct following {
	struct ctl *ctl;
	bool live; /* the kept lines are printed; what came before is among them */
};

static void on_log_event(mcpd_client *client, const char *method, const char *params, void *userdata)
{
	(void)client;
	struct following *following = userdata;
	if (!following->live || strcmp(method, "events/log") != 0)
		return;
	if (following->ctl->json)
		say_json(span_of(params));
	else
		say_log_line(span_of(params));
}

/* Subscribed before the kept lines are asked for, so that nothing falls between. */
static int subscribe_logs(struct ctl *ctl, const char *name)
{
	struct buf params;
	mcpd_reply *reply;
	params_begin(&params);
	params_json(&params, "topics", SPAN_LIT("[\"logs\"]"));
	params_text(&params, "server", name);
	params_end(&params);
	int status = session_request(ctl, "events/subscribe", &params, false, &reply);
	buf_done(&params);
	if (status == EXIT_OK)
		mcpd_reply_unref(reply);
	return status;
}

int cmd_logs(struct ctl *ctl, int argc, char **argv)
{
	(void)argc;
	struct following following = { ctl, false };
	struct buf params;
	mcpd_reply *reply;
	if (ctl->follow) {
		mcpd_on_event(ctl->client, on_log_event, &following);
		int status = subscribe_logs(ctl, argv[0]);
		if (status != EXIT_OK)
			return status;
	}
	params_begin(&params);
	params_text(&params, "server", argv[0]);
	if (ctl->lines)
		params_int(&params, "lines", ctl->lines);
	params_end(&params);
	int status = session_request(ctl, "servers/logs", &params, false, &reply);
	buf_done(&params);
	if (status != EXIT_OK)
		return status;
	struct span result = span_of(mcpd_reply_result(reply)), lines = json_member(result, "lines"), line;
	struct json_iter it;
	if (ctl->json && !ctl->follow)
		say_json(result);
	else if (json_type_of(lines) == JSON_ARRAY)
		for (json_iter_init(&it, lines); json_iter_element(&it, &line);) {
			if (ctl->json)
				say_json(line);
			else
				say_log_line(line);
		}
	mcpd_reply_unref(reply);
	following.live = true;
	return ctl->follow ? session_follow(ctl, on_log_event, &following) : EXIT_OK;
}
