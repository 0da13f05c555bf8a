/* The socket and its lock (PITFALLS "Sockets", R11, R38), in a directory of the test's own. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ipc/listener.h"
#include "ipc/socket_lock.h"
#include "loop/loop.h"
#include "run.h"
#include "xalloc.h"

static char dir[32], path[64];

static void begin(void)
{
	strcpy(dir, "/tmp/mcpd-u-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof path, "%s/mcpd/mcpd.sock", dir);
}

static void end(void)
{
	char *command = xasprintf("rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
	free(command);
}

static char *message;

static struct listener *open_path(const char *where, bool standard)
{
	enum listener_failure failure;
	struct listener_options options = { .path = where, .standard = standard, .inherited_fd = -1 };
	free(message);
	message = NULL;
	return listener_open(&options, &failure, &message);
}

/* Fails, and says this and the path. */
static void expect_failure(const char *where, bool standard, enum listener_failure wanted, const char *part)
{
	enum listener_failure failure = 0;
	struct listener_options options = { .path = where, .standard = standard, .inherited_fd = -1 };
	char *said = NULL;
	ck_assert_ptr_null(listener_open(&options, &failure, &said));
	ck_assert_int_eq(failure, wanted);
	ck_assert_msg(strstr(said, part) != NULL, "\"%s\" is not in \"%s\"", part, said);
	ck_assert_msg(strstr(said, dir) != NULL, "the path is not in \"%s\"", said);
	free(said);
}

static int connect_to(const char *where)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	snprintf(address.sun_path, sizeof address.sun_path, "%s", where);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
		return fd;
	int error = -errno;
	close(fd);
	return error;
}

static mode_t mode_of(const char *where)
{
	struct stat st;
	ck_assert_int_eq(lstat(where, &st), 0);
	return st.st_mode & 07777;
}

START_TEST(directory_and_socket_are_ours_alone)
{
	begin();
	umask(0);
	struct listener *l = open_path(path, true);
	ck_assert_msg(l != NULL, "%s", message);
	char *parent = xasprintf("%s/mcpd", dir);
	ck_assert_uint_eq(mode_of(parent), 0700);
	ck_assert_uint_eq(mode_of(path), 0700); /* 0777 under umask 0077 */
	int fd = connect_to(path);
	ck_assert_int_ge(fd, 0);
	close(fd);
	listener_stop(l);
	listener_stop(l);
	ck_assert_int_eq(access(path, F_OK), -1);
	char *lock = xasprintf("%s.lock", path);
	ck_assert_int_eq(access(lock, F_OK), 0); /* never unlinked */
	ck_assert_uint_eq(mode_of(lock), 0600);
	listener_free(l);
	free(lock);
	free(parent);
	end();
}
END_TEST

START_TEST(a_directory_that_others_can_enter_is_refused)
{
	begin();
	char *parent = xasprintf("%s/mcpd", dir);
	ck_assert_int_eq(mkdir(parent, 0700), 0);
	ck_assert_int_eq(chmod(parent, 0750), 0);
	expect_failure(path, true, LISTENER_ERROR, "chmod 700");
	/* A path of the user's own choice may lie where others can look, not where they can replace it. */
	struct listener *l = open_path(path, false);
	ck_assert_msg(l != NULL, "%s", message);
	listener_free(l);
	ck_assert_int_eq(chmod(parent, 0770), 0);
	expect_failure(path, false, LISTENER_ERROR, "open to others");
	ck_assert_int_eq(chmod(parent, 01777), 0);
	l = open_path(path, false);
	ck_assert_msg(l != NULL, "%s", message);
	listener_free(l);
	/* A symbolic link in its place is not followed. */
	char *command = xasprintf("rm -r %s && mkdir -m 700 %s/real && ln -s real %s", parent, dir, parent);
	ck_assert_int_eq(system(command), 0);
	expect_failure(path, true, LISTENER_ERROR, "not a directory");
	free(command);
	free(parent);
	end();
}
END_TEST

