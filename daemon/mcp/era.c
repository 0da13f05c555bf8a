#include "mcp/era.h"

#include <stdlib.h>

#include "proto/json_iter.h"
#include "proto/json_scan.h"
#include "xalloc.h"

/* Longest list of foreign versions and longest foreign text that goes into a message. */
#define VERSIONS_SHOWN 16
#define TEXT_SHOWN 200

static const char *const legacy_versions[] = { "2024-11-05", "2025-03-26", "2025-06-18", MCP_LEGACY_OFFER };
static const char *const modern_versions[] = { MCP_MODERN_VERSION };

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *find_version(struct span json, const char *const *known, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (json_string_is(json, known[i]))
			return known[i];
	return NULL;
}

const char *era_legacy_version(struct span json)
{
	return find_version(json, legacy_versions, COUNT(legacy_versions));
}

const char *era_modern_version(struct span json)
{
	return find_version(json, modern_versions, COUNT(modern_versions));
}

void era_write_modern_versions(struct buf *out)
{
	buf_add_char(out, '[');
	for (size_t i = COUNT(modern_versions); i > 0; i--)
		buf_addf(out, "%s\"%s\"", i == COUNT(modern_versions) ? "" : ",", modern_versions[i - 1]);
	buf_add_char(out, ']');
}

void era_finding_done(struct era_finding *finding)
{
	free(finding->message);
	finding->message = NULL;
}

/* Appends a foreign string, decoded and cut; something that is no string stays as it is written. */
static void add_foreign(struct buf *out, struct span json)
{
	struct buf text;
	buf_init(&text, 0);
	if (json_string_decode(json, &text) < 0)
		buf_add_span(&text, json);
	if (text.len > TEXT_SHOWN) {
		buf_truncate(&text, TEXT_SHOWN);
		buf_add_text(&text, "...");
	}
	buf_add_span(out, buf_span(&text));
	buf_done(&text);
}

static char *steal_message(struct buf *out)
{
	char *text = buf_steal(out);
	return text ? text : xstrdup("out of memory");
}

static void add_own_versions(struct buf *out)
{
	buf_add_text(out, "mcpd speaks ");
	for (size_t i = 0; i < COUNT(legacy_versions); i++)
		buf_addf(out, "%s, ", legacy_versions[i]);
	for (size_t i = 0; i < COUNT(modern_versions); i++)
		buf_addf(out, "%s%s", i ? ", " : "", modern_versions[i]);
}

static char *incompatible_message(const char *server, struct span versions)
{
	struct buf out;
	struct json_iter it;
	struct span version;
	unsigned n = 0;
	buf_init(&out, 0);
	buf_addf(&out, "Server \"%s\" speaks the MCP versions ", server);
	json_iter_init(&it, versions);
	for (; json_iter_element(&it, &version) && n < VERSIONS_SHOWN; n++) {
		if (n)
			buf_add_text(&out, ", ");
		add_foreign(&out, version);
	}
	buf_add_text(&out, n ? "; " : "(none); ");
	add_own_versions(&out);
	return steal_message(&out);
}

static void judge_versions(const char *server, struct span versions, struct era_finding *ret)
{
	struct json_iter it;
	struct span version;
	bool legacy = false;
	json_iter_init(&it, versions);
	while (json_iter_element(&it, &version)) {
		ret->version = era_modern_version(version);
		if (ret->version) {
			ret->verdict = ERA_MODERN;
			return;
		}
		legacy |= era_legacy_version(version) != NULL;
	}
	if (legacy) {
		ret->verdict = ERA_LEGACY;
		return;
	}
	ret->verdict = ERA_INCOMPATIBLE;
	ret->message = incompatible_message(server, versions);
}

/* `error.data.supported` of an UnsupportedProtocolVersion, or absent. */
static struct span supported_versions(struct span error)
{
	int64_t code;
	struct span supported = json_path(error, "data", "supported", NULL);
	if (json_int64(json_member(error, "code"), &code) < 0 || code != MCP_E_UNSUPPORTED_VERSION ||
	    json_type_of(supported) != JSON_ARRAY)
		return SPAN_NONE;
	return supported;
}

static void fail(struct era_finding *ret, enum era_verdict verdict, const char *server, const char *what,
		 const struct transport_reply *reply)
{
	ret->verdict = verdict;
	ret->message = xasprintf("Server \"%s\": %s failed: %s", server, what,
				 reply->message ? reply->message : mcpd_error_title(reply->code));
}

