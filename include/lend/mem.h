/* lend/mem.h - data on memory nodes, passed by reference.
 *
 * A reference names an immutable snapshot of bytes. It is plain data of 64 bytes and can be put
 * into any message. A space is a private, mutable, copy-on-write view. Every operation is one call,
 * ends exactly once through its struct lend_op, and takes effect at most once, even if the network
 * repeats its datagrams.
 *
 * The child of a fork does not have its parent's clients.
 *
 * Threads: the thread of the client's endpoint, unless a function states otherwise. */
#ifndef LEND_MEM_H
#define LEND_MEM_H

#include <sys/uio.h>

#include "lend/rpc.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* A client of one or several memory nodes, on one endpoint. */
struct lend_mem;
/* Opens a client. nodes: "shm:mn0"; "pool:mn0" (the same node, but its pages are mapped into this
 * process: spaces with a pointer show them, and long gets copy from them); or a list
 * "udp:a:7000,udp:b:7000"; NULL or "": none yet. The first operation connects to them.
 *
 * Returns: 0; -EINVAL: an address; -ENOSPC: more than 64 nodes; -ENOMEM: no memory.
 * Ownership: borrows nodes; shares ep, which must outlive the client; *mem is the caller's until
 * lend_mem_close(). */
int lend_mem_open(struct lend_ep *ep, const char *nodes, struct lend_mem **mem);
/* Adds a node, for references to a node that this client could not reach (-EHOSTUNREACH). Outside a
 * turn it waits until the node has reported its id. Inside a turn it returns at once, and the first
 * operation connects. A node that does not answer, or refuses, stays in the client's list.
 * Returns: 0; -EINVAL: address; -EHOSTUNREACH: no answer; -EEXIST: another node of this client has
 * that id; -ENOSPC: more than 64 nodes, or the node has no room for another client; -ENOMEM: no
 * memory.
 * Ownership: borrows address. */
int lend_mem_add(struct lend_mem *mem, const char *address);
/* How the node of a new object is chosen. */
enum lend_spread {
	LEND_ROUND_ROBIN, /* one node after the other: the default */
	LEND_LEAST_USED,  /* the smallest fraction of pages in use, queried at most every 20 ms */
};
/* Sets how the node of puts and allocs that name none is chosen, from the next operation on. A node
 * that is full or does not answer is skipped; the operation ends RESOURCE_EXHAUSTED or UNAVAILABLE
 * after all have been tried.
 * Returns: 0; -EINVAL: not a value of enum lend_spread. */
int lend_mem_spread(struct lend_mem *mem, enum lend_spread spread);
/* Closes a client: cancels its operations (done runs) and releases everything that it still holds,
 * within about a second per node that does not answer. Must not be called inside a turn. NULL does
 * nothing. In the child of a fork it does nothing: the client is the parent's.
 * Ownership: takes mem. */
void lend_mem_close(struct lend_mem *mem);

/* lend_ref(3) - references as values.
 *
 * A reference is unforgeable. Its 64 bytes are all that a process needs to use it.
 *
 * Threads: any, except for lend_ref_text() and lend_ref_parse().
 *
 * Source: the 16-byte token of a reference is SipHash-2-4-128 under a key of the node; a slice's
 * token is derived from its parent's. */

/* A reference. */
struct lend_ref {
	uint64_t word[8]; /* opaque */
};
/* Copies a reference into a message: 64 bytes, at any alignment.
 * Ownership: borrows both. */
void lend_ref_store(void *message, const struct lend_ref *ref);
/* Copies a reference out of a message: 64 bytes, at any alignment.
 * Ownership: borrows both. */
void lend_ref_load(struct lend_ref *ref, const void *message);
/* Returns the length of the snapshot, or of the slice.
 * Returns: bytes, less than 2^40; 0 also for 64 bytes that are not a reference.
 * Ownership: borrows ref. */
uint64_t lend_ref_len(const struct lend_ref *ref);
/* Rights of a reference. lend_put() and lend_space_seal() give all of them. Adopt and release need
 * none. */
enum {
	LEND_READ = 1,  /* lend_get() */
	LEND_MAP = 2,   /* lend_space_map() */
	LEND_GRANT = 4, /* lend_grant() */
};
/* Makes a narrower reference to [offset, offset + len), in bytes, without a round trip. The new
 * reference keeps nothing alive: it is valid as long as the original. out may be ref.
 * Returns: 0; -EINVAL: not a reference; -ERANGE: past the end; -EPERM: ref lacks one of the rights;
 * -EMLINK: a slice of a slice of a slice: use lend_ref_slice_remote().
 * Ownership: borrows ref and out. */
int lend_ref_slice(const struct lend_ref *ref, uint64_t offset, uint64_t len, unsigned rights,
		   struct lend_ref *out);
/* Converts a reference to text, for command lines: "lend1:...@udp:10.0.0.7:7000". Anyone with the
 * text can use the reference. It has at most 200 bytes.
 * Returns: 0; -EINVAL: not a reference; -EHOSTUNREACH: the node's address is not known here;
 * -ERANGE: longer than cap bytes.
 * Ownership: borrows ref, and text, which has room for cap bytes.
 * Threads: the endpoint's. */
int lend_ref_text(struct lend_mem *mem, const struct lend_ref *ref, char *text, size_t cap);
/* Converts text to a reference, and adds its node to the client.
 * Returns: 0; -EINVAL: not the text of a reference; -ENOSPC: more than 64 nodes; -ENOMEM: no
 * memory.
 * Ownership: borrows text and ref.
 * Threads: the endpoint's. */
