#include "tools.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/json_iter.h"
#include "zone.h"

#define TEXT_MAX_BYTES 256 /* of an argument; longer ones are no zone and no time */

/* Takes the named string members out of the arguments; NULL-terminated copies in ret_texts, NULL where one is absent.
 * Every member must be known, be a string, and come once. The first `required` ones must be there. */
static bool take_strings(struct span arguments, const char *const *names, size_t n, size_t required, char **ret_texts,
			 struct buf *error)
{
	struct json_iter it;
	struct span key, value;
	json_iter_init(&it, arguments);
	while (json_iter_member(&it, &key, &value)) {
		size_t i = 0;
		while (i < n && !json_string_is(key, names[i]))
			i++;
		if (i == n) {
			buf_add_text(error, "Unknown argument ");
			buf_add_span(error, key);
			buf_add_text(error, "; known are");
			for (i = 0; i < n; i++)
				buf_addf(error, "%s \"%s\"", i ? "," : "", names[i]);
			return false;
		}
		if (ret_texts[i]) {
			buf_addf(error, "The argument \"%s\" occurs twice", names[i]);
			return false;
		}
		if (json_type_of(value) == JSON_STRING && value.len <= TEXT_MAX_BYTES)
			ret_texts[i] = json_string_dup(value);
		if (!ret_texts[i]) {
			buf_addf(error, "The argument \"%s\" must be a short string", names[i]);
			return false;
		}
	}
	for (size_t i = 0; i < required; i++) {
		if (!ret_texts[i]) {
			buf_addf(error, "The argument \"%s\" is missing", names[i]);
			return false;
		}
	}
	return true;
}

static bool check_zone(const char *name, struct buf *error)
{
	switch (zone_check(name)) {
	case 0:
		return true;
	case -ENXIO:
		buf_add_text(error, "This system has no time zones; install its package tzdata");
		return false;
	default:
		buf_addf(error, "Unknown time zone \"%s\"; give an IANA name, for example \"Europe/Berlin\"", name);
		return false;
	}
}

static void add_time(struct buf *out, const char *zone, const struct tm *t)
{
	static const char *const days[] = {
		"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"
	};
	char offset[16];
	zone_format_offset(t->tm_gmtoff, offset, sizeof(offset));
	buf_add_text(out, "{\"timezone\":");
	buf_add_json_text(out, zone);
	buf_addf(out, ",\"datetime\":\"%04d-%02d-%02dT%02d:%02d:%02d%s\"", t->tm_year + 1900, t->tm_mon + 1, t->tm_mday,
		 t->tm_hour, t->tm_min, t->tm_sec, offset);
	buf_addf(out, ",\"day_of_week\":\"%s\",\"utc_offset\":\"%s\",\"is_dst\":%s}", days[t->tm_wday], offset,
		 t->tm_isdst > 0 ? "true" : "false");
}

static void get_current_time(struct span arguments, time_t now, struct buf *result, struct buf *error)
{
	static const char *const names[] = { "timezone" };
	char *zone = NULL;
	struct tm wall;
	if (take_strings(arguments, names, 1, 1, &zone, error) && check_zone(zone, error)) {
		if (zone_at(zone, now, &wall) < 0)
			buf_add_text(error, "This system's clock cannot be shown in that time zone");
		else
			add_time(result, zone, &wall);
	}
	free(zone);
}

/* Reads the digits that `pattern` marks with `9`, at most ranges of two or four; the other bytes must be there as they
 * are. */
static bool read_digits(const char *text, const char *pattern, int *ret_numbers)
{
	int number = 0;
	for (; *pattern; pattern++, text++) {
		if (*pattern == '9') {
			if (*text < '0' || *text > '9')
				return false;
			number = number * 10 + (*text - '0');
			if (pattern[1] != '9') {
				*ret_numbers++ = number;
				number = 0;
			}
		} else if (*text != *pattern) {
			return false;
		}
	}
	return *text == '\0';
}

static bool read_time(const char *text, struct tm *wall, struct buf *error)
{
	int n[2];
	if (!read_digits(text, "99:99", n) || n[0] > 23 || n[1] > 59) {
		buf_addf(error, "\"%s\" is no time; give hours and minutes as HH:MM, for example \"16:30\"", text);
		return false;
	}
	wall->tm_hour = n[0];
	wall->tm_min = n[1];
	wall->tm_sec = 0;
	return true;
}

static bool read_date(const char *text, struct tm *wall, struct buf *error)
{
	int n[3];
	if (read_digits(text, "9999-99-99", n) && n[0] >= 1970 && n[1] >= 1 && n[2] >= 1) {
		struct tm date = { .tm_year = n[0] - 1900, .tm_mon = n[1] - 1, .tm_mday = n[2] };
		/* timegm() carries 31 April over into May. */
		if (timegm(&date) >= 0 && date.tm_mon == n[1] - 1 && date.tm_mday == n[2]) {
			wall->tm_year = date.tm_year;
			wall->tm_mon = date.tm_mon;
			wall->tm_mday = date.tm_mday;
			return true;
		}
	}
	buf_addf(error, "\"%s\" is no date since 1970; give it as YYYY-MM-DD, for example \"2026-03-29\"", text);
	return false;
}

