/* transport/process.h, the end: whole trees, on every path, also when the daemon, a keeper or the guard is killed
 * (R3; ARCHITECTURE "Processes"; PITFALLS "Children"). */
#include "run.h"

#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "process_bench.h"
#include "transport/cgroup.h"

/* Says READY once two processes exist that want to stay: one that ignores end of file and every signal, and one
 * double-forked with a session of its own that does the same. Everything carries the mark in its environment. */
static const char stubborn[] = "import os, signal, sys\n"
			       "for s in range(1, 32):\n"
			       "    if s not in (9, 19, 17): signal.signal(s, signal.SIG_IGN)\n"
			       "r, w = os.pipe()\n"
			       "if os.fork() == 0:\n"
			       "    os.setsid()\n"
			       "    if os.fork() == 0:\n"
			       "        os.setsid()\n"
			       "        os.write(w, b'x')\n"
			       "        while True: signal.pause()\n"
			       "    os._exit(0)\n"
			       "os.wait()\n"
			       "os.read(r, 1)\n"
			       "print('READY', flush=True)\n"
			       "if len(sys.argv) > 1 and sys.argv[1] == 'leave': os._exit(0)\n"
			       "while True: signal.pause()\n";

static char mark[64];
static const char *marked_env[2];

/* A mark that no other test has. */
static void make_mark(const char *word)
{
	snprintf(mark, sizeof mark, "MCPD_TEST_MARK=%s-%d", word, (int)getpid());
	marked_env[0] = mark;
}

static void run_stubborn(struct running *r, int64_t grace_ms, const char *how)
{
	/* R3: a launcher in between, as npx and uvx are. */
	run_with(r, &(struct process_options){
			    .command = "/bin/sh",
			    .args = (const char *const[]){ "-c", "\"$0\" -c \"$1\" $2; exit $?", PYTHON, stubborn, how,
							   NULL },
			    .env = marked_env,
			    .grace_ms = grace_ms,
		    });
	loop_wait(loop, running_said(r, "READY"));
}

START_TEST(R3_everything_ends_that_ignores_everything)
{
	make_mark("stubborn");
	bench_start();
	struct running r;
	run_stubborn(&r, 50, "stay");
	ck_assert_uint_eq(count_marked(mark, NULL), 3);
	int64_t before = loop_now_ms();
	running_end(&r);
	ck_assert_int_ge(loop_now_ms() - before, 100); /* two times grace */
	ck_assert_uint_eq(count_marked(mark, NULL), 0);
	ck_assert_uint_eq(r.exited, 1);
	ck_assert(r.signalled);
	bench_stop();
}
END_TEST

START_TEST(R3_what_a_dead_launcher_left_is_ended_too)
{
	make_mark("left");
	bench_start();
	struct running r;
	run_stubborn(&r, 50, "leave");
	loop_wait(loop, r.exited);
	ck_assert_str_eq(r.how, "exit status 0");
	ck_assert(!r.signalled);
	ck_assert_uint_eq(count_marked(mark, NULL), 1);
	running_end(&r);
	ck_assert_uint_eq(count_marked(mark, NULL), 0);
	bench_stop();
}
END_TEST

START_TEST(S9_closed_input_then_SIGTERM_then_SIGKILL)
{
	bench_start();
	struct running r;
	/* Closed input is enough; the long grace is not waited for. */
	run(&r, "cat", 600000, "-");
	loop_wait(loop, r.started);
	running_end(&r);
	ck_assert_str_eq(r.how, "exit status 0");
	ck_assert(!r.signalled);
	/* SIGTERM is, also for a stopped process; it may clean up. */
	run(&r, "/bin/sh", 30, "-c",
	    "trap 'echo cleaned; exit 5' TERM; kill -STOP $$; echo on; while :; do read x || sleep 0.01; done");
	loop_wait(loop, r.started);
	running_end(&r);
	ck_assert_str_eq(r.how, "exit status 5");
	ck_assert(r.signalled);
	bench_stop();
}
END_TEST

