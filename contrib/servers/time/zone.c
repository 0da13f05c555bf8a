#include "zone.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define DATABASE "/usr/share/zoneinfo"
#define NAME_MAX_BYTES 64 /* the longest of today has 32 */

/* Letters, digits, `_`, `+`, `-` in components divided by single slashes: no dot, so no way up and none of the tables
 * beside the zones. */
static bool is_zone_name(const char *name)
{
	static const char bytes[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-/";
	size_t len = strlen(name);
	if (len == 0 || len > NAME_MAX_BYTES || strspn(name, bytes) != len)
		return false;
	return name[0] != '/' && name[len - 1] != '/' && !strstr(name, "//");
}

/* Files of the database that hold zones but are none of IANA's names: aliases of this system, and other countings of
 * seconds. */
static bool is_private_name(const char *name)
{
	static const char *const names[] = { "localtime", "posixrules", "Factory" };
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(name, names[i]) == 0)
			return true;
	return strncmp(name, "right/", 6) == 0 || strncmp(name, "posix/", 6) == 0;
}

int zone_check(const char *name)
{
	if (!is_zone_name(name))
		return -EINVAL;
	struct stat st;
	if (stat(DATABASE, &st) < 0)
		return -ENXIO;
	if (is_private_name(name))
		return -ENOENT;
	char path[sizeof(DATABASE) + 1 + NAME_MAX_BYTES];
	snprintf(path, sizeof(path), "%s/%s", DATABASE, name);
	if (stat(path, &st) < 0 || !S_ISREG(st.st_mode))
		return -ENOENT;
	FILE *file = fopen(path, "re");
	if (!file)
		return -ENOENT;
	char magic[4];
	bool is_zone = fread(magic, 1, sizeof(magic), file) == sizeof(magic) && memcmp(magic, "TZif", 4) == 0;
	fclose(file);
	return is_zone ? 0 : -ENOENT;
}

static int enter_zone(const char *name)
{
	char value[sizeof(":" DATABASE "/") + NAME_MAX_BYTES];
	snprintf(value, sizeof(value), ":%s/%s", DATABASE, name);
	if (setenv("TZ", value, 1) < 0)
		return -ENOMEM;
	tzset();
	return 0;
}

int zone_at(const char *name, time_t at, struct tm *ret_wall)
{
	int rc = enter_zone(name);
	if (rc < 0)
		return rc;
	return localtime_r(&at, ret_wall) ? 0 : -ERANGE;
}

int zone_instant(const char *name, const struct tm *wall, time_t *ret_at)
{
	int rc = enter_zone(name);
	if (rc < 0)
		return rc;
	/* mktime() moves a wall time that does not exist, and prefers neither of two: so each reading of it is tried,
	 * and only one that reads back as the same counts. Summer time comes first where clocks go back. */
	rc = -ERANGE;
	for (int isdst = 1; isdst >= -1; isdst--) {
		struct tm tried = *wall, back;
		tried.tm_isdst = isdst;
		time_t at = mktime(&tried);
		if (!localtime_r(&at, &back) || back.tm_year != wall->tm_year || back.tm_mon != wall->tm_mon ||
		    back.tm_mday != wall->tm_mday || back.tm_hour != wall->tm_hour || back.tm_min != wall->tm_min)
			continue;
		if (rc < 0 || at < *ret_at)
			*ret_at = at;
		rc = 0;
	}
	return rc;
}

char *zone_format_offset(long seconds, char *out, size_t size)
{
	long value = labs(seconds);
	int len = snprintf(out, size, "%c%02ld:%02ld", seconds < 0 ? '-' : '+', value / 3600, value / 60 % 60);
	if (value % 60 != 0 && len > 0 && (size_t)len < size)
		snprintf(out + len, size - (size_t)len, ":%02ld", value % 60);
	return out;
}
