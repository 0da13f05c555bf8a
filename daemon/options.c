#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "log.h"
#include "mcpd-version.h"
#include "xalloc.h"

enum {
	OPTION_CONFIG = 256,
	OPTION_SOCKET,
	OPTION_LOG_LEVEL,
	OPTION_CHECK,
	OPTION_TABLE,
	OPTION_MAN,
	OPTION_BACKGROUND,
	OPTION_VERSION,
	OPTION_HELP,
};

static const struct option long_options[] = {
	{ "config", required_argument, NULL, OPTION_CONFIG },
	{ "socket", required_argument, NULL, OPTION_SOCKET },
	{ "log-level", required_argument, NULL, OPTION_LOG_LEVEL },
	{ "check-config", no_argument, NULL, OPTION_CHECK },
	{ "print-config-table", no_argument, NULL, OPTION_TABLE },
	{ "print-config-man", no_argument, NULL, OPTION_MAN },
	{ "background", no_argument, NULL, OPTION_BACKGROUND },
	{ "version", no_argument, NULL, OPTION_VERSION },
	{ "help", no_argument, NULL, OPTION_HELP },
	{ NULL, 0, NULL, 0 },
};

static const char help[] =
	"Usage: mcpd [OPTION]...\n"
	"Shares MCP servers among the programs of one user, over a Unix socket. Runs in the foreground.\n"
	"\n"
	"  --config FILE         read this configuration in place of $XDG_CONFIG_HOME/mcpd/mcp.json (else\n"
	"                        ~/.config/mcpd/mcp.json); may be given again: later files win\n"
	"  --socket PATH         listen here in place of MCPD_SOCKET, else $XDG_RUNTIME_DIR/mcpd/mcpd.sock\n"
	"  --log-level LEVEL     " LOG_LEVEL_NAMES ", in place of MCPD_LOG, else of the configuration's\n"
	"                        logLevel, else info\n"
	"  --check-config        say what is wrong with the configuration, and end\n"
	"  --print-config-table  print what can be configured, as Markdown, and end\n"
	"  --print-config-man    the same in the language of manual pages\n"
	"  --background          let go of stdin, stdout and stderr once clients can connect; then log to the journal\n"
	"  --version, --help     print this, and end\n"
	"\n"
	"SIGHUP reads the configuration again. SIGTERM and SIGINT end the daemon once calls in flight are done or 5 s are\n"
	"over; a second one ends it without waiting for calls.\n"
	"\n"
	"Exit status: 0 ended in order; 1 a failure (--check-config: something is wrong); 2 a wrong command line; 3 another\n"
	"daemon is running on this socket; 4 the configuration cannot be used.\n";

static void add_config_file(struct options *o, const char *file)
{
	size_t n = 0;
	while (o->config_files[n])
		n++;
	o->config_files = xrealloc(o->config_files, n + 2, sizeof *o->config_files);
	o->config_files[n] = file;
	o->config_files[n + 1] = NULL;
}

/* One option; false ends the program with *ret_status. */
static bool take(struct options *o, int option, int *ret_status)
{
	*ret_status = EXIT_STATUS_USAGE;
	switch (option) {
	case OPTION_CONFIG:
		add_config_file(o, optarg);
		o->files_named = true;
		return true;
	case OPTION_SOCKET:
		o->socket = optarg;
		return true;
	case OPTION_LOG_LEVEL:
		o->log_level = optarg;
		if (log_level_find(optarg, &(enum log_level){ 0 }))
			return true;
		fprintf(stderr, "mcpd: --log-level is " LOG_LEVEL_NAMES ", not \"%s\"\n", optarg);
		return false;
	case OPTION_CHECK:
		o->check_config = true;
		return true;
	case OPTION_TABLE:
		o->print = config_print_table;
		return true;
	case OPTION_MAN:
		o->print = config_print_man;
		return true;
	case OPTION_BACKGROUND:
		o->background = true;
		return true;
	case OPTION_VERSION:
		puts("mcpd " MCPD_VERSION);
		*ret_status = EXIT_STATUS_OK;
		return false;
	case OPTION_HELP:
		fputs(help, stdout);
		*ret_status = EXIT_STATUS_OK;
		return false;
	default:
		fputs("mcpd: see mcpd --help\n", stderr);
		return false;
	}
}

/* A wrong value there is no reason not to start: it may have been set for all programs of a session. */
static void take_environment(struct options *o)
{
	const char *level = getenv("MCPD_LOG");
	if (o->log_level || !level || !*level)
		return;
	if (log_level_find(level, &(enum log_level){ 0 }))
		o->log_level = level;
	else
		log_warning("MCPD_LOG is " LOG_LEVEL_NAMES ", not \"%s\": ignored", level);
}

bool options_parse(struct options *o, int argc, char **argv, int *ret_status)
{
	*o = (struct options){ .config_files = xnew_array(const char *, 1) };
	int option;
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		if (!take(o, option, ret_status))
			return false;
	*ret_status = EXIT_STATUS_USAGE;
	if (optind < argc) {
		fprintf(stderr, "mcpd: \"%s\" is no option; see mcpd --help\n", argv[optind]);
		return false;
	}
	take_environment(o);
	if (o->files_named || o->print)
		return true;
	int error = config_default_file(&o->default_file);
	if (error < 0) {
		fputs(error == -ENOMEM ? "mcpd: out of memory\n" :
					 "mcpd: neither XDG_CONFIG_HOME nor HOME is set to an absolute path: "
					 "name a file with --config\n",
		      stderr);
		return false;
	}
	add_config_file(o, o->default_file);
	return true;
}

void options_done(struct options *o)
{
	free(o->config_files);
	free(o->default_file);
}
