/* Options, and what stands around bridge_run(). */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "bridge.h"
#include "mcpd-version.h"
#include "proto/socket_path.h"
#include "proto/std_fds.h"

extern char **environ;

#define WAIT_MS 60000

/* In one write, and only if that does not wait: an agent that never reads what its servers say on stderr must not stop us. */
void complain(const char *format, ...)
{
	va_list args;
	char text[2048];
	struct pollfd pollfd = { .fd = STDERR_FILENO, .events = POLLOUT };
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (poll(&pollfd, 1, 0) == 1 && pollfd.revents & POLLOUT)
		dprintf(STDERR_FILENO, "mcpd-bridge: %s\n", text);
}

static const char help[] =
	"usage: mcpd-bridge [OPTIONS] [SERVER]\n\n"
	"An MCP server on standard input and output: the server of that name in mcpd's configuration, or all of them together.\n"
	"For an agent's configuration: {\"command\": \"mcpd-bridge\", \"args\": [\"SERVER\"]}.\n\n"
	"options:\n"
	"  --socket PATH   the daemon's socket (else MCPD_SOCKET, else $XDG_RUNTIME_DIR/mcpd/mcpd.sock)\n"
	"  --no-start      do not start the daemon when none is running\n"
	"  --wait SECONDS  how long a daemon that went away is waited for (60); requests wait half as long\n"
	"  --help, --version\n"
	"exit status:\n";

static void print_help(void)
{
	printf("%s", help);
#define PRINT_STATUS(name, status, what) printf("  %d  %s\n", status, what);
	BRIDGE_STATUS_TABLE(PRINT_STATUS)
#undef PRINT_STATUS
	printf("MCPD_PROGRAM names the mcpd to start.\n");
}

static bool parse_wait(const char *text, int64_t *ret_ms)
{
	char *end;
	errno = 0;
	double seconds = strtod(text, &end);
	if (errno || end == text || *end || !(seconds >= 0) || seconds > 2000000) {
		complain("--wait wants seconds, such as 60 or 0.5");
		return false;
	}
	*ret_ms = (int64_t)(seconds * 1000);
	return true;
}

/* -1: go on; else the exit status. */
static int parse_options(struct bridge *bridge, const char **ret_socket, int argc, char **argv)
{
	static const struct option options[] = {
		{ "socket", required_argument, NULL, 's' }, { "no-start", no_argument, NULL, 'N' },
		{ "wait", required_argument, NULL, 'w' },   { "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },      { 0 },
	};
	for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
		switch (c) {
		case 's':
			*ret_socket = optarg;
			break;
		case 'N':
			bridge->program = "";
			break;
		case 'w':
			if (!parse_wait(optarg, &bridge->wait_ms))
				return STATUS_USAGE;
			break;
		case 'h':
			print_help();
			return STATUS_CLOSED;
		case 'V':
			printf("mcpd-bridge %s\n", MCPD_VERSION);
			return STATUS_CLOSED;
		default:
			complain("`mcpd-bridge --help` lists the options");
			return STATUS_USAGE;
		}
	}
	if (argc - optind > 1) {
		complain("one server at most: without a name, all of them are there");
		return STATUS_USAGE;
	}
	bridge->server = argv[optind];
	return -1;
}

/* The agent may have had other ideas. */
static void set_signals(void)
{
	sigset_t none;
	sigemptyset(&none);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGTERM, SIG_DFL);
	signal(SIGINT, SIG_DFL);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

int main(int argc, char **argv)
{
	std_fds_reserve();
	struct bridge *bridge = calloc(1, sizeof *bridge);
	const char *socket = NULL;
	char *problem = NULL;
	if (!bridge) {
		complain("out of memory");
		return STATUS_SYSTEM;
	}
	bridge->fd = -1;
	bridge->wait_ms = WAIT_MS;
	ledger_init(&bridge->ledger);
	int status = parse_options(bridge, &socket, argc, argv);
	if (status < 0 && socket_path_find(socket, (const char *const *)environ, &bridge->socket_path, &problem) < 0) {
		complain("%s", problem ? problem : "out of memory");
		status = STATUS_NO_DAEMON;
	}
	if (status < 0) {
		set_signals();
		status = bridge_run(bridge);
	}
	ledger_done(&bridge->ledger);
	reach_done(&bridge->reach);
	buf_done(&bridge->up_own.lines);
	buf_done(&bridge->down_own.lines);
	free(bridge->socket_path);
	free(problem);
	free(bridge);
	return status;
}
