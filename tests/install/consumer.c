#include <mcpd-client.h>
#include <stdio.h>

int main(void)
{
	mcpd_client *client;
	if (mcpd_client_new(&client) < 0)
		return 1;
	mcpd_client_free(client);
	puts(mcpd_client_version());
	return 0;
}
