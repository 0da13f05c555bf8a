#include "ipc/view.h"

#include <stdlib.h>
#include <string.h>

#include "config/digest.h"
#include "ipc/names.h"
#include "ipc/uri_template.h"
#include "proto/json_edit.h"
#include "proto/json_iter.h"
#include "xalloc.h"

static const struct {
	const char *member, *key;
	bool renamed; /* in the union; the others are kept apart by their keys */
} lists[SERVER_LIST_COUNT] = {
	[SERVER_TOOLS] = { "tools", "name", true },
	[SERVER_PROMPTS] = { "prompts", "name", true },
	[SERVER_RESOURCES] = { "resources", "uri", false },
	[SERVER_TEMPLATES] = { "resourceTemplates", "uriTemplate", false },
};

const char *view_list_member(enum server_list list)
{
	return lists[list].member;
}

static bool is_visible(struct server *server)
{
	struct server_info info;
	server_get_info(server, &info);
	return info.state != SERVER_DISABLED;
}

struct server *view_next(const struct view *view, size_t *at)
{
	if (view->only)
		return (*at)++ == 0 ? manager_find(view->manager, span_of(view->only)) : NULL;
	while (*at < manager_count(view->manager)) {
		struct server *server = manager_at(view->manager, (*at)++);
		if (is_visible(server))
			return server;
	}
	return NULL;
}

bool view_has(const struct view *view, const struct server *server)
{
	return !view->only || strcmp(view->only, server_name(server)) == 0;
}

/* --- what a list is now --- */

void view_find_revision(const struct view *view, enum server_list list, struct view_revision *ret)
{
	struct digest digest;
	struct server *server;
	digest_init(&digest);
	for (size_t at = 0; (server = view_next(view, &at));) {
		struct server_listing listing;
		server_get_list(server, list, false, &listing);
		digest_text(&digest, listing.visible ? listing.revision : "-");
	}
	digest_hex(&digest, ret->text);
}

bool view_revisions_equal(const struct view_revision *a, const struct view_revision *b)
{
	return strcmp(a->text, b->text) == 0;
}

bool view_is_settled(const struct view *view, enum server_list list, bool start)
{
	struct server *server;
	bool settled = true;
	for (size_t at = 0; (server = view_next(view, &at));) {
		struct server_listing listing;
		server_get_list(server, list, start, &listing);
		settled &= !listing.visible || listing.settled;
	}
	return settled;
}

bool view_is_empty(const struct view *view, enum server_list list)
{
	struct server *server;
	for (size_t at = 0; (server = view_next(view, &at));) {
		struct server_listing listing;
		server_get_list(server, list, false, &listing);
		if (listing.visible && !span_is(listing.items, "[]"))
			return false;
	}
	return true;
}

const char *view_error(const struct view *view, enum server_list list)
{
	size_t at = 0;
	struct server *server = view->only ? view_next(view, &at) : NULL;
	struct server_listing listing;
	if (!server)
		return NULL;
	server_get_list(server, list, false, &listing);
	return span_is(listing.items, "[]") ? listing.error : NULL;
}

/* --- keys that were shown already --- */

/* JSON strings, by what they say. */
struct key_set {
	struct span *slots;
	size_t n_slots, count; /* n_slots is a power of two, or 0 */
};

static struct span *slot_of(const struct key_set *set, struct span key)
{
	size_t at = (size_t)json_string_hash(key) & (set->n_slots - 1);
	while (set->slots[at].ptr && !json_strings_equal(set->slots[at], key))
		at = (at + 1) & (set->n_slots - 1);
	return &set->slots[at];
}

static void grow(struct key_set *set)
{
	struct key_set old = *set;
	set->n_slots = old.n_slots ? old.n_slots * 2 : 64;
	set->slots = xnew_array(struct span, set->n_slots);
	for (size_t i = 0; i < old.n_slots; i++)
		if (old.slots[i].ptr)
			*slot_of(set, old.slots[i]) = old.slots[i];
	free(old.slots);
}

/* False if it is there already. The key's text must outlive the set. */
static bool add_key(struct key_set *set, struct span key)
{
	if (set->count * 2 >= set->n_slots)
		grow(set);
	struct span *slot = slot_of(set, key);
	if (slot->ptr)
		return false;
	*slot = key;
	set->count++;
	return true;
}

/* --- writing --- */

struct page_writer {
	const struct view *view;
	enum server_list list;
	struct view_page *page;
	struct buf *out;
	struct key_set shown; /* the union's resources */
	size_t index, written, start;
};