static int day_number(const struct tm *t)
{
	struct tm date = { .tm_year = t->tm_year, .tm_mon = t->tm_mon, .tm_mday = t->tm_mday };
	return (int)(timegm(&date) / 86400);
}

enum { SOURCE, TIME, TARGET, DATE, CONVERT_ARGUMENTS };

/* The instant that the arguments mean. */
static bool find_instant(char *const *texts, time_t now, time_t *ret_at, struct buf *error)
{
	struct tm wall = { 0 };
	if (!check_zone(texts[SOURCE], error) || !check_zone(texts[TARGET], error))
		return false;
	int rc = zone_at(texts[SOURCE], now, &wall); /* the date, unless one is given */
	if (!read_time(texts[TIME], &wall, error) || (texts[DATE] && !read_date(texts[DATE], &wall, error)))
		return false;
	if (rc == 0)
		rc = zone_instant(texts[SOURCE], &wall, ret_at);
	if (rc == -ERANGE)
		buf_addf(error, "In %s the clocks never show %s on %04d-%02d-%02d: they go forward over it",
			 texts[SOURCE], texts[TIME], wall.tm_year + 1900, wall.tm_mon + 1, wall.tm_mday);
	else if (rc < 0)
		buf_add_text(error, "Out of memory");
	return rc == 0;
}

static void convert_time(struct span arguments, time_t now, struct buf *result, struct buf *error)
{
	static const char *const names[CONVERT_ARGUMENTS] = { "source_timezone", "time", "target_timezone", "date" };
	char *texts[CONVERT_ARGUMENTS] = { 0 };
	time_t at;
	struct tm source, target;
	if (take_strings(arguments, names, CONVERT_ARGUMENTS, DATE, texts, error) &&
	    find_instant(texts, now, &at, error)) {
		if (zone_at(texts[SOURCE], at, &source) < 0 || zone_at(texts[TARGET], at, &target) < 0) {
			buf_add_text(error, "That time cannot be shown in both time zones");
		} else {
			char difference[16];
			zone_format_offset(target.tm_gmtoff - source.tm_gmtoff, difference, sizeof(difference));
			buf_add_text(result, "{\"source\":");
			add_time(result, texts[SOURCE], &source);
			buf_add_text(result, ",\"target\":");
			add_time(result, texts[TARGET], &target);
			buf_addf(result, ",\"time_difference\":\"%s\",\"day_difference\":%d}", difference,
				 day_number(&target) - day_number(&source));
		}
	}
	for (size_t i = 0; i < CONVERT_ARGUMENTS; i++)
		free(texts[i]);
}

/* The formatter knows no way to lay out strings that are made of macros. */
/* clang-format off */
#define STRING(name, what) "\"" name "\":{\"type\":\"string\",\"description\":\"" what "\"}"
#define OBJECT(properties, required) \
	"{\"type\":\"object\",\"properties\":{" properties "},\"required\":[" required "]," \
	"\"additionalProperties\":false}"
#define TOOL(name, title, what, input, output) \
	"{\"name\":\"" name "\",\"title\":\"" title "\",\"description\":\"" what "\"," \
	"\"inputSchema\":" input ",\"outputSchema\":" output "," \
	"\"annotations\":{\"readOnlyHint\":true,\"openWorldHint\":false}}"

#define ZONE_WHAT "IANA time zone name, for example Europe/Berlin"
#define SHOWN_TIME \
	OBJECT(STRING("timezone", "IANA time zone name") "," \
	       STRING("datetime", "ISO 8601, with offset") "," \
	       STRING("day_of_week", "English name") "," \
	       STRING("utc_offset", "Offset from UTC, as +hh:mm") "," \
	       "\"is_dst\":{\"type\":\"boolean\",\"description\":\"Whether summer time is in force\"}", \
	       "\"timezone\",\"datetime\",\"day_of_week\",\"utc_offset\",\"is_dst\"")

const struct tool tools[TOOL_COUNT] = {
	{ "get_current_time",
	  TOOL("get_current_time", "Current time", "Tells the current time in a time zone",
	       OBJECT(STRING("timezone", ZONE_WHAT), "\"timezone\""),
	       SHOWN_TIME),
	  get_current_time },
	{ "convert_time",
	  TOOL("convert_time", "Convert time", "Converts a time of day from one time zone to another",
	       OBJECT(STRING("source_timezone", ZONE_WHAT) ","
		      STRING("time", "24-hour time as HH:MM") ","
		      STRING("target_timezone", ZONE_WHAT) ","
		      STRING("date", "Day in the source zone as YYYY-MM-DD; default today"),
		      "\"source_timezone\",\"time\",\"target_timezone\""),
	       OBJECT("\"source\":" SHOWN_TIME ",\"target\":" SHOWN_TIME ","
		      STRING("time_difference", "Target minus source, as +hh:mm") ","
		      "\"day_difference\":{\"type\":\"integer\",\"description\":\"Days by which the target is later\"}",
		      "\"source\",\"target\",\"time_difference\",\"day_difference\"")),
	  convert_time },
};
/* clang-format on */

const struct tool *tool_find(struct span name)
{
	for (size_t i = 0; i < TOOL_COUNT; i++)
		if (json_string_is(name, tools[i].name))
			return &tools[i];
	return NULL;
}
