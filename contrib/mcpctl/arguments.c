/*
 * From the command line to a tool's arguments.
 *
 * key=value takes its type from the tool's input schema: where the schema wants a number, a boolean, an array or an object, the value must be one, as JSON; where it
 * wants a string (or says nothing) the value is text as it stands. A key given twice, or a bare value for an array of strings, makes array elements.
 * key:=JSON is JSON whatever the schema says.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"
#include "proto/jsonrpc.h"

/* A set of JSON types, one bit per enum json_kind; `integer` beside. */
struct wanted {
	unsigned types;
	bool integer;
	struct span items; /* of an array */
};

#define BIT(type) (1U << (type))

static void want_name(struct wanted *wanted, struct span name)
{
	static const struct {
		const char *name;
		enum json_kind type;
	} names[] = {
		{ "string", JSON_STRING }, { "number", JSON_NUMBER }, { "integer", JSON_NUMBER },
		{ "boolean", JSON_BOOL },  { "array", JSON_ARRAY },   { "object", JSON_OBJECT },
		{ "null", JSON_NULL },
	};
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		if (json_string_is(name, names[i].name))
			wanted->types |= BIT(names[i].type);
	if (json_string_is(name, "integer"))
		wanted->integer = true;
}

/* What a schema allows, as far as `type`, `enum`, `const` and one level of anyOf/oneOf tell. */
static void want_schema(struct wanted *wanted, struct span schema, bool nested)
{
	struct json_iter it;
	struct span type = json_member(schema, "type"), element;
	if (json_type_of(type) == JSON_STRING)
		want_name(wanted, type);
	if (json_type_of(type) == JSON_ARRAY)
		for (json_iter_init(&it, type); json_iter_element(&it, &element);)
			want_name(wanted, element);
	struct span values = json_member(schema, "enum");
	if (!type.ptr && json_type_of(values) == JSON_ARRAY)
		for (json_iter_init(&it, values); json_iter_element(&it, &element);)
			wanted->types |= BIT(json_type_of(element));
	struct span constant = json_member(schema, "const");
	if (!type.ptr && constant.ptr)
		wanted->types |= BIT(json_type_of(constant));
	struct span items = json_member(schema, "items");
	if (items.ptr)
		wanted->items = items;
	if (nested)
		return;
	static const char *const unions[] = { "anyOf", "oneOf" };
	for (size_t i = 0; i < 2; i++) {
		struct span list = json_member(schema, unions[i]);
		if (json_type_of(list) == JSON_ARRAY)
			for (json_iter_init(&it, list); json_iter_element(&it, &element);)
				want_schema(wanted, element, true);
	}
}

static void describe(const struct wanted *wanted, char *out, size_t size)
{
	static const char *const names[] = { "",     "null",         "true or false", "a number",
					     "text", "a JSON array", "a JSON object" };
	size_t len = 0;
	out[0] = '\0';
	for (int type = JSON_NULL; type <= JSON_OBJECT && len < size; type++)
		if (wanted->types & BIT(type))
			len += (size_t)snprintf(out + len, size - len, "%s%s", len ? " or " : "",
						type == JSON_NUMBER && wanted->integer ? "an integer" : names[type]);
}

/* How many bytes come before the first of `stop`. */
static size_t length_before(struct span text, const char *stop)
{
	size_t n = 0;
	while (n < text.len && !strchr(stop, text.ptr[n]))
		n++;
	return n;
}

static bool fits(const struct wanted *wanted, struct span value)
{
	if (json_check(value, NULL) < 0)
		return false;
	value = json_trim(value);
	enum json_kind type = json_type_of(value);
	if (!(wanted->types & BIT(type)))
		return false;
	if (type != JSON_NUMBER || !wanted->integer)
		return true;
	/* An integer of any length, or a number that happens to be whole, such as 1.0. */
	int64_t integer;
	return length_before(value, ".eE") == value.len || json_int64(value, &integer) == 0;
}

/* One value by what is wanted. false with the reason told. */
static bool add_value(struct buf *out, const char *key, struct span text, const struct wanted *wanted)
{
	unsigned others = wanted->types & ~BIT(JSON_STRING);
	struct wanted strict = *wanted;
	strict.types = others;
	if (others && fits(&strict, text)) {
		buf_add_span(out, json_trim(text));
		return true;
	}
	if (!wanted->types || (wanted->types & BIT(JSON_STRING))) {
		buf_add_json_string(out, text);
		return true;
	}
	char expected[200];
	describe(wanted, expected, sizeof expected);
	complain("%s: \"%.*s\" is not %s", key, (int)text.len, text.ptr, expected);
	return false;
}

struct assignment {
	char *key;
	struct span value;
	bool json; /* := */
	bool done;
};

static bool split(char *arg, struct assignment *ret)
{
	char *equals = strchr(arg, '=');
	if (!equals || equals == arg)
		return false;
	ret->json = equals > arg + 1 && equals[-1] == ':';
	*(ret->json ? equals - 1 : equals) = '\0';
	ret->key = arg;
	ret->value = span_of(equals + 1);
	ret->done = false;
	return true;
}

