/* eth/addr - addresses of carriers that drive a network device themselves:
 * SCHEME:DEVICE@IP:PORT[?key=value&...], IPv6 in brackets.
 *
 * Layer: io. Threads: any; pure.
 */
#ifndef LEND_IO_ETH_ADDR_H
#define LEND_IO_ETH_ADDR_H

#include "io/eth/eth.h"

/* Keys of an address; each carrier accepts a subset. */
enum lend_eth_key {
	LEND_ETH_FROM = 1,   /* from=IP: a client's own address */
	LEND_ETH_VIA = 2,    /* via=IP: the router to it */
	LEND_ETH_MAC = 4,    /* mac=aa:bb:cc:dd:ee:ff: its MAC, so that none is requested */
	LEND_ETH_VLAN = 8,   /* vlan=1..4094 */
	LEND_ETH_MTU = 16,   /* mtu=576..9216: of the link */
	LEND_ETH_LINKS = 32, /* links=1..65535 */
	LEND_ETH_QUEUES = 64 /* queues=1..65535 */
};

struct lend_eth_address {
	char device[64];
	struct lend_ip ip, from, via;
	uint8_t mac[6];
	uint16_t udp, vlan, mtu, links, queues; /* 0: not given, except for udp */
	uint32_t given;                         /* bitwise or of enum lend_eth_key */
};

/* Parses text. True when it is such an address, with no keys except those in `keys`. */
bool lend_eth_address_parse(const char *scheme, const char *text, uint32_t keys,
			    struct lend_eth_address *address);
/* Prints the address at which others reach an end: 0 or -ERANGE. */
int lend_eth_address_print(const char *scheme, const char *device, const struct lend_eth_end *end,
			   char *text, size_t cap);

#endif
