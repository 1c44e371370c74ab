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
void lend_ref_store(void *message,
		    const struct lend_ref *ref); /* message bytes have no alignment */
void lend_ref_load(struct lend_ref *ref, const void *message);
uint64_t lend_ref_len(const struct lend_ref *ref);
enum { LEND_READ = 1, LEND_MAP = 2, LEND_GRANT = 4 };
/* A narrower reference to [offset, offset + len), made here without a round trip. -ERANGE, -EPERM;
 * -EMLINK after two. */
int lend_ref_slice(const struct lend_ref *ref, uint64_t offset, uint64_t len, unsigned rights,
		   struct lend_ref *out);
/* "lend1:...@udp:10.0.0.7:7000", for command lines and logs, and back. */
int lend_ref_text(struct lend_mem *mem, const struct lend_ref *ref, char *text, size_t cap);
int lend_ref_parse(struct lend_mem *mem, const char *text, struct lend_ref *ref);

/* nodes: "shm:mn0", or a list "udp:a:7000,udp:b:7000". */
int lend_mem_open(struct lend_ep *ep, const char *nodes, struct lend_mem **mem);
/* One more node, for references whose node this client could not reach (-EHOSTUNREACH).
 * Outside a turn it waits until the node has said who it is: 0; -EHOSTUNREACH (nobody answers),
 * -EEXIST (another node of this client has that id), -EINVAL (address), -ENOSPC, -ENOMEM. */
int lend_mem_add(struct lend_mem *mem, const char *address);
void lend_mem_close(struct lend_mem *mem); /* releases what this client still owns */

struct lend_op {
	void (*done)(struct lend_op *op);
	lend_request parent; /* the request it serves, as in lend_call */
	lend_ns timeout;
	uint8_t priority;
	enum lend_status status;
	enum lend_ran
	    ran; /* MAYBE: what it would have made is forgotten at the node; a write may stand */
	struct lend_ref ref;   /* out of put, seal, narrow */
	struct lend_call call; /* the runtime's */
	uint64_t reserved[32]; /* the client's */
};
/* Zero what is not set. done may run before the function that starts the operation returns (an
 * adopt of what is held already needs no call), and runs exactly once when that function returned
 * 0. It may start, end and free anything, the op included. */
void lend_op_cancel(struct lend_mem *mem, struct lend_op *op); /* done still runs, once */
int lend_op_wait(struct lend_mem *mem,
		 struct lend_op *op); /* 0 (look at status) or a negative errno */

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
	uint32_t n;
	lend_ns ttl;
};

/* Bytes to a snapshot, and back; the bytes, and an array of two or more, are borrowed until done.
 * terms NULL: OWNED. All of these: 0; -EINVAL, -ENOMEM, -EHOSTUNREACH (no node of this client has
 * the reference's id; lend_why() names it), -ESTALE (a space that is gone). */
int lend_put(struct lend_mem *mem, const struct iovec *data, int n, const struct lend_terms *terms,
	     struct lend_op *op);
int lend_get(struct lend_mem *mem, const struct lend_ref *ref, uint64_t offset,
	     const struct iovec *into, int n, struct lend_op *op);
int lend_adopt(struct lend_mem *mem, const struct lend_ref *ref, struct lend_op *op);
int lend_grant(struct lend_mem *mem, const struct lend_ref *ref, const struct lend_terms *terms,
	       struct lend_op *op);
int lend_narrow(struct lend_mem *mem, const struct lend_ref *ref, uint64_t offset, uint64_t len,
		unsigned rights, struct lend_op *op);
int lend_release(struct lend_mem *mem, const struct lend_ref *ref, int n,
		 struct lend_op *op); /* n references at once */

typedef struct {
	uint64_t id;
} lend_space;
int lend_space_alloc(struct lend_mem *mem, uint64_t len, lend_space *space, struct lend_op *op);
int lend_space_map(struct lend_mem *mem, const struct lend_ref *ref, lend_space *space,
		   struct lend_op *op);
int lend_space_read(struct lend_mem *mem, lend_space space, uint64_t offset,
		    const struct iovec *into, int n, struct lend_op *op);
int lend_space_write(struct lend_mem *mem, lend_space space, uint64_t offset,
		     const struct iovec *data, int n, struct lend_op *op);
int lend_space_seal(struct lend_mem *mem, lend_space space, uint64_t offset, uint64_t len,
		    const struct lend_terms *terms, struct lend_op *op);
int lend_space_free(struct lend_mem *mem, lend_space space, struct lend_op *op);

/* What a node holds. */
struct lend_mem_stat {
	uint64_t pages_total, pages_used, pages_quarantined, refs, spaces, clients, grants_expired;
	uint64_t holds, grants, cow_copies, leases_expired, hangups, ops;
	uint64_t tx_bytes; /* that the node's daemon handed to its carriers since it started */
};
int lend_mem_stat(struct lend_mem *mem, int node, struct lend_mem_stat *stat, struct lend_op *op);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