/* Appends the item under the name that it has in the union. */
static void write_renamed(struct page_writer *w, struct server *server, struct span item, struct span name)
{
	struct buf exposed = BUF_INIT;
	buf_add_char(&exposed, '"');
	names_write(&exposed, server_name(server), name, w->view->max_name);
	buf_add_char(&exposed, '"');
	struct json_edit edit = { "name", JSON_EDIT_REPLACE, buf_span(&exposed) };
	if (buf_failed(&exposed))
		w->out->error = exposed.error;
	else
		json_edit(w->out, item, &edit, 1);
	buf_done(&exposed);
}

/* False: the page is full, and the item is the first of the next one. */
static bool write_item(struct page_writer *w, struct server *server, struct span item)
{
	struct span key = json_member(item, lists[w->list].key);
	bool is_string = json_type_of(key) == JSON_STRING;
	if (!w->view->only && !lists[w->list].renamed && is_string && !add_key(&w->shown, key))
		return true;
	if (w->index++ < w->page->offset)
		return true;
	size_t used = w->out->len - w->start;
	if (w->written &&
	    (w->written >= w->page->max_items || used >= w->page->max_bytes || item.len > w->page->max_bytes - used)) {
		w->page->next = w->index - 1;
		return false;
	}
	if (w->written++)
		buf_add_char(w->out, ',');
	if (!w->view->only && lists[w->list].renamed && is_string)
		write_renamed(w, server, item, key);
	else
		buf_add_span(w->out, item);
	return true;
}

static bool write_server(struct page_writer *w, struct server *server)
{
	struct server_listing listing;
	struct json_iter it;
	struct span item;
	server_get_list(server, w->list, false, &listing);
	if (!listing.visible)
		return true;
	if (w->page->ttl_ms < 0 || listing.ttl_ms < w->page->ttl_ms)
		w->page->ttl_ms = listing.ttl_ms > 0 ? listing.ttl_ms : 0;
	w->page->cache_private |= listing.cache_private;
	json_iter_init(&it, listing.items);
	while (json_iter_element(&it, &item))
		if (!write_item(w, server, item))
			return false;
	return true;
}

void view_write_page(const struct view *view, enum server_list list, struct view_page *page, struct buf *out)
{
	struct page_writer w = { .view = view, .list = list, .page = page, .out = out, .start = out->len };
	struct server *server;
	page->next = 0;
	page->ttl_ms = -1;
	page->cache_private = false;
	buf_add_char(out, '[');
	for (size_t at = 0; (server = view_next(view, &at));)
		if (!write_server(&w, server))
			break;
	buf_add_char(out, ']');
	if (page->ttl_ms < 0)
		page->ttl_ms = 0;
	free(w.shown.slots);
}

/* --- finding --- */

/* Whether the server's list has the key. */
static bool has_key(struct server *server, enum server_list list, struct span key)
{
	struct server_listing listing;
	struct json_iter it;
	struct span item;
	server_get_list(server, list, false, &listing);
	json_iter_init(&it, listing.items);
	while (listing.visible && json_iter_element(&it, &item))
		if (json_strings_equal(json_member(item, lists[list].key), key))
			return true;
	return false;
}

/* The plain form says by itself whose name it is, also of what is in no list. */
static struct server *find_plain(const struct view *view, struct span exposed, struct buf *ret_name)
{
	struct span server_part, name_part;
	if (!names_split(exposed, view->max_name, &server_part, &name_part))
		return NULL;
	struct server *server = manager_find(view->manager, server_part);
	if (!server || !is_visible(server))
		return NULL;
	buf_add_json_string(ret_name, name_part);
	return server;
}

static struct server *find_listed(const struct view *view, enum server_list list, struct span exposed,
				  struct buf *ret_name)
{
	struct server *server;
	for (size_t at = 0; (server = view_next(view, &at));) {
		struct server_listing listing;
		struct json_iter it;
		struct span item;
		server_get_list(server, list, false, &listing);
		json_iter_init(&it, listing.items);
		while (listing.visible && json_iter_element(&it, &item)) {
			struct span name = json_member(item, "name");
			if (json_type_of(name) != JSON_STRING ||
			    !names_match(exposed, server_name(server), name, view->max_name))
				continue;
			buf_add_span(ret_name, name);
			return server;
		}
	}
	return NULL;
}

