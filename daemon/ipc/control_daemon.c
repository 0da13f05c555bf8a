/* The methods about the daemon itself: hello, status, reload, shutdown, discover. */
#include "ipc/control_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "log.h"
#include "proto/json_iter.h"

#define PROTOCOL_VERSION 1

static void refuse_protocol(struct request *r)
{
	request_error(r, MCPD_E_INVALID_PARAMS, "the protocol version is not one that this daemon speaks",
		      SPAN_LIT("{\"supported\":[1]}"));
}

static void write_hello(struct buf *out, const struct ipc *ipc)
{
	buf_addf(out, "{\"protocol\":%d,\"daemon\":{\"name\":\"mcpd\",\"version\":", PROTOCOL_VERSION);
	buf_add_json_text(out, ipc->options.version);
	buf_addf(out, "},\"pid\":%ld,\"methods\":[", (long)getpid());
	for (int i = 0; i < METHOD_COUNT; i++)
		buf_addf(out, "%s\"%s\"", i ? "," : "", method_table[i].name);
	buf_add_text(out, "]}");
}

void control_hello(struct request *r, const struct jsonrpc_message *m)
{
	struct ipc *ipc = request_ipc(r);
	if (control_integer(json_member(m->params, "protocol"), PROTOCOL_VERSION) != PROTOCOL_VERSION) {
		refuse_protocol(r);
		return;
	}
	struct span client = json_member(m->params, "client");
	struct span capabilities = json_member(m->params, "capabilities");
	if (router_client_describe(ipc->options.router, session_id(request_session(r)), json_member(client, "name"),
				   capabilities) < 0) {
		request_error(r, MCPD_E_INTERNAL, "out of memory", SPAN_NONE);
		return;
	}
	struct buf result = BUF_INIT;
	write_hello(&result, ipc);
	request_result_buf(r, &result);
}

