#include "transport/cgroup.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "log.h"
#include "xalloc.h"

#define OWN_LEAF "daemon"
#define NAME_BYTES 64

struct cgroup {
	char *base; /* the delegated directory */
	unsigned last_leaf;
};

static int write_file(const char *dir, const char *file, const char *text)
{
	char path[PATH_MAX];
	if (snprintf(path, sizeof path, "%s/%s", dir, file) >= (int)sizeof path)
		return -ENAMETOOLONG;
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	int error = write(fd, text, strlen(text)) < 0 ? -errno : 0;
	close(fd);
	return error;
}

int cgroup_enter(const char *leaf)
{
	return write_file(leaf, "cgroup.procs", "0");
}

int cgroup_kill(const char *leaf)
{
	return write_file(leaf, "cgroup.kill", "1");
}

int cgroup_remove(const char *leaf)
{
	return rmdir(leaf) < 0 && errno != ENOENT ? -errno : 0;
}

/* The directory where the cgroup v2 hierarchy is mounted, or NULL. */
static char *find_mount(void)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");
	if (!f)
		return NULL;
	char *line = NULL, *found = NULL;
	size_t size = 0;
	while (!found && getline(&line, &size, f) > 0) {
		/* ID PARENT DEVICE ROOT MOUNTPOINT OPTIONS [TAGS...] - TYPE SOURCE OPTIONS */
		char root[PATH_MAX], point[PATH_MAX];
		const char *type = strstr(line, " - cgroup2 ");
		if (type && sscanf(line, "%*s %*s %*s %4095s %4095s", root, point) == 2 && strcmp(root, "/") == 0)
			found = xstrdup(point);
	}
	free(line);
	fclose(f);
	return found;
}

/* This process's path in the v2 hierarchy, or NULL. */
static char *find_path(void)
{
	FILE *f = fopen("/proc/self/cgroup", "re");
	if (!f)
		return NULL;
	char *line = NULL, *found = NULL;
	size_t size = 0;
	while (!found && getline(&line, &size, f) > 0) {
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line, "0::/", 4) == 0)
			found = xstrdup(line + 3);
	}
	free(line);
	fclose(f);
	return found;
}

/* Marked by a system manager. */
static bool is_marked(const char *dir)
{
	static const char *const marks[] = { "user.delegate", "trusted.delegate" };
	char value[8];
	for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
		if (getxattr(dir, marks[i], value, sizeof value) == 1 && value[0] == '1')
			return true;
	return false;
}

/* A user manager marks nothing. But all of its cgroups are its user's, and one of a service whose main process we
 * are is ours. */
static bool is_own_service(const char *dir)
{
	static const char suffix[] = ".service";
	const char *main_pid = getenv("SYSTEMD_EXEC_PID");
	size_t len = strlen(dir), suffix_len = sizeof suffix - 1;
	return main_pid && atoi(main_pid) == getpid() && len > suffix_len &&
	       strcmp(dir + len - suffix_len, suffix) == 0;
}

/* The delegated directory this process is in, or directly below (DelegateSubgroup=, or mcpd started again); NULL if
 * there is none. */
static char *find_delegated(bool *ret_in_leaf)
{
	char *mount = find_mount();
	char *path = find_path();
	char *dir = mount && path && strcmp(path, "/") != 0 ? xasprintf("%s%s", mount, path) : NULL;
	free(mount);
	free(path);
	*ret_in_leaf = false;
	if (!dir || is_marked(dir) || is_own_service(dir))
		return dir;
	*ret_in_leaf = true;
	*strrchr(dir, '/') = '\0';
	if (is_marked(dir))
		return dir;
	free(dir);
	return NULL;
}

static int write_value(const char *dir, const char *name, const char *value)
{
	char *path = xasprintf("%s/%s", dir, name);
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int error = fd < 0 || write(fd, value, strlen(value)) < 0 ? -errno : 0;
	if (fd >= 0)
		close(fd);
	free(path);
	return error;
}

/* Moves this process out of the delegated directory itself. */
static int enter_own_leaf(const char *base)
{
	char *leaf = xasprintf("%s/" OWN_LEAF, base);
	int error = mkdir(leaf, 0755) < 0 && errno != EEXIST ? -errno : 0;
	char *kill_file = xasprintf("%s/cgroup.kill", leaf);
	if (!error && access(kill_file, W_OK) < 0)
		error = -errno; /* before kernel 5.14 */
	if (!error)
		error = cgroup_enter(leaf);
	if (error)
		rmdir(leaf);
	free(kill_file);
	free(leaf);
	return error;
}

struct cgroup *cgroup_new(void)
{
	bool in_leaf;
	char *base = find_delegated(&in_leaf);
	if (!base)
		return NULL;
	int error = in_leaf ? 0 : enter_own_leaf(base);
	if (error) {
		log_warning("the delegated cgroup %s cannot be used: %s", base, strerror(-error));
		free(base);
		return NULL;
	}
	struct cgroup *cg = xnew(struct cgroup);
	cg->base = base;
	/* For sums and limits of each server; without them servers are ended by cgroup.kill all the same. */
	write_value(base, "cgroup.subtree_control", "+memory");
	write_value(base, "cgroup.subtree_control", "+cpu");
	return cg;
}

void cgroup_free(struct cgroup *cg)
{
	if (!cg)
		return;
	free(cg->base);
	free(cg);
}

int cgroup_set_memory_max(const char *leaf, int64_t bytes)
{
	char text[24];
	snprintf(text, sizeof text, "%lld", (long long)bytes);
	return write_value(leaf, "memory.max", text);
}

unsigned cgroup_oom_kills(const char *leaf)
{
	char *path = xasprintf("%s/memory.events", leaf);
	FILE *f = fopen(path, "re");
	char name[32];
	unsigned long count = 0, kills = 0;
	while (f && fscanf(f, "%31s %lu", name, &count) == 2)
		if (strcmp(name, "oom_kill") == 0)
			kills = count;
	if (f)
		fclose(f);
	free(path);
	return (unsigned)kills;
}

char *cgroup_leaf_new(struct cgroup *cg, const char *name)
{
	char plain[NAME_BYTES + 1];
	size_t len = 0;
	for (; name[len] && len < NAME_BYTES; len++)
		plain[len] = isalnum((unsigned char)name[len]) ? name[len] : '_';
	plain[len] = '\0';
	char *path = NULL;
	int made;
	do {
		/* A leaf of a daemon before us may still be there. */
		free(path);
		path = xasprintf("%s/server-%s-%u", cg->base, plain, ++cg->last_leaf);
		made = mkdir(path, 0755);
	} while (made < 0 && errno == EEXIST);
	if (made == 0)
		return path;
	int error = errno;
	free(path);
	errno = error;
	return NULL;
}
