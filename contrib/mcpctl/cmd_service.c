/*
 * install-service, remove-service: mcpd as a service of the user's systemd, for a build that no package brought.
 *
 * The units are those of systemd/ (mcpd-units.h is made from them), with the path of the mcpd that belongs to this mcpctl, in
 * ~/.config/systemd/user. A file there that does not begin with our line is somebody's own: it is neither overwritten nor
 * removed, and its unit neither enabled nor stopped.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl.h"
#include "mcpd-units.h"

#define MARK "# Written by `mcpctl install-service`"
#define HEAD                                                                                                           \
	MARK "; `mcpctl remove-service` takes it away. To change it: systemctl --user edit %s\n"                       \
	     "# (a file that does not begin with these words is left alone)\n"
#define UNIT_MAX 65536

/* What there is of a unit in the user's folder. */
enum present { UNIT_ABSENT, UNIT_OURS, UNIT_FOREIGN };

struct unit {
	const char *name, *template;
	char *path;
	enum present present;
	struct buf before, text; /* what is there; what is to be there */
};

struct service {
	char *folder;
	struct unit units[2]; /* the socket first: it is what is enabled, and stopped before the service */
	bool manager;         /* there is a user manager */
	char *program;
};

#define N_UNITS (sizeof((struct service *)0)->units / sizeof(struct unit))

static const char *text_of(const struct buf *b)
{
	return b->data && b->len ? b->data : "";
}

/* --- where, and what is there --- */

static bool find_folder(struct ctl *ctl, struct service *s)
{
	const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
	struct buf path = BUF_INIT;
	if (config && *config == '/') {
		buf_addf(&path, "%s/systemd/user", config);
	} else if (home && *home == '/') {
		buf_addf(&path, "%s/.config/systemd/user", home);
	} else {
		fail(ctl, "neither XDG_CONFIG_HOME nor HOME is set to an absolute path: where are units to go?");
		return false;
	}
	s->folder = buf_steal(&path);
	return s->folder != NULL;
}

