/* client - what the files of cn share: nodes, operations under way, spaces and holds of one
 * lend_mem. Layer: cn. Threads: the endpoint's. Operations live in the caller's lend_op. */
#ifndef LEND_CN_CLIENT_H
#define LEND_CN_CLIENT_H

#include <sys/queue.h>

#include "lend/mem.h"
#include "sys/mapped_memory.h"
#include "wire/memop.h"

enum {
	CN_NAMED_MAX = 64,
	CN_NODES_MAX = 512, /* with their workers */
	CN_ALIAS_MAX = 256, /* earlier ids of nodes that were started anew */
	CN_BUCKETS = 256,
	CN_ADDRESS_MAX = 104,
	CN_HOME_MAX = CN_ADDRESS_MAX + 17,
};

/* Priorities of what nobody waits for as for a demand: parts of a long operation; pages that may be
 * touched next, and what is given up. */
enum { CN_LONG = LEND_NORMAL + 1, CN_GUESS = LEND_BULK - 1 };

enum cn_state { CN_IDLE, CN_WAIT, CN_FLIGHT, CN_DONE };
/* A long put is ALLOC, WRITEs and a SEAL; a seal of a space with a pointer is WRITEs and itself; a
 * prefetch is FETCHes; all others have one step, repeated for parts. */
enum cn_step { CN_STEP_ONLY, CN_STEP_ALLOC, CN_STEP_WRITE, CN_STEP_SEAL, CN_STEP_FETCH };

/* Lies in lend_op.reserved. */
struct __attribute__((may_alias)) cn_op {
	TAILQ_ENTRY(cn_op) all; /* mem->wait or mem->flight, by seq */
	TAILQ_ENTRY(cn_op) key; /* one bucket: those that may depend on each other, by seq */
	struct lend_mem *mem;
	struct iovec one; /* the only segment, when there is one */
	const void *data; /* iovecs, or references to release; borrowed when n > 1 */
	void *out;        /* lend_space or lend_mem_stat of the caller */
	uint64_t offset, len;
	uint64_t at;   /* bytes, or references, that are done */
	uint64_t part; /* those under way */
	uint64_t id;   /* operation id of the call under way; 0: not recorded */
	uint64_t seq;
	uint64_t hash; /* of what it depends on; 0: nothing; odd: a reference, even: a space */
	lend_ns deadline;
	struct lend_memterms terms;
	uint32_t n;
	uint32_t space; /* index in mem->space, when it has one */
	uint64_t life;  /* of the node when the call began */
	uint32_t wraps; /* segments of the caller's memory that a carrier may still use */
	uint32_t rights;
	uint16_t node;
	uint8_t kind; /* LEND_MEMOP_ */
	uint8_t step, state;
	bool ended;       /* the call under way ended; a carrier still has some of the memory */
	bool cancelled;   /* it ends with the call under way */
	bool again;       /* and the operation goes on after it */
	uint64_t session; /* of the call under way */
	int err;          /* why it could not start, for lend_op_wait() */
	uint16_t tries;   /* other nodes that a new object may still go to; STAT: workers that have
			     answered */
	uint32_t kids;    /* parts under way, when it has been parted */
	bool parted;
	struct cn_op *parent; /* of a part */
};
_Static_assert(sizeof(struct cn_op) <= sizeof(((struct lend_op *)0)->reserved), "fits");
TAILQ_HEAD(cn_ops, cn_op);

/* Operation ids: slot id % open. FREE -> OPEN (a call is under way) -> FREE, or -> CLEAN (it ended
 * without a result: forget it, or repeat it when it gives something up) -> FREE. */
enum cn_slot_state { CN_SLOT_FREE, CN_SLOT_OPEN, CN_SLOT_CLEAN };
struct cn_slot {
	uint8_t state;
	uint8_t kind; /* how to clean: FORGET; RELEASE and FREE are repeated */
	uint8_t what; /* the operation, and what it was about, for later ones; 0: of no interest */
	uint64_t hash, offset, len;
	uint32_t n;    /* references of a RELEASE */
	uint8_t *refs; /* theirs: one, or memory that the slot owns; of a GRANT that gives the hold
			  away: one */
	uint8_t one[LEND_MEMREF_LEN];
	struct lend_memspace space;
};

