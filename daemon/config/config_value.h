/*
 * Reading the values of members out of checked JSON: types, strings with their variables expanded, numbers in a range, lists, names with values.
 *
 * `where` says which value it is, for messages: `"env": "PORT"`. What is wrong is told to the loader; no message shows a string's text.
 * mcpd's own scanner is used instead of json-c because a configuration deserves exact answers: doubled names, numbers as they were
 * written, NUL in strings, and the line where something stands are all lost in a json-c tree.
 */
#pragma once

#include <stdint.h>

#include "config/config_loader.h"
#include "proto/json_iter.h"

/* One member of an object; the key as written, quotes included, and decoded. */
struct object_member {
	struct span key, value;
	char *name; /* NULL: cannot be one (U+0000 or half a surrogate pair in it) */
};

struct object {
	struct object_member *members;
	size_t n;
};

/* "a number", "null", ..: what stands there instead of what was expected. */
const char *value_found(struct span value);
/* Whether the value has that type; told otherwise. `expected` is as in member_kind_text(). */
bool value_is(struct loader *l, const char *where, struct span value, enum json_kind type, const char *expected);

/* The object's members in order; none, if memory was short. Of a name that is there twice the last one counts, as in other programs, with a
 * warning. The value must be an object. `where` is empty, or ends in ": ". */
void object_read(struct loader *l, const char *where, struct span value, struct object *ret);
void object_done(struct object *object);

/* Whether decoding a string lost nothing: half a surrogate pair is no character and becomes U+FFFD. False without memory (noted), too. */
bool value_is_whole(struct loader *l, struct span string, struct span decoded);

/* These return NULL or false if something was wrong (told), but for lists: those leave out what was wrong. Without memory (config_memory.h) lists
 * too may be NULL, or lack items. Results are the caller's. */

/* As written: no variables expanded. */
char *value_written(struct loader *l, const char *where, struct span value);
/* A string with its variables expanded. */
char *value_string(struct loader *l, const char *where, struct span value);
/* A string with its variables and a leading ~/ expanded; must be absolute then. */
char *value_path(struct loader *l, const char *where, struct span value);
bool value_bool(struct loader *l, const char *where, struct span value, bool *ret);
bool value_int(struct loader *l, const char *where, struct span value, const char *expected, int64_t min, int64_t max,
	       int64_t *ret);
char **value_strings(struct loader *l, const char *where, struct span value);
/* "NAME=value" for each member. */
char **value_env(struct loader *l, const char *where, struct span value);
/* "Name: value" for each member; those that mcpd sets itself are left out with a warning. */
char **value_headers(struct loader *l, const char *where, struct span value);
/* A number of bytes, or a string of one with K, M, G or T (powers of 1024) behind it. */
bool value_bytes(struct loader *l, const char *where, struct span value, int64_t min, int64_t max, int64_t *ret);
/* Fills in tools_allow, tools_allow_only and tools_deny. */
void value_tools(struct loader *l, const char *where, struct span value, struct server_config *sc);
/* `roots`: JSON text. */
char *value_roots(struct loader *l, const char *where, struct span value);

/* Replaces a leading ~ or ~/ in *path (heap) by $HOME. False if that is not set (told) or memory is short; *path is then as before. */
bool expand_home(struct loader *l, const char *where, char **path);
