#include "transport/proctree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct entry {
	pid_t pid, ppid;
};

struct snapshot {
	struct entry *entries; /* by pid */
	size_t len, cap;
};

/* The parent of a process, or -1 if there is no such process. */
static pid_t read_parent(pid_t pid)
{
	char path[32], stat[512];
	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	ssize_t len = read(fd, stat, sizeof stat - 1);
	close(fd);
	if (len <= 0)
		return -1;
	stat[len] = '\0';
	/* The name in parentheses may hold anything, also a parenthesis. */
	const char *behind = strrchr(stat, ')');
	int ppid;
	if (!behind || sscanf(behind + 1, " %*c %d", &ppid) != 1)
		return -1;
	return ppid;
}

static int add_entry(struct snapshot *s, pid_t pid)
{
	pid_t ppid = read_parent(pid);
	if (ppid < 0)
		return 0;
	if (s->len == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 256;
		struct entry *grown = realloc(s->entries, cap * sizeof *grown);
		if (!grown)
			return -ENOMEM;
		s->entries = grown;
		s->cap = cap;
	}
	s->entries[s->len++] = (struct entry){ pid, ppid };
	return 0;
}

static int by_pid(const void *a, const void *b)
{
	pid_t x = ((const struct entry *)a)->pid, y = ((const struct entry *)b)->pid;
	return (x > y) - (x < y);
}

static int take_snapshot(struct snapshot *s)
{
	DIR *proc = opendir("/proc");
	if (!proc)
		return -errno;
	int error = 0;
	for (struct dirent *de; !error && (de = readdir(proc));)
		if (isdigit((unsigned char)de->d_name[0]))
			error = add_entry(s, (pid_t)atoi(de->d_name));
	closedir(proc);
	if (s->len > 0)
		qsort(s->entries, s->len, sizeof *s->entries, by_pid);
	return error;
}

static pid_t parent_of(const struct snapshot *s, pid_t pid)
{
	struct entry key = { pid, 0 };
	const struct entry *found = bsearch(&key, s->entries, s->len, sizeof key, by_pid);
	return found ? found->ppid : 0;
}

/* The snapshot was taken while processes came and went, so it may even show a ring: the number of steps is bounded. */
static bool is_below(const struct snapshot *s, pid_t pid, pid_t root, bool (*spare)(void *, pid_t), void *arg)
{
	for (size_t steps = 0; pid > 1 && steps <= s->len; steps++) {
		if (pid == root)
			return steps > 0;
		if (spare && spare(arg, pid))
			return false;
		pid = parent_of(s, pid);
	}
	return false;
}

static void send_signal(struct entry entry, pid_t root, int signo, struct proctree_result *result)
{
	int pidfd = (int)syscall(SYS_pidfd_open, entry.pid, 0);
	if (pidfd < 0)
		return;
	/* Still the one we saw; its parent may have died of this very round. */
	pid_t ppid = read_parent(entry.pid);
	if (ppid == entry.ppid || ppid == root) {
		if (syscall(SYS_pidfd_send_signal, pidfd, signo, NULL, 0) == 0)
			result->signalled++;
		else if (errno == EPERM)
			result->refused++;
		/* A stopped process would not see it. */
		if (signo == SIGTERM)
			syscall(SYS_pidfd_send_signal, pidfd, SIGCONT, NULL, 0);
	}
	close(pidfd);
}

int proctree_signal(pid_t root, int signo, bool (*spare)(void *arg, pid_t pid), void *arg,
		    struct proctree_result *ret_result)
{
	*ret_result = (struct proctree_result){ 0 };
	struct snapshot s = { 0 };
	int error = take_snapshot(&s);
	for (size_t i = 0; !error && i < s.len; i++)
		if (is_below(&s, s.entries[i].pid, root, spare, arg))
			send_signal(s.entries[i], root, signo, ret_result);
	free(s.entries);
	return error;
}
