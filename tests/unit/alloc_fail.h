/*
 * Makes one allocation of a test fail. The program is linked with --wrap for malloc, calloc, realloc and free, so that
 * the calls of its own objects come here. Between alloc_watch() and alloc_done() nothing but the code under test may
 * run: Check allocates too.
 */
#pragma once

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *old);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *old);

static struct {
	bool watching;
	bool failed;   /* the one that was to fail has been asked for */
	unsigned left; /* allocations until then; 0: none fails */
	long live;     /* allocated and not yet freed */
} alloc_state;

/* From here on the nth allocation fails (0: none does). */
static inline void alloc_watch(unsigned nth)
{
	alloc_state.watching = true;
	alloc_state.failed = false;
	alloc_state.left = nth;
	alloc_state.live = 0;
}

/* True if the allocation failed that was to; *ret_live: how many more there are than at alloc_watch(). */
static inline bool alloc_done(long *ret_live)
{
	alloc_state.watching = false;
	*ret_live = alloc_state.live;
	return alloc_state.failed;
}

static bool alloc_fails(void)
{
	if (!alloc_state.watching || alloc_state.left == 0 || --alloc_state.left > 0)
		return false;
	alloc_state.failed = true;
	errno = ENOMEM;
	return true;
}

void *__wrap_malloc(size_t size)
{
	void *p = alloc_fails() ? NULL : __real_malloc(size);
	alloc_state.live += p != NULL;
	return p;
}

void *__wrap_calloc(size_t count, size_t size)
{
	void *p = alloc_fails() ? NULL : __real_calloc(count, size);
	alloc_state.live += p != NULL;
	return p;
}

void *__wrap_realloc(void *old, size_t size)
{
	void *p = alloc_fails() ? NULL : __real_realloc(old, size);
	alloc_state.live += p && !old;
	return p;
}

void __wrap_free(void *old)
{
	alloc_state.live -= old != NULL;
	__real_free(old);
}
