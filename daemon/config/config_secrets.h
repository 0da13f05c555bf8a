/* Secrets that stand in a configuration file as they are, and not as ${VAR}: worth a warning where others can read the file. */
#pragma once

#include <stdbool.h>

#include "config/config_loader.h"
#include "config/config_members.h"
#include "proto/span.h"

/*
 * Whether the value of the member, as written, holds one: in an environment or in headers a value whose name says so or that looks like it, in
 * arguments and a URL what config_mask.h would hide. Where a `${` is in the text, the secret is taken to be elsewhere.
 */
bool secrets_written(struct loader *l, const struct config_member *member, struct span value);
/* Calls fn with what each `${NAME}` in the value stands for, of which the name says that it is secret. */
void secrets_walk_expanded(struct span value, const char *const *environment, void (*fn)(void *arg, const char *value),
			   void *arg);
