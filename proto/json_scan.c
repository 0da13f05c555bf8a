#include "proto/json_scan.h"

#include <assert.h>
#include <errno.h>

#include "proto/json_lex.h"

#define NO_WANT (-1)

struct scan {
	const char *at;
	const char *end;
	uint64_t objects[JSON_DEPTH_MAX / 64]; /* one bit for each open container: 1 an object, 0 an array */
	unsigned depth, max_depth;             /* open containers */

	const struct json_want *wants;
	size_t n_wants;
	struct span *found;
	uint64_t seen;
	uint64_t doubled;
	int want; /* whose value comes next, or NO_WANT */
	/* The innermost open container on a wanted path: a wanted member's value, or (NO_WANT) the top-level object.
	 * Paths start at the top, so the containers around it are its parents and need no stack. */
	int inside;
	unsigned inside_depth; /* its depth; 0 if nothing is wanted */

	const char *reason;
	bool too_deep;
};

enum step {
	STEP_FAILED,
	STEP_VALUE,  /* a value comes next */
	STEP_KEY,    /* a key comes next */
	STEP_BEHIND, /* a value has ended */
};

/* `at` is the offending byte. */
static enum step fail(struct scan *s, const char *at, const char *reason)
{
	s->at = at;
	s->reason = at < s->end ? reason : "the text ends too early";
	return STEP_FAILED;
}

static inline bool in_object(const struct scan *s)
{
	unsigned top = s->depth - 1;
	return s->objects[top / 64] >> (top % 64) & 1;
}

/* Moves over the string whose quote is at s->at; false if it failed. */
static inline bool scan_string(struct scan *s, bool *ret_escaped)
{
	const char *at = s->at + 1;
	const char *end = s->end;
	for (;;) {
		at = json_plain_end(at, end);
		if (at == end)
			return fail(s, at, NULL);
		if (*at == '"') {
			s->at = at + 1;
			return true;
		}
		if (*at == '\\') {
			size_t len = json_escape_length(at, end);
			if (len == 0)
				return fail(s, at, "no such escape in a string");
			*ret_escaped = true;
			at += len;
			continue;
		}
		if ((unsigned char)*at < 0x20)
			return fail(s, at, "a raw control character in a string");
		do {
			size_t len = json_utf8_length(at, end);
			if (len == 0)
				return fail(s, at, "a string that is not UTF-8");
			at += len;
		} while (at < end && (unsigned char)*at >= 0x80);
	}
}

static bool scan_word(struct scan *s, const char *word, size_t len)
{
	size_t left = (size_t)(s->end - s->at);
	for (size_t i = 0; i < len; i++)
		if (i == left || s->at[i] != word[i])
			return fail(s, s->at + i, "a value is expected");
	s->at += len;
	return true;
}

static inline bool scan_number(struct scan *s)
{
	const char *bad = NULL;
	const char *at = json_number_end(s->at, s->end, &bad);
	if (!at)
		return fail(s, bad, "a digit is expected");
	/* More digits might follow where a text was cut off: such a number is not complete. */
	if (at == s->end && s->depth > 0)
		return fail(s, at, NULL);
	s->at = at;
	return true;
}

static bool scan_scalar(struct scan *s)
{
	bool escaped;
	switch (*s->at) {
	case '"':
		return scan_string(s, &escaped);
	case 't':
		return scan_word(s, "true", 4);
	case 'f':
		return scan_word(s, "false", 5);
	case 'n':
		return scan_word(s, "null", 4);
	default:
		if (*s->at != '-' && !json_is_digit(*s->at))
			return fail(s, s->at, "a value is expected");
		return scan_number(s);
	}
}

static inline enum step close_container(struct scan *s)
{
	s->at++;
	if (s->depth == s->inside_depth && s->inside != NO_WANT) {
		struct span *found = &s->found[s->inside];
		found->len = (size_t)(s->at - found->ptr);
		s->inside = s->wants[s->inside].parent;
		s->inside_depth--;
	}
	s->depth--;
	return STEP_BEHIND;
}

static inline enum step open_container(struct scan *s, int want)
{
	if (s->depth == s->max_depth) {
		s->too_deep = true;
		return fail(s, s->at, "nested too deeply");
	}
	bool object = *s->at == '{';
	uint64_t bit = (uint64_t)1 << (s->depth % 64);
	uint64_t *word = &s->objects[s->depth / 64];
	*word = object ? *word | bit : *word & ~bit;
	s->depth++;
	if (want != NO_WANT) {
		s->inside = want;
		s->inside_depth++;
	}
	s->at = json_skip_space(s->at + 1, s->end);
	if (s->at < s->end && *s->at == (object ? '}' : ']'))
		return close_container(s);
	return object ? STEP_KEY : STEP_VALUE;
}

