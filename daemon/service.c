#include "service.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <syslog.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>
#include <systemd/sd-journal.h>
#include <systemd/sd-login.h>

#include "journal.h"
#include "log.h"
#include "xalloc.h"

const char *service_journal(void)
{
	/* "DEVICE:INODE" of the stream that the service manager connected; stderr may have been redirected since. */
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat st;
	if (!stream || sscanf(stream, "%llu:%llu", &device, &inode) != 2 || fstat(STDERR_FILENO, &st) < 0)
		return NULL;
	return st.st_dev == device && st.st_ino == inode ? JOURNAL_SOCKET : NULL;
}

int service_take_socket(void)
{
	int n = sd_listen_fds(true);
	if (n <= 0)
		return -1;
	if (n == 1 && sd_is_socket_unix(SD_LISTEN_FDS_START, SOCK_STREAM, 1, NULL, 0) > 0)
		return SD_LISTEN_FDS_START;
	log_error("the service manager handed in %d descriptors; mcpd takes one listening Unix stream socket", n);
	return -EINVAL;
}

char *service_find_unit(void)
{
	/* What a unit's main process starts, a terminal's shell for one, is in its control group, too. */
	const char *main_process = getenv("SYSTEMD_EXEC_PID");
	char *unit = NULL;
	if (!main_process || strtol(main_process, NULL, 10) != (long)getpid() || sd_pid_get_user_unit(0, &unit) < 0)
		return NULL;
	return unit;
}

void service_ready(void)
{
	sd_notify(false, "READY=1");
}

void service_reloading(void)
{
	/* The time is what Type=notify-reload (systemd 253) wants to hear. */
	sd_notifyf(false, "RELOADING=1\nMONOTONIC_USEC=%" PRId64, loop_now_us());
}

void service_stopping(int64_t within_ms)
{
	sd_notifyf(false, "STOPPING=1\nEXTEND_TIMEOUT_USEC=%" PRId64, within_ms * 1000);
}

void service_status(const char *format, ...)
{
	va_list args;
	char *text = NULL;
	va_start(args, format);
	if (vasprintf(&text, format, args) >= 0)
		sd_notifyf(false, "STATUS=%s", text);
	va_end(args);
	free(text);
}

/* --- the watchdog --- */

struct service_watchdog {
	struct loop *loop;
	struct timer *timer; /* a loop with nothing to do passes for this */
	int64_t every_ms;
	int64_t due_ms;
};

static void on_pass(void *arg)
{
	struct service_watchdog *w = arg;
	int64_t now = loop_now_ms();
	if (now < w->due_ms)
		return;
	sd_notify(false, "WATCHDOG=1");
	w->due_ms = now + w->every_ms;
	timer_set(w->timer, w->due_ms);
}

static void on_timer(void *arg)
{
	(void)arg; /* the pass is all that was wanted */
}

struct service_watchdog *service_watchdog_new(struct loop *loop)
{
	uint64_t usec;
	if (sd_watchdog_enabled(false, &usec) <= 0)
		return NULL;
	struct service_watchdog *w = xnew(struct service_watchdog);
	w->loop = loop;
	w->every_ms = (int64_t)(usec / 1000 / 2);
	w->timer = timer_new(loop, on_timer, w);
	loop_set_pass_hook(loop, on_pass, w);
	timer_set(w->timer, loop_now_ms());
	return w;
}

void service_watchdog_free(struct service_watchdog *w)
{
	if (!w)
		return;
	loop_set_pass_hook(w->loop, NULL, NULL);
	timer_free(w->timer);
	free(w);
}

/* --- the background --- */

const char *service_detach(void)
{
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int journal_fd = sd_journal_stream_fd("mcpd", LOG_INFO, true);
	int log_fd = journal_fd >= 0 ? journal_fd : null_fd;
	if (null_fd >= 0) {
		dup2(null_fd, STDIN_FILENO);
		dup2(null_fd, STDOUT_FILENO);
	}
	if (log_fd >= 0)
		dup2(log_fd, STDERR_FILENO);
	if (null_fd > STDERR_FILENO)
		close(null_fd);
	if (journal_fd >= 0)
		close(journal_fd);
	return journal_fd >= 0 ? JOURNAL_SOCKET : NULL;
}