int64_t control_resident_bytes(void)
{
	long pages = 0;
	FILE *file = fopen("/proc/self/statm", "re");
	if (!file)
		return 0;
	if (fscanf(file, "%*s %ld", &pages) != 1)
		pages = 0;
	fclose(file);
	return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

/* The problems of one kind as an array of {file, server?, message}. */
static void add_problems(struct buf *out, const struct reload *reload, bool warnings)
{
	size_t n;
	const struct config_problem *problems = reload_problems(reload, &n);
	bool any = false;
	buf_add_char(out, '[');
	for (size_t i = 0; i < n; i++) {
		if (problems[i].warning != warnings)
			continue;
		buf_add_text(out, any ? ",{\"file\":" : "{\"file\":");
		buf_add_json_text(out, problems[i].file ? problems[i].file : "");
		if (problems[i].server) {
			buf_add_text(out, ",\"server\":");
			buf_add_json_text(out, problems[i].server);
		}
		buf_add_text(out, ",\"message\":");
		buf_add_json_text(out, problems[i].message);
		buf_add_char(out, '}');
		any = true;
	}
	buf_add_char(out, ']');
}

/* A NULL-terminated list of texts, NULL being the empty one. */
static void add_texts(struct buf *out, const char *const *texts)
{
	buf_add_char(out, '[');
	for (size_t i = 0; texts && texts[i]; i++) {
		buf_add_text(out, i ? "," : "");
		buf_add_json_text(out, texts[i]);
	}
	buf_add_char(out, ']');
}

static void add_config(struct buf *out, const struct ipc *ipc)
{
	buf_add_text(out, ",\"config\":{\"files\":");
	add_texts(out, (const char *const *)manager_config(ipc->options.manager)->files);
	buf_add_text(out, ",\"missing\":");
	add_texts(out, (const char *const *)manager_config(ipc->options.manager)->missing_files);
	buf_add_text(out, ",\"errors\":");
	add_problems(out, ipc->options.reload, false);
	buf_add_text(out, ",\"warnings\":");
	add_problems(out, ipc->options.reload, true);
	buf_add_char(out, '}');
}

/* Only if there is one: how to restart the daemon depends on it. */
static void add_service(struct buf *out, const struct ipc *ipc)
{
	if (!ipc->options.unit && !ipc->options.activated)
		return;
	buf_addf(out, ",\"service\":{\"activated\":%s", ipc->options.activated ? "true" : "false");
	if (ipc->options.unit) {
		buf_add_text(out, ",\"unit\":");
		buf_add_json_text(out, ipc->options.unit);
	}
	buf_add_char(out, '}');
}

static void add_servers(struct buf *out, struct manager *manager)
{
	unsigned counts[SERVER_STATE_COUNT] = { 0 };
	for (size_t i = 0; i < manager_count(manager); i++) {
		struct server_info info;
		server_get_info(manager_at(manager, i), &info);
		counts[info.state]++;
	}
	buf_addf(out, ",\"servers\":{\"total\":%zu", manager_count(manager));
	for (int i = 0; i < SERVER_STATE_COUNT; i++)
		buf_addf(out, ",\"%s\":%u", server_state_name((enum server_state)i), counts[i]);
	buf_add_char(out, '}');
}

static void add_limits(struct buf *out, const struct limits *limits)
{
	buf_add_text(out, ",\"limits\":{");
	for (int i = 0; i < LIMIT_COUNT; i++)
		buf_addf(out, "%s\"%s\":%" PRId64, i ? "," : "", limit_table[i].key, limits->value[i]);
	buf_add_char(out, '}');
}

void control_status(struct request *r, const struct jsonrpc_message *m)
{
	(void)m;
	struct ipc *ipc = request_ipc(r);
	struct buf result = BUF_INIT;
	buf_add_text(&result, "{\"version\":");
	buf_add_json_text(&result, ipc->options.version);
	buf_addf(&result, ",\"pid\":%ld,\"uptimeMs\":%" PRId64 ",\"socket\":", (long)getpid(),
		 loop_now_ms() - ipc->options.started_ms);
	buf_add_json_text(&result, ipc->options.socket_path);
	add_service(&result, ipc);
	add_config(&result, ipc);
	add_servers(&result, ipc->options.manager);
	buf_addf(&result, ",\"clients\":%u,\"inFlight\":%u,\"memory\":{\"rssBytes\":%" PRId64 "}", ipc->n_sessions,
		 router_in_flight(ipc->options.router), control_resident_bytes());
	add_limits(&result, ipc_limits(ipc));
	buf_add_char(&result, '}');
	request_result_buf(r, &result);
}

void control_reload(struct request *r, const struct jsonrpc_message *m)
{
	(void)m;
	struct ipc *ipc = request_ipc(r);
	struct manager_changes changes;
	reload_run(ipc->options.reload, ipc->options.manager, &changes);
	struct buf result = BUF_INIT;
	buf_add_text(&result, "{\"added\":");
	add_texts(&result, (const char *const *)changes.added);
	buf_add_text(&result, ",\"removed\":");
	add_texts(&result, (const char *const *)changes.removed);
	buf_add_text(&result, ",\"changed\":");
	add_texts(&result, (const char *const *)changes.changed);
	buf_addf(&result, ",\"unchanged\":%u,\"errors\":", changes.unchanged);
	add_problems(&result, ipc->options.reload, false);
	buf_add_text(&result, ",\"warnings\":");
	add_problems(&result, ipc->options.reload, true);
	buf_add_char(&result, '}');
	manager_changes_done(&changes);
	ipc_changed(ipc);
	request_result_buf(r, &result);
}

void control_shutdown(struct request *r, const struct jsonrpc_message *m)
{
	(void)m;
	struct ipc *ipc = request_ipc(r);
	log_client(LOG_LEVEL_INFO, router_client_label(ipc->options.router, session_id(request_session(r))),
		   "asked for a shutdown");
	request_result(r, SPAN_LIT("{}"));
	if (ipc->options.on_shutdown)
		ipc->options.on_shutdown(ipc->options.arg);
}

void control_discover(struct request *r, const struct jsonrpc_message *m)
{
	(void)m;
	struct buf result = BUF_INIT;
	openrpc_write(&result, request_ipc(r)->options.version);
	request_result_buf(r, &result);
}