/* R38: a stale socket is replaced; what is no socket, or cannot be made, is told with reason and path. */
START_TEST(R38_a_stale_socket_is_replaced)
{
	begin();
	struct listener *l = open_path(path, true);
	ck_assert_msg(l != NULL, "%s", message);
	/* A daemon that was killed leaves its socket: take the file out of the way, stop, put it back. */
	char *aside = xasprintf("%s.aside", path);
	ck_assert_int_eq(rename(path, aside), 0);
	listener_free(l);
	ck_assert_int_eq(rename(aside, path), 0);
	ck_assert_int_eq(connect_to(path), -ECONNREFUSED);
	l = open_path(path, true);
	ck_assert_msg(l != NULL, "%s", message);
	int fd = connect_to(path);
	ck_assert_int_ge(fd, 0);
	close(fd);
	listener_free(l);
	free(aside);
	end();
}
END_TEST

START_TEST(R38_what_is_no_socket_is_left_alone)
{
	begin();
	char *parent = xasprintf("%s/mcpd", dir);
	ck_assert_int_eq(mkdir(parent, 0700), 0);
	int fd = open(path, O_CREAT | O_WRONLY, 0600);
	ck_assert_int_ge(fd, 0);
	close(fd);
	expect_failure(path, true, LISTENER_ERROR, "no socket");
	ck_assert_int_eq(access(path, F_OK), 0);
	char *deep = xasprintf("%s/a/b/mcpd.sock", dir);
	expect_failure(deep, true, LISTENER_ERROR, "No such file or directory");
	free(deep);
	free(parent);
	end();
}
END_TEST

/* R11: the second one says that another is running; it does not touch its socket. */
START_TEST(R11_a_second_one_is_refused)
{
	begin();
	struct listener *l = open_path(path, true);
	ck_assert_msg(l != NULL, "%s", message);
	char *wanted = xasprintf("process %ld", (long)getpid());
	expect_failure(path, true, LISTENER_OTHER, wanted);
	int fd = connect_to(path);
	ck_assert_int_ge(fd, 0);
	close(fd);
	listener_free(l);
	free(wanted);
	end();
}
END_TEST

/* R11: twenty starts at once give one daemon, and the losers know it. */
START_TEST(R11_twenty_at_once_give_one)
{
	enum { N = 20 };
	begin();
	int go[2], stop[2];
	pid_t pids[N];
	ck_assert_int_eq(pipe(go), 0);
	ck_assert_int_eq(pipe(stop), 0);
	for (int i = 0; i < N; i++) {
		pids[i] = fork();
		if (pids[i] != 0)
			continue;
		char c;
		close(go[1]);
		close(stop[1]);
		ssize_t n = read(go[0], &c, 1);
		enum listener_failure failure = 0;
		char *said;
		struct listener_options options = { .path = path, .standard = true, .inherited_fd = -1 };
		struct listener *l = listener_open(&options, &failure, &said);
		if (!l)
			_exit(failure == LISTENER_OTHER ? 3 : 1);
		n = read(stop[0], &c, 1); /* serves until the others have given up */
		_exit(n == 0 ? 0 : 1);
	}
	close(go[0]);
	close(go[1]);
	int winners = 0, losers = 0;
	for (int i = 0; i < N - 1; i++) {
		int status;
		ck_assert_int_gt(waitpid(-1, &status, 0), 0);
		losers += WIFEXITED(status) && WEXITSTATUS(status) == 3;
	}
	close(stop[1]);
	int status;
	ck_assert_int_gt(waitpid(-1, &status, 0), 0);
	winners += WIFEXITED(status) && WEXITSTATUS(status) == 0;
	ck_assert_int_eq(winners, 1);
	ck_assert_int_eq(losers, N - 1);
	close(stop[0]);
	end();
}
END_TEST

START_TEST(the_locks_holder_is_known)
{
	begin();
	char *lock_path;
	int fd = socket_lock_open(dir, &lock_path), other = open(lock_path, O_RDWR);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(socket_lock_holder(fd), 0);
	ck_assert_int_eq(socket_lock_take(fd), 0);
	ck_assert_int_eq(socket_lock_take(other), -EWOULDBLOCK);
	ck_assert_int_eq(socket_lock_holder(other), getpid());
	close(fd);
	ck_assert_int_eq(socket_lock_take(other), 0);
	close(other);
	unlink(lock_path);
	free(lock_path);
	end();
}
END_TEST

