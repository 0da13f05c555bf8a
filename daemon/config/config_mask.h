/*
 * What people may be shown of strings that can hold secrets (house rule 7). Applied to strings as they were written in the file, before
 * expansion, so that `${TOKEN}` never becomes its value here. "***" stands for what is left out.
 */
#pragma once

#include <stdbool.h>

#include "proto/buf.h"

#define MASK_TEXT "***"

/* Whether a variable, header, option or URL parameter of that name holds a secret: it says token, secret, password, key or the like. */
bool mask_is_secret_name(const char *name, size_t len);
/* Whether a value shows by its beginning that it is one: `Bearer ..`, `sk-..`, `ghp_..` and their like. */
bool mask_is_secret_value(const char *value);
/* The secret in an argument, which begins there and ends with it, or NULL: see mask_argument(). */
const char *mask_secret_of(const char *before, const char *argument);
/* The secrets of a URL: calls fn for the password, or a user that stands alone, and for the values of its query whose names are a secret's. */
void mask_walk_url(const char *url, void (*fn)(void *arg, const char *secret, size_t len), void *arg);

/* A URL with userinfo and query masked and the fragment left out. */
void mask_url(struct buf *out, const char *url);
/*
 * One argument of a command line. Masked are the value of `--some-token=value` and `SOME_TOKEN=value`, the argument behind a `--some-token`, the value of
 * an HTTP header (`Authorization: ..`), and userinfo and query of URLs; a name counts as a secret's if it says token, secret, password, key or the like.
 * `before` is the argument in front of it, or NULL.
 */
void mask_argument(struct buf *out, const char *before, const char *argument);
