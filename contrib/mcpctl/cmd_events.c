/* events: what happens in the daemon, line by line. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ctl.h"

static const char *const topics[] = { "servers", "tools", "logs", "notifications", "calls", NULL };

static void say_now(void)
{
	struct timespec now;
	struct tm local;
	clock_gettime(CLOCK_REALTIME, &now);
	localtime_r(&now.tv_sec, &local);
	say("%s%02d:%02d:%02d.%03ld%s  ", colour(COLOUR_DIM), local.tm_hour, local.tm_min, local.tm_sec,
	    now.tv_nsec / 1000000, colour(COLOUR_NONE));
}

static void say_member(struct span object, const char *name)
{
	struct span value = json_member(object, name);
	if (!value.ptr)
		return;
	say("  ");
	say_json_string(value);
}

static void say_server_event(struct span params)
{
	struct span server = json_member(params, "server");
	say_member(server, "name");
	if (span_is(json_member(params, "removed"), "true"))
		say("  removed");
	say_member(server, "state");
	if (!json_string_is(json_member(server, "state"), "connected"))
		say_member(json_member(server, "lastError"), "message");
}

static void say_event(const char *method, struct span params)
{
	static const char *const members[] = { "server", "method",     "name",    "client", "revision",
					       "text",   "durationMs", "outcome", "params", NULL };
	say_now();
	say("%-12s", strncmp(method, "events/", 7) == 0 ? method + 7 : method);
	if (strcmp(method, "events/server") == 0)
		say_server_event(params);
	else
		for (size_t i = 0; members[i]; i++)
			say_member(params, members[i]);
	say("\n");
}

static void on_event(mcpd_client *client, const char *method, const char *params, void *userdata)
{
	(void)client;
	struct ctl *ctl = userdata;
	if (!ctl->json) {
		say_event(method, span_of(params));
		return;
	}
	say("{\"method\":\"%s\",\"params\":", method);
	say_bytes(span_of(params));
	say("}\n");
}

static bool known_topic(const char *topic)
{
	for (size_t i = 0; topics[i]; i++)
		if (strcmp(topics[i], topic) == 0)
			return true;
	return false;
}

int cmd_events(struct ctl *ctl, int argc, char **argv)
{
	struct buf list = BUF_INIT, params;
	mcpd_reply *reply;
	buf_add_char(&list, '[');
	for (int i = 0; argc > 0 ? i < argc : topics[i] != NULL; i++) {
		const char *topic = argc > 0 ? argv[i] : topics[i];
		if (!known_topic(topic)) {
			complain("there is no topic \"%s\"; topics are: servers, tools, logs, notifications, calls",
				 topic);
			buf_done(&list);
			return EXIT_USAGE;
		}
		if (i)
			buf_add_char(&list, ',');
		buf_add_json_text(&list, topic);
	}
	buf_add_char(&list, ']');
	params_begin(&params);
	params_json(&params, "topics", buf_span(&list));
	params_end(&params);
	mcpd_on_event(ctl->client, on_event, ctl); /* the first events come right behind the answer */
	int status = session_request(ctl, "events/subscribe", &params, false, &reply);
	buf_done(&list);
	buf_done(&params);
	if (status != EXIT_OK)
		return status;
	mcpd_reply_unref(reply);
	return session_follow(ctl, on_event, ctl);
}
