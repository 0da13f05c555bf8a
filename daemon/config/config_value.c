#include "config/config_value.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config_memory.h"
#include "config/expand.h"
#include "proto/buf.h"

/* Text for `where` of a value inside another. */
#define WHERE_MAX (3 * SHOWN_MAX)
/* As many as servers usually take. */
#define HEADERS_MAX 100

const char *value_found(struct span value)
{
	switch (json_type_of(value)) {
	case JSON_NULL:
		return "null (leave the member out instead)";
	case JSON_BOOL:
		return "true or false";
	case JSON_NUMBER:
		return "a number";
	case JSON_STRING:
		return "a string";
	case JSON_ARRAY:
		return "a list";
	case JSON_OBJECT:
		return "an object";
	default:
		return "nothing";
	}
}

bool value_is(struct loader *l, const char *where, struct span value, enum json_kind type, const char *expected)
{
	enum json_kind found = json_type_of(value);
	if (found == type)
		return true;
	/* The most frequent mistake of all: "PORT": 8080. */
	bool quote = type == JSON_STRING && (found == JSON_NUMBER || found == JSON_BOOL);
	loader_error(l, "%s: expected %s, found %s%s", where, expected, value_found(value),
		     quote ? "; write it in double quotes" : "");
	return false;
}

bool value_is_whole(struct loader *l, struct span string, struct span decoded)
{
	struct buf again = BUF_INIT;
	buf_add_json_string(&again, decoded);
	l->no_memory |= buf_failed(&again);
	bool whole = json_strings_equal(string, buf_span(&again));
	buf_done(&again);
	return whole;
}

char *value_written(struct loader *l, const char *where, struct span value)
{
	if (!value_is(l, where, value, JSON_STRING, "a string"))
		return NULL;
	struct buf text = BUF_INIT;
	const char *wrong = NULL;
	if (json_string_decode(value, &text) < 0)
		l->no_memory = true;
	else if (text.len > 0 && memchr(text.data, '\0', text.len))
		wrong = "contains U+0000, which no system call takes";
	else if (!value_is_whole(l, value, buf_span(&text)))
		wrong = "contains half a surrogate pair (\\ud800 to \\udfff), which is no character";
	if (!wrong && !l->no_memory)
		return loader_checked(l, buf_steal(&text));
	if (wrong)
		loader_error(l, "%s: %s", where, wrong);
	buf_done(&text);
	return NULL;
}

char *value_string(struct loader *l, const char *where, struct span value)
{
	char *written = value_written(l, where, value);
	if (!written)
		return NULL;
	char *error = NULL;
	char *text = expand(written, l->environment, &error);
	if (!text && error)
		loader_error(l, "%s: %s", where, error);
	else
		loader_checked(l, text);
	free(error);
	free(written);
	return text;
}

bool expand_home(struct loader *l, const char *where, char **path)
{
	char *old = *path;
	if (old[0] != '~' || (old[1] != '\0' && old[1] != '/'))
		return true;
	const char *home = expand_lookup(l->environment, "HOME", strlen("HOME"));
	if (!home || home[0] != '/') {
		loader_error(l, "%s: begins with ~, but HOME is not set in mcpd's environment", where);
		return false;
	}
	char *absolute = loader_format(l, "%s%s", home, old + 1);
	if (!absolute)
		return false;
	*path = absolute;
	free(old);
	return true;
}

char *value_path(struct loader *l, const char *where, struct span value)
{
	char *path = value_string(l, where, value);
	if (!path || !expand_home(l, where, &path))
		goto bad;
	if (path[0] == '/')
		return path;
	if (path[0] == '\0')
		loader_error(l, "%s: is empty; leave it out, or write an absolute path or one from ~/", where);
	else
		loader_error(
			l,
			"%s: is a relative path, which would depend on where mcpd was started; write an absolute path "
			"or one from ~/",
			where);
bad:
	free(path);
	return NULL;
}

