/* blocks - reads pcapng files by the format's own text (draft-ietf-opsawg-pcapng), strictly, and
 * shares nothing with what writes them. */
#ifndef LEND_TEST_IO_BLOCKS_H
#define LEND_TEST_IO_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BLOCKS_MAX = 20000, BLOCKS_TAGS = 256 };

struct blocks_packet {
	uint32_t section, interface; /* from 1, from 0 */
	uint64_t time, lost;
	uint32_t kept, len;
	const uint8_t *data;
	int way; /* 1 in, 2 out, 0 not told */
	char comment[64];
};

struct blocks {
	uint8_t *bytes;
	size_t len;
	uint32_t sections, interfaces; /* interfaces of all sections */
	char name[8][64], program[64]; /* of the first interfaces; of the last section */
	uint32_t snap;                 /* of the last interface */
	uint32_t n;
	struct blocks_packet packet[BLOCKS_MAX];
};

/* All of a file or of memory (copied); a criterion failure where a block is not as it must be. */
struct blocks *blocks_read(const char *path);
struct blocks *blocks_parse(const void *bytes, size_t len);
void blocks_free(struct blocks *blocks);

/* The datagram behind the tags and the lead of a packet; its bytes in the file. */
struct blocks_lead {
	uint8_t event, flags;
	uint32_t peer, carrier;
	char address[128], source[64], destination[64]; /* IP:PORT, or "" */
	const uint8_t *data;
	uint32_t kept, len;
};
void blocks_lead(const struct blocks_packet *packet, struct blocks_lead *lead);

#endif
