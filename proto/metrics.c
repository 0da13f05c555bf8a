#include "proto/metrics.h"

const struct metric_info metric_table[METRIC_COUNT] = {
#define METRIC_ROW(id, name, type, labels, what) [METRIC_##id] = { name, METRIC_##type, labels, what },
	METRIC_TABLE(METRIC_ROW)
#undef METRIC_ROW
};

const char *const metric_type_names[] = {
	[METRIC_COUNTER] = "counter",
	[METRIC_GAUGE] = "gauge",
	[METRIC_HISTOGRAM] = "histogram",
};

const char *const metrics_format_names[METRICS_FORMAT_COUNT] = {
	[METRICS_JSON] = "json",
	[METRICS_PROMETHEUS] = "prometheus",
};
