/* pcapng - the blocks of a capture file, as Wireshark and its like read them.
 *
 * Each function writes one whole block to memory that the caller has sized: a section's head, an
 * interface, a packet with its options. Times are nanoseconds. Layer: io. Any thread; no state.
 */
#ifndef LEND_IO_CAPTURE_PCAPNG_H
#define LEND_IO_CAPTURE_PCAPNG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	LEND_PCAPNG_UPPER_PDU = 252, /* link type: what follows names its dissector itself */
	LEND_PCAPNG_TEXT_MAX = 255,  /* of a text below; the rest is cut off */
	LEND_PCAPNG_HEAD_MAX = 1024, /* of a section's or an interface's block */
};

struct lend_pcapng_bytes {
	const void *data;
	uint32_t len;
};

struct lend_pcapng_packet {
	uint32_t interface; /* in order of their blocks, from 0 */
	uint64_t time;      /* ns since 1970 */
	uint32_t len, kept; /* bytes it has; of them in the file, from the first on */
	bool out;           /* sent by this interface */
	uint64_t lost;      /* packets that the file does not have, between the last one and this */
	const char *comment; /* or NULL */
};

/* Bytes of the block that was written, at most LEND_PCAPNG_HEAD_MAX. */
size_t lend_pcapng_section(uint8_t *out, const char *program);
size_t lend_pcapng_interface(uint8_t *out, const char *name, const char *text, uint32_t snap);

/* Bytes that the block of this packet takes. */
size_t lend_pcapng_packet_len(const struct lend_pcapng_packet *packet);
/* The packet is the concatenation of n parts; together they are no shorter than packet->kept. */
void lend_pcapng_packet(uint8_t *out, const struct lend_pcapng_packet *packet,
			const struct lend_pcapng_bytes *part, uint32_t n);

/* How many of len bytes of blocks are whole ones. */
size_t lend_pcapng_whole(const uint8_t *blocks, size_t len);

#endif
