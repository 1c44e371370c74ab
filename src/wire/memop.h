/* memop - wire format of the memory node's operations, and their limits.
 *
 * Every operation is one call of LEND_MEM_METHOD. Its request is a head, fields that depend on the
 * operation, and for PUT, WRITE and RELEASE a payload up to the end of the message. All numbers are
 * little endian, at these offsets, without alignment:
 *
 *   head, 32     op 1, version 1, flags 2, client 4, operation id 8, low water 8, life 8
 *   terms, 16    kind 1, zero 3, n 4, ttl in ns 8
 *   space, 16    slot 4, epoch 4, serial 8
 *
 *   HELLO        proof 16                            -> node 4, epoch 4, page size 4, open 2,
 *                                                       worker 1, workers 1, lease ns 8, life 8,
 *                                                       life key 16, length 4, zero 4, addresses
 *   PUT          terms, len 8, payload               -> reference      EARLY: without payload
 *   GET          reference, offset 8, len 8          -> the bytes; IN_PLACE: table 8, entries 8
 *   ALLOC        len 8                               -> space
 *   READ         space, offset 8, len 8              -> the bytes
 *   WRITE        space, offset 8, len 8, payload     -> -
 *   SEAL         space, offset 8, len 8, terms       -> reference      CONSUME frees the space
 *   MAP          reference                           -> space, len 8
 *   ADOPT        reference                           -> -
 *   GRANT        reference, terms                    -> -              terms TRANSFER or SHARED
 *   RELEASE      n 4, zero 4, payload n references   -> released 4, not held 4
 *   NARROW       reference, offset 8, len 8, rights 4, zero 4 -> reference
 *   FREE         space                               -> -
 *   STAT         -                                   -> n 4, zero 4, n numbers of 8: LEND_MEM_STATS
 *   FORGET       operation id 8                      -> enum lend_memop_forgot 1, zero 7
 *   RENEW        -                                   -> -
 *   BYE_CLIENT   -                                   -> -
 *   POOL_MAP     reference, key 8                    -> space, len 8, view
 *   POOL_VIEW    space, page 8, key 8                -> view           page 0 makes a new view
 *   POOL_DROP    pinned map (as a space), key 8 -> -
 *   GET_MANY     n 4, zero 4, payload n parts        -> n statuses of 4, the bytes of all
 *                                                       parts; zeros for those that failed
 *   part, 80     reference, offset 8, len 8
 *   view         pinned map 16, pages 8, offset in the first 4, n 4, n runs of {frame 4, pages 4}
 *
 * POOL_* are for processes that map the node's memory (lend_store_pool_open): frames by
 * number, frame 0 being zeros. The frames of a view are not changed and not used again until the
 * client has unmapped it and sent FREE, POOL_DROP or a FORGET of the POOL_MAP, or its socket has
 * closed. The end of a lease does not release them. A get is POOL_MAP, a copy, and that FORGET.
 *
 * Operation ids increase from 1 per client and node. Operations that change state
 * (lend_memop_recorded) must have an id in [low water, low water + open); the others may use 0. Low
 * water: every operation with a lower id was answered or forgotten; the node keeps no record of
 * those.
 *
 * A life is the identity of a process at one store. HELLO with life 0 opens one (in a session that
 * has one: returns that one); the reply contains its number and its key. Each further session joins
 * it by HELLO with the life and lend_memop_proof(). Client 0 joins and opens no client. HELLO with
 * a life that has ended, or with a wrong proof, is ABORTED: send HELLO with life 0. Any other
 * operation is accepted only in a session that opened or joined its life. Otherwise, and for an
 * unknown client, it is ABORTED: send HELLO; if the life has ended, its references and spaces are
 * gone.
 *
 * Layer: wire (pure). No state. */
#ifndef LEND_WIRE_MEMOP_H
#define LEND_WIRE_MEMOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/memref.h"

