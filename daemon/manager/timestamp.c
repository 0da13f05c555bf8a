#include "manager/timestamp.h"

#include <stdio.h>
#include <time.h>

char *timestamp_now(char out[static TIMESTAMP_TEXT])
{
	struct timespec now;
	struct tm parts;
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &parts);
	size_t len = strftime(out, TIMESTAMP_TEXT, "%Y-%m-%dT%H:%M:%S", &parts);
	snprintf(out + len, TIMESTAMP_TEXT - len, ".%03dZ", (int)(now.tv_nsec / 1000000 % 1000));
	return out;
}
