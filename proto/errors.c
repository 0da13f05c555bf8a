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
