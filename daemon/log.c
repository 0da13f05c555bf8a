#include "log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "journal.h"

#define LINE_MAX_BYTES 4096  /* PIPE_BUF: a pipe that is ready takes as much at once, and in one piece */
#define TEXT_MAX_BYTES 4096  /* of one entry */
#define VALUE_MAX_BYTES 128  /* of one field */
#define FACTS_MAX_BYTES 2048 /* of all fields as key=value, quoted */
#define CUT_MARK "…"

/* The one process-wide setting outside main's struct: a log line must be possible where no context reaches. */
static struct {
	enum log_level most_verbose;
	const char *journal; /* its socket's path, or NULL */
	int journal_fd;
	uint64_t dropped, told; /* entries that found nobody reading; those of them that were told of */
} settings = { .most_verbose = LOG_LEVEL_INFO, .journal_fd = -1 };

/* The fields, once: in the journal, and in lines. */
static const struct {
	size_t offset;
	const char *journal, *plain;
} field_table[] = {
	{ offsetof(struct log_fields, server), "MCPD_SERVER", "server" },
	{ offsetof(struct log_fields, client), "MCPD_CLIENT", "client" },
	{ offsetof(struct log_fields, method), "MCPD_METHOD", "method" },
	{ offsetof(struct log_fields, tool), "MCPD_TOOL", "tool" },
	{ offsetof(struct log_fields, state), "MCPD_STATE", "state" },
	{ offsetof(struct log_fields, outcome), "MCPD_OUTCOME", "outcome" },
};
#define N_FIELDS (sizeof field_table / sizeof field_table[0])

static const struct {
	const char *name;
	enum log_level level;
} level_table[] = {
	{ "error", LOG_LEVEL_ERROR },
	{ "warning", LOG_LEVEL_WARNING },
	{ "info", LOG_LEVEL_INFO },
	{ "debug", LOG_LEVEL_DEBUG },
};
#define N_LEVELS (sizeof level_table / sizeof level_table[0])

void log_init(enum log_level most_verbose, const char *journal_socket)
{
	settings.most_verbose = most_verbose;
	settings.journal = journal_socket;
	if (journal_socket && settings.journal_fd < 0)
		settings.journal_fd = journal_open();
}

bool log_wants(enum log_level level)
{
	return level <= settings.most_verbose;
}

uint64_t log_dropped(void)
{
	return settings.dropped;
}

bool log_level_find(const char *name, enum log_level *ret_level)
{
	for (size_t i = 0; i < N_LEVELS; i++) {
		if (strcmp(name, level_table[i].name) == 0) {
			*ret_level = level_table[i].level;
			return true;
		}
	}
	return false;
}

static const char *level_name(enum log_level level)
{
	for (size_t i = 0; i < N_LEVELS; i++)
		if (level_table[i].level == level)
			return level_table[i].name;
	return "";
}

/* --- texts --- */

/* The length of the UTF-8 sequence that begins here, 0 if there is none. */
static size_t sequence(const unsigned char *at, size_t left)
{
	static const unsigned char least_second[] = { [0xe0 - 0xe0] = 0xa0, [0xf0 - 0xe0] = 0x90 };
	size_t len = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : at[0] < 0xf5 ? 4 : 0;
	if (len == 0 || len > left)
		return 0;
	for (size_t i = 1; i < len; i++)
		if ((at[i] & 0xc0) != 0x80)
			return 0;
	if (len > 2 && at[0] - 0xe0u < sizeof least_second && at[1] < least_second[at[0] - 0xe0])
		return 0;
	bool surrogate = at[0] == 0xed && at[1] >= 0xa0, beyond = at[0] == 0xf4 && at[1] >= 0x90;
	return surrogate || beyond ? 0 : len;
}

/* C0 and C1 controls, DEL, LINE and PARAGRAPH SEPARATOR. A tab is none. */
static bool breaks_lines(const unsigned char *at, size_t len)
{
	if (len == 1)
		return (at[0] < 0x20 && at[0] != '\t') || at[0] == 0x7f;
	if (len == 2)
		return at[0] == 0xc2 && at[1] < 0xa0;
	return len == 3 && at[0] == 0xe2 && at[1] == 0x80 && (at[2] == 0xa8 || at[2] == 0xa9);
}

