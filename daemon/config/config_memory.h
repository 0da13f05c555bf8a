/*
 * Memory for loading. A configuration can be large, and a reload that finds no room for it must leave the daemon as it is: nothing here aborts.
 *
 * An allocation that fails is noted in the loader and stays noted; the load as a whole then fails (config_load.c). What was being read goes on with
 * a NULL, an empty object or a shorter list, and only has to stay fit to be freed: none of it is used, and no problem is told any more.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#include "config/config_loader.h"
#include "proto/buf.h"

/* Returns memory, of which NULL means that there was none. Notes that. */
void *loader_checked(struct loader *l, void *memory);
/* count zeroed items; free() them. NULL (noted) without memory; so the next four. */
void *loader_alloc(struct loader *l, size_t count, size_t size);
/* Moves old, which is as before if the result is NULL, to room for count items. */
void *loader_grow(struct loader *l, void *old, size_t count, size_t size);
char *loader_dup(struct loader *l, const char *text);
__attribute__((format(printf, 2, 3))) char *loader_format(struct loader *l, const char *format, ...);
__attribute__((format(printf, 2, 0))) char *loader_vformat(struct loader *l, const char *format, va_list args);
/* A JSON string decoded; free() it. NULL if it is no string or contains U+0000, too. */
char *loader_text(struct loader *l, struct span string);

/* NULL-terminated lists of heap strings. list_new() gives an empty one, or NULL without memory; the others take NULL for an empty one. */
char **list_new(void);
size_t list_length(char *const *list);
/* Takes the item. False if it is NULL, or freed because there is no memory; the list is then as before. */
bool list_add(char ***list, size_t *n, char *item);
void list_free(char **list);
/* The same, noted. */
bool loader_add(struct loader *l, char ***list, size_t *n, char *item);
