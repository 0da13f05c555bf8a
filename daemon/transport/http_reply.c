#include "transport/http_reply.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "config/config_mask.h"
#include "proto/errors.h"
#include "proto/jsonrpc.h"
#include "xalloc.h"

/* A session error is a short text; in a longer one the words below mean nothing. */
#define SESSION_ERROR_BYTES 2048

static char *dup_span(struct span s)
{
	return s.ptr ? xstrndup(s.ptr, s.len) : NULL;
}

static struct span trim(struct span text)
{
	while (text.len > 0 && strchr(" \t\r\n", text.ptr[0]) && text.ptr[0])
		text = (struct span){ text.ptr + 1, text.len - 1 };
	while (text.len > 0 && strchr(" \t\r\n", text.ptr[text.len - 1]) && text.ptr[text.len - 1])
		text.len--;
	return text;
}

bool http_is_media_type(struct span content_type, const char *type)
{
	struct span essence = content_type;
	const char *semicolon = content_type.ptr ? memchr(content_type.ptr, ';', content_type.len) : NULL;
	if (semicolon)
		essence.len = (size_t)(semicolon - content_type.ptr);
	essence = trim(essence);
	return essence.len == strlen(type) && strncasecmp(essence.ptr, type, essence.len) == 0;
}

static bool contains(struct span text, const char *word)
{
	size_t len = strlen(word);
	for (size_t at = 0; at + len <= text.len; at++)
		if (strncasecmp(text.ptr + at, word, len) == 0)
			return true;
	return false;
}

struct span http_body_error(struct span body)
{
	if (body.len == 0 || json_check(body, NULL) < 0)
		return SPAN_NONE;
	struct span error = json_member(body, "error");
	return json_type_of(error) == JSON_OBJECT ? error : SPAN_NONE;
}

static bool error_code(struct span body, int64_t *ret_code)
{
	return json_int64(json_member(http_body_error(body), "code"), ret_code) == 0;
}

bool http_is_modern_error(int status, struct span body)
{
	int64_t code;
	if (status < 400 || status >= 500 || status == 401 || status == 403 || !error_code(body, &code))
		return false;
	/* HeaderMismatch, MissingRequiredClientCapability, UnsupportedProtocolVersion; 404 is theirs for an unknown
	 * method. */
	return (code <= -32020 && code >= -32022) || (status == 404 && code == MCPD_E_METHOD_NOT_FOUND);
}

bool http_is_session_error(int status, struct span body)
{
	static const char *const words[] = { "not found", "unknown",         "invalid",   "expired",     "missing",
					     "no valid",  "terminated",      "not exist", "required",    "no such",
					     "closed",    "not initialized", "no active", "not provided" };
	int64_t code;
	if (status == 404)
		/* It may also be the method that is not found: then the session is fine. */
		return !error_code(body, &code) || code != MCPD_E_METHOD_NOT_FOUND;
	if ((status != 400 && status != 401 && status != 503) || body.len > SESSION_ERROR_BYTES)
		return false;
	if (contains(body, "server not initialized"))
		return true;
	if (!contains(body, "session"))
		return false;
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (contains(body, words[i]))
			return true;
	return false;
}

static void add_hint(struct buf *out, unsigned *n, const char *name, struct span value)
{
	if (!value.ptr)
		return;
	buf_addf(out, "%s%s: ", (*n)++ ? "; " : " [", name);
	buf_add_span(out, value);
}

/* H9: `HTTP 401: <text> [WWW-Authenticate: <value>; Mcp-Auth-Server: <value>]`. */
static char *error_message(const struct http_response *response)
{
	struct buf out;
	unsigned n = 0;
	struct span text = trim(response->body);
	struct buf shown_location;
	buf_init(&out, 0);
	buf_init(&shown_location, 0);
	buf_addf(&out, "HTTP %d: ", response->status);
	buf_add_span(&out, text.len ? text : response->reason);
	if (response->status >= 300 && response->status < 400 && response->location.ptr) {
		char *location = dup_span(response->location);
		mask_url(&shown_location, location);
		free(location);
		add_hint(&out, &n, "Location", buf_span(&shown_location));
		buf_add_text(&out, "; redirects are not followed: set \"url\" to where the server is");
	}
	add_hint(&out, &n, "WWW-Authenticate", response->www_authenticate);
	add_hint(&out, &n, "Mcp-Auth-Server", response->mcp_auth_server);
	if (n)
		buf_add_char(&out, ']');
	buf_done(&shown_location);
	/* A C string it shall be. */
	for (size_t i = 0; i < out.len; i++)
		if (out.data[i] == '\0')
			out.data[i] = ' ';
	char *message = buf_steal(&out);
	return message ? message : xasprintf("HTTP %d", response->status);
}

