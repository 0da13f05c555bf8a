/* transport/process.h, the start: what a child gets, and why it did not start (contract S8; PITFALLS "Children";
 * R10, R13, R35). */
#include "run.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "process_bench.h"

/* A directory of its own, removed at the end of the test. */
static char folder[] = "/tmp/mcpd-process-XXXXXX";

static const char *make_folder(void)
{
	ck_assert_ptr_nonnull(mkdtemp(folder));
	return folder;
}

static const char *in_folder(const char *name)
{
	static char path[200];
	snprintf(path, sizeof path, "%s/%s", folder, name);
	return path;
}

static void make_file(const char *name, const char *text, mode_t mode)
{
	FILE *f = fopen(in_folder(name), "we");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
	chmod(in_folder(name), mode);
}

static void remove_folder(void)
{
	char command[200];
	snprintf(command, sizeof command, "rm -rf %s", folder);
	ck_assert_int_eq(system(command), 0);
}

static void assert_fails(const struct process_options *options, const char *message, bool permanent)
{
	struct running r;
	run_with(&r, options);
	loop_wait(loop, r.started);
	ck_assert_str_eq(r.error, message);
	ck_assert_int_eq(r.permanent, permanent);
	ck_assert_int_eq(process_pid(r.process), 0);
	running_end(&r);
	ck_assert_uint_eq(r.started, 1);
	ck_assert_uint_eq(r.exited, 0);
}

START_TEST(R10_commands_that_cannot_be_executed)
{
	bench_start();
	make_folder();
	make_file("plain", "#!/bin/sh\n", 0644);
	make_file("broken", "#!/nowhere/interpreter\n", 0755);
	char message[400];
	snprintf(message, sizeof message, "cannot execute \"%s\": No such file or directory", in_folder("missing"));
	assert_fails(&(struct process_options){ .command = in_folder("missing") }, message, true);
	snprintf(message, sizeof message, "cannot execute \"%s\": Permission denied", in_folder("plain"));
	assert_fails(&(struct process_options){ .command = in_folder("plain") }, message, true);
	snprintf(message, sizeof message, "cannot execute \"%s\": No such file or directory", in_folder("broken"));
	assert_fails(&(struct process_options){ .command = in_folder("broken") }, message, true);
	snprintf(message, sizeof message, "cannot execute \"%s\": Is a directory", folder);
	assert_fails(&(struct process_options){ .command = folder }, message, true);
	assert_fails(&(struct process_options){ .command = "" }, "cannot execute \"\": the command is empty", true);
	assert_fails(&(struct process_options){ .command = "true", .cwd = "/nowhere/at all" },
		     "cannot enter the directory \"/nowhere/at all\" to run \"true\": No such file or directory", true);
	remove_folder();
	bench_stop();
}
END_TEST

START_TEST(R35_the_message_names_the_PATH_that_was_searched)
{
	bench_start();
	make_folder();
	char path[100], message[500];
	snprintf(path, sizeof path, "PATH=/nowhere::%s", folder);
	const char *const env[] = { path, NULL };
	make_file("npx", "#!/bin/sh\necho found $0\n", 0644);
	snprintf(
		message, sizeof message,
		"cannot execute \"npx\": Permission denied (PATH searched: /nowhere::%s; if it is elsewhere, give its full "
		"path, or PATH in the server's \"env\", or for all servers in \"mcpd\": {\"environment\": ..})",
		folder);
	assert_fails(&(struct process_options){ .command = "npx", .env = env }, message, true);
	mkdir(in_folder("folder"), 0755);
	snprintf(
		message, sizeof message,
		"cannot execute \"folder\": No such file or directory (PATH searched: /nowhere::%s; if it is elsewhere, give "
		"its full path, or PATH in the server's \"env\", or for all servers in \"mcpd\": {\"environment\": ..})",
		folder);
	assert_fails(&(struct process_options){ .command = "folder", .env = env }, message, true);

	/* The PATH of the resulting environment is the one that is searched. */
	chmod(in_folder("npx"), 0755);
	struct running r;
	run_with(&r, &(struct process_options){ .command = "npx", .env = env });
	snprintf(message, sizeof message, "found %s", in_folder("npx"));
	loop_wait(loop, running_said(&r, message));
	ck_assert_str_eq(r.error, "");
	running_end(&r);
	/* An empty entry is the directory the server runs in. */
	run_with(&r, &(struct process_options){
			     .command = "npx", .env = (const char *const[]){ "PATH=:/nowhere", NULL }, .cwd = folder });
	loop_wait(loop, running_said(&r, "found ./npx"));
	running_end(&r);
	remove_folder();
	bench_stop();
}
END_TEST

