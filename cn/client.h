/* client - the state that the files of cn share: nodes, operations under way, spaces and holds of
 * one lend_mem. Layer: cn. Threads: the endpoint's. Operations live in the caller's lend_op. */
#ifndef LEND_CN_CLIENT_H
#define LEND_CN_CLIENT_H

#include <stddef.h>
#include <sys/queue.h>

#include "lend/mem.h"
#include "sys/mapped_memory.h"
#include "wire/memop.h"

enum {
	CN_NAMED_MAX = 64,
	CN_NODES_MAX = 512,  /* nodes of one client, each worker counted */
	CN_CALLERS_MAX = 64, /* callers with sessions, for reads of lent arguments */
	CN_ALIAS_MAX = 256,  /* earlier ids of nodes that were restarted */
	CN_BUCKETS = 256,
	CN_ADDRESS_MAX = 104,
	CN_HOME_MAX = CN_ADDRESS_MAX + 17,
};

/* Priorities below a demand's. CN_LONG: parts of a long operation. CN_GUESS: pages that may be
 * touched next, and releases in the background. */
enum { CN_LONG = LEND_NORMAL + 1, CN_GUESS = LEND_BULK - 1 };

enum cn_state { CN_IDLE, CN_WAIT, CN_FLIGHT, CN_DONE };
/* A long put is ALLOC, WRITEs and a SEAL. EARLY reserves the pages of a put so that its
 * reference can be passed on before its bytes arrive by FILL, with the same operation id. A seal of
 * a space with a pointer is WRITEs and the seal itself. A prefetch is FETCHes. A map from a pool is
 * POOL_MAP and POOL_VIEWs (SHOW), until all frames are known. All other operations have one step,
 * which is repeated for parts. */
enum cn_step {
	CN_STEP_ONLY,
	CN_STEP_EARLY,
	CN_STEP_ALLOC,
	CN_STEP_WRITE,
	CN_STEP_SEAL,
	CN_STEP_FETCH,
	CN_STEP_SHOW,
	CN_STEP_FILL,
};

/* Stored in lend_op.reserved. */
struct __attribute__((may_alias)) cn_op {
	TAILQ_ENTRY(cn_op) all; /* mem->wait or mem->flight, by seq */
	TAILQ_ENTRY(cn_op) key; /* one bucket: operations that may depend on each other, by seq */
	struct lend_mem *mem;
	struct iovec one; /* the segment if n is 1 */
	const void *data; /* iovecs, or references to release; borrowed when n > 1 */
	void *out; /* lend_space, lend_mem_stat, lend_get_parts or, of a GET, lend_arg_view of the
		      caller */
	uint64_t offset, len;
	uint64_t at;   /* bytes, or references, that are finished */
	uint64_t part; /* bytes, or references, of the call under way */
	uint64_t id;   /* operation id of the call under way; 0: not recorded */
	uint64_t seq;
	uint64_t
	    hash; /* hash of the object it depends on; 0: none; odd: a reference, even: a space */
	lend_ns deadline;
	struct lend_memterms terms;
	uint32_t n;
	uint32_t space; /* index in mem->space, if it has one */
	uint64_t life;  /* the node's life when the call began */
	uint64_t pool;  /* GET: the key in the POOL_MAP under way; 0: the node sends the bytes */
	uint64_t shown; /* PUT, WRITE: what the node reads, as of lend_show(); 0: none */
	uint32_t wraps; /* segments of the caller's memory that a carrier may still use */
	uint32_t rights;
	uint16_t node;
	uint8_t kind; /* kind of the operation: LEND_MEMOP_* */
	uint8_t step, state;
	bool ended;       /* the call ended; a carrier still uses some of the memory */
	bool cancelled;   /* cancelled: the operation ends when its call under way ends */
	bool again;       /* the operation continues with another call after the one under way */
	uint8_t lacks;    /* enum cn_lack: what its next call could not start without */
	uint64_t session; /* session of the call under way */
	int err;          /* positive errno: why it could not start, for lend_op_wait() */
	uint16_t tries; /* other nodes that may still be tried for a new object; STAT: workers that
			   have answered */
	uint32_t kids;  /* parts under way, if it is split */
	bool parted;
	bool bound;      /* PUT, SEAL: the reference is for sessions of this tenant only */
	bool by_message; /* GET: the pool refused; the node sends the bytes */
	bool view;       /* a GET into a lend_arg_view in out, or the MAP that it became */
	bool refused;    /* with a view: the pool's frames cannot be shown; the bytes are copied */
	bool lent;       /* a read of a caller's memory: node is at least CN_NODES_MAX */
	bool placing;    /* lent: the call under way asks where the bytes are mapped */
	bool relayed;    /* lent: the caller of op->parent reads the bytes for this process */
	bool ends;       /* lent: a GET of no bytes that ends a result */
	bool one_sided;  /* the bytes of the call under way do not travel in messages */
	bool by_datagrams;    /* the bytes could not be shown or read: they travel in messages */
	struct cn_op *parent; /* only in a part: the operation it belongs to */
	void (*reserved)(struct lend_op *op); /* EARLY: runs when op->ref is valid; or NULL */
};
_Static_assert(sizeof(struct cn_op) <= sizeof(((struct lend_op *)0)->reserved), "fits");
TAILQ_HEAD(cn_ops, cn_op);

