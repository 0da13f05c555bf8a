#include "transport/usage.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "xalloc.h"

struct entry {
	pid_t pid, ppid;
	int64_t ticks, pages;
};

struct usage_table {
	struct entry *entries; /* by pid */
	size_t n, cap;
};

static bool read_text(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	ssize_t len = read(fd, text, size - 1);
	close(fd);
	text[len > 0 ? len : 0] = '\0';
	return len > 0;
}

/* proc(5): the fields behind the name, which may hold anything, also a parenthesis. */
static bool read_stat(pid_t pid, struct entry *ret)
{
	char path[40], text[1024];
	int ppid;
	unsigned long user, kernel;
	long pages;
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	const char *behind = read_text(path, text, sizeof text) ? strrchr(text, ')') : NULL;
	if (!behind || sscanf(behind + 1,
			      " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d %*d %*u %*u %ld",
			      &ppid, &user, &kernel, &pages) != 4)
		return false;
	*ret = (struct entry){ pid, ppid, (int64_t)(user + kernel), pages };
	return true;
}

static int by_pid(const void *a, const void *b)
{
	pid_t x = ((const struct entry *)a)->pid, y = ((const struct entry *)b)->pid;
	return (x > y) - (x < y);
}

struct usage_table *usage_take(void)
{
	DIR *proc = opendir("/proc");
	if (!proc)
		return NULL;
	struct usage_table *table = xnew(struct usage_table);
	for (struct dirent *de; (de = readdir(proc));) {
		struct entry entry;
		if (!isdigit((unsigned char)de->d_name[0]) || !read_stat((pid_t)atoi(de->d_name), &entry))
			continue;
		if (table->n == table->cap) {
			table->cap = table->cap ? table->cap * 2 : 256;
			table->entries = xrealloc(table->entries, table->cap, sizeof *table->entries);
		}
		table->entries[table->n++] = entry;
	}
	closedir(proc);
	qsort(table->entries, table->n, sizeof *table->entries, by_pid);
	return table;
}

void usage_free(struct usage_table *table)
{
	if (!table)
		return;
	free(table->entries);
	free(table);
}

static const struct entry *find(const struct usage_table *table, pid_t pid)
{
	struct entry key = { .pid = pid };
	return bsearch(&key, table->entries, table->n, sizeof key, by_pid);
}

/* The table was taken while processes came and went, so it may even show a ring: the number of steps is bounded. */
static bool is_below(const struct usage_table *table, const struct entry *entry, pid_t root)
{
	for (size_t steps = 0; entry && entry->ppid > 1 && steps < table->n; steps++) {
		if (entry->ppid == root)
			return true;
		entry = find(table, entry->ppid);
	}
	return false;
}

static void add_up(const struct usage_table *table, pid_t keeper, struct usage *ret)
{
	int64_t ticks = 0, pages = 0;
	for (size_t i = 0; i < table->n; i++) {
		if (!is_below(table, &table->entries[i], keeper))
			continue;
		ret->processes++;
		ticks += table->entries[i].ticks;
		pages += table->entries[i].pages;
	}
	ret->memory_bytes = pages * sysconf(_SC_PAGESIZE);
	ret->cpu_ms = ticks * 1000 / sysconf(_SC_CLK_TCK);
}

/* --- the server's own cgroup --- */

static bool read_number(const char *leaf, const char *file, const char *key, int64_t *ret)
{
	char path[4352], text[4096];
	long long number;
	snprintf(path, sizeof path, "%s/%s", leaf, file);
	if (!read_text(path, text, sizeof text))
		return false;
	const char *at = key ? strstr(text, key) : text;
	if (!at || sscanf(at + (key ? strlen(key) : 0), "%lld", &number) != 1)
		return false;
	*ret = number;
	return true;
}

/* The directory of the process's cgroup, if that is one that mcpd has made for a server. */
static bool find_leaf(pid_t pid, char *leaf, size_t size)
{
	static const char *const mounts[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
	char path[40], text[4096];
	snprintf(path, sizeof path, "/proc/%d/cgroup", (int)pid);
	char *at = read_text(path, text, sizeof text) ? strstr(text, "0::/") : NULL;
	if (!at || !strstr(at, "/server-"))
		return false;
	at += strlen("0::");
	at[strcspn(at, "\n")] = '\0';
	for (size_t i = 0; i < sizeof mounts / sizeof *mounts; i++) {
		char procs[4352];
		snprintf(leaf, size, "%s%s", mounts[i], at);
		snprintf(procs, sizeof procs, "%s/cgroup.procs", leaf);
		if (access(procs, F_OK) == 0)
			return true;
	}
	return false;
}

static void take_the_kernels(pid_t pid, struct usage *ret)
{
	char leaf[4200];
	int64_t number;
	if (!find_leaf(pid, leaf, sizeof leaf))
		return;
	if (read_number(leaf, "memory.current", NULL, &number))
		ret->memory_bytes = number;
	if (read_number(leaf, "cpu.stat", "usage_usec ", &number))
		ret->cpu_ms = number / 1000;
	if (read_number(leaf, "memory.max", NULL, &number))
		ret->memory_max = number;
}

bool usage_of(const struct usage_table *table, pid_t server, struct usage *ret)
{
	const struct entry *entry = find(table, server);
	*ret = (struct usage){ .memory_max = -1 };
	if (!entry || entry->ppid <= 1)
		return false;
	add_up(table, entry->ppid, ret);
	take_the_kernels(server, ret);
	return true;
}
