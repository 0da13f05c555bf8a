/*
 * The load of tests/bench/run: the same calls to the same server, directly over its pipes or through mcpd, in one program so that both are measured alike.
 *
 *     load direct COUNT DEPTH SERVER-PROGRAM       starts the server and speaks to it
 *     load mcpd COUNT DEPTH SERVER-NAME            through the daemon on MCPD_SOCKET
 *
 * Keeps DEPTH calls in flight until COUNT are done; prints "calls/s" and the median and 99th percentile latency in microseconds.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "mcpd-client.h"
#include "proto/framer.h"
#include "proto/jsonrpc.h"

#define TOOL "get_current_time"
#define ARGUMENTS "{\"timezone\":\"UTC\"}"

struct load {
	unsigned count, depth, sent, done;
	double *started, *took; /* microseconds, by call */
};

static double now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void die(const char *what)
{
	fprintf(stderr, "load: %s\n", what);
	exit(1);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static void call_done(struct load *load, unsigned call)
{
	load->took[call] = now_us() - load->started[call];
	load->done++;
}

/* --- directly --- */

static void start_server(const char *program, int *ret_in, int *ret_out)
{
	int in[2], out[2];
	if (pipe(in) < 0 || pipe(out) < 0)
		die("no pipe");
	if (fork() == 0) {
		dup2(in[0], STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		close(in[1]);
		close(out[0]);
		execl(program, program, (char *)NULL);
		_exit(127);
	}
	close(in[0]);
	close(out[1]);
	*ret_in = in[1];
	*ret_out = out[0];
}

static void write_all(int fd, const char *text, size_t len)
{
	for (size_t at = 0; at < len;) {
		ssize_t n = write(fd, text + at, len - at);
		if (n <= 0)
			die("the server does not read");
		at += (size_t)n;
	}
}

static bool next_answer(struct framer *framer, int fd, struct jsonrpc_message *message)
{
	struct span line;
	while (framer_next(framer, &line) != FRAMER_LINE) {
		size_t room;
		char *space = framer_space(framer, 65536, &room);
		ssize_t n = space ? read(fd, space, room) : -1;
		if (n <= 0)
			return false;
		framer_filled(framer, (size_t)n);
	}
	return jsonrpc_parse(line, message, NULL) == 0;
}

static void run_direct(struct load *load, const char *program)
{
	static const char hello[] =
		"{\"jsonrpc\":\"2.0\",\"id\":\"h\",\"method\":\"initialize\",\"params\":{\"protocolVersion\":"
		"\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{\"name\":\"load\",\"version\":\"1\"}}}\n"
		"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n";
	int in, out;
	struct framer framer;
	struct jsonrpc_message message;
	start_server(program, &in, &out);
	framer_init(&framer, 1 << 20);
	write_all(in, hello, sizeof hello - 1);
	if (!next_answer(&framer, out, &message))
		die("the server does not answer");
	while (load->done < load->count) {
		while (load->sent < load->count && load->sent - load->done < load->depth) {
			char line[256];
			int len = snprintf(
				line, sizeof line,
				"{\"jsonrpc\":\"2.0\",\"id\":%u,\"method\":\"tools/call\",\"params\":{\"name\":"
				"\"" TOOL "\",\"arguments\":" ARGUMENTS "}}\n",
				load->sent);
			load->started[load->sent++] = now_us();
			write_all(in, line, (size_t)len);
		}
		int64_t call;
		if (!next_answer(&framer, out, &message) || message.kind != JSONRPC_RESULT ||
		    json_int64(message.id, &call) < 0)
			die("an answer is missing or an error");
		call_done(load, (unsigned)call);
	}
	close(in);
	close(out);
	framer_done(&framer);
	wait(NULL);
}

/* --- through mcpd --- */

static struct load *current;

static void on_reply(mcpd_client *client, mcpd_reply *reply, void *userdata)
{
	(void)client;
	if (mcpd_reply_status(reply) != 0)
		die(mcpd_reply_message(reply));
	call_done(current, (unsigned)(size_t)userdata);
}

static void run_mcpd(struct load *load, const char *server)
{
	mcpd_client *client;
	current = load;
	if (mcpd_client_new(&client) < 0 || mcpd_connect(client, 10000) < 0)
		die(mcpd_last_error(client));
	while (load->done < load->count) {
		while (load->sent < load->count && load->sent - load->done < load->depth) {
			load->started[load->sent] = now_us();
			if (mcpd_request_tool(client, server, TOOL, ARGUMENTS, NULL, on_reply,
					      (void *)(size_t)load->sent, NULL) < 0)
				die(mcpd_last_error(client));
			load->sent++;
		}
		if (mcpd_wait(client, -1) < 0)
			die(mcpd_last_error(client));
	}
	mcpd_client_free(client);
}

int main(int argc, char **argv)
{
	if (argc != 5)
		die("usage: load direct|mcpd COUNT DEPTH SERVER");
	struct load load = { .count = (unsigned)atoi(argv[2]), .depth = (unsigned)atoi(argv[3]) };
	load.started = calloc(load.count, sizeof *load.started);
	load.took = calloc(load.count, sizeof *load.took);
	if (!load.started || !load.took || !load.count || !load.depth)
		die("COUNT and DEPTH must be positive");
	double began = now_us();
	if (strcmp(argv[1], "direct") == 0)
		run_direct(&load, argv[4]);
	else
		run_mcpd(&load, argv[4]);
	double seconds = (now_us() - began) / 1e6;
	qsort(load.took, load.count, sizeof *load.took, compare);
	printf("%.0f %.1f %.1f\n", load.count / seconds, load.took[load.count / 2],
	       load.took[(size_t)(load.count * 0.99)]);
	free(load.started);
	free(load.took);
	return 0;
}
