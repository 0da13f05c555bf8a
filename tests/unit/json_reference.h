/*
 * RFC 8259 once more, as plainly as it can be written: recursive, one byte at a time, code points decoded. The unit
 * tests and the fuzz targets hold proto/json_scan.c against it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "proto/json_scan.h"

struct reference {
	const unsigned char *at;
	const unsigned char *end;
};

static inline int reference_peek(const struct reference *r)
{
	return r->at < r->end ? *r->at : -1;
}

static inline bool reference_eat(struct reference *r, int byte)
{
	if (reference_peek(r) != byte)
		return false;
	r->at++;
	return true;
}

static inline void reference_space(struct reference *r)
{
	while (reference_eat(r, ' ') || reference_eat(r, '\t') || reference_eat(r, '\n') || reference_eat(r, '\r'))
		;
}

static inline bool reference_utf8(struct reference *r)
{
	int first = *r->at++;
	if (first < 0x80)
		return true;
	int more = first >= 0xf0 && first < 0xf8 ? 3 : first >= 0xe0 ? 2 : 1;
	if (first < 0xc0 || first >= 0xf8)
		return false;
	uint32_t code = (uint32_t)first & (0x3fu >> more);
	for (int i = 0; i < more; i++) {
		if (reference_peek(r) < 0x80 || reference_peek(r) >= 0xc0)
			return false;
		code = code << 6 | (*r->at++ & 0x3fu);
	}
	static const uint32_t least[] = { 0, 0x80, 0x800, 0x10000 };
	return code >= least[more] && code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff);
}

static inline bool reference_string(struct reference *r)
{
	if (!reference_eat(r, '"'))
		return false;
	while (!reference_eat(r, '"')) {
		if (reference_peek(r) < 0x20)
			return false;
		if (!reference_eat(r, '\\')) {
			if (!reference_utf8(r))
				return false;
			continue;
		}
		int escape = reference_peek(r);
		if (escape <= 0 || !strchr("\"\\/bfnrtu", escape))
			return false;
		r->at++;
		for (int i = 0; escape == 'u' && i < 4; i++, r->at++)
			if (reference_peek(r) <= 0 || !strchr("0123456789abcdefABCDEF", *r->at))
				return false;
	}
	return true;
}

static inline bool reference_digits(struct reference *r)
{
	const unsigned char *start = r->at;
	while (reference_peek(r) >= '0' && reference_peek(r) <= '9')
		r->at++;
	return r->at > start;
}

static inline bool reference_number(struct reference *r)
{
	reference_eat(r, '-');
	if (!reference_eat(r, '0') && !reference_digits(r))
		return false;
	if (reference_eat(r, '.') && !reference_digits(r))
		return false;
	if (!reference_eat(r, 'e') && !reference_eat(r, 'E'))
		return true;
	if (!reference_eat(r, '+'))
		reference_eat(r, '-');
	return reference_digits(r);
}

static inline bool reference_word(struct reference *r, const char *word)
{
	for (; *word; word++)
		if (!reference_eat(r, *word))
			return false;
	return true;
}

static inline bool reference_value(struct reference *r, int depth);

static inline bool reference_items(struct reference *r, int depth, bool object)
{
	int close = object ? '}' : ']';
	r->at++;
	if (depth >= JSON_DEPTH_MAX)
		return false;
	reference_space(r);
	if (reference_eat(r, close))
		return true;
	do {
		reference_space(r);
		if (object) {
			if (!reference_string(r))
				return false;
			reference_space(r);
			if (!reference_eat(r, ':'))
				return false;
			reference_space(r);
		}
		if (!reference_value(r, depth + 1))
			return false;
		reference_space(r);
	} while (reference_eat(r, ','));
	return reference_eat(r, close);
}

static inline bool reference_value(struct reference *r, int depth)
{
	switch (reference_peek(r)) {
	case '{':
		return reference_items(r, depth, true);
	case '[':
		return reference_items(r, depth, false);
	case '"':
		return reference_string(r);
	case 't':
		return reference_word(r, "true");
	case 'f':
		return reference_word(r, "false");
	case 'n':
		return reference_word(r, "null");
	default:
		return reference_number(r);
	}
}

/* Whether text is JSON. */
static inline bool reference_check(struct span text)
{
	struct reference r = { (const unsigned char *)text.ptr, (const unsigned char *)text.ptr + text.len };
	reference_space(&r);
	if (!reference_value(&r, 0))
		return false;
	reference_space(&r);
	return r.at == r.end;
}