START_TEST(one_servers_end_does_not_touch_another)
{
	bench_start();
	struct running a, b;
	make_mark("a");
	run_stubborn(&a, 20, "stay");
	char mark_a[64];
	strcpy(mark_a, mark);
	make_mark("b");
	run_stubborn(&b, 20, "leave");
	loop_wait(loop, b.exited);
	running_end(&a);
	ck_assert_uint_eq(count_marked(mark_a, NULL), 0);
	ck_assert_uint_eq(count_marked(mark, NULL), 1);
	/* Both daemonised ones hang below their own keeper, so the other end finds its own. */
	running_end(&b);
	ck_assert_uint_eq(count_marked(mark, NULL), 0);
	bench_stop();
}
END_TEST

/* A daemon of our own, in a process of its own: starts two stubborn servers, says so, and waits. */
static pid_t fork_daemon(int *ret_said, bool as_service)
{
	int said[2];
	ck_assert_int_eq(pipe(said), 0);
	pid_t pid = fork();
	if (pid == 0) {
		struct running a, b;
		char own[16];
		snprintf(own, sizeof own, "%d", (int)getpid());
		if (as_service)
			setenv("SYSTEMD_EXEC_PID", own, 1);
		bench_start();
		run_stubborn(&a, 600000, "stay");
		run_stubborn(&b, 600000, "leave");
		loop_wait(loop, b.exited);
		if (write(said[1], "x", 1) == 1)
			loop_run(loop);
		_exit(0);
	}
	close(said[1]);
	*ret_said = said[0];
	return pid;
}

static void wait_gone(void)
{
	int64_t give_up = loop_now_ms() + LOOP_WAIT_MS;
	while (count_marked(mark, NULL) > 0) {
		ck_assert_msg(loop_now_ms() < give_up, "%u processes survive", count_marked(mark, NULL));
		usleep(5000);
	}
}

START_TEST(R3_a_daemon_that_is_killed_leaves_nothing)
{
	make_mark("killed");
	setenv("MCPD_TEST_MARK", strchr(mark, '=') + 1, 1);
	int said;
	pid_t daemon = fork_daemon(&said, false);
	char byte;
	ck_assert_int_eq(read(said, &byte, 1), 1);
	ck_assert_uint_ge(count_marked(mark, NULL), 4);
	kill(daemon, SIGKILL);
	ck_assert_int_eq(waitpid(daemon, NULL, 0), daemon);
	wait_gone();
	/* Nor do the guard and the keepers stay: the pipe they never had has no writer. */
	ck_assert_int_eq(read(said, &byte, 1), 0);
	close(said);
}
END_TEST

static pid_t guard_pid(void)
{
	pid_t pid = 0;
	ck_assert_uint_eq(count_children(getpid(), "mcpd-guard", &pid), 1);
	return pid;
}

static pid_t keeper_below(pid_t parent)
{
	pid_t keeper = 0;
	ck_assert_uint_eq(count_children(parent, "mcpd-keeper", &keeper), 1);
	return keeper;
}

/* Kills the guard, and waits for the next one. */
static void replace_guard(void)
{
	pid_t first = guard_pid(), second = 0;
	kill(first, SIGKILL);
	loop_wait(loop, count_children(getpid(), "mcpd-guard", &second) == 1 && second != first);
}

START_TEST(a_killed_keeper_is_noticed_and_its_tree_ends)
{
	make_mark("keeper");
	bench_start();
	struct running r, other;
	run_stubborn(&r, 600000, "stay");
	pid_t keeper = 0;
	ck_assert_uint_eq(count_children(guard_pid(), "mcpd-keeper", &keeper), 1);
	run(&other, "cat", 600000, "-");
	loop_wait(loop, other.started);
	kill(keeper, SIGKILL);
	loop_wait(loop, r.exited);
	ck_assert_str_eq(r.how, "killed with its mcpd-keeper");
	/* The guard has swept the rest before that was told. */
	ck_assert_uint_eq(count_marked(mark, NULL), 0);
	running_end(&r);
	/* The other one is unharmed. */
	ck_assert_int_eq(write(other.to_stdin, "hello\n", 6), 6);
	loop_wait(loop, running_said(&other, "hello"));
	running_end(&other);
	bench_stop();
}
END_TEST

START_TEST(a_killed_guard_is_replaced_and_keepers_go_on)
{
	make_mark("guard");
	bench_start();
	struct running before, after;
	run_stubborn(&before, 20, "stay");
	replace_guard();
	run(&after, "cat", 600000, "-");
	loop_wait(loop, after.started);
	ck_assert_str_eq(after.error, "");
	ck_assert_uint_eq(before.exited, 0);
	running_end(&before);
	ck_assert_uint_eq(count_marked(mark, NULL), 0);
	running_end(&after);
	bench_stop();
}
END_TEST

