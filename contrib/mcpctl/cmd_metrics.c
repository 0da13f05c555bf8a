/* metrics: the daemon's numbers, as two tables for people, or as Prometheus reads them. */
#include <stdlib.h>

#include "ctl.h"

/* A question to a metric's samples: the sum of those with this label, and perhaps without that one. */
struct question {
	struct span metrics; /* the object of all */
	const char *label;   /* "server", "client" */
	struct span value;   /* JSON string */
};

static double number_of(struct span json)
{
	char text[64];
	if (json_type_of(json) != JSON_NUMBER || json.len >= sizeof text)
		return 0;
	snprintf(text, sizeof text, "%.*s", (int)json.len, json.ptr);
	return strtod(text, NULL);
}

/* Spans of the same daemon's labels are written in the same way. */
static bool is_about(const struct question *q, struct span labels)
{
	return span_equal(json_member(labels, q->label), q->value);
}

/* The sum of a member over the samples that are asked for, but for those with the outcome `ok` if only failures count. */
static double sum(const struct question *q, const char *metric, const char *member, bool failures)
{
	struct json_iter it;
	struct span sample;
	double total = 0;
	struct span samples = json_path(q->metrics, metric, "samples", NULL);
	if (json_type_of(samples) != JSON_ARRAY)
		return 0;
	for (json_iter_init(&it, samples); json_iter_element(&it, &sample);) {
		struct span labels = json_member(sample, "labels");
		if (is_about(q, labels) && !(failures && json_string_is(json_member(labels, "outcome"), "ok")))
			total += number_of(json_member(sample, member));
	}
	return total;
}

static double value(const struct question *q, const char *metric)
{
	return sum(q, metric, "value", false);
}

/* --- cells --- */

static void cell_count(struct table *table, double number, enum colour which)
{
	char text[32];
	snprintf(text, sizeof text, "%.0f", number);
	table_cell(table, span_of(text), number > 0 ? which : COLOUR_NONE);
}

static void cell_bytes(struct table *table, double bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
	char text[32];
	size_t unit = 0;
	for (; bytes >= 1024 && unit + 1 < sizeof units / sizeof units[0]; unit++)
		bytes /= 1024;
	snprintf(text, sizeof text, unit ? "%.1f %s" : "%.0f %s", bytes, units[unit]);
	table_cell(table, span_of(text), COLOUR_NONE);
}

static void cell_name(struct table *table, struct span name)
{
	struct buf text = BUF_INIT;
	json_string_decode(name, &text);
	table_cell(table, buf_span(&text), COLOUR_NONE);
	buf_done(&text);
}

static void cell_mean(struct table *table, const struct question *q)
{
	char text[32] = "-";
	double count = sum(q, "mcpd_call_duration_seconds", "count", false);
	if (count > 0)
		snprintf(text, sizeof text, "%.1f ms",
			 sum(q, "mcpd_call_duration_seconds", "sum", false) * 1000 / count);
	table_cell(table, span_of(text), COLOUR_NONE);
}

static void cell_calls(struct table *table, const struct question *q)
{
	cell_count(table, value(q, "mcpd_calls_total"), COLOUR_NONE);
	cell_count(table, sum(q, "mcpd_calls_total", "value", true), COLOUR_BAD);
	cell_mean(table, q);
}

/* --- tables --- */

static void add_server(struct table *table, const struct question *q)
{
	cell_name(table, q->value);
	cell_calls(table, q);
	cell_count(table, value(q, "mcpd_calls_in_flight"), COLOUR_NONE);
	cell_count(table, value(q, "mcpd_calls_waiting"), COLOUR_BUSY);
	cell_count(table, value(q, "mcpd_server_starts_total"), COLOUR_NONE);
	cell_count(table, value(q, "mcpd_server_losses_total"), COLOUR_BAD);
	cell_bytes(table, value(q, "mcpd_server_received_bytes_total"));
	cell_bytes(table, value(q, "mcpd_server_sent_bytes_total"));
}

static void add_client(struct table *table, const struct question *q)
{
	if (value(q, "mcpd_clients") + value(q, "mcpd_client_received_bytes_total") == 0)
		return; /* a name that nobody had */
	cell_name(table, q->value);
	cell_count(table, value(q, "mcpd_clients"), COLOUR_GOOD);
	cell_calls(table, q);
	cell_bytes(table, value(q, "mcpd_client_received_bytes_total"));
	cell_bytes(table, value(q, "mcpd_client_sent_bytes_total"));
	cell_count(table, value(q, "mcpd_client_events_dropped_total"), COLOUR_BAD);
}

/* A row for each value of the label that the metric has. */
static void print_table(struct span metrics, const char *metric, const char *label, const char *const *headings,
			void (*add)(struct table *table, const struct question *q))
{
	struct table *table = table_new(headings);
	struct span samples = json_path(metrics, metric, "samples", NULL), sample;
	struct json_iter it;
	if (json_type_of(samples) == JSON_ARRAY)
		for (json_iter_init(&it, samples); json_iter_element(&it, &sample);)
			add(table, &(struct question){ metrics, label, json_path(sample, "labels", label, NULL) });
	table_print(table);
}

static void print_metrics(struct span result)
{
	static const char *const server_headings[] = { "SERVER", "CALLS",  "FAILED", "MEAN", "IN FLIGHT", "WAITING",
						       "STARTS", "LOSSES", "IN",     "OUT",  NULL };
	static const char *const client_headings[] = { "CLIENT", "CONNECTED", "CALLS", "FAILED", "MEAN",
						       "IN",     "OUT",       "LOST",  NULL };
	struct span metrics = json_member(result, "metrics");
	print_table(metrics, "mcpd_server_up", "server", server_headings, add_server);
	say("\n");
	print_table(metrics, "mcpd_clients", "client", client_headings, add_client);
}

int cmd_metrics(struct ctl *ctl, int argc, char **argv)
{
	(void)argc, (void)argv;
	mcpd_reply *reply;
	struct buf params = BUF_INIT;
	params_begin(&params);
	params_text(&params, "format", ctl->prometheus ? "prometheus" : "json");
	params_end(&params);
	int status = session_request(ctl, "daemon/metrics", &params, false, &reply);
	buf_done(&params);
	if (status != EXIT_OK)
		return status;
	struct span result = span_of(mcpd_reply_result(reply));
	if (ctl->json)
		say_json(result);
	else if (ctl->prometheus)
		say_json_string(json_member(result, "text"));
	else
		print_metrics(result);
	mcpd_reply_unref(reply);
	return EXIT_OK;
}
