/* A span: bytes that somebody else owns. Nothing in proto/ copies a payload; it says where the payload lies. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* ptr == NULL means "absent"; an empty span that is present has ptr != NULL and len 0. */
struct span {
	const char *ptr;
	size_t len;
};

#define SPAN_NONE ((struct span){ NULL, 0 })
#define SPAN_LIT(literal) ((struct span){ (literal), sizeof(literal) - 1 })

static inline struct span span_of(const char *text)
{
	return (struct span){ text, text ? strlen(text) : 0 };
}

static inline bool span_equal(struct span a, struct span b)
{
	return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

static inline bool span_is(struct span a, const char *text)
{
	return a.ptr && span_equal(a, span_of(text));
}
