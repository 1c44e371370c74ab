#include "io/addr.h"

#include <errno.h>
#include <string.h>

#include "sys/last_error.h"

static const struct {
	const char *text;
	enum lend_scheme scheme;
} prefixes[] = {
    {"shm:", LEND_SCHEME_SHM},     {"udp:", LEND_SCHEME_UDP}, {"dpdk:", LEND_SCHEME_DPDK},
    {"verbs:", LEND_SCHEME_VERBS}, {"raw:", LEND_SCHEME_RAW}, {"broker:", LEND_SCHEME_BROKER},
};

enum lend_scheme lend_addr_scheme(const char *text)
{
	if (text == NULL)
		return LEND_SCHEME_NONE;
	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (strncmp(text, prefixes[i].text, strlen(prefixes[i].text)) == 0)
			return prefixes[i].scheme;
	return LEND_SCHEME_NONE;
}

enum { TEXT_MAX = 103 }; /* what struct lend_io_peer_info has room for */

static bool is_name_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '.' || c == '-' || c == '_';
}

static int parse_path(const char *text, const char *path, struct lend_addr *addr)
{
	if (path[0] != '/' || strlen(path) > LEND_ADDR_PATH_MAX || strlen(text) > TEXT_MAX)
		return lend_fail(EINVAL,
				 "%.80s: the path of the memory begins with '/', and all has at "
				 "most %d characters; write shm:NAME@/dev/dax0.0",
				 text, TEXT_MAX);
	memcpy(addr->path, path, strlen(path) + 1);
	return 0;
}

/* Parses NAME or NAME@PATH. A name becomes a file's: no slash, no leading dot, not too long for a
 * socket's path. */
static int parse_shm(const char *text, struct lend_addr *addr)
{
	const char *name = text + 4, *at = strchr(name, '@');
	size_t len = at != NULL ? (size_t)(at - name) : strlen(name);

	if (len == 0 || len > LEND_ADDR_NAME_MAX)
		return lend_fail(EINVAL, "%.80s: a shm name has 1 to %d characters; write shm:NAME",
				 text, LEND_ADDR_NAME_MAX);
	for (size_t i = 0; i < len; i++) {
		if (!is_name_char(name[i]) || name[0] == '.')
			return lend_fail(
			    EINVAL,
			    "%.80s: a shm name is made of letters, digits, '-', '_' and '.', "
			    "and does not begin with '.'",
			    text);
	}
	memcpy(addr->host, name, len);
	return at != NULL ? parse_path(text, at + 1, addr) : 0;
}

static int parse_port(const char *text, const char *digits, uint16_t *port)
{
	uint32_t value = 0;
	size_t n = strspn(digits, "0123456789");

	if (n == 0 || n > 5 || digits[n] != '\0')
		return lend_fail(EINVAL, "%.80s: the port is not a number; write udp:HOST:PORT",
				 text);
	for (size_t i = 0; i < n; i++)
		value = value * 10 + (uint32_t)(digits[i] - '0');
	if (value > UINT16_MAX)
		return lend_fail(EINVAL, "%.80s: no such port; choose one up to 65535", text);
	*port = (uint16_t)value;
	return 0;
}

static int parse_udp(const char *text, struct lend_addr *addr)
{
	const char *host = text + 4, *end;
	size_t len;
	bool bracket = host[0] == '[';

	if (bracket)
		end = strchr(++host, ']');
	else
		end = strrchr(host, ':');
	if (end == NULL || (bracket && end[1] != ':'))
		return lend_fail(EINVAL, "%.80s: no port; write udp:HOST:PORT or udp:[IPV6]:PORT",
				 text);
	len = (size_t)(end - host);
	if (len == 0 || len > LEND_ADDR_HOST_MAX)
		return lend_fail(EINVAL,
				 "%.80s: the host is empty or too long; write udp:HOST:PORT", text);
	if (!bracket && memchr(host, ':', len) != NULL)
		return lend_fail(EINVAL, "%.80s: put an IPv6 address in brackets: udp:[::1]:PORT",
				 text);
	memcpy(addr->host, host, len);
	addr->host[len] = '\0';
	return parse_port(text, end + 1 + bracket, &addr->port);
}

/* Copies the rest of a device's address (DEV@IP:PORT and more), which its carrier's module parses.
 */
static int parse_device(const char *text, struct lend_addr *addr)
{
	const char *rest = strchr(text, ':') + 1;
	size_t len = strlen(rest);

	if (len == 0 || len > LEND_ADDR_HOST_MAX)
		return lend_fail(EINVAL, "%.80s: write %.*sDEV@IP:PORT", text, (int)(rest - text),
				 text);
	memcpy(addr->host, rest, len + 1);
	return 0;
}

int lend_addr_parse(const char *text, struct lend_addr *addr)
{
	*addr = (struct lend_addr){.scheme = lend_addr_scheme(text)};
	switch (addr->scheme) {
	case LEND_SCHEME_SHM:
		return parse_shm(text, addr);
	case LEND_SCHEME_UDP:
		return parse_udp(text, addr);
	case LEND_SCHEME_DPDK:
	case LEND_SCHEME_VERBS:
	case LEND_SCHEME_RAW:
	case LEND_SCHEME_BROKER:
		return parse_device(text, addr);
	case LEND_SCHEME_NONE:
		break;
	}
	return lend_fail(EINVAL,
			 "%.80s: no address; write shm:NAME, udp:HOST:PORT, or dpdk:, verbs: or "
			 "raw:DEV@IP:PORT",
			 text == NULL ? "(none)" : text);
}
