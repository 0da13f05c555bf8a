/*
 * daemon/metrics: collects what every floor has counted, in the order of the table in proto/metrics.h.
 *
 * Nothing is counted here, and nothing kept: the numbers are where the things are.
 */
#include "ipc/control_internal.h"

#include <dirent.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "log.h"
#include "metrics.h"
#include "proto/json_iter.h"
#include "router/accounts.h"
#include "xalloc.h"

/* A server and all that is known of it in numbers. */
struct server_view {
	const char *name;
	struct server_info info;
	struct server_counters counters;
	uint64_t unsent;
	unsigned connections;
	const struct account_server *calls; /* NULL: none has ended yet */
};

/* What is the case of the clients of one name. */
struct client_view {
	uint64_t connected, unsent;
};

/* One collection. */
struct scrape {
	struct ipc *ipc;
	struct accounts *accounts;
	struct metrics_writer out;
	struct server_view *servers;
	size_t n_servers;
	struct client_view *clients;
	size_t n_clients;
};

/* --- the daemon --- */

static void value(struct scrape *s, uint64_t number)
{
	metrics_value(&s->out, NULL, number);
}

static void info(struct scrape *s, size_t offset)
{
	(void)offset;
	metrics_value(&s->out, (const char *[]){ s->ipc->options.version }, 1);
}

static void start_time(struct scrape *s, size_t offset)
{
	(void)offset;
	value(s, (uint64_t)s->ipc->started_at);
}

static void uptime(struct scrape *s, size_t offset)
{
	(void)offset;
	metrics_seconds(&s->out, NULL, (loop_now_ms() - s->ipc->options.started_ms) * 1000);
}

static void resident(struct scrape *s, size_t offset)
{
	(void)offset;
	value(s, (uint64_t)control_resident_bytes());
}

static int64_t us_of(struct timeval time)
{
	return (int64_t)time.tv_sec * 1000000 + time.tv_usec;
}

static void cpu(struct scrape *s, size_t offset)
{
	(void)offset;
	struct rusage usage = { 0 };
	getrusage(RUSAGE_SELF, &usage);
	metrics_seconds(&s->out, NULL, us_of(usage.ru_utime) + us_of(usage.ru_stime));
}

static void open_fds(struct scrape *s, size_t offset)
{
	(void)offset;
	uint64_t n = 0;
	DIR *dir = opendir("/proc/self/fd");
	while (dir && readdir(dir))
		n++;
	if (dir)
		closedir(dir);
	value(s, n > 3 ? n - 3 : 0); /* ".", "..", and the folder itself */
}

static void log_entries_dropped(struct scrape *s, size_t offset)
{
	(void)offset;
	value(s, log_dropped());
}

static void reloads(struct scrape *s, size_t offset)
{
	(void)offset;
	struct reload_counts counts = reload_counts(s->ipc->options.reload);
	metrics_value(&s->out, (const char *[]){ "ok" }, counts.ok);
	metrics_value(&s->out, (const char *[]){ "failed" }, counts.failed);
}

static void requests(struct scrape *s, size_t offset)
{
	(void)offset;
	for (int i = 0; i < METHOD_COUNT; i++)
		metrics_value(&s->out, (const char *[]){ method_table[i].name }, s->ipc->requests[i]);
}

static void mcp_requests(struct scrape *s, size_t offset)
{
	(void)offset;
	for (int i = 0; i < ACCOUNT_METHODS; i++) {
		uint64_t n = accounts_requests(s->accounts, (enum account_method)i);
		if (n)
			metrics_value(&s->out, (const char *[]){ account_method_names[i] }, n);
	}
}

static void limits(struct scrape *s, size_t offset)
{
	(void)offset;
	for (int i = 0; i < LIMIT_COUNT; i++) {
		uint64_t hits = accounts_limit_hits(s->accounts, (enum mcpd_limit)i);
		if (hits)
			metrics_value(&s->out, (const char *[]){ limit_table[i].key }, hits);
	}
}

static void server_states(struct scrape *s, size_t offset)
{
	(void)offset;
	uint64_t counts[SERVER_STATE_COUNT] = { 0 };
	for (size_t i = 0; i < s->n_servers; i++)
		counts[s->servers[i].info.state]++;
	for (int i = 0; i < SERVER_STATE_COUNT; i++)
		metrics_value(&s->out, (const char *[]){ server_state_name((enum server_state)i) }, counts[i]);
}

/* --- clients --- */

static void connections(struct scrape *s, size_t offset)
{
	(void)offset;
	value(s, s->ipc->last_session);
}

/* A number in struct client_view. */
static void client_gauge(struct scrape *s, size_t offset)
{
	for (size_t i = 0; i < s->n_clients; i++) {
		uint64_t number = *(const uint64_t *)((const char *)&s->clients[i] + offset);
		/* The daemon is no client of its own. */
		if (i != ACCOUNT_DAEMON)
			metrics_value(&s->out, (const char *[]){ accounts_client_name(s->accounts, (unsigned)i) },
				      number);
	}
}

