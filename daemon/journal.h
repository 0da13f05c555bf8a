/*
 * The journal's native protocol (systemd.io "Native Journal Protocol"): one entry is one datagram of NAME=value lines.
 *
 * Not by sd_journal_sendv(): with nobody reading the socket that call waits, which would stop the loop, and without a
 * socket it reports success, so that the entry is lost (both measured with libsystemd 252). Nothing here waits, and
 * whoever has an entry that was not taken is told so.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Where the journal of this machine, or of the service's journal namespace, takes entries. */
#define JOURNAL_SOCKET "/run/systemd/journal/socket"
#define JOURNAL_ENTRY_MAX 8192 /* bytes: what fits into one datagram everywhere */

struct journal_field {
	const char *name; /* upper case, digits, underscores */
	const char *value;
	size_t len;
};

/* A socket to send from, or -1 with errno. It is connected to nobody, so that a journal that is restarted is found
 * again. */
int journal_open(void);
/* Whether the journal that listens on the path has taken the entry: false if there is none, if it is behind with
 * reading, or if the entry is longer than JOURNAL_ENTRY_MAX. */
bool journal_send(int fd, const char *path, const struct journal_field *fields, size_t n);
