/*
 * The daemon's own log: one entry per event, to the journal with structured fields, or else to stderr as one line with
 * its level and the same fields as key=value behind the text.
 *
 * Secrets and payloads never get here (house rule 7): callers log names, states and reasons, not values. Whatever is in
 * a text that came from a server or a client, an entry stays one entry: control characters and other line ends become
 * spaces, what is no UTF-8 becomes "?", and a text that is too long is cut, never the fields.
 *
 * Writing never waits: entries that nobody takes are dropped, and their number is told once somebody reads again.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_ERROR = 3, LOG_LEVEL_WARNING = 4, LOG_LEVEL_INFO = 6, LOG_LEVEL_DEBUG = 7 };

/* What an entry is about. NULL: not said. */
struct log_fields {
	const char *server;
	const char *client; /* its label, NAME#NUMBER */
	const char *method;
	const char *tool;    /* or the prompt */
	const char *state;   /* of the server */
	const char *outcome; /* of a call; with it the duration is told */
	int64_t duration_ms;
};

/* Process-wide settings: what is written at most (default info), and the journal's socket, NULL for stderr. The path
 * is not copied. With a socket, what its journal does not take goes to stderr with a `<N>` priority in front, as a
 * stream that the journal reads wants it. */
void log_init(enum log_level most_verbose, const char *journal_socket);
/* Whether an entry of this level would be written: to be asked first where it is work to say what happened. */
bool log_wants(enum log_level level);
/* fields may be NULL. */
__attribute__((format(printf, 3, 4))) void log_event(enum log_level level, const struct log_fields *fields,
						     const char *format, ...);
/* About one server: its name is a field, and stands in front of the text. */
__attribute__((format(printf, 3, 4))) void log_server(enum log_level level, const char *server, const char *format,
						      ...);
/* The same about one client, by its label. */
__attribute__((format(printf, 3, 4))) void log_client(enum log_level level, const char *client, const char *format,
						      ...);
/* Entries that were dropped since the start. */
uint64_t log_dropped(void);

/* "error", "warning", "info", "debug"; false if the text is none of them. */
bool log_level_find(const char *name, enum log_level *ret_level);
#define LOG_LEVEL_NAMES "error, warning, info or debug"

#define log_write(level, ...) log_event((level), NULL, __VA_ARGS__)
#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)
