#include "ipc/server_json.h"

#include <stdlib.h>

#include "ipc/failure.h"
#include "ipc/ipc_internal.h"
#include "ipc/view.h"
#include "proto/json_iter.h"
#include "transport/usage.h"

static void add_text(struct buf *out, const char *key, const char *text)
{
	if (!text)
		return;
	buf_addf(out, ",\"%s\":", key);
	buf_add_json_text(out, text);
}

static void add_json(struct buf *out, const char *key, struct span json)
{
	if (!json.ptr)
		return;
	buf_addf(out, ",\"%s\":", key);
	buf_add_span(out, json);
}

static void add_facts(struct buf *out, const struct mcp_server_facts *facts)
{
	if (!facts)
		return;
	add_text(out, "protocolVersion", facts->protocol_version);
	if (facts->era != MCP_ERA_UNKNOWN)
		add_text(out, "era", facts->era == MCP_ERA_MODERN ? "modern" : "legacy");
	add_json(out, "serverInfo", facts->server_info);
	add_json(out, "capabilities", facts->capabilities);
	add_json(out, "instructions", facts->instructions);
}

static void add_usage(struct buf *out, const struct usage *usage)
{
	buf_addf(out, ",\"resources\":{\"memoryBytes\":%lld,\"cpuMs\":%lld,\"processes\":%u}",
		 (long long)usage->memory_bytes, (long long)usage->cpu_ms, usage->processes);
}

/* What all processes of the server use together. */
static void add_resources(struct buf *out, const struct usage_table *table, const struct server_info *info)
{
	struct usage sum = { .memory_max = -1 }, one;
	bool any = false;
	for (size_t i = 0; table && i <= info->n_instances; i++) {
		pid_t pid = i < info->n_instances ? info->instances[i].pid : info->pid;
		if (pid <= 0 || !usage_of(table, pid, &one))
			continue;
		any = true;
		sum.memory_bytes += one.memory_bytes;
		sum.cpu_ms += one.cpu_ms;
		sum.processes += one.processes;
		sum.memory_max = one.memory_max;
	}
	if (!any)
		return;
	add_usage(out, &sum);
	if (info->config->memory_max > 0)
		buf_addf(out, ",\"memoryMaxEnforced\":%s", sum.memory_max > 0 ? "true" : "false");
}

static void add_instances(struct buf *out, const struct router *router, const struct usage_table *table,
			  const struct server_info *info)
{
	struct usage usage;
	buf_add_text(out, ",\"instances\":[");
	for (size_t i = 0; i < info->n_instances; i++) {
		const struct server_instance_info *instance = &info->instances[i];
		buf_add_text(out, i ? ",{\"client\":" : "{\"client\":");
		buf_add_json_text(out, router_client_label(router, instance->client));
		buf_addf(out, ",\"pid\":%ld,\"state\":\"%s\",\"inFlight\":%u", (long)instance->pid,
			 server_state_name(instance->state), instance->in_flight);
		if (table && instance->pid > 0 && usage_of(table, instance->pid, &usage))
			add_usage(out, &usage);
		buf_add_char(out, '}');
	}
	buf_add_char(out, ']');
}

/* Whose process it is: one for all, one for each client, or one that clients take in turn. */
static void add_process(struct buf *out, const struct router *router, const struct usage_table *table,
			const struct server_info *info)
{
	if (info->config->sharing == CONFIG_PER_CLIENT) {
		add_instances(out, router, table, info);
		return;
	}
	if (info->pid)
		buf_addf(out, ",\"pid\":%ld", (long)info->pid);
	if (info->config->sharing != CONFIG_EXCLUSIVE)
		return;
	if (info->holder)
		add_text(out, "holder", router_client_label(router, info->holder));
	buf_addf(out, ",\"queue\":%zu", info->queue);
}

/* The URL with what may be secret in it masked, as the masked definition has it. */
static void add_url(struct buf *out, const struct server_config *config)
{
	if (!config->url)
		return;
	char *masked = server_config_json(config);
	if (masked)
		add_json(out, "url", json_member(span_of(masked), "url"));
	free(masked);
}

static void add_counts(struct buf *out, const struct server_info *info)
{
	buf_addf(out, ",\"toolCount\":%u,\"inFlight\":%u", info->tool_count, info->in_flight);
	add_text(out, "connectedAt", info->connected_at);
	failure_add_last_error(out, info);
	if (info->reconnect_attempt)
		buf_addf(out, ",\"reconnect\":{\"attempt\":%u,\"nextAttemptMs\":%lld}", info->reconnect_attempt,
			 (long long)(info->next_attempt_ms > 0 ? info->next_attempt_ms : 0));
}

static void add_history(struct buf *out, const struct server_info *info)
{
	buf_add_text(out, ",\"history\":[");
	for (size_t i = 0; i < info->n_history; i++) {
		const struct server_history *entry = &info->history[i];
		buf_addf(out, "%s{\"at\":\"%s\",\"state\":\"%s\",\"reason\":", i ? "," : "", entry->at,
			 server_state_name(entry->state));
		if (entry->reason)
			buf_add_json_text(out, entry->reason);
		else
			buf_add_text(out, "null");
		buf_add_char(out, '}');
	}
	buf_add_char(out, ']');
}

static void add_details(struct buf *out, const struct server_info *info)
{
	char *config = server_config_json(info->config);
	add_json(out, "config", config ? span_of(config) : SPAN_LIT("{}"));
	free(config);
	add_history(out, info);
	add_text(out, "advice", info->advice);
}

/* Resources that the union of all servers shows as another's. */
static void add_shadowed(struct buf *out, struct ipc *ipc, struct server *server)
{
	struct buf list = BUF_INIT;
	if (view_write_shadowed(ipc->options.manager, server, &list))
		add_json(out, "shadowedResources", buf_span(&list));
	buf_done(&list);
}

void server_json_write(struct buf *out, struct ipc *ipc, struct server *server, const struct usage_table *usage,
		       bool details)
{
	struct router *router = ipc->options.router;
	struct server_info info;
	server_get_info(server, &info);
	buf_add_text(out, "{\"name\":");
	buf_add_json_text(out, info.config->name);
	add_text(out, "state", server_state_name(info.state));
	add_text(out, "transport", config_transport_name(info.config->transport));
	add_text(out, "source", info.config->source);
	add_text(out, "sharing", config_sharing_name(info.config->sharing));
	add_process(out, router, usage, &info);
	add_resources(out, usage, &info);
	add_url(out, info.config);
	add_facts(out, info.facts);
	add_counts(out, &info);
	if (details) {
		add_details(out, &info);
		add_shadowed(out, ipc, server);
	}
	buf_add_char(out, '}');
}
