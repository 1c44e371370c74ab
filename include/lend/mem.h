/* lend/mem.h - data on memory nodes, passed by reference.
 *
 * A reference names an immutable snapshot of bytes. It is plain data of 64 bytes: put it into any
 * message. A space is a private, mutable, copy-on-write view. Every operation is one call, ends
 * through its lend_op exactly once, and may be repeated by the network without effect.
 */
#ifndef LEND_MEM_H
#define LEND_MEM_H

#include <sys/uio.h>

#include "lend/rpc.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

struct lend_mem; /* a client of one or several memory nodes, on one endpoint */

struct lend_ref {
	uint64_t word[8]; /* opaque; unforgeable */
};
/* Into and out of a message, whose bytes have no alignment: 64 bytes at message. */
void lend_ref_store(void *message, const struct lend_ref *ref);
void lend_ref_load(struct lend_ref *ref, const void *message);
/* Bytes that it names; 0 also for 64 bytes that are no reference. */
uint64_t lend_ref_len(const struct lend_ref *ref);
/* What a reference allows; put and seal give all. Adopt and release need none. */
enum { LEND_READ = 1, LEND_MAP = 2, LEND_GRANT = 4 };
/* A narrower reference to [offset, offset + len), made here without a round trip; any thread. out
 * may be ref. It keeps nothing alive by itself: it is valid while the whole is. -ERANGE, -EPERM (a
 * right that ref lacks), -EINVAL (no reference); -EMLINK after two: lend_narrow(). */
int lend_ref_slice(const struct lend_ref *ref, uint64_t offset, uint64_t len, unsigned rights,
		   struct lend_ref *out);
/* "lend1:...@udp:10.0.0.7:7000", for command lines and back; who reads it can use it. text:
 * -ERANGE, -EHOSTUNREACH (the node's address is not known here). parse adds the node: -EINVAL,
 * -ENOSPC, -ENOMEM. */
int lend_ref_text(struct lend_mem *mem, const struct lend_ref *ref, char *text, size_t cap);
int lend_ref_parse(struct lend_mem *mem, const char *text, struct lend_ref *ref);

/* nodes: "shm:mn0", "pool:mn0" (the same node, whose pages are this process's memory where a space
 * has a pointer), or a list "udp:a:7000,udp:b:7000"; they are reached with the first operation.
 * The endpoint must outlive the client, and its thread is the client's. -EINVAL, -ENOSPC (64
 * nodes), -ENOMEM. */
int lend_mem_open(struct lend_ep *ep, const char *nodes, struct lend_mem **mem);
/* One more node, for references whose node this client could not reach (-EHOSTUNREACH).
 * Outside a turn it waits until the node has said who it is: 0; -EHOSTUNREACH (nobody answers),
 * -EEXIST (another node of this client has that id), -EINVAL (address), -ENOSPC (64 nodes, or the
 * node has no room for another client), -ENOMEM. */
int lend_mem_add(struct lend_mem *mem, const char *address);
/* Where puts and allocs go that name no node: to each in turn, as at first, or to the one with the
 * smallest share of its pages in use, which it is asked for every 20 ms at most. One that is full
 * or does not answer is passed over; the operation ends RESOURCE_EXHAUSTED or UNAVAILABLE when all
 * have been tried. From the next operation on. 0, -EINVAL. */
enum lend_spread { LEND_ROUND_ROBIN, LEND_LEAST_USED };
int lend_mem_spread(struct lend_mem *mem, enum lend_spread spread);
/* Cancels what is under way (done runs), releases what this client still holds, all of it within
 * about a second per node that does not answer. Not inside a turn. NULL is nothing. In a fork's
 * child it does nothing: the client is the parent's. */
void lend_mem_close(struct lend_mem *mem);

/* One operation: the caller's until it is started, the client's until done. Zero what is not set.
 * done may run before the function that starts the operation returns (an adopt of what is held
 * already needs no call), and runs exactly once when that function returned 0. It may start, end
 * and free anything, the op included. Statuses that any may end with: NOT_FOUND (gone, or of an
 * earlier start of the node), PERMISSION_DENIED (forged, or without the right), OUT_OF_RANGE,
 * RESOURCE_EXHAUSTED (the node or a table is full), FAILED_PRECONDITION (nothing there to adopt,
 * grant or release), ABORTED (the lease had ended; say it again), DATA_LOSS (lend_space_pointer();
 * or the node found that its memory no longer has the bytes, see --checksum of lend-mn(1)),
 * UNAVAILABLE (the node is gone, silent or unknown), DEADLINE_EXCEEDED, CANCELLED, INTERNAL (the
 * node contradicts itself). */
