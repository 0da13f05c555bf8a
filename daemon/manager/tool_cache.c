#include "manager/tool_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config/digest.h"
#include "log.h"
#include "proto/buf.h"
#include "proto/json_scan.h"
#include "xalloc.h"

#define FORMAT_VERSION 2
#define SUFFIX ".tools"
#define TEMPORARY ".writing-"
#define IDENTITY_LEN 32
#define NAME_MAX_LEN 64  /* of a server's name in a file's name */
#define HEADER_MAX 65536 /* bytes */
#define FILE_MAX (1LL << 30)
#define STALE_DAYS 30
#define LEFTOVER_SECONDS 3600

struct tool_cache {
	char *dir;   /* NULL: nothing is kept */
	char **told; /* servers whose failure to be written is in the log already */
	size_t n_told;
};

/* ---- names ---- */

/*
 * A server's name as part of a file's name. What is not plain becomes `_`; then, so that two names never meet, `~`
 * (never plain) and a hash of the name follow.
 */
static char *file_stem(const char *name)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
	size_t len = strlen(name);
	bool same = len > 0 && len <= NAME_MAX_LEN && name[0] != '.' && strspn(name, plain) == len;
	if (same)
		return xstrdup(name);
	char *stem = xstrndup(name, NAME_MAX_LEN);
	for (char *c = stem; *c; c++)
		if (!strchr(plain, *c) || c == stem)
			*c = '_';
	struct digest digest;
	char hash[DIGEST_HEX];
	digest_init(&digest);
	digest_text(&digest, name);
	digest_hex(&digest, hash);
	char *full = xasprintf("%s~%.16s", stem, hash);
	free(stem);
	return full;
}

static char *file_name(const char *name, const char *identity)
{
	char *stem = file_stem(name);
	char *full = xasprintf("%s-%s" SUFFIX, stem, identity);
	free(stem);
	return full;
}

/* Length of the stem of one of our files, or 0: not one of ours. */
static size_t stem_length(const char *file)
{
	size_t len = strlen(file), tail = 1 + IDENTITY_LEN + strlen(SUFFIX);
	if (len <= tail || strcmp(file + len - strlen(SUFFIX), SUFFIX) != 0)
		return 0;
	const char *identity = file + len - tail;
	if (*identity++ != '-' || strspn(identity, "0123456789abcdef") != IDENTITY_LEN)
		return 0;
	return len - tail;
}

/* ---- making and ending ---- */

struct tool_cache *tool_cache_new(const char *dir)
{
	struct tool_cache *cache = xnew(struct tool_cache);
	cache->dir = dir ? xstrdup(dir) : NULL;
	return cache;
}

void tool_cache_free(struct tool_cache *cache)
{
	if (!cache)
		return;
	for (size_t i = 0; i < cache->n_told; i++)
		free(cache->told[i]);
	free(cache->told);
	free(cache->dir);
	free(cache);
}

void tool_cache_entry_done(struct tool_cache_entry *entry)
{
	free(entry->tools);
	free(entry->rest);
	free(entry->protocol_version);
	memset(entry, 0, sizeof *entry);
}

/* 0, or the errno of what could not be made first: with a read-only home, not that its child is then missing. */
static int make_dir(char *dir)
{
	if (mkdir(dir, 0700) == 0 || errno == EEXIST)
		return 0;
	int error = errno == ENOENT ? 0 : errno;
	/* The parents ($XDG_CACHE_HOME itself) may be missing on a fresh account. */
	for (char *slash = strchr(dir + 1, '/'); slash && !error; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(dir, 0700) < 0 && errno != EEXIST)
			error = errno;
		*slash = '/';
	}
	if (!error && mkdir(dir, 0700) < 0 && errno != EEXIST)
		error = errno;
	return error;
}