int lend_ref_parse(struct lend_mem *mem, const char *text, struct lend_ref *ref);

/* lend_op(3) - operations on memory nodes.
 *
 * Functions with a struct lend_op start an operation and return 0; a negative value means that it
 * did not start, and done does not run.
 *
 * Any operation may end with these statuses, in addition to OK, DEADLINE_EXCEEDED, CANCELLED.
 * NOT_FOUND: gone, or from before the node restarted. PERMISSION_DENIED: forged, or lacks the
 * right. OUT_OF_RANGE: past the end. RESOURCE_EXHAUSTED: the node or a table is full.
 * FAILED_PRECONDITION: nothing there to adopt, grant or release. ABORTED: the lease had ended;
 * retry. DATA_LOSS: see lend_space_pointer(); or the node found that its memory no longer has the
 * bytes, see --checksum of lend-mn(1). UNAVAILABLE: the node is gone, does not answer or is
 * unknown. INTERNAL: the node contradicts itself.
 *
 * Threads: the endpoint's. */

/* One operation, in the caller's memory. Set unused fields to zero. */
struct lend_op {
	/* Runs exactly once if the function that starts the operation returned 0, possibly before
	 * that function returns: some operations need no call. May start, end and free anything,
	 * including the op. May be NULL. */
	void (*done)(struct lend_op *op);
	lend_request parent; /* the request that this operation serves, as in struct lend_call */
	lend_ns timeout;     /* 0: the parent's remaining time, or 5 s */
	/* As in struct lend_call. 0 without a parent: normal; one lower for an operation of several
	 * parts (8 MiB each), and lower still for a prefetch. */
	uint8_t priority;
	uint16_t node; /* put and alloc: the n-th node, from 1; 0: as lend_mem_spread() chooses */
	enum lend_status status; /* in done: the result */
	enum lend_ran ran;       /* MAYBE: the node forgets what it created; a write may persist */
	struct lend_ref ref;     /* result of put, seal, narrow; otherwise used by the client */
	struct lend_call call;   /* the runtime's */
	uint64_t reserved[32];   /* the client's */
};
/* Cancels an operation. done still runs, once. The operation may end with another status if it
 * ended meanwhile; one that has ended is left unchanged.
 * Ownership: borrows op. */
void lend_op_cancel(struct lend_mem *mem, struct lend_op *op);
/* Runs turns until an operation has ended.
 * Returns: 0, with the result in op->status; -EHOSTUNREACH: all nodes have answered, and the
 * reference belongs to none of them; -EDEADLK: inside a turn; -EPERM: in the child of a fork.
 * Ownership: borrows op until the operation has ended: done must not free it. */
int lend_op_wait(struct lend_mem *mem, struct lend_op *op);

/* lend_put(3) - store, read and share snapshots.
 *
 * Threads: the endpoint's. */

/* Lifetime of a snapshot. If the message with the reference is lost, an OWNED snapshot is freed
 * with its creator, the others after ttl. */
enum lend_hold {
	LEND_OWNED,    /* kept by its creator, until release or the end of the lease */
	LEND_TRANSFER, /* kept by the grant alone, until the first adopt or ttl */
	LEND_SHARED,   /* kept by its creator; also readable until ttl, and n clients may adopt */
};
/* Terms of a snapshot's lifetime. */
struct lend_terms {
	uint32_t size;       /* sizeof(struct lend_terms) */
	enum lend_hold hold; /* kind of lifetime */
	uint32_t n;          /* SHARED: number of adopts */
	lend_ns ttl;         /* TRANSFER and SHARED: starts when the node executes it; not 0 */
	uint32_t bound;      /* lend_put(), lend_space_seal(): 1: the reference is bound: the node
				refuses it in sessions of other tenants (lend-mn(8)) */
};
/* Stores bytes as a snapshot, at most 2^40 - 1 bytes. terms NULL: OWNED. Result: op->ref.
 * Returns: 0; -EINVAL: data, terms, op->priority or op->node, or the client closes; -EHOSTUNREACH:
 * the client has no node; -ENOMEM: no memory.
 * Ownership: borrows op and the bytes until done, and the array data if n is 2 or more; copies
 * terms. */
int lend_put(struct lend_mem *mem, const struct iovec *data, int n, const struct lend_terms *terms,
	     struct lend_op *op);
/* Reads the bytes of a snapshot, from offset on, into n pieces of memory. All of them must be in
 * the snapshot, else the operation ends OUT_OF_RANGE.
 * Returns: 0; -EINVAL: not a reference, into, op->priority, or the client closes; -EHOSTUNREACH: no
 * node of this client has the reference's id, lend_why() names it.
 * Ownership: borrows op and the pieces until done, and the array into if n is 2 or more; copies
 * ref. */
int lend_get(struct lend_mem *mem, const struct lend_ref *ref, uint64_t offset,
	     const struct iovec *into, int n, struct lend_op *op);
/* Bytes of one of several references that are read together. */
struct lend_get_part {
	struct lend_ref ref;     /* names the snapshot */
	uint64_t offset;         /* first byte in the snapshot */
	void *into;              /* memory for len bytes */
	uint64_t len;            /* bytes to read */
	enum lend_status status; /* valid when the operation has ended */
};
/* Reads bytes of n references. One call reads up to 64 neighbours in the array that are of one
 * node, at most 8 MiB; over a pool each is read as by lend_get(). The other parts are read if one
 * fails; its memory has undefined bytes then. op->status is OK if all parts are, else the first
 * failure.
 * Returns: 0; -EINVAL: n is less than 1, not a reference, no memory given, op->priority, or the
 * client closes. Unlike lend_get(), a part of an unknown node ends UNAVAILABLE.
 * Ownership: borrows op, the array and the memory until done. */
