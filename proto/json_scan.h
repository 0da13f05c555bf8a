/*
 * Strict JSON (RFC 8259) without a tree: one pass, no allocation, no recursion, nothing copied.
 *
 * json_check() validates: grammar, UTF-8 (no overlong forms, no encoded surrogates, nothing above U+10FFFF), no raw
 * control characters in strings, depth at most JSON_DEPTH_MAX, no byte but white space behind the value. Escaped lone
 * surrogates
 * (\ud800) are valid and stay as they are. Numbers may have any length. A byte order mark is no JSON: see
 * framer_clean().
 *
 * json_scan() does the same and, in that same pass, notes where the wanted members lie. Members are named by a table of
 * paths from the top-level object; names are compared decoded ("\u0069d" is "id"). A wanted member that occurs twice
 * keeps its first span, and its own members are looked for in that first one only; it is reported in `doubled`, and the
 * caller decides (an envelope with two ids is refused, a payload's doubles are none of our business).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/json_iter.h"
#include "proto/span.h"

#define JSON_DEPTH_MAX 128
#define JSON_WANT_MAX 63

struct json_error {
	size_t offset;      /* of the first byte that cannot be */
	const char *reason; /* static text, for people */
	bool too_deep;      /* it may be JSON, but for its depth */
};

/* One wanted member: `name` in the object that is itself entry `parent` of the table (-1: the top-level object), in any
 * order; no two entries name the same member. */
struct json_want {
	const char *name;
	int parent;
};

/* Both return 0, or -EINVAL with *ret_error (may be NULL) set. found[] has one span per want; *ret_doubled (may be
 * NULL) one bit. A top-level value that is no object is valid and leaves every span absent.
 *
 * Where the text is no JSON, found[] says what was seen before the offending byte, for texts that were cut off
 * (contract S7a): members that were complete have their span, one that had only begun has its ptr and len 0. */
int json_check(struct span text, struct json_error *ret_error);
int json_scan(struct span text, const struct json_want *wants, size_t n_wants, struct span *found,
	      uint64_t *ret_doubled, struct json_error *ret_error);
/* The same with another depth, which is at most JSON_DEPTH_MAX. */
int json_scan_within(struct span text, unsigned max_depth, const struct json_want *wants, size_t n_wants,
		     struct span *found, uint64_t *ret_doubled, struct json_error *ret_error);
