#include "proto/socket_path.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BELOW_RUNTIME_DIR "mcpd/mcpd.sock"

static const char *get(const char *const *environment, const char *name)
{
	size_t len = strlen(name);
	for (; environment && *environment; environment++)
		if (strncmp(*environment, name, len) == 0 && (*environment)[len] == '=' && (*environment)[len + 1])
			return *environment + len + 1;
	return NULL;
}

/* A formatted text on the heap; NULL when memory is short. */
__attribute__((format(printf, 1, 2))) static char *text(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	int len = vsnprintf(NULL, 0, format, args);
	va_end(args);
	char *result = len < 0 ? NULL : malloc((size_t)len + 1);
	if (!result)
		return NULL;
	va_start(args, format);
	vsnprintf(result, (size_t)len + 1, format, args);
	va_end(args);
	return result;
}

static int problem(int error, char **ret_problem, char *message)
{
	*ret_problem = message;
	return message ? error : -ENOMEM;
}

/* A relative path means the same file for the daemon that is started with it only if it is made absolute first. */
static int absolute(const char *path, const char *from, char **ret_path, char **ret_problem)
{
	char cwd[PATH_MAX] = "";
	if (!*path)
		return problem(-EINVAL, ret_problem, text("the socket path from %s is empty", from));
	if (*path != '/' && !getcwd(cwd, sizeof cwd)) {
		int error = -errno;
		return problem(
			error, ret_problem,
			text("the socket path %s from %s is relative, and the working directory cannot be read: %s",
			     path, from, strerror(-error)));
	}
	bool joined = *path != '/' && strcmp(cwd, "/") != 0;
	*ret_path = text("%s%s%s", joined ? cwd : "", *path == '/' ? "" : "/", path);
	return *ret_path ? 0 : -ENOMEM;
}

static bool is_own_directory(const char *path)
{
	struct stat st;
	return lstat(path, &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == geteuid();
}

static int from_runtime_dir(const char *const *environment, char **ret_path, char **ret_problem)
{
	const char *runtime = get(environment, "XDG_RUNTIME_DIR");
	if (runtime && *runtime != '/')
		return problem(
			-EINVAL, ret_problem,
			text("XDG_RUNTIME_DIR is \"%s\", which is no absolute path; set it to a directory of your own, "
			     "or set MCPD_SOCKET",
			     runtime));
	char standard[sizeof("/run/user/") + 20];
	snprintf(standard, sizeof standard, "/run/user/%u", (unsigned)geteuid());
	if (!runtime && !is_own_directory(standard))
		return problem(
			-ENOENT, ret_problem,
			text("XDG_RUNTIME_DIR is not set and %s is not a directory of yours; set XDG_RUNTIME_DIR to a "
			     "directory only you can enter, or name the socket with --socket or MCPD_SOCKET",
			     standard));
	*ret_path = text("%s/" BELOW_RUNTIME_DIR, runtime ? runtime : standard);
	return *ret_path ? 0 : -ENOMEM;
}

int socket_path_find(const char *option, const char *const *environment, char **ret_path, char **ret_problem)
{
	*ret_path = NULL;
	*ret_problem = NULL;
	const char *from_environment = option ? NULL : get(environment, "MCPD_SOCKET");
	int r;
	if (option)
		r = absolute(option, "--socket", ret_path, ret_problem);
	else if (from_environment)
		r = absolute(from_environment, "MCPD_SOCKET", ret_path, ret_problem);
	else
		r = from_runtime_dir(environment, ret_path, ret_problem);
	if (r < 0 || strlen(*ret_path) <= SOCKET_PATH_MAX)
		return r;
	r = problem(
		-ENAMETOOLONG, ret_problem,
		text("the socket path is %zu bytes long, and the system allows %d: %s; choose a shorter one with --socket or "
		     "MCPD_SOCKET",
		     strlen(*ret_path), SOCKET_PATH_MAX, *ret_path));
	free(*ret_path);
	*ret_path = NULL;
	return r;
}