static unsigned accepted;

static void on_accept(void *arg, int fd)
{
	(void)arg;
	accepted++;
	close(fd);
}

/* A socket of the service manager is neither bound nor unlinked, and our own only as long as it is ours. */
START_TEST(only_an_own_socket_is_unlinked)
{
	begin();
	char *parent = xasprintf("%s/mcpd", dir);
	ck_assert_int_eq(mkdir(parent, 0700), 0);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
	ck_assert_int_eq(listen(fd, 5), 0);
	struct listener_options options = { .path = path, .inherited_fd = dup(fd) };
	enum listener_failure failure;
	struct listener *l = listener_open(&options, &failure, &message);
	ck_assert_msg(l != NULL, "%s", message);
	listener_free(l);
	ck_assert_int_eq(access(path, F_OK), 0);
	int client = connect_to(path);
	ck_assert_int_ge(client, 0); /* still listening: it was not shut down */
	close(client);
	close(fd);
	l = open_path(path, true);
	ck_assert_msg(l != NULL, "%s", message);
	unlink(path);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
	listener_free(l);
	ck_assert_int_eq(access(path, F_OK), 0); /* another's, by now */
	close(fd);
	free(parent);
	end();
}
END_TEST

START_TEST(connections_of_our_user_are_handed_out)
{
	begin();
	struct loop *loop = loop_new();
	struct listener *l = open_path(path, true);
	ck_assert_msg(l != NULL, "%s", message);
	accepted = 0;
	listener_start(l, loop, on_accept, NULL);
	int fds[100];
	for (int i = 0; i < 100; i++)
		ck_assert_int_ge(fds[i] = connect_to(path), 0);
	for (int i = 0; i < 1000 && accepted < 100; i++)
		loop_once(loop, 10);
	ck_assert_uint_eq(accepted, 100);
	for (int i = 0; i < 100; i++)
		close(fds[i]);
	listener_free(l);
	loop_free(loop);
	end();
}
END_TEST

/* PITFALLS "libevent": out of descriptors, the loop neither spins nor stops serving for good. */
START_TEST(out_of_descriptors_one_is_told_and_the_rest_wait)
{
	begin();
	struct loop *loop = loop_new();
	struct listener *l = open_path(path, true);
	ck_assert_msg(l != NULL, "%s", message);
	accepted = 0;
	listener_start(l, loop, on_accept, NULL);
	int a = connect_to(path), b = connect_to(path);
	struct rlimit before, none;
	getrlimit(RLIMIT_NOFILE, &before);
	/* No new descriptor can be made: the limit is at the next free one. */
	int next = dup(0);
	close(next);
	none = before;
	none.rlim_cur = (rlim_t)next;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	for (int i = 0; i < 20; i++)
		loop_once(loop, 0);
	setrlimit(RLIMIT_NOFILE, &before);
	ck_assert_uint_eq(accepted, 0);
	char line[256] = "";
	ck_assert_int_gt(read(a, line, sizeof line - 1), 0);
	ck_assert_ptr_nonnull(strstr(line, "out of file descriptors"));
	for (int i = 0; i < 1000 && accepted < 1; i++)
		loop_once(loop, 10);
	ck_assert_uint_eq(accepted, 1);
	close(a);
	close(b);
	listener_free(l);
	loop_free(loop);
	end();
}
END_TEST

int main(void)
{
	return RUN_TESTS("listener", directory_and_socket_are_ours_alone, a_directory_that_others_can_enter_is_refused,
			 R38_a_stale_socket_is_replaced, R38_what_is_no_socket_is_left_alone,
			 R11_a_second_one_is_refused, R11_twenty_at_once_give_one, the_locks_holder_is_known,
			 only_an_own_socket_is_unlinked, connections_of_our_user_are_handed_out,
			 out_of_descriptors_one_is_told_and_the_rest_wait);
}
