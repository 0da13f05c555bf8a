#include "log.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* The one process-wide setting outside main's struct: a log line must be possible where no context reaches. */
static struct {
	enum log_level most_verbose;
	bool journal;
	unsigned dropped; /* lines that found nobody reading, and were not told of yet */
} settings = { LOG_LEVEL_INFO, false, 0 };

void log_init(enum log_level most_verbose, bool journal)
{
	settings.most_verbose = most_verbose;
	settings.journal = journal;
}

/* A line, or false if it would have to wait: whoever reads our stderr must not be able to stop the loop. A pipe that is ready takes PIPE_BUF bytes at once. */
static bool emit(const char *line, size_t len)
{
	ssize_t n = send(STDERR_FILENO, line, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n >= 0 || errno != ENOTSOCK)
		return n >= 0 || errno != EAGAIN;
	struct pollfd out = { .fd = STDERR_FILENO, .events = POLLOUT };
	if (poll(&out, 1, 0) == 0)
		return false;
	n = write(STDERR_FILENO, line, len);
	return n >= 0 || errno != EAGAIN;
}

static void tell_dropped(void)
{
	char line[96];
	if (settings.dropped == 0)
		return;
	int len = snprintf(line, sizeof line, "%s%u log lines were dropped: nobody read them\n",
			   settings.journal ? "<4>" : "mcpd: warning: ", settings.dropped);
	if (emit(line, (size_t)len))
		settings.dropped = 0;
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
	tell_dropped();
	if (settings.dropped > 0 || !emit(line, total))
		settings.dropped++;
	errno = saved_errno;
}
