/* store - the arena of a memory node: its tables and how they lie in memory.
 *
 * Entry 0 of every table means none. A table hands out entries from its free list, then from the
 * part that was never used, so building a store touches no table and ascending frames lie side by
 * side.
 *
 * Layer: mn/store (pure), private to it. Memory: the caller's.
 */
#ifndef MN_STORE_STORE_H
#define MN_STORE_STORE_H

#include "mn/store/exec.h"
#include "mn/store/bitset.h"

enum { LEND_LEVEL_BITS = 3, LEND_LEVEL_MASK = 7 };
enum { LEND_FAN = 64, LEND_FAN_BITS = 6, LEND_HEIGHT_MAX = 5 };

/* A page of bytes. Free when refs and pins are zero, and then its bytes are zero. Frame 0 is the
 * page of zeros that unwritten parts of a space read as. */
struct lend_frame {
	uint32_t refs; /* tree parents, or 1 while a placement has it */
	uint32_t pins; /* replies under way */
	uint32_t gen;  /* times it was freed */
	uint32_t next; /* the placement's chain */
};

/* Part of a page table: 64 nodes or frames of the level below; 0: all zero. Shared by counting, and
 * changed only while refs is 1. */
struct lend_node {
	uint32_t child[LEND_FAN];
};

/* Bytes [base, base + len) of a tree of this height; height 0: root is a frame. Objects keep theirs
 * packed: take it with lend_object_view(). */
struct lend_view {
	uint64_t base, len;
	uint32_t root, height;
	uint32_t charge; /* pages that its tenant pays for it; see tenant.h */
	uint64_t limit;  /* writes: the most that it may come to */
	uint32_t space;  /* writes: the object that it is of; 0: none yet */
};

enum lend_object_kind {
	LEND_OBJECT_SNAPSHOT = 1,
	LEND_OBJECT_SPACE,
	LEND_OBJECT_LIEN,
};
/* Of these there are millions: a snapshot with one hold costs 60 bytes, its place in the hash
 * included. Indices of every table but nodes and frames fit into 24 bits. */
struct lend_object {
	uint64_t serial : 48; /* unique in this epoch; 0: free, or ended by this operation */
	uint64_t kind : 2;
	uint64_t height : 3; /* of its view, as base, len and root */
	uint64_t payer : 8;  /* snapshot: tenant whose stakes are counted here */
	uint64_t base : 40;
	/* Space: what is mapped of it; lien: its space; snapshot: one of its holds, which is in no
	 * hash chain; 0: none. */
	uint64_t tie : 24;
	uint64_t len : 40;
	uint64_t charge : 24;
	uint32_t root;
	union {
		uint32_t holds;  /* snapshot: how many holds name it */
		uint32_t client; /* space: its owner; lien: its mapper */
	};
	union {
		uint32_t grants; /* snapshot: its grants */
		uint32_t prev;   /* space, lien: the owner's list */
	};
	union {
		uint32_t stakes; /* snapshot: holds and grants of its payer */
		uint32_t
		    next; /* space: the owner's list; also the list of ended ones, the free list */
	};
};
_Static_assert(sizeof(struct lend_object) == 40, "the budget of a reference");

/* A client keeps a snapshot: at most one entry per pair. */
struct lend_hold {
	uint64_t object : 24, client : 16; /* 0: free */
	uint64_t chain : 24;               /* hash chain, of all but one of an object */
	uint64_t prev : 24, next : 24;     /* the client's list; next also the free list */
};
_Static_assert(sizeof(struct lend_hold) == 16, "the budget of a reference");

/* A snapshot is kept until expires, or TRANSFER: until left is used up. */
struct lend_grant {
	uint64_t serial; /* tells a recycled entry */
	lend_ns expires;
	uint32_t object, left;
	uint16_t kind, tenant; /* tenant: of who gave it */
	uint32_t prev, next;   /* the object's list; next also the free list */
	uint32_t heap;         /* its place among the deadlines */
};

