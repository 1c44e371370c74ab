/* lend/one_sided.h - memory that the peer of a session reads without this process's CPU.
 *
 * Over carriers with the trait LEND_CARRIER_ONE_SIDED, one end shows memory, sends what
 * lend_show() wrote in a message, and the other end reads the memory with it. Messages work in all
 * sessions: use them wherever a function here fails. Memory nodes and arguments in the caller's
 * memory do so.
 *
 * Sessions that are encrypted or captured have no one-sided reads.
 *
 * Threads: the endpoint's. */
#ifndef LEND_ONE_SIDED_H
#define LEND_ONE_SIDED_H

#include <sys/uio.h>

#include <lend/rpc.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Limits. */
enum {
	LEND_SHOW_RUNS = 32, /* runs of memory in one show; pieces of memory that one read fills */
	LEND_SHOWN_MAX = 1024, /* bytes that lend_show() writes at most */
};
/* Method by which two endpoints agree on one-sided reads. */
#define LEND_METHOD_ONE_SIDED 0x4c454e4fu

/* Returns whether one end of a session can read the other's memory now. If it cannot yet, it asks
 * the peer in the background: later calls may return true.
 * Returns: reads true: whether this end reads the peer's memory; false: the peer this end's. */
bool lend_one_sided(struct lend_ep *ep, lend_session session, bool reads);

/* Reports that the peer has no such link any more: lend_one_sided() is false, and asks the peer for
 * another one after some time. */
void lend_one_sided_lost(struct lend_ep *ep, lend_session session, bool reads);

/* Shows runs of memory to the session's peer alone, for reading, and writes what the peer needs.
 * The memory is shown until the peer has read it, lend_hide(), the end of the session, or 10 s
 * have passed; then hidden(arg) runs, once, and the peer's device can read it no more.
 * Returns: the bytes written to shown, at most LEND_SHOWN_MAX; -ENOTCONN: lend_one_sided() is
 * false; -E2BIG: more than LEND_SHOW_RUNS; -ENOMEM: too much is shown, or the memory cannot be
 * registered; -EIO: the device failed; -ESTALE: the session is gone. hidden does not run then.
 * Ownership: borrows runs; the memory is lent until hidden() runs. */
int lend_show(struct lend_ep *ep, lend_session session, const struct iovec *run, unsigned n,
	      void (*hidden)(void *arg), void *arg, void *shown);
/* Hides what was shown; hidden() runs before it returns. Without effect if it is hidden already.
 * Ownership: borrows shown: the bytes of lend_show(). */
void lend_hide(struct lend_ep *ep, const void *shown);

/* A read, in the caller's memory. */
struct lend_read {
	void (*done)(
	    struct lend_read *read); /* runs once, inside a turn, after a successful start */
	int err;              /* in done: 0, all bytes are there; -EIO: ask for them by message */
	lend_session session; /* the runtime's */
	uint64_t id;          /* the runtime's */
};
/* Starts to read all that the peer shows into pieces of memory of the same length in all, and then
 * reports to the peer that it was read, also after a failed start.
 * Returns: 0; -EINVAL: shown is malformed, or of another length; -ENOTCONN, -EAGAIN, -E2BIG,
 * -ENOMEM, -EIO: ask for the bytes by message; -ESTALE: the session is gone.
 * Ownership: borrows shown and to; read, and the memory of to, until done runs or lend_close(). */
int lend_read_start(struct lend_ep *ep, lend_session session, const void *shown, size_t len,
		    const struct iovec *to, unsigned n, struct lend_read *read);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
