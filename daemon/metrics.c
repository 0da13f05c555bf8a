#include "metrics.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
	int64_t us;
	const char *seconds;
} bounds[METRIC_BUCKETS] = {
#define BOUND(us, seconds) { us, seconds },
	METRIC_BUCKET_TABLE(BOUND)
#undef BOUND
};

void histogram_observe(struct histogram *h, int64_t us)
{
	int i = 0;
	while (i < METRIC_BUCKETS && us > bounds[i].us)
		i++;
	h->buckets[i]++;
	h->sum_us += us > 0 ? (uint64_t)us : 0;
}

/* --- labels --- */

/* The next of the names in a list with commas; false at its end. */
static bool next_name(const char **at, struct span *ret)
{
	if (!**at)
		return false;
	size_t len = strcspn(*at, ",");
	*ret = (struct span){ *at, len };
	*at += len + ((*at)[len] == ',');
	return true;
}

/* The text format's escapes; a line has one sample, whatever is in a label. */
static void add_label_value(struct buf *out, const char *value)
{
	buf_add_char(out, '"');
	for (; *value; value++) {
		if (*value == '\n')
			buf_add_text(out, "\\n");
		else if (*value == '"' || *value == '\\')
			buf_addf(out, "\\%c", *value);
		else
			buf_add_char(out, *value);
	}
	buf_add_char(out, '"');
}

/* {name="value",..}, with `le` behind the others; nothing if there are none. */
static void add_text_labels(struct buf *out, const char *names, const char *const *values, const char *le)
{
	struct span name;
	bool any = false;
	for (; next_name(&names, &name); values++) {
		buf_add_char(out, any ? ',' : '{');
		buf_add_span(out, name);
		buf_add_char(out, '=');
		add_label_value(out, *values);
		any = true;
	}
	if (le) {
		buf_addf(out, "%sle=\"%s\"", any ? "," : "{", le);
		any = true;
	}
	if (any)
		buf_add_char(out, '}');
}

static void add_json_labels(struct buf *out, const char *names, const char *const *values)
{
	struct span name;
	bool any = false;
	buf_add_text(out, "\"labels\":{");
	for (; next_name(&names, &name); values++) {
		buf_add_text(out, any ? ",\"" : "\"");
		buf_add_span(out, name);
		buf_add_text(out, "\":");
		buf_add_json_text(out, *values);
		any = true;
	}
	buf_add_char(out, '}');
}

/* --- metrics --- */

static const struct metric_info *current(const struct metrics_writer *w)
{
	return &metric_table[w->metric];
}

void metrics_begin(struct metrics_writer *w, struct buf *out, enum metrics_format format)
{
	*w = (struct metrics_writer){ .out = out, .format = format, .metric = -1 };
	if (format == METRICS_JSON)
		buf_add_text(out, "{\"metrics\":{");
}

void metrics_metric(struct metrics_writer *w, enum metric metric)
{
	const struct metric_info *info = &metric_table[metric];
	const char *type = metric_type_names[info->type];
	assert((int)metric == w->metric + 1);
	if (w->format == METRICS_JSON) {
		buf_addf(w->out, "%s\"%s\":{\"type\":\"%s\",\"help\":", w->metric < 0 ? "" : "]},", info->name, type);
		buf_add_json_text(w->out, info->what);
		buf_add_text(w->out, ",\"samples\":[");
	} else {
		buf_addf(w->out, "# HELP %s %s\n# TYPE %s %s\n", info->name, info->what, info->name, type);
	}
	w->metric = (int)metric;
	w->any = false;
}

void metrics_end(struct metrics_writer *w)
{
	assert(w->metric == METRIC_COUNT - 1);
	if (w->format == METRICS_JSON)
		buf_add_text(w->out, "]}}}");
}

/* --- samples --- */

static void begin_sample(struct metrics_writer *w, const char *const *labels)
{
	if (w->format == METRICS_JSON) {
		buf_add_text(w->out, w->any ? ",{" : "{");
		add_json_labels(w->out, current(w)->labels, labels);
		w->any = true;
	}
}

static void add_value(struct metrics_writer *w, const char *const *labels, const char *value)
{
	begin_sample(w, labels);
	if (w->format == METRICS_JSON) {
		buf_addf(w->out, ",\"value\":%s}", value);
		return;
	}
	buf_add_text(w->out, current(w)->name);
	add_text_labels(w->out, current(w)->labels, labels, NULL);
	buf_addf(w->out, " %s\n", value);
}

/* Microseconds as seconds, without zeros at the end. */
static const char *seconds_text(uint64_t us, char *text, size_t size)
{
	int len = snprintf(text, size, "%" PRIu64 ".%06u", us / 1000000, (unsigned)(us % 1000000));
	while (text[len - 1] == '0')
		text[--len] = '\0';
	if (text[len - 1] == '.')
		text[--len] = '\0';
	return text;
}

void metrics_value(struct metrics_writer *w, const char *const *labels, uint64_t value)
{
	char text[24];
	snprintf(text, sizeof text, "%" PRIu64, value);
	add_value(w, labels, text);
}

void metrics_seconds(struct metrics_writer *w, const char *const *labels, int64_t us)
{
	char text[32];
	add_value(w, labels, seconds_text(us > 0 ? (uint64_t)us : 0, text, sizeof text));
}

static void add_json_histogram(struct metrics_writer *w, const char *const *labels, const struct histogram *h)
{
	char sum[32];
	uint64_t count = 0;
	begin_sample(w, labels);
	buf_add_text(w->out, ",\"buckets\":{");
	for (int i = 0; i < METRIC_BUCKETS; i++) {
		count += h->buckets[i];
		buf_addf(w->out, "\"%s\":%" PRIu64 ",", bounds[i].seconds, count);
	}
	count += h->buckets[METRIC_BUCKETS];
	buf_addf(w->out, "\"+Inf\":%" PRIu64 "},\"sum\":%s,\"count\":%" PRIu64 "}", count,
		 seconds_text(h->sum_us, sum, sizeof sum), count);
}

/* One line of a histogram. */
static void add_line(struct metrics_writer *w, const char *suffix, const char *const *labels, const char *le,
		     const char *value)
{
	buf_addf(w->out, "%s%s", current(w)->name, suffix);
	add_text_labels(w->out, current(w)->labels, labels, le);
	buf_addf(w->out, " %s\n", value);
}

static void add_text_histogram(struct metrics_writer *w, const char *const *labels, const struct histogram *h)
{
	char text[32];
	uint64_t count = 0;
	for (int i = 0; i <= METRIC_BUCKETS; i++) {
		count += h->buckets[i];
		snprintf(text, sizeof text, "%" PRIu64, count);
		add_line(w, "_bucket", labels, i < METRIC_BUCKETS ? bounds[i].seconds : "+Inf", text);
	}
	char sum[32];
	add_line(w, "_sum", labels, NULL, seconds_text(h->sum_us, sum, sizeof sum));
	add_line(w, "_count", labels, NULL, text);
}

void metrics_histogram(struct metrics_writer *w, const char *const *labels, const struct histogram *h)
{
	if (w->format == METRICS_JSON)
		add_json_histogram(w, labels, h);
	else
		add_text_histogram(w, labels, h);
}
