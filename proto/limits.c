#include "proto/limits.h"

#include <string.h>

const struct limit_info limit_table[LIMIT_COUNT] = {
#define LIMIT_ROW(id, key, def, min, max, unit, what) [LIMIT_##id] = { key, def, min, max, unit, what },
	MCPD_LIMIT_TABLE(LIMIT_ROW)
#undef LIMIT_ROW
};

void limits_init(struct limits *l)
{
	for (int i = 0; i < LIMIT_COUNT; i++)
		l->value[i] = limit_table[i].def;
}

int limits_find(const char *key)
{
	for (int i = 0; i < LIMIT_COUNT; i++)
		if (strcmp(limit_table[i].key, key) == 0)
			return i;
	return -1;
}
