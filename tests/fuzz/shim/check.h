/* What the fixtures of the unit tests want of Check, for programs without it: a claim that is wrong ends the program. */
#pragma once

#include <stdlib.h>
#include <string.h>

#define CK_REQUIRE(condition)                                                                                          \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			abort();                                                                                       \
	} while (0)

#define ck_assert(condition) CK_REQUIRE(condition)
#define ck_assert_msg(condition, ...) CK_REQUIRE(condition)
#define ck_assert_int_eq(a, b) CK_REQUIRE((a) == (b))
#define ck_assert_int_ge(a, b) CK_REQUIRE((a) >= (b))
#define ck_assert_uint_eq(a, b) CK_REQUIRE((a) == (b))
#define ck_assert_uint_lt(a, b) CK_REQUIRE((a) < (b))
#define ck_assert_ptr_nonnull(a) CK_REQUIRE((a) != NULL)
#define ck_assert_str_eq(a, b) CK_REQUIRE(strcmp((a), (b)) == 0)
