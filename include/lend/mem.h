/* lend/mem.h - data on memory nodes, passed by reference.
 *
 * A reference names an immutable snapshot of bytes. It is plain data of 64 bytes and can be put
 * into any message. A space is a private, mutable, copy-on-write view. Every operation is one call,
 * ends exactly once through its lend_op, and takes effect at most once, even if the network repeats
 * its datagrams. */
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
/* Copies a reference into or out of a message, at any alignment: 64 bytes at message. */
void lend_ref_store(void *message, const struct lend_ref *ref);
void lend_ref_load(struct lend_ref *ref, const void *message);
/* Returns the length in bytes of the snapshot; 0 also for 64 bytes that are not a reference. */
uint64_t lend_ref_len(const struct lend_ref *ref);
/* Rights of a reference. put and seal give all of them. Adopt and release need none. */
enum { LEND_READ = 1, LEND_MAP = 2, LEND_GRANT = 4 };
/* Makes a narrower reference to [offset, offset + len), locally, without a round trip; any thread.
 * out may be ref. The new reference keeps nothing alive: it is valid as long as the original.
 * Returns 0; -ERANGE, -EPERM (ref lacks one of the rights), -EINVAL (not a reference); -EMLINK for
 * a slice of a slice of a slice: use lend_narrow(). */
int lend_ref_slice(const struct lend_ref *ref, uint64_t offset, uint64_t len, unsigned rights,
		   struct lend_ref *out);
/* Converts a reference to text and back, for command lines: "lend1:...@udp:10.0.0.7:7000". Anyone
 * with the text can use the reference. text: -ERANGE, -EHOSTUNREACH (the node's address is not
 * known here). parse adds the node: -EINVAL, -ENOSPC, -ENOMEM. */
int lend_ref_text(struct lend_mem *mem, const struct lend_ref *ref, char *text, size_t cap);
int lend_ref_parse(struct lend_mem *mem, const char *text, struct lend_ref *ref);

/* Opens a client. nodes: "shm:mn0"; "pool:mn0" (the same node, but a space with a pointer maps the
 * node's pages into this process); or a list "udp:a:7000,udp:b:7000". The first operation connects
 * to them. The endpoint must outlive the client, and the client is used from the endpoint's thread.
 * -EINVAL, -ENOSPC (64 nodes), -ENOMEM. */
int lend_mem_open(struct lend_ep *ep, const char *nodes, struct lend_mem **mem);
/* Adds a node, for references to a node that this client could not reach (-EHOSTUNREACH). Outside a
 * turn it waits until the node has reported its id. Inside a turn it returns at once, and the first
 * operation connects. Returns 0; -EHOSTUNREACH (no answer), -EEXIST (another node of this client
 * has that id), -EINVAL (address), -ENOSPC (64 nodes, or the node has no room for another client),
 * -ENOMEM. */
int lend_mem_add(struct lend_mem *mem, const char *address);
/* Chooses the node of puts and allocs that name none: round robin, the default, or the node with
 * the smallest fraction of its pages in use, which is queried at most every 20 ms. A node that is
 * full or does not answer is skipped; the operation ends RESOURCE_EXHAUSTED or UNAVAILABLE after
 * all have been tried. Takes effect with the next operation. 0, -EINVAL. */
enum lend_spread { LEND_ROUND_ROBIN, LEND_LEAST_USED };
int lend_mem_spread(struct lend_mem *mem, enum lend_spread spread);
/* Closes a client: cancels its operations (done runs) and releases everything that it still holds,
 * within about a second per node that does not answer. Not inside a turn. NULL does nothing. In the
 * child of a fork it does nothing: the client is the parent's. */
void lend_mem_close(struct lend_mem *mem);

/* One operation. Ownership: the caller's until it is started, the client's until done. Set unused
 * fields to zero. done runs exactly once if the function that starts the operation returned 0,
 * possibly before that function returns (adopting a reference that this client holds already needs
 * no call). done may start, end and free anything, including the op. Any operation may end with
 * these statuses: NOT_FOUND (gone, or from before the node restarted), PERMISSION_DENIED (forged,
 * or lacks the right), OUT_OF_RANGE, RESOURCE_EXHAUSTED (the node or a table is full),
 * FAILED_PRECONDITION (nothing there to adopt, grant or release), ABORTED (the lease had ended;
 * retry), DATA_LOSS (lend_space_pointer(); or the node found that its memory no longer has the
 * bytes, see --checksum of lend-mn(1)), UNAVAILABLE (the node is gone, does not answer or is
 * unknown), DEADLINE_EXCEEDED, CANCELLED, INTERNAL (the node contradicts itself). */
