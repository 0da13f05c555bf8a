#include "xalloc.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

static void *check(void *memory)
{
	if (!memory) {
		log_error("out of memory");
		abort();
	}
	return memory;
}

void *xcalloc(size_t count, size_t size)
{
	return check(calloc(count ? count : 1, size ? size : 1));
}

void *xrealloc(void *old, size_t count, size_t size)
{
	if (size && count > SIZE_MAX / size)
		return check(NULL);
	size_t bytes = count * size;
	return check(realloc(old, bytes ? bytes : 1));
}

char *xstrdup(const char *text)
{
	return check(strdup(text));
}

char *xstrndup(const char *text, size_t len)
{
	return check(strndup(text, len));
}

char *xasprintf(const char *format, ...)
{
	char *text = NULL;
	va_list args;
	va_start(args, format);
	int len = vasprintf(&text, format, args);
	va_end(args);
	return check(len < 0 ? NULL : text);
}