/* The reason that a call cannot start: no id is left in its node's window, or no place in the queue
 * of calls. */
enum cn_lack { CN_LACKS_NOTHING, CN_LACKS_ID, CN_LACKS_CALL };

/* State of an operation id, in slot id % open. FREE -> OPEN (a call is under way) -> FREE, or ->
 * CLEAN (it ended without a result: forget it, or repeat it if it releases something) -> FREE. */
enum cn_slot_state { CN_SLOT_FREE, CN_SLOT_OPEN, CN_SLOT_CLEAN };
struct cn_slot {
	uint8_t state;
	uint8_t kind; /* how to clean: FORGET; RELEASE and FREE are repeated */
	uint8_t what; /* LEND_MEMOP_ of the operation that later ones on the object wait for; 0:
			 none waits */
	uint64_t hash, offset, len;
	uint32_t n;    /* references of a RELEASE */
	uint8_t *refs; /* references of a RELEASE: one, or memory that the slot owns; of a GRANT
			  that gives the hold away: one */
	uint8_t one[LEND_MEMREF_LEN];
	struct lend_memspace space;
};

/* A call that cleans a slot. */
enum { CN_CLEANINGS = 8 };
struct cn_cleaning {
	struct lend_call call; /* first */
	struct cn_node *node;
	uint64_t id; /* operation id of the slot; 0: no call is under way */
};

/* DOWN -> HELLO -> UP -> DOWN (session ended, or fenced) */
enum cn_node_state { CN_NODE_DOWN, CN_NODE_HELLO, CN_NODE_UP };
struct cn_node {
	struct lend_mem *mem;
	char address[CN_ADDRESS_MAX];
	char home[CN_HOME_MAX]; /* the address in the form that life.h needs */
	enum cn_node_state state;
	bool connected; /* session is valid */
	bool failed;    /* its last HELLO had no answer */
	bool full;      /* its HELLO got RESOURCE_EXHAUSTED: no further client of this process is
			   possible */
	bool clash;     /* another node of this client has the same id: the node is not used */
	bool greeted;   /* id and worker are valid: it or another worker answered a HELLO */
	bool retired;   /* a worker of an earlier start of its node; the present start has fewer */
	uint8_t worker, workers; /* its number among its node's workers, and their number */
	uint8_t key;             /* of a caller: first byte of the id of the key to connect with */
	lend_session session;
	uint32_t id, epoch, open;
	uint64_t life, asked; /* asked: the life that the HELLO in flight joins; 0: it opens one */
	uint32_t name;        /* number of the name under which its session was dialled */
	bool knocking; /* a RENEW, which brings the session up, is under way instead of HELLO */
	uint8_t steps; /* HELLOs since cn_node_wake() */
	lend_ns lease;
	uint64_t next, low; /* operation ids: the next one; the lowest that is not yet confirmed */
	uint32_t cleans;    /* slots to clean, those included that a call cleans */
	uint32_t cleanings; /* calls that clean, under way */
	uint32_t failures;  /* cleanings that failed at once, in a row */
	lend_ns clean_at;
	struct cn_cleaning cleaning[CN_CLEANINGS];
	struct lend_call hello, ask;
	/* Pages: two from the last statistics reply; sent there since; sent before the query under
	 * way. */
	uint64_t total, used, sent, sent_before;
	uint32_t page;            /* bytes of a page, from the last HELLO */
	lend_ns ask_at, retry_at; /* earliest time of the next query; of the next retry */
	lend_ns doubt_until;      /* no new object until then: a put timed out; 0: none */
	lend_ns doubt;            /* duration of that pause after each such put */
	bool asking;
	uint64_t read_seq;    /* callers only: mem->seq of the last read from it */
	bool relay;           /* callers only: session is borrowed, to one that relays reads */
	bool placed;          /* callers only: id, epoch and table are valid for this session */
	uint64_t table;       /* callers only: offset of its lent_table in its shared memory */
	uint64_t full_in;     /* the last walk of the pump in which an operation lacked an id */
	struct cn_pool *pool; /* set if it was named pool:NAME; else NULL */
	struct cn_slot slot[LEND_MEM_OPEN_MAX];
	uint64_t
	    clean[LEND_MEM_OPEN_MAX]; /* ids of slots to clean, of which no call is under way */
	uint32_t clean_first, clean_behind; /* of clean, modulo its size */
};

