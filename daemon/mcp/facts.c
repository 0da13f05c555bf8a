#include "mcp/facts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/json_iter.h"

static bool offers(struct span capabilities, const char *name)
{
	enum json_kind type = json_type_of(json_member(capabilities, name));
	return type != JSON_ABSENT && type != JSON_NULL;
}

static struct span member_of_type(struct span object, const char *name, enum json_kind type)
{
	struct span value = json_member(object, name);
	return json_type_of(value) == type ? value : SPAN_NONE;
}

void facts_note_capabilities(struct mcp_server_facts *pub, struct span capabilities)
{
	pub->capabilities = capabilities;
	pub->has_tools = offers(capabilities, "tools");
	pub->has_resources = offers(capabilities, "resources");
	pub->has_prompts = offers(capabilities, "prompts");
	pub->has_logging = offers(capabilities, "logging");
	pub->has_completions = offers(capabilities, "completions");
	pub->has_resource_subscribe = span_is(json_path(capabilities, "resources", "subscribe", NULL), "true");
	pub->has_tasks = pub->era == MCP_ERA_MODERN ?
				 offers(json_member(capabilities, "extensions"), "io.modelcontextprotocol/tasks") :
				 offers(capabilities, "tasks");
}

int facts_set(struct facts *facts, enum mcp_era era, const char *version, struct span result)
{
	facts_done(facts);
	facts->text = malloc(result.len + 1);
	if (!facts->text)
		return -ENOMEM;
	memcpy(facts->text, result.ptr, result.len);
	facts->text[result.len] = '\0';
	result.ptr = facts->text;

	struct mcp_server_facts *pub = &facts->pub;
	pub->era = pub->remembered_era = era;
	pub->protocol_version = version;
	if (era == MCP_ERA_MODERN)
		pub->server_info =
			member_of_type(json_member(result, "_meta"), "io.modelcontextprotocol/serverInfo", JSON_OBJECT);
	else
		pub->server_info = member_of_type(result, "serverInfo", JSON_OBJECT);
	pub->instructions = member_of_type(result, "instructions", JSON_STRING);
	struct span capabilities = member_of_type(result, "capabilities", JSON_OBJECT);
	facts_note_capabilities(pub, capabilities);
	return 0;
}

void facts_done(struct facts *facts)
{
	free(facts->text);
	*facts = (struct facts){ 0 };
}
