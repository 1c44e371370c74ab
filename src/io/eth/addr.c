/* eth/addr - see addr.h. */
#include "io/eth/addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static bool read_number(const char *text, uint32_t min, uint32_t max, uint16_t *value)
{
	size_t digits = strspn(text, "0123456789");
	unsigned long n = strtoul(text, NULL, 10);

	*value = (uint16_t)n;
	return digits > 0 && digits < 6 && text[digits] == '\0' && n >= min && n <= max;
}

/* Reads the address of one host; rejects multicast groups. */
static bool read_ip(const char *text, struct lend_ip *ip)
{
	uint8_t four[4];

	if (inet_pton(AF_INET, text, four) != 1)
		return inet_pton(AF_INET6, text, ip) == 1 && ip->b[0] != 0xff;
	*ip = lend_ip_of4(four);
	return four[0] < 224;
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

static bool read_value(enum lend_eth_key key, const char *text, struct lend_eth_address *address)
{
	switch (key) {
	case LEND_ETH_FROM:
		return read_ip(text, &address->from);
	case LEND_ETH_VIA:
		return read_ip(text, &address->via);
	case LEND_ETH_MAC:
		return read_mac(text, address->mac);
	case LEND_ETH_VLAN:
		return read_number(text, 1, 4094, &address->vlan);
	case LEND_ETH_MTU:
		return read_number(text, 576, 9216, &address->mtu);
	case LEND_ETH_LINKS:
		return read_number(text, 1, 65535, &address->links);
	case LEND_ETH_QUEUES:
		return read_number(text, 1, 65535, &address->queues);
	}
	return false;
}

static bool read_option(char *word, uint32_t keys, struct lend_eth_address *address)
{
	static const char *const name[] = {"from", "via", "mac", "vlan", "mtu", "links", "queues"};
	char *value = strchr(word, '=');

	if (value == NULL)
		return false;
	*value++ = '\0';
	for (uint32_t i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
		if (!(keys >> i & 1) || strcmp(word, name[i]) != 0)
			continue;
		address->given |= 1u << i;
		return read_value((enum lend_eth_key)(1u << i), value, address);
	}
	return false;
}

/* Reads IP:PORT or [IPV6]:PORT from text, and cuts text in place. */
static bool read_host(char *text, struct lend_eth_address *address)
{
	char *colon = strrchr(text, ':');
	bool six = text[0] == '[';

	if (colon == NULL || (six && colon[-1] != ']'))
		return false;
	colon[six ? -1 : 0] = '\0';
	return read_ip(text + six, &address->ip) && lend_ip_is4(&address->ip) != six &&
	       read_number(colon + 1, 0, 65535, &address->udp);
}

/* Returns whether all addresses have the same IP version. */
static bool is_consistent(const struct lend_eth_address *address)
{
	bool four = lend_ip_is4(&address->ip);

	return (!(address->given & LEND_ETH_FROM) || lend_ip_is4(&address->from) == four) &&
	       (!(address->given & LEND_ETH_VIA) || lend_ip_is4(&address->via) == four);
}

bool lend_eth_address_parse(const char *scheme, const char *text, uint32_t keys,
			    struct lend_eth_address *address)
{
	size_t prefix = strlen(scheme);
	char copy[200], *at, *options, *save = NULL;

	memset(address, 0, sizeof(*address));
	if (strncmp(text, scheme, prefix) != 0 || text[prefix] != ':' ||
	    strlen(text) >= sizeof(copy))
		return false;
	strcpy(copy, text + prefix + 1);
	options = strchr(copy, '?');
	if (options)
		*options++ = '\0';
	at = strrchr(copy, '@');
	if (at == NULL || at == copy || (size_t)(at - copy) >= sizeof(address->device))
		return false;
	*at = '\0';
	memcpy(address->device, copy, (size_t)(at - copy));
	if (!read_host(at + 1, address))
		return false;
	for (char *word = options ? strtok_r(options, "&", &save) : NULL; word;
	     word = strtok_r(NULL, "&", &save)) {
		if (!read_option(word, keys, address))
			return false;
	}
	return is_consistent(address);
}

int lend_eth_address_print(const char *scheme, const char *device, const struct lend_eth_end *end,
			   char *text, size_t cap)
{
	bool four = lend_ip_is4(&end->ip);
	char ip[INET6_ADDRSTRLEN], tag[16] = "";
	int n;

	if (inet_ntop(four ? AF_INET : AF_INET6, end->ip.b + (four ? 12 : 0), ip, sizeof(ip)) ==
	    NULL)
		return -ERANGE;
	if (end->vlan)
		(void)snprintf(tag, sizeof(tag), "?vlan=%u", end->vlan);
	n = snprintf(text, cap, four ? "%s:%s@%s:%u%s" : "%s:%s@[%s]:%u%s", scheme, device, ip,
		     end->udp, tag);
	return n < 0 || (size_t)n >= cap ? -ERANGE : 0;
}
