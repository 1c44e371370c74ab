/* mem_model - a naive model of one memory node: objects with their bytes and page numbers, holders
 * as bit sets, grants, leases and records in arrays.
 *
 * It runs each operation after the node, computes the expected status, and stops the run on a
 * difference. Pages are plain numbers; a page that two objects share has two refs. The model does
 * not know which frame of the store a page is, only how many frames there are. Layer: test/sim. One
 * per life of a store. */
#ifndef SIM_MEMORY_MEM_MODEL_H
#define SIM_MEMORY_MEM_MODEL_H

#include "mn/store/exec.h"
#include "sim/memory/mem_bytes.h"
#include "sim/sim.h"

enum { MEM_CLIENTS = 64, MEM_TENANTS = 3, MEM_MAPPINGS = 6 };

struct mem_page {
	uint32_t refs, pins;
	uint32_t next; /* free list */
	bool rot;      /* memory lost a bit of it, or of the page that it is a copy of */
};
struct mem_pages { /* sorted by index; pages that are not listed are zero */
	struct mem_index {
		uint64_t index;
		uint32_t page;
	} * at;
	uint32_t n, cap;
};
enum mem_kind { MEM_NONE, MEM_SNAPSHOT, MEM_SPACE };
struct mem_object {
	uint64_t serial; /* 0: none */
	uint64_t held;   /* snapshot: a bit for each client */
	uint32_t grants;
	uint32_t owner; /* space: its client */
	uint32_t base;  /* offset of its bytes in its first page */
	uint8_t kind;
	bool handed;     /* another client has adopted it */
	bool unwritten;  /* snapshot of a put that has not brought its bytes yet */
	uint32_t charge; /* pages charged for it */
	uint32_t payer,
	    stakes; /* payer: the tenant that is charged; stakes: number of its holds and grants */
	struct mem_pages pages;
	struct mem_view view;
};
struct mem_grant {
	uint64_t serial; /* in order of creation; 0: none */
	lend_ns expires;
	uint32_t object, left;
	uint8_t kind;
	uint8_t tenant;
};
struct mem_record {
	uint64_t id; /* 0: none */
	uint64_t serial, grant;
	lend_ns expires;
	uint32_t slot;
	uint8_t kind, status, forgot, held, len, tenant;
	bool early; /* PUT: its bytes are not there yet */
	uint8_t reply[LEND_MEMREF_LEN];
};
struct mem_client {
	uint32_t incarnation; /* 0: none */
	uint32_t number;
	uint32_t tenant;
	uint64_t low;
};
struct mem_incarnation {
	uint64_t process, life; /* life 0: none */
	lend_ns expires;
	uint32_t clients, tenant;
	uint8_t key[LEND_MEMOP_KEY];
};

/* A view that a process on the node's host maps. */
struct mem_mapping {
	uint64_t key;        /* pool secret of the view's owner; 0: none */
	uint32_t space;      /* slot; 0: the space has ended */
	struct mem_object o; /* bytes and pages when it was mapped */
	struct lend_memview shown;
};

struct mem_model {
	struct sim *sim;
	uint32_t node;
	struct lend_store_config cfg;
	struct lend_store *store;
	struct mem_page *page;
	struct mem_object *object; /* slot 0: for bytes on their way */
	struct mem_grant *grant;
	struct mem_incarnation *incarnation;
	struct mem_client client[MEM_CLIENTS + 1];
	struct mem_record *record; /* cfg.open of each client */
	uint32_t page_top, page_free, page_used;
	uint32_t object_top, grant_top;
	uint32_t nodes; /* page table nodes that the store used before the operation */
	struct mem_quarantine {
		uint32_t gen;
		bool free;
		lend_ns since;
	} * rest;        /* quarantine of each frame, after the last step */
	bool late;       /* the store has freed an object step by step */
	uint32_t placed; /* pages that messages are being received into */
	struct mem_tenant {
		struct lend_store_quota quota;
		uint64_t pages, pinned; /* pages: with those being received into */
		uint32_t refs, clients;
	} tenant[MEM_TENANTS];
	struct mem_mapping pinned_map[MEM_MAPPINGS];
	uint64_t serial, grant_serial;
	uint64_t life;
	lend_ns grant_next, lease_next; /* no grant or lease ends before */
	struct lend_memstats stats;     /* expected ledgers and counters */
};