int lend_get_many(struct lend_mem *mem, struct lend_get_part *part, int n, struct lend_op *op);
/* Adopts a reference: takes a hold on the snapshot, as a grant to the holder of the reference
 * allows. If this client holds it already, the hold is counted here, and needs as many releases.
 * Returns: 0; -EINVAL: not a reference, op->priority, or the client closes; -EHOSTUNREACH: no node
 * of this client has the reference's id; -ENOMEM: no memory.
 * Ownership: borrows op until done; copies ref. */
int lend_adopt(struct lend_mem *mem, const struct lend_ref *ref, struct lend_op *op);
/* Grants a held snapshot to others: SHARED, or TRANSFER, which gives up this client's hold in the
 * same step.
 * Returns: 0; -EINVAL: not a reference, terms, op->priority, or the client closes; -EHOSTUNREACH:
 * no node of this client has the reference's id.
 * Ownership: borrows op until done; copies ref and terms. */
int lend_grant(struct lend_mem *mem, const struct lend_ref *ref, const struct lend_terms *terms,
	       struct lend_op *op);
/* Narrows a reference as lend_ref_slice() does, but on the node: the result (op->ref) can be sliced
 * twice again.
 * Returns: 0; -EINVAL: not a reference, op->priority, or the client closes; -EHOSTUNREACH: no node
 * of this client has the reference's id.
 * Ownership: borrows op until done; copies ref. */
int lend_ref_slice_remote(struct lend_mem *mem, const struct lend_ref *ref, uint64_t offset,
			  uint64_t len, unsigned rights, struct lend_op *op);
/* Releases n references in one operation. Without a hold it uses up a TRANSFER, so get and release
 * need no adopt.
 * Returns: 0; -EINVAL: n is less than 1, not a reference, op->priority, or the client closes;
 * -EHOSTUNREACH: no node of this client has the first reference's id.
 * Ownership: borrows op until done, and the array ref if n is 2 or more. */
int lend_release(struct lend_mem *mem, const struct lend_ref *ref, int n, struct lend_op *op);

/* lend_space(3) - private, mutable, copy-on-write views.
 *
 * Operations on one space keep program order where it matters: each one sees the effects of those
 * started before it.
 *
 * Threads: the endpoint's. */

/* Handle of a space, valid for its client only; a stale one gives -ESTALE. */
typedef struct {
	uint64_t id; /* opaque */
} lend_space;
/* Creates a space of len zeros, at most 2^40 - 1 bytes. *space is valid after the operation ended
 * OK.
 * Returns: 0; -EINVAL: len, op->priority or op->node, or the client closes; -EHOSTUNREACH: the
 * client has no node; -ENOMEM: no memory.
 * Ownership: borrows op and space until done. */
int lend_space_alloc(struct lend_mem *mem, uint64_t len, lend_space *space, struct lend_op *op);
/* Creates a space with the bytes of a reference, without copying them. *space is valid after the
 * operation ended OK.
 * Returns: 0; -EINVAL: not a reference, op->priority, or the client closes; -EHOSTUNREACH: no node
 * of this client has the reference's id; -ENOMEM: no memory.
 * Ownership: borrows op and space until done; copies ref. */
int lend_space_map(struct lend_mem *mem, const struct lend_ref *ref, lend_space *space,
		   struct lend_op *op);
/* Reads bytes of a space, from offset on, into n pieces of memory.
 * Returns: 0; -ESTALE: the space is gone; -EINVAL: into, op->priority, or the client closes.
 * Ownership: borrows op and the pieces until done, and the array into if n is 2 or more. */
int lend_space_read(struct lend_mem *mem, lend_space space, uint64_t offset,
		    const struct iovec *into, int n, struct lend_op *op);
/* Writes bytes to a space, from offset on. A write past the end is OUT_OF_RANGE. A write that ends
 * without a result may have been done in part.
 * Returns: 0; -ESTALE: the space is gone; -EINVAL: data, op->priority, or the client closes.
 * Ownership: borrows op and the bytes until done, and the array data if n is 2 or more. */
int lend_space_write(struct lend_mem *mem, lend_space space, uint64_t offset,
		     const struct iovec *data, int n, struct lend_op *op);
/* Takes a snapshot of [offset, offset + len), in bytes, as op->ref. The space stays usable: later
 * writes are copy-on-write. terms NULL: OWNED.
 * Returns: 0; -ESTALE: the space is gone; -EINVAL: terms, op->priority, or the client closes;
 * -ENOMEM: no memory.
 * Ownership: borrows op until done; copies terms. */
int lend_space_seal(struct lend_mem *mem, lend_space space, uint64_t offset, uint64_t len,
		    const struct lend_terms *terms, struct lend_op *op);
/* Frees a space. The handle is invalid when the operation has ended, also without a result: the
 * client then retries until the node has freed the space.
 * Returns: 0; -ESTALE: the space is gone; -EINVAL: op->priority, or the client closes.
 * Ownership: borrows op until done. Memory of lend_space_pointer() is gone from the start on. */
int lend_space_free(struct lend_mem *mem, lend_space space, struct lend_op *op);

/* lend_sync(3) - operations on memory nodes that wait for their end.
 *
 * For code that does one thing at a time: tools, tests, and LEND_SLOW handlers, which use a client
 * of lend_request_ep(). Each function runs the operation of its name, and turns until that has
 * ended: other handlers and done functions run meanwhile. So it is refused inside a turn: it
 * returns -EDEADLK, and has started nothing. lend_op_wait() does the same for all other operations.
 *
 * op has the parent, the timeout, the priority, and the result; NULL: none of them is needed. The
 * status that the operation ends with is returned, so that 0 alone is success.
 *
 * Threads: the endpoint's. */