static int open_dir(struct tool_cache *cache, bool make)
{
	int error = make ? make_dir(cache->dir) : 0;
	if (error)
		return -error;
	int fd = open(cache->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* ---- reading ---- */

static int read_all(int dir, const char *file, char **ret_data, size_t *ret_len)
{
	struct stat st;
	char *data = NULL;
	size_t len = 0;
	int fd = openat(dir, file, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK), error = 0;
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0) {
		error = -errno;
	} else if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX) {
		error = -EINVAL;
	} else if (!(data = malloc((size_t)st.st_size + 1))) {
		error = -ENOMEM;
	} else {
		while (len < (size_t)st.st_size) {
			ssize_t n = read(fd, data + len, (size_t)st.st_size - len);
			if (n <= 0) {
				error = n < 0 ? -errno : -EINVAL;
				break;
			}
			len += (size_t)n;
		}
	}
	close(fd);
	if (error) {
		free(data);
		return error;
	}
	data[len] = '\0';
	*ret_data = data;
	*ret_len = len;
	return 0;
}

enum header {
	H_VERSION,
	H_SERVER,
	H_IDENTITY,
	H_ERA,
	H_PROTOCOL,
	H_CAPABILITIES,
	H_COUNT,
	H_BYTES,
	H_CHECKSUM,
	H_MEMBERS
};

static const struct json_want header_members[H_MEMBERS] = {
	[H_VERSION] = { "mcpdToolCache", -1 },
	[H_SERVER] = { "server", -1 },
	[H_IDENTITY] = { "identity", -1 },
	[H_ERA] = { "era", -1 },
	[H_PROTOCOL] = { "protocolVersion", -1 },
	[H_CAPABILITIES] = { "capabilities", -1 },
	[H_COUNT] = { "tools", -1 },
	[H_BYTES] = { "bytes", -1 },
	[H_CHECKSUM] = { "checksum", -1 },
};

static const char *const era_names[] = {
	[MCP_ERA_UNKNOWN] = "unknown", [MCP_ERA_LEGACY] = "legacy", [MCP_ERA_MODERN] = "modern"
};

static void checksum_of(struct span tools, struct span rest, char out[static DIGEST_HEX])
{
	struct digest digest;
	digest_init(&digest);
	digest_bytes(&digest, tools.ptr, tools.len);
	digest_bytes(&digest, rest.ptr, rest.len);
	digest_hex(&digest, out);
}

static char *copy_of(struct span text)
{
	char *copy = malloc(text.len + 1);
	if (!copy)
		return NULL;
	memcpy(copy, text.ptr, text.len);
	copy[text.len] = '\0';
	return copy;
}

/* NULL with *ret filled, or what is wrong with the file. */
static const char *parse(const char *data, size_t len, const char *name, const char *identity,
			 struct tool_cache_entry *ret)
{
	const char *newline = memchr(data, '\n', len < HEADER_MAX ? len : HEADER_MAX);
	struct span found[H_MEMBERS];
	int64_t version, count, bytes, capabilities;
	char checksum[DIGEST_HEX];
	if (!newline)
		return "it has no header";
	if (json_scan((struct span){ data, (size_t)(newline - data) }, header_members, H_MEMBERS, found, NULL, NULL) <
	    0)
		return "its header is damaged";
	if (json_int64(found[H_VERSION], &version) < 0 || version != FORMAT_VERSION)
		return "it is of another version";
	if (!json_string_is(found[H_SERVER], name) || !json_string_is(found[H_IDENTITY], identity))
		return "it is of another server";
	if (json_int64(found[H_COUNT], &count) < 0 || json_int64(found[H_BYTES], &bytes) < 0 ||
	    json_int64(found[H_CAPABILITIES], &capabilities) < 0 || count < 0 || count > bytes)
		return "its header is damaged";
	struct span tools = { newline + 1, (size_t)(data + len - (newline + 1)) };
	if (bytes < 0 || (uint64_t)bytes > tools.len)
		return "it is cut off";
	struct span rest = { tools.ptr + bytes, tools.len - (size_t)bytes };
	tools.len = (size_t)bytes;
	checksum_of(tools, rest, checksum);
	if (!json_string_is(found[H_CHECKSUM], checksum))
		return "its checksum is wrong";
	if (json_check(tools, NULL) < 0 || json_type_of(tools) != JSON_ARRAY)
		return "it holds no list";
	if (json_check(rest, NULL) < 0 || json_type_of(rest) != JSON_OBJECT)
		return "it is cut off";
	memset(ret, 0, sizeof *ret);
	ret->tools = copy_of(tools);
	ret->rest = copy_of(rest);
	if (!ret->tools || !ret->rest) {
		tool_cache_entry_done(ret);
		return "memory is short";
	}
	ret->tools_len = tools.len;
	ret->rest_len = rest.len;
	ret->count = (unsigned)count;
	ret->capabilities = (unsigned)capabilities;
	for (unsigned era = MCP_ERA_UNKNOWN; era <= MCP_ERA_MODERN; era++)
		if (json_string_is(found[H_ERA], era_names[era]))
			ret->era = era;
	ret->protocol_version = json_string_dup(found[H_PROTOCOL]);
	return NULL;
}