/* What became of one operation. */
struct lend_record {
	uint64_t id; /* 0: none */
	uint64_t serial, len, grant_serial;
	lend_ns expires; /* ADOPT: of the grant that it used up */
	uint32_t slot, grant;
	uint8_t kind;   /* FORGET: must not run, or was undone */
	uint8_t status; /* enum lend_mem_status */
	uint8_t forgot; /* enum lend_memop_forgot */
	uint8_t terms;  /* of the grant that was made or used */
	uint8_t held;   /* it made (GRANT: dropped) this client's hold */
	uint8_t tenant; /* ADOPT: who gave the grant */
	uint8_t zero[2];
	uint32_t counts[2]; /* RELEASE: released, not held */
};

struct lend_client {
	uint64_t low;  /* ids below have no record */
	uint64_t life; /* its incarnation's */
	uint32_t incarnation, number;
	uint32_t tenant;        /* as its incarnation's */
	uint32_t holds, spaces; /* lists */
	uint32_t chain;         /* hash chain */
	uint32_t prev, next;    /* the incarnation's list; next also the free list */
	uint32_t live;          /* 0: free, or going */
};

struct lend_incarnation {
	uint8_t id[16]; /* of the session that opened the life */
	lend_ns expires;
	uint64_t life;   /* 0: free; several may have one id */
	uint32_t tenant; /* of the session that opened it */
	uint32_t clients;
	uint32_t next; /* free list */
};

struct lend_placement {
	uint32_t first, n; /* chain of frames; n 0: free */
	uint32_t tenant;   /* pays for them */
	uint32_t next;     /* free list */
};

/* A process that maps pages, by its socket. */
struct lend_mapper {
	uint64_t key;   /* its secret; 0: free */
	uint32_t liens; /* list */
	uint32_t next;  /* free list */
};

struct lend_tenant {
	uint64_t id; /* whose; 0: nobody's yet */
	struct lend_store_quota quota;
	struct lend_store_usage use;
};
enum { LEND_TENANT_MASK = 255, LEND_CHARGE_MAX = (1 << 24) - 1 };

/* Frames that are not in use: each is in any or rests, but 0 and those past the end. See
 * frame_alloc.c. */
struct lend_free {
	struct lend_set any;         /* can be taken */
	struct lend_set part, whole; /* 64 side by side, of which some can be, or all */
	struct lend_set rest[2];     /* freed ones, that are not used again before their time: */
	uint32_t young;              /* since the last change of guard; the other: before it */
	uint32_t first, n;  /* the run that is being taken, not in any; 0 between operations */
	uint32_t want;      /* frames that the operation is still going to take */
	uint32_t hole, gap; /* where the last single frame, the last gap was found */
};

struct lend_table {
	uint64_t at; /* offset in the arena */
	uint32_t cap, top,
	    free; /* entries 1..cap; above top never used; free list, not of frames */
	uint32_t used;
};

/* The token of a root that was asked for lately: what it was made of never changes, so it can be
 * said again. Half of what checking a reference takes is saved. */
struct lend_token {
	uint64_t serial, len; /* serial 0: none */
	uint32_t slot, rights;
	uint8_t token[16];
};
enum { LEND_TOKENS = 64 };

struct lend_store {
	uint64_t layout; /* these are not part of the state: see recover.c */
	uint8_t *pages;
	uint32_t page_bits, zero_bits; /* a page is 2^page_bits bytes */
	struct lend_memstats counts;   /* what only grows; the rest is filled in by stats() */
	uint32_t spade;                /* nodes that this operation may still reap */
	uint32_t undo_n;               /* words noted by this operation; see undo_log.h */
	uint32_t warm; /* frames that were freed into the cache and not taken since; see frame.c */

	struct lend_token token[LEND_TOKENS]; /* by slot */

	struct lend_store_config config; /* addresses is NULL: see text */
	uint64_t size;
	uint64_t serial;    /* of the newest object or grant */
	lend_ns lease_next; /* no lease ends before */
	uint64_t life;      /* newest */
	uint32_t pinned, zero;
	struct lend_free free;
	lend_ns guard;   /* its last change */
	uint32_t dying;  /* list of nodes that nobody names; see page_tree.c */
	uint32_t doomed; /* list of objects that this operation ended */
	struct lend_table frame, node, object, hold, grant, client, incarnation, placement, mapper;
	/* offsets of arrays */
	uint64_t sums, node_refs, hold_buckets, client_buckets, heap, records, tenants;
	uint32_t hold_mask, client_mask, heap_n, text_len;
	uint64_t undo; /* offset; from there on it is no state any more */
	uint32_t undo_cap;
	uint32_t
	    ahead; /* frame whose sum does not follow its bytes just now; see page_checksum.h */
	char text[LEND_MEMOP_TEXT_MAX];
};

