#include "ipc/reload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"
#include "xalloc.h"

struct reload {
	struct reload_options options;
	struct config_problem *problems;
	size_t n_problems;
	struct reload_counts counts;
};

struct reload *reload_new(const struct reload_options *options)
{
	struct reload *r = xnew(struct reload);
	r->options = *options;
	return r;
}

void reload_free(struct reload *r)
{
	if (!r)
		return;
	config_problems_free(r->problems, r->n_problems);
	free(r);
}

static void log_problem(const struct config_problem *p)
{
	struct log_fields fields = { .server = p->server };
	log_event(p->warning ? LOG_LEVEL_WARNING : LOG_LEVEL_ERROR, &fields, "%s%s%s: %s", p->file,
		  p->server ? ": server " : "", p->server ? p->server : "", p->message);
}

/* What is told of the last attempt must outlive the configuration. */
static void take_problems(struct reload *r, struct config *config)
{
	r->problems = config->problems;
	r->n_problems = config->n_problems;
	config->problems = NULL;
	config->n_problems = 0;
}

struct config *reload_load(struct reload *r)
{
	config_problems_free(r->problems, r->n_problems);
	r->problems = NULL;
	r->n_problems = 0;
	const struct reload_options *o = &r->options;
	struct config *config = config_load(o->files, o->must_exist, o->environment, &r->problems, &r->n_problems);
	if (config)
		take_problems(r, config);
	if (config && o->on_loaded)
		o->on_loaded(o->arg, config);
	for (size_t i = 0; i < r->n_problems; i++)
		log_problem(&r->problems[i]);
	return config;
}

static unsigned count(char *const *names)
{
	unsigned n = 0;
	while (names && names[n])
		n++;
	return n;
}

struct config *reload_nothing(const struct reload *r)
{
	const char *const no_files[] = { NULL };
	struct config_problem *problems;
	size_t n;
	struct config *config = config_load(no_files, false, r->options.environment, &problems, &n);
	config_problems_free(problems, n);
	return config;
}

int reload_run(struct reload *r, struct manager *manager, struct manager_changes *ret)
{
	struct manager_changes changes = { .unchanged = (unsigned)manager_count(manager) };
	struct config *config = reload_load(r);
	*(config ? &r->counts.ok : &r->counts.failed) += 1;
	if (config) {
		manager_configure(manager, config, &changes);
		log_info("the configuration was reloaded: %u servers added, %u removed, %u changed, %u unchanged",
			 count(changes.added), count(changes.removed), count(changes.changed), changes.unchanged);
	} else {
		log_error("the configuration was not reloaded: what was in force stays so");
	}
	if (ret)
		*ret = changes;
	else
		manager_changes_done(&changes);
	return config ? 0 : -EINVAL;
}

struct reload_counts reload_counts(const struct reload *r)
{
	return r->counts;
}

const struct config_problem *reload_problems(const struct reload *r, size_t *ret_n)
{
	*ret_n = r->n_problems;
	return r->problems;
}
