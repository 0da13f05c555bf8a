#include "log.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The one process-wide setting outside main's struct: a log line must be possible where no context reaches. */
static struct {
	enum log_level most_verbose;
	bool journal;
} settings = { LOG_LEVEL_INFO, false };

void log_init(enum log_level most_verbose, bool journal)
{
	settings.most_verbose = most_verbose;
	settings.journal = journal;
}

void log_write(enum log_level level, const char *format, ...)
{
	if (level > settings.most_verbose)
		return;
	int saved_errno = errno;
	char line[2048];
	int prefix = settings.journal ? snprintf(line, sizeof line, "<%d>", (int)level) :
					snprintf(line, sizeof line, "mcpd: %s",
						 level == LOG_LEVEL_ERROR   ? "error: " :
						 level == LOG_LEVEL_WARNING ? "warning: " :
									      "");
	va_list args;
	va_start(args, format);
	int len = vsnprintf(line + prefix, sizeof line - (size_t)prefix - 1, format, args);
	va_end(args);
	if (len < 0)
		len = 0;
	size_t total = (size_t)prefix + (size_t)len;
	if (total > sizeof line - 2)
		total = sizeof line - 2;
	/* One event is one line, also when a server's text found its way into it. */
	for (size_t i = 0; i < total; i++)
		if ((unsigned char)line[i] < 0x20 && line[i] != '\t')
			line[i] = ' ';
	line[total++] = '\n';
	ssize_t written = write(STDERR_FILENO, line, total);
	(void)written; /* there is nobody to tell */
	errno = saved_errno;
}
