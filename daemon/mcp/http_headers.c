#include "mcp/http_headers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "proto/buf.h"
#include "proto/http_header.h"
#include "proto/json_iter.h"
#include "xalloc.h"

#define ANNOTATION "x-mcp-header"
/* 2^53 - 1: integers beyond are not the same everywhere, and no header is made of them. */
#define SAFE_INTEGER 9007199254740991
#define NAME_SHOWN 64

/* Keywords whose values are schemas in which an annotation is not allowed, and how they hold them. */
enum holder {
	HOLDS_SCHEMA,  /* one schema, or an array of them */
	HOLDS_SCHEMAS, /* an object of schemas by name */
};
static const struct {
	const char *keyword;
	enum holder holder;
} unreachable[] = {
	{ "items", HOLDS_SCHEMA },
	{ "prefixItems", HOLDS_SCHEMA },
	{ "additionalItems", HOLDS_SCHEMA },
	{ "contains", HOLDS_SCHEMA },
	{ "unevaluatedItems", HOLDS_SCHEMA },
	{ "additionalProperties", HOLDS_SCHEMA },
	{ "propertyNames", HOLDS_SCHEMA },
	{ "patternProperties", HOLDS_SCHEMAS },
	{ "unevaluatedProperties", HOLDS_SCHEMA },
	{ "dependencies", HOLDS_SCHEMAS },
	{ "dependentSchemas", HOLDS_SCHEMAS },
	{ "contentSchema", HOLDS_SCHEMA },
	{ "oneOf", HOLDS_SCHEMA },
	{ "anyOf", HOLDS_SCHEMA },
	{ "allOf", HOLDS_SCHEMA },
	{ "not", HOLDS_SCHEMA },
	{ "if", HOLDS_SCHEMA },
	{ "then", HOLDS_SCHEMA },
	{ "else", HOLDS_SCHEMA },
	{ "$defs", HOLDS_SCHEMAS },
	{ "definitions", HOLDS_SCHEMAS },
};

/* One annotated property: the header's name as a JSON string, and the argument at the property's path, if asked for. */
struct mirrored {
	struct span name;
	struct span value;
};

/* Where in the schema a walk is: the chain of properties from the root. */
struct place {
	const struct place *parent; /* NULL: the root */
	struct span property;       /* of the nearest property, also where that is not reachable */
	bool reachable;
};

struct walk {
	struct span arguments; /* of the call, or absent */
	struct mirrored found[HTTP_HEADERS_PER_TOOL];
	unsigned n_found;
	char *problem;
};

/* The last member of that name, as JSON.parse() and most others choose: the server compares headers with what it has
 * read. */
static struct span last_member(struct span object, const char *name)
{
	struct json_iter it;
	struct span key, value, found = SPAN_NONE;
	json_iter_init(&it, object);
	while (json_iter_member(&it, &key, &value))
		if (json_string_is(key, name))
			found = value;
	return found;
}

/* The call's argument for a property, or absent. */
static struct span argument_at(const struct walk *walk, const struct place *place)
{
	struct json_iter it;
	struct span key, value, found = SPAN_NONE;
	if (!place->parent)
		return walk->arguments;
	json_iter_init(&it, argument_at(walk, place->parent));
	while (json_iter_member(&it, &key, &value))
		if (json_strings_equal(key, place->property))
			found = value;
	return found;
}

__attribute__((format(printf, 3, 4))) static void refuse(struct walk *walk, struct span property, const char *format,
							 ...)
{
	struct buf text;
	va_list args;
	buf_init(&text, 0);
	if (property.ptr) {
		buf_add_text(&text, "property \"");
		if (json_string_decode(property, &text) < 0)
			buf_add_char(&text, '?');
		if (text.len > NAME_SHOWN) {
			buf_truncate(&text, NAME_SHOWN);
			buf_add_text(&text, "...");
		}
		buf_add_text(&text, "\": ");
	} else {
		buf_add_text(&text, "inputSchema: ");
	}
	va_start(args, format);
	char message[160];
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	buf_add_text(&text, message);
	walk->problem = buf_steal(&text);
	if (!walk->problem)
		walk->problem = xstrdup("out of memory");
}

static bool names_equal(struct span a, struct span b)
{
	/* Both are tokens: of the same length once decoded only if they are written alike, but for escapes, which
	 * tokens hardly need. */
	char *x = json_string_dup(a), *y = json_string_dup(b);
	bool equal = x && y && strcasecmp(x, y) == 0;
	free(x);
	free(y);
	return equal;
}

static bool is_token(struct span json_string)
{
	struct buf text;
	buf_init(&text, 0);
	bool token = json_string_decode(json_string, &text) == 0 && http_header_is_token(buf_span(&text));
	buf_done(&text);
	return token;
}

