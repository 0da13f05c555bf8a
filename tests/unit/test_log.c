/* log, journal: what an entry looks like in a line and in the journal, and that writing one never waits. */
#include "log.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "journal.h"
#include "tests/unit/run.h"

static int stderr_fd = -1, read_fd = -1, journal_fd = -1;
static char socket_path[64], got[1 << 16];

/* stderr is a pipe that the test reads. */
static void setup(void)
{
	int fds[2];
	stderr_fd = dup(STDERR_FILENO);
	ck_assert_int_eq(pipe2(fds, O_NONBLOCK), 0);
	dup2(fds[1], STDERR_FILENO);
	close(fds[1]);
	read_fd = fds[0];
	fcntl(STDERR_FILENO, F_SETFL, fcntl(STDERR_FILENO, F_GETFL) & ~O_NONBLOCK);
	snprintf(socket_path, sizeof socket_path, "/tmp/mcpd-t-log-%ld", (long)getpid());
	log_init(LOG_LEVEL_DEBUG, NULL);
}

static void teardown(void)
{
	dup2(stderr_fd, STDERR_FILENO);
	close(stderr_fd);
	close(read_fd);
	if (journal_fd >= 0)
		close(journal_fd);
	unlink(socket_path);
}

static void listen_as_journal(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	journal_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0);
	snprintf(address.sun_path, sizeof address.sun_path, "%s", socket_path);
	ck_assert_int_eq(bind(journal_fd, (struct sockaddr *)&address, sizeof address), 0);
}

/* Everything that was written to stderr since the last time. */
static const char *lines(void)
{
	ssize_t n = read(read_fd, got, sizeof got - 1);
	got[n > 0 ? n : 0] = '\0';
	return got;
}

/* The next entry of the journal, "" for none. */
static const char *entry(void)
{
	ssize_t n = recv(journal_fd, got, sizeof got - 1, 0);
	got[n > 0 ? n : 0] = '\0';
	return got;
}

START_TEST(a_line_has_its_level_and_the_fields_behind_the_text)
{
	log_info("listening on %s", "/run/x");
	ck_assert_str_eq(lines(), "mcpd: info: listening on /run/x\n");
	log_error("bad");
	log_warning("odd");
	log_debug("so what");
	ck_assert_str_eq(lines(), "mcpd: error: bad\nmcpd: warning: odd\nmcpd: debug: so what\n");
	log_server(LOG_LEVEL_WARNING, "time", "%s", "gone");
	ck_assert_str_eq(lines(), "mcpd: warning: server time: gone server=time\n");
	struct log_fields fields = {
		.server = "time",
		.client = "agent#3",
		.method = "tools/call",
		.tool = "echo",
		.outcome = "ok",
		.duration_ms = 12,
	};
	log_event(LOG_LEVEL_DEBUG, &fields, "a call ended");
	ck_assert_str_eq(lines(), "mcpd: debug: a call ended server=time client=agent#3 method=tools/call tool=echo "
				  "outcome=ok durationMs=12\n");
	log_event(LOG_LEVEL_INFO, &(struct log_fields){ .state = "idle", .duration_ms = 5 }, "a state");
	ck_assert_str_eq(lines(), "mcpd: info: a state state=idle\n");
}
END_TEST

START_TEST(what_is_too_verbose_is_not_written)
{
	log_init(LOG_LEVEL_WARNING, NULL);
	log_info("no");
	log_server(LOG_LEVEL_DEBUG, "s", "no");
	log_event(LOG_LEVEL_INFO, NULL, "no");
	ck_assert_str_eq(lines(), "");
	ck_assert(log_wants(LOG_LEVEL_WARNING) && !log_wants(LOG_LEVEL_INFO));
	log_warning("yes");
	ck_assert_str_eq(lines(), "mcpd: warning: yes\n");
}
END_TEST

START_TEST(levels_have_names)
{
	static const struct {
		const char *name;
		enum log_level level;
	} table[] = { { "error", 3 }, { "warning", 4 }, { "info", 6 }, { "debug", 7 } };
	enum log_level level;
	for (size_t i = 0; i < 4; i++) {
		ck_assert(log_level_find(table[i].name, &level));
		ck_assert_int_eq(level, table[i].level);
	}
	ck_assert(!log_level_find("INFO", &level) && !log_level_find("", &level) && !log_level_find("notice", &level));
}
END_TEST

