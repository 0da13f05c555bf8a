#include "idmap.h"

#include <assert.h>
#include <stdlib.h>

#include "xalloc.h"

struct idmap_slot {
	uint64_t id; /* 0: free */
	void *object;
};

void idmap_done(struct idmap *map)
{
	free(map->slots);
	*map = (struct idmap){ 0 };
}

/* Ids are counted up: spread them, so that neighbours do not pile up behind a run. */
static size_t home(const struct idmap *map, uint64_t id)
{
	return (size_t)(id * 0x9e3779b97f4a7c15u >> 32) & (map->n_slots - 1);
}

/* Where the id is, or the free slot where it would go. */
static size_t probe(const struct idmap *map, uint64_t id)
{
	size_t i = home(map, id);
	while (map->slots[i].id && map->slots[i].id != id)
		i = (i + 1) & (map->n_slots - 1);
	return i;
}

static void grow(struct idmap *map)
{
	struct idmap old = *map;
	map->n_slots = old.n_slots ? old.n_slots * 2 : 16;
	map->slots = xnew_array(struct idmap_slot, map->n_slots);
	for (size_t i = 0; i < old.n_slots; i++)
		if (old.slots[i].id)
			map->slots[probe(map, old.slots[i].id)] = old.slots[i];
	free(old.slots);
}

void idmap_put(struct idmap *map, uint64_t id, void *object)
{
	assert(id && object);
	if ((map->count + 1) * 4 > map->n_slots * 3)
		grow(map);
	size_t i = probe(map, id);
	assert(!map->slots[i].id);
	map->slots[i] = (struct idmap_slot){ id, object };
	map->count++;
}

void *idmap_get(const struct idmap *map, uint64_t id)
{
	if (!map->count || !id)
		return NULL;
	return map->slots[probe(map, id)].object;
}

void *idmap_remove(struct idmap *map, uint64_t id)
{
	if (!map->count || !id)
		return NULL;
	size_t hole = probe(map, id);
	void *object = map->slots[hole].object;
	if (!object)
		return NULL;
	map->count--;
	/* Those behind that had to pass the hole move up, so that no search ends too early. */
	for (size_t i = (hole + 1) & (map->n_slots - 1); map->slots[i].id; i = (i + 1) & (map->n_slots - 1)) {
		size_t from = home(map, map->slots[i].id);
		if (((i - from) & (map->n_slots - 1)) < ((i - hole) & (map->n_slots - 1)))
			continue;
		map->slots[hole] = map->slots[i];
		hole = i;
	}
	map->slots[hole] = (struct idmap_slot){ 0, NULL };
	return object;
}

void *idmap_next(const struct idmap *map, size_t *at)
{
	while (*at < map->n_slots) {
		const struct idmap_slot *slot = &map->slots[(*at)++];
		if (slot->id)
			return slot->object;
	}
	return NULL;
}
