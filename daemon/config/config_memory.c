#include "config/config_memory.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/json_iter.h"

void *loader_checked(struct loader *l, void *memory)
{
	l->no_memory |= !memory;
	return memory;
}

void *loader_alloc(struct loader *l, size_t count, size_t size)
{
	return loader_checked(l, calloc(count ? count : 1, size));
}

void *loader_grow(struct loader *l, void *old, size_t count, size_t size)
{
	count = count ? count : 1;
	return loader_checked(l, count > SIZE_MAX / size ? NULL : realloc(old, count * size));
}

char *loader_dup(struct loader *l, const char *text)
{
	return loader_checked(l, strdup(text));
}

char *loader_vformat(struct loader *l, const char *format, va_list args)
{
	char *text = NULL;
	return loader_checked(l, vasprintf(&text, format, args) < 0 ? NULL : text);
}

char *loader_format(struct loader *l, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	char *text = loader_vformat(l, format, args);
	va_end(args);
	return text;
}

char *loader_text(struct loader *l, struct span string)
{
	struct buf text = BUF_INIT;
	int error = json_string_decode(string, &text);
	if (error == 0 && !(text.len > 0 && memchr(text.data, '\0', text.len)))
		return loader_checked(l, buf_steal(&text));
	l->no_memory |= error == -ENOMEM;
	buf_done(&text);
	return NULL;
}

char **list_new(void)
{
	return calloc(1, sizeof(char *));
}

size_t list_length(char *const *list)
{
	size_t n = 0;
	while (list && list[n])
		n++;
	return n;
}

bool list_add(char ***list, size_t *n, char *item)
{
	if (!item)
		return false;
	/* Room for a power of two of items and the NULL. */
	if ((*n & (*n - 1)) == 0) {
		char **grown = realloc(*list, ((*n ? *n * 2 : 1) + 1) * sizeof(*grown));
		if (!grown) {
			free(item);
			return false;
		}
		*list = grown;
	}
	(*list)[(*n)++] = item;
	(*list)[*n] = NULL;
	return true;
}

void list_free(char **list)
{
	for (char **item = list; item && *item; item++)
		free(*item);
	free(list);
}

bool loader_add(struct loader *l, char ***list, size_t *n, char *item)
{
	bool added = list_add(list, n, item);
	l->no_memory |= !added;
	return added;
}
