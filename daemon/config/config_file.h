/* A configuration file as bytes: read whole, bounded, never waited for; and where in it the JSON goes wrong, in people's terms. */
#pragma once

#include "config/config_loader.h"
#include "proto/buf.h"

/* The path made absolute against the working directory; free() it. NULL without memory. */
char *config_absolute(const char *path);
/*
 * Reads l->file into *out (BUF_INIT, the caller's to free). 0; -ENOENT if it does not exist, which is not told; another negative errno, told as
 * an error of the loader, or noted as a lack of memory.
 */
int config_read(struct loader *l, struct buf *out);
/* Checks that l->text is JSON (a byte order mark is taken off it first). 0, or -EINVAL, told with line and column and what to do about the usual causes. */
int config_check_syntax(struct loader *l);