static inline enum step scan_value(struct scan *s)
{
	if (s->at == s->end)
		return fail(s, s->at, NULL);
	int want = s->want;
	s->want = NO_WANT;
	const char *start = s->at;
	if (want != NO_WANT)
		s->found[want].ptr = start;
	if (*start == '{' || *start == '[')
		return open_container(s, want);
	if (!scan_scalar(s))
		return STEP_FAILED;
	if (want != NO_WANT)
		s->found[want].len = (size_t)(s->at - start);
	return STEP_BEHIND;
}

/* Notes in s->want whether the value of this key, in the container s->inside, is wanted. */
static void match_key(struct scan *s, struct span key, bool escaped)
{
	const char *text = key.ptr + 1;
	size_t len = key.len - 2;
	for (size_t i = 0; i < s->n_wants; i++) {
		const struct json_want *want = &s->wants[i];
		if (want->parent != s->inside)
			continue;
		if (escaped ? !json_string_is(key, want->name) :
			      strncmp(want->name, text, len) != 0 || want->name[len] != '\0')
			continue;
		uint64_t bit = (uint64_t)1 << i;
		if (s->seen & bit)
			s->doubled |= bit;
		else
			s->want = (int)i;
		s->seen |= bit;
		return;
	}
}

static inline enum step scan_key(struct scan *s)
{
	if (s->at == s->end || *s->at != '"')
		return fail(s, s->at, "a member's name is expected");
	const char *start = s->at;
	bool escaped = false;
	if (!scan_string(s, &escaped))
		return STEP_FAILED;
	if (s->depth == s->inside_depth)
		match_key(s, (struct span){ start, (size_t)(s->at - start) }, escaped);
	s->at = json_skip_space(s->at, s->end);
	if (s->at == s->end || *s->at != ':')
		return fail(s, s->at, "a colon is expected");
	s->at = json_skip_space(s->at + 1, s->end);
	return STEP_VALUE;
}

/* Behind a value inside a container. */
static inline enum step scan_behind(struct scan *s)
{
	bool object = in_object(s);
	s->at = json_skip_space(s->at, s->end);
	if (s->at < s->end && *s->at == ',') {
		s->at = json_skip_space(s->at + 1, s->end);
		return object ? STEP_KEY : STEP_VALUE;
	}
	if (s->at < s->end && *s->at == (object ? '}' : ']'))
		return close_container(s);
	return fail(s, s->at, object ? "a comma or } is expected" : "a comma or ] is expected");
}

static bool scan_text(struct scan *s)
{
	s->at = json_skip_space(s->at, s->end);
	enum step step = STEP_VALUE;
	while (step != STEP_BEHIND || s->depth > 0) {
		switch (step) {
		case STEP_VALUE:
			step = scan_value(s);
			break;
		case STEP_KEY:
			step = scan_key(s);
			break;
		case STEP_BEHIND:
			step = scan_behind(s);
			break;
		case STEP_FAILED:
			return false;
		}
	}
	s->at = json_skip_space(s->at, s->end);
	return s->at == s->end || fail(s, s->at, "something follows the value");
}

int json_scan_within(struct span text, unsigned max_depth, const struct json_want *wants, size_t n_wants,
		     struct span *found, uint64_t *ret_doubled, struct json_error *ret_error)
{
	const char *start = text.ptr ? text.ptr : "";
	struct scan s = {
		.at = start,
		.end = start + text.len,
		.max_depth = max_depth,
		.wants = wants,
		.n_wants = n_wants,
		.found = found,
		.want = NO_WANT,
		.inside = NO_WANT,
		.inside_depth = n_wants > 0 ? 1 : 0,
	};
	assert(n_wants <= JSON_WANT_MAX && max_depth <= JSON_DEPTH_MAX);
	for (size_t i = 0; i < n_wants; i++)
		found[i] = SPAN_NONE;
	bool ok = scan_text(&s);
	if (ret_doubled)
		*ret_doubled = s.doubled;
	if (!ok && ret_error)
		*ret_error = (struct json_error){ (size_t)(s.at - start), s.reason, s.too_deep };
	return ok ? 0 : -EINVAL;
}

int json_scan(struct span text, const struct json_want *wants, size_t n_wants, struct span *found,
	      uint64_t *ret_doubled, struct json_error *ret_error)
{
	return json_scan_within(text, JSON_DEPTH_MAX, wants, n_wants, found, ret_doubled, ret_error);
}

int json_check(struct span text, struct json_error *ret_error)
{
	return json_scan(text, NULL, 0, NULL, NULL, ret_error);
}