bool value_bool(struct loader *l, const char *where, struct span value, bool *ret)
{
	enum json_kind found = json_type_of(value);
	bool quoted = json_string_is(value, "true") || json_string_is(value, "false");
	if (found == JSON_BOOL)
		*ret = value.ptr[0] == 't';
	else
		loader_error(l, "%s: expected true or false, found %s%s", where, value_found(value),
			     quoted ? "; write it without quotes" : "");
	return found == JSON_BOOL;
}

bool value_int(struct loader *l, const char *where, struct span value, const char *expected, int64_t min, int64_t max,
	       int64_t *ret)
{
	if (!value_is(l, where, value, JSON_NUMBER, expected))
		return false;
	if (json_int64(value, ret) == 0 && *ret >= min && *ret <= max)
		return true;
	char number[SHOWN_MAX];
	loader_error(l, "%s: expected %s from %lld to %lld, found %s", where, expected, (long long)min, (long long)max,
		     shown(value, number));
	return false;
}

/* "512M" and the like; false if it is nothing of the kind. */
static bool read_bytes_text(const char *text, int64_t *ret)
{
	static const char suffixes[] = "KMGT";
	char *end;
	if (text[0] < '0' || text[0] > '9')
		return false;
	errno = 0;
	long long number = strtoll(text, &end, 10);
	const char *suffix = *end ? strchr(suffixes, *end) : NULL;
	int shift = suffix ? 10 * (int)(suffix - suffixes + 1) : 0;
	if (errno || (*end && (!suffix || end[1])) || number > INT64_MAX >> shift)
		return false;
	*ret = number << shift;
	return true;
}

bool value_bytes(struct loader *l, const char *where, struct span value, int64_t min, int64_t max, int64_t *ret)
{
	bool good = json_int64(value, ret) == 0;
	if (json_type_of(value) == JSON_STRING) {
		char *text = value_string(l, where, value);
		if (!text)
			return false;
		good = read_bytes_text(text, ret);
		free(text);
	}
	if (good && *ret >= min && *ret <= max)
		return true;
	char found[SHOWN_MAX];
	loader_error(l, "%s: expected a number of bytes, or a string like \"512M\" or \"2G\", at least %lld, found %s",
		     where, (long long)min, shown(value, found));
	return false;
}

char **value_strings(struct loader *l, const char *where, struct span value)
{
	char **list = loader_checked(l, list_new());
	size_t n = 0;
	if (!value_is(l, where, value, JSON_ARRAY, "a list of strings"))
		return list;
	struct json_iter it;
	struct span element;
	json_iter_init(&it, value);
	for (size_t i = 0; !l->no_memory && json_iter_element(&it, &element); i++) {
		char place[WHERE_MAX];
		snprintf(place, sizeof(place), "%s[%zu]", where, i);
		char *item = value_string(l, place, element);
		if (item)
			loader_add(l, &list, &n, item);
	}
	return list;
}

/* A variable's name as the system wants it; told otherwise. */
static bool check_env_name(struct loader *l, const char *where, const char *name)
{
	if (!name || !*name || strchr(name, '=')) {
		loader_error(l, "%s: is no name for a variable: it must not be empty nor contain = or U+0000", where);
		return false;
	}
	return true;
}

/* What value_env() and value_headers() do with one member: the list's item, or NULL. */
typedef char *read_pair_fn(struct loader *l, const char *where, const struct object_member *member);

static char **read_pairs(struct loader *l, const char *where, struct span value, read_pair_fn *read_pair)
{
	char **list = loader_checked(l, list_new());
	size_t n = 0;
	if (!value_is(l, where, value, JSON_OBJECT, "an object of strings"))
		return list;
	char place[WHERE_MAX];
	snprintf(place, sizeof(place), "%s: ", where);
	struct object object;
	object_read(l, place, value, &object);
	for (size_t i = 0; i < object.n && !l->no_memory; i++) {
		char key[SHOWN_MAX];
		snprintf(place, sizeof(place), "%s: %s", where, shown(object.members[i].key, key));
		char *item = read_pair(l, place, &object.members[i]);
		if (item)
			loader_add(l, &list, &n, item);
	}
	object_done(&object);
	return list;
}

