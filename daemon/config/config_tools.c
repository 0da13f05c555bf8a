/* "tools": {"allow": [..], "deny": [..]}: which tools of a server there are for clients. */
#include <stdio.h>

#include "config/config_memory.h"
#include "config/config_value.h"
#include "config/glob.h"

void value_tools(struct loader *l, const char *where, struct span value, struct server_config *sc)
{
	char place[2 * SHOWN_MAX];
	if (!value_is(l, where, value, JSON_OBJECT, "an object with \"allow\", \"deny\", or both"))
		return;
	snprintf(place, sizeof(place), "%s: ", where);
	struct object object;
	object_read(l, place, value, &object);
	for (size_t i = 0; i < object.n; i++) {
		const struct object_member *member = &object.members[i];
		char key[SHOWN_MAX];
		snprintf(place, sizeof(place), "%s: %s", where, shown(member->key, key));
		if (json_string_is(member->key, "allow")) {
			list_free(sc->tools_allow);
			sc->tools_allow = value_strings(l, place, member->value);
			sc->tools_allow_only = true;
		} else if (json_string_is(member->key, "deny")) {
			list_free(sc->tools_deny);
			sc->tools_deny = value_strings(l, place, member->value);
		} else {
			loader_warning(l, "%s: unknown member, ignored; there are \"allow\" and \"deny\"", place);
		}
	}
	object_done(&object);
}

static bool any_matches(char *const *patterns, struct span name)
{
	for (; *patterns; patterns++)
		if (glob_match(*patterns, name))
			return true;
	return false;
}

bool server_config_filters_tools(const struct server_config *sc)
{
	return sc->tools_allow_only || sc->tools_deny[0];
}

bool server_config_allows_tool(const struct server_config *sc, struct span name)
{
	return (!sc->tools_allow_only || any_matches(sc->tools_allow, name)) && !any_matches(sc->tools_deny, name);
}