struct cn_space {
	struct lend_memspace wire;
	uint64_t len;
	uint64_t life; /* the node's life when it was made; 0: the node forgot it */
	uint32_t gen;  /* odd: in use */
	uint32_t next; /* in the free list, or of an orphan in theirs */
	uint16_t node;
	bool orphan;  /* the space has no owner any more: to be freed at the node */
	bool written; /* the space was written to: its bytes differ from those of its source */
	struct lend_memref from; /* the reference it was mapped from; version 0: zeros */
	struct cn_view *view;    /* the view behind its pointer, or NULL; owned */
	struct cn_shown *shown;  /* the frames to map, as a pool reported them, or NULL; owned */
};

struct cn_hold {
	uint64_t serial;
	uint32_t node, epoch, slot;
	uint32_t count; /* 0: never used; UINT32_MAX: removed */
};

struct cn_args;
struct cn_lender;
struct cn_published;
struct cn_threshold;
struct cn_serves;
struct cn_part; /* op_split.c: one call of an operation that has several under way */

struct lend_mem {
	struct lend_ep *ep;
	pid_t pid; /* the process that opened it; a fork's child does not use it */
	uint32_t client;
	uint32_t nodes, next_node;
	enum lend_spread spread;
	struct cn_node *node[CN_NODES_MAX + CN_CALLERS_MAX]; /* callers: from CN_NODES_MAX on */
	uint16_t named[CN_NAMED_MAX]; /* nodes that the user named, in that order; the others are
					 workers of them */
	uint32_t n_named;
	struct {
		uint32_t id;
		uint16_t node, worker;
	} alias[CN_ALIAS_MAX];
	uint32_t aliases;
	struct cn_ops wait, flight;
	struct cn_ops bucket[CN_BUCKETS];
	struct cn_ops wide; /* releases of several references: they depend on all operations */
	struct cn_ops many; /* reads of several references, by seq */
	uint64_t seq;
	lend_ns now;              /* when the pump, or the start of an operation, began */
	lend_ns walk_at;          /* when the pump tries all operations of wait again */
	uint32_t ready;           /* operations of wait that lack nothing */
	uint64_t pass;            /* number of the pump's walk over wait */
	uint32_t full_nodes;      /* nodes with full_in == pass */
	uint32_t drops;           /* POOL_DROP calls under way */
	uint32_t live, refs_live; /* operations in progress; those of them on references */
	bool pumping, again, closing;
	bool calls_full; /* in this run of the pump a call found no place in the queue */
	bool paged;      /* this client has joined the pager */
	struct cn_space *space;
	uint32_t spaces, space_free;
	uint32_t orphans, orphan_first, orphan_last; /* their number; a list in FIFO order */
	struct cn_hold *hold;                        /* hash table, in hold_heap */
	struct lend_mapping hold_heap;
	uint32_t hold_cap, hold_used; /* used: including removed ones */
	struct cn_part *parts;        /* free list */
	TAILQ_HEAD(, cn_args) args;   /* calls and replies with arguments by reference */
	struct lend_ref *deferred;    /* deferred_release.c: references to be released */
	uint32_t deferred_n, deferred_cap;
	uint32_t deferred_reserved;     /* entries of `deferred` that args have reserved */
	struct cn_threshold *threshold; /* cn/args/inline_threshold.c; made at its first use */
	uint64_t inline_max; /* bytes of the longest argument in a message; UINT64_MAX: measured */
	enum lend_arg_way way;          /* way of arguments that leave it open */
	struct cn_lender *lender;       /* set at the first argument that may be lent; counted */
	struct cn_serves *serves;       /* cn/args/args_serve.c; made at its first use */
	struct cn_lender *publisher;    /* lends published loans; counted reference, or NULL */
	struct cn_published *published; /* loan.c: references that end with the client */
	struct lend_alarm alarm;        /* loan.c: when to look at loans and results */
	lend_ns loan_ttl;               /* of loans and results; 0: the defaults */
	struct lend_args_stat args_stat;
};

