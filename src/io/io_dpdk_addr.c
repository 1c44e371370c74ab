/* io_dpdk_addr - addresses of the form dpdk:KIND@IP:PORT[?key=value&...].
 * Layer: io. Threads: any.
 */
#include "io/io_dpdk.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/why.h"

static int bad(const char *text)
{
	return lend_fail(EINVAL,
			 "%.100s: does not parse; write dpdk:ring@IP:PORT, dpdk:memif@IP:PORT or "
			 "dpdk:DEVICE@IP:PORT",
			 text);
}

static bool read_number(const char *text, uint32_t max, uint32_t *value)
{
	char *end;
	unsigned long n;

	if (*text < '0' || *text > '9')
		return false;
	n = strtoul(text, &end, 10);
	*value = (uint32_t)n;
	return *end == '\0' && n <= max;
}

static bool read_ip(const char *text, uint32_t *ip)
{
	struct in_addr in;

	if (inet_pton(AF_INET, text, &in) != 1)
		return false;
	*ip = ntohl(in.s_addr);
	return true;
}

static bool read_mac(const char *text, uint8_t mac[6])
{
	unsigned b[6];
	int end = 0;

	if (sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%n", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5],
		   &end) != 6 ||
	    text[end] != '\0')
		return false;
	for (int i = 0; i < 6; i++)
		mac[i] = (uint8_t)b[i];
	return true;
}

static bool read_option(const char *key, const char *value, struct dpdk_address *address)
{
	if (strcmp(key, "links") == 0)
		return read_number(value, DPDK_PORTS_MAX - 4, &address->links) &&
		       address->links > 0;
	if (strcmp(key, "from") == 0)
		return read_ip(value, &address->from);
	if (strcmp(key, "mac") == 0)
		return address->has_mac = read_mac(value, address->mac);
	return false;
}

static bool read_options(char *text, struct dpdk_address *address)
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

/* text: IP:PORT, cut in place. */
static bool read_host(char *text, struct dpdk_address *address)
{
	char *colon = strrchr(text, ':');
	uint32_t udp;

	if (colon == NULL)
		return false;
	*colon = '\0';
	if (!read_ip(text, &address->ip) || !read_number(colon + 1, 65535, &udp))
		return false;
	address->udp = (uint16_t)udp;
	return true;
}

int dpdk_address_parse(const char *text, struct dpdk_address *address)
{
	char copy[200];
	char *at, *options;

	memset(address, 0, sizeof(*address));
	address->links = DPDK_LINKS;
	if (strncmp(text, "dpdk:", 5) != 0 || strlen(text) >= sizeof(copy))
		return bad(text);
	memcpy(copy, text + 5, strlen(text) - 4);
	options = strchr(copy, '?');
	if (options)
		*options++ = '\0';
	at = strrchr(copy, '@');
	if (at == NULL || at == copy || (size_t)(at - copy) >= sizeof(address->device))
		return bad(text);
	*at = '\0';
	if (!read_host(at + 1, address) || (options && !read_options(options, address)))
		return bad(text);
	memcpy(address->device, copy, strlen(copy) + 1);
	address->kind = strcmp(copy, "ring") == 0    ? DPDK_RING
			: strcmp(copy, "memif") == 0 ? DPDK_MEMIF
						     : DPDK_DEVICE;
	return 0;
}

int dpdk_address_print(const char *device, uint32_t ip, uint16_t udp, char *text, size_t cap)
{
	int n = snprintf(text, cap, "dpdk:%s@%u.%u.%u.%u:%u", device, ip >> 24, ip >> 16 & 255,
			 ip >> 8 & 255, ip & 255, udp);

	return n < 0 || (size_t)n >= cap ? -ERANGE : 0;
}
