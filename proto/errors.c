#include "proto/errors.h"

const char *mcpd_error_title(int code)
{
	switch (code) {
#define ERROR_TITLE(name, number, title)                                                                               \
	case number:                                                                                                   \
		return title;
		MCPD_ERROR_TABLE(ERROR_TITLE)
#undef ERROR_TITLE
	default:
		return "Error";
	}
}

static const struct {
	const char *name;
	int code;
} outcomes[OUTCOME_COUNT] = {
#define OUTCOME_ROW(id, text, number) [OUTCOME_##id] = { text, number },
	MCPD_OUTCOME_TABLE(OUTCOME_ROW)
#undef OUTCOME_ROW
};

const char *mcpd_outcome_name(enum mcpd_outcome outcome)
{
	return outcomes[outcome].name;
}

enum mcpd_outcome mcpd_outcome_of(int code)
{
	if (code == 0)
		return OUTCOME_OK;
	for (int i = 0; i < OUTCOME_COUNT; i++)
		if (outcomes[i].code == code)
			return (enum mcpd_outcome)i;
	return OUTCOME_FAILED;
}
