/* Runs a loop until something has come true; a test that waits in vain fails. */
#pragma once

#include <check.h>
#include <stdbool.h>

#include "loop/loop.h"

#define LOOP_WAIT_MS 60000

#define loop_wait(loop, condition)                                                                                     \
	do {                                                                                                           \
		int64_t give_up_ = loop_now_ms() + LOOP_WAIT_MS;                                                       \
		while (!(condition)) {                                                                                 \
			ck_assert_msg(loop_now_ms() < give_up_, "never came true: %s", #condition);                    \
			ck_assert_int_eq(loop_once((loop), 5), 0);                                                     \
		}                                                                                                      \
	} while (0)

/* Passes in which nothing is waited for: what was due has happened after a few. */
static inline void loop_settle(struct loop *loop)
{
	for (int i = 0; i < 5; i++)
		ck_assert_int_eq(loop_once(loop, 0), 0);
}
