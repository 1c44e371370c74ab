/* capture - stands in front of a carrier and writes down what passes.
 *
 * It takes the place of the carrier's operations, so all else of the carrier (path, counters,
 * address) is the carrier's own, and one that is not captured pays nothing. Layer: io. Threads: the
 * carrier's. Ownership: it ends with the carrier.
 *
 * Each datagram is a packet of link type 252: tags that name the dissector and, where both ends
 * have one, IP addresses and ports; then the lead below, and the datagram as the carrier saw it.
 */
#ifndef LEND_IO_CAPTURE_CAPTURE_H
#define LEND_IO_CAPTURE_CAPTURE_H

#include "io/io.h"

#define LEND_CAPTURE_DISSECTOR "lend_capture"

/* What stands before a datagram, little endian: version 1, event 1, flags 1, length of text 1, peer
 * 4, carrier 4 (of this process, from 1), text (the peer's address, without zero at the end). */
enum { LEND_CAPTURE_VERSION = 1, LEND_CAPTURE_LEAD = 12 };
enum lend_capture_event {
	LEND_CAPTURE_SENT = LEND_SENT,
	LEND_CAPTURE_FULL = LEND_SENT_FULL, /* the carrier did not take it now */
	LEND_CAPTURE_DEAD = LEND_SENT_DEAD, /* nor will it ever */
	LEND_CAPTURE_RECEIVED,
	LEND_CAPTURE_GONE, /* no datagram: the peer hung up */
};
enum lend_capture_flags { LEND_CAPTURE_CHECKED = 1 }; /* datagrams have no trailer */

struct lend_capture_file;

/* Opens the file that config or else $LEND_CAPTURE asks for, so that it is there, or fails, before
 * any carrier is opened; carriers of the process then share it. 0 with *file, which is NULL when
 * none is asked for; otherwise as lend_capture_start(). The caller closes it. */
int lend_capture_open(const struct lend_io_config *config, struct lend_capture_file **file);
/* Captures io from now on if config or else $LEND_CAPTURE says so ($LEND_CAPTURE_SNAP and
 * $LEND_CAPTURE_LIMIT with it). 0; or with lend_why_text() set -EINVAL (a number that is none),
 * -ENOMEM, -errno of the file; then io is as it was. */
int lend_capture_start(const struct lend_io_config *config, struct lend_io *io);

#endif
