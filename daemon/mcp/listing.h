/*
 * Whole lists out of pages (R27): follows nextCursor to the end, bounded by maxListPages and maxListBytes; a repeated
 * cursor ends the walk with a warning; an empty-string cursor is a cursor. Elements are kept verbatim.
 */
#pragma once

#include "mcp/mcp_client.h"

struct listing;

struct listing_result {
	const struct transport_reply *failure; /* NULL: elements is set */
	struct span elements;                  /* JSON array text of all pages, elements verbatim */
	unsigned count;
	int64_t ttl_ms;      /* the least of the pages (modern), or -1 */
	bool cache_public;   /* all pages say so (cacheScope) */
	const char *warning; /* a repeated cursor, tools left out, and the like; for people; or NULL */
};
typedef void listing_done_fn(void *arg, const struct listing_result *result);

/*
 * method: JSON string such as "\"tools/list\""; member: "tools". Both are copied. timeout_ms is each page's, -1 for the
 * transport's default. done comes once, never inside, unless listing_cancel() came first; what it gets is valid during
 * the call. The listing frees itself after done. It fails as a whole where a page fails, is not as it should be
 * (MCPD_E_PROTOCOL) or passes a limit (MCPD_E_LIMIT); what ends the walk early but leaves a usable list is the warning.
 * That is a repeated cursor, or more pages than maxListPages. Tools whose `x-mcp-header` annotations are invalid are
 * left out with a warning where the protocol wants that (mcp_client_checks_tools()).
 */
struct listing *listing_start(struct mcp_client *client, struct span method, const char *member, int64_t timeout_ms,
			      const struct limits *limits, listing_done_fn *done, void *arg);
/* NULL is fine. The page in flight is cancelled. */
void listing_cancel(struct listing *listing);
