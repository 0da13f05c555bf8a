#include "config/config_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "proto/json_scan.h"

char *config_absolute(const char *path)
{
	char directory[4096], *absolute;
	if (path[0] == '/' || !getcwd(directory, sizeof(directory)))
		return strdup(path);
	bool root = strcmp(directory, "/") == 0;
	return asprintf(&absolute, "%s/%s", root ? "" : directory, path) < 0 ? NULL : absolute;
}

static int tell_errno(struct loader *l, int error)
{
	if (error == EACCES)
		loader_error(l, "cannot be read: %s; look at its owner and mode, and those of its directories",
			     strerror(error));
	else
		loader_error(l, "cannot be read: %s", strerror(error));
	return -error;
}

static int tell_size(struct loader *l)
{
	loader_error(l, "is larger than %zu MiB, which no configuration needs", CONFIG_FILE_MAX_BYTES >> 20);
	return -EFBIG;
}

static int check_file(struct loader *l, int fd)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return tell_errno(l, errno);
	if (S_ISDIR(st.st_mode)) {
		loader_error(l, "is a directory; name the file itself");
		return -EISDIR;
	}
	l->mode = st.st_mode & 0777;
	/* A pipe could be read once, but not again at a reload, and might make the daemon wait. */
	if (!S_ISREG(st.st_mode)) {
		loader_error(l, "is no regular file");
		return -EINVAL;
	}
	return (uintmax_t)st.st_size > CONFIG_FILE_MAX_BYTES ? tell_size(l) : 0;
}

static int read_all(struct loader *l, int fd, struct buf *out)
{
	/* One byte more than may be there, so that a file that grew meanwhile is noticed. */
	buf_init(out, CONFIG_FILE_MAX_BYTES + 1);
	char chunk[16384];
	ssize_t n;
	while ((n = read(fd, chunk, sizeof(chunk))) != 0) {
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return tell_errno(l, errno);
		buf_add(out, chunk, (size_t)n);
		if (out->error == -ENOMEM) {
			l->no_memory = true;
			return -ENOMEM;
		}
		if (out->error || out->len > CONFIG_FILE_MAX_BYTES)
			return tell_size(l);
	}
	return 0;
}

int config_read(struct loader *l, struct buf *out)
{
	int fd = open(l->file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return errno == ENOENT ? -ENOENT : tell_errno(l, errno);
	int result = check_file(l, fd);
	if (result == 0)
		result = read_all(l, fd, out);
	close(fd);
	return result;
}

/* The usual causes, by what is found at the offending byte and in front of it. */
static const char *syntax_hint(struct span text, const struct json_error *error)
{
	size_t offset = error->offset;
	const char *at = text.ptr + offset;
	size_t left = text.len - offset;
	if (left >= 2 && at[0] == '/' && (at[1] == '/' || at[1] == '*'))
		return " (JSON has no comments: remove it)";
	if (left >= 1 && at[0] == '#')
		return " (JSON has no comments: remove it)";
	if (left >= 1 && at[0] == '\'')
		return " (strings are written in double quotes)";
	if (left >= 1 && (at[0] == '}' || at[0] == ']')) {
		size_t before = offset;
		while (before > 0 && strchr(" \t\r\n", text.ptr[before - 1]))
			before--;
		if (before > 0 && text.ptr[before - 1] == ',')
			return " (remove the comma in front of it)";
	}
	if (left >= 1 && at[0] == '"' && strncmp(error->reason, "a comma", 7) == 0)
		return " (is a comma missing in front of it?)";
	return "";
}

/* Characters, not bytes, from the line's start: what an editor shows. */
static size_t column_of(struct span text, size_t offset)
{
	size_t column = 1;
	while (offset > 0 && text.ptr[offset - 1] != '\n')
		column += ((unsigned char)text.ptr[--offset] & 0xc0) != 0x80;
	return column;
}

static bool is_utf16(struct span text)
{
	return text.len >= 2 && (memcmp(text.ptr, "\xff\xfe", 2) == 0 || memcmp(text.ptr, "\xfe\xff", 2) == 0);
}

int config_check_syntax(struct loader *l)
{
	static const char bom[] = "\xef\xbb\xbf";
	if (l->text.len >= 3 && memcmp(l->text.ptr, bom, 3) == 0)
		l->text = (struct span){ l->text.ptr + 3, l->text.len - 3 };
	struct json_error error;
	if (json_check(l->text, &error) == 0)
		return 0;
	if (json_trim(l->text).len == 0)
		loader_error(l, "is empty; without any server it would be {\"mcpServers\": {}}");
	else if (is_utf16(l->text))
		loader_error(l, "is UTF-16; save it as UTF-8");
	else
		loader_error(l, "line %zu, column %zu: %s%s", loader_line(l, l->text.ptr + error.offset),
			     column_of(l->text, error.offset), error.reason, syntax_hint(l->text, &error));
	return -EINVAL;
}