static char *read_env_pair(struct loader *l, const char *where, const struct object_member *member)
{
	if (!check_env_name(l, where, member->name))
		return NULL;
	char *text = value_string(l, where, member->value);
	char *pair = text ? loader_format(l, "%s=%s", member->name, text) : NULL;
	free(text);
	return pair;
}

char **value_env(struct loader *l, const char *where, struct span value)
{
	return read_pairs(l, where, value, read_env_pair);
}

/* What the HTTP transport says itself (contract H1, H5, H11 and the modern era's standard headers). */
static const char *const own_headers[] = {
	"Accept",     "Accept-Encoding", "Connection",           "Content-Length", "Content-Type",      "Last-Event-ID",
	"Mcp-Method", "Mcp-Name",        "MCP-Protocol-Version", "Mcp-Session-Id", "Transfer-Encoding",
};

static bool is_own_header(const char *name)
{
	for (size_t i = 0; i < sizeof(own_headers) / sizeof(*own_headers); i++)
		if (strcasecmp(own_headers[i], name) == 0)
			return true;
	return false;
}

static bool is_header_name(const char *name)
{
	/* RFC 9110, 5.6.2: token. */
	static const char token[] = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	return name && *name && name[strspn(name, token)] == '\0';
}

/* The value without white space around it, as HTTP reads it; NULL (told) if it cannot be in a header. */
static char *header_value(struct loader *l, const char *where, char *text)
{
	size_t len = strlen(text);
	while (len > 0 && (text[len - 1] == ' ' || text[len - 1] == '\t'))
		text[--len] = '\0';
	text += strspn(text, " \t");
	for (const char *c = text; *c; c++) {
		if (*c == '\r' || *c == '\n') {
			loader_error(l, "%s: contains a line break, which no header can", where);
			return NULL;
		}
		if (((unsigned char)*c < 0x20 && *c != '\t') || *c == 0x7f) {
			loader_error(l, "%s: contains a control character, which no header can", where);
			return NULL;
		}
	}
	return text;
}

static char *read_header_pair(struct loader *l, const char *where, const struct object_member *member)
{
	if (!is_header_name(member->name)) {
		loader_error(l, "%s: is no name for a header (letters, digits and - . _ and the like, no spaces)",
			     where);
		return NULL;
	}
	char *text = value_string(l, where, member->value);
	char *value = text ? header_value(l, where, text) : NULL;
	char *pair = NULL;
	if (value && is_own_header(member->name))
		loader_warning(l, "%s: is set by mcpd itself; this one is ignored", where);
	else if (value)
		pair = loader_format(l, "%s: %s", member->name, value);
	free(text);
	return pair;
}

/* Header names are equal in any case: of two the last one counts. */
static void drop_doubled_headers(struct loader *l, const char *where, char **list)
{
	char **kept = list;
	for (char **item = list; *item; item++) {
		size_t len = strcspn(*item, ":") + 1;
		char **later = item + 1;
		while (*later && strncasecmp(*item, *later, len) != 0)
			later++;
		if (*later) {
			char name[SHOWN_MAX];
			loader_warning(l, "%s: %s is there twice, in different case; the last one counts", where,
				       shown((struct span){ *item, len - 1 }, name));
			free(*item);
		} else {
			*kept++ = *item;
		}
	}
	*kept = NULL;
}

char **value_headers(struct loader *l, const char *where, struct span value)
{
	char **list = read_pairs(l, where, value, read_header_pair);
	if (list_length(list) > HEADERS_MAX)
		loader_error(l, "%s: more than %d headers", where, HEADERS_MAX);
	else if (list)
		drop_doubled_headers(l, where, list);
	return list;
}
