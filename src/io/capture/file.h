/* file - a pcapng file that the carriers of one process write together.
 *
 * Carriers of one process that open the same path share one file; each is an interface in it.
 * Datagrams are put into a buffer. The buffer is written when a carrier is about to sleep or
 * closes, when it is full, and after LEND_CAPTURE_FLUSH_NS. So after a kill, the file has all
 * datagrams up to the last write. A file that cannot be written stops the capture and nothing else:
 * one message on stderr reports it, and each datagram that the file misses is counted.
 *
 * Layer: io. Threads: any; a lock per file. Ownership: the last carrier that leaves closes the
 * file.
 */
#ifndef LEND_IO_CAPTURE_FILE_H
#define LEND_IO_CAPTURE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "io/capture/pcapng.h"
#include "util/dgram.h"

#define LEND_CAPTURE_FLUSH_NS UINT64_C(100000000)
enum { LEND_CAPTURE_LIMIT_MIN = 65536, LEND_CAPTURE_FILES_MAX = 16 };

struct lend_capture_file;

/* A carrier's interface in a file, in the carrier's memory. */
struct lend_capture_port {
	char name[128], text[128];
	uint32_t snap;    /* snap length of its interface block */
	uint32_t section; /* section of the file that describes this interface; 0: none yet */
	uint32_t id;      /* number of the interface in that section */
	uint64_t lost;    /* datagrams lost since the last one that was put */
};

/* Opens the file of that path; %p in it becomes the process id. The first open in this process
 * truncates the file, later ones append to it. While another living process writes to it, the
 * process id is put in front of the suffix. limit: bytes after which the file is renamed to
 * PATH.1 and a new one begins; 0: none. 0, or -errno with lend_why_text() set. */
int lend_capture_file_open(const char *path, uint64_t limit, struct lend_capture_file **file);
void lend_capture_file_close(struct lend_capture_file *file);

/* Locks and unlocks the file around any number of puts. */
void lend_capture_file_begin(struct lend_capture_file *file);
void lend_capture_file_end(struct lend_capture_file *file);
/* Puts one datagram. False: the file cannot take it. Fills in packet's interface and lost. */
bool lend_capture_file_put(struct lend_capture_file *file, struct lend_capture_port *port,
			   struct lend_pcapng_packet *packet, const struct lend_pcapng_bytes *part,
			   uint32_t n);

/* Writes the buffer to the file. */
void lend_capture_file_flush(struct lend_capture_file *file);
/* Writes the buffer if LEND_CAPTURE_FLUSH_NS have passed since the last write. Costs one load while
 * the buffer is empty. */
void lend_capture_file_idle(struct lend_capture_file *file);

/* Returns nanoseconds since 1970. */
lend_ns lend_capture_now(void);

#endif
