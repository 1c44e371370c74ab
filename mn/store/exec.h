/* exec - a memory node's state and its one step: the bytes of an operation in, those of its reply
 * out.
 *
 *   place() --> frames for a long put or write to land in      (optional; undone by unplace())
 *   exec()  --> status and reply; segments of a get are pages in place, pinned until done()
 *   tick()  --> leases and grants that have ended; deadline() says when
 *
 * Everything lies in one arena without pointers; the bytes of the pages lie in a second block,
 * which other processes may share one day. An operation that fails leaves the store as it was, but
 * for what was being let go already.
 *
 * Layer: mn/store (pure). Threads: none, a store belongs to the one that calls it. Time never goes
 * back.
 */
#ifndef MN_STORE_EXEC_H
#define MN_STORE_EXEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/dgram.h"
#include "wire/memop.h"

struct lend_store;

struct lend_store_config {
	uint32_t pages;        /* that can be used, 1 .. 2^24 */
	uint32_t page;         /* bytes of one: a power of two, LEND_MEM_PAGE .. _MAX */
	uint32_t objects;      /* snapshots and spaces, 1 .. 2^24 - 1 */
	uint32_t holds;        /* 1 .. 2^24 - 1 */
	uint32_t grants;       /* 1 .. 2^24 - 1 */
	uint32_t clients;      /* 1 .. 2^16 - 1; each costs open records of 80 bytes */
	uint32_t incarnations; /* processes, 1 .. 2^16 */
	uint32_t placements;   /* messages that land in frames at once, 1 .. 4096 */
	uint32_t tenants;      /* who have quotas, 0 .. 256; 0 is 1 */
	uint32_t open; /* operations of a client: a power of two, at most LEND_MEM_OPEN_MAX */
	uint32_t reap; /* 1 ..: page table nodes, of 64 pages, that a step frees at most; of large
			* pages as many bytes as so many of 4 KiB have, or one page */
	uint32_t node, epoch;   /* random, of this node and of this start */
	uint32_t shard, shards; /* which of the node's stores this is, below shards: 1 .. 64 */
	uint32_t yields;        /* 1: pages in quarantine are used when there are no others */
	uint32_t checksum; /* 1: pages are summed, 4 bytes each, and checked when they are read */
	lend_ns lease;     /* from a process's last traffic */
	lend_ns late;      /* a tick later than this means that the node itself was paused */
	lend_ns revive;    /* least time to live of a grant whose adopt is forgotten: 5 s */
	lend_ns
	    quarantine;  /* a freed page is not used again for so long (but yields); 0: at once */
	uint8_t key[16]; /* random: signs references */
	const char *addresses; /* told in HELLO; copied; NULL: none */
};
/* Sizes for so many bytes in pages of this size, with room for small objects; node, epoch, key stay
 * to be set.
 */
void lend_store_config_default(struct lend_store_config *config, uint64_t bytes, uint32_t page);

/* Bytes of the arena, or 0 if the config is not valid; bytes of the pages' block. */
size_t lend_store_size(const struct lend_store_config *config);
size_t lend_store_pages_size(const struct lend_store_config *config);
/* Builds a store in mem (cache-line aligned). pages is aligned to 4 KiB at least and all zero; both
 * stay the caller's and live as long as the store. */
struct lend_store *lend_store_init(void *mem, const struct lend_store_config *config, void *pages,
				   lend_ns now);
/* What a tenant may keep; all ones: no limit. It holds for what comes: nothing is taken away. */
struct lend_store_quota {
	uint64_t pages;   /* of snapshots that it holds or offers, of its spaces, of what arrives */
	uint32_t refs;    /* holds, grants and spaces */
	uint32_t clients; /* that said HELLO */
};
struct lend_store_usage {
	uint64_t pages;
	uint64_t pinned; /* pages of replies under way: as many as the quota of pages, too */
	uint32_t refs, clients;
};
/* The number of the tenant with this id, which is not 0; a new one has *quota, and an old one has
 * it from now on. They are kept over restarts. 0 when there are config.tenants already: that one is
 * everybody else. */
uint32_t lend_store_tenant(struct lend_store *store, uint64_t id,
			   const struct lend_store_quota *quota);
/* Tenants are numbered from 0, below config.tenants, and have no limits at first. */
void lend_store_set_quota(struct lend_store *store, uint32_t tenant,
			  const struct lend_store_quota *quota);
void lend_store_usage(const struct lend_store *store, uint32_t tenant,
		      struct lend_store_usage *usage);
