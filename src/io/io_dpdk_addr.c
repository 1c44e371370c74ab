/* io_dpdk_addr - addresses of the form dpdk:KIND@IP:PORT[?key=value&...], IPv6 in brackets.
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
			 "%.100s: does not parse; write dpdk:ring@IP:PORT, dpdk:memif@IP:PORT, "
			 "dpdk:DEVICE@IP:PORT or dpdk:DEVICE@[IPV6]:PORT",
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

static bool read_ip(const char *text, struct lend_ip *ip)
{
	uint8_t four[4];

	if (inet_pton(AF_INET, text, four) != 1)
		return inet_pton(AF_INET6, text, ip) == 1 && ip->b[0] != 0xff;
	*ip = lend_ip_of4(four);
	return true;
}

static bool read_small(const char *text, uint32_t min, uint32_t max, uint16_t *value)
{
	uint32_t n;

	if (!read_number(text, max, &n) || n < min)
		return false;
	*value = (uint16_t)n;
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
		return address->has_from = read_ip(value, &address->from);
	if (strcmp(key, "via") == 0)
		return address->has_via = read_ip(value, &address->via);
	if (strcmp(key, "mac") == 0)
		return address->has_mac = read_mac(value, address->mac);
	if (strcmp(key, "vlan") == 0)
		return read_small(value, 1, 4094, &address->vlan);
	if (strcmp(key, "mtu") == 0)
		return read_small(value, 576, DPDK_FRAME_MAX - LEND_ETH_HEAD_MAX, &address->mtu);
	if (strcmp(key, "queues") == 0)
		return read_small(value, 1, DPDK_QUEUES_MAX, &address->queues);
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

/* text: IP:PORT or [IPV6]:PORT, cut in place. */
static bool read_host(char *text, struct dpdk_address *address)
{
	char *colon = strrchr(text, ':');
	bool six = text[0] == '[';

	if (colon == NULL || (six && colon[-1] != ']'))
		return false;
	colon[six ? -1 : 0] = '\0';
	return read_ip(text + six, &address->ip) && lend_ip_is4(&address->ip) != six &&
	       read_small(colon + 1, 0, 65535, &address->udp);
}

/* Both ends of a way speak the same IP; ring and memif only use it as a name. */
static bool is_consistent(const struct dpdk_address *address)
{
	bool four = lend_ip_is4(&address->ip);

	if (address->kind != DPDK_DEVICE)
		return four;
	return (!address->has_from || lend_ip_is4(&address->from) == four) &&
	       (!address->has_via || lend_ip_is4(&address->via) == four);
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
	return is_consistent(address) ? 0 : bad(text);
}

int dpdk_address_print(const char *device, const struct lend_eth_end *end, char *text, size_t cap)
{
	bool four = lend_ip_is4(&end->ip);
	char ip[INET6_ADDRSTRLEN], tag[16] = "";
	int n;

	if (inet_ntop(four ? AF_INET : AF_INET6, end->ip.b + (four ? 12 : 0), ip, sizeof(ip)) ==
	    NULL)
		return -ERANGE;
	if (end->vlan)
		(void)snprintf(tag, sizeof(tag), "?vlan=%u", end->vlan);
	n = snprintf(text, cap, four ? "dpdk:%s@%s:%u%s" : "dpdk:%s@[%s]:%u%s", device, ip,
		     end->udp, tag);
	return n < 0 || (size_t)n >= cap ? -ERANGE : 0;
}
