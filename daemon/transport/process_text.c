#include "transport/process_text.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "xalloc.h"

bool process_text_is_passing(int error, enum keeper_stage stage)
{
	static const int passing[] = { EAGAIN, ENOMEM, EMFILE, ENFILE, ETXTBSY, EIO };
	if (stage == KEEPER_STAGE_FORK)
		return true;
	for (size_t i = 0; i < sizeof passing / sizeof *passing; i++)
		if (error == passing[i])
			return true;
	return false;
}

char *process_text_failure(const char *command, const char *searched_path, const char *cwd, int error,
			   enum keeper_stage stage)
{
	if (stage == KEEPER_STAGE_CHDIR)
		return xasprintf("cannot enter the directory \"%s\" to run \"%s\": %s", cwd, command, strerror(error));
	if (stage == KEEPER_STAGE_FORK)
		return xasprintf("cannot start a process for \"%s\": %s", command, strerror(error));
	if (!*command)
		return xasprintf("cannot execute \"\": the command is empty");
	if (strchr(command, '/'))
		return xasprintf("cannot execute \"%s\": %s", command, strerror(error));
	return xasprintf(
		"cannot execute \"%s\": %s (PATH searched: %s; if it is elsewhere, give its full path, or PATH in the "
		"server's \"env\", or for all servers in \"mcpd\": {\"environment\": ..})",
		command, strerror(error), searched_path);
}

void process_text_exit(int code, int status, char *out, size_t size)
{
	const char *name = code == CLD_EXITED ? NULL : sigdescr_np(status);
	if (code == CLD_EXITED)
		snprintf(out, size, "exit status %d", status);
	else
		snprintf(out, size, "killed by signal %d (%s)%s", status, name ? name : "unknown",
			 code == CLD_DUMPED ? ", core dumped" : "");
}
