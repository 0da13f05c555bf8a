#include "ipc/uri_template.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/*
 * A template is a row of literals and expressions. For each, from the set of offsets in the URI where what is before it may end follows
 * the set where it may end itself; the URI matches if its end is in the last set. Each step goes once over the URI (a literal or the
 * names of an expression at each offset at most), so that nothing is ever tried twice.
 */

/* RFC 6570, appendix A. */
struct operator
{
	char symbol;
	char first; /* in front of the first value; 0: nothing */
	char between;
	bool named;        /* name=value */
	bool bare_name;    /* a name alone stands for an empty value */
	const char *never; /* characters that no value has */
	const char *never_exploded;
};

static const struct operator operators[] = {
	{ '+', 0, ',', .never = "", .never_exploded = "" },
	{ '#', '#', ',', .never = "", .never_exploded = "" },
	{ '.', '.', '.', .never = "/?#", .never_exploded = "/?#" },
	{ '/', '/', '/', .never = "/?#", .never_exploded = "?#" },
	{ ';', ';', ';', .named = true, .bare_name = true, .never = "/?#" },
	{ '?', '?', '&', .named = true, .never = "#" },
	{ '&', '&', '&', .named = true, .never = "#" },
	/* The last: no symbol. */
	{ 0, 0, ',', .never = "/?#", .never_exploded = "?#" },
};

#define N_OPERATORS (sizeof(operators) / sizeof(*operators))

struct variable {
	struct span name;
	bool exploded;
	unsigned max; /* characters of the value; 0: any number */
};

#define NO_MAX UINT16_MAX

static bool is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

static unsigned hex_value(char c)
{
	return c <= '9' ? (unsigned)(c - '0') : (unsigned)((c | 0x20) - 'a' + 10);
}

/* The byte that `%xx` at that place stands for, or -1. */
static int encoded_byte(struct span text, size_t at)
{
	if (at + 2 >= text.len || text.ptr[at] != '%' || !is_hex(text.ptr[at + 1]) || !is_hex(text.ptr[at + 2]))
		return -1;
	return (int)(hex_value(text.ptr[at + 1]) << 4 | hex_value(text.ptr[at + 2]));
}