/* A number in struct account_traffic. */
static void client_traffic(struct scrape *s, size_t offset)
{
	for (unsigned i = 0; i < s->n_clients; i++) {
		const struct account_traffic *traffic = accounts_client_traffic(s->accounts, i);
		if (i != ACCOUNT_DAEMON)
			metrics_value(&s->out, (const char *[]){ accounts_client_name(s->accounts, i) },
				      *(const uint64_t *)((const char *)traffic + offset));
	}
}

/* --- calls --- */

/* The outcomes that there were. names: the labels in front of the outcome; the last place is for it. */
static void outcomes(struct scrape *s, const char *labels[3], const uint64_t counts[OUTCOME_COUNT])
{
	for (int i = 0; i < OUTCOME_COUNT; i++) {
		labels[2] = mcpd_outcome_name((enum mcpd_outcome)i);
		if (counts[i])
			metrics_value(&s->out, labels, counts[i]);
	}
}

static const struct account_calls *calls_of(const struct server_view *server, size_t client)
{
	return server->calls && client < server->calls->n_clients ? server->calls->clients[client] : NULL;
}

static void calls(struct scrape *s, size_t offset)
{
	(void)offset;
	for (size_t i = 0; i < s->n_servers; i++) {
		for (unsigned k = 0; k < s->n_clients; k++) {
			const struct account_calls *of = calls_of(&s->servers[i], k);
			const char *labels[3] = { s->servers[i].name, accounts_client_name(s->accounts, k) };
			if (of)
				outcomes(s, labels, of->outcomes);
		}
	}
}

static void durations(struct scrape *s, size_t offset)
{
	(void)offset;
	for (size_t i = 0; i < s->n_servers; i++) {
		for (unsigned k = 0; k < s->n_clients; k++) {
			const struct account_calls *of = calls_of(&s->servers[i], k);
			const char *labels[2] = { s->servers[i].name, accounts_client_name(s->accounts, k) };
			if (of)
				metrics_histogram(&s->out, labels, &of->duration);
		}
	}
}

static void methods(struct scrape *s, size_t offset)
{
	(void)offset;
	for (size_t i = 0; i < s->n_servers; i++) {
		for (int k = 0; s->servers[i].calls && k < ACCOUNT_METHODS; k++) {
			const char *labels[3] = { s->servers[i].name, account_method_names[k] };
			outcomes(s, labels, s->servers[i].calls->methods[k]);
		}
	}
}

static void waits(struct scrape *s, size_t offset)
{
	(void)offset;
	for (size_t i = 0; i < s->n_servers; i++)
		metrics_histogram(&s->out, &s->servers[i].name, &s->servers[i].counters.wait);
}

/* --- servers --- */

static void resent(struct scrape *s, size_t offset)
{
	(void)offset;
	for (size_t i = 0; i < s->n_servers; i++)
		metrics_value(&s->out, &s->servers[i].name, s->servers[i].calls ? s->servers[i].calls->resent : 0);
}

/* A number in struct server_counters. */
static void server_counter(struct scrape *s, size_t offset)
{
	for (size_t i = 0; i < s->n_servers; i++)
		metrics_value(&s->out, &s->servers[i].name,
			      *(const uint64_t *)((const char *)&s->servers[i].counters + offset));
}

/* An unsigned in struct server_view. */
static void server_gauge(struct scrape *s, size_t offset)
{
	for (size_t i = 0; i < s->n_servers; i++)
		metrics_value(&s->out, &s->servers[i].name, *(const unsigned *)((const char *)&s->servers[i] + offset));
}

static void queue(struct scrape *s, size_t offset)
{
	(void)offset;
	for (size_t i = 0; i < s->n_servers; i++)
		metrics_value(&s->out, &s->servers[i].name, s->servers[i].info.queue);
}

static void up(struct scrape *s, size_t offset)
{
	(void)offset;
	for (size_t i = 0; i < s->n_servers; i++)
		metrics_value(&s->out, &s->servers[i].name, s->servers[i].info.state == SERVER_CONNECTED);
}

static void server_unsent(struct scrape *s, size_t offset)
{
	(void)offset;
	for (size_t i = 0; i < s->n_servers; i++)
		metrics_value(&s->out, &s->servers[i].name, s->servers[i].unsent);
}

/* --- all of it --- */

#define CLIENT(member) client_gauge, offsetof(struct client_view, member)
#define TRAFFIC(member) client_traffic, offsetof(struct account_traffic, member)
#define COUNTER(member) server_counter, offsetof(struct server_counters, member)
#define GAUGE(member) server_gauge, offsetof(struct server_view, member)