START_TEST(no_text_makes_a_second_line)
{
	static const struct {
		const char *text, *clean;
	} table[] = {
		{ "a\nmcpd: error: forged", "a mcpd: error: forged" },
		{ "a\r\x1b[31m\x7f\tb", "a  [31m \tb" },
		{ "nel\xc2\x85 ls\xe2\x80\xa8 ps\xe2\x80\xa9 csi\xc2\x9b.", "nel  ls  ps  csi ." },
		{ "good \xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "good \xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80" },
		{ "bad \xff\xc0\x80\xed\xa0\x80\xf5\xe2\x82", "bad ?????????" },
		{ "overlong \xe0\x80\xaf\xf0\x80\x80\xaf beyond \xf4\x90\x80\x80", "overlong ??????? beyond ????" },
	};
	for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
		char expected[128];
		log_info("%s", table[i].text);
		snprintf(expected, sizeof expected, "mcpd: info: %s\n", table[i].clean);
		ck_assert_str_eq(lines(), expected);
	}
}
END_TEST

START_TEST(a_value_cannot_pass_for_another_field)
{
	struct log_fields fields = { .server = "x outcome=ok", .client = "say \"hi\\\"", .method = "", .tool = "a\nb" };
	log_event(LOG_LEVEL_INFO, &fields, "t");
	ck_assert_str_eq(lines(), "mcpd: info: t server=\"x outcome=ok\" client=\"say \\\"hi\\\\\\\"\" method=\"\" "
				  "tool=\"a b\"\n");
}
END_TEST

START_TEST(texts_are_cut_but_never_the_fields)
{
	char text[10001], name[1001];
	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	memset(name, '"', sizeof name - 1);
	name[sizeof name - 1] = '\0';
	struct log_fields fields = { name, name, name, name, name, name, -1 };
	log_event(LOG_LEVEL_INFO, &fields, "%s", text);
	const char *line = lines();
	ck_assert_uint_eq(strlen(line), 4096);
	ck_assert_ptr_eq(strchr(line, '\n'), line + 4095);
	ck_assert_ptr_nonnull(strstr(line, "x… server=\"\\\""));
	ck_assert_str_eq(strstr(line, " durationMs"), " durationMs=-1\n");
	/* A cut in a character takes all of it. */
	for (size_t i = 0; i + 1 < sizeof text; i += 2)
		memcpy(text + i, "\xc3\xa9", 2);
	for (int shift = 0; shift < 2; shift++) {
		log_info("%s%s", shift ? "x" : "", text);
		line = lines();
		ck_assert_ptr_nonnull(strstr(line, "\xc3\xa9…\n"));
		ck_assert_ptr_null(strchr(line, '?'));
	}
	listen_as_journal();
	log_init(LOG_LEVEL_INFO, socket_path);
	log_event(LOG_LEVEL_INFO, &fields, "%s", text);
	line = entry();
	ck_assert_uint_eq(strcspn(line, "\n"), strlen("MESSAGE=") + 4096 - 1); /* between two characters */
	ck_assert_ptr_nonnull(strstr(line, "\nMCPD_OUTCOME=\"\"\""));
	ck_assert_str_eq(lines(), "");
}
END_TEST

START_TEST(the_journal_gets_fields)
{
	listen_as_journal();
	log_init(LOG_LEVEL_DEBUG, socket_path);
	log_server(LOG_LEVEL_WARNING, "a b", "one\ntwo");
	ck_assert_str_eq(entry(), "MESSAGE=server a b: one two\nPRIORITY=4\nSYSLOG_IDENTIFIER=mcpd\nMCPD_SERVER=a b\n");
	struct log_fields fields = { "s", "c", "m", "t", "st", "o", 7 };
	log_event(LOG_LEVEL_DEBUG, &fields, "m");
	ck_assert_str_eq(entry(), "MESSAGE=m\nPRIORITY=7\nSYSLOG_IDENTIFIER=mcpd\nMCPD_SERVER=s\nMCPD_CLIENT=c\n"
				  "MCPD_METHOD=m\nMCPD_TOOL=t\nMCPD_STATE=st\nMCPD_OUTCOME=o\nMCPD_DURATION_MS=7\n");
	ck_assert_str_eq(entry(), "");
	ck_assert_str_eq(lines(), "");
}
END_TEST

