/* bufs - message buffers: size-classed pools of heap memory, and the table from handle to memory
 * that core and carriers read. Layer: rpc. Threads: a pool belongs to its endpoint's thread; only
 * lend_bufs_return() may be called from any. Ownership: a pool counts its references (its endpoint,
 * and each buffer that another endpoint has borrowed). When the last one is dropped, the pool
 * runs the gone() callbacks that have not run yet, and frees its memory. */
#ifndef LEND_RPC_BUFS_H
#define LEND_RPC_BUFS_H

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "util/check.h"
#include "util/dgram.h"
#include "sys/asan.h"
#include "lend/rpc.h"

enum {
	LEND_BUF_CLASSES = 23, /* 256 B << class, up to 1 GiB */
	LEND_BUF_ANY = 25,     /* classes that lend_buf_class() can give */
	LEND_BUF_SHIFT = 8,    /* log2 of the bytes of class 0 */
	LEND_BUF_SMALL = 9,    /* classes below are cut from chunks, others are taken one by one */
	LEND_BUF_HANDLES = 1 << 18, /* buffers and borrowed buffers at once; 0 is none */
	LEND_BUF_CHUNK = 2 << 20,   /* bytes of a chunk */
};

/* FREE -> USER (take, wrap) -> CORE (request, reply, landing memory) -> USER or FREE */
enum lend_mbuf_state {
	LEND_MBUF_FREE,
	LEND_MBUF_USER,
	LEND_MBUF_CORE,
	LEND_MBUF_LOST, /* permanently: its endpoint closed, and a peer may still read it */
};

/* One segment. The public part is first: each lend_buf * of a user points to one of these. */
struct lend_mbuf {
	struct lend_buf pub;
	struct lend_pool_of_bufs *pool; /* the pool that it belongs to */
	uint32_t handle; /* in its own pool's table, for life; wraps: while they live */
	uint8_t class;   /* size class of its memory; LEND_BUF_CLASSES: wrapped */
	uint8_t state;   /* enum lend_mbuf_state; written by the thread that holds it */
	uint8_t abroad;  /* CORE, of another endpoint's core */
	union {
		/* Initial data, len and cap of pub, restored when the buffer is freed: a user may
		 * move data. */
		struct lend_mbuf_whole {
			void *data;
			uint32_t len, cap;
		} whole;
		struct {
			void (*gone)(void *); /* wraps: runs once, when the memory is unused */
			void *arg;
		};
	};
	uint64_t request; /* id of the request that it was last taken from; ids are not reused */
};
_Static_assert(sizeof(struct lend_mbuf) == 64, "one cache line");
_Static_assert(sizeof(struct lend_mbuf_whole) == offsetof(struct lend_buf, next),
	       "pub's beginning");

/* Reports memory to a carrier that must register it before sending. */
typedef void lend_bufs_memory(void *arg, void *memory, size_t len);

struct lend_map; /* a piece of memory: chunk or big buffer */

struct lend_pool_of_bufs {
	struct lend_bufs table; /* memory by handle; reserved once, so it never moves */
	struct lend_mbuf **of;  /* by handle: its segment, also of another pool; NULL: free */
	struct lend_mbuf *own;  /* by handle: our own segments */
	uint32_t handles_free;  /* list through table.seg[].next */
	struct lend_buf *free[LEND_BUF_ANY];
	uint8_t *bump, *bump_end; /* free rest of the chunk that is being cut */
	_Atomic bool lost;        /* a segment is LEND_MBUF_LOST: the pool is never freed */
	struct lend_pool_of_bufs *next_lost;
	uint64_t held;  /* bytes of memory that the pool has, free or in use */
	uint64_t limit; /* held never exceeds it */
	uint64_t out;   /* bytes of pool memory in use */
	bool shares;    /* new memory is of a kind that peers may read */
	struct lend_map *maps;
	void (*grown)(void *arg); /* NULL: no carrier registers memory */
	void *grown_arg;
	uint64_t regions; /* number of regions of the heap when grown() last ran */
	/* Segments returned by other threads, linked by next. */
	_Alignas(64) _Atomic(struct lend_buf *) inbox;
	_Atomic uint32_t refs;
};

/* Opens a pool: 0 or -ENOMEM. limit: bytes of memory that the pool may hold at most. */
int lend_bufs_open(uint64_t limit, struct lend_pool_of_bufs **out);
/* Marks a segment as lost: a peer may still read it when its carrier closes. The segment and its
 * pool are not reused or freed before the process ends. */
void lend_bufs_lose(struct lend_pool_of_bufs *pool, uint32_t handle);
/* Returns what pools with lost segments hold, for leak checks: blocks of the C library's heap, and
 * mapped bytes. */
