/* metrics: histograms, and the two formats that samples are told in. */
#include "metrics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/json_iter.h"
#include "proto/json_scan.h"
#include "tests/unit/run.h"

/* Writes all metrics up to one, which gets the samples that `fill` gives it, and those behind it. */
static char *write_all(enum metrics_format format, enum metric which, void (*fill)(struct metrics_writer *w))
{
	struct buf out = BUF_INIT;
	struct metrics_writer w;
	metrics_begin(&w, &out, format);
	for (int i = 0; i < METRIC_COUNT; i++) {
		metrics_metric(&w, (enum metric)i);
		if (i == (int)which)
			fill(&w);
	}
	metrics_end(&w);
	ck_assert(!buf_failed(&out));
	return buf_steal(&out);
}

/* The samples of one metric in the text format: its lines behind # TYPE. */
static char *text_of(enum metric which, void (*fill)(struct metrics_writer *w))
{
	char *all = write_all(METRICS_PROMETHEUS, which, fill), head[256];
	const struct metric_info *info = &metric_table[which];
	snprintf(head, sizeof head, "# HELP %s %s\n# TYPE %s %s\n", info->name, info->what, info->name,
		 metric_type_names[info->type]);
	char *at = strstr(all, head);
	ck_assert_ptr_nonnull(at);
	at += strlen(head);
	char *end = strstr(at, "# HELP");
	char *text = strndup(at, end ? (size_t)(end - at) : strlen(at));
	free(all);
	return text;
}

static char *json_of(enum metric which, void (*fill)(struct metrics_writer *w))
{
	char *all = write_all(METRICS_JSON, which, fill);
	struct json_error error;
	ck_assert_msg(json_check(span_of(all), &error) == 0, "%s", all);
	struct span metric = json_path(span_of(all), "metrics", metric_table[which].name, NULL);
	ck_assert(json_string_is(json_member(metric, "type"), metric_type_names[metric_table[which].type]));
	ck_assert(json_string_is(json_member(metric, "help"), metric_table[which].what));
	struct span samples = json_member(metric, "samples");
	char *text = strndup(samples.ptr, samples.len);
	free(all);
	return text;
}

static void check(enum metric which, void (*fill)(struct metrics_writer *w), const char *text, const char *json)
{
	char *got = text_of(which, fill);
	ck_assert_str_eq(got, text);
	free(got);
	got = json_of(which, fill);
	ck_assert_str_eq(got, json);
	free(got);
}

static void nothing(struct metrics_writer *w)
{
	(void)w;
}

static void one_number(struct metrics_writer *w)
{
	metrics_value(w, NULL, 18446744073709551615u);
}

static void two_servers(struct metrics_writer *w)
{
	metrics_value(w, (const char *[]){ "a" }, 1);
	metrics_value(w, (const char *[]){ "b" }, 0);
}

static void odd_labels(struct metrics_writer *w)
{
	metrics_value(w, (const char *[]){ "quote\" back\\ line\nend", "}{,=", "" }, 3);
}

START_TEST(samples_in_both_formats)
{
	check(METRIC_OPEN_FDS, nothing, "", "[]");
	check(METRIC_OPEN_FDS, one_number, "mcpd_open_fds 18446744073709551615\n",
	      "[{\"labels\":{},\"value\":18446744073709551615}]");
	check(METRIC_LOSSES, two_servers,
	      "mcpd_server_losses_total{server=\"a\"} 1\nmcpd_server_losses_total{server=\"b\"} 0\n",
	      "[{\"labels\":{\"server\":\"a\"},\"value\":1},{\"labels\":{\"server\":\"b\"},\"value\":0}]");
	check(METRIC_CALLS, odd_labels,
	      "mcpd_calls_total{server=\"quote\\\" back\\\\ line\\nend\",client=\"}{,=\",outcome=\"\"} 3\n",
	      "[{\"labels\":{\"server\":\"quote\\\" back\\\\ line\\nend\",\"client\":\"}{,=\",\"outcome\":\"\"},\"value\":3}]");
}
END_TEST

