/*
 * The configuration in force and how it is read anew: at start, by daemon/reload and by SIGHUP (R37). A file that
 * cannot be used changes nothing but what daemon/status says is wrong.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"
#include "manager/manager.h"

struct reload;

struct reload_options {
	const char *const *files; /* NULL-terminated; must outlive the reload, as must environment */
	bool must_exist;          /* a missing file is an error */
	const char *const *environment;
	/* A configuration was read and is about to be used. May be NULL. */
	void (*on_loaded)(void *arg, const struct config *config);
	void *arg;
};

struct reload *reload_new(const struct reload_options *options);
void reload_free(struct reload *reload); /* takes NULL */
/* The first load: NULL if a file is unusable or memory is short, see reload_problems(), which has the problems of the
 * result, too. The caller owns that. */
struct config *reload_load(struct reload *reload);
/* An empty configuration, in place of one that cannot be used; NULL without memory. What was wrong stays told. */
struct config *reload_nothing(const struct reload *reload);
/* Loads again and gives the manager what came of it. 0; or -EINVAL if nothing was changed: *ret (may be NULL) is then
 * empty but for `unchanged`. Logs the problems. manager_changes_done() for *ret. */
int reload_run(struct reload *reload, struct manager *manager, struct manager_changes *ret);
/* How often reload_run() did so, and how often it changed nothing. */
struct reload_counts {
	uint64_t ok, failed;
};
struct reload_counts reload_counts(const struct reload *reload);
/* What was wrong at the last attempt, valid until the next. */
const struct config_problem *reload_problems(const struct reload *reload, size_t *ret_n);
