/* exec - the state of a memory node, and the one step that runs an operation: request bytes in,
 * reply bytes out.
 *
 *   place() --> frames to receive the payload of a long put or write (optional; see unplace())
 *   exec()  --> status and reply; segments of a get are pages in place, pinned until done()
 *   tick()  --> ends expired leases and grants; deadline() returns when to call it
 *
 * The state is one arena without pointers. The bytes of the pages are in a second block, which
 * other processes may share one day. An operation that fails leaves the store unchanged, except
 * that pages of objects released earlier may be freed.
 *
 * Layer: mn/store (pure). Threads: none; a store belongs to the thread that calls it. Time never
 * goes back. */
#ifndef MN_STORE_EXEC_H
#define MN_STORE_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/dgram.h"
#include "wire/memop.h"

struct lend_store;

enum { LEND_STORE_PAGES_MAX = 1 << 27 };

struct lend_store_config {
	uint32_t pages;        /* usable pages, 1 .. LEND_STORE_PAGES_MAX */
	uint32_t page;         /* bytes per page: a power of two, LEND_MEM_PAGE .. _MAX */
	uint32_t objects;      /* snapshots and spaces, 1 .. 2^24 - 1 */
	uint32_t holds;        /* 1 .. 2^24 - 1 */
	uint32_t grants;       /* 1 .. 2^24 - 1 */
	uint32_t clients;      /* 1 .. 2^16 - 1; each costs `open` records of 80 bytes */
	uint32_t incarnations; /* processes, 1 .. 2^16 */
	uint32_t placements;   /* placements: messages received into frames at a time, 1 .. 4096 */
	uint32_t tenants;      /* entries with quotas, 0 .. 256; 0 means 1 */
	uint32_t open;         /* records per client: a power of two, at most LEND_MEM_OPEN_MAX */
	uint32_t reap; /* 1 ..: page table nodes, of 64 pages each, that one step frees at most.
			  Pages larger than 4 KiB: as many bytes as that many nodes of 4 KiB pages
			  have, or one page */
	uint32_t node, epoch;     /* random; node of this node, epoch of this start */
	uint32_t worker, workers; /* this store's index; number of the node's stores: 1 .. 64 */
	uint32_t yields;          /* 1: pages in quarantine are used when no other page is free */
	uint32_t checksum;  /* 1: each page has a checksum of 4 bytes, verified when it is read */
	lend_ns lease;      /* length of a lease, from a process's last traffic */
	lend_ns late;       /* a tick later than this means that the node itself was paused */
	lend_ns revive;     /* least remaining time of a grant when its adopt is forgotten: 5 s */
	lend_ns quarantine; /* time until a freed page is used again (see yields); 0: none */
	uint8_t key[16];    /* random: signs references */
	const char *addresses; /* sent in HELLO replies; copied; NULL: none */
};
/* Fills in table sizes for this many bytes in pages of this size, with room for small objects. The
 * caller still sets node, epoch and key. */
void lend_store_config_default(struct lend_store_config *config, uint64_t bytes, uint32_t page);

/* Return the bytes of the arena, or 0 if the config is not valid; and the bytes of the block of
 * pages. */
size_t lend_store_size(const struct lend_store_config *config);
size_t lend_store_pages_size(const struct lend_store_config *config);
/* Builds a store in mem (cache-line aligned). pages is aligned to 4 KiB at least and all zero. Both
 * blocks stay the caller's and must live as long as the store. */
struct lend_store *lend_store_init(void *mem, const struct lend_store_config *config, void *pages,
				   lend_ns now);
/* The same where mem is all zero. Touches few pages of it: the tables may be far larger than the
 * memory that is left. */
struct lend_store *lend_store_build(void *mem, const struct lend_store_config *config, void *pages,
				    lend_ns now);
/* Returns the offset of the records in the arena, and their bytes. Each client has its own part and
 * uses little of it at first. */
uint64_t lend_store_records(const struct lend_store *store, uint64_t *bytes);
/* The limits of a tenant; all ones: no limit. A quota applies to new requests: nothing that exists
 * is taken away. */
struct lend_store_quota {
	uint64_t
	    pages; /* pages of snapshots that it holds or offers, of its spaces, of placements */
	uint32_t refs;    /* holds, grants and spaces */
	uint32_t clients; /* clients that sent HELLO */
};
struct lend_store_usage {
	uint64_t pages;
	uint64_t pinned; /* pages of replies in flight; limited to the page quota, too */
	uint32_t refs, clients;
};
/* Returns the number of the tenant with this id (not 0), and sets its quota. Creates the tenant if
 * it does not exist. Tenants are kept over restarts. Returns 0 when config.tenants entries are in
 * use: tenant 0 is shared by all others. */
uint32_t lend_store_tenant(struct lend_store *store, uint64_t id,
			   const struct lend_store_quota *quota);
/* Sets a tenant's quota. Tenants are numbered from 0, below config.tenants, and have no limits at
 * first. */
void lend_store_set_quota(struct lend_store *store, uint32_t tenant,
			  const struct lend_store_quota *quota);
void lend_store_usage(const struct lend_store *store, uint32_t tenant,
		      struct lend_store_usage *usage);
/* Sets where the pages of a copied arena are. */
void lend_store_attach(struct lend_store *store, void *pages);
/* Returns a hash of the arena without its counters. */
uint64_t lend_store_hash(const struct lend_store *store);

