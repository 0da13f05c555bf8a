/*
 * The daemon's own log: one line per event on stderr, with the journal's `<N>` priority prefixes when stderr is a journal stream or MCPD_LOG_JOURNAL is
 * set by service.c. Secrets never get here (house rule 7): callers log names and reasons, not values.
 * Writing never waits: lines that nobody reads are dropped, and their number is told once somebody reads again.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>

enum log_level { LOG_LEVEL_ERROR = 3, LOG_LEVEL_WARNING = 4, LOG_LEVEL_INFO = 6, LOG_LEVEL_DEBUG = 7 };

/* Process-wide settings: what is printed at most (default info), and whether priority prefixes are written. */
void log_init(enum log_level most_verbose, bool journal);
__attribute__((format(printf, 2, 3))) void log_write(enum log_level level, const char *format, ...);

#define log_error(...) log_write(LOG_LEVEL_ERROR, __VA_ARGS__)
#define log_warning(...) log_write(LOG_LEVEL_WARNING, __VA_ARGS__)
#define log_info(...) log_write(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_write(LOG_LEVEL_DEBUG, __VA_ARGS__)
