#include "transport/removal.h"

#include <fcntl.h>
#include <stdlib.h>

#include "log.h"
#include "transport/container.h"
#include "transport/process.h"
#include "xalloc.h"

/* Milliseconds between asking a program to end and SIGTERM, and SIGKILL. */
#define REMOVAL_GRACE 1000

/* A program that removes one container, and is freed when it has. */
struct removal {
	struct removal *next, **at;
	struct process *process;
};

struct removals {
	struct process_host *host;
	struct loop *loop;
	struct removal *list;
};

static void on_started(void *arg, const char *error, bool permanent)
{
	struct removal *r = arg;
	(void)permanent;
	if (!error)
		return;
	log_warning("a container that was left behind is not removed: %s", error);
	process_end(r->process);
}

static void on_exited(void *arg, const char *how, bool signalled)
{
	struct removal *r = arg;
	(void)how;
	(void)signalled;
	process_end(r->process);
}

static void on_ended(void *arg)
{
	struct removal *r = arg;
	*r->at = r->next;
	if (r->next)
		r->next->at = r->at;
	process_free(r->process);
	free(r);
}

static void start(void *arg, char *const *argv)
{
	static const struct process_callbacks callbacks = { on_started, on_exited, on_ended };
	struct removals *removals = arg;
	struct removal *r = xnew(struct removal);
	struct process_options options = {
		.name = "container",
		.command = argv[0],
		.args = (const char *const *)argv + 1,
		.grace_ms = REMOVAL_GRACE,
		.stdin_fd = open("/dev/null", O_RDWR | O_CLOEXEC),
		.stdout_fd = open("/dev/null", O_RDWR | O_CLOEXEC),
		.stderr_fd = open("/dev/null", O_RDWR | O_CLOEXEC),
	};
	log_warning("removing a container that was left behind, by %s", argv[0]);
	r->next = removals->list;
	r->at = &removals->list;
	if (r->next)
		r->next->at = &r->next;
	removals->list = r;
	r->process = process_start(removals->host, removals->loop, &options, &callbacks, r);
}

struct removals *removals_start(struct process_host *host, struct loop *loop, const char *dir)
{
	struct removals *removals = xnew(struct removals);
	removals->host = host;
	removals->loop = loop;
	container_walk_left(dir, start, removals);
	return removals;
}

void removals_free(struct removals *removals)
{
	while (removals && removals->list) {
		struct removal *r = removals->list;
		removals->list = r->next;
		process_abandon(r->process);
		free(r);
	}
	free(removals);
}