int tool_cache_load(struct tool_cache *cache, const char *name, const char *identity, struct tool_cache_entry *ret)
{
	memset(ret, 0, sizeof *ret);
	if (!cache->dir)
		return -ENOENT;
	int dir = open_dir(cache, false);
	if (dir < 0)
		return -ENOENT;
	char *file = file_name(name, identity), *data = NULL;
	size_t len = 0;
	const char *problem = NULL;
	int error = read_all(dir, file, &data, &len);
	if (error == 0)
		problem = parse(data, len, name, identity, ret);
	else if (error == -EINVAL || error == -ELOOP)
		problem = "it is no regular file or too long";
	else if (error != -ENOENT) /* perhaps only now: no descriptor, no memory */
		log_server(LOG_LEVEL_WARNING, name, "the cached tools in %s/%s cannot be read: %s", cache->dir, file,
			   strerror(-error));
	if (problem) {
		log_server(LOG_LEVEL_WARNING, name, "the cached tools in %s/%s are dropped: %s", cache->dir, file,
			   problem);
		(void)unlinkat(dir, file, 0);
	}
	free(data);
	free(file);
	close(dir);
	return error == 0 && !problem ? 0 : -ENOENT;
}

/* ---- writing ---- */

static int write_all(int fd, struct span bytes)
{
	while (bytes.len > 0) {
		ssize_t n = write(fd, bytes.ptr, bytes.len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		bytes.ptr += n;
		bytes.len -= (size_t)n;
	}
	return 0;
}

static void add_header(struct buf *out, const char *name, const char *identity, const struct tool_cache_entry *entry)
{
	char checksum[DIGEST_HEX];
	checksum_of((struct span){ entry->tools, entry->tools_len }, (struct span){ entry->rest, entry->rest_len },
		    checksum);
	buf_addf(out, "{\"mcpdToolCache\":%d,\"server\":", FORMAT_VERSION);
	buf_add_json_text(out, name);
	buf_addf(out, ",\"identity\":\"%s\",\"era\":\"%s\",\"protocolVersion\":", identity, era_names[entry->era]);
	buf_add_json_text(out, entry->protocol_version ? entry->protocol_version : "");
	buf_addf(out, ",\"capabilities\":%u,\"tools\":%u,\"bytes\":%zu,\"checksum\":\"%s\"}\n", entry->capabilities,
		 entry->count, entry->tools_len, checksum);
}

static int write_file(int dir, const char *file, const char *name, const char *identity,
		      const struct tool_cache_entry *entry)
{
	struct buf header = BUF_INIT;
	char *temporary = xasprintf(TEMPORARY "%ld-%s", (long)getpid(), file);
	add_header(&header, name, identity, entry);
	int error = header.error, fd = -1;
	if (error == 0 &&
	    (fd = openat(dir, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600)) < 0)
		error = -errno;
	if (error == 0)
		error = write_all(fd, buf_span(&header));
	if (error == 0)
		error = write_all(fd, (struct span){ entry->tools, entry->tools_len });
	if (error == 0)
		error = write_all(fd, (struct span){ entry->rest, entry->rest_len });
	if (error == 0 && fsync(fd) < 0)
		error = -errno;
	if (fd >= 0 && close(fd) < 0 && error == 0)
		error = -errno;
	if (error == 0 && renameat(dir, temporary, dir, file) < 0)
		error = -errno;
	if (error && fd >= 0)
		(void)unlinkat(dir, temporary, 0);
	free(temporary);
	buf_done(&header);
	return error;
}

/* Calls fn for each file of the directory; fn may remove it. */
static void walk(int dir, void (*fn)(int dir, const char *file, void *arg), void *arg)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);
	if (!stream) {
		if (fd >= 0)
			close(fd);
		return;
	}
	for (struct dirent *entry; (entry = readdir(stream));)
		fn(dir, entry->d_name, arg);
	closedir(stream);
}

