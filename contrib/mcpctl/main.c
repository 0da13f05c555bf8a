/* Options, the table of commands, and what ties them together. */
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "mcpd-version.h"
#include "proto/std_fds.h"

static const struct command commands[] = {
	{ "status", "", "the daemon: version, uptime, servers, memory", 0, 0, DAEMON_RUNNING, cmd_status },
	{ "servers", "", "all configured servers and their states", 0, 0, DAEMON_STARTED, cmd_servers },
	{ "tools", "[SERVER]", "the tools of all servers, or of one (--schema: with their schemas)", 0, 1,
	  DAEMON_STARTED, cmd_tools },
	{ "call", "SERVER TOOL [KEY=VALUE ... | JSON | -]", "call a tool", 2, -1, DAEMON_STARTED, cmd_call },
	{ "resources", "[SERVER]", "the resources of all servers, or of one", 0, 1, DAEMON_STARTED, cmd_resources },
	{ "read", "SERVER URI", "read a resource", 2, 2, DAEMON_STARTED, cmd_read },
	{ "prompts", "[SERVER]", "the prompts of all servers, or of one", 0, 1, DAEMON_STARTED, cmd_prompts },
	{ "prompt", "SERVER PROMPT [KEY=VALUE ... | JSON | -]", "get a prompt", 2, -1, DAEMON_STARTED, cmd_prompt },
	{ "complete", "SERVER PROMPT|URI ARGUMENT [PREFIX]", "complete an argument", 3, 4, DAEMON_STARTED,
	  cmd_complete },
	{ "request", "SERVER METHOD [JSON]", "any MCP request; prints the result as JSON", 2, 3, DAEMON_STARTED,
	  cmd_request },
	{ "logs", "SERVER", "what a server wrote to its log (-n LINES, -f: go on)", 1, 1, DAEMON_STARTED, cmd_logs },
	{ "events", "[TOPIC ...]", "what happens, line by line, until Ctrl-C", 0, 5, DAEMON_STARTED, cmd_events },
	{ "connect", "SERVER", "start a server", 1, 1, DAEMON_STARTED, cmd_connect },
	{ "disconnect", "SERVER", "stop a server; the next call starts it again", 1, 1, DAEMON_STARTED,
	  cmd_disconnect },
	{ "reconnect", "SERVER", "stop a server and start it anew", 1, 1, DAEMON_STARTED, cmd_reconnect },
	{ "metrics", "", "calls, latencies, restarts, bytes (--prometheus: for a monitoring system)", 0, 0,
	  DAEMON_RUNNING, cmd_metrics },
	{ "rpc", "URL METHOD [JSON]",
	  "one MCP request straight to an HTTP server, without the daemon; prints the whole answer", 2, 3, DAEMON_NONE,
	  cmd_rpc },
	{ "reload", "", "read the configuration anew", 0, 0, DAEMON_RUNNING, cmd_reload },
	{ "shutdown", "", "stop the daemon and all servers", 0, 0, DAEMON_RUNNING, cmd_shutdown },
	{ "restart", "", "stop the daemon once calls in flight are done, and start it anew", 0, 0, DAEMON_NONE,
	  cmd_restart },
	{ "install-service", "", "have systemd start this mcpd for you when a program connects (--now: from now on)", 0,
	  0, DAEMON_NONE, cmd_install_service },
	{ "remove-service", "", "undo install-service", 0, 0, DAEMON_NONE, cmd_remove_service },
};

static const char options_help[] =
	"options:\n"
	"  --json             the daemon's result as JSON, one line; failures as {\"error\":..}\n"
	"  --socket PATH      the daemon's socket (else MCPD_SOCKET, else $XDG_RUNTIME_DIR/mcpd/mcpd.sock)\n"
	"  --timeout SECONDS  how long a call may take (0: no limit); for tools: how long to wait for lists\n"
	"  --no-start         do not start the daemon when none is running\n"
	"  -o FILE            write images and other binary results to FILE (-: standard output)\n"
	"  --schema           with tools: show the schemas\n"
	"  --prometheus       with metrics: all of them, in the text format of Prometheus\n"
	"  -n LINES           with logs: how many lines\n"
	"  -f, --follow       with logs: go on with what comes\n"
	"  --now              with install-service: start the socket, too\n"
	"  --help, --version\n"
	"exit status: 0 done; 1 the request failed; 2 wrong usage; 3 the tool reported an error; 4 no daemon; 130 interrupted\n"
	"NO_COLOR turns colour off. MCPD_PROGRAM names the mcpd to start.\n";