/* Runs lend_put() until it has ended. Result: op->ref, so op is not NULL.
 * Returns: 0: it ended OK; positive: the enum lend_status that it ended with, also in op->status;
 * -EDEADLK: inside a turn; -EPERM: in the child of a fork; or an error of lend_put() or
 * lend_op_wait().
 * Ownership: as lend_put(), until it returns. */
int lend_put_sync(struct lend_mem *mem, const struct iovec *data, int n,
		  const struct lend_terms *terms, struct lend_op *op);
/* Runs lend_get() until it has ended.
 * Returns: as lend_put_sync(); or an error of lend_get().
 * Ownership: as lend_get(), until it returns. */
int lend_get_sync(struct lend_mem *mem, const struct lend_ref *ref, uint64_t offset,
		  const struct iovec *into, int n, struct lend_op *op);
/* Runs lend_get_many() until it has ended.
 * Returns: as lend_put_sync(); or an error of lend_get_many().
 * Ownership: as lend_get_many(), until it returns. */
int lend_get_many_sync(struct lend_mem *mem, struct lend_get_part *part, int n, struct lend_op *op);
/* Runs lend_release() until it has ended.
 * Returns: as lend_put_sync(); or an error of lend_release().
 * Ownership: as lend_release(), until it returns. */
int lend_release_sync(struct lend_mem *mem, const struct lend_ref *ref, int n, struct lend_op *op);
/* Runs lend_space_alloc() until it has ended.
 * Returns: as lend_put_sync(); or an error of lend_space_alloc().
 * Ownership: as lend_space_alloc(), until it returns. */
int lend_space_alloc_sync(struct lend_mem *mem, uint64_t len, lend_space *space,
			  struct lend_op *op);
/* Runs lend_space_map() until it has ended.
 * Returns: as lend_put_sync(); or an error of lend_space_map().
 * Ownership: as lend_space_map(), until it returns. */
int lend_space_map_sync(struct lend_mem *mem, const struct lend_ref *ref, lend_space *space,
			struct lend_op *op);
/* Runs lend_space_read() until it has ended.
 * Returns: as lend_put_sync(); or an error of lend_space_read().
 * Ownership: as lend_space_read(), until it returns. */
int lend_space_read_sync(struct lend_mem *mem, lend_space space, uint64_t offset,
			 const struct iovec *into, int n, struct lend_op *op);
/* Runs lend_space_write() until it has ended.
 * Returns: as lend_put_sync(); or an error of lend_space_write().
 * Ownership: as lend_space_write(), until it returns. */
int lend_space_write_sync(struct lend_mem *mem, lend_space space, uint64_t offset,
			  const struct iovec *data, int n, struct lend_op *op);
/* Runs lend_space_seal() until it has ended. Result: op->ref, so op is not NULL.
 * Returns: as lend_put_sync(); or an error of lend_space_seal().
 * Ownership: as lend_space_seal(), until it returns. */
int lend_space_seal_sync(struct lend_mem *mem, lend_space space, uint64_t offset, uint64_t len,
			 const struct lend_terms *terms, struct lend_op *op);
/* Runs lend_space_free() until it has ended.
 * Returns: as lend_put_sync(); or an error of lend_space_free().
 * Ownership: as lend_space_free(), until it returns. */
int lend_space_free_sync(struct lend_mem *mem, lend_space space, struct lend_op *op);

/* lend_space_pointer(3) - spaces as ordinary memory.
 *
 * Stores are private and reach the node with the next seal, which sends only the pages that were
 * stored to. Over a network a page is fetched when a thread first accesses it; sequential accesses
 * also fetch the following pages. Over a pool the pages are the node's own. The child of a fork
 * does not have this memory.
 *
 * Once a space has a pointer, lend_space_read() and lend_space_write() copy from and to its memory,
 * in the caller's thread. They may block there, as any access does. A store during a seal may be in
 * that snapshot or only in the next one.
 *
 * A page that cannot be fetched within 5 s, because the node is gone or has ended this client's
 * life, reads as zeros: no signal is raised, and no thread blocks for ever. lend_space_intact()
 * reports this, and seals, reads and writes of the space end DATA_LOSS from then on. To get a
 * status instead, call lend_space_prefetch() first: pages that are present stay present until the
 * space is freed.
 *
 * A system call such as read(2) into a page that was never accessed may fail with EFAULT where
 * userfaultfd(2) is restricted to privileged users: prefetch what a system call will use.
 *
 * All clients of a process share one cache of pages, indexed by snapshot: mapping a snapshot again
 * does not fetch its pages again.
 *
 * Threads: the endpoint's, unless a function states otherwise. */

/* Returns a space as memory of this process, at once, without copying all of its bytes. Each call
 * returns the same pointer.
 * Returns: the first byte; NULL: the operation that makes the space has not ended or others on it
 * have not, the space is empty or gone, this machine offers no such memory, or a second endpoint
 * cannot use the carrier: explicit reads and writes still work.
 * Ownership: the memory is lent until lend_space_free() or lend_mem_close() begins.
 * Threads: the endpoint's; any thread may access the memory. */
void *lend_space_pointer(struct lend_mem *mem, lend_space space);
/* Fetches the missing pages of [offset, offset + len), without waiting. After the operation ended
 * OK, they can be accessed without a fault.
 * Returns: 0; -EINVAL: the space has no pointer, op->priority, or the client closes; -ESTALE: the
 * space is gone.
 * Ownership: borrows op until done. */
