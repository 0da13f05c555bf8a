#include "transport/container.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/buf.h"
#include "xalloc.h"

#define CID_SUFFIX ".cid"
#define RECIPE_SUFFIX ".stop"
#define NAME_SHOWN 40
#define RECIPE_MAX 65536

/* Options in front of "run" that take their value from the next argument. */
static const char *const with_value[] = {
	"--config",
	"--context",
	"-c",
	"--host",
	"-H",
	"--log-level",
	"-l",
	"--tlscacert",
	"--tlscert",
	"--tlskey",
	"--connection",
	"--url",
	"--identity",
	"--root",
	"--runroot",
	"--imagestore",
	"--storage-driver",
	"--storage-opt",
	"--cgroup-manager",
	"--conmon",
	"--hooks-dir",
	"--module",
	"--namespace",
	"--network-cmd-path",
	"--network-config-dir",
	"--out",
	"--runtime",
	"--runtime-flag",
	"--ssh",
	"--tmpdir",
	"--volumepath",
	"--events-backend",
	"--default-mounts-file",
	"--registries-conf",
};

static bool takes_value(const char *option)
{
	for (size_t i = 0; i < sizeof with_value / sizeof *with_value; i++)
		if (strcmp(option, with_value[i]) == 0)
			return true;
	return false;
}

static bool is_container_program(const char *command)
{
	const char *slash = strrchr(command, '/');
	const char *name = slash ? slash + 1 : command;
	return strcmp(name, "docker") == 0 || strcmp(name, "podman") == 0 || strcmp(name, "nerdctl") == 0;
}

/* The index of "run", of "docker [option..] run" or "docker [option..] container run"; -1 if it is another command. */
static int find_run(const char *const *args, int *ret_prefix)
{
	int i = 0;
	while (args[i] && args[i][0] == '-')
		i += takes_value(args[i]) && args[i + 1] ? 2 : 1;
	*ret_prefix = i;
	if (args[i] && strcmp(args[i], "container") == 0)
		i++;
	return args[i] && strcmp(args[i], "run") == 0 ? i : -1;
}

/* The --cidfile that the configuration itself asks for, or NULL. */
static const char *own_cidfile(const char *const *args)
{
	for (; *args && strcmp(*args, "--") != 0; args++) {
		if (strncmp(*args, "--cidfile=", strlen("--cidfile=")) == 0)
			return *args + strlen("--cidfile=");
		if (strcmp(*args, "--cidfile") == 0)
			return args[1];
	}
	return NULL;
}

static char **copy_prefix(const char *command, const char *const *args, int n)
{
	char **prefix = xnew_array(char *, (size_t)n + 2);
	prefix[0] = xstrdup(command);
	for (int i = 0; i < n; i++)
		prefix[i + 1] = xstrdup(args[i]);
	return prefix;
}

/* The arguments with ours behind "run"; NULL: as they are. */
static char **copy_args(const char *const *args, int run, const char *cidfile)
{
	size_t n = 0, len = 0;
	while (args[n])
		n++;
	char **copy = xnew_array(char *, n + 2);
	for (size_t i = 0; i < n; i++) {
		copy[len++] = xstrdup(args[i]);
		if (cidfile && (int)i == run)
			copy[len++] = xasprintf("--cidfile=%s", cidfile);
	}
	return copy;
}

/* A name that no other start has: the program refuses to write over a file. */
static char *own_path(const char *dir, const char *name, const char *suffix, unsigned long number)
{
	char plain[NAME_SHOWN + 1];
	size_t len = 0;
	for (; name[len] && len < NAME_SHOWN; len++)
		plain[len] = isalnum((unsigned char)name[len]) || strchr("_-", name[len]) ? name[len] : '_';
	plain[len] = '\0';
	return xasprintf("%s/%s-%ld-%lu%s", dir, plain, (long)getpid(), number, suffix);
}

bool container_run_find(const char *command, const char *const *args, const char *dir, const char *name,
			struct container_run *ret)
{
	static const char *const none[] = { NULL };
	int n_prefix;
	args = args ? args : none;
	int run = is_container_program(command) ? find_run(args, &n_prefix) : -1;
	const char *own = run >= 0 ? own_cidfile(args + run) : NULL;
	if (run < 0 || (!own && !dir))
		return false;
	*ret = (struct container_run){ .prefix = copy_prefix(command, args, n_prefix) };
	if (own) {
		ret->cidfile = xstrdup(own);
	} else {
		/* The plan's own address is as good a number as any: it is used once, with our pid. */
		unsigned long number = (unsigned long)(uintptr_t)ret->prefix;
		ret->cidfile = own_path(dir, name, CID_SUFFIX, number);
		ret->recipe = own_path(dir, name, RECIPE_SUFFIX, number);
	}
	ret->args = copy_args(args, run, own ? NULL : ret->cidfile);
	return true;
}

