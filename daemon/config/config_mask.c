#include "config/config_mask.h"

#include <stdbool.h>
#include <string.h>

/* What the name of a secret contains, in whatever case. */
static const char *const secret_words[] = { "token",  "secret", "passw", "key",    "auth", "credential",
					    "bearer", "cookie", "pwd",   "header", "-H" };

static bool names_secret(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(secret_words) / sizeof(*secret_words); i++) {
		const char *word = secret_words[i];
		size_t word_len = strlen(word);
		/* An option of one letter is that option only as a whole, and its case matters. */
		if (word[0] == '-') {
			if (len == word_len && memcmp(name, word, len) == 0)
				return true;
			continue;
		}
		for (size_t at = 0; at + word_len <= len; at++)
			if (strncasecmp(name + at, word, word_len) == 0)
				return true;
	}
	return false;
}

void mask_url(struct buf *out, const char *url)
{
	const char *scheme_end = strstr(url, "://");
	const char *authority = scheme_end ? scheme_end + strlen("://") : url;
	size_t authority_len = strcspn(authority, "/?#");
	const char *at_sign = memrchr(authority, '@', authority_len);
	buf_add(out, url, (size_t)(authority - url));
	const char *rest = authority;
	if (at_sign) {
		buf_add_text(out, MASK_TEXT);
		rest = at_sign;
	}
	size_t shown = strcspn(rest, "?#");
	buf_add(out, rest, shown);
	if (rest[shown] == '?')
		buf_add_text(out, "?" MASK_TEXT);
}

/* Where the secret begins in "NAME=secret" and "Name: secret"; NULL if there is none. */
static const char *secret_value(const char *argument)
{
	size_t name_len = strcspn(argument, "=:");
	bool header = argument[name_len] == ':';
	if (!argument[name_len] || (header && strncmp(argument + name_len, "://", 3) == 0))
		return NULL;
	return names_secret(argument, name_len) ? argument + name_len + 1 : NULL;
}

void mask_argument(struct buf *out, const char *before, const char *argument)
{
	bool follows_option = before && before[0] == '-' && !strchr(before, '=') && argument[0] != '-' &&
			      names_secret(before, strlen(before));
	const char *value = secret_value(argument);
	if (value) {
		buf_add(out, argument, (size_t)(value - argument));
		buf_add_text(out, MASK_TEXT);
	} else if (follows_option) {
		/* Of a header that follows `--header` the name is worth showing. */
		size_t name_len = strcspn(argument, ":");
		if (argument[name_len] == ':')
			buf_add(out, argument, name_len + 1);
		buf_add_text(out, MASK_TEXT);
	} else if (strstr(argument, "://")) {
		mask_url(out, argument);
	} else {
		buf_add_text(out, argument);
	}
}