static const struct {
	void (*collect)(struct scrape *s, size_t offset);
	size_t offset;
} sources[METRIC_COUNT] = {
	[METRIC_INFO] = { info, 0 },
	[METRIC_START_TIME] = { start_time, 0 },
	[METRIC_UPTIME] = { uptime, 0 },
	[METRIC_RESIDENT] = { resident, 0 },
	[METRIC_CPU] = { cpu, 0 },
	[METRIC_OPEN_FDS] = { open_fds, 0 },
	[METRIC_LOG_DROPPED] = { log_entries_dropped, 0 },
	[METRIC_RELOADS] = { reloads, 0 },
	[METRIC_CONNECTIONS] = { connections, 0 },
	[METRIC_CLIENTS] = { CLIENT(connected) },
	[METRIC_CLIENT_RECEIVED] = { TRAFFIC(received) },
	[METRIC_CLIENT_SENT] = { TRAFFIC(sent) },
	[METRIC_CLIENT_UNSENT] = { CLIENT(unsent) },
	[METRIC_CLIENT_DROPPED] = { TRAFFIC(dropped) },
	[METRIC_REQUESTS] = { requests, 0 },
	[METRIC_MCP_REQUESTS] = { mcp_requests, 0 },
	[METRIC_LIMITS] = { limits, 0 },
	[METRIC_CALLS] = { calls, 0 },
	[METRIC_METHODS] = { methods, 0 },
	[METRIC_DURATION] = { durations, 0 },
	[METRIC_WAIT] = { waits, 0 },
	[METRIC_RESENT] = { resent, 0 },
	[METRIC_IN_FLIGHT] = { GAUGE(info.in_flight) },
	[METRIC_WAITING] = { GAUGE(info.waiting) },
	[METRIC_QUEUE] = { queue, 0 },
	[METRIC_SERVERS] = { server_states, 0 },
	[METRIC_UP] = { up, 0 },
	[METRIC_SERVER_CONNECTIONS] = { GAUGE(connections) },
	[METRIC_TOOLS] = { GAUGE(info.tool_count) },
	[METRIC_STARTS] = { COUNTER(starts) },
	[METRIC_CONNECTS] = { COUNTER(connects) },
	[METRIC_CONNECT_FAILURES] = { COUNTER(connect_failures) },
	[METRIC_LOSSES] = { COUNTER(losses) },
	[METRIC_RESTARTS] = { COUNTER(restarts) },
	[METRIC_BREAKER] = { COUNTER(breaker_openings) },
	[METRIC_SERVER_RECEIVED] = { COUNTER(received_bytes) },
	[METRIC_SERVER_SENT] = { COUNTER(sent_bytes) },
	[METRIC_SERVER_UNSENT] = { server_unsent, 0 },
	[METRIC_STDERR] = { COUNTER(stderr_lines) },
	[METRIC_NOISE] = { COUNTER(noise_lines) },
	[METRIC_NOTIFICATIONS] = { COUNTER(notifications) },
	[METRIC_QUESTIONS] = { COUNTER(questions) },
};

static void view_servers(struct scrape *s)
{
	struct manager *manager = s->ipc->options.manager;
	s->n_servers = manager_count(manager);
	s->servers = xnew_array(struct server_view, s->n_servers);
	for (size_t i = 0; i < s->n_servers; i++) {
		struct server *server = manager_at(manager, i);
		struct server_view *view = &s->servers[i];
		view->name = server_name(server);
		view->calls = accounts_server(s->accounts, server_id(server));
		server_get_info(server, &view->info);
		server_get_counters(server, &view->counters, &view->unsent, &view->connections);
	}
}

static void view_sessions(struct scrape *s, struct session *session, bool connected)
{
	for (; session; session = session_next(session)) {
		session_settle(session);
		struct client_view *view = &s->clients[session_account(session)];
		view->connected += connected;
		view->unsent += session_unsent(session);
	}
}

static void view_clients(struct scrape *s)
{
	s->n_clients = accounts_clients(s->accounts);
	s->clients = xnew_array(struct client_view, s->n_clients);
	view_sessions(s, s->ipc->sessions, true);
	view_sessions(s, s->ipc->leaving, false);
}

static void collect(struct ipc *ipc, struct buf *out, enum metrics_format format)
{
	struct scrape s = { .ipc = ipc, .accounts = router_accounts(ipc->options.router) };
	view_servers(&s);
	view_clients(&s);
	metrics_begin(&s.out, out, format);
	for (int i = 0; i < METRIC_COUNT; i++) {
		metrics_metric(&s.out, (enum metric)i);
		sources[i].collect(&s, sources[i].offset);
	}
	metrics_end(&s.out);
	free(s.servers);
	free(s.clients);
}

void control_metrics(struct request *r, const struct jsonrpc_message *m)
{
	struct buf collected = BUF_INIT, result = BUF_INIT;
	struct span format = json_member(m->params, "format");
	if (!json_string_is(format, metrics_format_names[METRICS_PROMETHEUS])) {
		collect(request_ipc(r), &result, METRICS_JSON);
		request_result_buf(r, &result);
		return;
	}
	collect(request_ipc(r), &collected, METRICS_PROMETHEUS);
	buf_add_text(&result, "{\"text\":");
	buf_add_json_string(&result, buf_span(&collected));
	buf_add_char(&result, '}');
	if (buf_failed(&collected))
		result.error = collected.error;
	buf_done(&collected);
	request_result_buf(r, &result);
}