int lend_space_prefetch(struct lend_mem *mem, lend_space space, uint64_t offset, uint64_t len,
			struct lend_op *op);
/* Checks a space for lost pages.
 * Returns: 0: every byte read through the pointer was the space's, or it has no pointer; -EIO: some
 * were zeros because the node could not be reached; -ESTALE: the space is gone. */
int lend_space_intact(struct lend_mem *mem, lend_space space);
/* Counters of the page cache and of spaces with a pointer, in this process since its start. */
struct lend_mem_cache_stat {
	uint64_t pages_max;  /* limit of the cache, in pages of 4 KiB */
	uint64_t pages_used; /* cached pages */
	uint64_t hits;       /* pages found in the cache */
	uint64_t misses;     /* pages not found in the cache, and fetched */
	uint64_t ahead;      /* pages of misses that no thread had accessed (readahead) */
	uint64_t evictions;  /* pages evicted for others */
	uint64_t prefetched; /* pages fetched by lend_space_prefetch() */
	uint64_t faults;     /* faults on missing pages */
	uint64_t stores;     /* first stores to clean pages */
	uint64_t zeros;      /* pages that read as zeros because they could not be fetched */
	uint64_t pool_views; /* pointers to a pool's own pages */
	/* Pointers to spaces of a pool that are fetched as over a network: the space has more than
	 * 64 runs of frames, the memory cannot be mapped page by page, or the pointer was taken
	 * inside a turn after a write. */
	uint64_t pool_fetched;
	uint64_t pool_gets; /* gets of 16 KiB or more from a pool, copied from its pages */
	/* Such gets that the node answered with the bytes: it keeps checksums, a quota is used up,
	 * more than 64 runs of frames have the bytes, or the reference lacks LEND_MAP. */
	uint64_t pool_gets_sent;
	uint64_t pool_args; /* arguments of 16 KiB or more at a pool, shown as its own pages */
	uint64_t pool_args_copied; /* such arguments that were copied, for the same reasons */
};
/* Reads these counters.
 * Ownership: borrows stat.
 * Threads: any. */
void lend_mem_cache_stat_get(struct lend_mem_cache_stat *stat);
/* Sets the cache's limit in bytes, 64 MiB by default; 0: no cache. Drops the cached pages.
 * Returns: 0; -EINVAL: more than 2^40.
 * Threads: any. */
int lend_mem_cache_limit(uint64_t bytes);

/* lend_args(3) - arguments by value, or by reference.
 *
 * A short argument is part of the message. Of a long one the message has a reference: to the
 * caller's own memory, which is lent to the callees until the call ends, or to a memory node, where
 * the bytes are put. The client chooses, from measured costs and from the number of services that
 * the message of a method goes through, as its replies report it; or the caller chooses for each
 * argument. Lending needs no node; nothing is put or released. It needs a session that is up, an
 * endpoint that listens on the carrier of that session, and that runs turns while the call is in
 * flight. A way that is not possible is replaced: the caller's memory by a node, a node by the
 * message.
 *
 * Arguments that were put belong to the caller (OWNED) and are released when the call ends, for any
 * reason: reply, failure, cancel, deadline, a lost session, a closed client. The arguments of a
 * reply are transferred: the receiver adopts or releases each within 30 s, then the node releases
 * them.
 *
 * A result is an argument of a reply with LEND_ARG_CALLER: the server lends its memory, for example
 * a loan, to the caller. The caller sets the argument's session to that of the call, then reads it
 * with lend_arg_get() or lend_arg_map() and ends it with lend_arg_release(). The server has its
 * memory back after the last release, at the end of the caller's session, after
 * lend_loan_ttl_set(), or when its client closes. From then on reads end NOT_FOUND, and views are
 * not intact. Reads of a server that ended are UNAVAILABLE.
 *
 * The call may start before all bytes of a put are at the node; reads of the reference then wait.
 * If the bytes do not arrive, reads end NOT_FOUND, or UNAVAILABLE with the node.
 *
 * Arguments go in the message if no node takes them, because all are full or do not answer: the put
 * has 250 ms plus 100 ns per byte, at most half of the call's time. If they are longer than the
 * peer's lend_session_message_max(), the put has all of the call's time. If it then fails, the call
 * ends with the put's status, not run.
 *
 * A stock gRPC client knows no arguments: its message is the only argument of its request, and it
 * gets the bytes of a reply's arguments one after the other; references are read for it.
 *
 * Threads: the endpoint's, unless a function states otherwise. */

/* How an argument travels. */
enum lend_arg_way {
	LEND_ARG_AUTO,   /* as lend_args_place() selects; by default the way that costs least */
	LEND_ARG_VALUE,  /* in the message */
	LEND_ARG_CALLER, /* lent: the receiver reads the sender's memory. In replies a result */
	LEND_ARG_NODE,   /* put on a memory node */
};
/* An argument of a call or reply: bytes, in any number of pieces, or a reference. */
struct lend_argument {
	const struct iovec *data;   /* the pieces; lent memory of several pieces is copied once */
	int n;                      /* number of pieces; 0 with a reference */
	enum lend_arg_way way;      /* used for bytes only */
	const struct lend_ref *ref; /* NULL: bytes. Held by this client, or received; or a slice */
	/* The home field of the argument that ref is, or is a slice of: one that was received, or
	 * of a published loan. NULL or "": ref is a node's. */
	const char *home;
};
/* Starts a call with a request of n arguments, at most 1024; call->request must be NULL, and is
 * NULL in done. A reference is passed on as it is: no byte moves. A received one needs
 * call->parent, the request that it came with, and is valid until that request is answered. That of
 * a loan that this client published needs no parent.
 * Returns: 0; -EINVAL: arguments, a reference that is not held and was not received with
 * call->parent, call->request is not NULL, or the client closes; -ENOMEM: no memory; or an error of
 * lend_call_start().
 * Ownership: borrows call, call->head, the bytes, and an argument's array data if its n is 2 or
 * more, until done, which may run before this function returns; copies arg. After a failure nothing
 * is borrowed. */
