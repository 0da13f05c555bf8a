/* The main() of a test program: runs the listed tests as one suite; 0 if all have passed. */
#pragma once

#include <check.h>
#include <stddef.h>

/* Generous: sanitizers and a loaded machine are slow, and a test that hangs is still found. */
#define RUN_TIMEOUT_SECONDS 300

/* The same with a checked fixture around each test; both may be NULL. */
static inline int run_tests_with(const char *name, const TTest *const *tests, void (*setup)(void),
				 void (*teardown)(void))
{
	Suite *suite = suite_create(name);
	TCase *tc = tcase_create(name);
	tcase_set_timeout(tc, RUN_TIMEOUT_SECONDS);
	if (setup)
		tcase_add_checked_fixture(tc, setup, teardown);
	for (; *tests; tests++)
		tcase_add_test(tc, *tests);
	suite_add_tcase(suite, tc);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}

static inline int run_tests(const char *name, const TTest *const *tests)
{
	return run_tests_with(name, tests, NULL, NULL);
}

#define RUN_TESTS(name, ...) run_tests((name), (const TTest *const[]){ __VA_ARGS__, NULL })