/* Also a link is foreign: `systemctl mask` and `systemctl link` make them. */
static void look_at(struct unit *unit)
{
	int fd = open(unit->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	unit->present = fd < 0 && errno == ENOENT ? UNIT_ABSENT : UNIT_FOREIGN;
	if (fd < 0)
		return;
	char bytes[4096];
	ssize_t n;
	while ((n = read(fd, bytes, sizeof bytes)) > 0 && unit->before.len < UNIT_MAX)
		buf_add(&unit->before, bytes, (size_t)n);
	close(fd);
	if (n == 0 && strncmp(text_of(&unit->before), MARK, sizeof MARK - 1) == 0)
		unit->present = UNIT_OURS;
}

static bool service_init(struct ctl *ctl, struct service *s)
{
	*s = (struct service){ .units = { { .name = "mcpd.socket", .template = mcpd_socket_unit },
					  { .name = "mcpd.service", .template = mcpd_service_unit } } };
	if (!find_folder(ctl, s))
		return false;
	for (size_t i = 0; i < N_UNITS; i++) {
		struct buf path = BUF_INIT;
		buf_addf(&path, "%s/%s", s->folder, s->units[i].name);
		s->units[i].path = buf_steal(&path);
		if (!s->units[i].path)
			return false;
		look_at(&s->units[i]);
	}
	return true;
}

static void service_done(struct service *s)
{
	for (size_t i = 0; i < N_UNITS; i++) {
		free(s->units[i].path);
		buf_done(&s->units[i].before);
		buf_done(&s->units[i].text);
	}
	free(s->folder);
	free(s->program);
}

static bool refuse_foreign(struct ctl *ctl, const struct service *s, const char *what)
{
	for (size_t i = 0; i < N_UNITS; i++) {
		if (s->units[i].present != UNIT_FOREIGN)
			continue;
		fail(ctl, "%s is there and was not written by mcpctl install-service: %s", s->units[i].path, what);
		return false;
	}
	return true;
}

/* --- the user manager --- */

/* Why it does not answer, for people; NULL if it does. Its environment, if so, goes into *environment. */
static const char *ask_manager(struct buf *environment)
{
	int r = run_systemctl(environment, "show-environment", NULL, NULL, NULL);
	if (r == 0)
		return NULL;
	if (r < 0) {
		buf_reset(environment);
		buf_addf(environment, "systemctl cannot be run (%s)", strerror(-r));
	}
	return text_of(environment);
}

/* Whether it reads units where we would put them: it was started with a HOME and an XDG_CONFIG_HOME of its own. */
static bool check_folder(struct ctl *ctl, const struct service *s)
{
	struct buf path;
	int r = run_systemctl(&path, "show", "--property=UnitPath", "--value", NULL);
	bool found = false;
	for (const char *at = text_of(&path); r == 0 && *at && !found; at += strspn(at, " ")) {
		size_t len = strcspn(at, " ");
		found = len == strlen(s->folder) && strncmp(at, s->folder, len) == 0;
		at += len;
	}
	if (!found)
		fail(ctl,
		     "the user manager does not look for units in %s; are XDG_CONFIG_HOME and HOME here the ones of your "
		     "login? It looks in: %s",
		     s->folder, text_of(&path));
	buf_done(&path);
	return found;
}

/* A systemctl that has to succeed. */
static bool manage(struct ctl *ctl, const char *verb, const char *a, const char *b, const char *c)
{
	struct buf said;
	int r = run_systemctl(&said, verb, a, b, c);
	if (r != 0)
		fail(ctl, "systemctl --user %s %s failed: %s", verb, a ? a : "", r < 0 ? strerror(-r) : text_of(&said));
	buf_done(&said);
	return r == 0;
}

/* The value of PATH in the manager's list of variables; absent if it cannot be told. */
static struct span manager_path(const struct buf *environment)
{
	const char *at = text_of(environment);
	while (at && strncmp(at, "PATH=", 5) != 0) {
		at = strchr(at, '\n');
		at = at ? at + 1 : NULL;
	}
	return at ? (struct span){ at + 5, strcspn(at + 5, "\n") } : SPAN_NONE;
}

/* R35: npx, uvx and the like are often where only the login shell looks. */
static void hint_at_path(const struct buf *environment)
{
	const char *ours = getenv("PATH");
	struct span theirs = manager_path(environment);
	if (!ours || !theirs.ptr || span_is(theirs, ours))
		return;
	complain("the service looks for servers along PATH=%.*s, which is not this shell's; in mcp.json, "
		 "\"mcpd\": {\"environment\": {\"PATH\": \"..\"}} sets another one",
		 (int)theirs.len, theirs.ptr);
}

/* --- install-service --- */

static bool find_program(struct ctl *ctl, struct service *s)
{
	s->program = find_daemon();
	if (!s->program) {
		fail(ctl, "no mcpd was found, neither beside mcpctl nor along PATH; MCPD_PROGRAM may name it");
		return false;
	}
	for (const char *c = s->program; *c; c++) {
		if ((unsigned char)*c >= 0x20 && *c != 0x7f && !strchr("\"'\\", *c))
			continue;
		fail(ctl, "systemd cannot run %s: there is a quote, a backslash or a control character in its path",
		     s->program);
		return false;
	}
	struct buf said;
	int r = run_program((const char *const[]){ s->program, "--version", NULL }, &said);
	bool good = r == 0 && strncmp(text_of(&said), "mcpd ", 5) == 0;
	if (!good)
		fail(ctl, "%s is no mcpd that runs here: %s", s->program, r < 0 ? strerror(-r) : text_of(&said));
	buf_done(&said);
	return good;
}

/* As systemd reads the path of a program: % begins a specifier, and blanks end it. */
static void add_program(struct buf *out, const char *program)
{
	const char *quote = strchr(program, ' ') ? "\"" : "";
	buf_add_text(out, quote);
	for (; *program; program++) {
		if (*program == '%')
			buf_add_char(out, '%');
		buf_add_char(out, *program);
	}
	buf_add_text(out, quote);
}

static bool make_text(struct unit *unit, const char *program)
{
	static const char place[] = "@MCPD_PROGRAM@";
	buf_addf(&unit->text, HEAD, unit->name);
	const char *at = unit->template, *found;
	for (; (found = strstr(at, place)); at = found + sizeof place - 1) {
		buf_add(&unit->text, at, (size_t)(found - at));
		add_program(&unit->text, program);
	}
	buf_add_text(&unit->text, at);
	return !buf_failed(&unit->text);
}

static bool make_folders(struct ctl *ctl, char *path)
{
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(path, 0777); /* what went wrong shows at the end of the path */
		*slash = '/';
	}
	if (mkdir(path, 0777) == 0 || errno == EEXIST)
		return true;
	fail(ctl, "cannot make %s: %s", path, strerror(errno));
	return false;
}

