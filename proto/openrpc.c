/* rpc.discover: the OpenRPC document (version 1.3) of the control dialect, made from the tables of methods.h, errors.h
 * and limits.h. */
#include <errno.h>
#include <string.h>

#include "proto/errors.h"
#include "proto/json_iter.h"
#include "proto/limits.h"
#include "proto/methods.h"
#include "proto/metrics.h"

#define REF(name) "{\"$ref\":\"#/components/schemas/" name "\"}"
#define STRING "{\"type\":\"string\"}"
#define COUNT "{\"type\":\"integer\",\"minimum\":0}"
#define NUMBER "{\"type\":\"number\",\"minimum\":0}"
#define NAMES "{\"type\":\"array\",\"items\":{\"type\":\"string\"}}"
#define STATE_ENUM                                                                                                     \
	"{\"enum\":[\"idle\",\"connecting\",\"connected\",\"reconnecting\",\"failed\",\"needs-auth\",\"disabled\"]}"

/* The formatter would spread these over the whole page. */
/* clang-format off */

/* What the server object is made of; servers/get adds to it. */
#define SERVER_REQUIRED "\"name\",\"state\",\"transport\",\"source\",\"sharing\",\"toolCount\",\"inFlight\""
#define SERVER_PROPERTIES \
	"\"name\":" STRING ",\"state\":" REF("State") ",\"transport\":{\"enum\":[\"stdio\",\"http\",\"sse\"]}," \
	"\"source\":" STRING ",\"sharing\":{\"enum\":[\"shared\",\"per-client\",\"exclusive\"]}," \
	"\"pid\":" COUNT ",\"url\":" STRING ",\"protocolVersion\":" STRING "," \
	"\"era\":{\"enum\":[\"modern\",\"legacy\"]},\"serverInfo\":{\"type\":\"object\"}," \
	"\"capabilities\":{\"type\":\"object\"},\"instructions\":" STRING "," \
	"\"toolCount\":" COUNT ",\"inFlight\":" COUNT ",\"connectedAt\":" REF("Time") "," \
	"\"lastError\":" REF("LastError") ",\"reconnect\":{\"type\":\"object\",\"required\":[\"attempt\",\"nextAttemptMs\"]," \
	"\"properties\":{\"attempt\":" COUNT ",\"nextAttemptMs\":" COUNT "}},\"holder\":" STRING ",\"queue\":" COUNT "," \
	"\"resources\":{\"type\":\"object\",\"required\":[\"memoryBytes\",\"cpuMs\",\"processes\"],\"properties\":{\"memoryBytes\":" COUNT "," \
	"\"cpuMs\":" COUNT ",\"processes\":" COUNT "}},\"memoryMaxEnforced\":{\"type\":\"boolean\"}," \
	"\"instances\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":[\"client\",\"pid\",\"state\",\"inFlight\"]," \
	"\"properties\":{\"client\":" STRING ",\"pid\":" COUNT ",\"state\":" REF("State") ",\"inFlight\":" COUNT "," \
	"\"resources\":{\"type\":\"object\"}}}}"

static const struct {
	const char *name, *schema;
} schemas[] = {
	{ "Time", "{\"type\":\"string\",\"format\":\"date-time\",\"description\":\"RFC 3339, UTC, with milliseconds\"}" },
	{ "State", STATE_ENUM },
	{ "LastError",
	  "{\"type\":\"object\",\"required\":[\"message\"],\"properties\":{\"message\":" STRING ",\"at\":" REF("Time") "}}" },
	{ "Hello",
	  "{\"type\":\"object\",\"required\":[\"protocol\",\"daemon\",\"pid\",\"methods\"],\"properties\":{"
	  "\"protocol\":{\"const\":1},\"daemon\":{\"type\":\"object\",\"required\":[\"name\",\"version\"],"
	  "\"properties\":{\"name\":{\"const\":\"mcpd\"},\"version\":" STRING "}},"
	  "\"pid\":" COUNT ",\"methods\":" NAMES "}}" },
	{ "Problem",
	  "{\"type\":\"object\",\"required\":[\"file\",\"message\"],"
	  "\"properties\":{\"file\":" STRING ",\"server\":" STRING ",\"message\":" STRING "}}" },
	{ "Problems", "{\"type\":\"array\",\"items\":" REF("Problem") "}" },
	{ "Reload",
	  "{\"type\":\"object\",\"required\":[\"added\",\"removed\",\"changed\",\"unchanged\",\"errors\",\"warnings\"],"
	  "\"properties\":{\"added\":" NAMES ",\"removed\":" NAMES ",\"changed\":" NAMES ",\"unchanged\":" COUNT ","
	  "\"errors\":" REF("Problems") ",\"warnings\":" REF("Problems") "}}" },
	{ "Server",
	  "{\"type\":\"object\",\"required\":[" SERVER_REQUIRED "],\"properties\":{" SERVER_PROPERTIES "}}" },
	{ "ServerDetails",
	  "{\"type\":\"object\",\"required\":[" SERVER_REQUIRED ",\"config\",\"history\"],"
	  "\"properties\":{" SERVER_PROPERTIES ",\"config\":{\"type\":\"object\"},\"advice\":" STRING ","
	  "\"shadowedResources\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":[\"uri\",\"server\"],"
	  "\"properties\":{\"uri\":" STRING ",\"server\":" STRING "}}},"
	  "\"history\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"required\":[\"at\",\"state\",\"reason\"],"
	  "\"properties\":{\"at\":" REF("Time") ",\"state\":" REF("State") ","
	  "\"reason\":{\"type\":[\"string\",\"null\"]}}}}}}" },
	{ "ServerList",
	  "{\"type\":\"object\",\"required\":[\"servers\"],"
	  "\"properties\":{\"servers\":{\"type\":\"array\",\"items\":" REF("Server") "}}}" },
	{ "Logs",
	  "{\"type\":\"object\",\"required\":[\"lines\"],\"properties\":{\"lines\":{\"type\":\"array\",\"items\":{"
	  "\"type\":\"object\",\"required\":[\"at\",\"text\"],"
	  "\"properties\":{\"at\":" REF("Time") ",\"text\":" STRING "}}}}}" },
	{ "ToolList",
	  "{\"type\":\"object\",\"required\":[\"revision\"],"
	  "\"oneOf\":[{\"required\":[\"servers\"]},{\"required\":[\"notModified\"]}],"
	  "\"properties\":{\"revision\":" STRING ",\"notModified\":{\"const\":true},"
	  "\"servers\":{\"type\":\"array\",\"items\":{\"type\":\"object\","
	  "\"required\":[\"name\",\"state\",\"deferred\",\"tools\"],\"properties\":{\"name\":" STRING ","
	  "\"state\":" REF("State") ",\"deferred\":{\"type\":\"boolean\"},\"error\":" STRING ","
	  "\"tools\":{\"type\":\"array\",\"items\":{\"type\":\"object\"}}}}}}}" },
	{ "Attached",
	  "{\"type\":\"object\",\"oneOf\":[{\"required\":[\"server\"]},{\"required\":[\"aggregate\"]}],"
	  "\"properties\":{\"server\":" STRING ",\"aggregate\":{\"const\":true}}}" },
	{ "OpenRPC", "{\"type\":\"object\",\"required\":[\"openrpc\",\"info\",\"methods\"]}" },
	{ "Empty", "{\"type\":\"object\",\"maxProperties\":0}" },
};
/* clang-format on */

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

static void add_limits_schema(struct buf *out)
{
	buf_add_text(out, "{\"type\":\"object\",\"required\":[");
	for (int i = 0; i < LIMIT_COUNT; i++)
		buf_addf(out, "%s\"%s\"", i ? "," : "", limit_table[i].key);
	buf_add_text(out, "],\"properties\":{");
	for (int i = 0; i < LIMIT_COUNT; i++) {
		const struct limit_info *limit = &limit_table[i];
		buf_addf(
			out,
			"%s\"%s\":{\"type\":\"integer\",\"minimum\":%lld,\"maximum\":%lld,\"default\":%lld,\"description\":",
			i ? "," : "", limit->key, (long long)limit->min, (long long)limit->max, (long long)limit->def);
		buf_add_json_text(out, limit->what);
		buf_add_char(out, '}');
	}
	buf_add_text(out, "}}");
}

/* The numbers per state, as daemon/status tells them. */
static void add_status_schema(struct buf *out)
{
	struct json_iter it;
	struct span state;
	buf_add_text(
		out,
		"{\"type\":\"object\",\"required\":[\"version\",\"pid\",\"uptimeMs\",\"socket\",\"config\",\"servers\","
		"\"clients\",\"inFlight\",\"memory\",\"limits\"],\"properties\":{\"version\":" STRING ",\"pid\":" COUNT
		",\"uptimeMs\":" COUNT ",\"socket\":" STRING
		",\"service\":{\"type\":\"object\",\"required\":[\"activated\"],"
		"\"properties\":{\"unit\":" STRING ",\"activated\":{\"type\":\"boolean\"}}}"
		",\"config\":{\"type\":\"object\",\"required\":[\"files\",\"missing\","
		"\"errors\",\"warnings\"],\"properties\":{\"files\":" NAMES ",\"missing\":" NAMES
		",\"errors\":" REF("Problems") ",\"warnings\":" REF(
			"Problems") "}},\"servers\":{\"type\":\"object\",\"properties\":{\"total\":" COUNT);
	json_iter_init(&it, json_member(SPAN_LIT(STATE_ENUM), "enum"));
	while (json_iter_element(&it, &state)) {
		buf_add_char(out, ',');
		buf_add_span(out, state);
		buf_add_text(out, ":" COUNT);
	}
	buf_add_text(out, "}},\"clients\":" COUNT ",\"inFlight\":" COUNT
			  ",\"memory\":{\"type\":\"object\",\"required\":[\"rssBytes\"],"
			  "\"properties\":{\"rssBytes\":" COUNT "}},\"limits\":" REF("Limits") "}}");
}

/* labels: names with commas between them. */
static void add_labels_schema(struct buf *out, const char *labels)
{
	struct buf names = BUF_INIT, members = BUF_INIT;
	while (*labels) {
		int len = (int)strcspn(labels, ",");
		buf_addf(&names, "%s\"%.*s\"", names.len ? "," : "", len, labels);
		buf_addf(&members, "%s\"%.*s\":" STRING, members.len ? "," : "", len, labels);
		labels += len + (labels[len] == ',');
	}
	buf_add_text(out, "{\"type\":\"object\",\"required\":[");
	buf_add_span(out, buf_span(&names));
	buf_add_text(out, "],\"properties\":{");
	buf_add_span(out, buf_span(&members));
	buf_add_text(out, "}}");
	if (buf_failed(&names) || buf_failed(&members))
		out->error = -ENOMEM;
	buf_done(&names);
	buf_done(&members);
}

static void add_buckets_schema(struct buf *out)
{
	buf_add_text(out, "{\"type\":\"object\",\"required\":[");
#define BUCKET_NAME(us, seconds) "\"" seconds "\","
	buf_add_text(out, METRIC_BUCKET_TABLE(BUCKET_NAME) "\"+Inf\"],\"properties\":{");
#undef BUCKET_NAME
#define BUCKET_MEMBER(us, seconds) "\"" seconds "\":" COUNT ","
	buf_add_text(out, METRIC_BUCKET_TABLE(BUCKET_MEMBER) "\"+Inf\":" COUNT "}}");
#undef BUCKET_MEMBER
}

static void add_sample_schema(struct buf *out, const struct metric_info *metric)
{
	bool histogram = metric->type == METRIC_HISTOGRAM;
	buf_addf(out, "{\"type\":\"object\",\"required\":[\"labels\",%s],\"properties\":{\"labels\":",
		 histogram ? "\"buckets\",\"sum\",\"count\"" : "\"value\"");
	add_labels_schema(out, metric->labels);
	buf_add_text(out, histogram ? ",\"buckets\":" REF("Buckets") ",\"sum\":" NUMBER ",\"count\":" COUNT "}}" :
				      ",\"value\":" NUMBER "}}");
}

static void add_metrics_schema(struct buf *out)
{
	buf_add_text(out, "{\"type\":\"object\",\"oneOf\":[{\"required\":[\"metrics\"]},{\"required\":[\"text\"]}],"
			  "\"properties\":{\"text\":" STRING ",\"metrics\":{\"type\":\"object\",\"required\":[");
	for (int i = 0; i < METRIC_COUNT; i++)
		buf_addf(out, "%s\"%s\"", i ? "," : "", metric_table[i].name);
	buf_add_text(out, "],\"properties\":{");
	for (int i = 0; i < METRIC_COUNT; i++) {
		const struct metric_info *metric = &metric_table[i];
		buf_addf(out, "%s\"%s\":{\"type\":\"object\",\"description\":", i ? "," : "", metric->name);
		buf_add_json_text(out, metric->what);
		buf_addf(out,
			 ",\"required\":[\"type\",\"help\",\"samples\"],\"properties\":{\"type\":{\"const\":\"%s\"},"
			 "\"help\":" STRING ",\"samples\":{\"type\":\"array\",\"items\":",
			 metric_type_names[metric->type]);
		add_sample_schema(out, metric);
		buf_add_text(out, "}}}");
	}
	buf_add_text(out, "}}}}");
}

static void add_schemas(struct buf *out)
{
	buf_add_text(out, "\"schemas\":{\"Limits\":");
	add_limits_schema(out);
	buf_add_text(out, ",\"Status\":");
	add_status_schema(out);
	buf_add_text(out, ",\"Buckets\":");
	add_buckets_schema(out);
	buf_add_text(out, ",\"Metrics\":");
	add_metrics_schema(out);
	for (size_t i = 0; i < LENGTH(schemas); i++)
		buf_addf(out, ",\"%s\":%s", schemas[i].name, schemas[i].schema);
	buf_add_char(out, '}');
}

static void add_param_schema(struct buf *out, const struct method_param *param)
{
	switch (param->type) {
	case TYPE_STRING:
		buf_add_text(out, STRING);
		break;
	case TYPE_INTEGER:
		buf_addf(out, "{\"type\":\"integer\",\"minimum\":%lld,\"maximum\":%lld}", (long long)param->min,
			 (long long)METHOD_INTEGER_MAX);
		break;
	case TYPE_OBJECT:
		buf_add_text(out, "{\"type\":\"object\"}");
		break;
	case TYPE_FORMAT:
		buf_add_text(out, "{\"enum\":[");
		for (int i = 0; i < METRICS_FORMAT_COUNT; i++)
			buf_addf(out, "%s\"%s\"", i ? "," : "", metrics_format_names[i]);
		buf_add_text(out, "]}");
		break;
	case TYPE_TOPICS:
		buf_add_text(out, "{\"type\":\"array\",\"minItems\":1,\"items\":{\"enum\":[");
		for (int i = 0; i < TOPIC_COUNT; i++)
			buf_addf(out, "%s\"%s\"", i ? "," : "", event_topic_names[i]);
		buf_add_text(out, "]}}");
		break;
	}
}

static void add_params(struct buf *out, const struct method_param *param)
{
	buf_add_text(out, ",\"params\":[");
	for (bool first = true; param->name; param++, first = false) {
		buf_addf(out, "%s{\"name\":\"%s\",\"description\":", first ? "" : ",", param->name);
		buf_add_json_text(out, param->what);
		buf_addf(out, ",\"required\":%s,\"schema\":", param->required ? "true" : "false");
		add_param_schema(out, param);
		buf_add_char(out, '}');
	}
	buf_add_char(out, ']');
}

/* X(name, ..) of errors.h as references; `first` begins the list. */
static void add_errors(struct buf *out, unsigned errors)
{
	static const struct {
		const char *name;
		unsigned when; /* 0: always */
	} table[] = {
		{ "INVALID_PARAMS", 0 },
		{ "INTERNAL", 0 },
		{ "LIMIT", 0 },
		{ "UNKNOWN_SERVER", ERRORS_SERVER },
		{ "UNAVAILABLE", ERRORS_STATE | ERRORS_CALL },
		{ "TRANSPORT", ERRORS_STATE | ERRORS_CALL },
		{ "TIMEOUT", ERRORS_STATE | ERRORS_CALL },
		{ "CANCELLED", 0 },
		{ "SERVER", ERRORS_CALL },
		{ "HTTP", ERRORS_CALL },
		{ "PROTOCOL", ERRORS_CALL },
		{ "NEEDS_AUTH", ERRORS_STATE | ERRORS_CALL },
	};
	bool first = true;
	buf_add_text(out, ",\"errors\":[");
	for (size_t i = 0; i < LENGTH(table); i++) {
		if (table[i].when && !(table[i].when & errors))
			continue;
		buf_addf(out, "%s{\"$ref\":\"#/components/errors/%s\"}", first ? "" : ",", table[i].name);
		first = false;
	}
	buf_add_char(out, ']');
}

static void add_method(struct buf *out, const struct method_info *method)
{
	buf_addf(out, "{\"name\":\"%s\",\"summary\":", method->name);
	buf_add_json_text(out, method->summary);
	buf_add_text(out, ",\"paramStructure\":\"by-name\"");
	add_params(out, method->params);
	buf_addf(out, ",\"result\":{\"name\":\"%s\",\"schema\":", method->result);
	if (method->errors & ERRORS_CALL)
		buf_add_text(out, "true"); /* whatever the server says */
	else
		buf_addf(out, "{\"$ref\":\"#/components/schemas/%s\"}", method->result);
	buf_add_char(out, '}');
	add_errors(out, method->errors);
	buf_add_char(out, '}');
}

void openrpc_write(struct buf *out, const char *version)
{
	buf_add_text(
		out,
		"{\"openrpc\":\"1.3.2\",\"info\":{\"title\":\"mcpd\",\"description\":\"The control dialect of mcpd's socket: "
		"JSON-RPC 2.0, one message per line.\",\"version\":");
	buf_add_json_text(out, version);
	buf_add_text(out, "},\"methods\":[");
	for (int i = 0; i < METHOD_COUNT; i++) {
		buf_add_text(out, i ? "," : "");
		add_method(out, &method_table[i]);
	}
	buf_add_text(out, "],\"components\":{");
	add_schemas(out);
	buf_add_text(out, ",\"errors\":{");
	bool first = true;
#define ADD_ERROR(name, code, title)                                                                                   \
	buf_addf(out, "%s\"" #name "\":{\"code\":%d,\"message\":\"%s\"}", first ? "" : ",", code, title);              \
	first = false;
	MCPD_ERROR_TABLE(ADD_ERROR)
#undef ADD_ERROR
	buf_add_text(out, "}}}");
}
