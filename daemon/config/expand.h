/*
 * ${VAR}, ${VAR:-default} and ${env:VAR} in configuration strings (R36).
 *
 * The one rule: `${NAME}` and `${env:NAME}` are the value of that environment variable, which must be set (it may be empty);
 * `${NAME:-default}` and `${env:NAME:-default}` are the default where the variable is not set or empty. A default ends at the first `}`
 * and holds no `${` itself. `$${` stands for a literal `${`. A `$` that no `{` follows stands for itself. Any other `${` is an error, and so
 * is a variable that is not set and has no default: sending "${TOKEN}" as it stands and dropping it silently both hurt.
 */
#pragma once

#include <stddef.h>

/* The longest result, in bytes. The system takes no longer argument or environment string than an eighth of it. */
#define EXPAND_MAX_BYTES ((size_t)1 << 20)

/*
 * Expands text from the environ-like list. Returns the expanded string (free it), or NULL with *ret_error set to a message for people that names
 * the variable and never shows a value or any of the text (free it), or to NULL if memory is short.
 */
char *expand(const char *text, const char *const *environment, char **ret_error);

/* The value of a variable in an environ-like list (NULL: an empty one), or NULL. The result lies in the list. */
const char *expand_lookup(const char *const *environment, const char *name, size_t name_len);
