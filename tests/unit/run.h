/* The main() of a test program: runs the listed tests as one suite; 0 if all have passed. */
#pragma once

#include <check.h>
#include <stddef.h>

/* Generous: sanitizers and a loaded machine are slow, and a test that hangs is still found. */
#define RUN_TIMEOUT_SECONDS 300

static inline int run_tests(const char *name, const TTest *const *tests)
{
	Suite *suite = suite_create(name);
	TCase *tc = tcase_create(name);
	tcase_set_timeout(tc, RUN_TIMEOUT_SECONDS);
	for (; *tests; tests++)
		tcase_add_test(tc, *tests);
	suite_add_tcase(suite, tc);
	SRunner *runner = srunner_create(suite);
	srunner_run_all(runner, CK_ENV);
	int failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return failed == 0 ? 0 : 1;
}

#define RUN_TESTS(name, ...) run_tests((name), (const TTest *const[]){ __VA_ARGS__, NULL })
