#include "transport/order.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/buf.h"
#include "transport/keeper.h"
#include "xalloc.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define DEFAULT_PATH "/usr/local/bin:/usr/bin:/bin"

static const char *env_value(char *const *env, const char *name)
{
	size_t len = strlen(name);
	for (; *env; env++)
		if (strncmp(*env, name, len) == 0 && (*env)[len] == '=')
			return *env + len + 1;
	return NULL;
}

static bool same_name(const char *a, const char *b)
{
	size_t len = strcspn(a, "=");
	return strncmp(a, b, len) == 0 && b[len] == '=';
}

/* What systemd told the daemon is not for the servers. */
static bool is_private(const char *variable)
{
	static const char *const names[] = { "NOTIFY_SOCKET=",  "LISTEN_FDS=",    "LISTEN_PID=",  "LISTEN_FDNAMES=",
					     "LISTEN_PIDFDID=", "WATCHDOG_USEC=", "WATCHDOG_PID=" };
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strncmp(variable, names[i], strlen(names[i])) == 0)
			return true;
	return false;
}

/* The daemon's environment with `own` added and replaced. The texts are not copied; free() the list. */
static char **merge_env(const char *const *own)
{
	size_t n_own = 0, n = 0;
	while (own && own[n_own])
		n_own++;
	while (environ[n])
		n++;
	char **merged = xnew_array(char *, n + n_own + 1);
	size_t len = 0;
	for (char **variable = environ; *variable; variable++) {
		bool replaced = is_private(*variable);
		for (size_t i = 0; i < n_own && !replaced; i++)
			replaced = same_name(*variable, own[i]);
		if (!replaced)
			merged[len++] = *variable;
	}
	for (size_t i = 0; i < n_own; i++)
		merged[len++] = (char *)own[i];
	return merged;
}

static void add_string(struct buf *b, const char *text)
{
	buf_add(b, text, strlen(text) + 1);
}

static uint32_t add_list(struct buf *b, const char *const *list)
{
	uint32_t n = 0;
	for (; list && list[n]; n++)
		add_string(b, list[n]);
	return n;
}

/* The programs to try: the command itself, or what it would be in each directory of PATH. */
static uint32_t add_programs(struct buf *b, const char *command, const char *path)
{
	if (strchr(command, '/')) {
		add_string(b, command);
		return 1;
	}
	uint32_t n = 0;
	for (const char *at = path;; n++) {
		size_t len = strcspn(at, ":");
		/* An empty entry means the current directory. */
		buf_add(b, len ? at : ".", len ? len : 1);
		buf_add_char(b, '/');
		add_string(b, command);
		if (!at[len])
			return n + 1;
		at += len + 1;
	}
}

static void build(struct buf *b, const struct order *order, char *const *env, const char *path, const char *cwd)
{
	struct keeper_order head = { 0 };
	buf_add(b, &head, sizeof head);
	add_string(b, order->name);
	add_string(b, cwd);
	add_string(b, order->leaf ? order->leaf : "");
	head.n_programs = add_programs(b, order->command, path);
	add_string(b, order->command);
	head.n_args = 1 + add_list(b, order->args);
	head.n_env = add_list(b, (const char *const *)env);
	add_string(b, order->cidfile ? order->cidfile : "");
	head.n_stop = add_list(b, order->stop);
	head.own_cidfile = order->own_cidfile;
	head.stop_seconds = (uint32_t)((order->grace_ms + 999) / 1000);
	if (!buf_failed(b))
		memcpy(b->data, &head, sizeof head);
}

static int write_file(struct span order, int *ret_fd)
{
	int fd = memfd_create("mcpd-order", MFD_CLOEXEC | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL) /* before kernel 6.3 */
		fd = memfd_create("mcpd-order", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (size_t done = 0; done < order.len;) {
		ssize_t written = write(fd, order.ptr + done, order.len - done);
		if (written < 0) {
			int error = -errno;
			close(fd);
			return error;
		}
		done += (size_t)written;
	}
	*ret_fd = fd;
	return 0;
}

int order_write(const struct order *order, int *ret_fd, char **ret_path, char **ret_cwd)
{
	char **env = merge_env(order->env);
	const char *path = env_value(env, "PATH");
	const char *home = env_value(env, "HOME");
	*ret_path = xstrdup(path ? path : DEFAULT_PATH);
	*ret_cwd = xstrdup(order->cwd ? order->cwd : home && *home ? home : "/");
	struct buf b = BUF_INIT;
	build(&b, order, env, *ret_path, *ret_cwd);
	int error = buf_failed(&b) ? b.error : write_file(buf_span(&b), ret_fd);
	buf_done(&b);
	free(env);
	return error;
}