static int64_t duration;

static void one_duration(struct metrics_writer *w)
{
	metrics_seconds(w, NULL, duration);
}

START_TEST(durations_are_exact_seconds)
{
	static const struct {
		int64_t us;
		const char *text;
	} table[] = {
		{ 0, "0" },
		{ 1, "0.000001" },
		{ 120, "0.00012" },
		{ 500000, "0.5" },
		{ 1000000, "1" },
		{ 10000000, "10" },
		{ 1234567, "1.234567" },
		{ 60000000, "60" },
		{ -5, "0" },
		{ 100100000, "100.1" },
		{ 9223372036854775807, "9223372036854.775807" },
	};
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		char text[128], json[128];
		duration = table[i].us;
		snprintf(text, sizeof text, "mcpd_uptime_seconds %s\n", table[i].text);
		snprintf(json, sizeof json, "[{\"labels\":{},\"value\":%s}]", table[i].text);
		check(METRIC_UPTIME, one_duration, text, json);
	}
}
END_TEST

static struct histogram histogram;

static void one_histogram(struct metrics_writer *w)
{
	metrics_histogram(w, (const char *[]){ "s" }, &histogram);
}

START_TEST(histograms_count_each_duration_once)
{
	static const int64_t limits[] = {
#define BOUND(us, seconds) us,
		METRIC_BUCKET_TABLE(BOUND)
#undef BOUND
	};
	memset(&histogram, 0, sizeof histogram);
	/* On a bound, it belongs to that bucket; one more, to the next. */
	for (int i = 0; i < METRIC_BUCKETS; i++) {
		ck_assert(i == 0 || limits[i] > limits[i - 1]);
		struct histogram h = { 0 };
		histogram_observe(&h, limits[i]);
		histogram_observe(&h, limits[i] + 1);
		ck_assert_uint_eq(h.buckets[i], 1);
		ck_assert_uint_eq(h.buckets[i + 1], 1);
		ck_assert_uint_eq(h.sum_us, 2 * (uint64_t)limits[i] + 1);
	}
	histogram_observe(&histogram, 0);
	histogram_observe(&histogram, -3);
	histogram_observe(&histogram, 40000);
	histogram_observe(&histogram, 299999999);
	histogram_observe(&histogram, 400000000);
	ck_assert_uint_eq(histogram.sum_us, 700039999);
	check(METRIC_WAIT, one_histogram,
	      "mcpd_call_wait_seconds_bucket{server=\"s\",le=\"0.001\"} 2\n"
	      "mcpd_call_wait_seconds_bucket{server=\"s\",le=\"0.0025\"} 2\n"
	      "mcpd_call_wait_seconds_bucket{server=\"s\",le=\"0.005\"} 2\n"
	      "mcpd_call_wait_seconds_bucket{server=\"s\",le=\"0.01\"} 2\n"
	      "mcpd_call_wait_seconds_bucket{server=\"s\",le=\"0.025\"} 2\n"
	      "mcpd_call_wait_seconds_bucket{server=\"s\",le=\"0.05\"} 3\n"
	      "mcpd_call_wait_seconds_bucket{server=\"s\",le=\"0.1\"} 3\n"
	      "mcpd_call_wait_seconds_bucket{server=\"s\",le=\"0.25\"} 3\n"
	      "mcpd_call_wait_seconds_bucket{server=\"s\",le=\"0.5\"} 3\n"
	      "mcpd_call_wait_seconds_bucket{server=\"s\",le=\"1\"} 3\n"
	      "mcpd_call_wait_seconds_bucket{server=\"s\",le=\"2.5\"} 3\n"
	      "mcpd_call_wait_seconds_bucket{server=\"s\",le=\"5\"} 3\n"
	      "mcpd_call_wait_seconds_bucket{server=\"s\",le=\"10\"} 3\n"
	      "mcpd_call_wait_seconds_bucket{server=\"s\",le=\"30\"} 3\n"
	      "mcpd_call_wait_seconds_bucket{server=\"s\",le=\"60\"} 3\n"
	      "mcpd_call_wait_seconds_bucket{server=\"s\",le=\"300\"} 4\n"
	      "mcpd_call_wait_seconds_bucket{server=\"s\",le=\"+Inf\"} 5\n"
	      "mcpd_call_wait_seconds_sum{server=\"s\"} 700.039999\n"
	      "mcpd_call_wait_seconds_count{server=\"s\"} 5\n",
	      "[{\"labels\":{\"server\":\"s\"},\"buckets\":{\"0.001\":2,\"0.0025\":2,\"0.005\":2,\"0.01\":2,\"0.025\":2,"
	      "\"0.05\":3,\"0.1\":3,\"0.25\":3,\"0.5\":3,\"1\":3,\"2.5\":3,\"5\":3,\"10\":3,\"30\":3,\"60\":3,\"300\":4,"
	      "\"+Inf\":5},\"sum\":700.039999,\"count\":5}]");
}
END_TEST