static void print_help(void)
{
	printf("usage: mcpctl [OPTIONS] COMMAND ...\n\ncommands:\n");
	for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
		printf("  %s %s\n      %s\n", commands[i].name, commands[i].arguments, commands[i].summary);
	printf("\n%s", options_help);
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
		if (strcmp(commands[i].name, name) == 0)
			return &commands[i];
	return NULL;
}

static bool parse_timeout(const char *text, int *ret_ms)
{
	char *end;
	errno = 0;
	double seconds = strtod(text, &end);
	if (errno || end == text || *end || !(seconds >= 0) || seconds > 2000000) {
		complain("--timeout wants seconds, such as 30 or 0.5; 0 means no limit");
		return false;
	}
	*ret_ms = (int)(seconds * 1000);
	return true;
}

static bool parse_lines(const char *text, unsigned *ret_lines)
{
	char *end;
	long lines = strtol(text, &end, 10);
	if (end == text || *end || lines < 1 || lines > 1000000) {
		complain("-n wants a number of lines, from 1 to 1000000");
		return false;
	}
	*ret_lines = (unsigned)lines;
	return true;
}

/* -1: go on; else the exit status. */
static int parse_options(struct ctl *ctl, int argc, char **argv)
{
	static const struct option options[] = {
		{ "json", no_argument, NULL, 'j' },
		{ "socket", required_argument, NULL, 's' },
		{ "timeout", required_argument, NULL, 't' },
		{ "no-start", no_argument, NULL, 'N' },
		{ "output", required_argument, NULL, 'o' },
		{ "schema", no_argument, NULL, 'S' },
		{ "prometheus", no_argument, NULL, 'P' },
		{ "lines", required_argument, NULL, 'n' },
		{ "follow", no_argument, NULL, 'f' },
		{ "now", no_argument, NULL, 'w' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ 0 },
	};
	for (int c; (c = getopt_long(argc, argv, "o:n:fh", options, NULL)) != -1;) {
		switch (c) {
		case 'j':
			ctl->json = true;
			break;
		case 's':
			ctl->socket_path = optarg;
			break;
		case 't':
			if (!parse_timeout(optarg, &ctl->timeout_ms))
				return EXIT_USAGE;
			break;
		case 'N':
			ctl->no_start = true;
			break;
		case 'o':
			ctl->output_file = optarg;
			break;
		case 'S':
			ctl->schema = true;
			break;
		case 'P':
			ctl->prometheus = true;
			break;
		case 'n':
			if (!parse_lines(optarg, &ctl->lines))
				return EXIT_USAGE;
			break;
		case 'f':
			ctl->follow = true;
			break;
		case 'w':
			ctl->now = true;
			break;
		case 'h':
			print_help();
			return EXIT_OK;
		case 'V':
			printf("mcpctl %s\n", MCPD_VERSION);
			return EXIT_OK;
		default:
			complain("`mcpctl --help` lists the options");
			return EXIT_USAGE;
		}
	}
	return -1;
}

static int run(struct ctl *ctl, const struct command *command, int argc, char **argv)
{
	if (argc < command->min_args || (command->max_args >= 0 && argc > command->max_args)) {
		complain("usage: mcpctl %s %s", command->name, command->arguments);
		return EXIT_USAGE;
	}
	output_init();
	int status = EXIT_OK;
	if (command->daemon != DAEMON_NONE)
		status = session_open(ctl, command->daemon == DAEMON_STARTED);
	if (status == EXIT_OK && ctl->client && !ctl->json && command->run != cmd_shutdown)
		tell_if_older(ctl);
	if (status == EXIT_OK)
		status = command->run(ctl, argc, argv);
	mcpd_client_free(ctl->client);
	return output_flush(status);
}

int main(int argc, char **argv)
{
	struct ctl ctl = { .timeout_ms = -1 };
	std_fds_reserve();
	int status = parse_options(&ctl, argc, argv);
	if (status >= 0)
		return status;
	if (optind >= argc) {
		complain("which command? `mcpctl --help` lists them");
		return EXIT_USAGE;
	}
	const struct command *command = find_command(argv[optind]);
	if (!command) {
		complain("there is no command \"%s\"; `mcpctl --help` lists them", argv[optind]);
		return EXIT_USAGE;
	}
	return run(&ctl, command, argc - optind - 1, argv + optind + 1);
}
