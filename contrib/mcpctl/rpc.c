#include "rpc.h"

#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>

#include "ctl.h"
#include "proto/http_header.h"
#include "proto/jsonrpc.h"
#include "proto/limits.h"

/* Longest text of an error response that is shown. */
#define SHOWN_BYTES 2000

struct rpc {
	struct buf body; /* of the request */
	struct buf text; /* of the response */
	struct curl_slist *headers;
	char problem[CURL_ERROR_SIZE];
};

static size_t on_text(char *bytes, size_t size, size_t n, void *arg)
{
	struct rpc *rpc = arg;
	buf_add(&rpc->text, bytes, size * n);
	return buf_failed(&rpc->text) ? 0 : size * n;
}

static bool add_header(struct rpc *rpc, const char *name, struct span json_string)
{
	struct buf line = BUF_INIT;
	if (!json_string.ptr)
		return true;
	buf_addf(&line, "%s: ", name);
	bool good = http_header_add_json(&line, json_string) == 0;
	struct curl_slist *headers = good ? curl_slist_append(rpc->headers, line.data) : NULL;
	if (headers)
		rpc->headers = headers;
	buf_done(&line);
	return headers != NULL;
}

/* The request itself: false with the reason told. */
static bool build(struct rpc *rpc, const char *method, struct span params)
{
	struct json_error error;
	struct buf quoted = BUF_INIT;
	if (params.ptr && json_check(params, &error) < 0) {
		complain("the params are no JSON: %s at byte %zu", error.reason, error.offset);
		return false;
	}
	enum json_kind kind = json_type_of(params);
	if (params.ptr && kind != JSON_OBJECT && kind != JSON_ARRAY) {
		complain("the params must be a JSON object, such as '{\"name\":\"echo\"}'");
		return false;
	}
	buf_add_json_text(&quoted, method);
	struct span name = buf_span(&quoted);
	jsonrpc_write_request(&rpc->body, SPAN_LIT("1"), name, params);
	rpc->headers = curl_slist_append(NULL, "Content-Type: application/json");
	curl_slist_append(rpc->headers, "Accept: application/json, text/event-stream");
	curl_slist_append(rpc->headers, "User-Agent: mcpctl");
	struct span version = http_header_version_source(params);
	bool good = !buf_failed(&rpc->body) && rpc->headers;
	if (good && version.ptr)
		good = add_header(rpc, "MCP-Protocol-Version", version) && add_header(rpc, "Mcp-Method", name) &&
		       add_header(rpc, "Mcp-Name", http_header_name_source(name, params));
	if (!good)
		complain("out of memory");
	buf_done(&quoted);
	return good;
}

/* 0 with *ret_status, or a CURLcode. */
static CURLcode perform(struct rpc *rpc, const char *url, long *ret_status)
{
	CURL *easy = curl_easy_init();
	if (!easy)
		return CURLE_OUT_OF_MEMORY;
	curl_easy_setopt(easy, CURLOPT_URL, url);
	curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(easy, CURLOPT_HTTPHEADER, rpc->headers);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDS, rpc->body.data);
	curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)(rpc->body.len - 1)); /* not the newline */
	curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_text);
	curl_easy_setopt(easy, CURLOPT_WRITEDATA, rpc);
	curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, rpc->problem);
	CURLcode code = curl_easy_perform(easy);
	curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, ret_status);
	curl_easy_cleanup(easy);
	return code;
}

/* What follows `data:` on the first such line, or the whole text. */
static struct span find_envelope(struct span text)
{
	const char *end = text.ptr + text.len;
	for (const char *line = text.ptr; line < end;) {
		const char *line_end = line + strcspn(line, "\r\n"); /* ends at the buffer's NUL at the latest */
		if (strncmp(line, "data:", 5) == 0)
			return json_trim((struct span){ line + 5, (size_t)(line_end - line) - 5 });
		line = line_end + 1;
	}
	return json_trim(text);
}

static int tell_envelope(const struct rpc *rpc, FILE *out)
{
	struct json_error error;
	struct span envelope = find_envelope(buf_span(&rpc->text));
	if (json_check(envelope, &error) < 0) {
		complain("the answer is no JSON: %s at byte %zu", error.reason, error.offset);
		return EXIT_FAILED;
	}
	fwrite(envelope.ptr, 1, envelope.len, out);
	fputc('\n', out);
	return fflush(out) == 0 ? EXIT_OK : EXIT_FAILED;
}

static int tell(const struct rpc *rpc, CURLcode code, long status, FILE *out)
{
	if (buf_failed(&rpc->text)) {
		complain("the answer is longer than %zu bytes, or memory is short", rpc->text.max);
	} else if (code != CURLE_OK) {
		complain("%s", rpc->problem[0] ? rpc->problem : curl_easy_strerror(code));
	} else if (status < 200 || status > 299) {
		struct span text = json_trim(buf_span(&rpc->text));
		complain("HTTP %ld: %.*s", status, (int)(text.len < SHOWN_BYTES ? text.len : SHOWN_BYTES), text.ptr);
	} else {
		return tell_envelope(rpc, out);
	}
	return EXIT_FAILED;
}

int rpc_main(const char *url, const char *method, const char *params_json, FILE *out)
{
	struct rpc rpc = { .headers = NULL };
	int result = EXIT_USAGE;
	long status = 0;
	buf_init(&rpc.text, (size_t)limit_table[LIMIT_MESSAGE_BYTES].def);
	curl_global_init(CURL_GLOBAL_DEFAULT);
	if (build(&rpc, method, span_of(params_json))) {
		CURLcode code = perform(&rpc, url, &status);
		result = tell(&rpc, code, status, out);
	}
	curl_slist_free_all(rpc.headers);
	buf_done(&rpc.body);
	buf_done(&rpc.text);
	curl_global_cleanup();
	return result;
}

int cmd_rpc(struct ctl *ctl, int argc, char **argv)
{
	(void)ctl;
	return rpc_main(argv[0], argv[1], argc > 2 ? argv[2] : NULL, stdout);
}