/* Whole or not at all. */
static bool write_unit(struct ctl *ctl, const struct unit *unit)
{
	struct buf name = BUF_INIT;
	buf_addf(&name, "%s.new", unit->path);
	int fd = buf_failed(&name) ? -1 : open(name.data, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
	bool good = fd >= 0 && write(fd, unit->text.data, unit->text.len) == (ssize_t)unit->text.len;
	good = fd >= 0 && close(fd) == 0 && good && rename(name.data, unit->path) == 0;
	if (!good) {
		fail(ctl, "cannot write %s: %s", unit->path, strerror(errno));
		if (fd >= 0)
			unlink(name.data);
	}
	buf_done(&name);
	return good;
}

static bool is_as_it_should_be(const struct unit *unit)
{
	return unit->present == UNIT_OURS && span_equal(buf_span(&unit->before), buf_span(&unit->text));
}

static bool write_units(struct ctl *ctl, struct service *s)
{
	for (size_t i = 0; i < N_UNITS; i++)
		if (!make_text(&s->units[i], s->program))
			return false;
	if (!make_folders(ctl, s->folder))
		return false;
	for (size_t i = 0; i < N_UNITS; i++)
		if (!is_as_it_should_be(&s->units[i]) && !write_unit(ctl, &s->units[i]))
			return false;
	return manage(ctl, "daemon-reload", NULL, NULL, NULL);
}

static void tell_installed(const struct ctl *ctl, const struct service *s)
{
	if (ctl->json) {
		struct buf out = BUF_INIT;
		bool changed = false;
		buf_add_text(&out, "{\"units\":[");
		for (size_t i = 0; i < N_UNITS; i++) {
			buf_add_text(&out, i ? "," : "");
			buf_add_json_text(&out, s->units[i].path);
			changed |= !is_as_it_should_be(&s->units[i]);
		}
		buf_add_text(&out, "],\"program\":");
		buf_add_json_text(&out, s->program);
		buf_addf(&out, ",\"changed\":%s,\"started\":%s}", changed ? "true" : "false",
			 ctl->now ? "true" : "false");
		say_json(buf_span(&out));
		buf_done(&out);
		return;
	}
	for (size_t i = 0; i < N_UNITS; i++)
		say("%-10s%s\n", is_as_it_should_be(&s->units[i]) ? "unchanged" : "wrote", s->units[i].path);
	say("program   %s\n", s->program);
	if (ctl->now)
		say("enabled   mcpd.socket: the first program that connects starts mcpd, now and after each login\n");
	else
		say("enabled   mcpd.socket from the next login on; to start it now: systemctl --user start mcpd.socket\n");
}

static int install(struct ctl *ctl, struct service *s)
{
	struct buf environment;
	const char *why = ask_manager(&environment);
	if (why)
		fail(ctl,
		     "there is no systemd user manager to run mcpd: %s\nIt comes with a login session, and stays with: loginctl "
		     "enable-linger. Without systemd nothing has to be set up: mcpctl starts mcpd when it is needed",
		     why);
	bool good =
		!why && check_folder(ctl, s) &&
		refuse_foreign(ctl, s, "move it away, or go on with it and `systemctl --user enable mcpd.socket`") &&
		find_program(ctl, s) && write_units(ctl, s) &&
		manage(ctl, "enable", ctl->now ? "--now" : "mcpd.socket", ctl->now ? "mcpd.socket" : NULL, NULL);
	if (good)
		tell_installed(ctl, s);
	if (good && !ctl->json)
		hint_at_path(&environment);
	buf_done(&environment);
	return good ? EXIT_OK : EXIT_FAILED;
}

int cmd_install_service(struct ctl *ctl, int argc, char **argv)
{
	(void)argc, (void)argv;
	struct service s;
	const char *chosen = getenv("MCPD_SOCKET");
	if (ctl->socket_path) {
		fail(ctl,
		     "the service listens on the standard socket; to have another one, install it without --socket, then "
		     "`systemctl --user edit mcpd.socket`");
		return EXIT_USAGE;
	}
	int status = service_init(ctl, &s) ? install(ctl, &s) : EXIT_FAILED;
	if (status == EXIT_OK && chosen && *chosen && !ctl->json)
		complain("MCPD_SOCKET is set here, so programs started from here use %s and not the service", chosen);
	service_done(&s);
	return status;
}

/* --- remove-service --- */

/* What `systemctl disable` removes, where there is no manager to ask. */
static void unlink_enablement(const struct service *s, const struct unit *unit)
{
	static const char *const targets[] = { "sockets.target", "default.target" };
	for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
		struct buf link = BUF_INIT;
		char target[PATH_MAX];
		buf_addf(&link, "%s/%s.wants/%s", s->folder, targets[i], unit->name);
		ssize_t n = buf_failed(&link) ? -1 : readlink(link.data, target, sizeof target - 1);
		if (n > 0 && span_is((struct span){ target, (size_t)n }, unit->path))
			unlink(link.data);
		buf_done(&link);
	}
}

