/* verbs/addr - what needs no device: addresses verbs:DEV@IP:PORT[?key=value&...], and the 40
 * bytes in front of each received datagram.
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

enum { VERBS_GRH = 40, VERBS_RING = 1024, VERBS_RING_MAX = 1 << 15 };

struct verbs_address {
	char device[64]; /* an RDMA device's name, or "any" */
	uint8_t ip[16];  /* as a GID */
	uint16_t port;
	int32_t gid;    /* index in the port's table, -1: the one of that IP */
	int32_t sl;     /* service level, -1: the path's */
	uint16_t pkey;  /* 0: the port's first */
	uint8_t tclass; /* traffic class: DSCP and ECN */
	bool srq;       /* one receive ring for all such endpoints of the process and device */
	uint32_t mtu;   /* 0: the port's */
	uint32_t ring;  /* receives posted */
	uint32_t qp;    /* a queue pair's number that is known already, 0: ask */
};

/* 0, or -EINVAL with a line that says what is wrong. */
int verbs_address_parse(const char *text, struct verbs_address *address);
/* qp 0: none. 0 or -ERANGE. */
int verbs_address_print(const char *device, const uint8_t ip[16], uint16_t port, uint32_t qp,
			char *text, size_t cap);
/* IP in words, without a port. */
void verbs_ip_print(const uint8_t ip[16], char *text, size_t cap);
/* The length of the sockaddr, which is of the family of that IP. */
socklen_t verbs_ip_to(const uint8_t ip[16], uint16_t port, struct sockaddr_storage *to);
void verbs_ip_from(const struct sockaddr *from, uint8_t ip[16]);
bool verbs_ip_is_v4(const uint8_t ip[16]);

/* The sender's GID and the traffic class; false: it was sent to another GID than ours. */
bool verbs_grh_read(const uint8_t grh[VERBS_GRH], const uint8_t own[16], uint8_t from[16],
		    uint8_t *tclass);

/* The traffic class of datagrams of this precedence: of the address's own the two bits of ECN stay,
 * and for precedence 0, which is of classes that nobody chose, all of it. */
static inline uint8_t verbs_traffic_class(uint8_t tclass, uint8_t precedence)
{
	return precedence ? (uint8_t)(precedence << 5 | (tclass & 3)) : tclass;
}

#endif