/* Input of an operation. */
struct mem_in {
	uint64_t process;            /* process */
	const uint8_t *context;      /* context of the session */
	uint64_t *life;              /* life of the session */
	const struct lend_memop *op; /* NULL: malformed, with that status */
	enum lend_mem_status status;
	uint32_t placed;     /* pages of its placement */
	uint64_t landed;     /* serial of the unwritten snapshot that has the payload; 0: none */
	const uint8_t *refs; /* references of a RELEASE */
	const struct lend_store_out *out; /* the store's result */
};
/* The model's result. */
struct mem_done {
	bool repeat;
	uint8_t status;
	uint8_t forgot;
	struct mem_view bytes; /* bytes that a GET or READ returns */
	uint32_t *page;        /* pinned; the caller's array of LEND_STORE_SEGS_MAX entries */
	uint32_t pages;
};

void mem_model_open(struct mem_model *m, struct sim *sim, uint32_t node,
		    const struct lend_store_config *cfg, struct lend_store *store);
void mem_model_close(struct mem_model *m);
void mem_model_exec(struct mem_model *m, const struct mem_in *in, struct mem_done *done);
void mem_model_unpin(struct mem_model *m, uint32_t tenant, const uint32_t *page, uint32_t n);
/* A message that was received into this many pages is gone. */
void mem_model_unplace(struct mem_model *m, uint32_t tenant, uint32_t pages);
void mem_model_tick(struct mem_model *m);
void mem_model_hangup(struct mem_model *m, uint64_t life);
/* Returns how many frames a message of this operation must get, or 0. *own: the unwritten snapshot
 * that has them, or NULL. */
uint32_t mem_model_place(struct mem_model *m, uint64_t life, const struct lend_memop *op,
			 struct mem_object **own);
/* The pages of an unwritten snapshot while a message is received into them: page has room for
 * all. */
void mem_model_land(struct mem_model *m, const struct mem_object *o, uint32_t *page);
void mem_model_landed(struct mem_model *m, const uint32_t *page, uint32_t n);
/* Compares the ledgers with the store's. */
void mem_model_compare(struct mem_model *m, const char *after);
/* Returns the snapshot that a reference names; NULL: gone. */
struct mem_object *mem_model_find(struct mem_model *m, const struct lend_memref *ref);

/* For the model's own files. */
struct mem_step {
	struct mem_model *m;
	const struct mem_in *in;
	const struct lend_memop *op;
	uint32_t client, placed;
	struct mem_record record;
	struct mem_done *done;
};
/* objects and pages */
struct mem_object *mem_object_make(struct mem_step *t, uint32_t slot, uint64_t serial,
				   enum mem_kind kind);
void mem_object_end(struct mem_model *m, struct mem_object *o);
void mem_object_unshare(struct mem_model *m, struct mem_object *o); /* releases its pages */
/* A space ends (mem_map). */
void mem_mapping_detach(struct mem_model *m, uint32_t slot, bool unmapped);
void mem_mapping_end_all(struct mem_model *m); /* ends all of them */
void mem_object_settle(struct mem_model *m, uint32_t slot);
void mem_object_share(struct mem_model *m, struct mem_object *out, const struct mem_object *o,
		      uint64_t offset, uint64_t len);
/* Moves the bytes and pages of o to out, which must be empty. */
void mem_object_move(struct mem_object *out, struct mem_object *o);
/* False: there are too few pages, and no change. */
bool mem_object_touch(struct mem_step *t, struct mem_object *o, uint64_t offset, uint64_t len);
/* True when some page of this range has lost a bit. */
bool mem_object_rots(const struct mem_model *m, const struct mem_object *o, uint64_t offset,
		     uint64_t len);
void mem_object_pin(struct mem_step *t, const struct mem_object *o, uint64_t offset, uint64_t len);
/* grants */
struct mem_grant *mem_grant_add(struct mem_model *m, uint32_t slot, uint8_t kind, uint32_t left,
				lend_ns expires, uint32_t tenant);
