#include "config/config_secrets.h"

#include <stdlib.h>
#include <string.h>

#include "config/config_mask.h"
#include "config/config_memory.h"
#include "config/expand.h"
#include "proto/json_iter.h"

static bool is_plain(const char *text)
{
	return text && *text && !strstr(text, "${");
}

static bool in_object(struct loader *l, struct span object)
{
	struct json_iter it;
	struct span key, value;
	bool found = false;
	json_iter_init(&it, object);
	while (!found && json_iter_member(&it, &key, &value)) {
		char *name = loader_text(l, key), *text = loader_text(l, value);
		found = name && is_plain(text) &&
			(mask_is_secret_name(name, strlen(name)) || mask_is_secret_value(text));
		free(name);
		free(text);
	}
	return found;
}

static void note(void *arg, const char *secret, size_t len)
{
	bool *found = arg;
	*found |= len > 0 && !memmem(secret, len, "${", 2);
}

static bool in_url(const char *url)
{
	bool found = false;
	mask_walk_url(url, note, &found);
	return found;
}

static bool in_arguments(struct loader *l, struct span list)
{
	struct json_iter it;
	struct span element;
	char *before = NULL;
	bool found = false;
	json_iter_init(&it, list);
	while (!found && json_iter_element(&it, &element)) {
		char *argument = loader_text(l, element);
		const char *secret = argument ? mask_secret_of(before, argument) : NULL;
		found = (secret && is_plain(argument)) || (argument && strstr(argument, "://") && in_url(argument));
		free(before);
		before = argument;
	}
	free(before);
	return found;
}

bool secrets_written(struct loader *l, const struct config_member *member, struct span value)
{
	bool found = false;
	char *text;
	switch (member->kind) {
	case MEMBER_ENV:
	case MEMBER_HEADERS:
		return in_object(l, value);
	case MEMBER_STRINGS:
		return strcmp(member->key, "args") == 0 && in_arguments(l, value);
	case MEMBER_URL:
		text = loader_text(l, value);
		found = text && in_url(text);
		free(text);
		return found;
	default:
		return false;
	}
}

void secrets_walk_expanded(struct span value, const char *const *environment, void (*fn)(void *arg, const char *value),
			   void *arg)
{
	const char *end = value.ptr + value.len, *at = value.ptr;
	while (at && (at = memmem(at, (size_t)(end - at), "${", 2))) {
		at += strlen("${");
		if (end - at > 4 && memcmp(at, "env:", 4) == 0)
			at += 4;
		size_t len = 0;
		while (at + len < end && !strchr(":}\"", at[len]))
			len++;
		const char *is = mask_is_secret_name(at, len) ? expand_lookup(environment, at, len) : NULL;
		if (is)
			fn(arg, is);
	}
}
