/* limits: the table and the values it starts with. */
#include "proto/limits.h"

#include "tests/unit/run.h"

START_TEST(limits_have_names_and_sane_defaults)
{
	struct limits limits;
	limits_init(&limits);
	for (int i = 0; i < LIMIT_COUNT; i++) {
		const struct limit_info *info = &limit_table[i];
		ck_assert_int_eq(limits.value[i], info->def);
		ck_assert_msg(info->min > 0 && info->min <= info->def && info->def <= info->max, "%s", info->key);
		ck_assert_int_eq(limits_find(info->key), i);
		ck_assert(info->unit[0] && info->what[0]);
	}
	ck_assert_int_eq(limits.value[LIMIT_MESSAGE_BYTES], 64 << 20);
	ck_assert_int_eq(limits_find("maxMessageByte"), -1);
	ck_assert_int_eq(limits_find(""), -1);
}
END_TEST

int main(void)
{
	return RUN_TESTS("limits", limits_have_names_and_sane_defaults);
}
