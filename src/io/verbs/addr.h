/* verbs/addr - the code that needs no device: addresses verbs:DEV@IP:PORT[?key=value&...], and the
 * 40 bytes in front of each received datagram.
 *
 * Layer: io, module lend_io_verbs.so. Threads: any. A GID is 16 bytes; that of an IPv4 address is
 * ::ffff:a.b.c.d.
 */
#ifndef LEND_IO_VERBS_ADDR_H
#define LEND_IO_VERBS_ADDR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { VERBS_GRH = 40, VERBS_RING = 1024, VERBS_RING_MAX = 1 << 15, VERBS_RC_MAX = 64 };

struct verbs_address {
	char device[64]; /* an RDMA device's name, or "any" */
	uint8_t ip[16];  /* IP address, as a GID */
	uint16_t port;
	int32_t gid;    /* index in the port's table, -1: the one of that IP */
	int32_t sl;     /* service level, -1: the path's */
	uint16_t pkey;  /* 0: the port's first */
	uint8_t tclass; /* traffic class: DSCP and ECN */
	bool srq;       /* one receive ring for all such endpoints of the process and device */
	uint32_t mtu;   /* MTU; 0: that of the port */
	uint32_t ring;  /* number of receives to keep posted */
	uint32_t rc;    /* links for one-sided reads, each an RC queue pair; 0: none */
	uint32_t qp;    /* the peer's queue pair number, if known; 0: ask by rdma_cm */
};

/* Parses an address: 0, or -EINVAL with an error text. */
int verbs_address_parse(const char *text, struct verbs_address *address);
/* Prints an address, without a queue pair number if qp is 0. 0 or -ERANGE. */
int verbs_address_print(const char *device, const uint8_t ip[16], uint16_t port, uint32_t qp,
			char *text, size_t cap);
/* Prints the IP as text, without a port. */
void verbs_ip_print(const uint8_t ip[16], char *text, size_t cap);
/* Fills *to, in the address family of that IP. Returns its length. */
socklen_t verbs_ip_to(const uint8_t ip[16], uint16_t port, struct sockaddr_storage *to);
void verbs_ip_from(const struct sockaddr *from, uint8_t ip[16]);
bool verbs_ip_is_v4(const uint8_t ip[16]);

/* Reads the sender's GID and the traffic class. False: the datagram was sent to another GID than
 * `own`. */
bool verbs_grh_read(const uint8_t grh[VERBS_GRH], const uint8_t own[16], uint8_t from[16],
		    uint8_t *tclass);

/* Returns the traffic class byte for datagrams of this precedence. It keeps the two ECN bits of the
 * address's own traffic class. Precedence 0 belongs to the default classes and keeps the whole
 * byte. */
static inline uint8_t verbs_traffic_class(uint8_t tclass, uint8_t precedence)
{
	return precedence ? (uint8_t)(precedence << 5 | (tclass & 3)) : tclass;
}

#endif
