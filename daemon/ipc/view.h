/*
 * What an attached client sees of the servers: one of them as it is, or the union of all (PROTOCOL "MCP dialect").
 *
 * In the union tools and prompts have names of their own (ipc/names.h), resources are known by their URI, of two servers
 * with one URI the first configured has it, and servers that are disabled are not there.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "manager/server.h"
#include "proto/buf.h"

struct view {
	struct manager *manager;
	const char *only; /* the one server's name; NULL: all */
	size_t max_name;  /* of tools and prompts in the union, bytes */
};

/* Walks the servers in the configuration's order; *at begins with 0. NULL at the end. */
struct server *view_next(const struct view *view, size_t *at);
/* Whether the server is in the view. */
bool view_has(const struct view *view, const struct server *server);

/* A hash of what a list shows. */
struct view_revision {
	char text[33]; /* empty: never looked at */
};
void view_find_revision(const struct view *view, enum server_list list, struct view_revision *ret);
bool view_revisions_equal(const struct view_revision *a, const struct view_revision *b);

/* Whether nothing is to be waited for. start: sets in motion what is missing. */
bool view_is_settled(const struct view *view, enum server_list list, bool start);
bool view_is_empty(const struct view *view, enum server_list list);
/* Why a view of one server has nothing to show for the list, or NULL. */
const char *view_error(const struct view *view, enum server_list list);

struct view_page {
	size_t max_items, max_bytes; /* at least one item is written */
	size_t offset;               /* items to skip */
	/* Results: where to go on, 0 at the end; what modern clients are told of the list. */
	size_t next;
	int64_t ttl_ms;
	bool cache_private;
};
/* Writes the items as a JSON array. */
void view_write_page(const struct view *view, enum server_list list, struct view_page *page, struct buf *out);

/* The member of a list's result: "tools", ..; and of an item that is its key: "name", "uri", "uriTemplate". */
const char *view_list_member(enum server_list list);

/* Whose tool or prompt has that name in the union (a JSON string); its own name is appended to ret_name, as a JSON
 * string. NULL if nobody's. */
struct server *view_find_name(const struct view *view, enum server_list list, struct span exposed,
			      struct buf *ret_name);
/* Whose resource the URI is (a JSON string): a listed one, else one that a template makes. NULL if nobody's. */
struct server *view_find_uri(const struct view *view, struct span uri);
/* Whose resource template that is, as written (a JSON string); else as view_find_uri(). */
struct server *view_find_template(const struct view *view, struct span uri_template);

/* Appends the URIs of the server's resources that an earlier server has too, in the union, as a JSON array of {"uri",
 * "server"}; false if there are none (nothing is appended). */
bool view_write_shadowed(struct manager *manager, struct server *server, struct buf *out);
