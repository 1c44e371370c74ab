/* addr - parser for endpoint addresses: "shm:shop", "shm:shop@/dev/dax0.0", "udp:10.0.0.2:31850",
 * "udp:[::1]:0".
 *
 * Layer: io. Any thread. For device addresses (dpdk, verbs, raw, broker) it recognizes the scheme
 * only; their modules parse the rest.
 */
#ifndef LEND_IO_ADDR_H
#define LEND_IO_ADDR_H

#include <stdbool.h>
#include <stdint.h>

enum lend_scheme {
	LEND_SCHEME_NONE,
	LEND_SCHEME_SHM,
	LEND_SCHEME_UDP,
	LEND_SCHEME_DPDK,
	LEND_SCHEME_VERBS,
	LEND_SCHEME_RAW,
	LEND_SCHEME_BROKER
};

enum { LEND_ADDR_NAME_MAX = 63, LEND_ADDR_HOST_MAX = 79, LEND_ADDR_PATH_MAX = 79 };

struct lend_addr {
	enum lend_scheme scheme;
	/* shm: the name; udp: the host without brackets; devices: the rest of the address. */
	char host[LEND_ADDR_HOST_MAX + 1];
	uint16_t port; /* udp: port number */
	char path[LEND_ADDR_PATH_MAX +
		  1]; /* shm: memory that several hosts map; "": memory of this host */
};

/* Returns the scheme alone. NONE for anything else, NULL included. */
enum lend_scheme lend_addr_scheme(const char *text);
/* Parses an address. 0, or -EINVAL with lend_why_text() set to the syntax error. Resolves no
 * names. */
int lend_addr_parse(const char *text, struct lend_addr *addr);

#endif