/* file: the one of the definition in force; goes for the others of the same name. */
static void remove_earlier(int dir, const char *file, void *arg)
{
	const char *current = arg;
	size_t len = stem_length(file);
	if (len > 0 && len == stem_length(current) && strncmp(file, current, len) == 0 && strcmp(file, current) != 0)
		(void)unlinkat(dir, file, 0);
}

static void tell_failure(struct tool_cache *cache, const char *name, int error)
{
	for (size_t i = 0; i < cache->n_told; i++)
		if (strcmp(cache->told[i], name) == 0)
			return;
	cache->told = xrealloc(cache->told, cache->n_told + 1, sizeof cache->told[0]);
	cache->told[cache->n_told++] = xstrdup(name);
	log_server(LOG_LEVEL_WARNING, name, "its tools cannot be kept in %s: %s", cache->dir, strerror(-error));
}

int tool_cache_store(struct tool_cache *cache, const char *name, const char *identity,
		     const struct tool_cache_entry *entry)
{
	if (!cache->dir)
		return 0;
	char *file = file_name(name, identity);
	int dir = open_dir(cache, true);
	int error = dir < 0 ? dir : write_file(dir, file, name, identity, entry);
	if (error)
		tell_failure(cache, name, error);
	else
		walk(dir, remove_earlier, file);
	if (dir >= 0)
		close(dir);
	free(file);
	return error;
}

/* ---- cleaning ---- */

static bool is_older(int dir, const char *file, time_t seconds)
{
	struct stat st;
	return fstatat(dir, file, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
	       time(NULL) - st.st_mtime > seconds;
}

static void remove_stale(int dir, const char *file, void *arg)
{
	char **stems = arg;
	size_t len = stem_length(file);
	if (strncmp(file, TEMPORARY, strlen(TEMPORARY)) == 0) {
		if (is_older(dir, file, LEFTOVER_SECONDS))
			(void)unlinkat(dir, file, 0);
		return;
	}
	for (size_t i = 0; stems[i]; i++)
		if (len == strlen(stems[i]) && strncmp(file, stems[i], len) == 0)
			return;
	if (len > 0 && is_older(dir, file, STALE_DAYS * 24L * 3600))
		(void)unlinkat(dir, file, 0);
}

void tool_cache_clean(struct tool_cache *cache, const char *const *names)
{
	int dir = cache->dir ? open_dir(cache, false) : -1;
	if (dir < 0)
		return;
	size_t n = 0;
	while (names[n])
		n++;
	char **stems = xnew_array(char *, n + 1);
	for (size_t i = 0; i < n; i++)
		stems[i] = file_stem(names[i]);
	walk(dir, remove_stale, stems);
	for (size_t i = 0; i < n; i++)
		free(stems[i]);
	free(stems);
	close(dir);
}