START_TEST(a_keeper_that_is_killed_after_its_guard)
{
	make_mark("adopted");
	bench_start();
	struct running r, other;
	run_stubborn(&r, 600000, "stay");
	pid_t keeper = keeper_below(guard_pid());
	run(&other, "cat", 600000, "-");
	loop_wait(loop, other.started);
	replace_guard();
	kill(keeper, SIGKILL);
	loop_wait(loop, r.exited);
	ck_assert_str_eq(r.how, "killed with its mcpd-keeper");
	running_end(&r);
	/* What it left came to us; it has gone before the end is told, and is reaped. */
	ck_assert_uint_eq(count_marked(mark, NULL), 0);
	ck_assert_int_lt(kill(keeper, 0), 0);
	/* The other one's keeper is with us as well, and was spared. */
	ck_assert_int_eq(write(other.to_stdin, "hello\n", 6), 6);
	loop_wait(loop, running_said(&other, "hello"));
	keeper = keeper_below(getpid());
	running_end(&other);
	loop_wait(loop, kill(keeper, 0) < 0);
	bench_stop();
}
END_TEST

START_TEST(children_that_were_there_before_are_left_alone)
{
	pid_t stranger = fork();
	if (stranger == 0) {
		pause();
		_exit(0);
	}
	bench_start();
	struct running r;
	run(&r, "cat", 600000, "-");
	loop_wait(loop, r.started);
	pid_t keeper = keeper_below(guard_pid());
	replace_guard();
	kill(keeper, SIGKILL);
	loop_wait(loop, r.exited);
	running_end(&r);
	bench_stop();
	ck_assert_int_eq(waitpid(stranger, NULL, WNOHANG), 0);
	kill(stranger, SIGKILL);
	ck_assert_int_eq(waitpid(stranger, NULL, 0), stranger);
}
END_TEST

START_TEST(guard_and_keeper_have_no_terminal_and_few_descriptors)
{
	bench_start();
	struct running r;
	run(&r, "cat", 600000, "-");
	loop_wait(loop, r.started);
	pid_t keeper = 0, guard = guard_pid();
	ck_assert_uint_eq(count_children(guard, "mcpd-keeper", &keeper), 1);
	ck_assert_int_eq(getsid(guard), guard);
	ck_assert_int_ne(getsid(keeper), getsid(0));
	const pid_t pids[] = { guard, keeper };
	for (int i = 0; i < 2; i++) {
		char path[64];
		int n = 0;
		snprintf(path, sizeof path, "/proc/%d/fd", (int)pids[i]);
		DIR *fds = opendir(path);
		while (readdir(fds))
			n++;
		closedir(fds);
		/* . and .., /dev/null three times, the control socket, a signalfd; and the guard's copy of the
		 * keeper's socket. */
		ck_assert_int_eq(n, 2 + 3 + 1 + 1 + (pids[i] == guard));
		/* Signals do nothing to them. */
		kill(pids[i], SIGINT);
		kill(pids[i], SIGTERM);
		kill(pids[i], SIGHUP);
	}
	char number[16];
	snprintf(number, sizeof number, "%d", (int)keeper);
	ck_assert(proc_file_has(number, "cmdline", "mcpd-keeper: test"));
	ck_assert_int_eq(write(r.to_stdin, "hello\n", 6), 6);
	loop_wait(loop, running_said(&r, "hello"));
	running_end(&r);
	bench_stop();
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1); /* no zombie is left either */
	ck_assert_int_eq(errno, ECHILD);
}
END_TEST

/* --- in a delegated cgroup --- */

