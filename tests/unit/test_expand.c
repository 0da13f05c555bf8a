/* expand: the three forms, what is none of them, and what is told (R36). */
#include "config/expand.h"

#include <stdlib.h>
#include <string.h>

#include "tests/unit/run.h"

static const char *const environment[] = { "HOME=/home/me", "EMPTY=", "A=1",   "AB=2",
					   "TOKEN=s3cret",  "_x9=y",  "E=a=b", NULL };

static void assert_expands(const char *text, const char *want)
{
	char *error = NULL;
	char *got = expand(text, environment, &error);
	ck_assert_msg(got, "'%s': %s", text, error);
	ck_assert_str_eq(got, want);
	ck_assert_ptr_null(error);
	free(got);
}

/* The error contains `want`, and nothing of any value. */
static void assert_refused(const char *text, const char *want)
{
	char *error = NULL;
	char *got = expand(text, environment, &error);
	ck_assert_msg(!got, "'%s' gives '%s'", text, got);
	ck_assert_msg(strstr(error, want), "'%s': '%s' lacks '%s'", text, error, want);
	ck_assert_ptr_null(strstr(error, "s3cret"));
	free(error);
}

START_TEST(text_without_a_reference_stays_as_it_is)
{
	static const char *const plain[] = {
		"", "a", "$", "$$", "$HOME", "a$", "{A}", "$ {A}", "100 %", "}", "\xc3\xa9"
	};
	for (size_t i = 0; i < sizeof(plain) / sizeof(*plain); i++)
		assert_expands(plain[i], plain[i]);
}
END_TEST

START_TEST(r36_a_variable_is_replaced_in_each_of_the_three_forms)
{
	assert_expands("${A}", "1");
	assert_expands("${env:A}", "1");
	assert_expands("${A:-x}", "1");
	assert_expands("${env:A:-x}", "1");
	assert_expands("<${A}${AB}>", "<12>");
	assert_expands("Bearer ${TOKEN}!", "Bearer s3cret!");
	assert_expands("${_x9}", "y");
	assert_expands("${E}", "a=b");
}
END_TEST

START_TEST(r36_a_default_stands_in_for_what_is_not_set_or_empty)
{
	assert_expands("${NONE:-x}", "x");
	assert_expands("${EMPTY:-x}", "x");
	assert_expands("${NONE:-}", "");
	assert_expands("${env:NONE:-a:-b c/$d}", "a:-b c/$d");
	assert_expands("${NONE:-a}}", "a}");
	/* Set is set, also if it is empty. */
	assert_expands("[${EMPTY}]", "[]");
}
END_TEST

START_TEST(a_doubled_dollar_makes_the_brace_literal)
{
	assert_expands("$${A}", "${A}");
	assert_expands("$$${A}", "$${A}");
	assert_expands("$${A}${A}", "${A}1");
	assert_expands("$${", "${");
}
END_TEST

START_TEST(what_is_expanded_is_not_expanded_again)
{
	static const char *const tricky[] = { "X=${A}", "A=1", NULL };
	char *error = NULL;
	char *got = expand("${X}", tricky, &error);
	ck_assert_str_eq(got, "${A}");
	free(got);
}
END_TEST

START_TEST(r36_a_variable_that_is_not_set_is_an_error_that_names_it)
{
	assert_refused("${TOKENX}", "variable TOKENX is not set");
	assert_refused("${TOKEN}${env:NOPE}", "variable NOPE is not set");
	assert_refused("${TOKE}", "write ${TOKE:-DEFAULT}");
	/* Names are told apart by their whole length. */
	assert_refused("${HOM}", "HOM is not set");
	char *error = NULL;
	ck_assert_ptr_null(expand("${A}", NULL, &error));
	ck_assert_ptr_nonnull(strstr(error, "A is not set"));
	free(error);
}
END_TEST

START_TEST(r36_any_other_brace_is_an_error_that_says_how_to_write_it)
{
	static const char *const wrong[] = { "${",          "${A",         "${}",     "${A-x}",
					     "${9A}",       "${A B}",      "${A:x}",  "${A:-x",
					     "${input:t}",  "${env:}",     "${env:A", "${env: A}",
					     "${:-x}",      "${A:",        "${A.b}",  "s3cret${A s3cret",
					     "${\xc3\xa9}", "${env:env:A}" };
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_refused(wrong[i], "write \"$${\" for a literal");
	assert_refused("${A:-${AB}}", "inside the default");
	assert_refused("${NONE:-$${AB}", "inside the default");
}
END_TEST

START_TEST(a_result_has_a_greatest_length)
{
	/* 64 KiB, sixteen times: exactly the limit; one byte more is too many. */
	size_t len = EXPAND_MAX_BYTES / 16;
	char *variable = malloc(len + 3);
	memcpy(variable, "V=", 2);
	memset(variable + 2, 'v', len);
	variable[len + 2] = '\0';
	const char *const list[] = { variable, NULL };
	char text[16 * 4 + 2] = "";
	for (int i = 0; i < 16; i++)
		strcat(text, "${V}");
	char *error = NULL;
	char *got = expand(text, list, &error);
	ck_assert_ptr_nonnull(got);
	ck_assert_uint_eq(strlen(got), EXPAND_MAX_BYTES);
	free(got);
	strcat(text, "x");
	ck_assert_ptr_null(expand(text, list, &error));
	ck_assert_str_eq(error, "is longer than 1 MiB once its variables are expanded");
	free(error);
	free(variable);
}
END_TEST

int main(void)
{
	return RUN_TESTS("expand", text_without_a_reference_stays_as_it_is,
			 r36_a_variable_is_replaced_in_each_of_the_three_forms,
			 r36_a_default_stands_in_for_what_is_not_set_or_empty, a_doubled_dollar_makes_the_brace_literal,
			 what_is_expanded_is_not_expanded_again,
			 r36_a_variable_that_is_not_set_is_an_error_that_names_it,
			 r36_any_other_brace_is_an_error_that_says_how_to_write_it, a_result_has_a_greatest_length);
}
