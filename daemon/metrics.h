/*
 * Numbers and how they are told: latency histograms, which whoever measures keeps and feeds, and the writer of
 * daemon/metrics' two formats, which are made from the table in proto/metrics.h.
 *
 * Counters are plain integers of those who count; nothing is allocated to count, and nothing is global.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "proto/buf.h"
#include "proto/metrics.h"

struct histogram {
	uint64_t buckets[METRIC_BUCKETS + 1]; /* not cumulative; the last one has no bound */
	uint64_t sum_us;
};

/* A zeroed struct is empty. A negative duration counts as none at all. */
void histogram_observe(struct histogram *histogram, int64_t us);

struct metrics_writer {
	struct buf *out;
	enum metrics_format format;
	int metric; /* the one being written, -1: none yet */
	bool any;   /* samples of it */
};

/* Between begin and end, each metric once and in the table's order: metrics_metric(), then its samples. Errors are
 * those of the buffer. */
void metrics_begin(struct metrics_writer *w, struct buf *out, enum metrics_format format);
void metrics_metric(struct metrics_writer *w, enum metric metric);
/* A sample. labels: the values, as many as the metric has labels; UTF-8, of any contents; NULL if it has none. */
void metrics_value(struct metrics_writer *w, const char *const *labels, uint64_t value);
void metrics_seconds(struct metrics_writer *w, const char *const *labels, int64_t us);
void metrics_histogram(struct metrics_writer *w, const char *const *labels, const struct histogram *histogram);
void metrics_end(struct metrics_writer *w);
