/* transport/cgroup.h: a leaf's memory, on a directory that looks like one. */
#include "transport/cgroup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run.h"

static char leaf[64];

static void write_file(const char *name, const char *text)
{
	char path[128];
	snprintf(path, sizeof path, "%s/%s", leaf, name);
	FILE *f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	fclose(f);
}

static void setup(void)
{
	strcpy(leaf, "/tmp/mcpd-cgroup-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(leaf));
}

static void teardown(void)
{
	char path[128];
	const char *const names[] = { "memory.max", "memory.events" };
	for (size_t i = 0; i < 2; i++) {
		snprintf(path, sizeof path, "%s/%s", leaf, names[i]);
		unlink(path);
	}
	ck_assert_int_eq(rmdir(leaf), 0);
}

START_TEST(a_limit_is_written_where_there_is_a_controller)
{
	char path[128], text[32] = "";
	ck_assert_int_eq(cgroup_set_memory_max(leaf, 1 << 20), -ENOENT);
	write_file("memory.max", "");
	ck_assert_int_eq(cgroup_set_memory_max(leaf, 512LL << 20), 0);
	snprintf(path, sizeof path, "%s/memory.max", leaf);
	FILE *f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	ck_assert_ptr_nonnull(fgets(text, sizeof text, f));
	fclose(f);
	ck_assert_str_eq(text, "536870912");
}
END_TEST

START_TEST(kills_for_want_of_memory_are_counted)
{
	ck_assert_uint_eq(cgroup_oom_kills(leaf), 0);
	write_file("memory.events", "low 0\nhigh 3\nmax 7\noom 2\noom_kill 2\noom_group_kill 9\n");
	ck_assert_uint_eq(cgroup_oom_kills(leaf), 2);
	write_file("memory.events", "nonsense");
	ck_assert_uint_eq(cgroup_oom_kills(leaf), 0);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = { a_limit_is_written_where_there_is_a_controller,
				       kills_for_want_of_memory_are_counted, NULL };
	return run_tests_with("cgroup", tests, setup, teardown);
}
