/*
 * Starting the daemon from a library: the host program must notice nothing.
 *
 * The daemon is a grandchild, so that nobody has to wait for it. The process in between is cloned with no exit signal: the host gets no SIGCHLD, and
 * its own waitpid(-1) does not see it; we reap it with __WALL. Everything that needs memory or locks happens before the clone; after it only system calls
 * are made, since another thread of the host may hold any lock.
 */
#include "reach.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static bool is_program(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

/* The program along PATH; *ret_path NULL if it is not there. 0 or -ENOMEM. */
static int find_on_path(const char *name, char **ret_path)
{
	const char *path = getenv("PATH");
	*ret_path = NULL;
	for (const char *at = path ? path : "/usr/local/bin:/usr/bin:/bin"; at;) {
		const char *end = strchrnul(at, ':');
		struct buf candidate = BUF_INIT;
		buf_add(&candidate, at, (size_t)(end - at));
		buf_addf(&candidate, "%s%s", end == at ? "./" : "/", name);
		char *text = buf_steal(&candidate);
		if (!text)
			return -ENOMEM;
		if (is_program(text)) {
			*ret_path = text;
			return 0;
		}
		free(text);
		at = *end ? end + 1 : NULL;
	}
	return 0;
}

static int find_program(struct reach *reach, char **ret_path)
{
	const char *wanted = reach->program;
	if (!wanted) {
		wanted = getenv("MCPD_PROGRAM");
		if (!wanted || !*wanted)
			wanted = "mcpd";
	}
	*ret_path = NULL;
	if (strchr(wanted, '/'))
		*ret_path = strdup(wanted);
	else if (find_on_path(wanted, ret_path) == 0 && !*ret_path)
		return reach_fail(reach, -ENOENT, "no daemon listens on %s, and %s was not found along PATH",
				  reach->socket_path, wanted);
	return *ret_path ? 0 : reach_fail(reach, -ENOMEM, "out of memory");
}

/* fork(2) without the C library's handlers, and with the exit signal of our choice (0: none). */
static pid_t raw_fork(int exit_signal)
{
#ifdef __s390__
	return (pid_t)syscall(SYS_clone, 0L, (long)exit_signal, 0L, 0L, 0L);
#else
	return (pid_t)syscall(SYS_clone, (long)exit_signal, 0L, 0L, 0L, 0L);
#endif
}

static void write_text(int fd, const char *text)
{
	ssize_t n = write(fd, text, strlen(text));
	(void)n;
}

/* In the daemon-to-be. */
static _Noreturn void become_daemon(const char *program, char *const *argv, int log_fd)
{
	struct sigaction action = { .sa_handler = SIG_DFL };
	for (int signo = 1; signo < NSIG; signo++)
		sigaction(signo, &action, NULL);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	setsid();
	int null_fd = open("/dev/null", O_RDWR);
	dup2(null_fd, STDIN_FILENO);
	dup2(null_fd, STDOUT_FILENO);
	dup2(log_fd, STDERR_FILENO);
	syscall(SYS_close_range, 3U, ~0U, 0U);
	if (chdir("/") == 0)
		execve(program, argv, environ);
	write_text(STDERR_FILENO, "cannot run ");
	write_text(STDERR_FILENO, program);
	write_text(STDERR_FILENO, errno == ENOENT  ? ": no such file" :
				  errno == EACCES  ? ": permission denied" :
				  errno == ENOEXEC ? ": not a program" :
						     ": exec failed");
	_exit(127);
}

int spawn_daemon(struct reach *reach)
{
	char *program;
	int r = find_program(reach, &program);
	if (r < 0)
		return r;
	int fds[2];
	if (pipe2(fds, O_CLOEXEC) < 0) {
		r = reach_fail(reach, -errno, "cannot make a pipe: %s", strerror(errno));
		free(program);
		return r;
	}
	fcntl(fds[0], F_SETFL, O_NONBLOCK);
	const char *const argv[] = { "mcpd", "--background", "--socket", reach->socket_path, NULL };
	pid_t starter = raw_fork(0);
	if (starter == 0) {
		pid_t daemon = raw_fork(SIGCHLD);
		if (daemon == 0)
			become_daemon(program, (char *const *)argv, fds[1]);
		_exit(daemon < 0);
	}
	if (starter < 0)
		r = reach_fail(reach, -errno, "cannot start %s: %s", program, strerror(errno));
	close(fds[1]);
	free(program);
	if (r < 0) {
		close(fds[0]);
		return r;
	}
	reach->fd = fds[0];
	reach->starter = starter;
	return 0;
}

void spawn_reap(pid_t starter)
{
	if (starter <= 0)
		return;
	/* It does nothing but fork and exit: this does not wait in practice. */
	while (waitpid(starter, NULL, __WALL) < 0 && errno == EINTR)
		;
}
