/* The daemon's command line. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

/* Exit statuses of mcpd, as --help tells them. */
enum exit_status {
	EXIT_STATUS_OK = 0,      /* ended in order */
	EXIT_STATUS_FAILED = 1,  /* a failure that was told on stderr; --check-config: something is wrong */
	EXIT_STATUS_USAGE = 2,   /* a wrong command line */
	EXIT_STATUS_RUNNING = 3, /* another daemon is running on this socket */
	EXIT_STATUS_CONFIG = 4,  /* the configuration cannot be used */
};

struct options {
	const char **config_files; /* NULL-terminated; those of --config, or the default one */
	char *default_file;        /* what config_files points to, if none was named */
	bool files_named;
	const char *socket;       /* NULL: not given */
	const char *log_level;    /* of --log-level, else of MCPD_LOG; NULL: neither is given */
	void (*print)(FILE *out); /* what --print-.. wants, or NULL */
	bool check_config, background;
};

/* True to go on; else the program ends with *ret_status: help and version are printed, mistakes told. options_done() in
 * every case. */
bool options_parse(struct options *options, int argc, char **argv, int *ret_status);
void options_done(struct options *options);