void http_error_init(struct http_error *error, const struct http_response *response)
{
	int status = response->status;
	bool challenge = response->www_authenticate.ptr != NULL;
	bool modern = http_is_modern_error(status, response->body);
	bool lost = response->had_session && !(status == 401 && challenge) && !modern &&
		    http_is_session_error(status, response->body);
	*error = (struct http_error){
		.code = status == 401 && !lost ? MCPD_E_NEEDS_AUTH : MCPD_E_HTTP,
		.status = status,
		.message = error_message(response),
		.www_authenticate = dup_span(response->www_authenticate),
		.mcp_auth_server = dup_span(response->mcp_auth_server),
		.session_lost = lost,
		.era_modern = modern,
		/* Refused before anything was run; of 503 that cannot be known. */
		.sent = !(lost && status != 503) && status != 401,
	};
	buf_add_span(&error->body, response->body);
}

void http_error_of(struct http_error *error, const struct redactor *redactor, const struct transfer *t,
		   struct span body, bool had_session)
{
	struct http_response response = {
		.status = transfer_status(t),
		.reason = transfer_reason(t),
		.body = body,
		.www_authenticate = transfer_header(t, "WWW-Authenticate"),
		.mcp_auth_server = transfer_header(t, "Mcp-Auth-Server"),
		.location = transfer_header(t, "Location"),
		.had_session = had_session,
	};
	/* A server may send back what it was sent. */
	struct span *told[] = { &response.reason, &response.body, &response.www_authenticate, &response.mcp_auth_server,
				&response.location };
	struct buf clean[sizeof(told) / sizeof(*told)] = { 0 };
	for (size_t i = 0; i < sizeof(told) / sizeof(*told); i++)
		*told[i] = redact(redactor, *told[i], &clean[i]);
	http_error_init(error, &response);
	for (size_t i = 0; i < sizeof(told) / sizeof(*told); i++)
		buf_done(&clean[i]);
}

void http_error_done(struct http_error *error)
{
	free(error->message);
	free(error->www_authenticate);
	free(error->mcp_auth_server);
	buf_done(&error->body);
	*error = (struct http_error){ .code = 0 };
}

void http_error_reply(const struct http_error *error, struct transport_reply *ret)
{
	*ret = (struct transport_reply){
		.code = error->code,
		.message = error->message,
		.sent = error->sent,
		.http_status = error->status,
		.http_body = buf_span(&error->body),
		.www_authenticate = error->www_authenticate,
		.mcp_auth_server = error->mcp_auth_server,
		.session_lost = error->session_lost,
		.era_modern_error = error->era_modern,
	};
}

char *http_parse_message(const char *what, const struct json_error *error)
{
	if (error->too_deep)
		return xasprintf("The JSON in the %s is nested deeper than %s", what, limit_table[LIMIT_NESTING].key);
	return xasprintf("Invalid JSON in the %s: %s at byte %zu", what, error->reason, error->offset);
}

static const struct {
	const char *what, *advice;
} transfer_words[] = {
	[TRANSFER_OK] = { "no response", "" },
	[TRANSFER_BAD_URL] = { "this URL cannot be used", "" },
	[TRANSFER_RESOLVE] = { "no such host", "" },
	[TRANSFER_RESOLVE_PROXY] = { "the proxy's host is unknown", "; see http_proxy, https_proxy and no_proxy" },
	[TRANSFER_CONNECT] = { "cannot connect", "" },
	[TRANSFER_PROXY] = { "the proxy refused", "; see http_proxy, https_proxy and no_proxy" },
	[TRANSFER_TLS] = { "TLS failed", "" },
	[TRANSFER_TLS_UNTRUSTED] = { "the server's certificate is not trusted", "; name its authority in \"caFile\"" },
	[TRANSFER_TLS_EXPIRED] = { "the server's certificate has expired or is not valid yet", "" },
	[TRANSFER_TLS_HOST] = { "the server's certificate is for another host", "" },
	[TRANSFER_CA_FILE] = { "\"caFile\" cannot be read", "" },
	[TRANSFER_NO_MEMORY] = { "out of memory", "" },
	[TRANSFER_LOST] = { "the connection was lost", "" },
};

char *http_transfer_message(const char *shown_url, const struct transfer_end *end, int64_t connect_timeout_ms,
			    const struct limits *limits, int *ret_code)
{
	*ret_code = MCPD_E_PROTOCOL;
	if (end->error == TRANSFER_HEADER_COUNT)
		return xasprintf("%s: more header lines than maxHttpHeaders (%" PRId64 ")", shown_url,
				 limits->value[LIMIT_HTTP_HEADERS]);
	if (end->error == TRANSFER_HEADER_BYTES)
		return xasprintf("%s: headers longer than maxHttpHeaderBytes (%" PRId64 ")", shown_url,
				 limits->value[LIMIT_HTTP_HEADER_BYTES]);
	*ret_code = MCPD_E_TRANSPORT;
	if (end->error == TRANSFER_CONNECT_TIMEOUT)
		return xasprintf("%s: no connection after %" PRId64 "ms", shown_url, connect_timeout_ms);
	bool detail = end->detail[0] != '\0';
	return xasprintf("%s: %s%s%s%s%s", shown_url, transfer_words[end->error].what, detail ? " (" : "", end->detail,
			 detail ? ")" : "", transfer_words[end->error].advice);
}
