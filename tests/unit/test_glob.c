#include "config/glob.h"

#include <string.h>

#include "run.h"

START_TEST(stars_and_question_marks)
{
	static const struct {
		const char *pattern, *text;
		bool matches;
	} table[] = {
		{ "", "", true },
		{ "", "a", false },
		{ "*", "", true },
		{ "*", "anything", true },
		{ "get_*", "get_x", true },
		{ "get_*", "get_", true },
		{ "get_*", "Get_x", false },
		{ "*_read", "x_read", true },
		{ "*_read", "x_reads", false },
		{ "a*b*c", "aXbYc", true },
		{ "a*b*c", "aXcYb", false },
		{ "a*b*c", "abcbc", true },
		{ "?", "a", true },
		{ "?", "", false },
		{ "?", "\xc3\xa9", true },
		{ "??", "\xc3\xa9", false },
		{ "a?c", "abc", true },
		{ "[a]", "a", false },
		{ "[a]", "[a]", true },
		{ "**", "x", true },
		{ "*?", "", false },
		{ "x*", "ax", false },
	};
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
		ck_assert_msg(glob_match(table[i].pattern, span_of(table[i].text)) == table[i].matches, "%s: %s",
			      table[i].pattern, table[i].text);
}
END_TEST

/* A matcher that goes back to every star would not come back from this. */
START_TEST(many_stars_take_no_longer)
{
	static char text[20001], pattern[401];
	memset(text, 'a', 20000);
	for (int i = 0; i < 199; i++)
		memcpy(pattern + 2 * i, "a*", 2);
	ck_assert(glob_match(pattern, span_of(text)));
	strcat(pattern, "b");
	ck_assert(!glob_match(pattern, span_of(text)));
}
END_TEST

int main(void)
{
	return RUN_TESTS("glob", stars_and_question_marks, many_stars_take_no_longer);
}