struct mem_grant *mem_grant_find(struct mem_model *m, uint64_t serial);
struct mem_grant *mem_grant_next(struct mem_model *m, uint32_t slot);
void mem_grant_use(struct mem_model *m, struct mem_grant *g);
void mem_grant_remove(struct mem_model *m, struct mem_grant *g);
void mem_grant_expire(struct mem_model *m);
/* holds */
static inline bool mem_holds(const struct mem_object *o, uint32_t client)
{
	return o->held >> (client - 1) & 1;
}
void mem_hold(struct mem_model *m, struct mem_object *o, uint32_t client);
void mem_unhold(struct mem_model *m, struct mem_object *o, uint32_t client);
/* charges of tenants (mem_charge) */
static inline uint32_t mem_tenant_of(uint64_t process)
{
	return (uint32_t)((process ^ process >> 32) % MEM_TENANTS);
}
static inline struct mem_tenant *mem_payer(struct mem_step *t)
{
	return &t->m->tenant[t->m->client[t->client].tenant];
}
bool mem_charge_room(const struct mem_model *m, const struct mem_tenant *t, uint64_t pages,
		     uint32_t refs);
uint32_t mem_charge_of(const struct mem_model *m, uint64_t base, uint64_t len, uint64_t pages);
uint64_t mem_stake_cost(const struct mem_object *o, uint32_t tenant);
void mem_stake_add(struct mem_model *m, struct mem_object *o, uint32_t tenant);
void mem_stake_drop(struct mem_model *m, struct mem_object *o, uint32_t tenant);
/* The store may keep freed pages in quarantine: then it has fewer than this. */
bool mem_model_quarantined(const struct mem_model *m, uint64_t pages);
/* True when this many pages are free in a row within a block, in a store so small that it searches
 * all its blocks. */
enum { MEM_BLOCK = 64, MEM_BLOCKS = 8 };
bool mem_model_has_run(const struct mem_model *m, uint64_t pages);
/* Bit rot (mem_rot): counts damaged pages in use; the store must find the same number. */
uint64_t mem_rot_count(const struct mem_model *m);
void mem_rot_audit(struct mem_model *m);
/* clients and leases */
/* A node restarts with its memory: every lease starts again. */
void mem_model_recover(struct mem_model *m);
uint32_t mem_life_find(const struct mem_model *m, uint64_t life);
uint32_t mem_tenant_find(const struct mem_model *m, uint64_t life, uint32_t number);
/* incarnation: entry of the life; 0: opens a new life for this peer, still without number and
 * key. */
uint32_t mem_tenant_open(struct mem_model *m, uint64_t process, uint32_t incarnation,
			 uint32_t number);
void mem_tenant_close(struct mem_model *m, uint32_t client);
void mem_lease_renew(struct mem_model *m, uint32_t client);
/* operations */
enum lend_mem_status mem_ops_run(struct mem_step *t); /* operations with a record */
/* The bytes of the early put with this record. */
enum lend_mem_status mem_ops_fill(struct mem_step *t, struct mem_record *r);
struct mem_object *mem_ops_unwritten(struct mem_model *m, const struct mem_record *r);
enum lend_mem_status mem_ops_read(struct mem_step *t); /* GET and READ */
enum lend_mem_status mem_ops_narrow(struct mem_step *t);
enum lend_mem_status mem_ops_forget(struct mem_step *t);
enum lend_mem_status mem_ops_adopt(struct mem_step *t);
enum lend_mem_status mem_ops_grant(struct mem_step *t);
enum lend_mem_status mem_ops_release(struct mem_step *t);
enum lend_mem_status mem_ops_find(const struct mem_step *t, const struct lend_memref *ref,
				  unsigned right, struct mem_object **o);
static inline uint32_t mem_ops_slot(const struct mem_model *m, const struct mem_object *o)
{
	return (uint32_t)(o - m->object);
}
/* Requires that the store ran the operation, because it is allowed. */
void mem_ops_must(const struct mem_step *t);
const char *mem_op_name(uint8_t kind);

#endif
