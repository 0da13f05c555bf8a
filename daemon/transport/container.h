/*
 * Servers in containers, `docker run ..` and `podman run ..` (R4): what mcpd starts is a client of the container, and
 * the container outlives it.
 *
 * The client is asked for the container's id with --cidfile (unless the configuration does that itself), and once
 * nothing of the client's tree is left, whatever ended it, its keeper (transport/keeper.h) has the same program stop
 * and remove the container: `docker stop -t N ID`, `docker rm -f ID`. What a killed keeper could not do is done when the
 * next daemon starts: a file beside the id says how.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct container_run {
	char **args;   /* the arguments, --cidfile among them; NULL-terminated */
	char **prefix; /* the command and its options in front of "run"; NULL-terminated */
	char *cidfile; /* absolute, or relative to the server's cwd where the configuration says so */
	char *recipe;  /* the file that says how to stop it, NULL: the cidfile is the configuration's own */
};

/* Whether the command runs a container; then *ret is to be released with container_run_done(). dir: where our own files
 * go, NULL: nowhere (a container without a --cidfile of its own is then none for us). */
bool container_run_find(const char *command, const char *const *args, const char *dir, const char *name,
			struct container_run *ret);
void container_run_done(struct container_run *run);
/* Writes the recipe, making the directory if need be. 0 or a negative errno. */
int container_run_note(const struct container_run *run);

/* The id in the file, in `id`; false if there is none (yet). */
bool container_read_id(const char *cidfile, char *id, unsigned size);
/* What to remove when nothing of the container is left: the id's file and its recipe. */
void container_forget(const char *cidfile);

/* Calls fn for each container that an earlier life left behind, with the arguments (NULL-terminated, the program first)
 * that remove it. The files are removed. */
void container_walk_left(const char *dir, void (*fn)(void *arg, char *const *argv), void *arg);
