/* mem_state - state that the files of test/sim/memory share: servers (mem_serve), actors and their
 * operations (mem_client, mem_script). Layer: test/sim. */
#ifndef SIM_MEMORY_MEM_STATE_H
#define SIM_MEMORY_MEM_STATE_H

#include "sim/memory/sim_mem.h"
#include "sim/memory/mem_model.h"

enum {
	MEM_OPS = 12,    /* open operations of an actor */
	MEM_REFS = 16,   /* references that an actor knows */
	MEM_SPACES = 6,  /* spaces of an actor */
	MEM_WINDOW = 64, /* ids of a link above its low water */
	MEM_BATCH = 4,   /* references in one RELEASE */
	MEM_LANDINGS = 64,
	MEM_WAITING = 32, /* requests that wait for the bytes of a snapshot */
	MEM_HAND = 0xee,  /* first byte of a call that passes references */
	MEM_STRAY_MARK = 77,
};

/* A message that is received into frames of the store. */
struct mem_landing {
	uint32_t buf; /* head of its chain; 0: free */
	uint32_t placement, pages, tenant;
	uint64_t own;   /* serial of the unwritten snapshot that has the pages; 0: none has */
	uint32_t *page; /* then: its pages in the model */
	uint8_t fixed[LEND_MEMOP_FIXED_MAX];
};
/* A reply that reads pages. */
struct mem_reply {
	uint32_t buf; /* head of its chain; 0: free */
	uint32_t segs, pages, tenant;
	struct lend_store_seg *seg;
	uint32_t *page; /* page numbers of the model */
	uint32_t seg_cap, page_cap;
	struct mem_view bytes;
};
struct mem_session {
	uint64_t handle; /* 0: none */
	struct lend_store_peer peer;
	uint64_t life; /* the model's life */
};
/* The life of a process at a store, as its actors know it. */
struct mem_life {
	uint64_t life;  /* 0: none */
	uint32_t birth; /* number of the process's start */
	uint8_t key[LEND_MEMOP_KEY];
};
/* A request that waits until its snapshot is written, or ends. */
struct mem_waiting {
	struct lend_event e; /* call 0: free */
	uint8_t bytes[LEND_MEMOP_FIXED_MAX];
	uint32_t slot;
	uint64_t serial;
	lend_ns until;
};
struct mem_server {
	struct mem_model model;
	struct mem_waiting waiting[MEM_WAITING];
	struct lend_store_config cfg;
	struct lend_store_quota quota[MEM_TENANTS];
	struct mem_session *session; /* by index */
	struct mem_landing landing[MEM_LANDINGS];
	struct mem_reply *reply;
	uint32_t replies;
	uint64_t execs;
	void *scratch;
	struct lend_store *kept; /* memory of a dead node, which it will restart with */
	void *kept_pages;
	uint32_t births;
	bool pooled; /* processes map its pages */
	struct lend_rng pool;
	uint32_t page[LEND_STORE_SEGS_MAX];
	struct lend_store_seg seg[LEND_STORE_SEGS_MAX + 8];
	struct lend_store_out out, again;
};

/* FREE -> OPEN (to be sent, or in flight) -> KEPT (answered, its id still in use) -> FREE */
enum mem_op_state { MEM_OP_FREE, MEM_OP_OPEN, MEM_OP_KEPT };
enum mem_garbage {
	MEM_SOUND,
	MEM_STRAY, /* valid, but with an invalid id */
	MEM_NO_KIND,
	MEM_NO_VERSION,
	MEM_TOO_LONG,
	MEM_BAD_FLAGS,
	MEM_BAD_TERMS, /* invalid terms, for operations that have terms */
	MEM_GARBAGES
};
enum mem_wrong { MEM_RIGHT, MEM_WRONG_LIFE, MEM_WRONG_LOW, MEM_WRONG_PROOF, MEM_WRONG_PROCESS };
struct mem_op {
	struct lend_memop say;
	uint32_t actor, store;
	uint8_t state;
	uint8_t calls;   /* in flight */
	uint8_t garbage; /* enum mem_garbage */
	bool unsure;     /* a call ended with unknown outcome */
	bool forged;     /* no node made its reference */
	bool resolved;   /* its result is not needed: freed when its last call ends */
	bool forgetting; /* a FORGET of it was sent */
	bool hand;       /* passes references to a node */
	uint8_t wrong;   /* enum mem_wrong */
	uint32_t sent, execs, not_run;
	uint32_t answers; /* a bit for each status that the node gave */
	uint32_t about;   /* FORGET: index of the operation */
	uint32_t reply_len;
	uint8_t reply[LEND_MEMREF_LEN];
	uint8_t refs[MEM_BATCH * LEND_MEMREF_LEN];
	struct mem_view bytes; /* bytes that a GET or READ returns */
};

