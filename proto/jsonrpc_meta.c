#include "proto/jsonrpc_meta.h"

#include <errno.h>

#include "proto/json_iter.h"

struct edits {
	const struct jsonrpc_meta_edit *edits;
	size_t n;
	bool puts; /* there is something to put in */
};

static bool is_named(const struct edits *e, struct span key)
{
	for (size_t i = 0; i < e->n; i++)
		if (json_string_is(key, e->edits[i].name))
			return true;
	return false;
}

/* Appends the members to put in; others stand before them. */
static void add_members(struct buf *out, const struct edits *e, bool others)
{
	for (size_t i = 0; i < e->n; i++) {
		if (e->edits[i].value.len == 0)
			continue;
		if (others)
			buf_add_char(out, ',');
		buf_add_json_text(out, e->edits[i].name);
		buf_add_char(out, ':');
		buf_add_span(out, e->edits[i].value);
		others = true;
	}
}

/* Appends a `_meta` object without the named members and, in the last one, with those to put in. What is kept of it
 * keeps the white space around it. */
static void add_edited(struct buf *out, struct span meta, const struct edits *e, bool last)
{
	struct json_iter it;
	struct span key, value;
	const char *piece = meta.ptr + 1; /* behind the last { or comma */
	const char *end = meta.ptr + meta.len - 1;
	bool others = false, empty = true;
	buf_add_char(out, '{');
	json_iter_init(&it, meta);
	while (json_iter_member(&it, &key, &value)) {
		if (!is_named(e, key)) {
			if (others)
				buf_add_char(out, ',');
			buf_add(out, piece, (size_t)(it.at - piece));
			others = true;
		}
		piece = it.at < end ? it.at + 1 : end;
		empty = false;
	}
	if (empty)
		buf_add(out, piece, (size_t)(end - piece));
	if (last)
		add_members(out, e, others);
	buf_add_char(out, '}');
}

/* Counts the `_meta` members of params and, in *ret_members, all of them; -EINVAL where a `_meta` is no object. */
static int count_metas(struct span params, size_t *ret_metas, size_t *ret_members)
{
	struct json_iter it;
	struct span key, value;
	*ret_metas = *ret_members = 0;
	json_iter_init(&it, params);
	for (; json_iter_member(&it, &key, &value); ++*ret_members) {
		if (!json_string_is(key, "_meta"))
			continue;
		if (json_type_of(value) != JSON_OBJECT)
			return -EINVAL;
		++*ret_metas;
	}
	return 0;
}

/* Params that have no `_meta` yet. */
static void add_with_new(struct buf *out, struct span params, const struct edits *e, bool others)
{
	buf_add(out, params.ptr, params.len - 1);
	buf_add_text(out, others ? ",\"_meta\":{" : "\"_meta\":{");
	add_members(out, e, false);
	buf_add_text(out, "}}");
}

int jsonrpc_edit_meta(struct buf *out, struct span params, const struct jsonrpc_meta_edit *edits, size_t n_edits)
{
	struct edits e = { .edits = edits, .n = n_edits };
	for (size_t i = 0; i < n_edits; i++)
		e.puts |= edits[i].value.len > 0;
	params = json_trim(params);
	if (params.len == 0) {
		if (e.puts)
			add_with_new(out, SPAN_LIT("{}"), &e, false);
		return out->error;
	}
	size_t metas, members;
	if (json_type_of(params) != JSON_OBJECT || params.len < 2 || count_metas(params, &metas, &members) < 0)
		return -EINVAL;
	if (metas == 0 && e.puts) {
		add_with_new(out, params, &e, members > 0);
		return out->error;
	}
	struct json_iter it;
	struct span key, value;
	const char *copied = params.ptr;
	json_iter_init(&it, params);
	while (metas > 0 && json_iter_member(&it, &key, &value)) {
		if (!json_string_is(key, "_meta"))
			continue;
		buf_add(out, copied, (size_t)(value.ptr - copied));
		add_edited(out, value, &e, --metas == 0);
		copied = value.ptr + value.len;
	}
	buf_add(out, copied, (size_t)(params.ptr + params.len - copied));
	return out->error;
}
