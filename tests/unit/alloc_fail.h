/*
 * Makes one allocation of a test fail. The program is linked with --wrap for malloc and the others below
 * (mcpd_test_allocations() in CMakeLists.txt), so that the calls of its own objects come here; those that shared
 * libraries make inside do not. Between alloc_watch() and alloc_done() nothing but the code under test may run: Check
 * allocates too.
 */
#pragma once

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *old);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *old);
char *__wrap_strdup(const char *text);
char *__wrap_strndup(const char *text, size_t len);
int __wrap_asprintf(char **ret, const char *format, ...);
int __wrap_vasprintf(char **ret, const char *format, va_list args);
/* What _FORTIFY_SOURCE makes of the two. */
int __wrap___asprintf_chk(char **ret, int flag, const char *format, ...);
int __wrap___vasprintf_chk(char **ret, int flag, const char *format, va_list args);

static struct {
	bool watching;
	bool failed;   /* the one that was to fail has been asked for */
	unsigned left; /* allocations until then; 0: none fails */
	unsigned count;
	long live; /* allocated and not yet freed */
} alloc_state;

/* From here on the nth allocation fails (0: none does). */
static inline void alloc_watch(unsigned nth)
{
	alloc_state.watching = true;
	alloc_state.failed = false;
	alloc_state.left = nth;
	alloc_state.count = 0;
	alloc_state.live = 0;
}

/* True if the allocation failed that was to; *ret_live: how many more there are than at alloc_watch(). */
static inline bool alloc_done(long *ret_live)
{
	alloc_state.watching = false;
	*ret_live = alloc_state.live;
	return alloc_state.failed;
}

/* How many allocations were asked for since alloc_watch(), up to alloc_done(). */
static inline unsigned alloc_count(void)
{
	return alloc_state.count;
}

static bool alloc_fails(void)
{
	alloc_state.count += alloc_state.watching;
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

char *__wrap_strndup(const char *text, size_t len)
{
	len = strnlen(text, len);
	char *copy = __wrap_malloc(len + 1);
	if (!copy)
		return NULL;
	memcpy(copy, text, len);
	copy[len] = '\0';
	return copy;
}

char *__wrap_strdup(const char *text)
{
	return __wrap_strndup(text, strlen(text));
}

int __wrap_vasprintf(char **ret, const char *format, va_list args)
{
	va_list again;
	va_copy(again, args);
	int len = vsnprintf(NULL, 0, format, again);
	va_end(again);
	*ret = len < 0 ? NULL : __wrap_malloc((size_t)len + 1);
	return *ret ? vsnprintf(*ret, (size_t)len + 1, format, args) : -1;
}

int __wrap_asprintf(char **ret, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int len = __wrap_vasprintf(ret, format, args);
	va_end(args);
	return len;
}

int __wrap___vasprintf_chk(char **ret, int flag, const char *format, va_list args)
{
	(void)flag;
	return __wrap_vasprintf(ret, format, args);
}

int __wrap___asprintf_chk(char **ret, int flag, const char *format, ...)
{
	(void)flag;
	va_list args;
	va_start(args, format);
	int len = __wrap_vasprintf(ret, format, args);
	va_end(args);
	return len;
}
