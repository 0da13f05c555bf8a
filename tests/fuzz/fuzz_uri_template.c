/*
 * Any template, up to the first NUL, on any URI. It ends in time; a URI that a template without expressions matches says the same; and a
 * longer template that matches anything still does with `{+more}` behind it.
 */
#include <stdint.h>
#include <stdlib.h>

#include "ipc/uri_template.h"

#define REQUIRE(condition)                                                                                             \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			abort();                                                                                       \
	} while (0)

static const char more[] = "{+more}";
#define MORE_BYTES (sizeof(more) - 1)

/* Whether one variable more might be too many. */
static bool may_be_full(struct span template)
{
	size_t variables = 0;
	for (size_t i = 0; i < template.len; i++)
		variables += template.ptr[i] == '{' || template.ptr[i] == ',';
	return variables >= URI_TEMPLATE_MAX_VARIABLES;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size > 0 ? memchr(data, 0, size) : NULL;
	struct span template = { (const char *)data, end ? (size_t)(end - data) : size };
	struct span uri = { (const char *)(end ? end + 1 : data + size), end ? size - template.len - 1 : 0 };
	bool matches = uri_template_match(template, uri);
	size_t weight = uri_template_weight(template);
	REQUIRE(weight <= template.len);
	if (matches && weight == template.len)
		REQUIRE(uri.len >= template.len);
	if (!matches || template.len + MORE_BYTES > URI_TEMPLATE_MAX_BYTES || may_be_full(template))
		return 0;
	char *longer = malloc(template.len + MORE_BYTES);
	REQUIRE(longer);
	memcpy(longer, template.ptr, template.len);
	memcpy(longer + template.len, more, MORE_BYTES);
	REQUIRE(uri_template_match((struct span){ longer, template.len + MORE_BYTES }, uri));
	free(longer);
	return 0;
}
