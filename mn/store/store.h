/* store - the arena of a memory node: its tables and their layout in memory.
 *
 * Entry 0 of every table means none. A table gives out entries from its free list, then from the
 * part that was never used. So building a store touches no table, and ascending frames are
 * adjacent.
 *
 * Layer: mn/store (pure), private to it. Memory: the caller's. */
#ifndef MN_STORE_STORE_H
#define MN_STORE_STORE_H

#include "mn/store/exec.h"
#include "mn/store/bitset.h"

enum { LEND_LEVEL_BITS = 3, LEND_LEVEL_MASK = 7 };
enum { LEND_FAN = 64, LEND_FAN_BITS = 6, LEND_HEIGHT_MAX = 5 };

/* A page of bytes. It is free when refs and pins are zero; its bytes are zero then, unless it is
 * marked as dirty. Frame 0 is the page of zeros that unwritten parts of a space read as. */
struct lend_frame {
	uint32_t refs; /* references from tree parents, or 1 for a placement */
	uint32_t pins; /* number of replies in flight that read the page */
	uint32_t gen;  /* times it was freed */
	uint32_t next; /* next frame of a placement's chain */
};

/* Part of a page table: 64 nodes or frames of the level below; 0: all zero. Shared by refcount, and
 * changed only while refs is 1. */
struct lend_node {
	uint32_t child[LEND_FAN];
};

/* Bytes [base, base + len) of a tree of this height; height 0: root is a frame. Objects store their
 * views packed: read them with lend_object_view(). */
struct lend_view {
	uint64_t base, len;
	uint32_t root, height;
	uint32_t charge; /* pages that its tenant pays for it; see tenant.h */
	uint64_t limit;  /* writes: upper limit of charge */
	uint32_t space;  /* writes: the object of this view; 0: none yet */
};

enum lend_object_kind {
	LEND_OBJECT_SNAPSHOT = 1,
	LEND_OBJECT_SPACE,
	LEND_OBJECT_PINNED_MAP,
};
/* A reference or space. There are millions: a snapshot with one hold costs 60 bytes, including its
 * hash entry. Indices of every table but nodes and frames fit into 24 bits. */
struct lend_object {
	uint64_t serial : 48; /* unique in this epoch; 0: free, or ended by this operation */
	uint64_t kind : 2;
	uint64_t height : 3;    /* height of its view, like base, len and root */
	uint64_t payer : 8;     /* snapshot: the tenant that stakes counts for */
	uint64_t unwritten : 1; /* snapshot: an EARLY put made it, and its bytes are not here yet;
				   its one hold is the writer's */
	uint64_t base : 40;
	/* Space: its pinned mapping. Pinned mapping: its space. Snapshot: one of its holds, which
	 * is in no hash chain. 0: none. */
	uint64_t tie : 24;
	uint64_t len : 40;
	uint64_t charge : 24;
	uint32_t root;
	union {
		uint32_t holds;  /* snapshot: number of its holds */
		uint32_t client; /* space: its owner; pinned mapping: its mapper */
	};
	union {
		uint32_t grants; /* snapshot: head of its grant list */
		uint32_t prev;   /* space, pinned mapping: the owner's list */
	};
	union {
		uint32_t stakes; /* snapshot: number of holds and grants of its payer */
		uint32_t next; /* space: the owner's list; also the list of ended objects, the free
				  list */
	};
};
_Static_assert(sizeof(struct lend_object) == 40, "the budget of a reference");

/* A client's reference to a snapshot: at most one entry per pair. */
struct lend_hold {
	uint64_t object : 24, client : 16; /* 0: free */
	uint64_t chain : 24;               /* hash chain; one hold of each object is not in it */
	uint64_t prev : 24, next : 24; /* links in the client's list; next also in the free list */
};
_Static_assert(sizeof(struct lend_hold) == 16, "the budget of a reference");

/* Keeps a snapshot until expires; a TRANSFER until left is used up. */
struct lend_grant {
	uint64_t serial; /* distinguishes uses of a recycled entry */
	lend_ns expires;
	uint32_t object, left;
	uint16_t kind, tenant; /* tenant: the one that made the grant */
	uint32_t prev, next;   /* links in the object's list; next also in the free list */
	uint32_t heap;         /* index in the heap of expiry times */
};

/* The recorded outcome of one operation. */
struct lend_record {
	uint64_t id; /* 0: none */
	uint64_t serial, len, grant_serial;
	lend_ns expires; /* ADOPT: expiry of the grant that it used */
	uint32_t slot, grant;
	uint8_t kind;   /* FORGET: the operation must not run, or was undone */
	uint8_t status; /* enum lend_mem_status */
	uint8_t forgot; /* enum lend_memop_forgot */
	uint8_t terms;  /* terms of the grant that was made or used */
	uint8_t held;   /* 1: it made (GRANT: dropped) this client's hold */
	uint8_t tenant; /* ADOPT: the tenant that made the grant; PUT, SEAL: the tenant that the
			   reference is bound to, 0: none */
	uint8_t early;  /* 1: an EARLY put, still without its bytes */
	uint8_t zero;
	uint32_t counts[2]; /* RELEASE: references released; references not held */
};

struct lend_client {
	uint64_t low;  /* ids below have no record */
	uint64_t life; /* number of the life that it belongs to */
	uint32_t incarnation, number;
	uint32_t tenant;        /* tenant of its life */
	uint32_t holds, spaces; /* heads of its lists */
	uint32_t chain;         /* next client in the hash chain */
	uint32_t prev, next;    /* links in the life's list; next also in the free list */
	uint32_t live;          /* 0: free, or being closed */
	uint32_t records; /* the entry's records from this index on were never used: all zero */
};

