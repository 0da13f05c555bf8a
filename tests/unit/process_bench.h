/* Real children for the tests of transport/process.h and transport/stdio.h: started, watched, and looked for in
 * /proc. */
#pragma once

#include <check.h>
#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "loop_wait.h"
#include "transport/process.h"

#define PYTHON "/usr/bin/python3"

/* One process and what was told of it. */
struct running {
	struct process *process;
	int to_stdin, from_stdout; /* our ends */
	unsigned started, exited, ended;
	bool permanent, signalled;
	char error[1000], how[200];
	char output[100000];
	size_t output_len;
};

static struct loop *loop;
static struct process_host *host;

static inline void bench_start(void)
{
	host = process_host_new();
	ck_assert_ptr_nonnull(host);
	loop = loop_new();
	process_host_attach(host, loop);
}

static inline void bench_stop(void)
{
	loop_settle(loop);
	process_host_free(host);
	loop_free(loop);
}

static inline void running_on_started(void *arg, const char *error, bool permanent)
{
	struct running *r = arg;
	r->started++;
	r->permanent = permanent;
	snprintf(r->error, sizeof r->error, "%s", error ? error : "");
}

static inline void running_on_exit(void *arg, const char *how, bool signalled)
{
	struct running *r = arg;
	r->exited++;
	r->signalled = signalled;
	snprintf(r->how, sizeof r->how, "%s", how);
}

static inline void running_on_ended(void *arg)
{
	((struct running *)arg)->ended++;
}

/* args: NULL-terminated; options->command, args, env, cwd and grace_ms count. */
static inline void run_with(struct running *r, const struct process_options *given)
{
	static const struct process_callbacks callbacks = { running_on_started, running_on_exit, running_on_ended };
	int in[2], out[2];
	*r = (struct running){ 0 };
	ck_assert_int_eq(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC), 0);
	struct process_options options = *given;
	options.name = "test";
	options.stdin_fd = in[0];
	options.stdout_fd = out[1];
	options.stderr_fd = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
	r->to_stdin = in[1];
	r->from_stdout = out[0];
	fcntl(r->from_stdout, F_SETFL, O_NONBLOCK);
	r->process = process_start(host, loop, &options, &callbacks, r);
	ck_assert_uint_eq(r->started, 0);
}

#define run(r, command_, grace_, ...)                                                                                  \
	run_with((r), &(struct process_options){ .command = (command_),                                                \
						 .args = (const char *const[]){ __VA_ARGS__, NULL },                   \
						 .grace_ms = (grace_) })

/* Takes what is on its stdout; the whole output so far. */
static inline const char *running_output(struct running *r)
{
	ssize_t n;
	while ((n = read(r->from_stdout, r->output + r->output_len, sizeof r->output - 1 - r->output_len)) > 0)
		r->output_len += (size_t)n;
	return r->output;
}

static inline bool running_said(struct running *r, const char *word)
{
	return strstr(running_output(r), word) != NULL;
}

static inline void running_close_stdin(struct running *r)
{
	if (r->to_stdin >= 0)
		close(r->to_stdin);
	r->to_stdin = -1;
}

/* Ends it, waits, and frees it. */
static inline void running_end(struct running *r)
{
	running_close_stdin(r);
	process_end(r->process);
	loop_wait(loop, r->ended == 1);
	process_free(r->process);
	close(r->from_stdout);
}

static inline bool is_zombie(const char *pid)
{
	char path[300], stat[512];
	snprintf(path, sizeof path, "/proc/%s/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, stat, sizeof stat - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return true; /* gone */
	stat[n] = '\0';
	const char *behind = strrchr(stat, ')');
	return !behind || behind[2] == 'Z' || behind[2] == 'X';
}

/* Whether a file in /proc/PID holds this text between two zero bytes. */
static inline bool proc_file_has(const char *pid, const char *file, const char *text)
{
	static char data[200000];
	char path[300];
	snprintf(path, sizeof path, "/proc/%s/%s", pid, file);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	size_t len = 0;
	ssize_t n;
	while ((n = read(fd, data + len, sizeof data - len)) > 0)
		len += (size_t)n;
	close(fd);
	return memmem(data, len, text, strlen(text) + 1) != NULL;
}

/* The living processes with this variable (NAME=value) in their environment; one of them is put into ret_pid, if
 * there is any. */
static inline unsigned count_marked(const char *mark, pid_t *ret_pid)
{
	unsigned count = 0;
	DIR *proc = opendir("/proc");
	for (struct dirent *de; (de = readdir(proc));) {
		if (!isdigit((unsigned char)de->d_name[0]) || !proc_file_has(de->d_name, "environ", mark) ||
		    is_zombie(de->d_name))
			continue;
		count++;
		if (ret_pid)
			*ret_pid = (pid_t)atoi(de->d_name);
	}
	closedir(proc);
	return count;
}

/* The living children of a process with this name (comm); one of them in ret_pid. */
static inline unsigned count_children(pid_t parent, const char *comm, pid_t *ret_pid)
{
	unsigned count = 0;
	DIR *proc = opendir("/proc");
	for (struct dirent *de; (de = readdir(proc));) {
		if (!isdigit((unsigned char)de->d_name[0]) || is_zombie(de->d_name))
			continue;
		char path[300], name[32];
		int ppid = 0;
		snprintf(path, sizeof path, "/proc/%s/stat", de->d_name);
		FILE *f = fopen(path, "re");
		if (f && fscanf(f, "%*d (%31[^)]) %*c %d", name, &ppid) == 2 && ppid == parent &&
		    strcmp(name, comm) == 0) {
			count++;
			if (ret_pid)
				*ret_pid = (pid_t)atoi(de->d_name);
		}
		if (f)
			fclose(f);
	}
	closedir(proc);
	return count;
}
