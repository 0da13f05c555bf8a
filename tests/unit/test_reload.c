/* Reading the configuration anew (ipc/reload.h): what cannot be read changes nothing, and a lack of memory is no exception. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc_fail.h"
#include "fake_manager.h"
#include "ipc/reload.h"
#include "run.h"

static char path[] = "/tmp/mcpd-reload-XXXXXX";
static const char *const files[] = { path, NULL };
static const char *const environment[] = { "HOME=/home/me", "TOKEN=s3cret-token", NULL };
static const struct manager_callbacks no_callbacks;
static unsigned n_loaded;

static void on_loaded(void *arg, const struct config *config)
{
	(void)arg;
	(void)config;
	n_loaded++;
}

static void write_file(const char *text)
{
	FILE *file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(fputs(text, file), 0);
	ck_assert_int_eq(fclose(file), 0);
}

static void make_file(void)
{
	int fd = mkstemp(path);
	ck_assert_int_ge(fd, 0);
	close(fd);
	write_file(
		"{\"mcpServers\": {\"a\": {\"command\": \"x\", \"args\": [\"${TOKEN}\"], \"unknown\": 1}, \"bad\": {}}}");
}

static void remove_file(void)
{
	unlink(path);
}

static struct reload *new_reload(void)
{
	return reload_new(&(struct reload_options){
		.files = files, .must_exist = true, .environment = environment, .on_loaded = on_loaded });
}

/* How many allocations a load of the file takes. */
static unsigned allocations_of_load(void)
{
	struct config_problem *problems;
	size_t n;
	long live;
	alloc_watch(0);
	struct config *config = config_load(files, true, environment, &problems, &n);
	alloc_done(&live);
	ck_assert_ptr_nonnull(config);
	config_free(config);
	return alloc_count();
}

static void assert_out_of_memory(const struct reload *r)
{
	size_t n;
	const struct config_problem *problems = reload_problems(r, &n);
	ck_assert_uint_eq(n, 1);
	ck_assert_str_eq(problems[0].message, "out of memory");
}

START_TEST(a_reload_without_memory_changes_nothing)
{
	struct manager *manager = fake_new(&no_callbacks, NULL);
	struct reload *r = new_reload();
	unsigned n_allocations = allocations_of_load();
	ck_assert_uint_ge(n_allocations, 50);
	fake.n_configured = 0;
	for (unsigned nth = 1; nth <= n_allocations; nth++) {
		struct manager_changes changes;
		long live;
		alloc_watch(nth);
		int result = reload_run(r, manager, &changes);
		ck_assert(alloc_done(&live));
		ck_assert_int_eq(result, -EINVAL);
		ck_assert_int_eq(live, 0);
		assert_out_of_memory(r);
		ck_assert_ptr_null(changes.added);
		ck_assert_ptr_null(changes.removed);
		ck_assert_ptr_null(changes.changed);
		manager_changes_done(&changes);
	}
	ck_assert_uint_eq(reload_counts(r).failed, n_allocations);
	ck_assert_uint_eq(fake.n_configured, 0);
	ck_assert_uint_eq(n_loaded, 0);
	ck_assert_int_eq(reload_run(r, manager, NULL), 0);
	ck_assert_uint_eq(reload_counts(r).ok, 1);
	ck_assert_uint_eq(fake.n_configured, 1);
	ck_assert_uint_eq(n_loaded, 1);
	reload_free(r);
	fake_free();
}
END_TEST

START_TEST(a_first_load_without_memory_is_none)
{
	struct reload *r = new_reload();
	long live;
	for (unsigned nth = allocations_of_load(); nth > 0; nth--) {
		alloc_watch(nth);
		struct config *config = reload_load(r);
		ck_assert(alloc_done(&live));
		ck_assert_ptr_null(config);
		assert_out_of_memory(r);
	}
	/* Nor is what takes its place; and what was wrong stays told. */
	alloc_watch(1);
	struct config *config = reload_nothing(r);
	ck_assert(alloc_done(&live));
	ck_assert_ptr_null(config);
	config = reload_nothing(r);
	ck_assert_ptr_nonnull(config);
	assert_out_of_memory(r);
	config_free(config);
	reload_free(r);
}
END_TEST

START_TEST(problems_outlive_the_configuration)
{
	struct reload *r = new_reload();
	struct config *config = reload_load(r);
	ck_assert_uint_eq(config->n_servers, 2);
	ck_assert_ptr_nonnull(config->servers[1]->error);
	config_free(config);
	size_t n;
	const struct config_problem *problems = reload_problems(r, &n);
	ck_assert_uint_eq(n, 2);
	ck_assert(problems[0].warning && !problems[1].warning);
	ck_assert_str_eq(problems[0].server, "a");
	ck_assert_ptr_nonnull(strstr(problems[0].message, "unknown"));
	write_file("{");
	ck_assert_ptr_null(reload_load(r));
	problems = reload_problems(r, &n);
	ck_assert_uint_eq(n, 1);
	ck_assert_ptr_null(problems[0].server);
	reload_free(r);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = { a_reload_without_memory_changes_nothing, a_first_load_without_memory_is_none,
				       problems_outlive_the_configuration, NULL };
	return run_tests_with("reload", tests, make_file, remove_file);
}