#define LEND_MEM_METHOD      0x4c454e44u /* the one method of a memory node: "LEND" */
#define LEND_MEM_OPEN_MAX    1024u       /* operation ids of a client above its low water */
#define LEND_MEM_PART_MAX    (8u << 20)  /* bytes of one PUT, GET, READ or WRITE */
#define LEND_MEM_BATCH_MAX   1024u       /* references in one RELEASE */
#define LEND_MEM_MANY_MAX    64u         /* parts of one GET_MANY, of LEND_MEM_PART_MAX in all */
#define LEND_MEM_PAGE        4096u       /* default page size */
#define LEND_MEM_PAGE_MAX    (2u << 20)
#define LEND_MEM_EXTENTS_MAX 64u    /* runs of frames in one view */
#define LEND_MEM_SHOW_MAX    65536u /* pages in one view; POOL_VIEW returns the following ones */
#define LEND_MEM_SHOW_FIRST                                                                        \
	(LEND_MEM_PART_MAX / LEND_MEM_PAGE + 1) /* pages in the view of POOL_MAP: one get's */
#define LEND_MEM_TTL_MAX (UINT64_C(1) << 62)    /* ns */

enum lend_memop_kind {
	LEND_MEMOP_HELLO = 1,
	LEND_MEMOP_PUT,
	LEND_MEMOP_GET,
	LEND_MEMOP_ALLOC,
	LEND_MEMOP_READ,
	LEND_MEMOP_WRITE,
	LEND_MEMOP_SEAL,
	LEND_MEMOP_MAP,
	LEND_MEMOP_ADOPT,
	LEND_MEMOP_GRANT,
	LEND_MEMOP_RELEASE,
	LEND_MEMOP_NARROW,
	LEND_MEMOP_FREE,
	LEND_MEMOP_STAT,
	LEND_MEMOP_FORGET,
	LEND_MEMOP_RENEW,
	LEND_MEMOP_BYE_CLIENT,
	LEND_MEMOP_POOL_MAP,
	LEND_MEMOP_POOL_VIEW,
	LEND_MEMOP_POOL_DROP,
	LEND_MEMOP_GET_MANY,
	LEND_MEMOP_KINDS,
};

/* The canonical status codes that a memory node returns. */
enum lend_mem_status {
	LEND_MEM_OK = 0,
	LEND_MEM_INVALID_ARGUMENT = 3,   /* malformed, or not meaningful */
	LEND_MEM_NOT_FOUND = 5,          /* the reference is of another epoch, or gone */
	LEND_MEM_PERMISSION_DENIED = 7,  /* forged, or without that right */
	LEND_MEM_RESOURCE_EXHAUSTED = 8, /* a table or the pages are full */
	LEND_MEM_FAILED_PRECONDITION =
	    9, /* nothing to release, adopt or grant; an old operation id */
	LEND_MEM_ABORTED =
	    10, /* the operation is of an ended life or unknown client, or forgotten */
	LEND_MEM_OUT_OF_RANGE = 11,
	LEND_MEM_UNIMPLEMENTED = 12, /* unknown operation or version */
	LEND_MEM_DATA_LOSS = 15,     /* a page's bytes are not those that were written */
	LEND_MEM_UNWRITTEN = 32,     /* never sent: the snapshot is being written; run it again */
};

enum lend_memop_forgot {
	LEND_FORGOT_PREVENTED, /* the operation did not run and never will; or it ran and failed */
	LEND_FORGOT_UNDONE,    /* the operation ran; its result was dropped */
	LEND_FORGOT_RAN, /* it ran and was not undone: WRITE, RELEASE, FREE, or ADOPT of a reference
			    already held */
};

/* As enum lend_hold of lend/mem.h. */
enum lend_memterms_kind { LEND_TERMS_OWNED, LEND_TERMS_TRANSFER, LEND_TERMS_SHARED };

struct lend_memterms {
	uint8_t kind;
	uint32_t n;   /* SHARED: number of permitted adoptions */
	uint64_t ttl; /* ns from its execution; TRANSFER and SHARED */
};

struct lend_memspace {
	uint32_t slot, epoch;
	uint64_t serial;
};

/* Flags, by operation: of SEAL; of PUT; of GET at a process that lends; of GET, PUT and WRITE.
 * EARLY: the payload comes in another PUT with the same id; until then, reads of the reference
 * wait. BOUND, of PUT and SEAL: the reference is for sessions of this tenant only; without one
 * FAILED_PRECONDITION. END: the receiver of a result needs it no more; no bytes are read.
 * ONE_SIDED, without another flag: in place of the bytes the message has what lend_show() wrote,
 * and their receiver reads them. UNIMPLEMENTED: nothing ran, send the operation without this flag.
 * FAILED_PRECONDITION: the same; the link that the operation needs is gone. */