START_TEST(a_value_with_line_ends_has_its_length_in_front)
{
	static const char rest[] = "A\n\x03\0\0\0\0\0\0\0x\ny\nB=1\n";
	listen_as_journal();
	int fd = journal_open();
	ck_assert_int_ge(fd, 0);
	struct journal_field fields[] = { { "A", "x\ny", 3 }, { "B", "1", 1 } };
	ck_assert(journal_send(fd, socket_path, fields, 2));
	ck_assert_int_eq(recv(journal_fd, got, sizeof got, 0), sizeof rest - 1);
	ck_assert_mem_eq(got, rest, sizeof rest - 1);
	/* What does not fit is not sent in part. */
	static char large[JOURNAL_ENTRY_MAX];
	memset(large, 'x', sizeof large);
	struct journal_field too_large[] = { { "B", "1", 1 }, { "A", large, sizeof large } };
	ck_assert(!journal_send(fd, socket_path, too_large, 2));
	ck_assert_str_eq(entry(), "");
	ck_assert(!journal_send(fd, "/no/such/socket", fields, 2));
	ck_assert(!journal_send(-1, socket_path, fields, 2));
	close(fd);
}
END_TEST

START_TEST(without_a_journal_entries_go_to_stderr)
{
	log_init(LOG_LEVEL_INFO, socket_path);
	log_server(LOG_LEVEL_WARNING, "s", "early");
	ck_assert_str_eq(lines(), "<4>server s: early server=s\n");
	/* It is found once it is there, also a second one in the place of the first. */
	listen_as_journal();
	log_info("now");
	ck_assert_ptr_nonnull(strstr(entry(), "MESSAGE=now\n"));
	close(journal_fd);
	log_info("between");
	ck_assert_str_eq(lines(), "<6>between\n");
	unlink(socket_path);
	listen_as_journal();
	log_info("again");
	ck_assert_ptr_nonnull(strstr(entry(), "MESSAGE=again\n"));
	ck_assert_str_eq(lines(), "");
	ck_assert_uint_eq(log_dropped(), 0);
}
END_TEST

/* Would hang if anything waited. */
START_TEST(a_journal_and_a_pipe_that_nobody_reads_stop_nothing)
{
	static char text[4000];
	memset(text, 'x', sizeof text - 1);
	listen_as_journal();
	log_init(LOG_LEVEL_INFO, socket_path);
	unsigned sent = 0;
	while (log_dropped() == 0 && sent < 100000)
		log_info("%u %s", sent++, text);
	ck_assert_uint_eq(log_dropped(), 1);
	log_info("lost");
	ck_assert_uint_eq(log_dropped(), 2);
	/* The pipe took what the journal did not. */
	unsigned in_journal = 0, in_pipe = 0;
	while (*entry())
		in_journal++;
	for (const char *at; *(at = lines());)
		for (; (at = strchr(at, '\n')); at++)
			in_pipe++;
	ck_assert_uint_gt(in_journal, 0);
	ck_assert_uint_gt(in_pipe, 0);
	ck_assert_uint_eq(in_journal + in_pipe, sent - 1);
	log_info("heard");
	ck_assert_ptr_nonnull(strstr(entry(), "MESSAGE=2 log lines were dropped: nobody read them\nPRIORITY=4\n"));
	ck_assert_ptr_nonnull(strstr(entry(), "MESSAGE=heard\n"));
	ck_assert_uint_eq(log_dropped(), 2);
}
END_TEST

START_TEST(errno_is_left_alone)
{
	log_init(LOG_LEVEL_INFO, "/no/such/socket");
	errno = EXDEV;
	log_info("x");
	ck_assert_int_eq(errno, EXDEV);
}
END_TEST

int main(void)
{
	const TTest *const tests[] = {
		a_line_has_its_level_and_the_fields_behind_the_text,
		what_is_too_verbose_is_not_written,
		levels_have_names,
		no_text_makes_a_second_line,
		a_value_cannot_pass_for_another_field,
		texts_are_cut_but_never_the_fields,
		the_journal_gets_fields,
		a_value_with_line_ends_has_its_length_in_front,
		without_a_journal_entries_go_to_stderr,
		a_journal_and_a_pipe_that_nobody_reads_stop_nothing,
		errno_is_left_alone,
		NULL,
	};
	return run_tests_with("log", tests, setup, teardown);
}