/* Makes one line of valid UTF-8 of the text, in its place; its length, which is not greater. */
static size_t make_clean(char *text, size_t len)
{
	unsigned char *bytes = (unsigned char *)text;
	size_t to = 0;
	for (size_t from = 0; from < len;) {
		size_t n = sequence(bytes + from, len - from);
		if (n == 0 || breaks_lines(bytes + from, n)) {
			bytes[to++] = n == 0 ? '?' : ' ';
			from += n ? n : 1;
			continue;
		}
		memmove(bytes + to, bytes + from, n);
		to += n;
		from += n;
	}
	return to;
}

/* The same of a text of this many bytes of which only `size` are wanted, the mark of the cut included. */
static size_t make_clean_cut(char *text, size_t len, size_t size)
{
	if (len <= size)
		return make_clean(text, len);
	size_t keep = size - strlen(CUT_MARK);
	while (keep > 0 && ((unsigned char)text[keep] & 0xc0) == 0x80)
		keep--;
	keep = make_clean(text, keep);
	memcpy(text + keep, CUT_MARK, strlen(CUT_MARK));
	return keep + strlen(CUT_MARK);
}

/* The fields that are said, cleaned. */
struct facts {
	char value[N_FIELDS][VALUE_MAX_BYTES + 1];
	size_t len[N_FIELDS];
	bool said[N_FIELDS];
	char duration[24]; /* or empty */
};

static void collect(struct facts *facts, const struct log_fields *fields)
{
	facts->duration[0] = '\0';
	for (size_t i = 0; i < N_FIELDS; i++) {
		const char *value =
			fields ? *(const char *const *)((const char *)fields + field_table[i].offset) : NULL;
		facts->said[i] = value != NULL;
		if (!value)
			continue;
		size_t len = strnlen(value, sizeof facts->value[i]);
		memcpy(facts->value[i], value, len);
		facts->len[i] = make_clean_cut(facts->value[i], len, VALUE_MAX_BYTES);
	}
	if (fields && fields->outcome)
		snprintf(facts->duration, sizeof facts->duration, "%" PRId64, fields->duration_ms);
}

/* --- the journal --- */

static bool to_journal(enum log_level level, const struct facts *facts, const char *text, size_t len)
{
	struct journal_field fields[N_FIELDS + 4];
	char priority[4];
	size_t n = 0;
	snprintf(priority, sizeof priority, "%d", (int)level);
	fields[n++] = (struct journal_field){ "MESSAGE", text, len };
	fields[n++] = (struct journal_field){ "PRIORITY", priority, strlen(priority) };
	fields[n++] = (struct journal_field){ "SYSLOG_IDENTIFIER", "mcpd", 4 };
	for (size_t i = 0; i < N_FIELDS; i++)
		if (facts->said[i])
			fields[n++] = (struct journal_field){ field_table[i].journal, facts->value[i], facts->len[i] };
	if (*facts->duration)
		fields[n++] = (struct journal_field){ "MCPD_DURATION_MS", facts->duration, strlen(facts->duration) };
	return journal_send(settings.journal_fd, settings.journal, fields, n);
}

/* --- lines --- */

/* A line, or false if it would have to wait: whoever reads our stderr must not be able to stop the loop. */
static bool emit(const char *line, size_t len)
{
	ssize_t n = send(STDERR_FILENO, line, len, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n >= 0 || errno != ENOTSOCK)
		return n >= 0 || errno != EAGAIN;
	struct pollfd out = { .fd = STDERR_FILENO, .events = POLLOUT };
	if (poll(&out, 1, 0) == 0)
		return false;
	n = write(STDERR_FILENO, line, len);
	return n >= 0 || errno != EAGAIN;
}

static bool is_bare(const char *value, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (value[i] == ' ' || value[i] == '\t' || value[i] == '"' || value[i] == '=' || value[i] == '\\')
			return false;
	return len > 0;
}

