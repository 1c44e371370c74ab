/* capture - wraps a carrier and records its datagrams in a file.
 *
 * It replaces the carrier's operations. All else (path, counters, address) stays the carrier's own,
 * so a carrier that is not captured has no extra cost. Layer: io. Threads: the carrier's.
 * Ownership: it ends with the carrier.
 *
 * Each datagram is a packet of link type 252: tags that name the dissector and, where both ends
 * have one, IP addresses and ports; then the lead below, and the datagram as the carrier saw it.
 */
#ifndef LEND_IO_CAPTURE_CAPTURE_H
#define LEND_IO_CAPTURE_CAPTURE_H

#include "io/io.h"

#define LEND_CAPTURE_DISSECTOR "lend_capture"

/* Header in front of a datagram, little endian: version 1, event 1, flags 1, length of text 1,
 * peer 4, carrier 4 (of this process, from 1), text (the peer's address, without zero at the
 * end). */
enum { LEND_CAPTURE_VERSION = 1, LEND_CAPTURE_HEADER = 12 };
enum lend_capture_event {
	LEND_CAPTURE_SENT = LEND_SENT,
	LEND_CAPTURE_FULL = LEND_SENT_FULL, /* the carrier had no room for it */
	LEND_CAPTURE_DEAD = LEND_SENT_DEAD, /* its peer is gone: it can never be sent */
	LEND_CAPTURE_RECEIVED,
	LEND_CAPTURE_GONE, /* no datagram: the peer hung up */
};
enum lend_capture_flags { LEND_CAPTURE_CHECKED = 1 }; /* datagrams have no trailer */

struct lend_capture_file;

/* Opens the file that config or else $LEND_CAPTURE names. Call it before any carrier is opened,
 * so that errors of the file are reported first; carriers of the process then share the file. 0
 * with *file, which is NULL when no capture is requested; otherwise as lend_capture_start(). The
 * caller closes the file. */
int lend_capture_open(const struct lend_io_config *config, struct lend_capture_file **file);
/* Captures io from now on if config or else $LEND_CAPTURE names a file ($LEND_CAPTURE_SNAP and
 * $LEND_CAPTURE_LIMIT with it). 0; or with lend_why_text() set -EINVAL (not a number), -ENOMEM,
 * -errno of the file; then io is unchanged. */
int lend_capture_start(const struct lend_io_config *config, struct lend_io *io);

#endif