/* DOWN -> HELLO -> UP -> DOWN (session ended, or fenced) */
enum cn_node_state { CN_NODE_DOWN, CN_NODE_HELLO, CN_NODE_UP };
struct cn_node {
	struct lend_mem *mem;
	char address[CN_ADDRESS_MAX];
	char home[CN_HOME_MAX]; /* the address as life.h wants it */
	enum cn_node_state state;
	bool connected; /* session is valid */
	bool failed;    /* its last HELLO had no answer */
	bool full;      /* or RESOURCE_EXHAUSTED: it takes no further client of this process */
	bool clash;     /* has the id of another node of this client: not used */
	bool cleaning;  /* clean is under way */
	bool greeted; /* id and shard are valid: it answered a HELLO once, or another worker did */
	bool retired; /* a worker that its node had before it was started anew with fewer */
	uint8_t shard, shards; /* which of its node's workers this is, and how many there are */
	lend_session session;
	uint32_t id, epoch, open;
	uint64_t life, asked; /* asked: in its HELLO under way; 0: for a new one */
	uint32_t name;        /* that its session was dialled under */
	bool knocking;        /* a RENEW that waits for the session is under way instead of HELLO */
	uint8_t steps;        /* HELLOs of this wake */
	lend_ns lease;
	uint64_t next, low; /* operation ids */
	uint32_t cleans;    /* slots to clean */
	uint32_t failures;  /* of cleaning in a row, at once */
	uint64_t clean_id;  /* slot that clean is about */
	lend_ns clean_at;
	struct lend_call hello, clean, ask;
	/* Pages, as it said last; what was sent there since, and before ask was. */
	uint64_t total, used, sent, sent_before;
	uint32_t page;            /* bytes of one, as HELLO said last */
	lend_ns ask_at, retry_at; /* not before */
	lend_ns doubt_until;      /* a put for arguments got no answer in time; 0: it answers */
	lend_ns doubt;            /* for so long after each such put */
	bool asking;
	struct cn_pool *pool; /* it was named pool:NAME; else NULL */
	struct cn_slot slot[LEND_MEM_OPEN_MAX];
};

struct cn_space {
	struct lend_memspace wire;
	uint64_t len;
	uint64_t life; /* of the node when it was made; 0: the node forgot it */
	uint32_t gen;  /* odd: in use */
	uint32_t next; /* free list */
	uint16_t node;
	bool orphan;             /* nobody's any more: to be freed at the node */
	bool written;            /* it was written to: its bytes are no longer those of from */
	struct lend_memref from; /* what it was mapped of; version 0: zeros */
	struct cn_view *view;    /* its pointer, or NULL; owned */
	struct cn_shown *shown;  /* what a pool told to map of it, or NULL; owned */
};

struct cn_hold {
	uint64_t serial;
	uint32_t node, epoch, slot;
	uint32_t count; /* 0: never used; UINT32_MAX: removed */
};

struct cn_args;
struct cn_gauge;
struct cn_part; /* op_split.c: one of the calls of an operation that has several under way */

