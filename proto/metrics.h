/*
 * Every metric that daemon/metrics tells, once (PROTOCOL "daemon/metrics"): name, type, labels and what it says. Both
 * formats, the table in proto/PROTOCOL.md and rpc.discover's schema are made from this.
 *
 * Names follow the conventions of Prometheus: base units, `_total` for what only grows. All begin with `mcpd_`, so that
 * they can share a text file with those of others. What only grows does so from the daemon's start, and for a server
 * from when it was configured; a server that is configured no more takes its numbers with it.
 */
#pragma once

enum metric_type { METRIC_COUNTER, METRIC_GAUGE, METRIC_HISTOGRAM };

/* The most labels of one metric. */
#define METRIC_LABELS_MAX 3

/* X(id, name, type, labels, what); labels are separated by commas. */
#define METRIC_TABLE(X)                                                                                                \
	X(INFO, "mcpd_info", GAUGE, "version", "always 1; the version that runs")                                      \
	X(START_TIME, "mcpd_start_time_seconds", GAUGE, "", "when the daemon started, in seconds since 1970")          \
	X(UPTIME, "mcpd_uptime_seconds", GAUGE, "", "for how long it has been running")                                \
	X(RESIDENT, "mcpd_resident_memory_bytes", GAUGE, "", "resident memory of the daemon itself")                   \
	X(CPU, "mcpd_cpu_seconds_total", COUNTER, "", "processor time of the daemon itself")                           \
	X(OPEN_FDS, "mcpd_open_fds", GAUGE, "", "open file descriptors of the daemon")                                 \
	X(LOG_DROPPED, "mcpd_log_entries_dropped_total", COUNTER, "", "log entries that nobody took")                  \
	X(RELOADS, "mcpd_reloads_total", COUNTER, "result", "configurations that were read anew; `ok` or `failed`")    \
	X(CONNECTIONS, "mcpd_client_connections_total", COUNTER, "", "connections of clients that were accepted")      \
	X(CLIENTS, "mcpd_clients", GAUGE, "client", "clients that are connected")                                      \
	X(CLIENT_RECEIVED, "mcpd_client_received_bytes_total", COUNTER, "client", "bytes that came from clients")      \
	X(CLIENT_SENT, "mcpd_client_sent_bytes_total", COUNTER, "client", "bytes that went to clients")                \
	X(CLIENT_UNSENT, "mcpd_client_unsent_bytes", GAUGE, "client", "bytes that clients have not read yet")          \
	X(CLIENT_DROPPED, "mcpd_client_events_dropped_total", COUNTER, "client",                                       \
	  "events and progress that were dropped since the client read too slowly")                                    \
	X(REQUESTS, "mcpd_control_requests_total", COUNTER, "method", "requests of clients in the control dialect")    \
	X(MCP_REQUESTS, "mcpd_mcp_requests_total", COUNTER, "method", "requests of clients in the MCP dialect")        \
	X(LIMITS, "mcpd_limit_hits_total", COUNTER, "limit", "how often a limit was reached")                          \
	X(CALLS, "mcpd_calls_total", COUNTER, "server,client,outcome", "requests to servers that have ended")          \
	X(METHODS, "mcpd_method_calls_total", COUNTER, "server,method,outcome", "the same by MCP method")              \
	X(DURATION, "mcpd_call_duration_seconds", HISTOGRAM, "server,client",                                          \
	  "how long they took, from the client's request to its answer")                                               \
	X(WAIT, "mcpd_call_wait_seconds", HISTOGRAM, "server",                                                         \
	  "how long they had waited for their turn and for the connection when they were sent")                        \
	X(RESENT, "mcpd_calls_resent_total", COUNTER, "server", "calls that were sent twice, as `retrySafe` allows")   \
	X(IN_FLIGHT, "mcpd_calls_in_flight", GAUGE, "server", "requests that the server is working on")                \
	X(WAITING, "mcpd_calls_waiting", GAUGE, "server", "requests that wait for the connection or their turn")       \
	X(QUEUE, "mcpd_server_queue_clients", GAUGE, "server", "clients that wait for an `exclusive` server")          \
	X(SERVERS, "mcpd_servers", GAUGE, "state", "servers in each state")                                            \
	X(UP, "mcpd_server_up", GAUGE, "server", "1 if the server is connected, else 0")                               \
	X(SERVER_CONNECTIONS, "mcpd_server_connections", GAUGE, "server",                                              \
	  "connections to it, those that are being made or ended included")                                            \
	X(TOOLS, "mcpd_server_tools", GAUGE, "server", "tools as last listed")                                         \
	X(STARTS, "mcpd_server_starts_total", COUNTER, "server", "connections begun; for stdio, processes started")    \
	X(CONNECTS, "mcpd_server_connects_total", COUNTER, "server", "connections made, handshake included")           \
	X(CONNECT_FAILURES, "mcpd_server_connect_failures_total", COUNTER, "server", "attempts that failed")           \
	X(LOSSES, "mcpd_server_losses_total", COUNTER, "server", "connections that were lost")                         \
	X(RESTARTS, "mcpd_server_restarts_total", COUNTER, "server", "connections made again after a loss")            \
	X(BREAKER, "mcpd_server_breaker_openings_total", COUNTER, "server",                                            \
	  "how often it was given up after too many losses")                                                           \
	X(SERVER_RECEIVED, "mcpd_server_received_bytes_total", COUNTER, "server",                                      \
	  "bytes that came from it: its stdout, or bodies of HTTP responses")                                          \
	X(SERVER_SENT, "mcpd_server_sent_bytes_total", COUNTER, "server",                                              \
	  "bytes that went to it: its stdin, or bodies of HTTP requests")                                              \
	X(SERVER_UNSENT, "mcpd_server_unsent_bytes", GAUGE, "server", "bytes that it has not taken yet")               \
	X(STDERR, "mcpd_server_stderr_lines_total", COUNTER, "server", "lines of its stderr")                          \
	X(NOISE, "mcpd_server_noise_lines_total", COUNTER, "server", "lines of its stdout that are no message")        \
	X(NOTIFICATIONS, "mcpd_server_notifications_total", COUNTER, "server",                                         \
	  "notifications that came from it, progress apart")                                                           \
	X(QUESTIONS, "mcpd_server_questions_total", COUNTER, "server", "requests that came from it")