int lend_call_start_argv(struct lend_mem *mem, lend_session session, struct lend_call *call,
			 const struct lend_argument *arg, int n);
/* Starts a call with arguments and runs turns until done.
 * Returns: 0, with the result in call->status; an error of lend_call_start_argv(); -EDEADLK: inside
 * a turn; -EPERM: in the child of a fork.
 * Ownership: as lend_call_start_argv(). */
int lend_call_sync_argv(struct lend_mem *mem, lend_session session, struct lend_call *call,
			const struct lend_argument *arg, int n);
/* Answers a request of the client's own endpoint with n arguments, at most 1024. A reference to a
 * node must be granted to the caller, see lend_grant(). One to a process's memory is of a published
 * loan, or of a result that this client received: it ends as that does. If no node takes the bytes
 * and they are longer than the caller's message_max, the reply has the put's status and no
 * arguments.
 * Returns: 0; -ESTALE: the caller is gone or was answered; -EINVAL: arguments, or the client
 * closes; -ENOMEM: no memory. Except for -ESTALE the request still needs an answer.
 * Ownership: borrows the bytes, and the arrays data, until release(of) runs, once, possibly before
 * this function returns; if there are results, at the end of the last one. release NULL: until
 * lend_mem_close(). After a failure nothing is borrowed, and release does not run. */
int lend_reply_argv(struct lend_mem *mem, lend_request request, enum lend_status status,
		    const struct lend_argument *arg, int n, void (*release)(void *of), void *of);
/* Starts a call as lend_call_start_argv(), with arguments of one piece each.
 * Returns: 0; -EINVAL: arguments, call->request is not NULL, or the client closes; -ENOMEM: no
 * memory; or an error of lend_call_start().
 * Ownership: borrows call, the bytes, and the array arg if n is 2 or more, until done, which may
 * run before this function returns. After a failure nothing is borrowed. */
int lend_call_start_args(struct lend_mem *mem, lend_session session, struct lend_call *call,
			 const struct iovec *arg, int n);
/* Starts a call as lend_call_start_args() and runs turns until done.
 * Returns: 0, with the result in call->status; an error of lend_call_start_args(); -EDEADLK: inside
 * a turn; -EPERM: in the child of a fork.
 * Ownership: as lend_call_start_args(). */
int lend_call_sync_args(struct lend_mem *mem, lend_session session, struct lend_call *call,
			const struct iovec *arg, int n);
/* Cancels a call that was started with arguments; use it instead of lend_call_cancel(). The call
 * ends with LEND_CANCELLED, also while its arguments are being put. done still runs, once.
 * Ownership: borrows call. */
void lend_call_cancel_args(struct lend_mem *mem, struct lend_call *call);
/* Answers a request as lend_reply_argv(), with arguments of one piece each. If no node takes them
 * and they are longer than the caller's message_max, the reply has the put's status and no
 * arguments.
 * Returns: 0; -ESTALE: the caller is gone or was answered; -EINVAL: arguments, or the client
 * closes; -ENOMEM: no memory. Except for -ESTALE the request still needs an answer.
 * Ownership: borrows the bytes and the array until gone(arg) runs, once, possibly before this
 * function returns. gone NULL: until lend_mem_close(). After a failure nothing is borrowed, and
 * gone does not run. */
int lend_reply_args(struct lend_mem *mem, lend_request request, enum lend_status status,
		    const struct iovec *arg, int n, void (*release)(const struct iovec *arg));
/* One argument of a message. */
struct lend_arg {
	uint64_t len;        /* bytes of the argument */
	const void *bytes;   /* in the message; NULL: by reference */
	struct lend_ref ref; /* nothing is fetched until lend_arg_get() or lend_space_map() */
	char home[104];      /* address of the caller that lends its memory; "": ref is of a node */
	/* Set by the receiver of a reply: the session of the call. id 0: the argument of a request.
	 */
	lend_session session;
	/* Of a handler of lend_serve_args(): for lend_arg_intact(). NULL: the bytes do not change.
	 */
	const struct lend_arg_view *view;
};
/* Reads the next argument of a message; *cursor is 0 for the first.
 * Returns: 1; 0: there are no more; -EINVAL: the message has no valid arguments; -EMSGSIZE: an
 * argument spans several segments of landing memory that the receiver chose.
 * Ownership: borrows all of them; arg->bytes is valid as long as the message is.
 * Threads: any. */
int lend_arg_next(const struct lend_buf *message, uint32_t *cursor, struct lend_arg *arg);
/* Reads bytes of an argument that is a reference, as lend_get() does. If the caller lends its
 * memory, the bytes come from the caller, on the same host without a message: OK means that they
 * are the bytes of that call. op->parent is the request that the argument came with, or one that
 * the same call tree made of it; or arg->session is the session that a result came by. NOT_FOUND:
 * the call or the result has ended. ABORTED: the ttl of the loan has passed. PERMISSION_DENIED:
 * forged. If this process cannot reach the caller, the service that made op->parent reads for it:
 * it may be on both carriers. UNAVAILABLE: that cannot, either.
 * RESOURCE_EXHAUSTED, also: it ended while the bytes were in flight.
 * Returns: 0; -EINVAL: the bytes are in the message, op->parent is not an unanswered request of
 * this endpoint (as in a LEND_SLOW handler's thread), or the address of a result is of another
 * carrier than its session; -ENOSPC: 64 callers are in use; or an error of lend_get().
 * Ownership: borrows arg until it returns; into, its memory and op until done. */