START_TEST(a_script_without_a_first_line_is_the_shells)
{
	bench_start();
	make_folder();
	make_file("script", "echo args $# $2\n", 0755);
	struct running r;
	run(&r, in_folder("script"), 0, "a", "b c");
	loop_wait(loop, running_said(&r, "args 2 b c\n"));
	running_end(&r);
	remove_folder();
	bench_stop();
}
END_TEST

static const char show_all[] =
	"import os, sys\n"
	"out = sys.stdout\n"
	"fds = sorted(int(f) for f in os.listdir('/proc/self/fd'))\n"
	"open_fds = [f for f in fds if os.path.exists('/proc/self/fd/%d' % f)]\n"
	"print('fds', open_fds)\n"
	"print('blocking', [os.get_blocking(f) for f in (0, 1)])\n"
	"status = open('/proc/self/status').read().split()\n"
	"value = lambda name: status[status.index(name) + 1]\n"
	"print('ignored', int(value('SigIgn:'), 16) & ~0x1001000, 'blocked', int(value('SigBlk:'), 16))\n"
	"stat = open('/proc/self/stat').read().rsplit(')', 1)[1].split()\n"
	"print('pid', os.getpid(), 'leads', os.getsid(0) == os.getpid() == os.getpgrp(), 'tty', stat[4])\n"
	"print('cwd', os.getcwd())\n"
	"print('args', sys.argv)\n"
	"for name in ('ADDED', 'REPLACED', 'KEPT', 'NOTIFY_SOCKET', 'LISTEN_FDS', 'WATCHDOG_USEC', 'LISTEN_PID'):\n"
	"    print(name, os.environ.get(name))\n"
	"print('umask %o' % os.umask(0))\n"
	"print('parent', open('/proc/%d/comm' % os.getppid()).read().strip())\n"
	"print('done', flush=True)\n"
	"sys.stdin.read()\n";

START_TEST(S8_R13_what_a_child_gets)
{
	/* All that could leak: open descriptors, ignored and blocked signals, what systemd said. */
	for (int i = 0; i < 20; i++)
		ck_assert_int_ge(open("/dev/null", O_RDONLY), 0);
	signal(SIGHUP, SIG_IGN);
	signal(SIGCHLD, SIG_IGN);
	signal(SIGUSR2, SIG_IGN);
	umask(027);
	sigset_t set;
	sigfillset(&set);
	sigprocmask(SIG_BLOCK, &set, NULL);
	setenv("KEPT", "kept", 1);
	setenv("REPLACED", "old", 1);
	setenv("NOTIFY_SOCKET", "/x", 1);
	setenv("LISTEN_FDS", "1", 1);
	setenv("LISTEN_PID", "1", 1);
	setenv("WATCHDOG_USEC", "1", 1);
	bench_start();
	umask(077); /* later, as the daemon does for its socket */
	struct running r;
	run_with(&r, &(struct process_options){
			     .command = PYTHON,
			     .args = (const char *const[]){ "-c", show_all, "one", "", "two three", NULL },
			     .env = (const char *const[]){ "ADDED=a=b", "REPLACED=new", NULL },
			     .cwd = "/usr",
			     .grace_ms = 60000,
		     });
	loop_wait(loop, running_said(&r, "done\n"));
	ck_assert_uint_eq(r.started, 1);
	ck_assert_str_eq(r.error, "");
	char pid[100];
	snprintf(pid, sizeof pid, "pid %d leads True tty 0\n", (int)process_pid(r.process));
	const char *const expected[] = {
		"fds [0, 1, 2]\n",
		"blocking [True, True]\n",
		"ignored 0 blocked 0\n",
		pid,
		"cwd /usr\n",
		"args ['-c', 'one', '', 'two three']\n",
		"ADDED a=b\nREPLACED new\nKEPT kept\n",
		"NOTIFY_SOCKET None\nLISTEN_FDS None\nWATCHDOG_USEC None\nLISTEN_PID None\n",
		"umask 27\n",
		"parent mcpd-keeper\n",
	};
	for (size_t i = 0; i < sizeof expected / sizeof *expected; i++)
		ck_assert_msg(running_said(&r, expected[i]), "no %s in %s", expected[i], r.output);
	running_end(&r);
	ck_assert_str_eq(r.how, "exit status 0");
	ck_assert(!r.signalled);
	bench_stop();
}
END_TEST

