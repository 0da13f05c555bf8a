/*
 * What is remembered of a server from one life of the daemon to the next (M2, M3): its lists, what it said of itself, and
 * which era it speaks.
 *
 * One file per definition, <name>-<identity>.tools in the cache directory: a line of JSON about it, the tool array as the
 * server sent it, byte for byte, and an object with the rest. Files are written beside and renamed, so that one is either whole or not there;
 * a file that is damaged, of another version or of another server is removed with a log line. Nothing that goes wrong
 * here hurts more than a cold start.
 */
#pragma once

#include <stdbool.h>

#include "mcp/mcp_client.h"
#include "proto/span.h"

struct tool_cache;

struct tool_cache_entry {
	char *tools; /* JSON array text, NUL-terminated */
	size_t tools_len;
	unsigned count;
	unsigned capabilities; /* enum tool_capability: those the tools were listed with */
	enum mcp_era era;
	char *protocol_version; /* or NULL */
	char *rest;             /* JSON object text, NUL-terminated: the caller's own */
	size_t rest_len;
};

/* dir is made with mode 0700 when something is to be written. NULL: a cache that keeps nothing. */
struct tool_cache *tool_cache_new(const char *dir);
void tool_cache_free(struct tool_cache *cache);
/* 0 with *ret (tool_cache_entry_done() it), or -ENOENT. */
int tool_cache_load(struct tool_cache *cache, const char *name, const char *identity, struct tool_cache_entry *ret);
void tool_cache_entry_done(struct tool_cache_entry *entry);
/* Replaces what was kept for the definition, and removes what was kept for earlier definitions of the same name. A
 * failure is logged once per server name; 0 or a negative errno. */
int tool_cache_store(struct tool_cache *cache, const char *name, const char *identity,
		     const struct tool_cache_entry *entry);
/* Removes what is older than 30 days and belongs to none of the servers (NULL-terminated names), and what an
 * interrupted write left. */
void tool_cache_clean(struct tool_cache *cache, const char *const *names);