struct lend_op {
	void (*done)(struct lend_op *op);
	lend_request parent; /* the request that this operation serves, as in lend_call */
	lend_ns timeout;     /* 0: the parent's remaining time, or 5 s */
	/* As in lend_call. 0 without a parent: normal; one lower for an operation of several parts
	 * (8 MiB each), and lower still for a prefetch. */
	uint8_t priority;
	uint16_t node; /* put and alloc: the n-th node or none; 0: as lend_mem_spread() chooses */
	enum lend_status status;
	enum lend_ran ran;     /* MAYBE: the node forgets what it created; a write may persist */
	struct lend_ref ref;   /* result of put, seal, narrow; otherwise used by the client */
	struct lend_call call; /* the runtime's */
	uint64_t reserved[32]; /* the client's */
};
/* Cancels an operation. done still runs, once; the operation may end with another status if it
 * ended meanwhile. */
void lend_op_cancel(struct lend_mem *mem, struct lend_op *op);
/* Runs turns until the operation has ended. Returns 0 (see status); -EHOSTUNREACH (all nodes have
 * answered, and the reference belongs to none of them); -EDEADLK inside a turn. op must stay valid
 * until it has ended. */
int lend_op_wait(struct lend_mem *mem, struct lend_op *op);

/* Lifetime of a snapshot. If the message with the reference is lost, an OWNED snapshot is freed
 * with its creator, the others after ttl. */
enum lend_hold {
	LEND_OWNED,    /* kept by its creator, until release or the end of the lease */
	LEND_TRANSFER, /* kept by the grant alone, until the first adopt or ttl */
	LEND_SHARED, /* kept by its creator; also readable until ttl, and n clients may adopt it */
};
struct lend_terms {
	uint32_t size; /* sizeof(struct lend_terms) */
	enum lend_hold hold;
	uint32_t n;  /* SHARED: number of adopts */
	lend_ns ttl; /* TRANSFER and SHARED: starts when the node executes it; not 0 */
};

/* Stores bytes as a snapshot, and reads them back. The bytes, and an array of two or more, are
 * borrowed until done. terms NULL: OWNED. All of these return 0; -EINVAL, -ENOMEM, -EHOSTUNREACH
 * (no node of this client has the reference's id; lend_why() names it), -ESTALE (the space is
 * gone). */
int lend_put(struct lend_mem *mem, const struct iovec *data, int n, const struct lend_terms *terms,
	     struct lend_op *op);
int lend_get(struct lend_mem *mem, const struct lend_ref *ref, uint64_t offset,
	     const struct iovec *into, int n, struct lend_op *op);
/* Adopts a reference: takes a hold on the snapshot, as a grant to the holder of the reference
 * allows. If this client holds it already, the hold is counted here, and needs as many releases. */
int lend_adopt(struct lend_mem *mem, const struct lend_ref *ref, struct lend_op *op);
/* Grants a held snapshot to others: SHARED, or TRANSFER, which gives up this client's hold in the
 * same step. */
int lend_grant(struct lend_mem *mem, const struct lend_ref *ref, const struct lend_terms *terms,
	       struct lend_op *op);
/* Narrows a reference as lend_ref_slice() does, but on the node: the result (op->ref) can be sliced
 * twice again. */
int lend_narrow(struct lend_mem *mem, const struct lend_ref *ref, uint64_t offset, uint64_t len,
		unsigned rights, struct lend_op *op);
/* Releases n references in one operation; an array of two or more is borrowed until done. Without a
 * hold it uses up a TRANSFER, so get and release need no adopt. */
int lend_release(struct lend_mem *mem, const struct lend_ref *ref, int n, struct lend_op *op);

/* Handle of a space, valid for this client only; a stale one gives -ESTALE. */
typedef struct {
	uint64_t id;
} lend_space;
/* Creates a space with zeros, or with the bytes of a reference. *space is valid after the operation
 * ended OK. */
int lend_space_alloc(struct lend_mem *mem, uint64_t len, lend_space *space, struct lend_op *op);
int lend_space_map(struct lend_mem *mem, const struct lend_ref *ref, lend_space *space,
		   struct lend_op *op);
/* Reads and writes a space. Operations on one space keep program order where it matters: each one
 * sees the effects of those started before it. A write past the end is OUT_OF_RANGE. A write that
 * ends without a result may have been done in part. */