/* What promtool would say of names. */
START_TEST(names_follow_the_conventions)
{
	for (int i = 0; i < METRIC_COUNT; i++) {
		const struct metric_info *info = &metric_table[i];
		size_t len = strlen(info->name);
		bool total = len > 6 && strcmp(info->name + len - 6, "_total") == 0;
		ck_assert_msg(strncmp(info->name, "mcpd_", 5) == 0, "%s", info->name);
		ck_assert_msg(strspn(info->name, "abcdefghijklmnopqrstuvwxyz_") == len, "%s", info->name);
		ck_assert_msg(total == (info->type == METRIC_COUNTER), "%s", info->name);
		ck_assert_msg(!strpbrk(info->what, "\\\n|") && *info->what, "%s", info->name);
		unsigned labels = *info->labels ? 1 : 0;
		for (const char *at = info->labels; (at = strchr(at, ',')); at++)
			labels++;
		ck_assert_uint_le(labels, METRIC_LABELS_MAX);
		for (int k = 0; k < i; k++)
			ck_assert_str_ne(info->name, metric_table[k].name);
	}
}
END_TEST

/* The table in the reference is this one. */
START_TEST(the_reference_has_the_same_table)
{
	FILE *file = fopen(MCPD_REFERENCE, "r");
	char *reference = NULL;
	size_t len = 0;
	ck_assert_msg(file && getdelim(&reference, &len, '\0', file) > 0, "%s is missing", MCPD_REFERENCE);
	fclose(file);
	struct buf table = BUF_INIT;
	buf_add_text(&table, "| metric | type | labels | |\n| --- | --- | --- | --- |\n");
	for (int i = 0; i < METRIC_COUNT; i++) {
		const struct metric_info *info = &metric_table[i];
		buf_addf(&table, "| `%s` | %s | ", info->name, metric_type_names[info->type]);
		for (const char *at = info->labels; *at;) {
			int n = (int)strcspn(at, ",");
			buf_addf(&table, "%s`%.*s`", at > info->labels ? ", " : "", n, at);
			at += n + (at[n] == ',');
		}
		buf_addf(&table, "%s| %s |\n", *info->labels ? " " : "", info->what);
	}
	ck_assert_msg(strstr(reference, table.data), "PROTOCOL.md lacks this table:\n%s", table.data);
	buf_reset(&table);
#define BOUND(us, seconds) buf_addf(&table, "%s%s", table.len ? ", " : "", seconds);
	METRIC_BUCKET_TABLE(BOUND)
#undef BOUND
	ck_assert_msg(strstr(reference, table.data), "PROTOCOL.md lacks these buckets:\n%s", table.data);
	buf_done(&table);
	free(reference);
}
END_TEST

int main(void)
{
	return RUN_TESTS("metrics", samples_in_both_formats, durations_are_exact_seconds,
			 histograms_count_each_duration_once, names_follow_the_conventions,
			 the_reference_has_the_same_table);
}
