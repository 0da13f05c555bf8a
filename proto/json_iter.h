/*
 * Looking into spans of JSON: what a value is, the members of an object, the elements of an array, what a string says,
 * what a number is.
 *
 * All of it works on spans that json_check() or json_scan() has accepted, whole or as part of a larger text. On other
 * bytes it stays inside the span and ends, but may say nonsense.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/buf.h"
#include "proto/span.h"

/* Not json_type: json-c has that name, and some files include both. */
enum json_kind {
	JSON_ABSENT, /* span with ptr NULL, or empty */
	JSON_NULL,
	JSON_BOOL,
	JSON_NUMBER,
	JSON_STRING,
	JSON_ARRAY,
	JSON_OBJECT,
};

enum json_kind json_type_of(struct span value);
/* The value without white space around it. */
struct span json_trim(struct span value);

struct json_iter {
	const char *at;
	const char *end;
};

/* Walk an object or array. The key is the string as written, quotes included. False at the end, and at once in what is
 * no object (no array). */
void json_iter_init(struct json_iter *it, struct span container);
bool json_iter_member(struct json_iter *it, struct span *ret_key, struct span *ret_value);
bool json_iter_element(struct json_iter *it, struct span *ret_value);
/* The first member with that (decoded) name, or an absent span. */
struct span json_member(struct span object, const char *name);
/* json_member() along a path of names that ends with NULL. */
struct span json_path(struct span object, ...) __attribute__((sentinel));

/* Whether a string span, quotes included, says text once decoded. False for what is no string. */
bool json_string_is(struct span string, const char *text);
/* Whether two JSON strings say the same once decoded. Lone surrogates are equal to themselves only. */
bool json_strings_equal(struct span a, struct span b);
/* A hash that agrees with json_strings_equal(). */
uint64_t json_string_hash(struct span string);
/* Appends the decoded string to out; lone surrogates become U+FFFD. 0, -EINVAL if it is no string (out is as before),
 * -ENOMEM or -E2BIG. */
int json_string_decode(struct span string, struct buf *out);
/* The decoded string on the heap, NUL-terminated, free() it; NULL if it is no string, contains U+0000, or memory is
 * short. */
char *json_string_dup(struct span string);
/* 0, or -EINVAL if the value is no number, or -ERANGE if it is not an integer that fits (1.0 and 1e3 are integers). */
int json_int64(struct span number, int64_t *ret_value);
