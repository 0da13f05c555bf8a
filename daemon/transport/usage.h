/*
 * What servers use of the machine: memory, processor time and processes, of a server's whole tree.
 *
 * In a delegated cgroup with the controllers for it (transport/cgroup.h) the kernel's own sums are read. Elsewhere the
 * processes below the server's keeper (transport/keeper.h) are added up from /proc: resident memory, in which pages that
 * several share count for each, and the processor time of those that are alive. All of it is read when it is asked for.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct usage_table;

struct usage {
	int64_t memory_bytes;
	int64_t cpu_ms;
	unsigned processes;
	int64_t memory_max; /* bytes that the kernel allows the tree; -1: no limit is in force */
};

/* A look at all processes; NULL if memory is short or there is no /proc. */
struct usage_table *usage_take(void);
void usage_free(struct usage_table *table); /* takes NULL */
/* The tree of a server with that main process. False if it has gone. */
bool usage_of(const struct usage_table *table, pid_t server, struct usage *ret);
