/*
 * Small allocations whose size no peer controls. When even those fail the daemon says so and aborts; the service manager starts it anew.
 * Anything that a peer can make large goes through struct buf or malloc and is answered with an error instead. Nor is any of this for proto/, which
 * serves other programs too, or for config/: a reload that finds no memory must leave the daemon as it is (config/config_memory.h).
 */
#pragma once

#include <stddef.h>

void *xcalloc(size_t count, size_t size) __attribute__((malloc, returns_nonnull));
void *xrealloc(void *old, size_t count, size_t size) __attribute__((returns_nonnull));
char *xstrdup(const char *text) __attribute__((malloc, returns_nonnull));
char *xstrndup(const char *text, size_t len) __attribute__((malloc, returns_nonnull));
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2), returns_nonnull));

#define xnew(type) ((type *)xcalloc(1, sizeof(type)))
#define xnew_array(type, n) ((type *)xcalloc((n), sizeof(type)))