struct mem_ref {
	struct lend_memref ref;
	uint32_t store;
};
struct mem_space {
	struct lend_memspace space;
	uint64_t len;
	uint32_t store;
	uint32_t writes; /* limits the number of its extents */
};
/* State of an actor at a store. */
struct mem_link {
	uint32_t number; /* client number; 0: none */
	uint32_t open;
	uint64_t life;      /* 0: send HELLO */
	uint64_t had;       /* the life that its references and spaces belong to */
	uint64_t next, low; /* operation ids: the next, and low water */
	uint64_t busy;      /* bit map of the ids in use within the window */
	bool asking;        /* HELLO is in flight */
	bool refused;       /* HELLO found a table or a quota full */
	bool silent;        /* sends nothing more: its lease will end */
};
struct mem_actor {
	uint32_t node, life; /* node, and its life */
	struct mem_link *link;
	struct mem_ref ref[MEM_REFS];
	struct mem_space space[MEM_SPACES];
	uint32_t refs, spaces;
	uint32_t hot_ref, hot_space; /* used last */
};
struct sim_mem {
	struct mem_server *server; /* by node */
	uint32_t servers;
	struct mem_actor *actor;
	struct mem_life *life; /* by client node and store */
	struct mem_op *op;     /* MEM_OPS of each actor */
	uint32_t actors;
	bool sparse; /* large spaces with little content: page tables run out before pages */
	uint64_t made, serial;
	lend_ns healed;  /* time when faults were over; 0: not yet */
	uint32_t *owner; /* actor by client number */
	uint32_t numbers, owner_cap;
};

/* mem_serve */
void mem_serve_open(struct sim *sim);
void mem_serve_close(struct sim *sim);
/* Wraps pages as a chain behind first, or as a chain of its own. Returns its head. */
uint32_t mem_serve_wrap(struct sim *sim, uint32_t node, uint32_t first,
			const struct lend_store_seg *seg, uint32_t n);
/* Returns the memory node's entry of the session, or NULL. */
struct mem_session *mem_serve_session(struct sim *sim, uint32_t node, uint64_t session);
/* Computes the session's context: the same 32 bytes at both ends, and other bytes for each
 * session. */
void mem_session_context(struct sim *sim, uint32_t node, uint64_t session,
			 uint8_t context[LEND_MEMOP_CONTEXT]);
struct mem_life *mem_client_life(struct sim *sim, uint32_t actor, uint32_t store);
/* The segments must have the expected bytes. */
void mem_serve_check(struct sim *sim, uint32_t node, const struct lend_store_seg *seg, uint32_t n,
		     const struct mem_view *want, const char *when);
/* mem_request: runs a request of a session. */
void mem_request_run(struct sim *sim, uint32_t node, const struct lend_event *e);
/* mem_wait: lets a request wait that the store could not run yet. False: too many do. */
bool mem_wait_add(struct sim *sim, uint32_t node, const struct lend_event *e,
		  const uint8_t head[LEND_MEMOP_FIXED_MAX]);
/* Runs those again that may have a result; ends those that have waited for long. */
void mem_wait_turn(struct sim *sim, uint32_t node);
lend_ns mem_wait_deadline(const struct sim *sim, uint32_t node);
/* Answers a request that did not run, for want of memory. */
void mem_wait_refuse(struct sim *sim, uint32_t node, const struct lend_event *e,
		     const uint8_t head[LEND_MEMOP_FIXED_MAX]);
/* mem_rot: damages a page now and then. */
void mem_rot_turn(struct sim *sim, uint32_t node);
/* mem_map: runs the processes that map pages now and then. */
void mem_map_turn(struct sim *sim, uint32_t node);
/* mem_op */
void mem_op_open(struct sim *sim);
void mem_op_close(struct sim *sim);
/* Allocates an operation of this actor with an id of its own; NULL: no room. */
struct mem_op *mem_op_new(struct sim *sim, struct mem_actor *a, uint8_t kind, uint32_t store);
void mem_op_send(struct sim *sim, struct mem_op *op);
/* Its result is not needed any more. */
void mem_op_resolve(struct sim *sim, struct mem_op *op);
void mem_op_forget(struct sim *sim, struct mem_op *op);
/* Finds the operation of a request at a store. head: the bytes as received; op: its fields, if
 * valid. */
struct mem_op *mem_op_find(struct sim *sim, const uint8_t *head, const struct lend_memop *op,
			   uint32_t store);
/* The node ran it. */
void mem_op_ran(struct sim *sim, struct mem_op *op, const struct lend_store_out *out,
		const struct mem_done *done);
/* mem_client */
void mem_client_open(struct sim *sim);
void mem_client_get_refs(struct sim *sim, uint32_t node, const struct lend_event *e);
/* The node forgot this client: drops all that it had there. */
void mem_client_fenced(struct sim *sim, struct mem_actor *a, uint32_t store);
const char *mem_client_unfinished(struct sim *sim);
/* mem_compose: fills in the fields; false: the actor has nothing to use. */
bool mem_compose(struct sim *sim, struct mem_actor *a, struct mem_op *op);
/* mem_script */
struct mem_ref *mem_script_ref(struct sim *sim,
			       struct mem_actor *a); /* one that it knows, or NULL */
void mem_script_one(struct sim *sim, struct mem_actor *a);
void mem_script_keep(struct sim *sim, struct mem_actor *a, const struct lend_memref *ref,
		     uint32_t store);

/* A message that was received into a snapshot's pages is complete, or gone. */
void mem_landing_end(struct mem_server *s, struct mem_landing *l);

static inline struct mem_link *mem_op_link(struct sim *sim, const struct mem_op *op)
{
	return &sim->mem->actor[op->actor].link[op->store];
}
static inline void mem_op_end(struct mem_op *op)
{
	if (op->resolved && !op->calls)
		op->state = MEM_OP_FREE;
}
static inline uint64_t mem_below(struct sim *sim, uint64_t n)
{
	return sim_below(sim, SIM_RNG_MEM, n);
}
static inline bool mem_one_in(struct sim *sim, uint64_t n)
{
	return mem_below(sim, n) == 0;
}

#endif
