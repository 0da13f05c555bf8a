/* Other programs: finding them, and running them to their end. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ctl.h"

#define OUTPUT_MAX 65536

extern char **environ;

static bool is_program(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* Takes over the path; NULL if it is no program. */
static char *if_program(char *path)
{
	if (path && is_program(path))
		return path;
	free(path);
	return NULL;
}

static char *join(struct span folder, const char *name)
{
	struct buf path = BUF_INIT;
	buf_add_span(&path, folder);
	buf_addf(&path, "/%s", name);
	return buf_steal(&path);
}

/* Absolute entries of PATH alone: what a service runs must not depend on where it was set up from. */
static char *find_on_path(const char *name)
{
	const char *path = getenv("PATH");
	for (const char *at = path ? path : "/usr/local/bin:/usr/bin:/bin"; at;) {
		const char *end = strchrnul(at, ':');
		struct span folder = { at, (size_t)(end - at) };
		char *found = *at == '/' ? if_program(join(folder, name)) : NULL;
		if (found)
			return found;
		at = *end ? end + 1 : NULL;
	}
	return NULL;
}

static char *find_beside(const char *name)
{
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
	if (n <= 0)
		return NULL;
	self[n] = '\0';
	const char *slash = strrchr(self, '/');
	return slash ? if_program(join((struct span){ self, (size_t)(slash - self) }, name)) : NULL;
}

static bool same_file(const char *a, const char *b)
{
	struct stat sa, sb;
	return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

char *find_daemon(void)
{
	const char *named = getenv("MCPD_PROGRAM");
	if (named && strchr(named, '/')) {
		char *path = realpath(named, NULL);
		return if_program(path);
	}
	if (named && *named)
		return find_on_path(named);
	char *beside = find_beside("mcpd"), *on_path = find_on_path("mcpd");
	/* The same one by the name that people use, which may be a link that the next version moves. */
	if (!beside || (on_path && same_file(beside, on_path))) {
		free(beside);
		return on_path;
	}
	free(on_path);
	return beside;
}

static void read_all(int fd, struct buf *out)
{
	char bytes[4096];
	ssize_t n;
	while ((n = read(fd, bytes, sizeof bytes)) > 0 || (n < 0 && errno == EINTR))
		if (n > 0 && out->len + (size_t)n <= OUTPUT_MAX)
			buf_add(out, bytes, (size_t)n);
}

int run_program(const char *const *argv, struct buf *out)
{
	int fds[2];
	buf_init(out, 0);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	posix_spawn_file_actions_t actions;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, fds[1], STDOUT_FILENO);
	posix_spawn_file_actions_adddup2(&actions, fds[1], STDERR_FILENO);
	pid_t pid;
	int error = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(fds[1]);
	int status = 0;
	if (error == 0) {
		read_all(fds[0], out);
		while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
	}
	close(fds[0]);
	/* For messages: without the last line end. */
	while (out->len && out->data[out->len - 1] == '\n')
		buf_truncate(out, out->len - 1);
	if (error)
		return -error;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int run_systemctl(struct buf *out, const char *verb, const char *a, const char *b, const char *c)
{
	/* A shell that su or cron made has no XDG_RUNTIME_DIR, and the user manager may be there all the same. */
	char standard[64];
	struct stat st;
	snprintf(standard, sizeof standard, "/run/user/%u", (unsigned)getuid());
	if (!getenv("XDG_RUNTIME_DIR") && stat(standard, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == getuid())
		setenv("XDG_RUNTIME_DIR", standard, 1);
	return run_program((const char *const[]){ "systemctl", "--user", verb, a, b, c, NULL }, out);
}
