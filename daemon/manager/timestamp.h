/* The wall clock as answers and events tell it: RFC 3339, UTC, milliseconds (PROTOCOL). */
#pragma once

#define TIMESTAMP_TEXT 32

/* "2025-11-25T08:30:00.123Z" into out; returns it. */
char *timestamp_now(char out[static TIMESTAMP_TEXT]);