static bool is_letter_or_digit(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* ---- Parsing ------------------------------------------------------------------------------------------------- */

/* The variable at *at in an expression, up to a comma or the end. False if it is none. */
static bool parse_variable(struct span expression, size_t *at, struct variable *ret)
{
	size_t start = *at, i = start;
	*ret = (struct variable){ 0 };
	while (i < expression.len) {
		char c = expression.ptr[i];
		if (encoded_byte(expression, i) >= 0)
			i += 3;
		/* `-` is not in the RFC, but in templates. */
		else if (is_letter_or_digit(c) || c == '_' || c == '-' || (c == '.' && i > start))
			i++;
		else
			break;
	}
	ret->name = (struct span){ expression.ptr + start, i - start };
	if (i == start || expression.ptr[i - 1] == '.' || memmem(ret->name.ptr, ret->name.len, "..", 2))
		return false;
	if (i < expression.len && expression.ptr[i] == '*') {
		ret->exploded = true;
		i++;
	} else if (i < expression.len && expression.ptr[i] == ':') {
		size_t digits = ++i;
		while (i < expression.len && i < digits + 4 && expression.ptr[i] >= '0' && expression.ptr[i] <= '9')
			ret->max = ret->max * 10 + (unsigned)(expression.ptr[i++] - '0');
		if (i == digits || expression.ptr[digits] == '0')
			return false;
	}
	*at = i;
	return true;
}

/* Takes the next variable of an expression (what is between the braces, behind the operator). False at the end, with
 * *bad set if there should be one. */
static bool next_variable(struct span expression, size_t *at, struct variable *ret, bool *bad)
{
	*bad = false;
	if (*at > expression.len)
		return false;
	*bad = !parse_variable(expression, at, ret) || (*at < expression.len && expression.ptr[*at] != ',');
	++*at; /* behind the comma, or behind the end */
	return !*bad;
}

/* Takes the operator off an expression. NULL if it is one that the RFC keeps for later. */
static const struct operator* take_operator(struct span *expression)
{
	if (expression->len == 0)
		return NULL;
	char symbol = expression->ptr[0];
	if (strchr("=,!@|", symbol))
		return NULL;
	for (size_t i = 0; i + 1 < N_OPERATORS; i++) {
		if (operators[i].symbol != symbol)
			continue;
		expression->ptr++;
		expression->len--;
		return &operators[i];
	}
	return &operators[N_OPERATORS - 1];
}

/* One piece of a template. */
struct piece {
	const struct operator* op; /* NULL: a literal */
	struct span text;          /* the literal, or the variables */
};

/* Takes the next piece. False at the end, and with *bad set in what is no template. */
static bool next_piece(struct span *rest, struct piece *ret, bool *bad)
{
	*bad = false;
	if (rest->len == 0)
		return false;
	size_t len = 0;
	if (rest->ptr[0] != '{') {
		while (len < rest->len && rest->ptr[len] != '{') {
			unsigned char c = (unsigned char)rest->ptr[len++];
			*bad = *bad || c == '}' || c < 0x20 || c == 0x7f;
		}
		*ret = (struct piece){ NULL, { rest->ptr, len } };
	} else {
		const char *end = memchr(rest->ptr, '}', rest->len);
		*bad = !end;
		if (*bad)
			return false;
		len = (size_t)(end - rest->ptr) + 1;
		ret->text = (struct span){ rest->ptr + 1, len - 2 };
		ret->op = take_operator(&ret->text);
		*bad = !ret->op;
	}
	rest->ptr += len;
	rest->len -= len;
	return !*bad;
}

/* Goes over all of a template: the bytes outside its expressions, or SIZE_MAX if it is none that is taken. */
static size_t check(struct span template)
{
	struct piece piece;
	struct variable variable;
	size_t weight = 0, variables = 0;
	bool bad = template.len > URI_TEMPLATE_MAX_BYTES;
	while (!bad && next_piece(&template, &piece, &bad)) {
		if (!piece.op)
			weight += piece.text.len;
		else
			for (size_t at = 0; next_variable(piece.text, &at, &variable, &bad);)
				variables++;
	}
	return bad || variables > URI_TEMPLATE_MAX_VARIABLES ? SIZE_MAX : weight;
}

size_t uri_template_weight(struct span template)
{
	size_t weight = check(template);
	return weight == SIZE_MAX ? 0 : weight;
}

/* ---- Matching ------------------------------------------------------------------------------------------------ */

/* Sets of offsets in the URI, its end included: one element for each. */
struct match {
	struct span uri;
	bool *ends;     /* where the pieces so far may end */
	bool *next;     /* the set that is being made */
	bool *begins;   /* where a value (with names: an item) may begin */
	uint16_t *left; /* inside a value: characters it may still have, and 1; 0: no value */
};

static bool match_init(struct match *m, struct span uri)
{
	size_t n = uri.len + 1;
	char *memory = calloc(n, sizeof(uint16_t) + 3 * sizeof(bool));
	if (!memory)
		return false;
	m->uri = uri;
	m->left = (uint16_t *)(void *)memory;
	m->ends = (bool *)(void *)(memory + n * sizeof(uint16_t));
	m->next = m->ends + n;
	m->begins = m->next + n;
	return true;
}

static void match_done(struct match *m)
{
	free(m->left);
}

/* Whether a character that stands in a template is encoded in what is made from it. */
static bool is_encoded_literal(char c)
{
	return !is_letter_or_digit(c) && !strchr("-._~:/?#[]@!$&'()*+,;=%", c);
}

/* Where a literal that begins at that offset ends; SIZE_MAX: it is not there. */
static size_t literal_end(struct span uri, size_t at, struct span literal)
{
	for (size_t i = 0; i < literal.len; i++) {
		char c = literal.ptr[i];
		if (at < uri.len && uri.ptr[at] == c)
			at++;
		else if (is_encoded_literal(c) && encoded_byte(uri, at) == (unsigned char)c)
			at += 3;
		else
			return SIZE_MAX;
	}
	return at;
}

static bool match_literal(struct match *m, struct span literal)
{
	bool any = false;
	memset(m->next, 0, m->uri.len + 1);
	for (size_t at = 0; at <= m->uri.len; at++) {
		size_t end = m->ends[at] ? literal_end(m->uri, at, literal) : SIZE_MAX;
		if (end == SIZE_MAX)
			continue;
		m->next[end] = true;
		any = true;
	}
	bool *old = m->ends;
	m->ends = m->next;
	m->next = old;
	return any;
}

/* Whether a byte begins a character, as the prefix modifier counts them: of the decoded value. */
static bool begins_character(struct span uri, size_t at)
{
	if ((at >= 1 && encoded_byte(uri, at - 1) >= 0) || (at >= 2 && encoded_byte(uri, at - 2) >= 0))
		return false;
	int encoded = encoded_byte(uri, at);
	unsigned byte = encoded >= 0 ? (unsigned)encoded : (unsigned char)uri.ptr[at];
	return (byte & 0xc0) != 0x80;
}

static uint16_t value_left(const struct variable *variable)
{
	return variable->max ? (uint16_t)(variable->max + 1) : NO_MAX;
}

static void put_left(struct match *m, size_t at, uint16_t left)
{
	if (m->left[at] < left)
		m->left[at] = left;
}

/* Where a value goes on from `at`, whose left is not 0: to the next byte, if that may be in it. */
static void value_step(struct match *m, size_t at, const char *never)
{
	char c = m->uri.ptr[at];
	uint16_t left = m->left[at];
	if ((unsigned char)c < 0x20 || c == 0x7f || strchr(never, c))
		return;
	if (left == NO_MAX || !begins_character(m->uri, at))
		put_left(m, at + 1, left);
	else if (left > 1)
		put_left(m, at + 1, (uint16_t)(left - 1));
}

static bool is_at(const struct match *m, size_t at, char c)
{
	return at < m->uri.len && m->uri.ptr[at] == c;
}

/* One variable without its name. next: where the variables so far may end if any of them was there. */
static void match_value(struct match *m, const struct operator* op, const struct variable *variable)
{
	const char *never = variable->exploded ? op->never_exploded : op->never;
	size_t n = m->uri.len + 1;
	memset(m->begins, 0, n);
	memset(m->left, 0, n * sizeof(*m->left));
	for (size_t at = 0; at < n; at++) {
		if (m->ends[at] && !op->first)
			m->begins[at] = true;
		if (m->ends[at] && op->first && is_at(m, at, op->first))
			m->begins[at + 1] = true;
		if (m->next[at] && is_at(m, at, op->between))
			m->begins[at + 1] = true;
	}
	for (size_t at = 0; at < n; at++) {
		if (m->begins[at])
			put_left(m, at, value_left(variable));
		if (!m->left[at])
			continue;
		m->next[at] = true;
		if (at < m->uri.len)
			value_step(m, at, never);
	}
}

/* An item of named values begins at `at`: goes over the names. */
static void match_names(struct match *m, const struct operator* op, struct span expression, size_t at)
{
	struct variable variable;
	bool bad;
	for (size_t i = 0; next_variable(expression, &i, &variable, &bad);) {
		/* The names of an exploded variable are not known. */
		if (variable.exploded)
			put_left(m, at, NO_MAX);
		size_t end = literal_end(m->uri, at, variable.name);
		if (end == SIZE_MAX)
			continue;
		if (is_at(m, end, '='))
			put_left(m, end + 1, value_left(&variable));
		/* Nothing more of a value of which nothing is left. */
		if (op->bare_name)
			put_left(m, end, 1);
	}
}

/* An expression with names, in any order. */
static void match_named(struct match *m, const struct operator* op, struct span expression)
{
	size_t n = m->uri.len + 1;
	memset(m->begins, 0, n);
	memset(m->left, 0, n * sizeof(*m->left));
	for (size_t at = 0; at < n; at++) {
		if (m->ends[at] && is_at(m, at, op->first))
			m->begins[at + 1] = true;
		if (m->begins[at])
			match_names(m, op, expression, at);
		if (!m->left[at])
			continue;
		m->next[at] = true;
		if (is_at(m, at, op->between))
			m->begins[at + 1] = true;
		else if (at < m->uri.len)
			value_step(m, at, op->never);
	}
}

static void match_expression(struct match *m, const struct operator* op, struct span expression)
{
	struct variable variable;
	bool bad;
	memset(m->next, 0, m->uri.len + 1);
	if (op->named)
		match_named(m, op, expression);
	else
		for (size_t at = 0; next_variable(expression, &at, &variable, &bad);)
			match_value(m, op, &variable);
	/* None of the variables may be defined. */
	for (size_t at = 0; at <= m->uri.len; at++)
		m->ends[at] = m->ends[at] || m->next[at];
}

bool uri_template_match(struct span template, struct span uri)
{
	struct piece piece;
	struct match m;
	bool bad, possible = true;
	/* Most templates are of another kind of URI. */
	struct span rest = template;
	if (next_piece(&rest, &piece, &bad) && !piece.op && literal_end(uri, 0, piece.text) == SIZE_MAX)
		return false;
	if (uri.len > URI_TEMPLATE_URI_MAX_BYTES || check(template) == SIZE_MAX || !match_init(&m, uri))
		return false;
	m.ends[0] = true;
	while (possible && next_piece(&template, &piece, &bad)) {
		if (piece.op)
			match_expression(&m, piece.op, piece.text);
		else
			possible = match_literal(&m, piece.text);
	}
	possible = possible && m.ends[uri.len];
	match_done(&m);
	return possible;
}