/* What looks plain may be a shortened name; then a list has it, and not under the name that it seems to be. */
struct server *view_find_name(const struct view *view, enum server_list list, struct span exposed, struct buf *ret_name)
{
	struct buf plain_name = BUF_INIT;
	struct server *plain = find_plain(view, exposed, &plain_name);
	bool known = plain && has_key(plain, list, buf_span(&plain_name));
	struct server *listed = known ? NULL : find_listed(view, list, exposed, ret_name);
	if (!listed && plain)
		buf_add_span(ret_name, buf_span(&plain_name));
	buf_done(&plain_name);
	return listed ? listed : plain;
}

static struct server *find_key(const struct view *view, enum server_list list, struct span key)
{
	struct server *server;
	for (size_t at = 0; (server = view_next(view, &at));)
		if (has_key(server, list, key))
			return server;
	return NULL;
}

/* How much a template says of the URI, at least 1; 0 if it does not make it. */
static size_t weigh(struct span uri_template, struct span uri)
{
	struct buf text = BUF_INIT;
	size_t weight = 0;
	if (json_string_decode(uri_template, &text) == 0 && uri_template_match(buf_span(&text), uri))
		weight = uri_template_weight(buf_span(&text)) + 1;
	buf_done(&text);
	return weight;
}

/* The best of the server's templates. */
static size_t weigh_server(struct server *server, struct span uri)
{
	struct server_listing listing;
	struct json_iter it;
	struct span item;
	size_t best = 0;
	server_get_list(server, SERVER_TEMPLATES, false, &listing);
	json_iter_init(&it, listing.items);
	while (listing.visible && json_iter_element(&it, &item)) {
		size_t weight = weigh(json_member(item, lists[SERVER_TEMPLATES].key), uri);
		best = weight > best ? weight : best;
	}
	return best;
}

/* The server whose template says most of the URI; of several the first. */
static struct server *find_by_template(const struct view *view, struct span uri)
{
	struct server *server, *found = NULL;
	size_t best = 0;
	for (size_t at = 0; (server = view_next(view, &at));) {
		size_t weight = weigh_server(server, uri);
		if (weight <= best)
			continue;
		best = weight;
		found = server;
	}
	return found;
}

struct server *view_find_uri(const struct view *view, struct span uri)
{
	struct server *server = find_key(view, SERVER_RESOURCES, uri);
	struct buf text = BUF_INIT;
	if (!server && json_string_decode(uri, &text) == 0)
		server = find_by_template(view, buf_span(&text));
	buf_done(&text);
	return server;
}

struct server *view_find_template(const struct view *view, struct span uri_template)
{
	struct server *server = find_key(view, SERVER_TEMPLATES, uri_template);
	return server ? server : view_find_uri(view, uri_template);
}

/* --- what the union hides --- */

static void add_keys(struct key_set *set, struct server *server)
{
	struct server_listing listing;
	struct json_iter it;
	struct span item;
	server_get_list(server, SERVER_RESOURCES, false, &listing);
	json_iter_init(&it, listing.items);
	while (listing.visible && json_iter_element(&it, &item)) {
		struct span uri = json_member(item, "uri");
		if (json_type_of(uri) == JSON_STRING)
			add_key(set, uri);
	}
}

static void write_shadow(struct buf *out, bool *any, struct span uri, const struct server *owner)
{
	buf_add_text(out, *any ? ",{\"uri\":" : "[{\"uri\":");
	buf_add_span(out, uri);
	buf_add_text(out, ",\"server\":");
	buf_add_json_text(out, server_name(owner));
	buf_add_char(out, '}');
	*any = true;
}

bool view_write_shadowed(struct manager *manager, struct server *server, struct buf *out)
{
	const struct view all = { .manager = manager };
	struct key_set own = { 0 };
	struct server *earlier;
	bool any = false;
	add_keys(&own, server);
	for (size_t at = 0; own.count && (earlier = view_next(&all, &at)) && earlier != server;) {
		struct server_listing listing;
		struct json_iter it;
		struct span item;
		server_get_list(earlier, SERVER_RESOURCES, false, &listing);
		json_iter_init(&it, listing.items);
		while (listing.visible && json_iter_element(&it, &item)) {
			struct span uri = json_member(item, "uri");
			if (json_type_of(uri) == JSON_STRING && slot_of(&own, uri)->ptr)
				write_shadow(out, &any, uri, earlier);
		}
	}
	if (any)
		buf_add_char(out, ']');
	free(own.slots);
	return any;
}