enum {
	LEND_MEMOP_CONSUME = 1,
	LEND_MEMOP_EARLY = 1,
	LEND_MEMOP_IN_PLACE = 1,
	LEND_MEMOP_END = 2,
	LEND_MEMOP_BOUND = 4,
	LEND_MEMOP_ONE_SIDED = 8,
};

enum {
	LEND_MEMOP_HEAD = 32,
	LEND_MEMOP_FIXED_MAX = LEND_MEMOP_HEAD + 88, /* head and fields of the longest operation */
	LEND_MEMOP_SHOWN_MAX = 1024,                 /* payload of a PUT or WRITE with ONE_SIDED */
	LEND_MEMOP_TEXT_MAX = 1024,                  /* HELLO's address text */
	LEND_MEMOP_HELLO_LEN = 56,
	LEND_MEMOP_KEY = 16,     /* a life's key, and a proof made with it */
	LEND_MEMOP_CONTEXT = 32, /* known to both ends of a session, unique to it */
	LEND_MEMOP_REPLY_MAX =
	    LEND_MEMOP_HELLO_LEN + LEND_MEMOP_TEXT_MAX, /* longest reply without page bytes */
};

/* An operation; fields that its kind does not have are zero. */
struct lend_memop {
	uint8_t kind;
	uint16_t flags;
	uint32_t client;
	uint64_t id, low, life;
	uint8_t proof[LEND_MEMOP_KEY]; /* HELLO with a life */
	uint32_t n;                    /* RELEASE: number of references; GET_MANY: of parts */
	uint32_t rights;               /* NARROW: rights of the result */
	struct lend_memref ref;
	const uint8_t *ref_bytes; /* to encode: the reference as received; NULL: encode ref */
	struct lend_memspace space;
	uint64_t offset, len;
	uint64_t target; /* FORGET: the operation id; POOL_*: the key */
	struct lend_memterms terms;
	uint32_t fixed; /* from decode: bytes of head and fields; the payload follows */
};

/* Returns whether the operation changes state: its id and outcome are then recorded until the low
 * water passes it. */
bool lend_memop_recorded(uint8_t kind);
/* Returns the bytes of head and fields of this kind; 0 for an unknown one. */
uint32_t lend_memop_fixed(uint8_t kind);
/* Returns the bytes of payload after the fields, without ONE_SIDED. */
uint64_t lend_memop_payload(const struct lend_memop *op);
/* Writes head and fields; returns their length. The kind must be known. */
uint32_t lend_memop_encode(const struct lend_memop *op, uint8_t out[LEND_MEMOP_FIXED_MAX]);
/* Decodes a request: the first n bytes of a message of len, at least min(len, LEND_MEMOP_FIXED_MAX)
 * of them. Returns LEND_MEM_OK and *op, or the error; *op is then undefined. A message is malformed
 * if its length differs from the length that its fields give. The sender may still write to the
 * bytes, so each is read once. */
enum lend_mem_status lend_memop_decode(const void *bytes, size_t n, uint64_t len,
				       struct lend_memop *op);

/* Computes the proof that the sender of a HELLO with this life has its key; valid in one session
 * only. */
void lend_memop_proof(const uint8_t key[LEND_MEMOP_KEY], const uint8_t context[LEND_MEMOP_CONTEXT],
		      const struct lend_memop *hello, uint8_t proof[LEND_MEMOP_KEY]);

/* A part of a GET_MANY: bytes of one reference. */
struct lend_mempart {
	struct lend_memref ref;
	uint64_t offset, len;
};
enum { LEND_MEMPART_LEN = LEND_MEMREF_LEN + 16 };
/* Writes a part with a reference as it was received. */
void lend_mempart_encode(const uint8_t ref[LEND_MEMREF_LEN], uint64_t offset, uint64_t len,
			 uint8_t out[LEND_MEMPART_LEN]);
/* Returns whether the reference is well formed; offset and len are valid in any case. */
bool lend_mempart_decode(const uint8_t bytes[LEND_MEMPART_LEN], struct lend_mempart *part);

