#include "io/verbs/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/last_error.h"

static const uint8_t mapped[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

bool verbs_ip_is_v4(const uint8_t ip[16])
{
	return memcmp(ip, mapped, sizeof(mapped)) == 0;
}

socklen_t verbs_ip_to(const uint8_t ip[16], uint16_t port, struct sockaddr_storage *to)
{
	struct sockaddr_in *in = (void *)to;
	struct sockaddr_in6 *in6 = (void *)to;

	memset(to, 0, sizeof(*to));
	if (verbs_ip_is_v4(ip)) {
		*in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
		memcpy(&in->sin_addr, ip + 12, 4);
		return sizeof(*in);
	}
	*in6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port)};
	memcpy(&in6->sin6_addr, ip, 16);
	return sizeof(*in6);
}

void verbs_ip_from(const struct sockaddr *from, uint8_t ip[16])
{
	if (from->sa_family == AF_INET) {
		memcpy(ip, mapped, sizeof(mapped));
		memcpy(ip + 12, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
	} else {
		memcpy(ip, &((const struct sockaddr_in6 *)(const void *)from)->sin6_addr, 16);
	}
}

void verbs_ip_print(const uint8_t ip[16], char *text, size_t cap)
{
	bool v4 = verbs_ip_is_v4(ip);

	if (inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? ip + 12 : ip, text, (socklen_t)cap) == NULL)
		text[0] = '\0';
}

static int fail_address(const char *text, const char *what)
{
	return lend_fail(EINVAL,
			 "%.100s: %s; write verbs:DEVICE@IP:PORT[?gid=N&pkey=0xN&tclass=N&mtu=N"
			 "&sl=N&ring=N&srq=1&rc=N] (DEVICE as rdma link shows it, or any)",
			 text, what);
}

/* Reads a number: decimal, or hexadecimal after 0x. */
static bool read_number(const char *text, uint32_t max, uint32_t *value)
{
	bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	const char *digits = hex ? text + 2 : text;
	size_t n = strspn(digits, hex ? "0123456789abcdefABCDEF" : "0123456789");
	unsigned long long number;

	if (n == 0 || n > 10 || digits[n] != '\0')
		return false;
	number = strtoull(digits, NULL, hex ? 16 : 10);
	*value = (uint32_t)number;
	return number <= max;
}

static bool read_option(const char *key, const char *value, struct verbs_address *address)
{
	static const struct {
		const char *key;
		uint32_t min, max;
	} known[] = {{"gid", 0, 65535},  {"pkey", 1, 65535},      {"tclass", 0, 255},
		     {"mtu", 256, 4096}, {"sl", 0, 15},           {"ring", 16, VERBS_RING_MAX},
		     {"srq", 0, 1},      {"rc", 0, VERBS_RC_MAX}, {"qp", 2, 0xffffff}};
	uint32_t n = 0, i = 0;

	while (i < sizeof(known) / sizeof(known[0]) && strcmp(key, known[i].key) != 0)
		i++;
	if (i == sizeof(known) / sizeof(known[0]) || !read_number(value, known[i].max, &n) ||
	    n < known[i].min)
		return false;
	switch (i) {
	case 0:
		address->gid = (int32_t)n;
		break;
	case 1:
		address->pkey = (uint16_t)n;
		break;
	case 2:
		address->tclass = (uint8_t)n;
		break;
	case 3:
		address->mtu = n;
		break;
	case 4:
		address->sl = (int32_t)n;
		break;
	case 5:
		address->ring = n;
		break;
	case 6:
		address->srq = n == 1;
		break;
	case 7:
		address->rc = n;
		break;
	default:
		address->qp = n;
	}
	return true;
}

static bool read_options(char *text, struct verbs_address *address)
{
	char *save = NULL;

	for (char *word = strtok_r(text, "&", &save); word; word = strtok_r(NULL, "&", &save)) {
		char *value = strchr(word, '=');

		if (value == NULL)
			return false;
		*value++ = '\0';
		if (!read_option(word, value, address))
			return false;
	}
	return true;
}

