/* Patterns of names, as "tools": {"allow": [..], "deny": [..]} has them: `*` stands for any bytes, `?` for one
 * character, all else for itself, case included. */
#pragma once

#include <stdbool.h>

#include "proto/span.h"

/* The time is at most proportional to the product of the lengths. */
bool glob_match(const char *pattern, struct span text);