static void free_list(char **list)
{
	for (char **item = list; item && *item; item++)
		free(*item);
	free(list);
}

void container_run_done(struct container_run *run)
{
	free_list(run->args);
	free_list(run->prefix);
	free(run->cidfile);
	free(run->recipe);
	*run = (struct container_run){ 0 };
}

int container_run_note(const struct container_run *run)
{
	struct buf text = BUF_INIT;
	int error = 0;
	if (!run->recipe)
		return 0;
	char *slash = strrchr(run->recipe, '/');
	*slash = '\0';
	(void)mkdir(run->recipe, 0700);
	*slash = '/';
	(void)unlink(run->cidfile);
	for (char *const *item = run->prefix; *item; item++)
		buf_add(&text, *item, strlen(*item) + 1);
	int fd = open(run->recipe, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (buf_failed(&text))
		error = text.error;
	else if (fd < 0)
		error = -errno;
	else if (write(fd, text.data, text.len) != (ssize_t)text.len)
		error = -EIO;
	if (fd >= 0)
		close(fd);
	buf_done(&text);
	return error;
}

static ssize_t read_file(const char *path, char *data, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return -1;
	ssize_t len = read(fd, data, size);
	close(fd);
	return len;
}

bool container_read_id(const char *cidfile, char *id, unsigned size)
{
	ssize_t len = read_file(cidfile, id, size - 1);
	if (len <= 0)
		return false;
	id[len] = '\0';
	id[strcspn(id, "\r\n")] = '\0';
	/* It becomes an argument. */
	return strlen(id) >= 12 && strspn(id, "0123456789abcdefABCDEF") == strlen(id);
}

void container_forget(const char *cidfile)
{
	char recipe[4096];
	size_t stem = strlen(cidfile) - strlen(CID_SUFFIX);
	(void)unlink(cidfile);
	if (snprintf(recipe, sizeof recipe, "%.*s" RECIPE_SUFFIX, (int)stem, cidfile) < (int)sizeof recipe)
		(void)unlink(recipe);
}

/* The recipe's arguments with "rm -f ID" behind them. */
static void hand_out(char *recipe, size_t len, char *id, void (*fn)(void *arg, char *const *argv), void *arg)
{
	char *argv[64];
	size_t n = 0;
	for (char *at = recipe; at < recipe + len && n < sizeof argv / sizeof *argv - 4; at += strlen(at) + 1)
		argv[n++] = at;
	if (n == 0)
		return;
	argv[n++] = (char *)"rm";
	argv[n++] = (char *)"-f";
	argv[n++] = id;
	argv[n] = NULL;
	fn(arg, argv);
}

static void take_left(const char *recipe_path, void (*fn)(void *arg, char *const *argv), void *arg)
{
	char id[256], *recipe = xnew_array(char, RECIPE_MAX + 1);
	char *cidfile = xasprintf("%.*s" CID_SUFFIX, (int)(strlen(recipe_path) - strlen(RECIPE_SUFFIX)), recipe_path);
	ssize_t len = read_file(recipe_path, recipe, RECIPE_MAX);
	bool has_id = container_read_id(cidfile, id, sizeof id);
	container_forget(cidfile);
	if (len > 0 && has_id)
		hand_out(recipe, (size_t)len, id, fn, arg);
	free(cidfile);
	free(recipe);
}

void container_walk_left(const char *dir, void (*fn)(void *arg, char *const *argv), void *arg)
{
	DIR *stream = opendir(dir);
	for (struct dirent *entry; stream && (entry = readdir(stream));) {
		size_t len = strlen(entry->d_name), suffix = strlen(RECIPE_SUFFIX);
		if (len <= suffix || strcmp(entry->d_name + len - suffix, RECIPE_SUFFIX) != 0)
			continue;
		char *path = xasprintf("%s/%s", dir, entry->d_name);
		take_left(path, fn, arg);
		free(path);
	}
	if (stream)
		closedir(stream);
}
