#include "router/call_log.h"

#include "log.h"
#include "loop/loop.h"
#include "proto/buf.h"
#include "proto/json_iter.h"

static enum log_level level_of(enum mcpd_outcome outcome)
{
	bool expected = outcome == OUTCOME_OK || outcome == OUTCOME_CANCELLED || outcome == OUTCOME_CLIENT_GONE;
	return expected ? LOG_LEVEL_DEBUG : LOG_LEVEL_INFO;
}

/* Whether there is room for one more line in this second. */
static bool has_room(struct call_log *log)
{
	int64_t second = loop_now_ms() / 1000;
	if (second != log->second) {
		unsigned silent = log->silent;
		*log = (struct call_log){ .second = second };
		if (silent)
			log_info("%u more failed calls were not logged", silent);
	}
	if (log->told < CALL_LOG_PER_SECOND) {
		log->told++;
		return true;
	}
	log->silent++;
	return false;
}

static const char *text_of(struct buf *out, struct span json)
{
	if (json_type_of(json) == JSON_STRING)
		json_string_decode(json, out);
	return out->len && !buf_failed(out) ? out->data : NULL;
}

void call_log_ended(struct call_log *log, const struct call_info *info)
{
	enum log_level level = level_of(info->outcome);
	/* Whoever reads everything gets everything. */
	if (!log_wants(level) || (level == LOG_LEVEL_INFO && !log_wants(LOG_LEVEL_DEBUG) && !has_room(log)))
		return;
	struct buf method = BUF_INIT, tool = BUF_INIT;
	struct log_fields fields = {
		.server = info->server_name,
		.client = *info->client_label ? info->client_label : NULL,
		.method = text_of(&method, info->method),
		.tool = text_of(&tool, info->name),
		.outcome = mcpd_outcome_name(info->outcome),
		.duration_ms = info->duration_ms,
	};
	log_event(level, &fields, "server %s: %s%s%s for %s: %s", info->server_name, fields.method ? fields.method : "",
		  fields.tool ? " " : "", fields.tool ? fields.tool : "", fields.client ? fields.client : "mcpd itself",
		  fields.outcome);
	buf_done(&method);
	buf_done(&tool);
}
