/* pcapng_reader - strict reader of pcapng files.
 *
 * It follows the text of the format (draft-ietf-opsawg-pcapng) and shares no code with the writer.
 * Layer: test. */
#ifndef LEND_TEST_IO_PCAPNG_READER_H
#define LEND_TEST_IO_PCAPNG_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BLOCKS_MAX = 20000, BLOCKS_TAGS = 256 };

struct blocks_packet {
	uint32_t section,
	    interface; /* numbers of the section, from 1, and of the interface, from 0 */
	uint64_t time, lost;
	uint32_t kept, len;
	const uint8_t *data;
	int way; /* direction: 1 received, 2 sent, 0 not recorded */
	char comment[64];
};

struct blocks {
	uint8_t *bytes;
	size_t len;
	uint32_t sections, interfaces; /* number of interfaces in all sections */
	char name[8][64],
	    program[64]; /* name: of the first interfaces; program: of the last section */
	uint32_t snap;   /* snap length of the last interface */
	uint32_t n;
	struct blocks_packet packet[BLOCKS_MAX];
};

/* Reads a whole file, or memory (copied). A malformed block is a Criterion failure. */
struct blocks *blocks_read(const char *path);
struct blocks *blocks_parse(const void *bytes, size_t len);
void blocks_free(struct blocks *blocks);

/* Tags and header in front of a packet's datagram, and the datagram's bytes in the file. */
struct blocks_lead {
	uint8_t event, flags;
	uint32_t peer, carrier;
	char address[128], source[64], destination[64]; /* IP:PORT, or "" */
	const uint8_t *data;
	uint32_t kept, len;
};
void blocks_lead(const struct blocks_packet *packet, struct blocks_lead *lead);

#endif
