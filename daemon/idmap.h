/* From 64-bit ids that are never reused to objects (PITFALLS "Lifetimes" 2): a late answer or timer looks up, and
 * misses. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct idmap {
	struct idmap_slot *slots;
	size_t n_slots; /* a power of two, or 0 */
	size_t count;
};

/* A zeroed struct is an empty map. */
void idmap_done(struct idmap *map);
/* id is not 0 and not in the map. */
void idmap_put(struct idmap *map, uint64_t id, void *object);
/* NULL if it is not there. */
void *idmap_get(const struct idmap *map, uint64_t id);
/* What was there, or NULL. */
void *idmap_remove(struct idmap *map, uint64_t id);
/* Walks all objects in no order: the one at *at, which begins with 0 and is moved on; NULL at the end. The map must not
 * change meanwhile. */
void *idmap_next(const struct idmap *map, size_t *at);
