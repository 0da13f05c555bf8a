/*
 * What people may be shown of strings that can hold secrets (house rule 7). Applied to strings as they were written in the file, before
 * expansion, so that `${TOKEN}` never becomes its value here. "***" stands for what is left out.
 */
#pragma once

#include "proto/buf.h"

#define MASK_TEXT "***"

/* A URL with userinfo and query masked and the fragment left out. */
void mask_url(struct buf *out, const char *url);
/*
 * One argument of a command line. Masked are the value of `--some-token=value` and `SOME_TOKEN=value`, the argument behind a `--some-token`, the value of
 * an HTTP header (`Authorization: ..`), and userinfo and query of URLs; a name counts as a secret's if it says token, secret, password, key or the like.
 * `before` is the argument in front of it, or NULL.
 */
void mask_argument(struct buf *out, const char *before, const char *argument);
