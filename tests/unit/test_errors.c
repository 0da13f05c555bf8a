/* errors: the table of codes and their titles. */
#include "proto/errors.h"

#include "tests/unit/run.h"

START_TEST(every_error_code_has_its_title)
{
	ck_assert_str_eq(mcpd_error_title(-32700), "Parse error");
	ck_assert_str_eq(mcpd_error_title(-32003), "Transport closed");
	ck_assert_str_eq(mcpd_error_title(MCPD_E_NEEDS_AUTH), "Authorization needed");
	ck_assert_str_eq(mcpd_error_title(0), "Error");
	ck_assert_str_eq(mcpd_error_title(-32011), "Error");
}
END_TEST

int main(void)
{
	return RUN_TESTS("errors", every_error_code_has_its_title);
}
