#include "config/config_loader.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config_memory.h"

static void add_problem(struct loader *l, bool warning, char *message)
{
	struct config_problem *p = &l->problems[l->n_problems++];
	*p = (struct config_problem){
		.file = loader_dup(l, l->file ? l->file : ""),
		.server = l->server ? loader_dup(l, l->server->name) : NULL,
		.message = message,
		.warning = warning,
	};
}

static void tell(struct loader *l, bool warning, const char *format, va_list args)
{
	l->n_errors += !warning;
	bool wanted = !warning && l->server && !l->server->error;
	bool room = !loader_full(l);
	l->n_untold += !room;
	if (l->no_memory || (!room && !wanted))
		return;
	char *message = loader_vformat(l, format, args);
	if (!message)
		return;
	if (wanted)
		l->server->error = loader_dup(l, message);
	if (room && !l->problems) /* and one for loader_take_problems() */
		l->problems = loader_alloc(l, CONFIG_PROBLEMS_MAX + 1, sizeof(*l->problems));
	if (room && l->problems)
		add_problem(l, warning, message);
	else
		free(message);
}

void loader_error(struct loader *l, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	tell(l, false, format, args);
	va_end(args);
}

void loader_warning(struct loader *l, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	tell(l, true, format, args);
	va_end(args);
}

void loader_found_secret(struct loader *l, const char *member)
{
	char name[SHOWN_MAX];
	if (l->secret_at)
		return;
	if (l->server)
		l->secret_at =
			loader_format(l, "\"%s\" of server \"%s\"", member, shown(span_of(l->server->name), name));
	else
		l->secret_at = loader_format(l, "\"mcpd\": \"%s\"", member);
}

/* Needs no memory. */
static struct config_problem out_of_memory = { .file = (char[]){ "the configuration" },
					       .message = (char[]){ "out of memory" } };

void config_problems_free(struct config_problem *problems, size_t n)
{
	if (problems == &out_of_memory)
		return;
	for (size_t i = 0; i < n; i++) {
		free(problems[i].file);
		free(problems[i].server);
		free(problems[i].message);
	}
	free(problems);
}

void loader_take_problems(struct loader *l, struct config_problem **ret_problems, size_t *ret_n)
{
	if (l->n_untold > 0 && !l->no_memory) {
		l->server = NULL;
		/* An error, if it may hide one. */
		add_problem(l, l->n_errors == 0, loader_format(l, "%zu more problems are not listed", l->n_untold));
	}
	if (l->no_memory) {
		config_problems_free(l->problems, l->n_problems);
		*ret_problems = &out_of_memory;
		*ret_n = 1;
	} else {
		*ret_problems = l->problems;
		*ret_n = l->n_problems;
	}
	l->problems = NULL;
	l->n_problems = 0;
}

size_t loader_line(const struct loader *l, const char *at)
{
	size_t line = 1;
	const char *start = l->text.ptr;
	while (start < at && (start = memchr(start, '\n', (size_t)(at - start)))) {
		line++;
		start++;
	}
	return line;
}

const char *shown(struct span text, char out[static SHOWN_MAX])
{
	static const char mark[] = "...";
	size_t len = text.len;
	bool cut = len >= SHOWN_MAX;
	if (cut) {
		len = SHOWN_MAX - sizeof(mark);
		/* Never inside a character. */
		while (len > 0 && ((unsigned char)text.ptr[len] & 0xc0) == 0x80)
			len--;
	}
	if (len > 0)
		memcpy(out, text.ptr, len);
	memcpy(out + len, cut ? mark : "", cut ? sizeof(mark) : 1);
	return out;
}
