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

START_TEST(every_end_of_a_call_has_a_name)
{
	static const struct {
		int code;
		const char *name;
	} table[] = {
		{ 0, "ok" },
		{ MCPD_E_SERVER, "error" },
		{ MCPD_E_TIMEOUT, "timeout" },
		{ MCPD_E_CANCELLED, "cancelled" },
		{ MCPD_E_TRANSPORT, "closed" },
		{ MCPD_E_UNAVAILABLE, "unavailable" },
		{ MCPD_E_HTTP, "http-error" },
		{ MCPD_E_PROTOCOL, "protocol-error" },
		{ MCPD_E_LIMIT, "limit" },
		{ MCPD_E_NEEDS_AUTH, "needs-auth" },
		{ MCPD_E_INTERNAL, "failed" },
		{ 17, "failed" },
	};
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		ck_assert_str_eq(mcpd_outcome_name(mcpd_outcome_of(table[i].code)), table[i].name);
	ck_assert_str_eq(mcpd_outcome_name(OUTCOME_CLIENT_GONE), "client-gone");
}
END_TEST

int main(void)
{
	return RUN_TESTS("errors", every_error_code_has_its_title, every_end_of_a_call_has_a_name);
}
