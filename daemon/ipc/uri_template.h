/*
 * Whether a URI may have been made from a URI template (RFC 6570, all levels): how the server of a resource is found that is in no
 * list (PROTOCOL "MCP dialect").
 *
 * The server has the last word, so where programs are laxer than the RFC this is too: characters that an expansion
 * would have encoded may stand in a value as they are, though never those that end it (`/` in `{id}`, `&` in `{?q}`,
 * `?` and `#` in either); named values may come in any order; `{path*}` may have slashes, as some servers mean it.
 *
 * Templates come from servers and URIs from clients. The time is at most proportional to the product of their lengths, the memory to
 * that of the URI.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "proto/span.h"

/* A template that is longer, or has more variables, matches nothing; nothing matches a URI that is longer. The worst there is then takes
 * a few milliseconds. */
#define URI_TEMPLATE_MAX_BYTES ((size_t)2048)
#define URI_TEMPLATE_MAX_VARIABLES ((size_t)32)
#define URI_TEMPLATE_URI_MAX_BYTES ((size_t)8192)

/* Both are decoded text. False too for a template that is none, and where memory is short. */
bool uri_template_match(struct span template, struct span uri);
/* Bytes of the template that are outside its expressions: of several that match, the one with the most says most about
 * the URI. 0 for a template that is none. */
size_t uri_template_weight(struct span template);