/* Tells a copy of an arena where its pages are. */
void lend_store_attach(struct lend_store *store, void *pages);
/* Of the arena without its counters. */
uint64_t lend_store_hash(const struct lend_store *store);

struct lend_store_seg {
	void *data;
	uint64_t len;
};
enum {
	LEND_STORE_SEGS_MAX = LEND_MEM_PART_MAX / LEND_MEM_PAGE + 2, /* of one reply or placement */
	LEND_STORE_PLACE_MIN = 2 * LEND_MEM_PAGE,                    /* shorter ones are copied */
};

/* A session as its server keeps it. All but life and client is set before the first operation. */
struct lend_store_peer {
	uint8_t incarnation[16];             /* that the peer sent when it connected */
	uint8_t context[LEND_MEMOP_CONTEXT]; /* before each HELLO that joins */
	uint64_t life;                       /* that a HELLO in it opened or joined last; 0 */
	uint32_t clients;                    /* that it opened in this life and did not close */
	uint32_t tenant; /* pays for a life that is opened here, also for clients of sessions that
			    join it */
};
enum { LEND_STORE_PEER_CLIENTS = 16 };
/* A request: its bytes in order, segments of any length. */
struct lend_store_in {
	struct lend_store_peer *peer; /* exec() sets life and clients */
	const struct lend_store_seg *seg;
	uint32_t n;
	uint32_t placement; /* of place(); 0: none. Taken by exec(), whatever comes of it */
	bool late;          /* it waited in its process's queue, where no HELLO may be */
};
/* A reply: status, and bytes in seg[0..n) for LEND_MEM_OK, none otherwise. They lie in head or in
 * pages; with pinned they must go to done() once nobody reads them any more. */
struct lend_store_out {
	enum lend_mem_status status;
	bool pinned;
	uint32_t tenant; /* that pays for what is pinned */
	uint32_t n;
	uint64_t len; /* of all segments */
	struct lend_store_seg seg[LEND_STORE_SEGS_MAX];
	uint8_t head[LEND_MEMOP_REPLY_MAX];
};

/* Frames for the payload of a PUT or WRITE that begins with these n bytes and is len long. Fills
 * seg[0..*segs) with where the bytes behind the first *fixed go, and returns the placement; or 0
 * when exec() will copy or refuse (then nothing was taken). */
uint32_t lend_store_place(struct lend_store *store, const struct lend_store_peer *peer,
			  const void *head, size_t n, uint64_t len,
			  struct lend_store_seg seg[LEND_STORE_SEGS_MAX], uint32_t *segs,
			  uint32_t *fixed);
/* The message died before it was whole. */
void lend_store_unplace(struct lend_store *store, uint32_t placement);
/* Runs one operation. The status is also in out. */
enum lend_mem_status lend_store_exec(struct lend_store *store, lend_ns now,
				     const struct lend_store_in *in, struct lend_store_out *out);
/* Gives back the segments of a pinned reply to this tenant, once. */
void lend_store_done(struct lend_store *store, uint32_t tenant, const struct lend_store_seg *seg,
		     uint32_t n);
/* Ends leases and grants whose time has come, and frees some more of what was released: large
 * objects go bit by bit, so that nobody waits for them. Call it at deadline() (0: at once), after
 * what has arrived was run. */
void lend_store_tick(struct lend_store *store, lend_ns now);
lend_ns lend_store_deadline(const struct lend_store *store);
/* A life ends, and with it all that its process held. Unknown ones are ignored. */
void lend_store_hangup(struct lend_store *store, uint64_t life);

/* A process that is going to map pages, by a secret that is not 0: from now on it may, until it
 * hangs up. False: there are as many as clients already. The hang-up of one that is not there is
 * nothing. */
bool lend_store_pool_open(struct lend_store *store, uint64_t key);
void lend_store_pool_hangup(struct lend_store *store, uint64_t key);

/* Bytes of a page. */
uint32_t lend_store_page(const struct lend_store *store);
/* What the daemon's carriers took so far, for STAT. */
void lend_store_set_tx_bytes(struct lend_store *store, uint64_t bytes);
void lend_store_stats(const struct lend_store *store, struct lend_memstats *stats);
/* Pages in use whose bytes are not what was written; 0 without config.checksum. Reads them all. */
uint64_t lend_store_scrub(const struct lend_store *store);
/* Counts everything anew in scratch memory: NULL when all ledgers agree, else what does not. Slow;
 * for tests. */
size_t lend_store_audit_size(const struct lend_store *store);
const char *lend_store_audit(const struct lend_store *store, void *scratch);

#endif
