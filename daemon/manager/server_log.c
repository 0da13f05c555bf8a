#include "manager/server_log.h"

#include <stdlib.h>
#include <string.h>

#include "xalloc.h"

void server_log_init(struct server_log *log)
{
	memset(log, 0, sizeof *log);
}

void server_log_done(struct server_log *log)
{
	for (size_t i = 0; i < log->count; i++)
		free(log->lines[(log->first + i) % log->cap].text);
	free(log->lines);
	server_log_init(log);
}

const struct server_log_line *server_log_at(const struct server_log *log, size_t i)
{
	return &log->lines[(log->first + i) % log->cap];
}

/* Lays the lines out anew, the newest that fit, in a ring of the given size. */
static void resize(struct server_log *log, size_t cap)
{
	struct server_log_line *lines = xnew_array(struct server_log_line, cap);
	size_t skip = log->count > cap ? log->count - cap : 0;
	for (size_t i = 0; i < log->count; i++) {
		struct server_log_line *line = &log->lines[(log->first + i) % log->cap];
		if (i < skip)
			free(line->text);
		else
			lines[i - skip] = *line;
	}
	free(log->lines);
	log->lines = lines;
	log->count -= skip;
	log->first = 0;
	log->cap = cap;
}

size_t server_log_cut(struct span text, size_t max_bytes)
{
	size_t len = text.len < max_bytes ? text.len : max_bytes;
	if (len < text.len)
		for (int i = 0; i < 3 && len > 0 && ((unsigned char)text.ptr[len] & 0xc0) == 0x80; i++)
			len--;
	return len;
}

const struct server_log_line *server_log_add(struct server_log *log, struct span text, size_t max_lines,
					     size_t max_bytes)
{
	/* Small servers say little: the ring grows with what there is. */
	if (log->cap > max_lines)
		resize(log, max_lines);
	else if (log->count == log->cap && log->cap < max_lines)
		resize(log, log->cap == 0            ? (max_lines < 16 ? max_lines : 16) :
			    log->cap * 2 < max_lines ? log->cap * 2 :
						       max_lines);
	struct server_log_line *line;
	if (log->count == log->cap) {
		line = &log->lines[log->first];
		log->first = (log->first + 1) % log->cap;
		free(line->text);
	} else {
		line = &log->lines[(log->first + log->count++) % log->cap];
	}
	line->len = server_log_cut(text, max_bytes);
	line->text = xnew_array(char, line->len + 1);
	if (line->len)
		memcpy(line->text, text.ptr, line->len);
	timestamp_now(line->at);
	return line;
}
