/* message - the format of messages between a broker and its clients over shm.
 *
 * Each datagram has a tail of 8 bytes: the peer of the broker's device that it is for or from. A
 * datagram for LEND_BROKER_CONTROL is a control message. The client sends OPEN once and RESOLVE for
 * each address; the broker replies with the token of the request. The broker keeps peers pinned
 * until UNPIN. It ignores an UNPIN if more datagrams came from the peer than the client has seen.
 * Both sides belong to one user, and each checks every length and number of the other. Layer: io.
 */
#ifndef LEND_IO_BROKER_MESSAGE_H
#define LEND_IO_BROKER_MESSAGE_H

#include <stdint.h>

#define LEND_BROKER_CONTROL UINT32_MAX

enum { LEND_BROKER_VERSION = 1, LEND_BROKER_TEXT = 104, LEND_BROKER_PEERS = 65536 };

struct lend_broker_tail {
	uint32_t peer;
	uint16_t n;   /* from the broker: number of datagrams from that peer, modulo 2^16 */
	uint8_t ecn;  /* from the broker: ECN mark, as in struct lend_in */
	uint8_t what; /* from the broker: 1: the peer is gone, and no data follows; to it: the
			 traffic class */
};
_Static_assert(sizeof(struct lend_broker_tail) == 8, "no padding");

enum lend_broker_op { LEND_BROKER_OPEN = 1, LEND_BROKER_RESOLVE, LEND_BROKER_UNPIN };

struct lend_broker_msg {
	uint32_t op, version;
	uint32_t token;  /* copied from request to reply; UNPIN: n of the last one seen */
	int32_t rc;      /* in a reply: 0, or -errno with the reason in text */
	uint32_t peer;   /* index of the peer, in RESOLVE's reply and in UNPIN's request */
	uint32_t mtu;    /* in OPEN's reply: MTU of the device's carrier */
	uint8_t checked; /* in OPEN's reply, like proven: as in struct lend_path */
	uint8_t proven;
	uint8_t listens; /* in OPEN's request: other endpoints shall reach the client */
	uint8_t zero[5];
	char text[LEND_BROKER_TEXT]; /* an address, or a reason */
};
_Static_assert(sizeof(struct lend_broker_msg) == 136, "no padding");

#endif
