/* The last lines that a server wrote to stderr (contract S13): a ring, bounded by logLines and logLineBytes. */
#pragma once

#include <stddef.h>

#include "manager/timestamp.h"
#include "proto/span.h"

struct server_log_line {
	char at[TIMESTAMP_TEXT];
	char *text;
	size_t len;
};

struct server_log {
	struct server_log_line *lines;
	size_t cap, first, count;
};

void server_log_init(struct server_log *log);
void server_log_done(struct server_log *log);
/* How many of the text's bytes fit into max: those of a character that is cut through do not. */
size_t server_log_cut(struct span text, size_t max_bytes);
/* Keeps the text's first max_bytes, and of the lines the last max_lines. Returns the kept line, valid until the next
 * addition. */
const struct server_log_line *server_log_add(struct server_log *log, struct span text, size_t max_lines,
					     size_t max_bytes);
/* The i-th kept line, oldest first. */
const struct server_log_line *server_log_at(const struct server_log *log, size_t i);