/* A cgroup of our own in the v2 hierarchy, marked as systemd marks delegated ones; false where that cannot be had. */
static bool make_delegated(char *path, size_t size)
{
	static const char *const mounts[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
	for (int i = 0; i < 2; i++) {
		snprintf(path, size, "%s/cgroup.procs", mounts[i]);
		if (access(path, W_OK) < 0)
			continue;
		snprintf(path, size, "%s/mcpd-test-%d.service", mounts[i], (int)getpid());
		if (mkdir(path, 0755) < 0)
			continue;
		if (setxattr(path, "user.delegate", "1", 1, 0) == 0 ||
		    setxattr(path, "trusted.delegate", "1", 1, 0) == 0)
			return true;
		rmdir(path);
	}
	return false;
}

static bool exists(const char *folder, const char *name)
{
	char path[300];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	return access(path, F_OK) == 0;
}

static void in_cgroup(const char *folder)
{
	struct running r;
	ck_assert_int_eq(cgroup_enter(folder), 0);
	bench_start();
	ck_assert_str_eq(process_host_method(host), "cgroup");
	ck_assert(exists(folder, "daemon"));
	run_stubborn(&r, 20, "stay");
	ck_assert(exists(folder, "server-test-1"));
	char file[300], pid[16] = "";
	snprintf(file, sizeof file, "%s/server-test-1/cgroup.procs", folder);
	FILE *f = fopen(file, "re");
	int members = 0;
	while (fgets(pid, sizeof pid, f))
		members++;
	fclose(f);
	ck_assert_int_eq(members, 3); /* the keeper is not in it */
	running_end(&r);
	ck_assert_uint_eq(count_marked(mark, NULL), 0);
	ck_assert(!exists(folder, "server-test-1"));
	/* A killed keeper's leaf goes as well. */
	run_stubborn(&r, 20, "stay");
	ck_assert(exists(folder, "server-test-2"));
	pid_t keeper = 0;
	ck_assert_uint_eq(count_children(guard_pid(), "mcpd-keeper", &keeper), 1);
	kill(keeper, SIGKILL);
	loop_wait(loop, r.exited);
	running_end(&r);
	ck_assert(!exists(folder, "server-test-2"));
	bench_stop();
}

START_TEST(in_a_delegated_cgroup_each_server_has_a_leaf)
{
	char folder[200], leaf[220];
	if (!make_delegated(folder, sizeof folder)) {
		fputs("skipped: no cgroup v2 that can be written here\n", stderr);
		return;
	}
	make_mark("cgroup");
	pid_t pid = fork();
	if (pid == 0) {
		in_cgroup(folder);
		_exit(0);
	}
	int status;
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	/* And the daemon that is killed, the main process of a user's service this time, where nothing is marked:
	 * everything below ends, and the leaves go. */
	removexattr(folder, "user.delegate");
	removexattr(folder, "trusted.delegate");
	make_mark("cgroup-killed");
	setenv("MCPD_TEST_MARK", strchr(mark, '=') + 1, 1);
	int said;
	char byte;
	ck_assert_int_eq(cgroup_enter(folder), 0);
	pid_t daemon = fork_daemon(&said, true);
	ck_assert_int_eq(read(said, &byte, 1), 1);
	ck_assert(exists(folder, "server-test-1"));
	kill(daemon, SIGKILL);
	ck_assert_int_eq(waitpid(daemon, NULL, 0), daemon);
	wait_gone();
	int64_t give_up = loop_now_ms() + LOOP_WAIT_MS;
	while ((exists(folder, "server-test-1") || exists(folder, "server-test-2")) && loop_now_ms() < give_up)
		usleep(5000);
	ck_assert(!exists(folder, "server-test-1") && !exists(folder, "server-test-2"));
	close(said);
	/* Out of it again, to remove it. */
	char *root = strrchr(folder, '/');
	*root = '\0';
	ck_assert_int_eq(cgroup_enter(folder), 0);
	*root = '/';
	snprintf(leaf, sizeof leaf, "%s/daemon", folder);
	while ((rmdir(leaf) < 0 && errno == EBUSY) && loop_now_ms() < give_up)
		usleep(5000);
	ck_assert_int_eq(rmdir(folder), 0);
	ck_assert_int_eq(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0);
}
END_TEST

int main(void)
{
	return RUN_TESTS("process_guard", R3_everything_ends_that_ignores_everything,
			 R3_what_a_dead_launcher_left_is_ended_too, S9_closed_input_then_SIGTERM_then_SIGKILL,
			 one_servers_end_does_not_touch_another, R3_a_daemon_that_is_killed_leaves_nothing,
			 a_killed_keeper_is_noticed_and_its_tree_ends, a_killed_guard_is_replaced_and_keepers_go_on,
			 a_keeper_that_is_killed_after_its_guard, children_that_were_there_before_are_left_alone,
			 guard_and_keeper_have_no_terminal_and_few_descriptors,
			 in_a_delegated_cgroup_each_server_has_a_leaf);
}
