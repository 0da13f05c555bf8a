/* What people are told of a server process: why it could not be started (S8, R35), and how it ended. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "transport/keeper.h"

/* error: of the stage. searched_path: the PATH along which a command without a slash was searched. free() it. */
char *process_text_failure(const char *command, const char *searched_path, const char *cwd, int error,
			   enum keeper_stage stage);
/* True if another try may end otherwise. */
bool process_text_is_passing(int error, enum keeper_stage stage);
/* From waitid's code and status: "exit status 1", "killed by signal 9 (Killed)". */
void process_text_exit(int code, int status, char *out, size_t size);