/* The client's part of an operation is stored in the user's struct lend_op. */
static inline struct lend_op *cn_op_outer(struct cn_op *op)
{
	return (struct lend_op *)((char *)op - offsetof(struct lend_op, reserved));
}

static inline struct cn_op *cn_op_inner(struct lend_op *op)
{
	return (struct cn_op *)op->reserved;
}

/* Returns the parts of a GET_MANY, or the one that a GET for it reads. */
static inline struct lend_get_part *cn_op_many(const struct cn_op *op)
{
	return op->out;
}

/* op.c */
int cn_op_begin(struct lend_mem *mem, struct lend_op *op, uint8_t kind);
int cn_op_go(struct cn_op *op); /* starts or queues it; always 0 */
void cn_op_finish(struct cn_op *op, enum lend_status status, enum lend_ran ran);
void cn_op_resume(struct cn_op *op); /* queues it for its next call */
void cn_op_started(struct cn_op *op);
void cn_op_set_lack(struct cn_op *op, enum cn_lack lack); /* of an operation that waits */
void cn_pump(struct lend_mem *mem);

/* op_call.c: one call of an operation */
enum cn_call_outcome { CN_WENT, CN_LATER, CN_NEVER };
bool cn_call_lacks(const struct cn_op *op); /* returns whether op->lacks is still true */
enum cn_call_outcome cn_call_start(struct cn_op *op);

/* op_split.c: operations of several calls at once */
bool cn_split_wanted(const struct cn_op *op);
/* Starts its parts. It continues when they have ended. */
void cn_split_start(struct cn_op *op);
/* Splits a release by node. Returns CN_GO (one node has all references), CN_PARTED (started),
 * CN_HOLD_ON, or the status to end with: no memory. */
int cn_split_by_node(struct cn_op *op);
/* Returns CN_GO (one call reads all references of a GET_MANY), CN_SPLIT or CN_HOLD_ON. */
int cn_split_many(struct cn_op *op);
void cn_split_cancel(struct cn_op *op);
void cn_split_drop(struct lend_mem *mem);

/* op_many.c: the call that reads several references */
/* Appends the parts to the request, of which head is the first buffer. */
void cn_many_encode(const struct cn_op *op, struct lend_buf *head);
/* Stores the statuses of a reply. Returns the operation's. */
enum lend_status cn_many_after(struct cn_op *op, const uint8_t *body, size_t len);
/* Returns the status of the first part that failed. */
enum lend_status cn_many_status(const struct cn_op *op);
/* Ends the parts that were not read. */
void cn_many_end(struct cn_op *op, enum lend_status status);

/* node_select.c: after a call with this status, moves a new object to another node, now op->node.
 */
bool cn_node_try_next(struct cn_op *op, enum lend_status status);
/* Returns false if no node is likely to take a new object soon. */
bool cn_node_may_choose(struct lend_mem *mem);
/* Pauses new objects at a node, where a put timed out after `waited`: they go to other nodes for
 * some time; then a single one tries this node. */
void cn_node_pause(struct cn_node *node, lend_ns waited);
/* Call it when the workers of node become known: spreads the operations that wait to make an object
 * at node over all of them. */
void cn_node_count_choice(struct cn_node *node);

/* op_protocol.c: requests of an operation, and the meaning of the replies */
enum { CN_GO = -1, CN_HOLD_ON = -2, CN_PARTED = -3, CN_SPLIT = -4 };
/* Prepares the next call. Returns CN_GO, CN_HOLD_ON (a node has yet to identify itself), or the
 * status that the operation ends with, without a call. */
int cn_step_before(struct cn_op *op);
void cn_step_encode(struct cn_op *op, struct lend_memop *say);
/* Evaluates a reply. status is the node's and may be changed. Returns true if another call follows.
 */
bool cn_step_after(struct cn_op *op, enum lend_status *status, const uint8_t *body, size_t len);
/* Cleans up at the operation's end. */
void cn_step_end(struct cn_op *op, enum lend_status status, enum lend_ran ran);

/* op_order.c */
void cn_order_add(struct cn_op *op);
void cn_order_del(struct cn_op *op);
bool cn_order_wide(const struct cn_op *op); /* true: the operation releases several references */
bool cn_order_free(const struct cn_op *op);
/* Returns a node that has yet to confirm the outcome of an earlier operation that this one depends
 * on and that ended without a result; NULL: there is none. */
