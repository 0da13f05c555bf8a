#include "transport/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "transport/cgroup.h"
#include "transport/container.h"
#include "transport/proctree.h"

#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif

/* From 3 on, after keeper_keep_only(). */
enum { CONTROL_FD = 3, ORDER_FD, IN_FD, OUT_FD, ERR_FD };

/* Pauses between two looks while killing, in milliseconds; and after how long a tree that will not go is told to the
 * daemon. */
#define KILL_PAUSE_MIN 2
#define KILL_PAUSE_MAX 500
#define KILL_TELL_AFTER 5000
/* How long the program may take that stops a container, beyond the container's own time; and stopping and removing it
 * when the daemon is gone, within what the guard allows. */
#define STOP_MAY_TAKE 6000
#define STOP_MAY_TAKE_ALONE 3000
#define REMOVE_MAY_TAKE_ALONE 1500

/* What is to be started. */
struct launch {
	const char *name, *cwd, *leaf;
	char **programs, **argv, **envp; /* NULL-terminated */
	const char *cidfile;
	char **stop; /* NULL-terminated; empty: no container */
	uint32_t n_stop, stop_seconds;
	bool own_cidfile;
};

/* What the server process says of itself before it becomes the server. Nothing at all: exec has happened. */
struct exec_note {
	int32_t error, stage, cgroup_error;
};

struct keeper {
	struct launch launch;
	int control; /* -1: the daemon is gone */
	int children_fd;
	int exec_fd;  /* the server's words on its exec; -1 once it is silent */
	pid_t main;   /* 0 once reaped */
	bool killing; /* until nothing is left */
	bool told_stuck;
	int kill_pause;
	int64_t kill_since;
	struct exec_note note; /* the last one */
};

