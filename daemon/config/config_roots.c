#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config_memory.h"
#include "config/config_value.h"
#include "proto/buf.h"

#define EXPECTED "a path, a file:// URI, or an object with a \"uri\""

/* Takes an absolute path and returns its file:// URI (RFC 3986: what is not unreserved, and no slash, is escaped). */
static char *path_to_uri(struct loader *l, char *path)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
	struct buf uri = BUF_INIT;
	buf_add_text(&uri, "file://");
	for (const char *c = path; *c; c++) {
		if (strchr(plain, *c))
			buf_add_char(&uri, *c);
		else
			buf_addf(&uri, "%%%02X", (unsigned char)*c);
	}
	free(path);
	return loader_checked(l, buf_steal(&uri));
}

/* The URI that a path or URI stands for; NULL if it is neither (told), or without memory. */
static char *read_uri(struct loader *l, const char *where, struct span value)
{
	char *text = value_string(l, where, value);
	if (!text || !expand_home(l, where, &text))
		goto bad;
	if (strncmp(text, "file://", strlen("file://")) == 0)
		return text;
	if (text[0] == '/')
		return path_to_uri(l, text);
	loader_error(l, "%s: expected an absolute path, one from ~/, or a file:// URI", where);
bad:
	free(text);
	return NULL;
}

static void add_root(struct buf *out, const char *uri, const char *name)
{
	buf_add_text(out, out->len > 1 ? ",{\"uri\":" : "{\"uri\":");
	buf_add_json_text(out, uri);
	if (name) {
		buf_add_text(out, ",\"name\":");
		buf_add_json_text(out, name);
	}
	buf_add_char(out, '}');
}

static void read_root_object(struct loader *l, const char *where, struct span value, struct buf *out)
{
	char place[3 * SHOWN_MAX];
	snprintf(place, sizeof(place), "%s: ", where);
	struct object object;
	object_read(l, place, value, &object);
	char *uri = NULL, *name = NULL;
	bool has_uri = false;
	for (size_t i = 0; i < object.n; i++) {
		const struct object_member *member = &object.members[i];
		char key[SHOWN_MAX];
		snprintf(place, sizeof(place), "%s: %s", where, shown(member->key, key));
		if (json_string_is(member->key, "uri")) {
			has_uri = true;
			uri = read_uri(l, place, member->value);
		} else if (json_string_is(member->key, "name")) {
			name = value_string(l, place, member->value);
		} else {
			loader_warning(l, "%s: unknown member, ignored", place);
		}
	}
	if (uri)
		add_root(out, uri, name);
	else if (!has_uri)
		loader_error(l, "%s: expected %s", where, EXPECTED);
	free(uri);
	free(name);
	object_done(&object);
}

static void read_root(struct loader *l, const char *where, struct span value, struct buf *out)
{
	if (json_type_of(value) == JSON_OBJECT) {
		read_root_object(l, where, value, out);
	} else if (value_is(l, where, value, JSON_STRING, EXPECTED)) {
		char *uri = read_uri(l, where, value);
		if (uri)
			add_root(out, uri, NULL);
		free(uri);
	}
}

char *value_roots(struct loader *l, const char *where, struct span value)
{
	if (!value_is(l, where, value, JSON_ARRAY, "a list of strings or objects"))
		return NULL;
	struct buf out = BUF_INIT;
	buf_add_char(&out, '[');
	struct json_iter it;
	struct span element;
	json_iter_init(&it, value);
	for (size_t i = 0; !l->no_memory && json_iter_element(&it, &element); i++) {
		char place[2 * SHOWN_MAX];
		snprintf(place, sizeof(place), "%s[%zu]", where, i);
		read_root(l, place, element, &out);
	}
	buf_add_char(&out, ']');
	return loader_checked(l, buf_steal(&out));
}