enum metric {
#define METRIC_MEMBER(id, name, type, labels, what) METRIC_##id,
	METRIC_TABLE(METRIC_MEMBER)
#undef METRIC_MEMBER
		METRIC_COUNT,
};

struct metric_info {
	const char *name;
	enum metric_type type;
	const char *labels;
	const char *what;
};
extern const struct metric_info metric_table[METRIC_COUNT];
extern const char *const metric_type_names[]; /* by enum metric_type */

/* The upper bounds of histograms' buckets: X(microseconds, seconds as they are told). One without a bound follows. */
#define METRIC_BUCKET_TABLE(X)                                                                                         \
	X(1000, "0.001")                                                                                               \
	X(2500, "0.0025")                                                                                              \
	X(5000, "0.005")                                                                                               \
	X(10000, "0.01")                                                                                               \
	X(25000, "0.025")                                                                                              \
	X(50000, "0.05")                                                                                               \
	X(100000, "0.1")                                                                                               \
	X(250000, "0.25")                                                                                              \
	X(500000, "0.5")                                                                                               \
	X(1000000, "1")                                                                                                \
	X(2500000, "2.5")                                                                                              \
	X(5000000, "5")                                                                                                \
	X(10000000, "10")                                                                                              \
	X(30000000, "30")                                                                                              \
	X(60000000, "60")                                                                                              \
	X(300000000, "300")

#define METRIC_BUCKET_ONE(us, seconds) +1
enum { METRIC_BUCKETS = 0 METRIC_BUCKET_TABLE(METRIC_BUCKET_ONE) };

/* What daemon/metrics can answer. */
enum metrics_format { METRICS_JSON, METRICS_PROMETHEUS, METRICS_FORMAT_COUNT };
extern const char *const metrics_format_names[METRICS_FORMAT_COUNT];
