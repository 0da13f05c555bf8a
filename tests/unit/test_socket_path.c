/* Where the socket is, with every allocation failed once (proto/socket_path.h). */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "alloc_fail.h"
#include "proto/socket_path.h"
#include "run.h"

static void try_all(const char *option, const char *const *environment, int wanted)
{
	for (unsigned nth = 1;; nth++) {
		char *path = NULL, *problem = NULL;
		long live;
		alloc_watch(nth);
		int r = socket_path_find(option, environment, &path, &problem);
		bool failed = alloc_done(&live);
		if (!failed) {
			ck_assert_int_eq(r, wanted);
			ck_assert_uint_gt(nth, 1);
			free(path);
			free(problem);
			return;
		}
		ck_assert_int_eq(r, -ENOMEM);
		ck_assert_ptr_null(path);
		ck_assert_ptr_null(problem);
		ck_assert_int_eq(live, 0);
	}
}

START_TEST(a_failed_allocation_is_an_error_and_leaves_nothing)
{
	const char *const runtime[] = { "XDG_RUNTIME_DIR=/run/u", NULL };
	const char *const relative[] = { "XDG_RUNTIME_DIR=u", NULL };
	char long_path[300] = "/";
	memset(long_path + 1, 'x', sizeof long_path - 2);
	long_path[sizeof long_path - 1] = '\0';
	try_all("/a/b", NULL, 0);
	try_all("a/b", NULL, 0);
	try_all("", NULL, -EINVAL);
	try_all(NULL, runtime, 0);
	try_all(NULL, relative, -EINVAL);
	try_all(long_path, NULL, -ENAMETOOLONG);
}
END_TEST

int main(void)
{
	return RUN_TESTS("socket_path", a_failed_allocation_is_an_error_and_leaves_nothing);
}
