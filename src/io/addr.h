/* addr - addresses of endpoints as people write them: "shm:shop", "shm:shop@/dev/dax0.0",
 * "udp:10.0.0.2:31850", "udp:[::1]:0".
 *
 * Layer: io. Any thread. Devices' addresses (dpdk, verbs, raw, hostd) are only told apart here;
 * their modules read the rest.
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
	LEND_SCHEME_HOSTD
};

enum { LEND_ADDR_NAME_MAX = 63, LEND_ADDR_HOST_MAX = 79, LEND_ADDR_PATH_MAX = 79 };

struct lend_addr {
	enum lend_scheme scheme;
	/* shm: the name; udp: the host without brackets; devices: all that follows. */
	char host[LEND_ADDR_HOST_MAX + 1];
	uint16_t port;                     /* udp */
	char path[LEND_ADDR_PATH_MAX + 1]; /* shm: memory that hosts share; "": this host's */
};

/* The scheme alone; NONE for anything else, NULL included. */
enum lend_scheme lend_addr_scheme(const char *text);
/* 0, or -EINVAL with a line that says what is wrong with the text. Resolves no names. */
int lend_addr_parse(const char *text, struct lend_addr *addr);

#endif
