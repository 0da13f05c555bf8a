#include "config/config_mask.h"

#include <stdbool.h>
#include <string.h>

/* What the name of a secret contains, in whatever case. */
static const char *const secret_words[] = { "token",  "secret", "passw", "key",    "auth", "credential",
					    "bearer", "cookie", "pwd",   "header", "-H" };

bool mask_is_secret_name(const char *name, size_t len)
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

bool mask_is_secret_value(const char *value)
{
	static const char *const beginnings[] = {
		"Bearer ",     "Basic ", "Token ", "sk-",   "sk_",  "pk_", "rk_", "ghp_", "gho_", "ghs_",
		"github_pat_", "glpat-", "xoxb-",  "xoxp-", "AKIA", "eyJ", "hf_", "npm_", "AIza",
	};
	for (size_t i = 0; i < sizeof(beginnings) / sizeof(*beginnings); i++)
		if (strncmp(value, beginnings[i], strlen(beginnings[i])) == 0)
			return true;
	return false;
}

void mask_walk_url(const char *url, void (*fn)(void *arg, const char *secret, size_t len), void *arg)
{
	const char *scheme_end = strstr(url, "://");
	const char *authority = scheme_end ? scheme_end + strlen("://") : url;
	size_t authority_len = strcspn(authority, "/?#");
	const char *at_sign = memrchr(authority, '@', authority_len);
	if (at_sign) {
		const char *colon = memchr(authority, ':', (size_t)(at_sign - authority));
		const char *secret = colon ? colon + 1 : authority;
		fn(arg, secret, (size_t)(at_sign - secret));
	}
	const char *at = authority + authority_len + strcspn(authority + authority_len, "?#");
	while (*at == '?' || *at == '&') {
		const char *name = at + 1;
		size_t len = strcspn(name, "&#"), name_len = strcspn(name, "=&#");
		if (name_len < len && mask_is_secret_name(name, name_len))
			fn(arg, name + name_len + 1, len - name_len - 1);
		at = name + len;
	}
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
	size_t name_len = strncmp(argument, "${", 2) == 0 ? strlen(argument) : strcspn(argument, "=:");
	bool header = argument[name_len] == ':';
	if (!argument[name_len] || (header && strncmp(argument + name_len, "://", 3) == 0))
		return NULL;
	return mask_is_secret_name(argument, name_len) ? argument + name_len + 1 : NULL;
}

static bool follows_secret_option(const char *before, const char *argument)
{
	return before && before[0] == '-' && !strchr(before, '=') && argument[0] != '-' &&
	       mask_is_secret_name(before, strlen(before));
}

const char *mask_secret_of(const char *before, const char *argument)
{
	const char *value = secret_value(argument);
	if (value)
		return value;
	if (!follows_secret_option(before, argument))
		return mask_is_secret_value(argument) ? argument : NULL;
	if (strncmp(argument, "${", 2) == 0)
		return argument;
	size_t name_len = strcspn(argument, ":");
	return argument[name_len] == ':' ? argument + name_len + 1 : argument;
}

void mask_argument(struct buf *out, const char *before, const char *argument)
{
	/* Of a header that follows `--header` the name is worth showing. */
	const char *secret = mask_secret_of(before, argument);
	if (secret) {
		buf_add(out, argument, (size_t)(secret - argument));
		buf_add_text(out, MASK_TEXT);
	} else if (strstr(argument, "://")) {
		mask_url(out, argument);
	} else {
		buf_add_text(out, argument);
	}
}
