#include "proto/json_edit.h"

#include <errno.h>
#include <stdint.h>

#include "proto/json_iter.h"

/* One bit for each edit that has met its member. */
typedef uint32_t met_bits;

static const struct json_edit *find(const struct json_edit *edits, size_t n, struct span key, met_bits *met)
{
	for (size_t i = 0; i < n; i++) {
		if (!json_string_is(key, edits[i].name))
			continue;
		*met |= (met_bits)1 << i;
		return &edits[i];
	}
	return NULL;
}

static void add_member(struct buf *out, bool *any, const struct json_edit *edit)
{
	buf_add_text(out, *any ? ",\"" : "\"");
	buf_add_text(out, edit->name);
	buf_add_text(out, "\":");
	buf_add_span(out, edit->value);
	*any = true;
}

/* Copies a member, from its key to the end of its value, with the edit's value in place of its own. */
static void copy_member(struct buf *out, bool *any, struct span key, struct span value, const struct json_edit *edit)
{
	bool replace = edit && (edit->mode == JSON_EDIT_REPLACE || edit->mode == JSON_EDIT_SET);
	if (*any)
		buf_add_char(out, ',');
	buf_add(out, key.ptr, (size_t)(value.ptr - key.ptr));
	buf_add_span(out, replace ? edit->value : value);
	*any = true;
}

int json_edit(struct buf *out, struct span object, const struct json_edit *edits, size_t n_edits)
{
	struct json_iter it;
	struct span key, value;
	met_bits met = 0;
	bool any = false;
	if (json_type_of(object) != JSON_OBJECT || n_edits > sizeof met * 8)
		return -EINVAL;
	buf_add_char(out, '{');
	json_iter_init(&it, object);
	while (json_iter_member(&it, &key, &value)) {
		const struct json_edit *edit = find(edits, n_edits, key, &met);
		if (!edit || edit->mode != JSON_EDIT_DROP)
			copy_member(out, &any, key, value, edit);
	}
	for (size_t i = 0; i < n_edits; i++)
		if (!(met >> i & 1) && (edits[i].mode == JSON_EDIT_DEFAULT || edits[i].mode == JSON_EDIT_SET))
			add_member(out, &any, &edits[i]);
	buf_add_char(out, '}');
	return buf_failed(out) ? out->error : 0;
}
