/* pcapng - the blocks of a capture file, in the format that Wireshark reads.
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
	LEND_PCAPNG_UPPER_PDU = 252, /* link type: each packet names its own dissector */
	LEND_PCAPNG_TEXT_MAX = 255,  /* bytes of a text; longer ones are cut off */
	LEND_PCAPNG_HEAD_MAX = 1024, /* bytes of a section's or an interface's block */
};

struct lend_pcapng_bytes {
	const void *data;
	uint32_t len;
};

struct lend_pcapng_packet {
	uint32_t interface;  /* number of its interface, in order of their blocks, from 0 */
	uint64_t time;       /* ns since 1970 */
	uint32_t len, kept;  /* bytes of the packet; the first kept of them are in the file */
	bool out;            /* sent by this interface */
	uint64_t lost;       /* packets missing in the file between the last one and this */
	const char *comment; /* or NULL */
};

/* Write a section or interface block. Return its bytes, at most LEND_PCAPNG_HEAD_MAX. */
size_t lend_pcapng_section(uint8_t *out, const char *program);
size_t lend_pcapng_interface(uint8_t *out, const char *name, const char *text, uint32_t snap);

/* Returns the bytes of this packet's block. */
size_t lend_pcapng_packet_len(const struct lend_pcapng_packet *packet);
/* Writes the packet's block. The packet is the concatenation of n parts; together they have at
 * least packet->kept bytes. */
void lend_pcapng_packet(uint8_t *out, const struct lend_pcapng_packet *packet,
			const struct lend_pcapng_bytes *part, uint32_t n);

/* Returns how many of len bytes of blocks belong to whole blocks. */
size_t lend_pcapng_whole(const uint8_t *blocks, size_t len);

#endif