int lend_space_read(struct lend_mem *mem, lend_space space, uint64_t offset,
		    const struct iovec *into, int n, struct lend_op *op);
int lend_space_write(struct lend_mem *mem, lend_space space, uint64_t offset,
		     const struct iovec *data, int n, struct lend_op *op);
/* Returns the space as ordinary memory of this process, at once, without copying all of its bytes.
 * Stores are private and reach the node with the next seal, which sends only the pages that were
 * stored to. Over a network a page is fetched when a thread first accesses it; sequential accesses
 * also fetch the following pages. Over a pool the pages are the node's own. Any thread may access
 * the memory at any time until lend_space_free() or lend_mem_close() begins. The child of a fork
 * does not have this memory. Each call returns the same pointer.
 *
 * From then on lend_space_read() and lend_space_write() of this space copy from and to that memory,
 * in the caller's thread, and may block there as any access does. A store during a seal may be in
 * that snapshot or only in the next one.
 *
 * A page that cannot be fetched within 5 s, because the node is gone or has ended this client's
 * life, reads as zeros: no signal is raised, and no thread blocks for ever. lend_space_intact()
 * reports this, and seals, reads and writes of the space end DATA_LOSS from then on. To get a
 * status instead, call lend_space_prefetch() first: pages that are present stay present until the
 * space is freed.
 *
 * A system call such as read(2) into a page that was never accessed may fail with EFAULT where
 * userfaultfd is restricted to privileged users: prefetch what a system call will use.
 *
 * Returns NULL when the operation that makes the space has not ended or others on it have not, the
 * space is empty or gone, or this machine or carrier offers no such memory; lend_why() gives the
 * reason, and explicit reads and writes still work. */
void *lend_space_pointer(struct lend_mem *mem, lend_space space);
/* Fetches the missing pages of [offset, offset + len), without waiting. After it ended OK, they can
 * be accessed without a fault. Only for a space with a pointer: else -EINVAL; -ESTALE, -ENOMEM. */
int lend_space_prefetch(struct lend_mem *mem, lend_space space, uint64_t offset, uint64_t len,
			struct lend_op *op);
/* Checks a space for lost pages. Returns 0: every byte read through the pointer was the space's;
 * -EIO: some were zeros because the node could not be reached; -ESTALE. Also 0 for a space without
 * a pointer. */
int lend_space_intact(struct lend_mem *mem, lend_space space);
/* Takes a snapshot of [offset, offset + len) as op->ref. The space stays usable: later writes are
 * copy-on-write. */
int lend_space_seal(struct lend_mem *mem, lend_space space, uint64_t offset, uint64_t len,
		    const struct lend_terms *terms, struct lend_op *op);
/* Frees a space. The handle is invalid when the operation has ended, also without a result: the
 * client then retries until the node has freed the space. */
int lend_space_free(struct lend_mem *mem, lend_space space, struct lend_op *op);

/* Arguments go by value or by reference, depending on their size: small ones are part of the
 * message; large ones are put on a memory node, and the message has their references. The arguments
 * of a call belong to the caller (OWNED) and are released when the call ends, for any reason:
 * reply, failure, cancel, deadline, a lost session, a closed client. The arguments of a reply are
 * transferred: the receiver adopts or releases each within 30 s, then the node releases them. */

/* Starts a call with a request of n arguments; call->request must be NULL, and is NULL in done. The
 * bytes, and an array of two or more, are borrowed until done, which may run before this function
 * returns. Arguments go in the message if no node takes them, because all are full or do not
 * answer: the put has 250 ms plus 100 ns per byte, at most half of the call's time. If they are
 * longer than the peer's lend_session_message_max(), the put has all of the call's time, and if it
 * fails the call ends with the put's status, not run. Returns 0, or an error of lend_call_start();
 * then nothing is taken. */
int lend_call_start_args(struct lend_mem *mem, lend_session session, struct lend_call *call,
			 const struct iovec *arg, int n);
/* Starts such a call and runs turns until done, as lend_call_sync(). */
int lend_call_sync_args(struct lend_mem *mem, lend_session session, struct lend_call *call,
			const struct iovec *arg, int n);
/* Cancels a call of lend_call_start_args(); use it instead of lend_call_cancel(). The call ends
 * with LEND_CANCELLED, also while its arguments are being put. done still runs, once. */
