/* captured - two carriers of one kind that are captured into one file, in a folder of the test.
 * Layer: test. */
#ifndef LEND_TEST_IO_CAPTURED_H
#define LEND_TEST_IO_CAPTURED_H

#include "io/pcapng_reader.h"
#include "io/conform.h"

/* Rows of the conformance suite over captured carriers; the capture is discarded. */
extern const struct conform_row captured_shm, captured_udp;

/* Create and remove the folder, before and after a test. */
void captured_begin(void);
void captured_end(void);
/* Opens a carrier with a capture. name: a file in that folder, or an absolute path. */
struct lend_io *captured_open(const char *listen, const char *peer, const char *name, uint32_t snap,
			      uint64_t limit);
struct blocks *captured_read(const char *name);
void captured_path(const char *name, char path[160]);

struct captured {
	struct lend_io *server, *client;
	uint32_t peer;
	char address[104];
};
struct captured captured_ends(const struct conform_row *row, const char *name, uint32_t snap,
			      uint64_t limit);
void captured_close(struct captured *e);
/* Sends and receives one at a time, so that no datagram is lost. */
void captured_exchange(struct captured *e, uint32_t seq, uint32_t len);

#endif
