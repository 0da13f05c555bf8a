/*
 * The shortest use of libmcpd-client: connect (starting the daemon if need be), list the servers, call a tool, print its result.
 *
 *     blocking SERVER TOOL [ARGUMENTS]
 */
#include <stdio.h>

#include <mcpd-client.h>

static int call(mcpd_client *client, const char *server, const char *tool, const char *arguments)
{
	mcpd_reply *reply;
	int r = mcpd_call_tool(client, server, tool, arguments, 30000, &reply);
	if (r < 0) {
		fprintf(stderr, "no answer: %s\n", mcpd_last_error(client));
		return 1;
	}
	if (mcpd_reply_status(reply) == 0)
		printf("%s\n", mcpd_reply_result(reply));
	else
		fprintf(stderr, "error %d: %s\n", mcpd_reply_code(reply), mcpd_reply_message(reply));
	r = mcpd_reply_status(reply);
	mcpd_reply_unref(reply);
	return r;
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: blocking SERVER TOOL [ARGUMENTS]\n");
		return 2;
	}
	mcpd_client *client;
	if (mcpd_client_new(&client) < 0)
		return 1;
	int status = 1;
	mcpd_set_start(client, NULL);
	mcpd_set_identity(client, "example-blocking", "1", NULL);
	if (mcpd_connect(client, 10000) < 0)
		fprintf(stderr, "%s\n", mcpd_last_error(client));
	else
		status = call(client, argv[1], argv[2], argc > 3 ? argv[3] : NULL);
	mcpd_client_free(client);
	return status;
}
