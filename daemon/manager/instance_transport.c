/* The one place where a definition becomes a transport (contract L4). */
#include <stdlib.h>
#include <string.h>

#include "config/redact.h"
#include "manager/instance.h"
#include "manager/manager_private.h"
#include "transport/http.h"
#include "transport/stdio.h"
#include "xalloc.h"

static bool same_variable(const char *a, const char *b)
{
	size_t len = strcspn(a, "=");
	return strncmp(a, b, len) == 0 && b[len] == '=';
}

/* The daemon's "environment" for all servers, below the server's own. Free the list, not its texts. */
static const char **environment_of(const struct manager *m, const struct server_config *cfg)
{
	char *const *common = m->config->environment ? m->config->environment : (char *[]){ NULL };
	size_t n_common = 0, n_own = 0, n = 0;
	while (common[n_common])
		n_common++;
	while (cfg->env[n_own])
		n_own++;
	const char **list = xnew_array(const char *, n_common + n_own + 1);
	for (size_t i = 0; i < n_common; i++) {
		bool replaced = false;
		for (size_t k = 0; k < n_own; k++)
			replaced |= same_variable(common[i], cfg->env[k]);
		if (!replaced)
			list[n++] = common[i];
	}
	for (size_t i = 0; i < n_own; i++)
		list[n++] = cfg->env[i];
	return list;
}

static struct transport *stdio_transport(struct manager *m, const struct server_config *cfg, struct mcp_client *client)
{
	const char **environment = environment_of(m, cfg);
	struct stdio_options options = {
		.name = cfg->name,
		.command = cfg->command,
		.args = (const char *const *)cfg->args,
		.env = environment,
		.redactor = redactor_new(cfg, environment),
		.cwd = cfg->cwd,
		.timeout_ms = cfg->timeout_ms,
		.grace_ms = cfg->grace_ms,
		.memory_max = cfg->memory_max,
		.limits = &m->limits,
		.host = m->host,
	};
	struct transport *transport = stdio_new(m->loop, &options, mcp_client_transport_callbacks(), client);
	free(environment);
	return transport;
}

static struct transport *http_transport(struct manager *m, const struct server_config *cfg, struct mcp_client *client)
{
	struct http_options options = {
		.name = cfg->name,
		.url = cfg->url,
		.shown_url = cfg->url_shown,
		.redactor = redactor_new(cfg, NULL),
		.headers = (const char *const *)cfg->headers,
		.ca_file = cfg->ca_file,
		.insecure = cfg->insecure,
		.timeout_ms = cfg->timeout_ms,
		.connect_timeout_ms = cfg->connect_timeout_ms,
		.sse = cfg->transport == CONFIG_SSE,
		.limits = &m->limits,
	};
	return http_new(m->loop, m->curl, &options, mcp_client_transport_callbacks(), client);
}

struct transport *instance_transport(struct manager *m, const struct server_config *cfg, struct mcp_client *client)
{
	return cfg->transport == CONFIG_STDIO ? stdio_transport(m, cfg, client) : http_transport(m, cfg, client);
}
