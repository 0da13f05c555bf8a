#include "ipc/names.h"

#include <errno.h>
#include <string.h>

#include "config/digest.h"
#include "proto/json_iter.h"

#define SEPARATOR "__"
#define SEPARATOR_BYTES (sizeof(SEPARATOR) - 1)
#define HASH_HEX 12
/* `_` and the hash. */
#define TAIL_BYTES (1 + HASH_HEX)

static bool is_allowed(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
}

static bool all_allowed(struct span text)
{
	for (size_t i = 0; i < text.len; i++)
		if (!is_allowed(text.ptr[i]))
			return false;
	return text.len > 0;
}

/* Whether a text ends as hashed names do. The separator in front of a name may be the `_`. */
static bool ends_like_hashed(struct span text)
{
	if (text.len < TAIL_BYTES || text.ptr[text.len - TAIL_BYTES] != '_')
		return false;
	for (size_t i = text.len - HASH_HEX; i < text.len; i++) {
		char c = text.ptr[i];
		if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f')))
			return false;
	}
	return true;
}

/* A name as text: what is between the quotes where nothing is escaped, a copy elsewhere. */
struct text {
	struct span raw; /* between the quotes */
	struct span text;
	struct buf decoded;
};

static void text_done(struct text *t)
{
	buf_done(&t->decoded);
}

/* 0, -EINVAL if it is no JSON string, or -ENOMEM. */
static int text_init(struct text *t, struct span string)
{
	*t = (struct text){ 0 };
	string = json_trim(string);
	if (json_type_of(string) != JSON_STRING || string.len < 2)
		return -EINVAL;
	t->text = t->raw = (struct span){ string.ptr + 1, string.len - 2 };
	if (!memchr(t->raw.ptr, '\\', t->raw.len))
		return 0;
	int rc = json_string_decode(string, &t->decoded);
	t->text = buf_span(&t->decoded);
	return rc;
}

/* Where the first separator begins; text.len if there is none. */
static size_t find_separator(struct span text)
{
	const char *at = text.len > 0 ? memmem(text.ptr, text.len, SEPARATOR, SEPARATOR_BYTES) : NULL;
	return at ? (size_t)(at - text.ptr) : text.len;
}

static bool server_is_plain(struct span server)
{
	return all_allowed(server) && find_separator(server) == server.len && server.ptr[server.len - 1] != '_';
}

/* Whether a name can stand as it is. */
static bool is_plain(struct span server, struct span name, size_t max)
{
	if (name.len > max || server.len + SEPARATOR_BYTES + name.len > max || !server_is_plain(server) ||
	    !all_allowed(name))
		return false;
	/* The tail of the whole, which has no bytes of its own yet; shorter ones have a `_` among the last digits. */
	if (name.len != HASH_HEX)
		return !ends_like_hashed(name);
	char tail[TAIL_BYTES] = "_";
	memcpy(tail + 1, name.ptr, HASH_HEX);
	return !ends_like_hashed((struct span){ tail, TAIL_BYTES });
}

/* Appends at most `room` characters of UTF-8 text, those that are not allowed as `_`. */
static void add_text(struct buf *out, struct span text, size_t room)
{
	for (size_t i = 0; i < text.len && room > 0; i++) {
		bool follows = ((unsigned char)text.ptr[i] & 0xc0) == 0x80;
		if (follows)
			continue;
		buf_add_char(out, is_allowed(text.ptr[i]) ? text.ptr[i] : '_');
		room--;
	}
}

/* The part of a hashed name in front of its tail. The server's name gets what the name leaves, but half at least: what
 * a long name ends in says more than nothing. */
static void add_hashed_text(struct buf *out, struct span server, struct span name, size_t max)
{
	size_t room = max - TAIL_BYTES - SEPARATOR_BYTES, before = out->len;
	size_t left = name.len < room ? room - name.len : 0;
	add_text(out, server, left > room / 2 ? left : room / 2);
	room -= out->len - before;
	buf_add_text(out, SEPARATOR);
	add_text(out, name, room);
}

