/* file - a pcapng file that the carriers of one process fill together.
 *
 * Who opens the same path in one process shares one file, each as an interface of it. Datagrams are
 * put into a buffer; it is written when a carrier is about to sleep or closes, when it is full, and
 * after LEND_CAPTURE_FLUSH_NS. So a killed process leaves what it did until then. A file that
 * cannot be written stops the capture and nothing else: that is said once on stderr, and each
 * datagram that it misses is counted.
 *
 * Layer: io. Threads: any; a lock per file. Ownership: the last one that leaves closes it.
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

/* A carrier's place in a file; the carrier's memory. */
struct lend_capture_port {
	char name[128], text[128];
	uint32_t snap;    /* as its block says */
	uint32_t section; /* of the file, where it has been described; 0: nowhere */
	uint32_t id;      /* in that section */
	uint64_t lost;    /* not put since the last one that was */
};

/* The file of that path: %p in it becomes the process's id. The first in this process begins it
 * anew, later ones add to it; while another living process fills it, the id is put in front of the
 * suffix. limit: bytes after which it becomes PATH.1 and a new one begins; 0: none. 0, or -errno
 * with lend_why_text() set. */
int lend_capture_file_open(const char *path, uint64_t limit, struct lend_capture_file **file);
void lend_capture_file_close(struct lend_capture_file *file);

/* Around any number of puts. */
void lend_capture_file_begin(struct lend_capture_file *file);
void lend_capture_file_end(struct lend_capture_file *file);
/* Puts one datagram; false when the file cannot take it. packet's interface and lost are filled in
 * here. */
bool lend_capture_file_put(struct lend_capture_file *file, struct lend_capture_port *port,
			   struct lend_pcapng_packet *packet, const struct lend_pcapng_bytes *part,
			   uint32_t n);

/* Writes what waits. */
void lend_capture_file_flush(struct lend_capture_file *file);
/* The same when it has waited long enough; costs one load while nothing waits. */
void lend_capture_file_idle(struct lend_capture_file *file);

/* Nanoseconds since 1970. */
lend_ns lend_capture_now(void);

#endif