static bool known_key(const char *key, struct span schema)
{
	struct span properties = json_member(schema, "properties");
	if (json_member(properties, key).ptr || !span_is(json_member(schema, "additionalProperties"), "false"))
		return true;
	struct buf names = BUF_INIT;
	struct json_iter it;
	struct span name, value;
	for (json_iter_init(&it, properties);
	     json_type_of(properties) == JSON_OBJECT && json_iter_member(&it, &name, &value);) {
		buf_add_text(&names, names.len ? ", " : "");
		json_string_decode(name, &names);
	}
	complain("the tool has no argument \"%s\"; it takes: %s", key, names.len ? names.data : "none");
	buf_done(&names);
	return false;
}

static bool add_json(struct buf *out, const struct assignment *a)
{
	struct json_error error;
	if (json_check(a->value, &error) < 0) {
		complain("%s: not JSON at byte %zu: %s", a->key, error.offset, error.reason);
		return false;
	}
	buf_add_span(out, json_trim(a->value));
	return true;
}

/* All values of a key that was given several times, or bare text for an array: elements of one array. */
static bool add_elements(struct buf *out, struct assignment *all, int n, int first, const struct wanted *wanted)
{
	struct wanted element = { 0 };
	want_schema(&element, wanted->items, false);
	bool ok = true;
	buf_add_char(out, '[');
	for (int i = first, count = 0; i < n && ok; i++) {
		if (strcmp(all[i].key, all[first].key) != 0)
			continue;
		all[i].done = true;
		if (count++)
			buf_add_char(out, ',');
		ok = all[i].json ? add_json(out, &all[i]) : add_value(out, all[i].key, all[i].value, &element);
	}
	buf_add_char(out, ']');
	return ok;
}

static bool add_assignment(struct buf *out, struct assignment *all, int n, int index, struct span schema)
{
	struct assignment *a = &all[index];
	if (!known_key(a->key, schema))
		return false;
	struct wanted wanted = { 0 };
	want_schema(&wanted, json_member(json_member(schema, "properties"), a->key), false);
	buf_add_json_text(out, a->key);
	buf_add_char(out, ':');
	bool repeated = false;
	for (int i = index + 1; i < n; i++)
		repeated = repeated || strcmp(all[i].key, a->key) == 0;
	bool array = wanted.types & BIT(JSON_ARRAY);
	if (repeated && !array && wanted.types) {
		complain("%s: given twice, and the tool takes one value", a->key);
		return false;
	}
	if (repeated || (array && !(wanted.types & BIT(JSON_STRING)) && !a->json && !fits(&wanted, a->value)))
		return add_elements(out, all, n, index, &wanted);
	a->done = true;
	return a->json ? add_json(out, a) : add_value(out, a->key, a->value, &wanted);
}

static bool from_assignments(int argc, char **argv, struct span schema, struct buf *out)
{
	struct assignment *all = calloc((size_t)argc + 1, sizeof *all);
	bool ok = all != NULL;
	for (int i = 0; i < argc && ok; i++) {
		ok = split(argv[i], &all[i]);
		if (!ok)
			complain(
				"\"%s\" is no argument: give key=value, key:=JSON, one JSON object, or - for standard input",
				argv[i]);
	}
	buf_add_char(out, '{');
	for (int i = 0; i < argc && ok; i++) {
		if (all[i].done)
			continue;
		if (out->len > 1)
			buf_add_char(out, ',');
		ok = add_assignment(out, all, argc, i, schema);
	}
	buf_add_char(out, '}');
	free(all);
	return ok && !buf_failed(out);
}

static bool from_json(struct span text, const char *where, struct buf *out)
{
	struct json_error error;
	if (json_check(text, &error) < 0) {
		complain("%s is no JSON: byte %zu: %s", where, error.offset, error.reason);
		return false;
	}
	if (json_type_of(json_trim(text)) != JSON_OBJECT) {
		complain("%s must be a JSON object", where);
		return false;
	}
	jsonrpc_add_payload(out, json_trim(text));
	return !buf_failed(out);
}

static bool from_stdin(struct buf *out)
{
	struct buf input = BUF_INIT;
	bool ok = true;
	for (;;) {
		if (buf_reserve(&input, 65536) < 0)
			break;
		ssize_t n = read(STDIN_FILENO, input.data + input.len, 65536);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			complain("cannot read standard input: %s", strerror(errno));
			ok = false;
		}
		if (n <= 0)
			break;
		input.len += (size_t)n;
	}
	ok = ok && !buf_failed(&input) && from_json(buf_span(&input), "standard input", out);
	buf_done(&input);
	return ok;
}

bool arguments_need_schema(int argc, char **argv)
{
	return argc > 1 || (argc == 1 && strcmp(argv[0], "-") != 0 && argv[0][0] != '{');
}

bool arguments_build(int argc, char **argv, struct span schema, struct buf *out)
{
	if (argc == 1 && strcmp(argv[0], "-") == 0)
		return from_stdin(out);
	if (argc == 1 && argv[0][0] == '{')
		return from_json(span_of(argv[0]), "the argument", out);
	return from_assignments(argc, argv, schema, out);
}
