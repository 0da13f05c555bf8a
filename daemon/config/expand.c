#include "config/expand.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "proto/buf.h"

#define NOT_A_FORM                                                                                                     \
	"has a \"${\" that begins none of ${NAME}, ${NAME:-default} and ${env:NAME}; write \"$${\" for a literal \"${\""

/* One `${..}`, taken apart. */
struct reference {
	struct span name;
	struct span fallback; /* absent: there is none */
	const char *end;      /* behind the brace */
};

const char *expand_lookup(const char *const *environment, const char *name, size_t name_len)
{
	for (; environment && *environment; environment++)
		if (strncmp(*environment, name, name_len) == 0 && (*environment)[name_len] == '=')
			return *environment + name_len + 1;
	return NULL;
}

/* How many bytes at `at` are a variable's name. */
static size_t name_length(const char *at)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
	bool digit_first = *at >= '0' && *at <= '9';
	return digit_first ? 0 : strspn(at, letters);
}

/* Reads the reference whose `$` is at `at`; what is wrong with it, or NULL. */
static const char *read_reference(const char *at, struct reference *ret)
{
	at += strlen("${");
	if (strncmp(at, "env:", 4) == 0)
		at += 4;
	*ret = (struct reference){ .name = { at, name_length(at) } };
	at += ret->name.len;
	if (ret->name.len == 0)
		return NOT_A_FORM;
	if (strncmp(at, ":-", 2) == 0) {
		at += 2;
		size_t len = strcspn(at, "}");
		ret->fallback = (struct span){ at, len };
		if (memmem(at, len, "${", 2))
			return "has a \"${\" inside the default of another \"${..}\", which cannot be";
		at += len;
	}
	if (*at != '}')
		return NOT_A_FORM;
	ret->end = at + 1;
	return NULL;
}

static char *not_set(struct span name)
{
	int len = (int)name.len;
	struct buf message = BUF_INIT;
	buf_addf(&message,
		 "the variable %.*s is not set in mcpd's environment; set it there, or write ${%.*s:-DEFAULT}", len,
		 name.ptr, len, name.ptr);
	return buf_steal(&message);
}

/* Appends the value of the reference at *at and moves behind it; false with *ret_error as expand() gives it. */
static bool expand_reference(const char **at, const char *const *environment, struct buf *out, char **ret_error)
{
	struct reference ref;
	const char *wrong = read_reference(*at, &ref);
	if (wrong) {
		*ret_error = strdup(wrong);
		return false;
	}
	*at = ref.end;
	const char *value = expand_lookup(environment, ref.name.ptr, ref.name.len);
	bool use_fallback = ref.fallback.ptr && (!value || !*value);
	if (!use_fallback && !value) {
		*ret_error = not_set(ref.name);
		return false;
	}
	buf_add_span(out, use_fallback ? ref.fallback : span_of(value));
	return true;
}

char *expand(const char *text, const char *const *environment, char **ret_error)
{
	struct buf out;
	buf_init(&out, EXPAND_MAX_BYTES);
	bool good = true;
	*ret_error = NULL;
	while (*text && good) {
		size_t plain = strcspn(text, "$");
		buf_add(&out, text, plain);
		text += plain;
		if (strncmp(text, "$${", 3) == 0) {
			buf_add_text(&out, "${");
			text += 3;
		} else if (strncmp(text, "${", 2) == 0) {
			good = expand_reference(&text, environment, &out, ret_error);
		} else if (*text) {
			buf_add_char(&out, *text++);
		}
	}
	if (good && out.error == -E2BIG)
		*ret_error = strdup("is longer than 1 MiB once its variables are expanded");
	char *result = good ? buf_steal(&out) : NULL;
	buf_done(&out);
	return result;
}
