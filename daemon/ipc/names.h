/*
 * Names of tools and prompts where one list shows those of all servers (PROTOCOL "MCP dialect"): `<server>__<name>`, kept to what
 * model providers accept, so many characters of [A-Za-z0-9_-] (R29).
 *
 * Nothing is remembered: a name follows from the server, its own name and the limit alone, so that it is the same in
 * every list, for every client and after a restart. There are two forms.
 *
 * - Plain: `<server>__<name>` as it stands, where that is allowed, is not too long, the server's name neither contains `__` nor
 *   ends in `_`, and it does not look like the other form. The first `__` is then where the server's name ends, so two plain names
 *   are never the same, and names_split() takes one apart.
 * - Hashed: the same text with every other character made `_`, cut to fit, then `_` and twelve hex digits, which are the first 48 bits
 *   of a SHA-256 of server and name. What ends like that is never plain, so the forms never meet. That two hashed names are the same is
 *   only improbable: 1 in 5 million among 10,000 whose text is the same up to the cut.
 *
 * A name that was hashed is found again by asking names_match() of those that exist.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "proto/buf.h"
#include "proto/span.h"

/* The least `max` that leaves room for some text before the hash: that of the limit maxToolName. */
#define NAMES_MAX_LEAST 24

/* Appends the name that server's `name` (a JSON string, quotes included) is shown as: plain text, 1 to max bytes of
 * [A-Za-z0-9_-]. max: at least NAMES_MAX_LEAST. 0, or -EINVAL if name is no JSON string, -ENOMEM, -E2BIG (what is in
 * out is then as before). */
int names_write(struct buf *out, const char *server, struct span name, size_t max);
/* Whether the shown name (a JSON string as a client sent it) is that of server's `name`. Hashes only where all but the
 * hash agrees. */
bool names_match(struct span shown, const char *server, struct span name, size_t max);
/* Takes a plain name apart: the server's name and its own, as text inside shown (a JSON string), without quotes. False
 * for what no plain name is; a hashed one, or one that the client wrote with escapes. */
bool names_split(struct span shown, size_t max, struct span *ret_server, struct span *ret_name);
