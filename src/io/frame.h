/* frame - Ethernet, IPv4 and UDP around a datagram, for carriers that drive a network card
 * themselves (dpdk, raw).
 *
 * Layer: io. Threads: any; pure. Bytes are the caller's.
 */
#ifndef LEND_IO_FRAME_H
#define LEND_IO_FRAME_H

#include <stdint.h>

enum { LEND_FRAME_HEAD = 14 + 20 + 8 };

enum lend_frame_verdict { LEND_FRAME_OURS, LEND_FRAME_FOREIGN, LEND_FRAME_BAD };

/* What a frame says; the pointers are into it. */
struct lend_frame {
	const uint8_t *mac, *key; /* sender's: MAC; IP and UDP port */
	const uint8_t *data;
	uint32_t len;
	uint32_t ip;
	uint16_t udp;
	uint8_t ecn; /* congestion experienced */
};

/* One end of a flow: where frames come from or go to. */
struct lend_frame_end {
	uint8_t mac[6];
	uint16_t udp;
	uint32_t ip; /* host order */
};

/* The head of every frame to one peer; lengths and checksum are filled in per frame. */
struct lend_frame_head {
	uint8_t bytes[LEND_FRAME_HEAD];
	uint32_t sum; /* of the IPv4 head's constant words */
};

/* Reads a frame of len bytes for ip and udp; frame is filled only for LEND_FRAME_OURS. */
enum lend_frame_verdict lend_frame_read(const uint8_t *bytes, uint32_t len, uint32_t ip,
					uint16_t udp, struct lend_frame *frame);
void lend_frame_head(struct lend_frame_head *head, const struct lend_frame_end *to,
		     const struct lend_frame_end *from);
/* Writes the head of a frame whose payload has len bytes. */
void lend_frame_write(uint8_t *bytes, const struct lend_frame_head *head, uint32_t len);

#endif