struct lend_store_seg {
	void *data;
	uint64_t len;
};
enum {
	/* Segments of one reply or placement. Each part of a GET_MANY may begin and end inside a
	 * page. */
	LEND_STORE_SEGS_MAX = LEND_MEM_PART_MAX / LEND_MEM_PAGE + 2 * LEND_MEM_MANY_MAX,
	LEND_STORE_PLACE_MIN = 2 * LEND_MEM_PAGE, /* shorter payloads are copied */
};

/* A session, owned by its server. The server sets all fields but life and clients before the first
 * operation. */
struct lend_store_peer {
	uint8_t incarnation[16];             /* sent by the peer when it connected */
	uint8_t context[LEND_MEMOP_CONTEXT]; /* set before each HELLO that joins a life */
	uint64_t life;                       /* opened or joined by its last HELLO; 0: none */
	uint32_t clients;                    /* clients opened by it in this life and not closed */
	uint32_t tenant; /* pays for a life that this session opens, also for clients of sessions
			    that join it */
};
enum { LEND_STORE_PEER_CLIENTS = 16 };
/* A request: its bytes in order, segments of any length. */
struct lend_store_in {
	struct lend_store_peer *peer; /* exec() sets life and clients */
	const struct lend_store_seg *seg;
	uint32_t n;
	uint32_t placement; /* placement of lend_store_place(); 0: none. exec() takes it, also when
			       it fails */
	bool late;          /* the request waited in its process's queue; a HELLO must not wait */
};
/* A reply: a status, and bytes in seg[0..n) for LEND_MEM_OK, none otherwise. The bytes are in head
 * or in pages. When pinned is set, the segments must go to done() once the carrier no longer reads
 * them; the first head_len bytes of head come before them. */
struct lend_store_out {
	enum lend_mem_status status;
	bool pinned;
	bool damaged;         /* a page did not match its checksum */
	uint32_t tenant;      /* pays for the pinned pages */
	uint32_t awaits_slot; /* LEND_MEM_UNWRITTEN: the snapshot, for lend_store_awaits() */
	uint64_t awaits_serial;
	uint32_t n;
	uint32_t head_len;
	uint64_t len; /* bytes of all segments */
	struct lend_store_seg seg[LEND_STORE_SEGS_MAX];
	uint8_t head[LEND_MEMOP_REPLY_MAX];
};

/* Reserves frames for the payload of a PUT or WRITE that begins with these n bytes and is len long.
 * Fills seg[0..*segs) with the memory for the bytes behind the first *fixed, and returns the
 * placement. Returns 0, with nothing taken, when exec() will copy or refuse the payload. */
uint32_t lend_store_place(struct lend_store *store, const struct lend_store_peer *peer,
			  const void *head, size_t n, uint64_t len,
			  struct lend_store_seg seg[LEND_STORE_SEGS_MAX], uint32_t *segs,
			  uint32_t *fixed);
/* Frees a placement after its message could not be received completely. */
void lend_store_unplace(struct lend_store *store, uint32_t placement);
/* Runs one operation. Returns its status, which is also in out. */
enum lend_mem_status lend_store_exec(struct lend_store *store, lend_ns now,
				     const struct lend_store_in *in, struct lend_store_out *out);
/* Unpins the segments of a pinned reply to this tenant. Call it once per reply. */
void lend_store_done(struct lend_store *store, uint32_t tenant, const struct lend_store_seg *seg,
		     uint32_t n);
/* Ends expired leases and grants, and frees more of the objects that were released: large ones are
 * freed in steps, so that operations do not wait for them. Call it at deadline() (0: at once),
 * after running the operations that have arrived. */
void lend_store_tick(struct lend_store *store, lend_ns now);
lend_ns lend_store_deadline(const struct lend_store *store);
/* A request that got LEND_MEM_UNWRITTEN has changed nothing and must run again when its snapshot
 * has been written, or has ended: when awaits() returns false. settled() returns a counter that
 * changes whenever that happens to a snapshot. */
uint32_t lend_store_settled(const struct lend_store *store);
bool lend_store_awaits(const struct lend_store *store, uint32_t slot, uint64_t serial);
/* Ends a life and everything that its process held. An unknown life is ignored. */
void lend_store_hangup(struct lend_store *store, uint64_t life);

/* Registers a process that is going to map pages, by a secret that is not 0. It may map until its
 * hang-up. Returns false when as many processes as clients are registered. A hang-up of an unknown
 * process is ignored. */
bool lend_store_pool_open(struct lend_store *store, uint64_t key);
void lend_store_pool_hangup(struct lend_store *store, uint64_t key);

/* Returns the bytes of a page. */
uint32_t lend_store_page(const struct lend_store *store);
/* Returns whether each read checks the checksums of its pages. */
bool lend_store_checks(const struct lend_store *store);
/* Sets the bytes that the daemon's carriers have sent so far, for STAT. */
void lend_store_set_tx_bytes(struct lend_store *store, uint64_t bytes);
void lend_store_stats(const struct lend_store *store, struct lend_memstats *stats);
/* Reads all pages in use and returns how many do not match their checksums; 0 without
 * config.checksum. */
uint64_t lend_store_scrub(const struct lend_store *store);
/* Recounts all ledgers in scratch memory. Returns NULL when they agree, else a text that names the
 * mismatch. Slow; for tests. */
size_t lend_store_audit_size(const struct lend_store *store);
const char *lend_store_audit(const struct lend_store *store, void *scratch);

#endif