static void add_hashed_tail(struct buf *out, struct span server, const struct text *name)
{
	static const char replaced[] = "\xef\xbf\xbd";
	struct digest d;
	char hex[DIGEST_HEX];
	digest_init(&d);
	digest_bytes(&d, server.ptr, server.len);
	digest_bytes(&d, "", 1);
	digest_bytes(&d, name->text.ptr, name->text.len);
	/* Lone surrogates all decode to the same: there the spelling tells names apart. */
	if (memmem(name->text.ptr, name->text.len, replaced, sizeof(replaced) - 1)) {
		digest_bytes(&d, "", 1);
		digest_bytes(&d, name->raw.ptr, name->raw.len);
	}
	digest_hex(&d, hex);
	buf_add_char(out, '_');
	buf_add(out, hex, HASH_HEX);
}

static int write_text(struct buf *out, struct span server, const struct text *name, size_t max)
{
	size_t before = out->len;
	if (is_plain(server, name->text, max)) {
		buf_add_span(out, server);
		buf_add_text(out, SEPARATOR);
		buf_add_span(out, name->text);
	} else {
		add_hashed_text(out, server, name->text, max);
		add_hashed_tail(out, server, name);
	}
	if (!buf_failed(out))
		return 0;
	buf_truncate(out, before);
	return out->error;
}

int names_write(struct buf *out, const char *server, struct span name, size_t max)
{
	struct text text;
	int rc = text_init(&text, name);
	if (rc == 0)
		rc = write_text(out, span_of(server), &text, max);
	text_done(&text);
	return rc;
}

static bool plain_match(struct span shown, struct span server, struct span name)
{
	return shown.len == server.len + SEPARATOR_BYTES + name.len && memcmp(shown.ptr, server.ptr, server.len) == 0 &&
	       memcmp(shown.ptr + server.len, SEPARATOR, SEPARATOR_BYTES) == 0 &&
	       memcmp(shown.ptr + shown.len - name.len, name.ptr, name.len) == 0;
}

static bool hashed_match(struct span shown, struct span server, const struct text *name, size_t max)
{
	if (!ends_like_hashed(shown))
		return false;
	struct buf mine = BUF_INIT;
	add_hashed_text(&mine, server, name->text, max);
	bool same =
		!buf_failed(&mine) && shown.len == mine.len + TAIL_BYTES && memcmp(shown.ptr, mine.data, mine.len) == 0;
	if (same) {
		add_hashed_tail(&mine, server, name);
		same = !buf_failed(&mine) && span_equal(shown, buf_span(&mine));
	}
	buf_done(&mine);
	return same;
}

bool names_match(struct span shown, const char *server_name, struct span name, size_t max)
{
	struct span server = span_of(server_name);
	struct text mine, theirs = { 0 };
	bool same = text_init(&mine, name) == 0 && text_init(&theirs, shown) == 0 &&
		    (is_plain(server, mine.text, max) ? plain_match(theirs.text, server, mine.text) :
							hashed_match(theirs.text, server, &mine, max));
	text_done(&mine);
	text_done(&theirs);
	return same;
}

bool names_split(struct span shown, size_t max, struct span *ret_server, struct span *ret_name)
{
	shown = json_trim(shown);
	if (json_type_of(shown) != JSON_STRING || shown.len < 2)
		return false;
	struct span text = { shown.ptr + 1, shown.len - 2 };
	if (text.len > max)
		return false;
	size_t at = find_separator(text);
	if (at + SEPARATOR_BYTES >= text.len)
		return false;
	struct span server = { text.ptr, at };
	struct span name = { text.ptr + at + SEPARATOR_BYTES, text.len - at - SEPARATOR_BYTES };
	if (!is_plain(server, name, max))
		return false;
	*ret_server = server;
	*ret_name = name;
	return true;
}