struct lend_incarnation {
	uint8_t id[16]; /* incarnation of the session that opened the life */
	lend_ns expires;
	uint64_t life;   /* 0: free; several lives may have one id */
	uint32_t tenant; /* tenant of the session that opened it */
	uint32_t clients;
	uint32_t next; /* free list */
};

struct lend_placement {
	uint32_t first, n; /* chain of frames; n 0: free */
	uint32_t tenant;   /* the tenant that pays for them */
	uint32_t next;     /* free list */
	uint64_t serial; /* of the unwritten snapshot that has the frames, which are pinned; 0: the
			    placement has them */
};

/* A process that maps pages, identified by its socket. */
struct lend_mapper {
	uint64_t key;         /* secret that its socket was given; 0: free */
	uint32_t pinned_maps; /* list */
	uint32_t next;        /* free list */
};

struct lend_tenant {
	uint64_t id; /* number of the tenant's name, from the daemon; 0: unused entry */
	struct lend_store_quota quota;
	struct lend_store_usage use;
};
enum { LEND_TENANT_MASK = 255, LEND_CHARGE_MAX = (1 << 24) - 1 };

/* Frames that are not in use. Each is in `any` or in a quarantine set (`rest`), except frame 0 and
 * those past the end. See frame_alloc.c. */
enum { LEND_CLAIMS = 8 };
struct lend_free {
	struct lend_set any;         /* free to be taken */
	struct lend_set part, whole; /* blocks of 64 frames: some of them free; all free */
	struct lend_set rest[2];     /* quarantine: freed frames that are not used again yet */
	struct lend_set dirty;       /* free frames that still have the bytes of their last use */
	uint32_t young;     /* index of the set that frames are added to; the other set is older */
	uint32_t first, n;  /* run of free frames that the operation reserved: no longer in `any` */
	uint32_t want;      /* frames that the operation still needs */
	uint32_t hole, gap; /* blocks where the last single frame and the last gap were found */
	uint32_t more;      /* frames that later writes of the same space need */
	uint32_t space, page;
	uint32_t turn; /* the claim that the next one replaces */
	/* Free frames [first, end) for a space that is being written, from this page on: others
	 * avoid them. */
	struct lend_claim {
		uint32_t first, end, space, page;
	} claim[LEND_CLAIMS];
};

struct lend_table {
	uint64_t at;             /* offset in the arena */
	uint32_t cap, top, free; /* entries 1 .. cap; those above top were never used; free: head of
				    the free list, not of frames */
	uint32_t used;
};

/* The cached token of a root that was checked recently. The inputs of a token never change, so an
 * entry stays valid. A hit saves half of the cost of checking a reference. */
struct lend_token {
	uint64_t serial, len;  /* serial 0: none */
	uint32_t slot, fields; /* fields: those of the root that are not above */
	uint8_t token[16];
};
enum { LEND_TOKENS = 64 };

struct lend_store {
	uint64_t layout; /* the fields before config are not state: see recover.c */
	uint8_t *pages;
	uint32_t page_bits, zero_bits; /* a page is 2^page_bits bytes */
	struct lend_memstats counts;   /* counters that only grow; stats() fills in the rest */
	uint32_t free_budget;          /* nodes that this operation may still free */
	uint32_t settled;              /* counter: snapshots that were written, or ended before */
	uint32_t undo_n;               /* words logged by this operation; see undo_log.h */

	struct lend_token token[LEND_TOKENS]; /* cached tokens, by slot */

	struct lend_store_config config; /* addresses is NULL: see text */
	uint64_t size;
	uint64_t serial;    /* serial of the newest object or grant */
	lend_ns lease_next; /* lower bound of all leases' ends */
	uint64_t life;      /* number of the newest life */
	uint32_t pinned, zero;
	struct lend_free free;
	lend_ns guard;               /* time when the quarantine sets last swapped roles */
	lend_ns clean_at;            /* when dirty frames are zeroed, if none is freed until then */
	uint32_t freed, clean_freed; /* counter: freed frames; its value when clean_at was set */
	uint32_t dying;              /* list of unreferenced nodes to be freed; see page_tree.c */
	uint32_t ended;              /* list of objects that this operation ended */
	struct lend_table frame, node, object, hold, grant, client, incarnation, placement, mapper;
	/* Offsets of arrays in the arena. */
	uint64_t sums, node_refs, hold_buckets, client_buckets, heap, records, tenants;
	uint32_t hold_mask, client_mask, heap_n, text_len;
	uint64_t undo; /* offset of the undo log, where the bytes of the state end */
	uint32_t undo_cap;
	uint32_t ahead; /* frame with a checksum that is out of date now; see page_checksum.h */
	char text[LEND_MEMOP_TEXT_MAX];
};

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
/* Return the page that holds byte `at` of a tree, and the byte's offset in that page. */
static inline uint64_t lend_page_at(const struct lend_store *s, uint64_t at)
{
	return at >> s->page_bits;
}
static inline uint32_t lend_page_rest(const struct lend_store *s, uint64_t at)
{
	return (uint32_t)at & (lend_page_size(s) - 1);
}
/* Returns the number of pages that len bytes need. */
static inline uint64_t lend_pages_of(const struct lend_store *s, uint64_t len)
{
	return (len + lend_page_size(s) - 1) >> s->page_bits;
}
static inline uint32_t lend_table_room(const struct lend_table *t)
{
	return t->cap - t->used;
}
/* Returns the number of frames that can be taken now. */
static inline uint32_t lend_frame_room(const struct lend_store *s)
{
	return lend_table_room(&s->frame) -
	       (s->config.yields ? 0 : s->free.rest[0].n + s->free.rest[1].n);
}
/* Take an entry i (0: the table is full), and give one back. next is only read at the head of the
 * free list. */
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
