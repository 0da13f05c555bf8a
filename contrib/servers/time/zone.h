/*
 * Civil time in the IANA zones of the system's database (/usr/share/zoneinfo).
 *
 * A name is accepted only if it can be one and a time zone file of that name exists, so that it can never lead out of
 * the database. The C library does the arithmetic, rules beyond the last listed transition included; it keeps one zone
 * per process, so these functions are for one thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <time.h>

/* 0; -EINVAL if no zone can have that name; -ENOENT if there is none; -ENXIO if the system has no zones at all. */
int zone_check(const char *name);

/* What the clocks of the zone show at an instant: fields, tm_isdst, tm_gmtoff. 0, -ENOMEM, or -ERANGE for a year that
 * does not fit. The zone must have been checked; tm_zone is not for use afterwards. */
int zone_at(const char *name, time_t at, struct tm *ret_wall);

/* The instant at which the clocks of the zone show a wall time (tm_year to tm_min). Where clocks went back and show it
 * twice, the first one. 0; -ERANGE where clocks went forward and never showed it; -ENOMEM. */
int zone_instant(const char *name, const struct tm *wall, time_t *ret_at);

/* Writes an offset as +hh:mm, with seconds only where there are some. */
char *zone_format_offset(long seconds, char *out, size_t size);
