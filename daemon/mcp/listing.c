#include "mcp/listing.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "mcp/http_headers.h"
#include "proto/json_iter.h"
#include "xalloc.h"

struct listing {
	struct mcp_client *client;
	char *method, *member;
	int64_t timeout_ms;
	uint64_t max_pages;
	listing_done_fn *done; /* NULL once cancelled */
	void *arg;
	uint64_t call;

	struct buf elements; /* "[" and what was read so far; bounded by maxListBytes */
	unsigned count;
	uint64_t pages;
	int64_t ttl_ms;
	bool check_tools, cache_private;
	struct buf warning; /* cut at WARNING_MAX */

	/* Cursors seen: a hash set of their 64-bit hashes, 0 being no entry. A power of two in size, at most half full.
	 */
	uint64_t *cursors;
	size_t n_cursors, cursors_cap;
};

#define WARNING_MAX 4096

static void ask(struct listing *listing, struct span cursor);

static void listing_free(struct listing *listing)
{
	buf_done(&listing->elements);
	buf_done(&listing->warning);
	free(listing->cursors);
	free(listing->method);
	free(listing->member);
	free(listing);
}

static void fail(struct listing *listing, const struct transport_reply *failure)
{
	struct listing_result result = { .failure = failure, .ttl_ms = -1 };
	listing->done(listing->arg, &result);
	listing_free(listing);
}

static void fail_as(struct listing *listing, int code, int limit, const char *what)
{
	int len = (int)strlen(listing->method);
	char *message = xasprintf("%.*s: %s", len > 2 ? len - 2 : 0, listing->method + 1, what);
	struct transport_reply reply = { .code = code, .limit = limit, .message = message, .sent = true };
	fail(listing, &reply);
	free(message);
}

static void fail_for_buffer(struct listing *listing)
{
	if (listing->elements.error == -E2BIG)
		fail_as(listing, MCPD_E_LIMIT, LIMIT_LIST_BYTES, "the list is longer than maxListBytes");
	else
		fail_as(listing, MCPD_E_INTERNAL, 0, "out of memory");
}

static void succeed(struct listing *listing)
{
	buf_add_char(&listing->elements, ']');
	if (buf_failed(&listing->elements)) {
		fail_for_buffer(listing);
		return;
	}
	struct listing_result result = {
		.elements = buf_span(&listing->elements),
		.count = listing->count,
		.ttl_ms = listing->ttl_ms,
		.cache_public = !listing->cache_private,
		.warning = listing->warning.len ? listing->warning.data : NULL,
	};
	listing->done(listing->arg, &result);
	listing_free(listing);
}

static void warn(struct listing *listing, const char *text)
{
	size_t len = listing->warning.len;
	buf_addf(&listing->warning, "%s%s", len ? "; " : "", text);
	if (listing->warning.error == -E2BIG) {
		/* Enough has been said. */
		buf_truncate(&listing->warning, len);
	}
}

/* Whether the element may be shown; says so where it may not. */
static bool is_usable(struct listing *listing, struct span tool)
{
	char *problem = listing->check_tools ? http_headers_check_tool(tool) : NULL;
	if (!problem)
		return true;
	char *name = json_string_dup(json_member(tool, "name"));
	char *text = xasprintf("the tool \"%.200s\" is left out: %.500s", name ? name : "?", problem);
	warn(listing, text);
	free(text);
	free(name);
	free(problem);
	return false;
}

static void add_page(struct listing *listing, struct span elements)
{
	struct json_iter it;
	struct span element;
	json_iter_init(&it, elements);
	while (json_iter_element(&it, &element)) {
		if (!is_usable(listing, element))
			continue;
		if (listing->count++)
			buf_add_char(&listing->elements, ',');
		buf_add_span(&listing->elements, element);
	}
}

static void note_caching(struct listing *listing, struct span result)
{
	int64_t ttl;
	listing->cache_private |= !json_string_is(json_member(result, "cacheScope"), "public");
	if (json_int64(json_member(result, "ttlMs"), &ttl) < 0 || ttl < 0)
		return;
	if (listing->ttl_ms < 0 || ttl < listing->ttl_ms)
		listing->ttl_ms = ttl;
}

static uint64_t *find_cursor(const struct listing *listing, uint64_t hash)
{
	size_t at = hash & (listing->cursors_cap - 1);
	while (listing->cursors[at] && listing->cursors[at] != hash)
		at = (at + 1) & (listing->cursors_cap - 1);
	return &listing->cursors[at];
}