int lend_arg_get(struct lend_mem *mem, const struct lend_arg *arg, uint64_t offset,
		 const struct iovec *into, int n, struct lend_op *op);
/* The bytes of an argument as memory, for reading only. */
struct lend_arg_view {
	const void *bytes;    /* the first byte; NULL: not mapped */
	uint64_t len;         /* bytes */
	uint64_t reserved[6]; /* the client's */
};
/* Gives the bytes of an argument as memory: those in the message; those in the memory of a caller
 * on this host, or in a pool's pages, without a copy; others are fetched. OK means that they can be
 * read. op is used as by lend_arg_get(), also for its statuses.
 * Returns: 0, or an error of lend_arg_get(). RESOURCE_EXHAUSTED, also: no memory for the bytes.
 * Ownership: borrows arg until it returns; op until done; view until lend_arg_unmap(), which is
 * due after OK. */
int lend_arg_map(struct lend_mem *mem, const struct lend_arg *arg, struct lend_arg_view *view,
		 struct lend_op *op);
/* Checks whether all bytes that were read from a view are the argument's. A caller on this host may
 * reuse its memory once the call has ended. So call it after reading, before anything is done that
 * the end of the call does not undo.
 * Returns: 0; -ESTALE: the call has ended, bytes may be of another use.
 * Ownership: borrows view.
 * Threads: any. */
int lend_arg_intact(const struct lend_arg_view *view);
/* Releases an argument of a reply, after its reads: a result ends, a node's reference is released.
 * Bytes in the message need none. Like any operation it may be repeated: NOT_FOUND means that the
 * result has ended. FAILED_PRECONDITION: it is no result.
 * Returns: 0, or an error of lend_arg_get() or lend_release().
 * Ownership: borrows arg and op until done. */
int lend_arg_release(struct lend_mem *mem, const struct lend_arg *arg, struct lend_op *op);
/* Ends a view, before lend_mem_close().
 * Ownership: the bytes are not lent any more; bytes of the message stay. */
void lend_arg_unmap(struct lend_mem *mem, struct lend_arg_view *view);
/* Runs when the arguments of a request are there: bytes of each is set, and valid until the handler
 * returns; with LEND_ARGS_PART only that of arguments in the message. Memory of a caller on this
 * host may change when its call ends: then the reply is dropped; before an action that the end of
 * the call does not undo, check lend_arg_intact() of the argument's view.
 * Ownership: args and their bytes are lent until the handler returns.
 * Threads: the endpoint's; with LEND_SLOW a worker's. */
typedef void lend_args_handler_fn(lend_request request, const struct lend_arg *args, int n,
				  void *arg);
/* Flags of lend_serve_args(), in addition to those of lend_serve(). */
enum {
	LEND_ARGS_MAP =
	    0, /* bytes are where they are: the caller's memory on this host, else own */
	LEND_ARGS_COPY = 8,  /* bytes by reference are copied into this process's own memory */
	LEND_ARGS_PART = 16, /* nothing is fetched: the handler calls lend_arg_get() */
};
/* Serves a method with requests of arguments, as lend_serve(). Arguments by reference are fetched
 * before the handler runs. If one cannot be fetched, the call ends with that status, not run; a
 * message without valid arguments, or with more than 1024, ends INVALID_ARGUMENT, not run. The
 * method ends with the client.
 * Returns: 0; -EINVAL: an unknown flag, or the client closes; -ENOMEM: no memory; or an error of
 * lend_serve().
 * Ownership: borrows arg until the handler is replaced or lend_mem_close(). */
int lend_serve_args(struct lend_mem *mem, uint32_t method, lend_args_handler_fn *handler, void *arg,
		    unsigned flags);
/* Serves a method with a name and requests of arguments: lend_serve_args() and lend_serve_name().
 * Returns: as both.
 * Ownership: as both. */
int lend_serve_args_name(struct lend_mem *mem, const char *name, lend_args_handler_fn *handler,
			 void *arg, unsigned flags);
/* Selects the way of arguments of calls that leave it open. CALLER and NODE take arguments of more
 * than 16 KiB, or than lend_args_threshold_set(). Lent bytes must not change until done, which
 * waits for no reader. Beyond 4,096 loans arguments go to a node, then by value.
 * Returns: 0; -EINVAL: not a way; -ENOMEM: no memory. */
int lend_args_place(struct lend_mem *mem, enum lend_arg_way way);
/* Returns the length of the longest LEND_ARG_AUTO argument of a method that goes in the message.
 * The first arguments of a session measure its costs in the background, and those of a node if
 * arguments are put. Replies report how many services a message went through: 2 until one did.
 * Longer arguments of calls to one service that reads the caller's memory in place are also sent in
 * the message if calls end sooner that way: 128 calls of about this length try both.
 * Returns: bytes; 32 KiB until costs are measured; LEND_NEVER: no length pays, or there is no way
 * by reference. */
uint64_t lend_args_threshold(struct lend_mem *mem, lend_session session, uint32_t method);
/* Repeats the measurement now, for each node and the session, and runs turns until it is complete,
 * at most a second: for the start of a program, before other traffic.
 * Returns: 0; -ENOMEM: no memory; -EDEADLK: inside a turn; -EPERM: in the child of a fork. */