struct lend_op {
	void (*done)(struct lend_op *op);
	lend_request parent; /* the request it serves, as in lend_call */
	lend_ns timeout;     /* 0: the parent's time left, or 5 s */
	/* As in lend_call. 0 and no parent: normal, but below it an operation of several parts (8
	 * MiB each), and below that a prefetch. */
	uint8_t priority;
	uint16_t node; /* put and alloc: the n-th or none; 0: as the client spreads */
	enum lend_status status;
	enum lend_ran ran;     /* MAYBE: the node forgets what it made; a write may stand */
	struct lend_ref ref;   /* out of put, seal, narrow; otherwise the client's */
	struct lend_call call; /* the runtime's */
	uint64_t reserved[32]; /* the client's */
};
/* done still runs, once; the operation may have ended otherwise meanwhile. */
void lend_op_cancel(struct lend_mem *mem, struct lend_op *op);
/* Turns until it ended: 0 (look at status); -EHOSTUNREACH (all nodes have answered, it
 * is of none of them), -EDEADLK inside a turn. op must still be there when it ended. */
int lend_op_wait(struct lend_mem *mem, struct lend_op *op);

/* Who keeps a snapshot alive. A reference in a message that gets lost: OWNED goes with its creator,
 * the others with ttl. */
enum lend_hold {
	LEND_OWNED,    /* its creator, until release or the end of the lease */
	LEND_TRANSFER, /* nobody but the grant, until the first adopt or ttl */
	LEND_SHARED,   /* its creator; besides, readable until ttl, and n may adopt it */
};
struct lend_terms {
	uint32_t size; /* sizeof(struct lend_terms) */
	enum lend_hold hold;
	uint32_t n;  /* SHARED: how many may adopt */
	lend_ns ttl; /* TRANSFER and SHARED: from when the node runs it; not 0 */
};

/* Bytes to a snapshot, and back; the bytes, and an array of two or more, are borrowed until done.
 * terms NULL: OWNED. All of these: 0; -EINVAL, -ENOMEM, -EHOSTUNREACH (no node of this client has
 * the reference's id; lend_why() names it), -ESTALE (a space that is gone). */
int lend_put(struct lend_mem *mem, const struct iovec *data, int n, const struct lend_terms *terms,
	     struct lend_op *op);
int lend_get(struct lend_mem *mem, const struct lend_ref *ref, uint64_t offset,
	     const struct iovec *into, int n, struct lend_op *op);
/* Takes a hold, by a grant that its bearer was given. By who holds it already: counted here, and as
 * many releases give it up. */
int lend_adopt(struct lend_mem *mem, const struct lend_ref *ref, struct lend_op *op);
/* Offers what one holds: SHARED, or TRANSFER, which gives one's own hold away in the same step. */
int lend_grant(struct lend_mem *mem, const struct lend_ref *ref, const struct lend_terms *terms,
	       struct lend_op *op);
/* As lend_ref_slice(), by the node: the result (op->ref) can be sliced twice again. */
int lend_narrow(struct lend_mem *mem, const struct lend_ref *ref, uint64_t offset, uint64_t len,
		unsigned rights, struct lend_op *op);
/* Gives up n references at once; an array of two or more is borrowed until done. By a bearer
 * without a hold: uses up a TRANSFER, so get and release need no adopt. */
int lend_release(struct lend_mem *mem, const struct lend_ref *ref, int n, struct lend_op *op);

/* Of this client alone; a stale one gives -ESTALE. */
typedef struct {
	uint64_t id;
} lend_space;
/* Zeros, or a reference's bytes; *space is valid once the operation ended OK. */
int lend_space_alloc(struct lend_mem *mem, uint64_t len, lend_space *space, struct lend_op *op);
int lend_space_map(struct lend_mem *mem, const struct lend_ref *ref, lend_space *space,
		   struct lend_op *op);
/* Operations on one space keep program order where it matters: each sees what was started before
 * it. A write past the end is OUT_OF_RANGE; one that ends without a result may have been done in
 * part. */
