#include "config/redact.h"

#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "config/config_mask.h"

struct redactor {
	char **secrets; /* the longest first */
	size_t n;
	bool no_memory; /* some are not known */
};

/* Needs no memory. */
static struct redactor everything = { .no_memory = true };

static void add(void *arg, const char *secret, size_t len)
{
	struct redactor *r = arg;
	while (len > 0 && *secret == ' ')
		secret++, len--;
	if (len < REDACT_MIN_BYTES)
		return;
	char **grown = realloc(r->secrets, (r->n + 1) * sizeof(*grown)), *copy = strndup(secret, len);
	if (grown)
		r->secrets = grown;
	if (grown && copy)
		r->secrets[r->n++] = copy;
	else
		free(copy);
	r->no_memory |= !grown || !copy;
}

static void add_text(struct redactor *r, const char *secret)
{
	add(r, secret, strlen(secret));
}

/* No word, number or path: letters and digits mixed. */
static bool looks_random(const char *value)
{
	static const char digits[] = "0123456789", letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	return strlen(value) >= 16 && strpbrk(value, digits) && strpbrk(value, letters) && !strpbrk(value, "/. ");
}

static void add_variables(struct redactor *r, const char *const *env)
{
	for (; env && *env; env++) {
		size_t name_len = strcspn(*env, "=");
		const char *value = *env + name_len + ((*env)[name_len] == '=');
		if (mask_is_secret_name(*env, name_len) || mask_is_secret_value(value) || looks_random(value))
			add_text(r, value);
		else if (strstr(value, "://"))
			mask_walk_url(value, add, r);
	}
}

/* Without what says which kind of secret it is, too: `Bearer ..`. */
static void add_headers(struct redactor *r, char *const *headers)
{
	for (; *headers; headers++) {
		const char *value = *headers + strcspn(*headers, ":");
		value += strspn(value, ": ");
		add_text(r, value);
		size_t scheme = strcspn(value, " ");
		if (value[scheme])
			add_text(r, value + scheme + 1);
	}
}

static void add_arguments(struct redactor *r, char *const *args)
{
	const char *before = NULL;
	for (; *args; before = *args++) {
		const char *secret = mask_secret_of(before, *args);
		if (secret)
			add_text(r, secret);
		else if (strstr(*args, "://"))
			mask_walk_url(*args, add, r);
	}
}

static int hex(char c)
{
	const char *digits = "0123456789abcdef", *at = c ? strchr(digits, c | 0x20) : NULL;
	return at ? (int)(at - digits) : -1;
}

/* Percent-encoding taken off. NULL without memory. */
static char *decode(const char *text, size_t len)
{
	char *out = strndup(text, len), *to = out;
	if (!out)
		return NULL;
	for (const char *c = out; *c; c++) {
		bool coded = c[0] == '%' && hex(c[1]) >= 0 && hex(c[2]) >= 0;
		*to++ = coded ? (char)(hex(c[1]) << 4 | hex(c[2])) : *c;
		c += coded ? 2 : 0;
	}
	*to = '\0';
	return out;
}

static int longer_first(const void *a, const void *b)
{
	size_t x = strlen(*(char *const *)a), y = strlen(*(char *const *)b);
	return (x < y) - (x > y);
}

/* What HTTP makes of a URL's `user:password@`: both decoded, and together in base64 (RFC 7617). */
static void add_basic_auth(struct redactor *r, const char *url)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *authority = strstr(url, "://");
	authority = authority ? authority + strlen("://") : url;
	const char *at_sign = memrchr(authority, '@', strcspn(authority, "/?#"));
	if (!at_sign)
		return;
	char *user = decode(authority, (size_t)(at_sign - authority));
	if (!user) {
		r->no_memory = true;
		return;
	}
	const char *colon = strchr(user, ':');
	struct buf out = BUF_INIT;
	for (size_t i = 0, len = strlen(user); i < len; i += 3) {
		unsigned n = 0;
		for (size_t k = 0; k < 3; k++)
			n = n << 8 | (i + k < len ? (unsigned char)user[i + k] : 0);
		for (size_t k = 0; k < 4; k++)
			buf_add_char(&out, i + k <= len ? digits[n >> (18 - 6 * k) & 63] : '=');
	}
	r->no_memory |= buf_failed(&out);
	add(r, buf_span(&out).ptr, out.len);
	add_text(r, colon ? colon + 1 : user);
	buf_done(&out);
	free(user);
}

struct redactor *redactor_new(const struct server_config *sc, const char *const *env)
{
	struct redactor *r = calloc(1, sizeof(*r));
	if (!r)
		return &everything;
	add_variables(r, env);
	add_headers(r, sc->headers);
	add_arguments(r, sc->args);
	for (char *const *value = sc->expanded; *value; value++)
		add_text(r, *value);
	if (sc->url) {
		mask_walk_url(sc->url, add, r);
		add_basic_auth(r, sc->url);
	}
	if (r->n == 0 || r->no_memory) {
		struct redactor *instead = r->no_memory ? &everything : NULL;
		redactor_free(r);
		return instead;
	}
	qsort(r->secrets, r->n, sizeof(*r->secrets), longer_first);
	return r;
}

void redactor_free(struct redactor *r)
{
	if (!r || r == &everything)
		return;
	for (size_t i = 0; i < r->n; i++)
		free(r->secrets[i]);
	free(r->secrets);
	free(r);
}

/* Where the next secret begins, and how long it is; of several that begin there the longest. */
static const char *find(const struct redactor *r, struct span text, size_t *ret_len)
{
	const char *first = NULL;
	for (size_t i = 0; i < r->n; i++) {
		size_t len = strlen(r->secrets[i]);
		const char *at = memmem(text.ptr, text.len, r->secrets[i], len);
		if (at && (!first || at < first)) {
			first = at;
			*ret_len = len;
		}
	}
	return first;
}

struct span redact(const struct redactor *r, struct span text, struct buf *room)
{
	if (!r || !text.ptr || text.len == 0)
		return text;
	if (r->no_memory)
		return SPAN_LIT(MASK_TEXT);
	size_t len = 0;
	const char *at = find(r, text, &len), *end = text.ptr + text.len;
	if (!at)
		return text;
	buf_reset(room);
	for (; at; at = find(r, text, &len)) {
		buf_add(room, text.ptr, (size_t)(at - text.ptr));
		buf_add_text(room, MASK_TEXT);
		text = (struct span){ at + len, (size_t)(end - at) - len };
	}
	buf_add_span(room, text);
	return buf_failed(room) ? SPAN_LIT(MASK_TEXT) : buf_span(room);
}