static void judge_error(const char *server, struct span error, struct era_finding *ret)
{
	struct span supported = supported_versions(error);
	if (supported.ptr)
		judge_versions(server, supported, ret);
	else
		ret->verdict = ERA_LEGACY;
	/* It does not speak our modern version, whatever it lists: asking again would go round in circles. */
	if (ret->verdict == ERA_MODERN) {
		ret->verdict = ERA_INCOMPATIBLE;
		ret->version = NULL;
		ret->message = incompatible_message(server, supported);
	}
}

static void judge_http(const char *server, const struct transport_reply *reply, struct era_finding *ret)
{
	struct span error = SPAN_NONE;
	int64_t code = 0;
	if (reply->http_body.len && json_check(reply->http_body, NULL) == 0)
		error = json_member(reply->http_body, "error");
	if (supported_versions(error).ptr) {
		judge_error(server, error, ret);
		return;
	}
	bool no_method = json_int64(json_member(error, "code"), &code) == 0 && code == MCPD_E_METHOD_NOT_FOUND;
	if (reply->http_status == 401)
		fail(ret, ERA_NEEDS_AUTH, server, "server/discover", reply);
	else if (reply->http_status == 403 || (reply->era_modern_error && !no_method))
		fail(ret, ERA_REFUSED, server, "server/discover", reply);
	else
		ret->verdict = ERA_LEGACY;
}

void era_judge_probe(const char *server, const struct transport_reply *reply, struct era_finding *ret)
{
	*ret = (struct era_finding){ .verdict = ERA_LEGACY };
	switch (reply->code) {
	case 0: {
		struct span versions = json_member(reply->result, "supportedVersions");
		if (json_type_of(versions) == JSON_ARRAY)
			judge_versions(server, versions, ret);
		break;
	}
	case MCPD_E_SERVER:
		judge_error(server, reply->error, ret);
		break;
	case MCPD_E_HTTP:
		judge_http(server, reply, ret);
		break;
	case MCPD_E_NEEDS_AUTH:
		fail(ret, ERA_NEEDS_AUTH, server, "server/discover", reply);
		break;
	case MCPD_E_TIMEOUT:
		fail(ret, ERA_TIMEOUT, server, "server/discover", reply);
		break;
	case MCPD_E_TRANSPORT:
		if (!reply->sent)
			fail(ret, ERA_LOST, server, "server/discover", reply);
		break;
	default:
		break;
	}
}

static enum era_verdict failure_verdict(const struct transport_reply *reply)
{
	switch (reply->code) {
	case MCPD_E_NEEDS_AUTH:
		return ERA_NEEDS_AUTH;
	case MCPD_E_TIMEOUT:
		return ERA_TIMEOUT;
	case MCPD_E_TRANSPORT:
		return ERA_LOST;
	default:
		return reply->http_status == 401 ? ERA_NEEDS_AUTH : ERA_REFUSED;
	}
}

void era_judge_initialize(const char *server, const struct transport_reply *reply, struct era_finding *ret)
{
	*ret = (struct era_finding){ .verdict = ERA_LEGACY };
	if (reply->code) {
		fail(ret, failure_verdict(reply), server, "initialize", reply);
		return;
	}
	struct span version = json_member(reply->result, "protocolVersion");
	ret->version = era_legacy_version(version);
	if (ret->version)
		return;
	struct buf out;
	buf_init(&out, 0);
	ret->verdict = ERA_INCOMPATIBLE;
	if (json_type_of(version) == JSON_STRING) {
		buf_addf(&out, "Server \"%s\" answered initialize with the MCP version ", server);
		add_foreign(&out, version);
		buf_add_text(&out, "; ");
	} else {
		buf_addf(&out, "Server \"%s\" answered initialize without a protocolVersion; ", server);
	}
	add_own_versions(&out);
	ret->message = steal_message(&out);
}

void era_write_probe_params(struct buf *out, struct span capabilities, struct span client_info)
{
	buf_add_text(out, "{\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"" MCP_MODERN_VERSION
			  "\",\"io.modelcontextprotocol/clientInfo\":");
	buf_add_span(out, client_info);
	buf_add_text(out, ",\"io.modelcontextprotocol/clientCapabilities\":");
	buf_add_span(out, capabilities);
	buf_add_text(out, "}}");
}

void era_write_initialize_params(struct buf *out, struct span capabilities, struct span client_info)
{
	buf_add_text(out, "{\"protocolVersion\":\"" MCP_LEGACY_OFFER "\",\"capabilities\":");
	buf_add_span(out, capabilities);
	buf_add_text(out, ",\"clientInfo\":");
	buf_add_span(out, client_info);
	buf_add_char(out, '}');
}