int lend_space_read(struct lend_mem *mem, lend_space space, uint64_t offset,
		    const struct iovec *into, int n, struct lend_op *op);
int lend_space_write(struct lend_mem *mem, lend_space space, uint64_t offset,
		     const struct iovec *data, int n, struct lend_op *op);
/* The space as ordinary memory of this process: its bytes, at once, without copying them all;
 * stores are private and reach the node with the next seal, which sends the pages that were stored
 * to and no others. Over a network a page is fetched when a thread first touches it, with those
 * that follow it when the touches do; over a pool the pages are the node's own. Any thread may
 * touch it, at any time from here until a lend_space_free() or lend_mem_close() begins; not a
 * fork's child, which has no such memory. The same pointer each time.
 *
 * From then on lend_space_read() and lend_space_write() of this space copy from and to that memory,
 * in the caller's thread, and may wait there as any touch does. A store while a seal is under way
 * may be in that snapshot or only in the next.
 *
 * A page that cannot be had within 5 s, because the node is gone or has ended this client's life,
 * reads as zeros: no signal is raised, and no thread waits for ever. lend_space_intact() tells, and
 * seals, reads and writes of the space end DATA_LOSS from then on. To have a status instead, say
 * lend_space_prefetch() first: pages that are here stay here until the space is freed.
 *
 * The kernel itself (read(2) into it) may be refused a page that was not touched yet, with EFAULT,
 * where userfaultfd is for privileged users only: prefetch what a system call will use.
 *
 * NULL: the operation that makes the space has not ended or others on it have not, the space is
 * empty or gone, or this machine or carrier offers no such memory; lend_why() says which, and
 * explicit reads and writes go on. */
void *lend_space_pointer(struct lend_mem *mem, lend_space space);
/* Fetches what of [offset, offset + len) is not here yet, without waiting: OK, it can be touched
 * without a fault. Only a space with a pointer: else -EINVAL; -ESTALE, -ENOMEM. */
int lend_space_prefetch(struct lend_mem *mem, lend_space space, uint64_t offset, uint64_t len,
			struct lend_op *op);
/* 0: every byte that was read through the pointer was the space's; -EIO: some were zeros because
 * the node could not be asked. -ESTALE. Also 0 for a space without a pointer. */
int lend_space_intact(struct lend_mem *mem, lend_space space);
/* A snapshot of [offset, offset + len) as op->ref; the space goes on and copies what it changes. */
int lend_space_seal(struct lend_mem *mem, lend_space space, uint64_t offset, uint64_t len,
		    const struct lend_terms *terms, struct lend_op *op);
/* The handle is gone when this ended, also without a result: the node is told until it knows. */
int lend_space_free(struct lend_mem *mem, lend_space space, struct lend_op *op);

/* Arguments that choose for themselves: small ones lie in the message, large ones on a memory node,
 * and the message has their references. In a call they are the caller's (OWNED) and are released
 * when it ends, however it ends: reply, failure, cancel, deadline, a lost session, a client that is
 * closed. In a reply they are handed over: who gets it adopts or releases each within 30 s, then
 * the node does. */

/* Starts a call whose request is n arguments; call->request must be NULL, and is NULL in done.
 * Until done the bytes, and an array of two or more, are borrowed; done may run before this
 * returns. Arguments that no node takes, because all are full or do not answer, go in the message:
 * the put has 250 ms and 100 ns for each byte, at most half of the call's time. If they are longer
 * than the peer's lend_session_message_max(), the put has all of the call's time, and the call ends
 * with the put's status, not run, if the put fails. 0, or what lend_call_start() gives; then
 * nothing is taken. */
int lend_call_start_args(struct lend_mem *mem, lend_session session, struct lend_call *call,
			 const struct iovec *arg, int n);
/* Starts it and turns until done, as lend_call_sync(). */
int lend_call_sync_args(struct lend_mem *mem, lend_session session, struct lend_call *call,
			const struct iovec *arg, int n);
/* In place of lend_call_cancel(): ends it with LEND_CANCELLED also while its arguments are on their
 * way. done still runs, once. */
