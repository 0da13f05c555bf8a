#include "config/glob.h"

#include <stddef.h>

/* Bytes of the UTF-8 character at text, at least one. */
static size_t character(struct span text)
{
	size_t n = 1;
	while (n < text.len && ((unsigned char)text.ptr[n] & 0xc0) == 0x80)
		n++;
	return n;
}

static struct span behind(struct span text, size_t n)
{
	return (struct span){ text.ptr + n, text.len - n };
}

/* Only the last `*` is ever tried anew: what an earlier one could take more of, the later one can too. */
bool glob_match(const char *pattern, struct span text)
{
	const char *after_star = NULL;
	struct span retry = text;
	while (text.len > 0) {
		if (*pattern == '*') {
			after_star = ++pattern;
			retry = text;
		} else if (*pattern == '?') {
			text = behind(text, character(text));
			pattern++;
		} else if (*pattern && *pattern == *text.ptr) {
			text = behind(text, 1);
			pattern++;
		} else if (after_star) {
			retry = behind(retry, 1);
			text = retry;
			pattern = after_star;
		} else {
			return false;
		}
	}
	while (*pattern == '*')
		pattern++;
	return !*pattern;
}
