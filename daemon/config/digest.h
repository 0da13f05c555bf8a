/*
 * A digest of what defines a server (contract M3): SHA-256 (FIPS 180-4), of which 128 bits are kept.
 *
 * The libraries that mcpd needs offer no public hash. A short one would do for telling definitions apart by chance, but the digest
 * names a cache entry: two definitions with one digest would show one server's tools for the other's, and nobody would notice.
 * SHA-256 is the one whose collisions nobody has ever seen, also where a definition was copied from a stranger; it is small,
 * and its published test vectors prove this copy of it.
 *
 * Items are added with their length, so that ["ab","c"] and ["a","bc"], or no item and an empty one, differ.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Lower-case hex of 128 bits, and the NUL. */
#define DIGEST_HEX 33

struct digest {
	uint32_t state[8];
	uint64_t n_bytes;
	unsigned char block[64];
	bool failed;
};

void digest_init(struct digest *d);
/* The bytes alone, with no length in front. */
void digest_bytes(struct digest *d, const void *bytes, size_t len);
/* One item; NULL is an item too, and differs from "". */
void digest_text(struct digest *d, const char *text);
/* A NULL-terminated list and its length. */
void digest_list(struct digest *d, char *const *list);
/* The same for lists whose order means nothing. Needs memory; see digest_failed(). */
void digest_set(struct digest *d, char *const *list);
void digest_int(struct digest *d, int64_t value);
/* Whether memory was short for anything that was added: the digest is then of no use. */
static inline bool digest_failed(const struct digest *d)
{
	return d->failed;
}
/* The whole digest; afterwards d is used up. */
void digest_end(struct digest *d, unsigned char ret[static 32]);
/* The first 128 bits of the whole digest of what was added so far; d can go on. */
void digest_hex(const struct digest *d, char ret[static DIGEST_HEX]);
