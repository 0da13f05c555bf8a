/*
 * What is inside JSON tokens: plain runs of string bytes, UTF-8 sequences, escapes, numbers. Shared by the scanner, the
 * iteration and the writers of proto/; not for other folders.
 *
 * Every function takes the bytes from `at` up to `end` and never reads at `end` or behind it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

static inline bool json_is_space(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static inline const char *json_skip_space(const char *at, const char *end)
{
	while (at < end && json_is_space(*at))
		at++;
	return at;
}

static inline bool json_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* A plain byte stands in a string for itself and needs no further look: ASCII, no control character, no quote, no
 * backslash. */
static inline bool json_is_plain(char c)
{
	unsigned char u = (unsigned char)c;
	return u >= 0x20 && u < 0x80 && u != '"' && u != '\\';
}

/* The first byte that is not plain, eight bytes at a time. */
static inline const char *json_plain_end_swar(const char *at, const char *end)
{
	const uint64_t ones = 0x0101010101010101u;
	while (end - at >= 8) {
		uint64_t word;
		memcpy(&word, at, sizeof(word));
		/* A high bit where a byte is below 0x20, equal to either mark, or not ASCII. A borrow can only reach
		 * bytes behind a real hit, so whether there is one, and where the first is, are exact. */
		uint64_t quote = word ^ ones * '"';
		uint64_t backslash = word ^ ones * '\\';
		uint64_t hits = ((word - ones * 0x20) | (quote - ones) | (backslash - ones) | word) & ones * 0x80;
		if (hits) {
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
			return at + __builtin_ctzll(hits) / 8;
#else
			break;
#endif
		}
		at += 8;
	}
	while (at < end && json_is_plain(*at))
		at++;
	return at;
}

#ifdef __SSE2__
static inline const char *json_plain_end_sse2(const char *at, const char *end)
{
	const __m128i quote = _mm_set1_epi8('"');
	const __m128i backslash = _mm_set1_epi8('\\');
	const __m128i space = _mm_set1_epi8(0x20);
	while (end - at >= 16) {
		__m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)at);
		/* Signed: what is not ASCII is below 0x20 too. */
		__m128i hits =
			_mm_or_si128(_mm_cmplt_epi8(bytes, space),
				     _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash)));
		int mask = _mm_movemask_epi8(hits);
		if (mask)
			return at + __builtin_ctz((unsigned)mask);
		at += 16;
	}
	return json_plain_end_swar(at, end);
}
#endif

/* JSON_LEX_PORTABLE takes the portable way also where there is a faster one, so that tests reach it. */
static inline const char *json_plain_end(const char *at, const char *end)
{
#if defined(__SSE2__) && !defined(JSON_LEX_PORTABLE)
	return json_plain_end_sse2(at, end);
#else
	return json_plain_end_swar(at, end);
#endif
}

/* Length of the UTF-8 sequence at `at` (at < end), or 0 if it is none: overlong, a surrogate, above U+10FFFF, cut off.
 */
static inline size_t json_utf8_length(const char *at, const char *end)
{
	const unsigned char *p = (const unsigned char *)at;
	size_t left = (size_t)(end - at);
	if (p[0] < 0x80)
		return 1;
	if (p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	if (left < 2 || (p[1] & 0xc0) != 0x80)
		return 0;
	if (p[0] < 0xe0)
		return 2;
	if (left < 3 || (p[2] & 0xc0) != 0x80)
		return 0;
	if (p[0] < 0xf0) {
		bool overlong = p[0] == 0xe0 && p[1] < 0xa0;
		bool surrogate = p[0] == 0xed && p[1] > 0x9f;
		return overlong || surrogate ? 0 : 3;
	}
	if (left < 4 || (p[3] & 0xc0) != 0x80)
		return 0;
	bool overlong = p[0] == 0xf0 && p[1] < 0x90;
	bool too_high = p[0] == 0xf4 && p[1] > 0x8f;
	return overlong || too_high ? 0 : 4;
}

/* The UTF-8 of a code point, a surrogate included; returns its length. */
static inline size_t json_utf8_write(uint32_t code, char out[static 4])
{
	if (code < 0x80) {
		out[0] = (char)code;
		return 1;
	}
	if (code < 0x800) {
		out[0] = (char)(0xc0 | code >> 6);
		out[1] = (char)(0x80 | (code & 0x3f));
		return 2;
	}
	if (code < 0x10000) {
		out[0] = (char)(0xe0 | code >> 12);
		out[1] = (char)(0x80 | (code >> 6 & 0x3f));
		out[2] = (char)(0x80 | (code & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | code >> 18);
	out[1] = (char)(0x80 | (code >> 12 & 0x3f));
	out[2] = (char)(0x80 | (code >> 6 & 0x3f));
	out[3] = (char)(0x80 | (code & 0x3f));
	return 4;
}

static inline int json_hex_digit(char c)
{
	if (json_is_digit(c))
		return c - '0';
	char lower = (char)(c | 0x20);
	return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/* The four hex digits at `at`, or -1. */
static inline int32_t json_hex4(const char *at, const char *end)
{
	if (end - at < 4)
		return -1;
	int32_t code = 0;
	for (int i = 0; i < 4; i++) {
		int digit = json_hex_digit(at[i]);
		if (digit < 0)
			return -1;
		code = code << 4 | digit;
	}
	return code;
}

/* Length of the escape whose backslash is at `at`, or 0 if it is none. */
static inline size_t json_escape_length(const char *at, const char *end)
{
	if (end - at < 2)
		return 0;
	switch (at[1]) {
	case '"':
	case '\\':
	case '/':
	case 'b':
	case 'f':
	case 'n':
	case 'r':
	case 't':
		return 2;
	case 'u':
		return json_hex4(at + 2, end) < 0 ? 0 : 6;
	default:
		return 0;
	}
}

/* Where the number at `at` ends: the longest prefix that is one, or NULL with *ret_bad the byte that cannot be. */
static inline const char *json_number_end(const char *at, const char *end, const char **ret_bad)
{
	if (at < end && *at == '-')
		at++;
	if (at == end || !json_is_digit(*at))
		goto bad;
	if (*at++ != '0')
		while (at < end && json_is_digit(*at))
			at++;
	if (at < end && *at == '.') {
		at++;
		if (at == end || !json_is_digit(*at))
			goto bad;
		while (at < end && json_is_digit(*at))
			at++;
	}
	if (at < end && (*at == 'e' || *at == 'E')) {
		at++;
		if (at < end && (*at == '+' || *at == '-'))
			at++;
		if (at == end || !json_is_digit(*at))
			goto bad;
		while (at < end && json_is_digit(*at))
			at++;
	}
	return at;
bad:
	*ret_bad = at;
	return NULL;
}
