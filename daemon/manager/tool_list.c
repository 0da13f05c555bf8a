#include "manager/tool_list.h"

#include <stdlib.h>
#include <string.h>

#include "proto/json_iter.h"
#include "xalloc.h"

unsigned tool_capabilities_of(const char *capabilities)
{
	static const struct {
		const char *member;
		unsigned bit;
	} table[] = {
		{ "sampling", TOOL_CAP_SAMPLING },
		{ "elicitation", TOOL_CAP_ELICITATION },
		{ "roots", TOOL_CAP_ROOTS },
	};
	unsigned mask = 0;
	for (size_t i = 0; capabilities && i < sizeof table / sizeof table[0]; i++)
		if (json_member(span_of(capabilities), table[i].member).ptr)
			mask |= table[i].bit;
	return mask;
}

void tool_list_init(struct tool_list *list, const char *server_name)
{
	memset(list, 0, sizeof *list);
	list->name = xstrdup(server_name);
	tool_list_clear(list, NULL);
}

void tool_list_done(struct tool_list *list)
{
	free(list->name);
	free(list->text);
	memset(list, 0, sizeof *list);
}

static void set_revision(struct tool_list *list)
{
	struct digest digest;
	digest_init(&digest);
	digest_text(&digest, list->name);
	digest_bytes(&digest, tool_list_text(list).ptr, tool_list_text(list).len);
	digest_hex(&digest, list->revision);
}

void tool_list_clear(struct tool_list *list, struct loop *loop)
{
	if (list->text)
		loop_bury(loop, list->text, free);
	list->text = NULL;
	list->len = 0;
	list->count = list->capabilities = 0;
	set_revision(list);
}

struct span tool_list_text(const struct tool_list *list)
{
	return list->text ? (struct span){ list->text, list->len } : SPAN_LIT("[]");
}

static unsigned count_elements(struct span array)
{
	struct json_iter it;
	struct span element;
	unsigned n = 0;
	json_iter_init(&it, array);
	while (json_iter_element(&it, &element))
		n++;
	return n;
}

struct span tool_list_find(const struct tool_list *list, struct span name)
{
	struct json_iter it;
	struct span element;
	json_iter_init(&it, tool_list_text(list));
	while (json_iter_element(&it, &element))
		if (json_strings_equal(json_member(element, "name"), name))
			return element;
	return SPAN_NONE;
}

/* Whether each of the elements is in the list with the same bytes, in the same order: a server leaves tools out, it
 * does not shuffle them. */
static bool contains(const struct tool_list *list, struct span elements)
{
	struct json_iter mine, theirs;
	struct span have, want;
	json_iter_init(&mine, tool_list_text(list));
	json_iter_init(&theirs, elements);
	while (json_iter_element(&theirs, &want)) {
		do {
			if (!json_iter_element(&mine, &have))
				return false;
		} while (!span_equal(have, want));
	}
	return true;
}

bool tool_list_adopt(struct tool_list *list, struct loop *loop, struct span elements, unsigned capabilities)
{
	if (list->text && span_equal(tool_list_text(list), elements)) {
		list->capabilities |= capabilities;
		return false;
	}
	bool fewer = (capabilities & list->capabilities) != list->capabilities;
	if (list->text && fewer && contains(list, elements))
		return false;
	char *text = malloc(elements.len + 1);
	if (!text)
		return false; /* what is known stays */
	memcpy(text, elements.ptr, elements.len);
	text[elements.len] = '\0';
	tool_list_clear(list, loop);
	list->text = text;
	list->len = elements.len;
	list->capabilities = capabilities;
	list->count = count_elements(elements);
	set_revision(list);
	return true;
}