void lend_call_cancel_args(struct lend_mem *mem, struct lend_call *call);
/* Answers a request of the client's own endpoint with n arguments. gone(arg) runs once, when bytes
 * and array are the caller's again, perhaps before this returns; NULL: they stay as they are until
 * lend_mem_close(). Arguments that no node takes go in the message as above; if they are longer
 * than the caller's message_max, it gets the put's status and nothing else. 0; -ESTALE (the caller
 * is gone or was answered), -EINVAL, -ENOMEM: then gone does not run, and but for -ESTALE the
 * request is still to be answered. */
int lend_reply_args(struct lend_mem *mem, lend_request request, enum lend_status status,
		    const struct iovec *arg, int n, void (*gone)(const struct iovec *arg));
struct lend_arg {
	uint64_t len;
	const void *bytes;   /* in the message, as long as that is there; NULL: by reference */
	struct lend_ref ref; /* whatever is read of it is read then: lend_get(), lend_space_map() */
};
/* The next argument of a message that was sent so; *cursor is 0 for the first. Any thread. 1; 0: it
 * was the last; -EINVAL: these bytes are no arguments; -EMSGSIZE: one lies across segments of
 * memory that the receiver placed itself. */
int lend_arg_next(const struct lend_buf *message, uint32_t *cursor, struct lend_arg *arg);
/* The longest argument that goes in the message itself. It is measured with the first arguments for
 * a session, on the session and on the node, so that an argument is lent when four hops of its
 * bytes cost more than a put and a get; 32 KiB until then. node: counted from 1; 0: any. */
uint64_t lend_args_threshold(struct lend_mem *mem, lend_session session, uint16_t node);
/* Measures anew, now, each node and the session, and turns until that is done, a second at most:
 * for the start of a program, before there is other traffic. 0, -EDEADLK, -ENOMEM. */
int lend_args_measure(struct lend_mem *mem, lend_session session);
/* Sets it for all sessions of this client: 0: all that is not empty goes by reference; LEND_NEVER:
 * as measured. */
void lend_args_threshold_set(struct lend_mem *mem, uint64_t bytes);

/* Since the client was opened. */
struct lend_args_stat {
	uint64_t by_ref; /* arguments that nodes took */
	uint64_t
	    fallbacks; /* calls and replies sent by value, since no node took their arguments */
};
void lend_args_stat(struct lend_mem *mem, struct lend_args_stat *stat);

/* What a node holds, and counted since it started. Replies that a peer has not yet acknowledged
 * keep their pages in use. */
struct lend_mem_stat {
	uint64_t pages_total, pages_used, pages_quarantined, refs, spaces, clients, grants_expired;
	uint64_t holds, grants, cow_copies, leases_expired, hangups, ops;
	uint64_t tx_bytes;   /* that the node's daemon handed to its carriers since it started */
	uint64_t damaged;    /* times that a page was found with other bytes than were written */
	uint64_t page_bytes; /* of one: lend-mn --page */
};
/* node: in the order in which they were named, from 0. Of a node with several workers the sum: a
 * client counts at each that it uses. */
int lend_mem_stat(struct lend_mem *mem, int node, struct lend_mem_stat *stat, struct lend_op *op);

/* What the pages that were fetched for spaces with a pointer did, in this process since its start.
 * They are kept in one cache for all its clients, by the snapshot that they belong to, so that what
 * is mapped again is not fetched again. */
struct lend_mem_cache_stat {
	uint64_t pages_max, pages_used; /* of 4 KiB: the cache's limit, and those in it */
	uint64_t hits, misses;          /* pages taken from it; pages fetched instead */
	uint64_t ahead;                 /* of the misses: before a thread touched them */
	uint64_t evictions;
	uint64_t prefetched;     /* pages fetched by lend_space_prefetch() */
	uint64_t faults, stores; /* touches of missing pages; first stores to clean ones */
	uint64_t zeros;          /* pages that read as zeros because they could not be had */
	/* Of a pool's spaces: pointers to the node's own pages; and to pages that are fetched as
	 * over a network, because they lie in more than 64 runs, the memory cannot be mapped page
	 * by page, or the pointer was taken inside a turn. */
	uint64_t pool_views, pool_fetched;
};
/* Any thread. */
void lend_mem_cache_stat(struct lend_mem_cache_stat *stat);
/* Bytes that the cache may use, 64 MiB unless set; 0: none. What is in it goes. Any thread. 0;
 * -EINVAL (more than 2^40). */
int lend_mem_cache_limit(uint64_t bytes);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
