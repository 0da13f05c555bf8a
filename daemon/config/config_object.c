#include <stdlib.h>

#include "config/config_memory.h"
#include "config/config_value.h"

/* A member while doubled names are looked for. */
struct candidate {
	struct object_member member;
	uint64_t hash;
	size_t index;
	const char *again; /* where the same name comes next, or NULL */
};

static int compare_names(const void *a, const void *b)
{
	const struct candidate *x = *(struct candidate *const *)a, *y = *(struct candidate *const *)b;
	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	return x->index < y->index ? -1 : x->index > y->index;
}

/* Sets `again` of every member that a later one replaces. Sorting by hash makes this n log n, however large the object. */
static void find_doubles(struct loader *l, struct candidate *all, size_t n)
{
	struct candidate **sorted = loader_alloc(l, n, sizeof(*sorted));
	if (!sorted)
		return;
	for (size_t i = 0; i < n; i++)
		sorted[i] = &all[i];
	qsort(sorted, n, sizeof(*sorted), compare_names);
	for (size_t i = 0; i < n; i++) {
		for (size_t j = i + 1; j < n && sorted[j]->hash == sorted[i]->hash && !sorted[i]->again; j++)
			if (json_strings_equal(sorted[i]->member.key, sorted[j]->member.key))
				sorted[i]->again = sorted[j]->member.key.ptr;
	}
	free(sorted);
}

static void tell_double(struct loader *l, const char *where, const struct candidate *c)
{
	char key[SHOWN_MAX];
	bool told = !loader_full(l);
	loader_warning(l, "%s%s is there twice (lines %zu and %zu); the last one counts", where,
		       shown(c->member.key, key), told ? loader_line(l, c->member.key.ptr) : 0,
		       told ? loader_line(l, c->again) : 0);
}

/* All members as they stand there; NULL if there are none, or without memory. */
static struct candidate *list_members(struct loader *l, struct span value, size_t *ret_n)
{
	struct candidate *all = NULL;
	size_t n = 0, room = 0;
	struct json_iter it;
	struct object_member member = { 0 };
	json_iter_init(&it, value);
	while (json_iter_member(&it, &member.key, &member.value)) {
		if (n == room) {
			room = room ? room * 2 : 16;
			struct candidate *grown = loader_grow(l, all, room, sizeof(*all));
			if (!grown)
				break;
			all = grown;
		}
		all[n] = (struct candidate){ member, json_string_hash(member.key), n, NULL };
		n++;
	}
	*ret_n = n;
	return all;
}

static char *decode_name(struct loader *l, struct span key)
{
	char *name = loader_text(l, key);
	if (!name || value_is_whole(l, key, span_of(name)))
		return name;
	free(name);
	return NULL;
}

void object_read(struct loader *l, const char *where, struct span value, struct object *ret)
{
	size_t n;
	struct candidate *all = list_members(l, value, &n);
	find_doubles(l, all, n);
	*ret = (struct object){ .members = loader_alloc(l, n, sizeof(*ret->members)) };
	for (size_t i = 0; i < n && !l->no_memory; i++) {
		if (all[i].again) {
			tell_double(l, where, &all[i]);
			continue;
		}
		all[i].member.name = decode_name(l, all[i].member.key);
		ret->members[ret->n++] = all[i].member;
	}
	free(all);
	/* Half an object must not pass for one: of what is missing nobody would be told. */
	if (l->no_memory)
		object_done(ret);
}

void object_done(struct object *object)
{
	for (size_t i = 0; i < object->n; i++)
		free(object->members[i].name);
	free(object->members);
	*object = (struct object){ 0 };
}
