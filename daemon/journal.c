#include "journal.h"

#include <endian.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Asked for; the kernel gives what it allows. An entry counts against it until the journal has read it. */
#define SEND_BUFFER_BYTES (8 << 20)

int journal_open(void)
{
	int bytes = SEND_BUFFER_BYTES;
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
	return fd;
}

static bool add(char *entry, size_t *len, const void *bytes, size_t n)
{
	if (n > JOURNAL_ENTRY_MAX - *len)
		return false;
	memcpy(entry + *len, bytes, n);
	*len += n;
	return true;
}

static bool add_field(char *entry, size_t *len, const struct journal_field *field)
{
	uint64_t size = htole64(field->len);
	if (!add(entry, len, field->name, strlen(field->name)))
		return false;
	/* A value with line ends has its length in front in place of the "=". */
	bool framed = field->len && memchr(field->value, '\n', field->len);
	bool begun = framed ? add(entry, len, "\n", 1) && add(entry, len, &size, sizeof size) : add(entry, len, "=", 1);
	return begun && add(entry, len, field->value, field->len) && add(entry, len, "\n", 1);
}

bool journal_send(int fd, const char *path, const struct journal_field *fields, size_t n)
{
	char entry[JOURNAL_ENTRY_MAX];
	size_t len = 0, path_len = strlen(path);
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	if (fd < 0 || path_len >= sizeof address.sun_path)
		return false;
	memcpy(address.sun_path, path, path_len);
	for (size_t i = 0; i < n; i++)
		if (!add_field(entry, &len, &fields[i]))
			return false;
	return sendto(fd, entry, len, MSG_DONTWAIT | MSG_NOSIGNAL, (struct sockaddr *)&address, sizeof address) ==
	       (ssize_t)len;
}
