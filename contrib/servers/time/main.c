/* mcpd-time-server: MCP over stdin and stdout until the input ends. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mcpd-version.h"
#include "proto/framer.h"
#include "proto/std_fds.h"
#include "server.h"

#define READ_BYTES 65536

static int write_all(struct span bytes)
{
	while (bytes.len > 0) {
		ssize_t n = write(STDOUT_FILENO, bytes.ptr, bytes.len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		bytes.ptr += n;
		bytes.len -= (size_t)n;
	}
	return 0;
}

/* Answers what is complete in the framer; 0 or a negative errno. */
static int answer_lines(struct time_server *server, struct framer *framer, bool at_end)
{
	struct buf out = BUF_INIT;
	struct span line;
	int rc = 0;
	for (;;) {
		enum framer_result found = framer_next(framer, &line);
		if (found == FRAMER_NEED_MORE && at_end)
			found = framer_rest(framer, &line);
		if (found == FRAMER_NEED_MORE || rc < 0)
			break;
		if (found == FRAMER_LINE)
			time_server_line(server, line, &out);
		else
			time_server_too_long(&out);
		rc = buf_failed(&out) ? out.error : write_all(buf_span(&out));
		buf_reset(&out);
	}
	buf_done(&out);
	return rc;
}

static int serve(void)
{
	struct time_server server = { 0 };
	struct framer framer;
	framer_init(&framer, TIME_SERVER_LINE_BYTES);
	int rc = 0;
	for (;;) {
		size_t room;
		char *space = framer_space(&framer, READ_BYTES, &room);
		ssize_t n = space ? read(STDIN_FILENO, space, room) : -1;
		if (!space || (n < 0 && errno != EINTR))
			rc = space ? -errno : -ENOMEM;
		if (n > 0)
			framer_filled(&framer, (size_t)n);
		if (rc == 0 && n >= 0)
			rc = answer_lines(&server, &framer, n == 0);
		if (rc < 0 || n == 0)
			break;
	}
	framer_done(&framer);
	return rc;
}

int main(int argc, char **argv)
{
	std_fds_reserve();
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		puts("mcpd-time-server " MCPD_VERSION);
		return EXIT_SUCCESS;
	}
	if (argc > 1) {
		fputs("usage: mcpd-time-server [--version]\n"
		      "An MCP server on standard input and output; MCP clients start it.\n",
		      stderr);
		return 2;
	}
	int rc = serve();
	if (rc < 0)
		fprintf(stderr, "mcpd-time-server: %s\n", strerror(-rc));
	return rc < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
