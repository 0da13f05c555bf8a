/*
 * Output that is whole or fails: everything goes through one buffer and one loop that waits for slow pipes, also when the other end made them
 * non-blocking. Text from servers is untrusted: on a terminal its control characters are shown, not obeyed.
 */
#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "ctl.h"

#define FLUSH_AT 65536
#define MAX_COLUMNS 10

static struct buf pending;
static int write_error; /* the first; nothing is written after it */
static bool terminal, coloured;

void output_init(void)
{
	signal(SIGPIPE, SIG_IGN);
	/* Widths of characters; names that the C locale does not know are no reason to fail. */
	if (!setlocale(LC_CTYPE, "") || MB_CUR_MAX == 1)
		setlocale(LC_CTYPE, "C.UTF-8");
	terminal = isatty(STDOUT_FILENO);
	const char *no_color = getenv("NO_COLOR");
	const char *term = getenv("TERM");
	coloured = terminal && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

bool output_is_terminal(void)
{
	return terminal;
}

static void write_pending(void)
{
	size_t at = 0;
	while (!write_error && at < pending.len) {
		ssize_t n = write(STDOUT_FILENO, pending.data + at, pending.len - at);
		if (n >= 0) {
			at += (size_t)n;
		} else if (errno == EAGAIN) {
			struct pollfd out = { .fd = STDOUT_FILENO, .events = POLLOUT };
			poll(&out, 1, -1);
		} else if (errno != EINTR) {
			write_error = errno;
		}
	}
	buf_reset(&pending);
}

int output_flush(int status)
{
	if (buf_failed(&pending))
		write_error = ENOMEM;
	write_pending();
	if (!write_error)
		return status;
	/* Whoever closed the pipe knows. */
	if (write_error != EPIPE)
		complain("cannot write the output: %s", strerror(write_error));
	return EXIT_FAILED;
}

void say_bytes(struct span bytes)
{
	buf_add_span(&pending, bytes);
	if (pending.len > FLUSH_AT)
		write_pending();
}

void say(const char *format, ...)
{
	char *text = NULL;
	va_list args;
	va_start(args, format);
	int len = vasprintf(&text, format, args);
	va_end(args);
	if (len >= 0)
		say_bytes((struct span){ text, (size_t)len });
	else
		write_error = ENOMEM;
	free(text);
}

void complain(const char *format, ...)
{
	va_list args;
	va_start(args, format);
	fputs("mcpctl: ", stderr);
	vfprintf(stderr, format, args);
	fputc('\n', stderr);
	va_end(args);
}

/* Bytes of the control character at p (0: none): C0 but tab and newline, DEL, and the C1 range in UTF-8. */
static size_t control_length(const unsigned char *p, size_t left)
{
	if ((*p < 0x20 && *p != '\n' && *p != '\t') || *p == 0x7f)
		return 1;
	return left > 1 && p[0] == 0xc2 && p[1] >= 0x80 && p[1] < 0xa0 ? 2 : 0;
}

void say_text(struct span text)
{
	if (!terminal) {
		say_bytes(text);
		return;
	}
	size_t plain = 0;
	for (size_t i = 0; i < text.len;) {
		const unsigned char *p = (const unsigned char *)text.ptr + i;
		size_t n = control_length(p, text.len - i);
		if (!n) {
			i++;
			continue;
		}
		say_bytes((struct span){ text.ptr + plain, i - plain });
		if (n == 1 && *p != '\r')
			say("^%c", *p ^ 0x40);
		else if (n == 2)
			say("\\x%02x", p[1]);
		i += n;
		plain = i;
	}
	say_bytes((struct span){ text.ptr + plain, text.len - plain });
}

void say_json(struct span json)
{
	say_bytes(json);
	say_bytes(SPAN_LIT("\n"));
}

void say_json_string(struct span value)
{
	struct buf text = BUF_INIT;
	if (json_string_decode(value, &text) == 0)
		say_text(buf_span(&text));
	else
		say_text(value);
	buf_done(&text);
}

const char *colour(enum colour which)
{
	static const char *const sequence[] = {
		[COLOUR_NONE] = "\033[0m",  [COLOUR_GOOD] = "\033[32m", [COLOUR_BAD] = "\033[31m",
		[COLOUR_BUSY] = "\033[33m", [COLOUR_DIM] = "\033[2m",   [COLOUR_BOLD] = "\033[1m",
	};
	return coloured ? sequence[which] : "";
}

/* ---- tables ---- */

struct cell {
	char *text;
	int width; /* columns on a terminal */
	enum colour colour;
};

struct table {
	size_t n_columns;
	size_t n_cells, room;
	struct cell *cells;
	bool failed;
};

/* Columns that the text takes; characters the locale does not know count as one each. */
static int text_width(const char *text)
{
	int width = 0;
	mbstate_t state = { 0 };
	for (size_t left = strlen(text); left > 0;) {
		wchar_t wide;
		size_t n = mbrtowc(&wide, text, left, &state);
		if (n == (size_t)-1 || n == (size_t)-2) {
			memset(&state, 0, sizeof state);
			n = 1;
			wide = L'?';
		}
		int w = wcwidth(wide);
		width += w > 0 ? w : 0;
		text += n;
		left -= n;
	}
	return width;
}

/* Cuts the text, in place, to at most max columns, the last of them an ellipsis. */
static void cut_text(char *text, int max)
{
	int width = 0;
	mbstate_t state = { 0 };
	char *fits = text; /* where the ellipsis would go */
	for (char *at = text; *at;) {
		wchar_t wide;
		size_t n = mbrtowc(&wide, at, strlen(at), &state);
		if (n == (size_t)-1 || n == (size_t)-2) {
			memset(&state, 0, sizeof state);
			n = 1;
			wide = L'?';
		}
		int w = wcwidth(wide);
		width += w > 0 ? w : 0;
		if (width > max) {
			strcpy(fits, "…"); /* cells have room for it */
			return;
		}
		at += n;
		if (width < max)
			fits = at;
	}
}

struct table *table_new(const char *const *headings)
{
	struct table *table = calloc(1, sizeof *table);
	if (!table)
		return NULL;
	while (headings[table->n_columns] && table->n_columns < MAX_COLUMNS)
		table->n_columns++;
	for (size_t i = 0; i < table->n_columns; i++)
		table_cell(table, span_of(headings[i]), COLOUR_BOLD);
	return table;
}

static bool room_for_cell(struct table *table)
{
	if (table->n_cells < table->room)
		return true;
	size_t room = table->room ? table->room * 2 : 64;
	struct cell *cells = realloc(table->cells, room * sizeof *cells);
	if (!cells)
		return false;
	table->cells = cells;
	table->room = room;
	return true;
}

void table_cell(struct table *table, struct span text, enum colour which)
{
	if (!table)
		return;
	char *copy = malloc(text.len + sizeof "…");
	if (!copy || !room_for_cell(table)) {
		free(copy);
		table->failed = true;
		return;
	}
	/* A cell is one line: a table breaks otherwise. */
	size_t len = 0;
	for (size_t i = 0; i < text.len; len++) {
		size_t control = control_length((const unsigned char *)text.ptr + i, text.len - i);
		bool blank = control || text.ptr[i] == '\n' || text.ptr[i] == '\t' || !text.ptr[i];
		copy[len] = blank ? ' ' : text.ptr[i];
		i += control ? control : 1;
	}
	copy[len] = '\0';
	table->cells[table->n_cells++] = (struct cell){ copy, text_width(copy), which };
}

static int terminal_columns(void)
{
	struct winsize size;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		return size.ws_col;
	return 80;
}

static int column_width(const struct table *table, size_t column)
{
	int width = 0;
	for (size_t i = column; i < table->n_cells; i += table->n_columns)
		if (table->cells[i].width > width)
			width = table->cells[i].width;
	return width;
}

static void print_row(struct table *table, size_t first, const int *widths)
{
	int used = 0;
	for (size_t column = 0; column < table->n_columns && first + column < table->n_cells; column++) {
		struct cell *cell = &table->cells[first + column];
		bool last = column + 1 == table->n_columns;
		if (last && terminal) {
			int room = terminal_columns() - used;
			if (cell->width > (room > 10 ? room : 10))
				cut_text(cell->text, room > 10 ? room : 10);
		}
		say("%s%s%s", cell->colour ? colour(cell->colour) : "", cell->text,
		    cell->colour ? colour(COLOUR_NONE) : "");
		if (!last)
			say("%*s", widths[column] - cell->width + 2, "");
		used += widths[column] + 2;
	}
	say("\n");
}

void table_print(struct table *table)
{
	if (!table || table->failed)
		write_error = ENOMEM;
	if (!table)
		return;
	int widths[MAX_COLUMNS];
	for (size_t i = 0; i < table->n_columns; i++)
		widths[i] = column_width(table, i);
	for (size_t i = 0; i < table->n_cells && !table->failed; i += table->n_columns)
		print_row(table, i, widths);
	for (size_t i = 0; i < table->n_cells; i++)
		free(table->cells[i].text);
	free(table->cells);
	free(table);
}