static void take_annotation(struct walk *walk, struct span schema, struct span annotation, const struct place *place)
{
	struct span type = last_member(schema, "type");
	if (!place->reachable || !place->parent) {
		refuse(walk, place->property,
		       ANNOTATION " is only for properties that are reached through \"properties\" alone");
		return;
	}
	if (json_type_of(annotation) != JSON_STRING || !is_token(annotation)) {
		refuse(walk, place->property,
		       ANNOTATION " must be a header name (letters, digits and - . _ and the like, not empty)");
		return;
	}
	if (!json_string_is(type, "string") && !json_string_is(type, "integer") && !json_string_is(type, "boolean")) {
		refuse(walk, place->property, ANNOTATION " is only for properties of type string, integer or boolean");
		return;
	}
	for (unsigned i = 0; i < walk->n_found; i++) {
		if (!names_equal(walk->found[i].name, annotation))
			continue;
		refuse(walk, place->property, ANNOTATION " names a header that another property has already");
		return;
	}
	if (walk->n_found == HTTP_HEADERS_PER_TOOL) {
		refuse(walk, place->property, "more than %d properties have " ANNOTATION, HTTP_HEADERS_PER_TOOL);
		return;
	}
	walk->found[walk->n_found++] = (struct mirrored){ annotation, argument_at(walk, place) };
}

static void visit(struct walk *walk, struct span schema, const struct place *place);

static void visit_members(struct walk *walk, struct span holder, const struct place *place, bool reachable)
{
	struct json_iter it;
	struct span key, schema;
	json_iter_init(&it, holder);
	while (!walk->problem && json_iter_member(&it, &key, &schema))
		visit(walk, schema, &(struct place){ place, key, reachable });
}

static void visit_unreachable(struct walk *walk, struct span key, struct span holder, const struct place *place)
{
	for (size_t i = 0; i < sizeof(unreachable) / sizeof(*unreachable); i++) {
		if (!json_string_is(key, unreachable[i].keyword))
			continue;
		struct place below = { place, place->property, false };
		struct json_iter it;
		struct span schema;
		json_iter_init(&it, holder);
		if (unreachable[i].holder == HOLDS_SCHEMAS)
			visit_members(walk, holder, place, false);
		else if (json_type_of(holder) != JSON_ARRAY)
			visit(walk, holder, &below);
		else
			while (!walk->problem && json_iter_element(&it, &schema))
				visit(walk, schema, &below);
		return;
	}
}

/* The depth is bounded by that of valid JSON, JSON_DEPTH_MAX. */
static void visit(struct walk *walk, struct span schema, const struct place *place)
{
	struct json_iter it;
	struct span key, value;
	if (json_type_of(schema) != JSON_OBJECT)
		return;
	struct span annotation = last_member(schema, ANNOTATION);
	if (annotation.ptr)
		take_annotation(walk, schema, annotation, place);
	json_iter_init(&it, schema);
	while (!walk->problem && json_iter_member(&it, &key, &value)) {
		if (json_string_is(key, "properties"))
			visit_members(walk, value, place, place->reachable);
		else
			visit_unreachable(walk, key, value, place);
	}
}

static void visit_root(struct walk *walk, struct span schema)
{
	visit(walk, schema, &(struct place){ NULL, SPAN_NONE, true });
}

char *http_headers_check_tool(struct span tool)
{
	struct walk walk = { .n_found = 0 };
	visit_root(&walk, last_member(tool, "inputSchema"));
	return walk.problem;
}

/* Appends the header's value; false if this argument has no header. */
static bool add_argument(struct buf *out, struct span value)
{
	int64_t number;
	switch (json_type_of(value)) {
	case JSON_STRING:
		return http_header_add_json(out, value) != -EINVAL;
	case JSON_BOOL:
		buf_add_span(out, value);
		return true;
	case JSON_NUMBER:
		if (json_int64(value, &number) < 0 || number < -SAFE_INTEGER || number > SAFE_INTEGER)
			return false;
		buf_addf(out, "%" PRId64, number);
		return true;
	default:
		return false;
	}
}

/* One line on the heap; 0, or a negative errno. */
static int append(char **headers, size_t *n, struct buf *line)
{
	int error = line->error;
	char *text = buf_steal(line);
	if (!text)
		return error ? error : -ENOMEM;
	headers[(*n)++] = text;
	return 0;
}

static int make_name(struct span method, struct span params, char **headers, size_t *n)
{
	struct span source = http_header_name_source(method, params);
	if (!source.ptr)
		return 0;
	struct buf line;
	buf_init(&line, 0);
	buf_add_text(&line, "Mcp-Name: ");
	http_header_add_json(&line, source);
	return append(headers, n, &line);
}

static int make_param(const struct mirrored *mirrored, char **headers, size_t *n)
{
	struct buf line;
	buf_init(&line, 0);
	buf_add_text(&line, "Mcp-Param-");
	json_string_decode(mirrored->name, &line);
	buf_add_text(&line, ": ");
	if (!add_argument(&line, mirrored->value)) {
		buf_done(&line);
		return 0;
	}
	return append(headers, n, &line);
}

int http_headers_make(struct span method, struct span params, struct span input_schema, char ***ret_headers)
{
	struct walk walk = { .arguments = last_member(params, "arguments") };
	char **headers = xnew_array(char *, HTTP_HEADERS_PER_TOOL + 2);
	size_t n = 0;
	visit_root(&walk, input_schema);
	if (walk.problem)
		walk.n_found = 0;
	free(walk.problem);
	int r = make_name(method, params, headers, &n);
	for (unsigned i = 0; r == 0 && i < walk.n_found; i++)
		r = make_param(&walk.found[i], headers, &n);
	if (r < 0) {
		http_headers_free(headers);
		return r;
	}
	*ret_headers = headers;
	return 0;
}

void http_headers_free(char **headers)
{
	for (char **h = headers; h && *h; h++)
		free(*h);
	free(headers);
}