struct lend_mem {
	struct lend_ep *ep;
	pid_t pid; /* of the process that opened it: a fork's child leaves it alone */
	uint32_t client;
	uint32_t nodes, next_node;
	enum lend_spread spread;
	struct cn_node *node[CN_NODES_MAX];
	uint16_t named[CN_NAMED_MAX]; /* by the user, in that order; the rest are workers of them */
	uint32_t n_named;
	struct {
		uint32_t id;
		uint16_t node, shard;
	} alias[CN_ALIAS_MAX];
	uint32_t aliases;
	struct cn_ops wait, flight;
	struct cn_ops bucket[CN_BUCKETS];
	struct cn_ops wide; /* releases of several references: depend on everything */
	uint64_t seq;
	lend_ns now;              /* when the pump, or the operation that it starts, began */
	uint32_t drops;           /* of views of pools, under way */
	uint32_t live, refs_live; /* operations; those with references */
	bool pumping, again, closing;
	bool paged; /* it has joined the pager */
	struct cn_space *space;
	uint32_t spaces, space_free, orphans;
	struct cn_hold *hold; /* in hold_heap */
	struct lend_heap hold_heap;
	uint32_t hold_cap, hold_used; /* used: removed ones too */
	struct cn_part *parts;        /* at rest */
	TAILQ_HEAD(, cn_args) args;   /* calls and replies with arguments by reference, under way */
	uint32_t args_flying;         /* their calls under way */
	struct lend_ref *left;        /* deferred_release.c: to be given up */
	uint32_t lefts, left_cap;
	uint32_t lefts_due;     /* those that args may leave yet: there is room for them */
	struct cn_gauge *gauge; /* cn/args/inline_threshold.c, from its first use on */
	uint64_t inline_max;    /* of an argument; UINT64_MAX: as measured */
	struct lend_args_stat args_stat;
};

/* op.c */
struct lend_op *cn_op_outer(struct cn_op *op);
struct cn_op *cn_op_inner(struct lend_op *op);
int cn_op_begin(struct lend_mem *mem, struct lend_op *op, uint8_t kind);
int cn_op_go(struct cn_op *op); /* starts it, or lets it wait; always 0 */
void cn_op_finish(struct cn_op *op, enum lend_status status, enum lend_ran ran);
void cn_op_resume(struct cn_op *op); /* to wait again, for its next call */
void cn_op_started(struct cn_op *op);
void cn_pump(struct lend_mem *mem);

/* op_call.c: one call of an operation */
enum cn_went { CN_WENT, CN_LATER, CN_NEVER };
enum cn_went cn_call_start(struct cn_op *op);

/* op_split.c: operations of several calls at once */
bool cn_parts_wanted(const struct cn_op *op);
/* Starts its parts; it goes on when they have ended. */
void cn_parts_start(struct cn_op *op);
/* Of a release: CN_GO (one node has them all), CN_PARTED (started), CN_HOLD_ON, or the status that
 * it ends with for want of memory. */
int cn_parts_by_node(struct cn_op *op);
void cn_parts_cancel(struct cn_op *op);
void cn_parts_drop(struct lend_mem *mem);

/* node_select.c: after this end of its call a new object goes to another node, op->node now. */
bool cn_place_again(struct cn_op *op, enum lend_status status);
/* False: no node is likely to take a new object soon. */
bool cn_place_may(struct lend_mem *mem);
/* A put at this node got no answer for so long. New objects go elsewhere for some time; then one of
 * them tries it. */
void cn_place_doubt(struct cn_node *node, lend_ns waited);
/* The workers of node are known now: what waited for it to make objects there goes to all. */
void cn_place_spread(struct cn_node *node);

/* op_protocol.c: what an operation says, and what a reply means */
enum { CN_GO = -1, CN_HOLD_ON = -2, CN_PARTED = -3 };
/* Before a call: CN_GO, CN_HOLD_ON (a node has yet to say who it is), or the status that it ends
 * with without a call. */
int cn_step_before(struct cn_op *op);
void cn_step_say(struct cn_op *op, struct lend_memop *say);
/* After an answer; status is the node's and may change. True: it goes on with another call. */
bool cn_step_after(struct cn_op *op, enum lend_status *status, const uint8_t *body, size_t len);
/* The operation ends like this. */
void cn_step_end(struct cn_op *op, enum lend_status status, enum lend_ran ran);

/* op_order.c */
void cn_order_add(struct cn_op *op);
void cn_order_del(struct cn_op *op);
bool cn_order_wide(const struct cn_op *op); /* a release of several references */
bool cn_order_free(const struct cn_op *op);
/* The node that has yet to say what became of an earlier one that ended without a result; or NULL.
 */
