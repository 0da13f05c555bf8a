#include "client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/errors.h"

mcpd_reply *reply_new(uint64_t request)
{
	mcpd_reply *reply = calloc(1, sizeof *reply);
	if (!reply)
		return NULL;
	reply->refs = 1;
	reply->request = request;
	reply->static_message = "";
	return reply;
}

static void reply_out_of_memory(mcpd_reply *reply)
{
	reply_set_failure(reply, -ENOMEM, "there was no memory for the answer", true);
}

void reply_set_result(mcpd_reply *reply, struct span result)
{
	reply->result = dup_span(result);
	if (!reply->result) {
		reply_out_of_memory(reply);
		return;
	}
	reply->status = 0;
	reply->result_len = result.len;
}

void reply_set_error(mcpd_reply *reply, struct span error)
{
	int64_t code = 0;
	json_int64(json_member(error, "code"), &code);
	reply->status = 1;
	reply->code = (int)code;
	struct span data = json_member(error, "data");
	reply->maybe_executed = span_is(json_member(data, "maybeExecuted"), "true");
	struct buf message = BUF_INIT;
	if (json_string_decode(json_member(error, "message"), &message) == 0 && message.len > 0)
		reply->message = buf_steal(&message);
	buf_done(&message);
	reply->static_message =
		mcpd_error_title(reply->code); /* in place of a message that is missing or found no memory */
	/* The code tells the same in short: short memory costs the details, not the answer. */
	if (data.ptr)
		reply->data = dup_span(data);
}

void reply_set_failure(mcpd_reply *reply, int error, const char *message, bool maybe_executed)
{
	reply->status = error;
	reply->static_message = message;
	reply->maybe_executed = maybe_executed;
}

MCPD_PUBLIC mcpd_reply *mcpd_reply_ref(mcpd_reply *reply)
{
	reply->refs++;
	return reply;
}

MCPD_PUBLIC void mcpd_reply_unref(mcpd_reply *reply)
{
	if (!reply || --reply->refs > 0)
		return;
	free(reply->result);
	free(reply->message);
	free(reply->data);
	free(reply);
}

MCPD_PUBLIC uint64_t mcpd_reply_request(const mcpd_reply *reply)
{
	return reply->request;
}

MCPD_PUBLIC int mcpd_reply_status(const mcpd_reply *reply)
{
	return reply->status;
}

MCPD_PUBLIC const char *mcpd_reply_result(const mcpd_reply *reply)
{
	return reply->result;
}

MCPD_PUBLIC size_t mcpd_reply_result_length(const mcpd_reply *reply)
{
	return reply->result_len;
}

MCPD_PUBLIC int mcpd_reply_code(const mcpd_reply *reply)
{
	return reply->code;
}

MCPD_PUBLIC const char *mcpd_reply_message(const mcpd_reply *reply)
{
	return reply->message ? reply->message : reply->static_message;
}

MCPD_PUBLIC const char *mcpd_reply_data(const mcpd_reply *reply)
{
	return reply->data;
}

MCPD_PUBLIC int mcpd_reply_maybe_executed(const mcpd_reply *reply)
{
	return reply->maybe_executed;
}
