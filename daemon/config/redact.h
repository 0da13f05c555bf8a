/*
 * Secrets of a server's definition in what the server says (house rule 7).
 *
 * A server may print its token to stderr, or send a request's headers back in an error. Such text goes to logs, events and messages, and so what is
 * known to be secret is replaced in it first. Results and JSON-RPC errors of servers are not touched: they are the asker's, byte for byte.
 *
 * Known to be secret are the values of headers; those of variables whose name says so, or that look like a secret; what config_mask.h hides of
 * arguments; the password and the secret values of the query of a URL; and what a ${VAR} stands for whose name says so, wherever it is written.
 * Short ones, which are words of any text, are left alone.
 */
#pragma once

#include "proto/buf.h"
#include "proto/span.h"

#define REDACT_MIN_BYTES 6

struct redactor;
struct server_config;

/* env: the variables that the server is given, "NAME=value", NULL-terminated. NULL if nothing is secret. Without memory the result is one that
 * takes every text for a secret: a server whose lines cannot be read is better than one that tells its token. */
struct redactor *redactor_new(const struct server_config *sc, const char *const *env);
/* Takes NULL. */
void redactor_free(struct redactor *r);
/* The text with "***" for each secret in it, which lies in *room (BUF_INIT; the caller's to release); or the text itself, if there is none or r is
 * NULL; or "***" alone, if memory is short. */
struct span redact(const struct redactor *r, struct span text, struct buf *room);