struct cn_node *cn_order_left(const struct cn_op *op);
uint64_t cn_order_ref(const struct lend_ref *ref);
uint64_t cn_order_space(uint32_t index);
bool cn_order_idle(struct lend_mem *mem, uint64_t hash); /* no operation is about it */

/* node.c */
/* The one at that address, made where there is none: its index or -errno. add: one that the user
 * named. */
int cn_node_make(struct lend_mem *mem, const char *address, size_t len);
int cn_node_add(struct lend_mem *mem, const char *address, size_t len);
int cn_node_wake(struct cn_node *node, lend_ns timeout); /* HELLO is under way, or -errno */
void cn_node_fenced(struct cn_node *node);
void cn_node_lost(struct cn_node *node);
bool cn_node_ready(const struct cn_node *node);
/* What becomes of an operation on a reference that no node said to be its own: UNAVAILABLE, and
 * EHOSTUNREACH for lend_op_wait() unless it may be that of one that did not answer. */
enum lend_status cn_node_unknown(struct cn_op *op);
/* The one that has what ref names. 0; -EAGAIN: some have yet to say who they are; -EHOSTUNREACH. */
int cn_node_find(struct lend_mem *mem, const struct lend_memref *ref, uint16_t *index);
void cn_node_alias(struct lend_mem *mem, uint32_t id, uint32_t shard, uint16_t index);
uint16_t cn_node_index(const struct cn_node *node);
uint64_t cn_id_take(struct cn_node *node); /* 0: the window is full */
void cn_id_free(struct cn_node *node, uint64_t id);
struct cn_slot *cn_id_slot(struct cn_node *node, uint64_t id);

/* node_workers.c */
/* node said who it is, for the first time or anew; it had so many workers before. */
void cn_shards_meet(struct cn_node *node, uint32_t before);
/* On to the next worker of its node. False: all were asked, or it is not known. */
bool cn_shards_next(struct cn_op *op);
bool cn_shards_same(const struct cn_node *a, const struct cn_node *b); /* workers of one node */

/* forget.c */
void cn_clean_mark(struct cn_node *node, uint64_t id); /* its call ended without a result */
void cn_clean_pump(struct cn_node *node);
bool cn_clean_naps(const struct cn_node *node); /* the last try failed, and the next is not due */
void cn_clean_drop(struct cn_node *node);       /* the node forgot us: nothing to clean */

/* handles.c */
int cn_space_take(struct lend_mem *mem, uint32_t *index);
void cn_space_give(struct lend_mem *mem, uint32_t index);
struct cn_space *cn_space_get(struct lend_mem *mem, lend_space handle, uint32_t *index);
uint64_t cn_space_handle(const struct lend_mem *mem, uint32_t index);
int cn_hold_reserve(struct lend_mem *mem, uint32_t n);
struct cn_hold *cn_hold_find(struct lend_mem *mem, const struct lend_memref *ref);
void cn_hold_ahead(const struct lend_mem *mem, const struct lend_memref *ref); /* find is near */
void cn_hold_add(struct lend_mem *mem, const struct lend_memref *ref);
void cn_hold_del(struct cn_hold *hold);
void cn_table_drop(struct lend_mem *mem, uint16_t node); /* what we had on a node that forgot us */

/* lease_renew.c */
bool cn_has_door(const char *address); /* a second endpoint of this process can reach it */
int cn_renew_join(const char *home, uint32_t client); /* as in life.h */
void cn_renew_life(const char *home, uint32_t client, uint64_t life, lend_ns lease);
void cn_renew_leave(const char *home, uint32_t client);

/* op_encode.c */
bool cn_release_note(struct cn_op *op, struct cn_slot *slot, struct lend_buf *head);
struct lend_buf *cn_head(struct lend_mem *mem, const struct lend_memop *say);
void cn_ref_in(struct lend_memref *out, const struct lend_ref *ref);   /* fields; shape unchecked */
size_t cn_buf_read(const struct lend_buf *buf, void *out, size_t cap); /* whole length */

#endif
