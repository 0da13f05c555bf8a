#include "activity.h"

#include <stdlib.h>
#include <string.h>

#include "manager/server.h"
#include "service.h"
#include "xalloc.h"

/* Changes within this time are told as one. */
#define STATUS_PAUSE_MS 100

struct activity {
	struct activity_options options;
	struct timer *status_timer, *idle_timer;
	char *status;          /* as it was told last */
	int64_t idle_since_ms; /* on loop_now_ms(); 0: something goes on */
	bool stopped;
};

/* --- the status --- */

static unsigned count_errors(const struct reload *reload)
{
	size_t n;
	const struct config_problem *problems = reload_problems(reload, &n);
	unsigned errors = 0;
	for (size_t i = 0; i < n; i++)
		errors += !problems[i].warning;
	return errors;
}

static char *describe(const struct activity *a)
{
	struct manager *manager = a->options.manager;
	size_t connected = 0, total = manager_count(manager);
	for (size_t i = 0; i < total; i++) {
		struct server_info info;
		server_get_info(manager_at(manager, i), &info);
		connected += info.state == SERVER_CONNECTED;
	}
	unsigned clients = ipc_clients(a->options.ipc), errors = count_errors(a->options.reload);
	char *problems = errors ? xasprintf("; %u error%s in the configuration, see mcpctl status", errors,
					    errors == 1 ? "" : "s") :
				  xstrdup("");
	char *status = xasprintf("%zu of %zu servers connected, %u client%s%s", connected, total, clients,
				 clients == 1 ? "" : "s", problems);
	free(problems);
	return status;
}

static void tell_status(void *arg)
{
	struct activity *a = arg;
	char *status = describe(a);
	bool changed = !a->status || strcmp(status, a->status) != 0;
	free(changed ? a->status : status);
	if (!changed)
		return;
	a->status = status;
	service_status("%s", status);
}

/* --- idleness --- */

/* 0: the daemon stays. */
static int64_t idle_exit_ms(const struct activity *a)
{
	int64_t set = manager_config(a->options.manager)->idle_exit_ms;
	if (set != CONFIG_UNSET)
		return set;
	return a->options.activated ? ACTIVITY_IDLE_EXIT_MS : 0;
}

static void look_for_idleness(struct activity *a)
{
	int64_t wait_ms = idle_exit_ms(a), now = loop_now_ms();
	if (wait_ms == 0 || ipc_clients(a->options.ipc) > 0) {
		a->idle_since_ms = 0;
		timer_cancel(a->idle_timer);
	} else if (!manager_at_rest(a->options.manager)) {
		/* The last of a server's processes may go without anybody being told: looked at again. */
		a->idle_since_ms = 0;
		timer_set(a->idle_timer, now + wait_ms);
	} else {
		if (a->idle_since_ms == 0)
			a->idle_since_ms = now;
		timer_set(a->idle_timer, a->idle_since_ms + wait_ms);
	}
}

static void on_idle_timer(void *arg)
{
	struct activity *a = arg;
	bool was_idle = a->idle_since_ms != 0;
	look_for_idleness(a);
	if (!was_idle || a->idle_since_ms == 0 || loop_now_ms() < a->idle_since_ms + idle_exit_ms(a))
		return;
	timer_cancel(a->idle_timer);
	a->options.on_idle(a->options.arg);
}

/* --- its life --- */

struct activity *activity_new(const struct activity_options *options)
{
	struct activity *a = xnew(struct activity);
	a->options = *options;
	a->status_timer = timer_new(options->loop, tell_status, a);
	a->idle_timer = timer_new(options->loop, on_idle_timer, a);
	tell_status(a);
	look_for_idleness(a);
	return a;
}

void activity_changed(struct activity *a)
{
	if (a->stopped)
		return;
	if (!timer_is_set(a->status_timer))
		timer_set(a->status_timer, loop_now_ms() + STATUS_PAUSE_MS);
	look_for_idleness(a);
}

void activity_stop(struct activity *a)
{
	a->stopped = true;
	timer_cancel(a->status_timer);
	timer_cancel(a->idle_timer);
}

void activity_free(struct activity *a)
{
	if (!a)
		return;
	timer_free(a->status_timer);
	timer_free(a->idle_timer);
	free(a->status);
	free(a);
}