static int64_t now_ms(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void keeper_set_title(const char *comm, const char *title)
{
	prctl(PR_SET_NAME, comm);
	char stat[1024];
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	ssize_t len = read(fd, stat, sizeof stat - 1);
	close(fd);
	if (len <= 0)
		return;
	stat[len] = '\0';
	/* The 48th and 49th field are where the arguments begin and end; the third is behind the name. */
	const char *at = strrchr(stat, ')');
	for (int field = 2; at && field < 48; field++)
		at = strchr(at + 1, ' ');
	unsigned long start, end;
	if (!at || sscanf(at, "%lu %lu", &start, &end) != 2 || end <= start)
		return;
	size_t room = end - start;
	memset((void *)start, 0, room); /* NOLINT: our own copy of the arguments */
	memcpy((void *)start, title, strnlen(title, room - 1));
}

void keeper_keep_only(const int *fds, int n)
{
	int high[8];
	/* Out of each other's way first. */
	for (int i = 0; i < n; i++)
		high[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 3 + n);
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	for (int i = 0; i < n; i++)
		dup3(high[i], 3 + i, O_CLOEXEC);
	syscall(SYS_close_range, 3 + n, ~0U, 0);
}

int keeper_watch_children(void)
{
	signal(SIGCHLD, SIG_DFL);
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* --- the order --- */

static char *read_all(int fd, size_t *ret_len)
{
	struct stat st;
	if (fstat(fd, &st) < 0 || st.st_size < (off_t)sizeof(struct keeper_order))
		return NULL;
	size_t size = (size_t)st.st_size, len = 0;
	char *data = malloc(size + 1);
	while (data && len < size) {
		ssize_t got = pread(fd, data + len, size - len, (off_t)len);
		if (got <= 0) {
			free(data);
			return NULL;
		}
		len += (size_t)got;
	}
	if (data)
		data[len] = '\0';
	*ret_len = len;
	return data;
}

static char *next_string(char **at, char *end)
{
	char *text = *at;
	if (text < end)
		*at += strlen(text) + 1;
	return text < end ? text : end;
}

static char **next_list(char **at, char *end, uint32_t n)
{
	char **list = calloc((size_t)n + 1, sizeof *list);
	for (uint32_t i = 0; list && i < n; i++)
		list[i] = next_string(at, end);
	return list;
}

static bool read_order(int fd, struct launch *ret)
{
	size_t len;
	char *data = read_all(fd, &len);
	if (!data)
		return false;
	struct keeper_order head;
	memcpy(&head, data, sizeof head);
	char *at = data + sizeof head, *end = data + len;
	ret->name = next_string(&at, end);
	ret->cwd = next_string(&at, end);
	ret->leaf = next_string(&at, end);
	ret->programs = next_list(&at, end, head.n_programs);
	ret->argv = next_list(&at, end, head.n_args);
	ret->envp = next_list(&at, end, head.n_env);
	ret->cidfile = next_string(&at, end);
	ret->stop = next_list(&at, end, head.n_stop);
	ret->n_stop = head.n_stop;
	ret->stop_seconds = head.stop_seconds;
	ret->own_cidfile = head.own_cidfile;
	return ret->programs && ret->argv && ret->envp && ret->stop;
}

/* --- the server process, up to its exec --- */

/* A script without #! is the shell's, as with execvp(). */
static void exec_by_shell(const char *program, const struct launch *launch)
{
	size_t n = 0;
	while (launch->argv[n])
		n++;
	const char **argv = calloc(n + 2, sizeof *argv);
	if (!argv)
		return;
	argv[0] = "sh";
	argv[1] = program;
	for (size_t i = 1; i < n; i++)
		argv[i + 1] = launch->argv[i];
	execve("/bin/sh", (char *const *)argv, launch->envp);
}

/* Tries the programs in turn; returns the errno that tells most when none could be executed. */
static int exec_first(const struct launch *launch)
{
	int telling = ENOENT;
	for (char *const *program = launch->programs; *program; program++) {
		execve(*program, launch->argv, launch->envp);
		if (errno == ENOEXEC)
			exec_by_shell(*program, launch);
		struct stat st;
		bool is_directory = errno == EACCES && stat(*program, &st) == 0 && S_ISDIR(st.st_mode);
		if (is_directory)
			errno = launch->programs[1] ? ENOENT : EISDIR;
		if (errno == ENOENT || errno == ENOTDIR)
			continue;
		telling = errno;
		if (errno != EACCES)
			break;
	}
	return telling;
}

static void reset_signals(void)
{
	/* Ignored signals and the mask survive exec. Two of the numbers belong to the C library and refuse. */
	for (int signo = 1; signo < _NSIG; signo++)
		signal(signo, SIG_DFL);
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void become_server(const struct launch *launch, int note_fd, pid_t keeper)
{
	/* Nothing may outlive the keeper; it may have gone before this line. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != keeper)
		_exit(127);
	setsid();
	dup2(IN_FD, STDIN_FILENO);
	dup2(OUT_FD, STDOUT_FILENO);
	dup2(ERR_FD, STDERR_FILENO);
	struct exec_note note = { .cgroup_error = launch->leaf[0] ? cgroup_enter(launch->leaf) : 0 };
	if (note.cgroup_error)
		(void)!write(note_fd, &note, sizeof note);
	syscall(SYS_close_range, 3, ~0U, CLOSE_RANGE_CLOEXEC);
	if (chdir(launch->cwd) < 0) {
		note.stage = KEEPER_STAGE_CHDIR;
		note.error = errno;
	} else {
		reset_signals();
		note.stage = KEEPER_STAGE_EXEC;
		note.error = exec_first(launch);
	}
	(void)!write(note_fd, &note, sizeof note);
	_exit(127);
}

/* --- the keeper --- */

static void tell(struct keeper *k, enum keeper_event_type type, int32_t a, int32_t b)
{
	const char *leaf = type == KEEPER_EXITED ? k->launch.leaf : "";
	struct keeper_event event = {
		.type = type,
		.a = a,
		.b = b,
		.keeper = (int32_t)getpid(),
		.out_of_memory = leaf[0] && cgroup_oom_kills(leaf) > 0,
	};
	if (k->control >= 0)
		(void)!send(k->control, &event, sizeof event, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void start_server(struct keeper *k)
{
	int note[2] = { -1, -1 };
	int error = pipe2(note, O_CLOEXEC | O_NONBLOCK) < 0 ? errno : 0;
	pid_t keeper = getpid();
	pid_t pid = error ? -1 : fork();
	if (pid == 0)
		become_server(&k->launch, note[1], keeper);
	if (pid < 0)
		tell(k, KEEPER_FAILED, error ? error : errno, KEEPER_STAGE_FORK);
	if (note[1] >= 0)
		close(note[1]);
	if (pid < 0 && note[0] >= 0)
		close(note[0]);
	k->exec_fd = pid < 0 ? -1 : note[0];
	k->main = pid < 0 ? 0 : pid;
	close(IN_FD);
	close(OUT_FD);
	close(ERR_FD);
}

/* Once the pipe ends, the server has executed, or has said why not. A failed one is reaped without a word: it never
 * was. */
static void read_exec_notes(struct keeper *k)
{
	struct exec_note note;
	ssize_t got;
	while ((got = read(k->exec_fd, &note, sizeof note)) == (ssize_t)sizeof note)
		k->note = note;
	if (got < 0)
		return; /* not yet */
	close(k->exec_fd);
	k->exec_fd = -1;
	if (k->note.error) {
		tell(k, KEEPER_FAILED, k->note.error, k->note.stage);
		k->main = 0;
	} else {
		tell(k, KEEPER_STARTED, k->main, k->note.cgroup_error);
	}
}

/* False when no child is left: the whole tree has ended, since orphans come here. */
static bool reap(struct keeper *k)
{
	for (;;) {
		siginfo_t info = { 0 };
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG) < 0)
			return errno != ECHILD;
		if (info.si_pid == 0)
			return true;
		if (info.si_pid != k->main)
			continue;
		if (k->exec_fd >= 0)
			read_exec_notes(k);
		if (k->main)
			tell(k, KEEPER_EXITED, info.si_code, info.si_status);
		k->main = 0;
	}
}

static void start_killing(struct keeper *k)
{
	if (!k->killing) {
		k->kill_since = now_ms();
		k->kill_pause = KILL_PAUSE_MIN;
	}
	k->killing = true;
}

static void kill_round(struct keeper *k)
{
	struct proctree_result result;
	if (k->launch.leaf[0])
		cgroup_kill(k->launch.leaf);
	proctree_signal(getpid(), SIGKILL, NULL, NULL, &result);
	if (!k->told_stuck && now_ms() - k->kill_since > KILL_TELL_AFTER) {
		k->told_stuck = true;
		tell(k, KEEPER_ENDED, (int32_t)(result.signalled + result.refused), 0);
	}
	k->kill_pause = k->kill_pause * 2 > KILL_PAUSE_MAX ? KILL_PAUSE_MAX : k->kill_pause * 2;
}

static void read_control(struct keeper *k)
{
	char order;
	ssize_t got = recv(k->control, &order, 1, MSG_DONTWAIT);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	struct proctree_result result;
	if (got == 1 && order == KEEPER_TERM) {
		proctree_signal(getpid(), SIGTERM, NULL, NULL, &result);
	} else if (got == 1 && order == KEEPER_KILL) {
		start_killing(k);
	} else {
		close(k->control);
		k->control = -1;
		start_killing(k);
	}
}

static void drain_signals(int fd)
{
	struct signalfd_siginfo info;
	while (read(fd, &info, sizeof info) > 0)
		;
}

/* Removes the leaf; who entered it without being of the tree goes with it. */
static void remove_leaf(const char *leaf)
{
	if (!leaf[0])
		return;
	cgroup_kill(leaf);
	for (int tries = 0; tries < 200 && cgroup_remove(leaf) == -EBUSY; tries++)
		nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
}

/* --- the container --- */

/* Runs the container's program with other arguments, and waits for it. */
static void run_program(struct keeper *k, char *const *argv, int64_t limit_ms)
{
	struct launch launch = k->launch;
	int64_t end = now_ms() + limit_ms;
	launch.argv = (char **)argv;
	pid_t keeper = getpid(), pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != keeper || chdir(launch.cwd) < 0)
			_exit(127);
		setsid();
		reset_signals();
		exec_first(&launch);
		_exit(127);
	}
	while (pid > 0 && waitpid(pid, NULL, WNOHANG) == 0) {
		struct pollfd children = { .fd = k->children_fd, .events = POLLIN };
		int64_t left = end - now_ms();
		if (left <= 0) {
			kill(-pid, SIGKILL);
			waitpid(pid, NULL, 0);
			return;
		}
		poll(&children, 1, (int)left);
		drain_signals(k->children_fd);
	}
}

/* argv: room for four more behind the prefix. */
static void run_on_container(struct keeper *k, char **argv, char *const *words, size_t n, int64_t limit_ms)
{
	size_t at = k->launch.n_stop;
	memcpy(argv, k->launch.stop, at * sizeof *argv);
	memcpy(argv + at, words, n * sizeof *argv);
	argv[at + n] = NULL;
	run_program(k, argv, limit_ms);
}

/* However the client ended, the container may go on: only its id says which it is (R4). */
static void stop_container(struct keeper *k)
{
	const struct launch *launch = &k->launch;
	bool hurry = k->control < 0; /* the daemon is gone, and the guard does not wait for long */
	char id[256], seconds[16];
	char *stop[] = { (char *)"stop", (char *)"-t", seconds, id }, *remove[] = { (char *)"rm", (char *)"-f", id };
	if (launch->n_stop == 0)
		return;
	char **argv = calloc(launch->n_stop + 5, sizeof *argv);
	snprintf(seconds, sizeof seconds, "%u", hurry ? 1u : launch->stop_seconds);
	if (argv && container_read_id(launch->cidfile, id, sizeof id)) {
		run_on_container(k, argv, stop, 4,
				 hurry ? STOP_MAY_TAKE_ALONE : launch->stop_seconds * 1000LL + STOP_MAY_TAKE);
		run_on_container(k, argv, remove, 3, hurry ? REMOVE_MAY_TAKE_ALONE : STOP_MAY_TAKE);
	}
	free(argv);
	if (launch->own_cidfile)
		container_forget(launch->cidfile);
}

static void keep(struct keeper *k)
{
	while (reap(k)) {
		if (k->killing)
			kill_round(k);
		struct pollfd fds[] = { { .fd = k->control, .events = POLLIN },
					{ .fd = k->children_fd, .events = POLLIN },
					{ .fd = k->exec_fd, .events = POLLIN } };
		if (poll(fds, 3, k->killing ? k->kill_pause : -1) <= 0)
			continue;
		if (fds[1].revents)
			drain_signals(k->children_fd);
		if (fds[2].revents)
			read_exec_notes(k);
		if (fds[0].revents)
			read_control(k);
	}
}

_Noreturn void keeper_run(const int fds[KEEPER_FDS])
{
	/* In the order of the names above. */
	const int kept[] = { fds[KEEPER_FD_CONTROL], fds[KEEPER_FD_ORDER], fds[KEEPER_FD_STDIN], fds[KEEPER_FD_STDOUT],
			     fds[KEEPER_FD_STDERR] };
	keeper_keep_only(kept, KEEPER_FDS);
	struct keeper k = { .control = CONTROL_FD, .exec_fd = -1 };
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	prctl(PR_SET_PDEATHSIG, SIGCONT); /* should we have been stopped, and the guard and the daemon be gone */
	k.children_fd = keeper_watch_children();
	if (k.children_fd < 0 || !read_order(ORDER_FD, &k.launch)) {
		tell(&k, KEEPER_FAILED, k.children_fd < 0 ? EMFILE : ENOMEM, KEEPER_STAGE_FORK);
		_exit(1);
	}
	close(ORDER_FD);
	char title[64];
	snprintf(title, sizeof title, "mcpd-keeper: %s", k.launch.name);
	keeper_set_title("mcpd-keeper", title);
	start_server(&k);
	keep(&k);
	stop_container(&k);
	remove_leaf(k.launch.leaf);
	if (!k.told_stuck)
		tell(&k, KEEPER_ENDED, 0, 0);
	_exit(0);
}