struct lend_bufs_lost {
	uint32_t blocks;
	uint64_t mapped;
};
struct lend_bufs_lost lend_bufs_lost(void);
/* Takes all segments from the core: those of other pools return there, this pool's become FREE. For
 * closing, after the carriers are closed. */
void lend_bufs_reclaim(struct lend_pool_of_bufs *pool);
/* Adds a reference, which lend_bufs_close() drops. Any thread that knows that the pool has one. */
void lend_bufs_ref(struct lend_pool_of_bufs *pool);
/* Drops a reference. */
void lend_bufs_close(struct lend_pool_of_bufs *pool);
/* Adds memory of the user to the pool's mappings. -ENOMEM. */
int lend_bufs_add_memory(struct lend_pool_of_bufs *pool, void *memory, size_t len);
/* Calls memory for each mapping that lend_bufs_add_memory() added. */
void lend_bufs_each_memory(struct lend_pool_of_bufs *pool, lend_bufs_memory *memory, void *arg);
/* Sets grown, which runs before a send if the heap has regions that it was not called for. */
void lend_bufs_on_grow(struct lend_pool_of_bufs *pool, void (*grown)(void *arg), void *arg);

/* Takes a segment when the free list of its class is empty: segments returned by other threads
 * first, then new memory, then new memory after trimming. */
struct lend_buf *lend_bufs_take_slow(struct lend_pool_of_bufs *pool, uint32_t class);
struct lend_buf *lend_bufs_wrap(struct lend_pool_of_bufs *pool, void *data, uint32_t len,
				void (*gone)(void *), void *arg);
/* Slow paths of lend_bufs_free() and lend_bufs_give(). */
void lend_bufs_free_wrap(struct lend_pool_of_bufs *pool, struct lend_mbuf *buf);
void lend_bufs_give_chain(struct lend_pool_of_bufs *pool, struct lend_buf *chain);
/* Returns one segment to its own pool, from any thread. */
void lend_bufs_return(struct lend_mbuf *buf);
/* Moves segments returned by other threads to the free lists. */
void lend_bufs_drain(struct lend_pool_of_bufs *pool);

/* Takes a handle, for a new segment, a wrap or a segment of another pool; 0: table full. */
uint32_t lend_bufs_handle(struct lend_pool_of_bufs *pool);
void lend_bufs_handle_free(struct lend_pool_of_bufs *pool, uint32_t handle);

static inline struct lend_mbuf *lend_mbuf(struct lend_buf *buf)
{
	return (struct lend_mbuf *)(void *)buf;
}

static inline uint32_t lend_buf_class(uint32_t cap)
{
	return cap <= 1u << LEND_BUF_SHIFT ? 0
					   : 32 - (uint32_t)__builtin_clz(cap - 1) - LEND_BUF_SHIFT;
}

static inline uint32_t lend_buf_class_len(uint32_t class)
{
	return 1u << (class + LEND_BUF_SHIFT);
}

/* Returns whether a segment of at least cap bytes is free. */
static inline bool lend_bufs_has(const struct lend_pool_of_bufs *pool, uint32_t cap)
{
	return pool->free[lend_buf_class(cap)] != NULL;
}

/* Takes one segment of at least cap bytes, len 0, next NULL; NULL when the pool is exhausted. */
static inline struct lend_buf *lend_bufs_take(struct lend_pool_of_bufs *pool, uint32_t cap)
{
	uint32_t class = lend_buf_class(cap);
	struct lend_buf *buf = pool->free[class];

	if (!buf)
		return lend_bufs_take_slow(pool, class);
	pool->free[class] = buf->next;
	pool->out += buf->cap;
	buf->next = NULL;
	lend_mbuf(buf)->state = LEND_MBUF_USER;
	LEND_SHOW(buf->data, buf->cap);
	return buf;
}

/* Frees one segment of this pool. */
static inline void lend_bufs_free(struct lend_pool_of_bufs *pool, struct lend_mbuf *buf)
{
	uint32_t class = buf->class;

	LEND_CHECK(buf->state != LEND_MBUF_FREE);
	buf->state = LEND_MBUF_FREE;
	if (class == LEND_BUF_CLASSES) {
		lend_bufs_free_wrap(pool, buf);
		return;
	}
	memcpy(&buf->pub, &buf->whole, sizeof(buf->whole));
	buf->pub.next = pool->free[class];
	pool->free[class] = &buf->pub;
	pool->out -= buf->whole.cap;
	LEND_HIDE(buf->whole.data, buf->whole.cap);
}

/* Gives back a whole chain, with segments of any pool. NULL does nothing. */
static inline void lend_bufs_give(struct lend_pool_of_bufs *pool, struct lend_buf *chain)
{
	if (chain && !chain->next && lend_mbuf(chain)->pool == pool)
		lend_bufs_free(pool, lend_mbuf(chain));
	else
		lend_bufs_give_chain(pool, chain);
}

#endif
