/* bufs - message buffers: size-classed pools over memory of the heap, and the table from handle to
 * memory that core and carriers read. Layer: rpc. Threads: a pool belongs to its endpoint's thread;
 * lend_bufs_home() alone may be called from any. Ownership: a pool counts its holders (its
 * endpoint, and each buffer that another endpoint has borrowed) and releases its memory, running
 * what gone() is still owed, with the last of them. */
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
	LEND_BUF_SHIFT = 8,    /* of class 0 */
	LEND_BUF_SMALL = 9,    /* classes below are cut from chunks, others are taken one by one */
	LEND_BUF_HANDLES = 1 << 18, /* buffers and borrowed buffers at once; 0 is none */
	LEND_BUF_CHUNK = 2 << 20,   /* bytes of a chunk */
};

/* FREE -> USER (take, wrap) -> CORE (request, reply, landing memory) -> USER or FREE */
enum lend_mbuf_state {
	LEND_MBUF_FREE,
	LEND_MBUF_USER,
	LEND_MBUF_CORE,
	LEND_MBUF_LOST, /* for good: its endpoint closed, and a peer may still read it */
};

/* One segment. The public part comes first, so that a lend_buf * of ours is one of these. */
struct lend_mbuf {
	struct lend_buf pub;
	struct lend_pool_of_bufs *pool; /* its home */
	uint32_t handle;                /* in its home's table, for life; wraps: while they live */
	uint8_t class;                  /* of memory; LEND_BUF_CLASSES: wrapped */
	uint8_t state;  /* enum lend_mbuf_state; written by the thread that holds it */
	uint8_t abroad; /* CORE, of another endpoint's core */
	union {
		/* What pub begins with when nobody has it: its user may move data. */
		struct lend_mbuf_whole {
			void *data;
			uint32_t len, cap;
		} whole;
		struct {
			void (*gone)(void *); /* wraps: owed once */
			void *arg;
		};
	};
	uint64_t fill; /* to a cache line */
};
_Static_assert(sizeof(struct lend_mbuf) == 64, "one cache line");
_Static_assert(sizeof(struct lend_mbuf_whole) == offsetof(struct lend_buf, next),
	       "pub's beginning");

/* Memory that carriers must know before they send from it. */
typedef void lend_bufs_memory(void *arg, void *memory, size_t len);

struct lend_map; /* a piece of memory: chunk or big buffer */

struct lend_pool_of_bufs {
	struct lend_bufs table; /* by handle; reserved once, so it never moves */
	struct lend_mbuf **of;  /* by handle: whose memory it is; NULL: free */
	struct lend_mbuf *own;  /* by handle: our own segments */
	uint32_t handles_free;  /* list through table.seg[].next */
	struct lend_buf *free[LEND_BUF_ANY];
	uint8_t *bump, *bump_end; /* of the chunk being cut */
	_Atomic bool lost;        /* something of it is LEND_MBUF_LOST: it stays for good */
	struct lend_pool_of_bufs *next_lost;
	uint64_t held;  /* bytes of memory that the pool has, free or out */
	uint64_t limit; /* held never exceeds it */
	uint64_t out;   /* bytes of pool memory not free */
	bool shares;    /* new memory is such as peers may read */
	struct lend_map *maps;
	void (*grown)(void *arg); /* NULL: no carrier registers memory */
	void *grown_arg;
	uint64_t regions; /* of the heap, that were there when grown() last ran */
	/* Came home from other threads; linked by next. */
	_Alignas(64) _Atomic(struct lend_buf *) inbox;
	_Atomic uint32_t holders;
};

/* -ENOMEM. limit: bytes of memory that the pool may hold at most. */
int lend_bufs_open(uint64_t limit, struct lend_pool_of_bufs **out);
/* A segment that a peer may still read when its carrier closes: neither it nor its pool is used
 * again or given back before the process ends. */
void lend_bufs_lose(struct lend_pool_of_bufs *pool, uint32_t handle);
/* What such pools hold, for who looks for leaks: blocks of the C library's heap, and mapped bytes.
 */
struct lend_bufs_lost {
	uint32_t blocks;
	uint64_t mapped;
};
struct lend_bufs_lost lend_bufs_lost(void);
/* Segments of other pools that the core still had go home; our own are FREE. For the end: carriers
 * are closed. */
void lend_bufs_reclaim(struct lend_pool_of_bufs *pool);
/* One more hold, to be given up by lend_bufs_close(). Any thread that knows it held. */
void lend_bufs_hold(struct lend_pool_of_bufs *pool);
/* Gives up a hold. */
void lend_bufs_close(struct lend_pool_of_bufs *pool);
/* Memory of the user's own, among the mappings from now on. -ENOMEM. */
int lend_bufs_note(struct lend_pool_of_bufs *pool, void *memory, size_t len);
/* The memory that was noted. */
void lend_bufs_noted(struct lend_pool_of_bufs *pool, lend_bufs_memory *memory, void *arg);
/* grown runs before anything is sent while the heap has regions that it has not heard of. */
void lend_bufs_tell(struct lend_pool_of_bufs *pool, void (*grown)(void *arg), void *arg);

/* The free list of this class was empty: returns from other threads, then new memory, then
 * trimming. */
struct lend_buf *lend_bufs_take_slow(struct lend_pool_of_bufs *pool, uint32_t class);
struct lend_buf *lend_bufs_wrap(struct lend_pool_of_bufs *pool, void *data, uint32_t len,
				void (*gone)(void *), void *arg);
/* The slow halves of lend_bufs_free() and lend_bufs_give(). */
void lend_bufs_free_wrap(struct lend_pool_of_bufs *pool, struct lend_mbuf *buf);
void lend_bufs_give_chain(struct lend_pool_of_bufs *pool, struct lend_buf *chain);
/* One segment back to its home from any thread. */
void lend_bufs_home(struct lend_mbuf *buf);
/* What came home from other threads goes to the free lists. */
void lend_bufs_drain(struct lend_pool_of_bufs *pool);

/* A handle for a segment of another pool, or of a wrap; 0: table full. */
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

/* One of at least cap bytes is free. */
static inline bool lend_bufs_has(const struct lend_pool_of_bufs *pool, uint32_t cap)
{
	return pool->free[lend_buf_class(cap)] != NULL;
}

/* One segment of at least cap bytes, len 0, next NULL; NULL when the pool is exhausted. */
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

/* One segment of this pool, FREE afterwards. */
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

/* A whole chain that the caller holds, whoever's pools it is of. NULL is nothing. */
static inline void lend_bufs_give(struct lend_pool_of_bufs *pool, struct lend_buf *chain)
{
	if (chain && !chain->next && lend_mbuf(chain)->pool == pool)
		lend_bufs_free(pool, lend_mbuf(chain));
	else
		lend_bufs_give_chain(pool, chain);
}

#endif