struct cn_node *cn_order_left(const struct cn_op *op);
uint64_t cn_order_ref(const struct lend_ref *ref);
uint64_t cn_order_space(uint32_t index);
bool cn_order_idle(struct lend_mem *mem, uint64_t hash); /* returns whether no operation uses it */

/* node.c */
/* make: finds or makes the node at that address. add: the same for an address that the user named.
 * Both return its index or -errno. */
int cn_node_make(struct lend_mem *mem, const char *address, size_t len);
int cn_node_add(struct lend_mem *mem, const char *address, size_t len);
int cn_node_wake(struct cn_node *node, lend_ns timeout); /* 0: HELLO under way; -errno */
void cn_node_fenced(struct cn_node *node);
void cn_node_lost(struct cn_node *node);
bool cn_node_ready(const struct cn_node *node);
/* Returns the status of an operation on a reference that no known node claims: UNAVAILABLE. Sets
 * EHOSTUNREACH for lend_op_wait(), unless a node that did not answer may have made the reference.
 */
enum lend_status cn_node_unknown(struct cn_op *op);
/* Finds the node that owns ref. Returns 0; -EAGAIN: some nodes have yet to identify themselves;
 * -EHOSTUNREACH. */
int cn_node_find(struct lend_mem *mem, const struct lend_memref *ref, uint16_t *index);
void cn_node_alias(struct lend_mem *mem, uint32_t id, uint32_t worker, uint16_t index);
uint16_t cn_node_index(const struct cn_node *node);

/* op_ids.c */
bool cn_id_left(const struct cn_node *node); /* returns whether the window has room */
uint64_t cn_id_take(struct cn_node *node);   /* 0: the window of ids is full */
void cn_id_free(struct cn_node *node, uint64_t id);
struct cn_slot *cn_id_slot(struct cn_node *node, uint64_t id);

/* node_workers.c */
/* Call it when node identified itself for the first time or after a restart. before: the number of
 * its workers before that. */
void cn_workers_learn(struct cn_node *node, uint32_t before);
/* Moves op to the next worker of its node. Returns false if all were asked, or the next is unknown.
 */
bool cn_workers_next(struct cn_op *op);
/* Returns whether both are workers of one node. */
bool cn_workers_same(const struct cn_node *a, const struct cn_node *b);

/* forget.c */
void cn_forget_mark(struct cn_node *node, uint64_t id); /* its call ended without a result */
void cn_forget_pump(struct cn_node *node);
bool cn_forget_waits(
    const struct cn_node *node); /* true: the node waits before it retries a failed cleaning */
void cn_forget_drop(struct cn_node *node);   /* the node ended our life: nothing to clean */
void cn_forget_cancel(struct cn_node *node); /* cancels the calls under way */

/* handles.c */
int cn_space_take(struct lend_mem *mem, uint32_t *index);
void cn_space_give(struct lend_mem *mem, uint32_t index);
/* Frees a space that no handle names any more: at the node, too, in the background. */
void cn_space_orphan(struct lend_mem *mem, uint32_t index);
struct cn_space *cn_space_get(struct lend_mem *mem, lend_space handle, uint32_t *index);
uint64_t cn_space_handle(const struct lend_mem *mem, uint32_t index);
int cn_hold_reserve(struct lend_mem *mem, uint32_t n);
struct cn_hold *cn_hold_find(struct lend_mem *mem, const struct lend_memref *ref);
void cn_hold_prefetch(const struct lend_mem *mem,
		      const struct lend_memref *ref); /* prefetches the hold's entry */
void cn_hold_add(struct lend_mem *mem, const struct lend_memref *ref);
void cn_hold_del(struct cn_hold *hold);
void cn_handles_drop(struct lend_mem *mem, uint16_t node); /* the node ended our life */

/* lease_renew.c */
/* Renews the lease of a client at home (as in life.h) until it leaves. Returns 0; -1: no memory. */
int cn_renew_join(const char *home, uint32_t client);
void cn_renew_life(const char *home, uint32_t client, uint64_t life, lend_ns lease);
void cn_renew_leave(const char *home, uint32_t client);

/* op_encode.c */
bool cn_release_note(struct cn_op *op, struct cn_slot *slot, struct lend_buf *head);
struct lend_buf *cn_op_encode(struct lend_mem *mem, const struct lend_memop *say);
void cn_ref_in(struct lend_memref *out, const struct lend_ref *ref); /* zeros if it is invalid */
/* Copies up to cap bytes. Returns the length of the whole chain. */
size_t cn_buf_read(const struct lend_buf *buf, void *out, size_t cap);

#endif
