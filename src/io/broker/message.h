/* message - what a broker and its clients say to each other over shm.
 *
 * Each datagram has a tail of 8 bytes: which peer of the broker's device it is for or from. One for
 * LEND_HOSTD_CONTROL is a message of its own. The client asks OPEN once, RESOLVE whenever it needs
 * an address, and the broker answers under the question's token. Peers are kept by the broker until
 * UNPIN, which it heeds only if nothing more came from the peer than the client has seen.
 * Both sides are one user's, and each looks at every length and number of the other.
 * Layer: io. */
#ifndef LEND_IO_BROKER_MESSAGE_H
#define LEND_IO_BROKER_MESSAGE_H

#include <stdint.h>

#define LEND_HOSTD_CONTROL UINT32_MAX

enum { LEND_HOSTD_VERSION = 1, LEND_HOSTD_TEXT = 104, LEND_HOSTD_PEERS = 65536 };

struct lend_hostd_tail {
	uint32_t peer;
	uint16_t n;   /* from the broker: how many came from that peer, modulo 2^16 */
	uint8_t ecn;  /* from the broker: as in struct lend_in */
	uint8_t what; /* from the broker: 1: the peer is gone, and this is all; to it: the class */
};
_Static_assert(sizeof(struct lend_hostd_tail) == 8, "no padding");

enum lend_hostd_op { LEND_HOSTD_OPEN = 1, LEND_HOSTD_RESOLVE, LEND_HOSTD_UNPIN };

struct lend_hostd_msg {
	uint32_t op, version;
	uint32_t token;  /* the answer's is the question's; UNPIN: n of the last that was seen */
	int32_t rc;      /* of an answer: 0 or -errno, and why in text */
	uint32_t peer;   /* RESOLVE's answer, UNPIN's question */
	uint32_t mtu;    /* OPEN's answer: what is left for the client */
	uint8_t checked; /* so are these: as in struct lend_path */
	uint8_t proven;
	uint8_t listens; /* OPEN's question: to be reached by others */
	uint8_t zero[5];
	char text[LEND_HOSTD_TEXT]; /* an address, or why */
};
_Static_assert(sizeof(struct lend_hostd_msg) == 136, "no padding");

#endif
