/* status, reload, shutdown: the daemon itself. */
#include <stdlib.h>
#include <string.h>

#include "ctl.h"

static void say_duration(int64_t ms)
{
	int64_t s = ms / 1000;
	if (s >= 86400)
		say("%lld d %lld h", (long long)(s / 86400), (long long)(s % 86400 / 3600));
	else if (s >= 3600)
		say("%lld h %lld min", (long long)(s / 3600), (long long)(s % 3600 / 60));
	else if (s >= 60)
		say("%lld min %lld s", (long long)(s / 60), (long long)(s % 60));
	else
		say("%lld s", (long long)s);
}

static int64_t int_member(struct span object, const char *name)
{
	int64_t value = 0;
	json_int64(json_member(object, name), &value);
	return value;
}

/* The daemon's list of what is wrong with the configuration. */
static void say_config_errors(struct span errors)
{
	struct json_iter it;
	struct span error;
	if (json_type_of(errors) != JSON_ARRAY)
		return;
	for (json_iter_init(&it, errors); json_iter_element(&it, &error);) {
		say("%s  problem  %s", colour(COLOUR_BAD), colour(COLOUR_NONE));
		say_json_string(json_member(error, "file"));
		if (json_member(error, "server").ptr) {
			say(": ");
			say_json_string(json_member(error, "server"));
		}
		say(": ");
		say_json_string(json_member(error, "message"));
		say("\n");
	}
}

static void say_states(struct span servers)
{
	struct json_iter it;
	struct span key, value;
	int64_t number;
	say("servers   %lld", (long long)int_member(servers, "total"));
	for (json_iter_init(&it, servers); json_iter_member(&it, &key, &value);) {
		if (json_string_is(key, "total") || json_int64(value, &number) < 0 || number == 0)
			continue;
		say(", ");
		say_json_string(key);
		say(" %lld", (long long)number);
	}
	say("\n");
}

/* Files that the daemon looked for. */
static void say_missing(struct span files)
{
	struct json_iter it;
	struct span file;
	if (json_type_of(files) != JSON_ARRAY)
		return;
	for (json_iter_init(&it, files); json_iter_element(&it, &file);) {
		say("config    ");
		say_json_string(file);
		say(" does not exist; once it does: mcpctl reload\n");
	}
}

/* How a service manager runs the daemon, if one does. */
static void say_service(struct span service)
{
	struct span unit = json_member(service, "unit");
	if (!service.ptr)
		return;
	say("service   ");
	if (unit.ptr)
		say_json_string(unit);
	else
		say("-");
	say(span_is(json_member(service, "activated"), "true") ? ", started by its socket\n" : "\n");
}

static void print_status(struct span result)
{
	struct span config = json_member(result, "config"), files = json_member(config, "files"), file;
	struct json_iter it;
	say("mcpd ");
	say_json_string(json_member(result, "version"));
	say(", pid %lld, up ", (long long)int_member(result, "pid"));
	say_duration(int_member(result, "uptimeMs"));
	say("\nsocket    ");
	say_json_string(json_member(result, "socket"));
	say("\n");
	if (json_type_of(files) == JSON_ARRAY)
		for (json_iter_init(&it, files); json_iter_element(&it, &file);) {
			say("config    ");
			say_json_string(file);
			say("\n");
		}
	say_missing(json_member(config, "missing"));
	say_config_errors(json_member(config, "errors"));
	say_service(json_member(result, "service"));
	say_states(json_member(result, "servers"));
	say("clients   %lld\nin flight %lld\nmemory    %.1f MiB\n", (long long)int_member(result, "clients"),
	    (long long)int_member(result, "inFlight"),
	    (double)int_member(json_member(result, "memory"), "rssBytes") / 1048576.0);
}

int cmd_status(struct ctl *ctl, int argc, char **argv)
{
	(void)argc, (void)argv;
	mcpd_reply *reply;
	int status = session_request(ctl, "daemon/status", NULL, false, &reply);
	if (status != EXIT_OK)
		return status;
	if (ctl->json)
		say_json(span_of(mcpd_reply_result(reply)));
	else
		print_status(span_of(mcpd_reply_result(reply)));
	mcpd_reply_unref(reply);
	return EXIT_OK;
}

static void say_names(const char *what, struct span names)
{
	struct json_iter it;
	struct span name;
	if (json_type_of(names) != JSON_ARRAY)
		return;
	for (json_iter_init(&it, names); json_iter_element(&it, &name);) {
		say("%-10s", what);
		say_json_string(name);
		say("\n");
	}
}

int cmd_reload(struct ctl *ctl, int argc, char **argv)
{
	(void)argc, (void)argv;
	mcpd_reply *reply;
	int status = session_request(ctl, "daemon/reload", NULL, false, &reply);
	if (status != EXIT_OK)
		return status;
	struct span result = span_of(mcpd_reply_result(reply));
	struct span errors = json_member(result, "errors"), first;
	struct json_iter it;
	if (json_type_of(errors) == JSON_ARRAY) {
		json_iter_init(&it, errors);
		if (json_iter_element(&it, &first))
			status = EXIT_FAILED;
	}
	if (ctl->json) {
		say_json(result);
	} else {
		say_names("added", json_member(result, "added"));
		say_names("removed", json_member(result, "removed"));
		say_names("changed", json_member(result, "changed"));
		say("unchanged %lld\n", (long long)int_member(result, "unchanged"));
		say_config_errors(errors);
	}
	mcpd_reply_unref(reply);
	return status;
}

int cmd_shutdown(struct ctl *ctl, int argc, char **argv)
{
	(void)argc, (void)argv;
	mcpd_reply *reply;
	int status = session_request(ctl, "daemon/shutdown", NULL, false, &reply);
	if (status != EXIT_OK)
		return status;
	if (ctl->json)
		say_json(span_of(mcpd_reply_result(reply)));
	else
		say("the daemon is stopping\n");
	mcpd_reply_unref(reply);
	return EXIT_OK;
}
