/* What servers give, for people: text as text, binary described or saved, the rest as JSON. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl.h"

struct span text_member(struct span object, const char *name, struct buf *buf)
{
	buf_reset(buf);
	struct span value = json_member(object, name);
	if (json_type_of(value) != JSON_STRING || json_string_decode(value, buf) < 0)
		return SPAN_NONE;
	buf_add_char(buf, '\0');
	return buf_failed(buf) ? SPAN_NONE : (struct span){ buf->data, buf->len - 1 };
}

static int base64_value(char c)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *at = c ? strchr(digits, c) : NULL;
	return at ? (int)(at - digits) : -1;
}

/* In place. The length, or -1 if it is no base64. */
static ssize_t base64_decode(char *text, size_t len)
{
	size_t out = 0;
	unsigned bits = 0, have = 0;
	while (len > 0 && text[len - 1] == '=')
		len--;
	for (size_t i = 0; i < len; i++) {
		int value = base64_value(text[i]);
		if (text[i] == '\n' || text[i] == '\r')
			continue;
		if (value < 0)
			return -1;
		bits = bits << 6 | (unsigned)value;
		have += 6;
		if (have >= 8) {
			have -= 8;
			text[out++] = (char)(bits >> have);
		}
	}
	return (ssize_t)out;
}

static int save(const char *path, const char *bytes, size_t len)
{
	if (strcmp(path, "-") == 0) {
		say_bytes((struct span){ bytes, len });
		return EXIT_OK;
	}
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	size_t at = 0;
	while (fd >= 0 && at < len) {
		ssize_t n = write(fd, bytes + at, len - at);
		if (n < 0 && errno != EINTR)
			break;
		at += n > 0 ? (size_t)n : 0;
	}
	if (fd < 0 || close(fd) < 0 || at < len) {
		complain("cannot write %s: %s", path, strerror(errno));
		return EXIT_FAILED;
	}
	complain("%zu bytes written to %s", len, path);
	return EXIT_OK;
}

/* Where the n-th binary goes: FILE, then FILE.2, FILE.3 .. */
static int save_numbered(const char *path, const char *bytes, size_t len)
{
	static unsigned saved;
	char numbered[4096];
	saved++;
	if (saved == 1 || strcmp(path, "-") == 0)
		return save(path, bytes, len);
	snprintf(numbered, sizeof numbered, "%s.%u", path, saved);
	return save(numbered, bytes, len);
}

static int print_binary(struct ctl *ctl, struct span object, const char *member, const char *what)
{
	struct buf type = BUF_INIT, data = BUF_INIT;
	struct span mime = text_member(object, "mimeType", &type);
	int status = EXIT_OK;
	ssize_t len = -1;
	if (json_string_decode(json_member(object, member), &data) == 0)
		len = base64_decode(data.data, data.len);
	if (len < 0) {
		say("[%s: not valid base64]\n", what);
		status = EXIT_FAILED;
	} else if (ctl->output_file) {
		status = save_numbered(ctl->output_file, data.data, (size_t)len);
	} else {
		say("[%s ", what);
		say_text(mime.ptr ? mime : SPAN_LIT("of unknown type"));
		say(", %zd bytes; save it with -o FILE]\n", len);
	}
	buf_done(&type);
	buf_done(&data);
	return status;
}

static void print_line(struct span text)
{
	say_text(text);
	if (!text.len || text.ptr[text.len - 1] != '\n')
		say("\n");
}

static void print_member(struct span object, const char *member)
{
	struct buf text = BUF_INIT;
	print_line(text_member(object, member, &text));
	buf_done(&text);
}

int content_print_resource(struct ctl *ctl, struct span contents)
{
	if (json_member(contents, "blob").ptr)
		return print_binary(ctl, contents, "blob", "resource");
	print_member(contents, "text");
	return EXIT_OK;
}

int content_print_block(struct ctl *ctl, struct span block)
{
	struct span type = json_member(block, "type");
	if (json_string_is(type, "text")) {
		print_member(block, "text");
		return EXIT_OK;
	}
	if (json_string_is(type, "image"))
		return print_binary(ctl, block, "data", "image");
	if (json_string_is(type, "audio"))
		return print_binary(ctl, block, "data", "audio");
	if (json_string_is(type, "resource"))
		return content_print_resource(ctl, json_member(block, "resource"));
	if (json_string_is(type, "resource_link")) {
		say("[resource ");
		say_json_string(json_member(block, "uri"));
		say("; `mcpctl read SERVER URI` shows it]\n");
		return EXIT_OK;
	}
	print_line(block); /* a kind that came after this program */
	return EXIT_OK;
}

int content_print(struct ctl *ctl, struct span blocks)
{
	int status = EXIT_OK;
	struct json_iter it;
	struct span block;
	if (json_type_of(blocks) != JSON_ARRAY)
		return EXIT_OK;
	for (json_iter_init(&it, blocks); json_iter_element(&it, &block);) {
		int r = content_print_block(ctl, block);
		if (status == EXIT_OK)
			status = r;
	}
	return status;
}