/* Whether the manager runs this very file under the unit's name, and not another one's. */
static bool is_in_force(const struct unit *unit)
{
	struct buf path;
	bool same = run_systemctl(&path, "show", "--property=FragmentPath", "--value", unit->name) == 0 &&
		    span_is(buf_span(&path), unit->path);
	buf_done(&path);
	return same;
}

static bool remove_units(struct ctl *ctl, const struct service *s)
{
	for (size_t i = 0; i < N_UNITS; i++) {
		const struct unit *unit = &s->units[i];
		if (unit->present != UNIT_OURS)
			continue;
		if (s->manager && is_in_force(unit) && !manage(ctl, "disable", "--now", unit->name, NULL))
			return false;
		unlink_enablement(s, unit);
		if (unlink(unit->path) < 0 && errno != ENOENT) {
			fail(ctl, "cannot remove %s: %s", unit->path, strerror(errno));
			return false;
		}
	}
	return !s->manager || manage(ctl, "daemon-reload", NULL, NULL, NULL);
}

static void tell_removed(const struct ctl *ctl, const struct service *s)
{
	struct buf out = BUF_INIT;
	bool any = false;
	buf_add_text(&out, "{\"removed\":[");
	for (size_t i = 0; i < N_UNITS; i++) {
		if (s->units[i].present != UNIT_OURS)
			continue;
		buf_add_text(&out, any ? "," : "");
		buf_add_json_text(&out, s->units[i].path);
		if (!ctl->json)
			say("removed   %s\n", s->units[i].path);
		any = true;
	}
	buf_add_text(&out, "]}");
	if (ctl->json)
		say_json(buf_span(&out));
	else if (!any)
		say("there is nothing to remove: no units of mcpctl install-service are in %s\n", s->folder);
	buf_done(&out);
}

int cmd_remove_service(struct ctl *ctl, int argc, char **argv)
{
	(void)argc, (void)argv;
	struct service s;
	struct buf environment;
	bool good =
		service_init(ctl, &s) &&
		refuse_foreign(ctl, &s,
			       "it is left as it is; a package's units: systemctl --user disable --now mcpd.socket");
	if (good) {
		s.manager = !ask_manager(&environment);
		buf_done(&environment);
		good = remove_units(ctl, &s);
	}
	if (good)
		tell_removed(ctl, &s);
	service_done(&s);
	return good ? EXIT_OK : EXIT_FAILED;
}