void lend_call_cancel_args(struct lend_mem *mem, struct lend_call *call);
/* Answers a request of the client's own endpoint with n arguments. gone(arg) runs once, when the
 * bytes and the array belong to the caller again, possibly before this function returns; NULL: they
 * must stay unchanged until lend_mem_close(). Arguments that no node takes go in the message as
 * above; if they are longer than the caller's message_max, the reply has the put's status and no
 * arguments. Returns 0; -ESTALE (the caller is gone or was answered), -EINVAL, -ENOMEM: then gone
 * does not run, and except for -ESTALE the request still needs an answer. */
int lend_reply_args(struct lend_mem *mem, lend_request request, enum lend_status status,
		    const struct iovec *arg, int n, void (*gone)(const struct iovec *arg));
struct lend_arg {
	uint64_t len;
	const void *bytes; /* in the message, valid as long as the message is; NULL: by reference */
	struct lend_ref ref; /* nothing is fetched until lend_get() or lend_space_map() */
};
/* Returns the next argument of such a message; *cursor is 0 for the first. Any thread. 1; 0: there
 * are no more; -EINVAL: the message has no valid arguments; -EMSGSIZE: an argument spans several
 * segments of landing memory that the receiver chose. */
int lend_arg_next(const struct lend_buf *message, uint32_t *cursor, struct lend_arg *arg);
/* Returns the length in bytes of the longest argument that goes in the message. The first arguments
 * of a session measure it, on the session and on the node: an argument is sent by reference when
 * four hops of its bytes cost more than a put and a get. 32 KiB until then. node: counted from 1;
 * 0: any. */
uint64_t lend_args_threshold(struct lend_mem *mem, lend_session session, uint16_t node);
/* Repeats the measurement now, for each node and the session, and runs turns until it is complete,
 * at most a second: for the start of a program, before other traffic. 0, -EDEADLK, -ENOMEM. */
int lend_args_measure(struct lend_mem *mem, lend_session session);
/* Sets the threshold for all sessions of this client. 0: every argument that is not empty is sent
 * by reference; LEND_NEVER: as measured. */
void lend_args_threshold_set(struct lend_mem *mem, uint64_t bytes);

/* Counters since the client was opened. */
struct lend_args_stat {
	uint64_t by_ref;    /* arguments put on nodes */
	uint64_t fallbacks; /* calls and replies by value: no node took their arguments */
};
void lend_args_stat(struct lend_mem *mem, struct lend_args_stat *stat);

/* State of a node, and its counters since it started. A reply keeps its pages in use until the peer
 * has acknowledged it. */
struct lend_mem_stat {
	uint64_t pages_total, pages_used, pages_quarantined, refs, spaces, clients, grants_expired;
	uint64_t holds, grants, cow_copies, leases_expired, hangups, ops;
	uint64_t tx_bytes;   /* that the node's daemon passed to its carriers since it started */
	uint64_t damaged;    /* times that a page did not have the bytes written to it */
	uint64_t page_bytes; /* of one page: lend-mn --page */
};
/* Reads a node's statistics. node: its index in the order in which nodes were named, from 0. For a
 * node with several workers they are summed: a client counts once for each worker that it uses. */
int lend_mem_stat(struct lend_mem *mem, int node, struct lend_mem_stat *stat, struct lend_op *op);

/* Counters of the page cache for spaces with a pointer, in this process since its start. All
 * clients of the process share one cache, indexed by snapshot: mapping a snapshot again does not
 * fetch its pages again. */
struct lend_mem_cache_stat {
	uint64_t pages_max, pages_used; /* of 4 KiB: the cache's limit, and cached pages */
	uint64_t hits, misses;          /* pages found in the cache; pages fetched instead */
	uint64_t ahead; /* of the misses: before a thread accessed them (readahead) */
	uint64_t evictions;
	uint64_t prefetched;     /* pages fetched by lend_space_prefetch() */
	uint64_t faults, stores; /* faults on missing pages; first stores to clean ones */
	uint64_t zeros;          /* pages that read as zeros because they could not be fetched */
	/* Of spaces of a pool: pointers to the node's own pages; and pointers to pages that are
	 * fetched as over a network, because the space has more than 64 runs of frames, the memory
	 * cannot be mapped page by page, or the pointer was taken inside a turn. */
	uint64_t pool_views, pool_fetched;
};
/* Reads these counters. Any thread. */
void lend_mem_cache_stat(struct lend_mem_cache_stat *stat);
/* Sets the cache's limit in bytes, 64 MiB by default; 0: no cache. Drops the cached pages. Any
 * thread. 0; -EINVAL (more than 2^40). */
int lend_mem_cache_limit(uint64_t bytes);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