/* Reads IP:PORT or [IPV6]:PORT from text, and cuts text in place. */
static bool read_host(char *text, struct verbs_address *address)
{
	char *colon = strrchr(text, ':');
	uint32_t port;
	size_t len;

	if (colon == NULL)
		return false;
	*colon = '\0';
	len = strlen(text);
	if (!read_number(colon + 1, 65535, &port))
		return false;
	address->port = (uint16_t)port;
	if (text[0] == '[' && len > 2 && text[len - 1] == ']') {
		text[len - 1] = '\0';
		return inet_pton(AF_INET6, text + 1, address->ip) == 1;
	}
	memcpy(address->ip, mapped, sizeof(mapped));
	return inet_pton(AF_INET, text, address->ip + 12) == 1;
}

static bool is_unspecified(const uint8_t ip[16])
{
	static const uint8_t zero[16];

	return memcmp(verbs_ip_is_v4(ip) ? ip + 12 : ip, zero, verbs_ip_is_v4(ip) ? 4 : 16) == 0;
}

int verbs_address_parse(const char *text, struct verbs_address *address)
{
	char copy[200];
	char *at, *options;

	*address =
	    (struct verbs_address){.gid = -1, .sl = -1, .ring = VERBS_RING, .rc = VERBS_RC_MAX};
	if (strncmp(text, "verbs:", 6) != 0 || strlen(text) >= sizeof(copy))
		return fail_address(text, "no verbs address");
	memcpy(copy, text + 6, strlen(text) - 5);
	options = strchr(copy, '?');
	if (options)
		*options++ = '\0';
	at = strchr(copy, '@');
	if (at == NULL || at == copy || (size_t)(at - copy) >= sizeof(address->device))
		return fail_address(text, "no device before the @");
	*at = '\0';
	if (!read_host(at + 1, address))
		return fail_address(text, "IP or port does not parse");
	if (is_unspecified(address->ip))
		return fail_address(
		    text, "an RDMA endpoint has one address: name the interface's own IP");
	if (options && !read_options(options, address))
		return fail_address(text, "an option is unknown, or its value out of range");
	memcpy(address->device, copy, strlen(copy) + 1);
	return 0;
}

int verbs_address_print(const char *device, const uint8_t ip[16], uint16_t port, uint32_t qp,
			char *text, size_t cap)
{
	char host[INET6_ADDRSTRLEN];
	bool v4 = verbs_ip_is_v4(ip);
	int n, more = 0;

	verbs_ip_print(ip, host, sizeof(host));
	n = snprintf(text, cap, "verbs:%s@%s%s%s:%u", device, v4 ? "" : "[", host, v4 ? "" : "]",
		     port);
	if (qp != 0 && n > 0 && (size_t)n < cap)
		more = snprintf(text + n, cap - (size_t)n, "?qp=%u", qp);
	return n < 0 || more < 0 || (size_t)(n + more) >= cap ? -ERANGE : 0;
}

/* RoCE v2 over IPv4 puts its IPv4 header into the last 20 bytes; the bytes before it are undefined.
 * All other datagrams have a GRH, which has the form of an IPv6 header. The GRH is tested first: an
 * IPv4 header could pass as one only with the source 0.0.255.255. */
bool verbs_grh_read(const uint8_t grh[VERBS_GRH], const uint8_t own[16], uint8_t from[16],
		    uint8_t *tclass)
{
	const uint8_t *v4 = grh + 20;

	if (grh[0] >> 4 == 6 && memcmp(grh + 24, own, 16) == 0) {
		memcpy(from, grh + 8, 16);
		*tclass = (uint8_t)((grh[0] & 15) << 4 | grh[1] >> 4);
		return true;
	}
	if (!verbs_ip_is_v4(own) || v4[0] != 0x45 || memcmp(v4 + 16, own + 12, 4) != 0)
		return false;
	memcpy(from, mapped, sizeof(mapped));
	memcpy(from + 12, v4 + 12, 4);
	*tclass = v4[1];
	return true;
}
