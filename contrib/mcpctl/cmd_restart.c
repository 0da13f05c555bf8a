/*
 * restart, and the word about a daemon that is older than this program: after an upgrade the old one runs on until it is
 * told to end.
 *
 * The old daemon drains: new calls are refused, calls in flight get their time, its servers end. The new one is started by
 * whoever starts it always: by the service manager where that runs it, else as any command of mcpctl starts one.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "mcpd-version.h"

/* A new daemon waits for the old one's lock, and systemd for its end. */
#define RESTART_TIMEOUT_MS 90000

/* Negative, 0 or positive as a is older than, as old as or newer than b; by their numbers. */
static int compare_versions(const char *a, const char *b)
{
	while (*a || *b) {
		char *end_a, *end_b;
		unsigned long na = strtoul(a, &end_a, 10), nb = strtoul(b, &end_b, 10);
		if (na != nb)
			return na < nb ? -1 : 1;
		if (*end_a != '.' && *end_b != '.')
			return 0;
		a = *end_a == '.' ? end_a + 1 : "";
		b = *end_b == '.' ? end_b + 1 : "";
	}
	return 0;
}

/* As hello told it; false if it did not. */
static bool daemon_is_older(const struct ctl *ctl, struct buf *version)
{
	struct span hello = span_of(mcpd_get_hello(ctl->client));
	text_member(json_member(hello, "daemon"), "version", version);
	return version->len && compare_versions(version->data, MCPD_VERSION) < 0;
}

void tell_if_older(const struct ctl *ctl)
{
	struct buf version = BUF_INIT;
	if (daemon_is_older(ctl, &version))
		complain(
			"the running daemon is mcpd %s, older than this mcpctl (%s): `mcpctl restart` starts the new one "
			"once calls in flight are done",
			version.data, MCPD_VERSION);
	buf_done(&version);
}

/* --- what is known of the old one --- */

struct old {
	struct buf version, unit;
	int64_t pid;
	bool activated;
};

static void old_done(struct old *old)
{
	buf_done(&old->version);
	buf_done(&old->unit);
}

/* The file that a daemon reads which is started without --config. */
static void default_config(struct buf *path)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	if (config && *config == '/')
		buf_addf(path, "%s/mcpd/mcp.json", config);
	else
		buf_addf(path, "%s/.config/mcpd/mcp.json", home ? home : "");
}

static bool lists_only(struct span files, struct span wanted, unsigned *n)
{
	struct json_iter it;
	struct span file;
	bool only = true;
	if (json_type_of(files) != JSON_ARRAY)
		return true;
	for (json_iter_init(&it, files); json_iter_element(&it, &file); (*n)++) {
		struct buf name = BUF_INIT;
		json_string_decode(file, &name);
		only &= span_equal(buf_span(&name), wanted);
		buf_done(&name);
	}
	return only;
}

/* A daemon that was started with --config would come back without it. */
static bool can_be_started_like_that(struct ctl *ctl, struct span status)
{
	struct buf wanted = BUF_INIT;
	struct span config = json_member(status, "config");
	unsigned n = 0;
	default_config(&wanted);
	bool good = lists_only(json_member(config, "files"), buf_span(&wanted), &n) &&
		    lists_only(json_member(config, "missing"), buf_span(&wanted), &n) && n <= 1;
	if (!good)
		fail(ctl,
		     "the daemon was started with other configuration files than %.*s, and mcpctl cannot start it like "
		     "that: `mcpctl shutdown`, then start it as before",
		     (int)wanted.len, wanted.len ? wanted.data : "");
	buf_done(&wanted);
	return good;
}

static int learn(struct ctl *ctl, struct old *old)
{
	mcpd_reply *reply;
	int result = session_request(ctl, "daemon/status", NULL, false, &reply);
	if (result != EXIT_OK)
		return result;
	struct span status = span_of(mcpd_reply_result(reply)), service = json_member(status, "service");
	text_member(status, "version", &old->version);
	text_member(service, "unit", &old->unit);
	json_int64(json_member(status, "pid"), &old->pid);
	old->activated = span_is(json_member(service, "activated"), "true");
	if (!old->activated && !old->unit.len && !can_be_started_like_that(ctl, status))
		result = EXIT_FAILED;
	mcpd_reply_unref(reply);
	return result;
}

/* --- the restart --- */

static int drain(struct ctl *ctl)
{
	mcpd_reply *reply;
	int status = session_request(ctl, "daemon/shutdown", NULL, false, &reply);
	if (status != EXIT_OK)
		return status;
	mcpd_reply_unref(reply);
	if (session_wait_end(ctl))
		return EXIT_OK;
	complain("interrupted: the daemon is stopping all the same, and the next command starts the new one");
	return EXIT_INTERRUPTED;
}

/* A unit without a socket unit: nothing but the service manager starts it again. */
static int restart_unit(struct ctl *ctl, const char *unit)
{
	struct buf said;
	int r = run_systemctl(&said, "restart", unit, NULL, NULL);
	if (r != 0)
		fail(ctl, "systemctl --user restart %s failed: %s", unit,
		     r < 0    ? strerror(-r) :
		     said.len ? said.data :
				"it says no more");
	buf_done(&said);
	return r == 0 ? EXIT_OK : EXIT_FAILED;
}

static void say_restarted(const struct old *old, struct span status)
{
	int64_t pid = 0;
	json_int64(json_member(status, "pid"), &pid);
	say("mcpd ");
	say_json_string(json_member(status, "version"));
	say(", pid %lld", (long long)pid);
	if (old->pid)
		say(" (before: %.*s, pid %lld)", (int)old->version.len, old->version.len ? old->version.data : "",
		    (long long)old->pid);
	say("\n");
}

static int tell_restarted(struct ctl *ctl, const struct old *old)
{
	mcpd_reply *reply;
	int status = session_request(ctl, "daemon/status", NULL, false, &reply);
	if (status != EXIT_OK)
		return status;
	if (ctl->json)
		say_json(span_of(mcpd_reply_result(reply)));
	else
		say_restarted(old, span_of(mcpd_reply_result(reply)));
	mcpd_reply_unref(reply);
	struct buf version = BUF_INIT;
	if (!ctl->json && daemon_is_older(ctl, &version))
		complain("what was started is still mcpd %s, and this mcpctl is %s: look at ExecStart= of the unit, at "
			 "MCPD_PROGRAM and at PATH",
			 version.data, MCPD_VERSION);
	buf_done(&version);
	return EXIT_OK;
}

int cmd_restart(struct ctl *ctl, int argc, char **argv)
{
	(void)argc, (void)argv;
	struct old old = { 0 };
	int status = EXIT_OK;
	if (ctl->no_start) {
		fail(ctl, "restart starts the daemon; with --no-start it cannot");
		return EXIT_USAGE;
	}
	if (session_is_there(ctl)) {
		status = learn(ctl, &old);
		if (status == EXIT_OK && old.unit.len && !old.activated)
			status = restart_unit(ctl, old.unit.data);
		else if (status == EXIT_OK)
			status = drain(ctl);
	}
	if (status == EXIT_OK)
		status = session_open_within(ctl, true, RESTART_TIMEOUT_MS);
	if (status == EXIT_OK)
		status = tell_restarted(ctl, &old);
	old_done(&old);
	return status;
}