/* " key=value", quoted where the value could be taken for something else. */
static size_t add_fact(char *to, const char *key, const char *value, size_t len)
{
	bool bare = is_bare(value, len);
	size_t n = (size_t)sprintf(to, bare ? " %s=" : " %s=\"", key);
	for (size_t i = 0; i < len; i++) {
		if (value[i] == '"' || value[i] == '\\')
			to[n++] = '\\';
		to[n++] = value[i];
	}
	if (!bare)
		to[n++] = '"';
	return n;
}

static bool to_stderr(enum log_level level, const struct facts *facts, char *text, size_t len)
{
	char line[LINE_MAX_BYTES], told[FACTS_MAX_BYTES];
	_Static_assert(FACTS_MAX_BYTES >= N_FIELDS * (16 + 2 * VALUE_MAX_BYTES) + 48, "all fields fit");
	size_t n_told = 0;
	for (size_t i = 0; i < N_FIELDS; i++)
		if (facts->said[i])
			n_told += add_fact(told + n_told, field_table[i].plain, facts->value[i], facts->len[i]);
	if (*facts->duration)
		n_told += add_fact(told + n_told, "durationMs", facts->duration, strlen(facts->duration));
	size_t at = settings.journal ? (size_t)sprintf(line, "<%d>", (int)level) :
				       (size_t)sprintf(line, "mcpd: %s: ", level_name(level));
	len = make_clean_cut(text, len, sizeof line - at - n_told - 1);
	memcpy(line + at, text, len);
	at += len;
	memcpy(line + at, told, n_told);
	at += n_told;
	line[at++] = '\n';
	return emit(line, at);
}

/* --- entries --- */

/* Whether somebody took it. The text is clean. */
static bool put(enum log_level level, const struct log_fields *fields, char *text, size_t len)
{
	struct facts facts;
	collect(&facts, fields);
	return (settings.journal && to_journal(level, &facts, text, len)) || to_stderr(level, &facts, text, len);
}

static void tell_dropped(void)
{
	char text[96];
	uint64_t dropped = settings.dropped - settings.told;
	if (dropped == 0)
		return;
	int len = snprintf(text, sizeof text, "%" PRIu64 " log lines were dropped: nobody read them", dropped);
	if (put(LOG_LEVEL_WARNING, NULL, text, (size_t)len))
		settings.told = settings.dropped;
}

/* before: in front of the text; may be empty. */
__attribute__((format(printf, 4, 0))) static void log_text(enum log_level level, const struct log_fields *fields,
							   const char *before, const char *format, va_list args)
{
	int saved_errno = errno;
	char text[TEXT_MAX_BYTES + 1];
	size_t at = (size_t)snprintf(text, sizeof text / 2, "%s", before);
	at = at < sizeof text / 2 ? at : sizeof text / 2 - 1;
	int len = vsnprintf(text + at, sizeof text - at, format, args);
	/* What was cut here is cut again, with the mark; one byte more than is wanted says that it was. */
	size_t have = at + (len < 0 ? 0 : (size_t)len);
	have = make_clean_cut(text, have < sizeof text ? have : sizeof text, TEXT_MAX_BYTES);
	tell_dropped();
	if (settings.dropped > settings.told || !put(level, fields, text, have))
		settings.dropped++;
	errno = saved_errno;
}

void log_event(enum log_level level, const struct log_fields *fields, const char *format, ...)
{
	va_list args;
	if (!log_wants(level))
		return;
	va_start(args, format);
	log_text(level, fields, "", format, args);
	va_end(args);
}

/* Whom an entry is about stands in front of its text. */
__attribute__((format(printf, 5, 0))) static void log_about(enum log_level level, const struct log_fields *fields,
							    const char *what, const char *name, const char *format,
							    va_list args)
{
	char before[256];
	snprintf(before, sizeof before, "%s %s: ", what, name);
	log_text(level, fields, before, format, args);
}

void log_server(enum log_level level, const char *server, const char *format, ...)
{
	va_list args;
	if (!log_wants(level))
		return;
	va_start(args, format);
	log_about(level, &(struct log_fields){ .server = server }, "server", server, format, args);
	va_end(args);
}

void log_client(enum log_level level, const char *client, const char *format, ...)
{
	va_list args;
	if (!log_wants(level))
		return;
	va_start(args, format);
	log_about(level, &(struct log_fields){ .client = client }, "client", client, format, args);
	va_end(args);
}
