/* What the parts of loading share: the configuration in the making, and the list of what is wrong with it. For the files of config/ only. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"
#include "proto/span.h"

struct loader {
	struct config *config;
	const char *const *environment; /* what ${VAR} is expanded from */
	struct config_problem *problems;
	size_t n_problems;
	size_t n_untold; /* problems past CONFIG_PROBLEMS_MAX */
	size_t n_errors; /* of all problems, told or not: those that are no warnings */
	bool no_memory;  /* see config_memory.h; no problems are told any more */

	/* Where loading is: for messages. */
	const char *file;             /* NULL: between files */
	struct span text;             /* of the file */
	struct server_config *server; /* whose members are read, or NULL */
	unsigned mode;                /* of the file: who may read it; 0: unknown */
	char *secret_at; /* the first place of the file that holds a secret as it is, for a message; or NULL */
};

/* Both note a problem with the current file and server; an error becomes the server's `error` if it has none yet. */
__attribute__((format(printf, 2, 3))) void loader_error(struct loader *l, const char *format, ...);
__attribute__((format(printf, 2, 3))) void loader_warning(struct loader *l, const char *format, ...);
/* Whether further problems are only counted, so that nothing needs to be found out about them. */
static inline bool loader_full(const struct loader *l)
{
	return l->n_problems >= CONFIG_PROBLEMS_MAX;
}
/* Notes that a secret was found in that member of what is being read. */
void loader_found_secret(struct loader *l, const char *member);
/* Hands out the list, with a last line for those that were only counted; or, if memory was short, the one problem which says so. */
void loader_take_problems(struct loader *l, struct config_problem **ret_problems, size_t *ret_n);

/* The number, from 1, of the line that byte `at` of the current file lies in. */
size_t loader_line(const struct loader *l, const char *at);

/* A name out of a file, fit for a message: cut if it is very long. For keys as written, quotes included, and for decoded text. */
#define SHOWN_MAX 80
const char *shown(struct span text, char out[static SHOWN_MAX]);
