/*
 * The service manager (PITFALLS "systemd"): a socket it hands in, and what it is told. Without one, all of this does
 * nothing. The one file that knows libsystemd.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "loop/loop.h"

/* The socket of the journal that stderr goes to, for log_init(); NULL if it goes elsewhere. */
const char *service_journal(void);
/* The listening Unix socket that was handed in, -1 if none was; -EINVAL if what was handed in is something else. Call
 * once: the variables that told of it are gone afterwards. */
int service_take_socket(void);
/* The unit of the user's service manager that this process is the main process of, or NULL. free() it. */
char *service_find_unit(void);
/* READY=1: the daemon listens. Also ends a reload. */
void service_ready(void);
void service_reloading(void);
/* The daemon is ending, and will be gone within so many milliseconds. */
void service_stopping(int64_t within_ms);
__attribute__((format(printf, 1, 2))) void service_status(const char *format, ...);

/* Tells the watchdog, if there is one, from the loop's passes: a loop that is stuck says nothing. NULL if there is
 * none. */
struct service_watchdog;
struct service_watchdog *service_watchdog_new(struct loop *loop);
void service_watchdog_free(struct service_watchdog *watchdog); /* takes NULL */

/* The end of starting in the background: stdin, stdout and stderr let go of what they were. Log lines go to the
 * journal, or nowhere. Returns what service_journal() does. */
const char *service_detach(void);