/* Where everything lies for a config: only offsets and caps of s are set. What the layout is, as a
 * number. */
void lend_store_lay_out(struct lend_store *s, const struct lend_store_config *config);
uint64_t lend_store_layout(void);
void lend_store_set_text(struct lend_store *s, const char *addresses);

static inline void *lend_at(const struct lend_store *s, uint64_t offset)
{
	return (uint8_t *)(uintptr_t)s + offset;
}
#define LEND_ENTRY(type, name)                                                                     \
	static inline struct lend_##type *lend_##name(const struct lend_store *s, uint32_t i)      \
	{                                                                                          \
		return (struct lend_##type *)lend_at(s, s->type.at) + i;                           \
	}
LEND_ENTRY(frame, frame_at)
LEND_ENTRY(node, node_at)
LEND_ENTRY(object, object_at)
LEND_ENTRY(hold, hold_at)
LEND_ENTRY(grant, grant_at)
LEND_ENTRY(client, client_at)
LEND_ENTRY(incarnation, incarnation_at)
LEND_ENTRY(placement, placement_at)
LEND_ENTRY(mapper, mapper_at)
#undef LEND_ENTRY

static inline struct lend_view lend_object_view(const struct lend_store *s, uint32_t i)
{
	const struct lend_object *o = lend_object_at(s, i);

	return (struct lend_view){.base = o->base,
				  .len = o->len,
				  .root = o->root,
				  .height = o->height,
				  .charge = o->charge};
}
static inline struct lend_tenant *lend_tenant_at(const struct lend_store *s, uint32_t tenant)
{
	return (struct lend_tenant *)lend_at(s, s->tenants) + tenant;
}
static inline uint32_t *lend_node_refs(const struct lend_store *s, uint32_t i)
{
	return (uint32_t *)lend_at(s, s->node_refs) + i;
}
static inline uint8_t *lend_page(const struct lend_store *s, uint32_t frame)
{
	return s->pages + ((uint64_t)frame << s->page_bits);
}
static inline uint32_t lend_page_size(const struct lend_store *s)
{
	return UINT32_C(1) << s->page_bits;
}
/* The page that a byte of a view is in, and its place there. */
static inline uint64_t lend_page_at(const struct lend_store *s, uint64_t at)
{
	return at >> s->page_bits;
}
static inline uint32_t lend_page_rest(const struct lend_store *s, uint64_t at)
{
	return (uint32_t)at & (lend_page_size(s) - 1);
}
/* Pages that so many bytes need. */
static inline uint64_t lend_pages_of(const struct lend_store *s, uint64_t len)
{
	return (len + lend_page_size(s) - 1) >> s->page_bits;
}
static inline uint32_t lend_table_room(const struct lend_table *t)
{
	return t->cap - t->used;
}
/* Frames that can be taken now. */
static inline uint32_t lend_frame_room(const struct lend_store *s)
{
	return lend_table_room(&s->frame) -
	       (s->config.yields ? 0 : s->free.rest[0].n + s->free.rest[1].n);
}
/* next is that of the entry on the free list's head, or not looked at. 0: full. */
#define LEND_TAKE(s, type, i)                                                                      \
	do {                                                                                       \
		struct lend_table *t_ = &(s)->type;                                                \
		(i) = t_->free;                                                                    \
		if (i)                                                                             \
			t_->free = lend_##type##_at(s, i)->next;                                   \
		else if (t_->top < t_->cap)                                                        \
			(i) = ++t_->top;                                                           \
		t_->used += (i) != 0;                                                              \
	} while (0)
#define LEND_GIVE(s, type, i)                                                                      \
	do {                                                                                       \
		struct lend_table *t_ = &(s)->type;                                                \
		lend_##type##_at(s, i)->next = t_->free;                                           \
		t_->free = (i);                                                                    \
		t_->used--;                                                                        \
	} while (0)

#endif