static void grow_cursors(struct listing *listing)
{
	uint64_t *old = listing->cursors;
	size_t old_cap = listing->cursors_cap;
	listing->cursors_cap = old_cap ? old_cap * 2 : 16;
	listing->cursors = xnew_array(uint64_t, listing->cursors_cap);
	for (size_t i = 0; i < old_cap; i++)
		if (old[i])
			*find_cursor(listing, old[i]) = old[i];
	free(old);
}

/* Whether the cursor was there before; remembers it. Two cursors with one hash would end the walk early, with a
 * warning: once in 2^64. */
static bool is_repeated(struct listing *listing, struct span cursor)
{
	uint64_t hash = json_string_hash(cursor);
	if (hash == 0)
		hash = 1;
	if (2 * (listing->n_cursors + 1) > listing->cursors_cap)
		grow_cursors(listing);
	uint64_t *entry = find_cursor(listing, hash);
	if (*entry)
		return true;
	*entry = hash;
	listing->n_cursors++;
	return false;
}

static void on_page(void *arg, const struct transport_reply *reply)
{
	struct listing *listing = arg;
	if (!listing->done) {
		listing_free(listing);
		return;
	}
	if (reply->code) {
		fail(listing, reply);
		return;
	}
	struct span elements = json_member(reply->result, listing->member);
	struct span cursor = json_member(reply->result, "nextCursor");
	if (json_type_of(elements) != JSON_ARRAY) {
		fail_as(listing, MCPD_E_PROTOCOL, 0, "the answer does not contain the list");
		return;
	}
	add_page(listing, elements);
	note_caching(listing, reply->result);
	listing->pages++;
	if (buf_failed(&listing->elements)) {
		fail_for_buffer(listing);
		return;
	}
	if (json_type_of(cursor) != JSON_STRING) {
		if (cursor.ptr && json_type_of(cursor) != JSON_NULL)
			warn(listing, "the server's nextCursor is no string; the list may be incomplete");
		succeed(listing);
	} else if (is_repeated(listing, cursor)) {
		warn(listing, "the server repeats its cursor; the list may be incomplete");
		succeed(listing);
	} else if (listing->pages >= listing->max_pages) {
		warn(listing, "the list has more pages than maxListPages; the rest is left out");
		succeed(listing);
	} else {
		ask(listing, cursor);
	}
}

static void ask(struct listing *listing, struct span cursor)
{
	struct buf params;
	buf_init(&params, 0);
	if (cursor.ptr) {
		buf_add_text(&params, "{\"cursor\":");
		buf_add_span(&params, cursor);
		buf_add_char(&params, '}');
	}
	if (buf_failed(&params)) {
		buf_done(&params);
		fail_as(listing, MCPD_E_INTERNAL, 0, "out of memory");
		return;
	}
	struct mcp_call_options options = {
		.timeout_ms = listing->timeout_ms,
		.done = on_page,
		.arg = listing,
	};
	struct span method = span_of(listing->method);
	listing->call = mcp_client_call(listing->client, method, cursor.ptr ? buf_span(&params) : SPAN_NONE, &options);
	buf_done(&params);
}

struct listing *listing_start(struct mcp_client *client, struct span method, const char *member, int64_t timeout_ms,
			      const struct limits *limits, listing_done_fn *done, void *arg)
{
	struct listing *listing = xnew(struct listing);
	listing->client = client;
	listing->method = xstrndup(method.ptr, method.len);
	listing->member = xstrdup(member);
	listing->timeout_ms = timeout_ms;
	listing->max_pages = (uint64_t)limits->value[LIMIT_LIST_PAGES];
	listing->done = done;
	listing->arg = arg;
	listing->ttl_ms = -1;
	listing->check_tools = mcp_client_checks_tools(client) && strcmp(member, "tools") == 0;
	buf_init(&listing->warning, WARNING_MAX);
	buf_init(&listing->elements, (size_t)limits->value[LIMIT_LIST_BYTES]);
	buf_add_char(&listing->elements, '[');
	ask(listing, SPAN_NONE);
	return listing;
}

void listing_cancel(struct listing *listing)
{
	if (!listing)
		return;
	listing->done = NULL;
	mcp_client_cancel(listing->client, listing->call, NULL);
}