/* Replies. Decoders return false when the length or a field is wrong. */
struct lend_memhello {
	uint32_t node, epoch, page;
	uint64_t life;
	uint8_t key[LEND_MEMOP_KEY]; /* zero in the reply to a join */
	uint64_t lease;              /* ns */
	uint32_t open;               /* operations, at most LEND_MEM_OPEN_MAX */
	/* Index of the worker that answered, and the number of the node's workers: 1 ..
	 * LEND_MEMREF_WORKERS_MAX. Node and epoch are the same at all workers; each has lives and
	 * operation ids of its own. */
	uint8_t worker, workers;
	uint32_t text_len;
	const char *text; /* the workers' addresses, separated by commas, as many as fit; not
			     zero-terminated */
};
uint32_t lend_memhello_encode(const struct lend_memhello *hello, uint8_t out[LEND_MEMOP_REPLY_MAX]);
bool lend_memhello_decode(const void *bytes, size_t len, struct lend_memhello *hello);

void lend_memspace_encode(const struct lend_memspace *space, uint8_t out[16]);
bool lend_memspace_decode(const void *bytes, size_t len, struct lend_memspace *space);

/* A part of the memory that a client may map: runs of frames, from the requested page on. */
struct lend_memextent {
	uint32_t frame, pages;
};
struct lend_memview {
	struct lend_memspace pinned_map;
	uint64_t pages; /* pages of the whole space; the runs may end earlier */
	uint32_t base;  /* offset of the space in the first page */
	uint32_t n;
	struct lend_memextent extent[LEND_MEM_EXTENTS_MAX];
};
enum { LEND_MEMVIEW_LEN = 32, LEND_MEMVIEW_MAX = LEND_MEMVIEW_LEN + 8 * LEND_MEM_EXTENTS_MAX };
uint32_t lend_memview_encode(const struct lend_memview *view, uint8_t out[LEND_MEMVIEW_MAX]);
bool lend_memview_decode(const void *bytes, size_t len, struct lend_memview *view);

/* In wire order; append new ones at the end. */
#define LEND_MEM_STATS(X)                                                                          \
	X(pages_total, "pages that can be used")                                                   \
	X(pages_used, "pages in use, pinned and arriving ones included")                           \
	X(pages_pinned, "pages that a reply under way still needs")                                \
	X(pages_quarantined, "freed pages in quarantine")                                          \
	X(refs, "snapshots")                                                                       \
	X(spaces, "mutable spaces")                                                                \
	X(clients, "clients connected")                                                            \
	X(incarnations, "processes with a lease")                                                  \
	X(holds, "holds on snapshots")                                                             \
	X(grants, "grants not yet used up")                                                        \
	X(nodes_used, "page table nodes in use")                                                   \
	X(ops, "operations run")                                                                   \
	X(repeats, "repeated repeated operations answered from the record")                        \
	X(bad_ops, "malformed operations")                                                         \
	X(denied, "operations refused: reference forged, or without the right")                    \
	X(stale, "operations refused: reference or space released, or of another epoch")           \
	X(full, "operations refused: no memory or table entry")                                    \
	X(aborted, "operations refused: client unknown, ended or expired")                         \
	X(forgets, "operations forgotten")                                                         \
	X(cow_copies, "pages copied by the first write to a shared page")                          \
	X(pin_copies, "pages copied because a reply under way needed them")                        \
	X(grants_expired, "grants ended by their ttl")                                             \
	X(leases_expired, "processes whose lease ended")                                           \
	X(hangups, "processes that closed the connection")                                         \
	X(pauses, "times that this node ran late and extended leases")                             \
	X(tx_bytes, "bytes that the daemon handed to its carriers")                                \
	X(pinned_maps, "spaces that processes map, also after their release")                      \
	X(over_quota, "operations refused because their tenant's quota is used up")                \
	X(damaged, "damaged pages found by checksum")                                              \
	X(page_bytes, "bytes of a page")

struct lend_memstats {
#define X(name, text) uint64_t name;
	LEND_MEM_STATS(X)
#undef X
};
enum { LEND_MEMSTATS_LEN = 8 + sizeof(struct lend_memstats) };
_Static_assert(sizeof(struct lend_memstats) + 8 <= LEND_MEMOP_TEXT_MAX, "a reply");
uint32_t lend_memstats_encode(const struct lend_memstats *stats, uint8_t out[LEND_MEMSTATS_LEN]);
/* Decodes statistics. Numbers that a node of another version does not send are zero. */
bool lend_memstats_decode(const void *bytes, size_t len, struct lend_memstats *stats);

#endif