int lend_args_measure(struct lend_mem *mem, lend_session session);
/* Sets the threshold in bytes of LEND_ARG_AUTO arguments, for all sessions of this client. 0:
 * every argument that is not empty is sent by reference; LEND_NEVER: as measured. */
void lend_args_threshold_set(struct lend_mem *mem, uint64_t bytes);
/* Counters since the client was opened. */
struct lend_args_stat {
	uint64_t by_ref;    /* arguments put on nodes */
	uint64_t lent;      /* arguments lent to the callees */
	uint64_t fallbacks; /* calls and replies by value: no node took their arguments */
};
/* Reads these counters.
 * Ownership: borrows stat. */
void lend_args_stat_get(struct lend_mem *mem, struct lend_args_stat *stat);

/* lend_loan(3) - memory that is passed as an argument without a copy.
 *
 * The producer fills the memory in place and passes it as an argument of a call that lends
 * (LEND_ARG_CALLER), or publishes it for readers of several calls. Over shm a reader maps it:
 * lend_arg_map(). Any other carrier, and arguments at a node, send from it.
 *
 * Threads: the endpoint's. */

/* Memory for one value of a producer. */
struct lend_loan {
	void *data;   /* the first byte, aligned to 4 KiB; not zeroed */
	uint64_t len; /* bytes, as requested */
	uint64_t id;  /* number of a published loan; otherwise 0 */
};
/* Takes memory of len bytes, at most 2^40 - 1, from the heap that shm peers map, or from
 * lend_malloc()'s where there is none. The system backs it with huge pages if it offers them for
 * shared memory (/sys/kernel/mm/transparent_hugepage/shmem_enabled).
 * Returns: 0; -ENOMEM: no memory; -EINVAL: len.
 * Ownership: *loan is the caller's until lend_loan_give(), which is due before lend_mem_close(). */
int lend_loan_take(struct lend_mem *mem, uint64_t len, struct lend_loan *loan);
/* Changes the length of a loan that is not published and not an argument of a call in flight. The
 * bytes up to the smaller length stay; data may change.
 * Returns: 0; -ENOMEM: no memory, nothing has changed; -EINVAL: len; -EBUSY: it is published.
 * Ownership: borrows loan. */
int lend_loan_resize(struct lend_mem *mem, struct lend_loan *loan, uint64_t len);
/* Publishes a loan: its bytes must not change from now on. The result can be copied into messages
 * and read by any process with lend_arg_get() and lend_arg_map(), until lend_loan_give(),
 * lend_mem_close() or the end of this process; then reads end NOT_FOUND. Between its ttl
 * (lend_loan_ttl_set()) and that time, reads end ABORTED. op.parent of a read is a request that
 * came by the same carrier, or the argument's session is a session on that carrier.
 * Returns: 0; -EALREADY: it is published; -EADDRNOTAVAIL: the endpoint does not listen on that
 * carrier; -ESTALE: the session is gone; -ENOSPC: 4,096 loans are in use; -ENOMEM: no memory.
 * Ownership: borrows loan and arg. session: one to a reader, or on the same carrier. */
int lend_loan_publish(struct lend_mem *mem, struct lend_loan *loan, lend_session session,
		      struct lend_arg *arg);
/* Sets the ttl of loans that are published, and of results that are sent, from now on; 0: none for
 * loans, 30 s for results. It ends with the first turn after that time. The statistics count it:
 * `lend top` shows the loans that expired. */
void lend_loan_ttl_set(struct lend_mem *mem, lend_ns ttl);
/* Gives a loan back. Calls with it as an argument must have ended. Does not wait for readers: they
 * find out with lend_arg_intact().
 * Ownership: takes the memory; *loan is zero afterwards. */
void lend_loan_give(struct lend_mem *mem, struct lend_loan *loan);

/* lend_mem_stat(3) - statistics of a memory node.
 *
 * Threads: the endpoint's. */

/* State of a node, and its counters since it started. A reply keeps its pages in use until the peer
 * has acknowledged it. */
struct lend_mem_stat {
	uint64_t pages_total;       /* pages that can be used */
	uint64_t pages_used;        /* pages in use */
	uint64_t pages_quarantined; /* freed pages in quarantine */
	uint64_t refs;              /* snapshots */
	uint64_t spaces;            /* mutable spaces */
	uint64_t clients;           /* clients that have connected and not closed */
	uint64_t grants_expired;    /* counter: grants ended by their ttl */
	uint64_t holds;             /* holds on snapshots */
	uint64_t grants;            /* grants that are not used up */
	uint64_t cow_copies;        /* counter: pages copied by the first write to a shared page */
	uint64_t leases_expired;    /* counter: processes that lost their lease */
	uint64_t hangups;           /* counter: processes that closed the connection */
	uint64_t ops;               /* counter: operations */
	uint64_t tx_bytes;          /* counter: bytes that the node passed to its carriers */
	uint64_t damaged;           /* counter: times that a page lacked the bytes written to it */
	uint64_t page_bytes;        /* bytes of one page: lend-mn --page */
};
/* Reads a node's statistics. node: its index in the order in which nodes were named, from 0. For a
 * node with several workers they are summed: a client counts once for each worker that it uses.
 * Returns: 0; -EINVAL: no such node, op->priority, or the client closes.
 * Ownership: borrows stat and op until done. */
int lend_mem_stat_get(struct lend_mem *mem, int node, struct lend_mem_stat *stat,
		      struct lend_op *op);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
