/* Copies of test data that end where the readable memory ends: one byte read too far is a SIGSEGV, with or without a
 * sanitizer. */
#pragma once

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "proto/span.h"

#define GUARD_BYTES ((size_t)1 << 20)

/* The copy is valid until the next call. At most GUARD_BYTES. */
static inline struct span guard_copy(struct span text)
{
	static char *area;
	if (!area) {
		area = mmap(NULL, 2 * GUARD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (area == MAP_FAILED || mprotect(area + GUARD_BYTES, GUARD_BYTES, PROT_NONE) < 0)
			abort();
	}
	if (text.len > GUARD_BYTES)
		abort();
	char *copy = area + GUARD_BYTES - text.len;
	if (text.len > 0)
		memcpy(copy, text.ptr, text.len);
	return (struct span){ copy, text.len };
}