START_TEST(S8_the_home_directory_unless_told_otherwise)
{
	bench_start();
	struct running r;
	run_with(&r,
		 &(struct process_options){ .command = "pwd", .env = (const char *const[]){ "HOME=/usr/lib", NULL } });
	loop_wait(loop, running_said(&r, "/usr/lib\n"));
	running_end(&r);
	bench_stop();
}
END_TEST

START_TEST(how_a_process_ended)
{
	bench_start();
	struct running r;
	run(&r, "/bin/sh", 1000, "-c", "exit 3");
	loop_wait(loop, r.exited);
	ck_assert_str_eq(r.how, "exit status 3");
	ck_assert_int_eq(process_pid(r.process), 0);
	running_end(&r);
	run(&r, "/bin/sh", 1000, "-c", "kill -9 $$");
	loop_wait(loop, r.exited);
	ck_assert_str_eq(r.how, "killed by signal 9 (Killed)");
	running_end(&r);
	ck_assert_uint_eq(r.exited, 1);
	bench_stop();
}
END_TEST

START_TEST(a_hundred_at_once)
{
	enum { N = 100 };
	static struct running all[N];
	bench_start();
	for (int i = 0; i < N; i++)
		run(&all[i], "cat", 10000, "-");
	for (int i = 0; i < N; i++) {
		loop_wait(loop, all[i].started);
		ck_assert_str_eq(all[i].error, "");
		/* Each its own pipes. */
		char word[20];
		int len = snprintf(word, sizeof word, "I am %d\n", i);
		ck_assert_int_eq(write(all[i].to_stdin, word, (size_t)len), len);
		loop_wait(loop, running_said(&all[i], word));
	}
	for (int i = 0; i < N; i++)
		running_close_stdin(&all[i]);
	for (int i = 0; i < N; i++) {
		running_end(&all[i]);
		ck_assert_str_eq(all[i].how, "exit status 0");
	}
	bench_stop();
}
END_TEST

START_TEST(an_end_before_the_start_was_told)
{
	bench_start();
	struct running r;
	run(&r, "sleep", 10, "1000");
	process_end(r.process);
	process_end(r.process);
	ck_assert_uint_eq(r.ended, 0);
	running_end(&r);
	ck_assert_uint_eq(r.started, 0);
	ck_assert_uint_eq(r.exited, 0);
	ck_assert_uint_eq(r.ended, 1);
	/* A failure that was not told yet, too. */
	run(&r, "", 10, "x");
	process_end(r.process);
	running_end(&r);
	ck_assert_uint_eq(r.started, 0);
	ck_assert_uint_eq(r.ended, 1);
	bench_stop();
}
END_TEST

START_TEST(out_of_descriptors_is_a_failure_that_may_pass)
{
	bench_start();
	setrlimit(RLIMIT_NOFILE, &(struct rlimit){ 100, 100 });
	int fds[100], n = 0;
	while (n < 100 && (fds[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		n++;
	for (int i = 0; i < 7 && n > 0; i++)
		close(fds[--n]); /* room for the pipes, not for the order */
	struct running r;
	run(&r, "true", 10, "x");
	loop_wait(loop, r.started);
	ck_assert_str_eq(r.error, "cannot start a process for \"true\": Too many open files");
	ck_assert(!r.permanent);
	while (n > 0)
		close(fds[--n]);
	running_end(&r);
	bench_stop();
}
END_TEST

int main(void)
{
	return RUN_TESTS("process", R10_commands_that_cannot_be_executed,
			 R35_the_message_names_the_PATH_that_was_searched, a_script_without_a_first_line_is_the_shells,
			 S8_R13_what_a_child_gets, S8_the_home_directory_unless_told_otherwise, how_a_process_ended,
			 a_hundred_at_once, an_end_before_the_start_was_told,
			 out_of_descriptors_is_a_failure_that_may_pass);
}
