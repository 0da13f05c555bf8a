#include "config/digest.h"

#include <stdlib.h>
#include <string.h>

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_constants[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static inline uint32_t rotate_right(uint32_t x, int bits)
{
	return x >> bits | x << (32 - bits);
}

static void expand_schedule(uint32_t w[static 64], const unsigned char block[static 64])
{
	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
		       (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
	for (int i = 16; i < 64; i++) {
		uint32_t s0 = rotate_right(w[i - 15], 7) ^ rotate_right(w[i - 15], 18) ^ w[i - 15] >> 3;
		uint32_t s1 = rotate_right(w[i - 2], 17) ^ rotate_right(w[i - 2], 19) ^ w[i - 2] >> 10;
		w[i] = w[i - 16] + s0 + w[i - 7] + s1;
	}
}

static void add_block(uint32_t state[static 8], const unsigned char block[static 64])
{
	uint32_t w[64];
	expand_schedule(w, block);
	uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
	uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
	for (int i = 0; i < 64; i++) {
		uint32_t s1 = rotate_right(e, 6) ^ rotate_right(e, 11) ^ rotate_right(e, 25);
		uint32_t choice = (e & f) ^ (~e & g);
		uint32_t t1 = h + s1 + choice + round_constants[i] + w[i];
		uint32_t s0 = rotate_right(a, 2) ^ rotate_right(a, 13) ^ rotate_right(a, 22);
		uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
		h = g;
		g = f;
		f = e;
		e = d + t1;
		d = c;
		c = b;
		b = a;
		a = t1 + s0 + majority;
	}
	const uint32_t sum[8] = { a, b, c, d, e, f, g, h };
	for (int i = 0; i < 8; i++)
		state[i] += sum[i];
}

void digest_init(struct digest *d)
{
	*d = (struct digest){ .state = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
					 0x1f83d9ab, 0x5be0cd19 } };
}

void digest_bytes(struct digest *d, const void *bytes, size_t len)
{
	const unsigned char *at = bytes;
	while (len > 0) {
		size_t used = d->n_bytes % sizeof(d->block);
		size_t take = len < sizeof(d->block) - used ? len : sizeof(d->block) - used;
		memcpy(d->block + used, at, take);
		d->n_bytes += take;
		at += take;
		len -= take;
		if (d->n_bytes % sizeof(d->block) == 0)
			add_block(d->state, d->block);
	}
}

void digest_end(struct digest *d, unsigned char ret[static 32])
{
	uint64_t n_bits = d->n_bytes * 8;
	digest_bytes(d, "\x80", 1);
	while (d->n_bytes % sizeof(d->block) != sizeof(d->block) - 8)
		digest_bytes(d, "", 1);
	unsigned char length[8];
	for (int i = 0; i < 8; i++)
		length[i] = (unsigned char)(n_bits >> (56 - 8 * i));
	digest_bytes(d, length, sizeof(length));
	for (int i = 0; i < 32; i++)
		ret[i] = (unsigned char)(d->state[i / 4] >> (24 - 8 * (i % 4)));
}

void digest_hex(const struct digest *d, char ret[static DIGEST_HEX])
{
	static const char hex[] = "0123456789abcdef";
	struct digest copy = *d;
	unsigned char whole[32];
	digest_end(&copy, whole);
	for (int i = 0; i < DIGEST_HEX / 2; i++) {
		ret[2 * i] = hex[whole[i] >> 4];
		ret[2 * i + 1] = hex[whole[i] & 0xf];
	}
	ret[DIGEST_HEX - 1] = '\0';
}

void digest_int(struct digest *d, int64_t value)
{
	unsigned char bytes[8];
	for (int i = 0; i < 8; i++)
		bytes[i] = (unsigned char)((uint64_t)value >> 8 * i);
	digest_bytes(d, bytes, sizeof(bytes));
}

void digest_text(struct digest *d, const char *text)
{
	size_t len = text ? strlen(text) : 0;
	digest_int(d, text ? (int64_t)len : -1);
	digest_bytes(d, text ? text : "", len);
}

static size_t list_length(char *const *list)
{
	size_t n = 0;
	while (list[n])
		n++;
	return n;
}

void digest_list(struct digest *d, char *const *list)
{
	digest_int(d, (int64_t)list_length(list));
	for (; *list; list++)
		digest_text(d, *list);
}

static int compare_texts(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

void digest_set(struct digest *d, char *const *list)
{
	size_t n = list_length(list);
	char **sorted = calloc(n + 1, sizeof(*sorted));
	if (!sorted) {
		d->failed = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		sorted[i] = list[i];
	qsort(sorted, n, sizeof(*sorted), compare_texts);
	digest_list(d, sorted);
	free(sorted);
}
