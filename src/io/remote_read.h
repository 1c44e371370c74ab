/* remote_read - memory that a peer reads without a thread of its owner: an optional part of a
 * carrier.
 *
 * A link joins this end and a pinned peer in one direction: from the memory's owner to its reader.
 * One end offers a half of a link, the other answers it with the other half, the first accepts
 * that; the halves travel in messages. Then the owner shows memory, the keys travel in a message,
 * and the reader reads. Nothing in a half or a key is trusted: a wrong one breaks its link, and a
 * read over a broken link ends with an error.
 *
 * Layer: io. Threads: the carrier's.
 */
#ifndef LEND_IO_REMOTE_READ_H
#define LEND_IO_REMOTE_READ_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct lend_io;

enum lend_io_role { LEND_IO_OWNER, LEND_IO_READER };
enum {
	LEND_IO_HALF = 16, /* bytes of a half */
	LEND_IO_RUNS = 32, /* runs of memory in one show, and in the destination of one read */
};

/* What a reader needs to read one run. */
struct lend_io_key {
	uint64_t at, len;
	uint32_t key;
};

struct lend_io_read_end {
	void *user; /* as given to read() */
	int err;    /* 0: all bytes are there; else -errno */
};

struct lend_one_sided_ops {
	bool (*is_up)(struct lend_io *io, uint32_t peer, enum lend_io_role role);
	/* Makes a half of a link. 0; -EALREADY: one was offered or is up; -EAGAIN: all links are in
	 * use, or the last one to this peer broke a moment ago; -errno of the device. */
	int (*offer)(struct lend_io *io, uint32_t peer, enum lend_io_role role,
		     uint8_t half[LEND_IO_HALF]);
	/* Makes the other half to a peer's, as a link that is up; it replaces an earlier one. role:
	 * this end's. 0; -EINVAL: theirs is malformed; -errno as offer(). */
	int (*answer)(struct lend_io *io, uint32_t peer, enum lend_io_role role,
		      const uint8_t theirs[LEND_IO_HALF], uint8_t half[LEND_IO_HALF]);
	/* Completes an offered link. 0; -ESTALE: none is offered; -EINVAL, -errno: it is dropped.
	 * theirs NULL: the peer did not answer, or has no such link any more; it is dropped. */
	int (*accept)(struct lend_io *io, uint32_t peer, enum lend_io_role role,
		      const uint8_t *theirs);
	/* Shows n runs to the peer alone, until hide(), and writes their keys. Memory that was not
	 * registered is, for this time. 0; -ENOTCONN: no link is up; -errno: nothing is shown. */
	int (*show)(struct lend_io *io, uint32_t peer, const struct iovec *run, uint32_t n,
		    struct lend_io_key *key, uint32_t *shown);
	/* Ends that: when it returns, the device reads none of the memory any more. */
	void (*hide)(struct lend_io *io, uint32_t shown);
	/* Starts to read the runs of n keys into n_to pieces of memory, of the same length in all;
	 * the memory is the device's until ended() reports it. 0; -ENOTCONN; -EAGAIN: too many are
	 * under way; -E2BIG: too many pieces; -errno: nothing is read. */
	int (*read)(struct lend_io *io, uint32_t peer, const struct lend_io_key *key, uint32_t n,
		    const struct iovec *to, uint32_t n_to, void *user);
	/* Returns how many reads have ended, of those that were not reported yet: at most cap. */
	uint32_t (*ended)(struct lend_io *io, struct lend_io_read_end *end, uint32_t cap);
};

#endif
