/* lent - simulated runs of calls that lend their arguments.
 *
 *   caller: real cn, rpc, core --> carrier (lent_carrier) --> network --> carrier --> server: the
 * same clock, random bits, carriers and loans through hooks (lent_hooks)
 *
 * A run is a function of its seed. All nodes are endpoints of this process, which turn one at a
 * time; memory of the shared heap is that of any of them. A violation ends the process. Layer:
 * test/sim, over everything but the carriers. Threads: one. */
#ifndef TEST_SIM_LENT_LENT_H
#define TEST_SIM_LENT_LENT_H

#include "io/io.h"
#include "lend/mem.h"
#include "sim/heap.h"
#include "util/rng.h"
#include "wire/lent_table.h"

enum {
	LENT_NODES = 5,
	LENT_CALLS = 256,
	LENT_BLOCKS = 24,
	LENT_LEN_MAX = 96 << 10,
	LENT_PEERS = 64,
	LENT_FLIGHTS = 1 << 16,
	LENT_LOANS = 1024,
};
#define LENT_US      UINT64_C(1000)
#define LENT_MS      UINT64_C(1000000)
#define LENT_STEP    (20 * LENT_US) /* longest time between two turns of a node */
#define LENT_TTL     (20 * LENT_MS) /* of results */
#define LENT_PATIENT (4 * LENT_MS)  /* in which a call that ended is done at its caller */

/* One random stream per concern, so that a fault does not change the workload. */
enum lent_stream {
	LENT_PLAN,
	LENT_CALLER,
	LENT_SERVER,
	LENT_NET,
	LENT_FAULT,
	LENT_RACE,
	LENT_BITS,
	LENT_RESULT,
	LENT_NAMED,
	LENT_STREAMS
};

enum lent_kind { LENT_SHM, LENT_UDP, LENT_KINDS }; /* of carriers */
enum lent_what {
	LENT_READ,
	LENT_ARRIVE,
	LENT_CALL,
	LENT_CANCEL,
	LENT_ACT,
	LENT_CRASH,
	LENT_PAUSE,
	LENT_USE,
	LENT_WORK
};

struct lent_plan {
	uint32_t nodes, calls, len_max;
	uint32_t udp_ppm;                               /* calls over udp; others: shm */
	uint32_t loss_ppm, dup_ppm, late_ppm, full_ppm; /* of datagrams; loss and late ones: udp */
	lend_ns delay, jitter, span;
	lend_ns dma;          /* longest time until a carrier has read pieces; 0: at once */
	lend_ns crash, pause; /* mean time between faults; 0: none */
	uint32_t cancel_ppm, deadline_ppm, race_ppm, result_ppm;
	lend_ns probe, dead; /* configuration of the endpoints */
};

/* Another workload of the nodes than calls that lend their arguments. */
struct lent_work {
	const char *name;
	void (*plan)(void);           /* draws it, and its events; before the nodes are born */
	void (*birth)(uint32_t node); /* serves its methods */
	void (*event)(uint32_t a, uint32_t b); /* handles LENT_WORK */
	void (*step)(void);                    /* between turns */
	void (*heal)(void);                    /* faults are over */
	void (*settled)(void);                 /* checks that everything has ended */
	void (*close)(void);
};

struct lent_io;

struct lent_node {
	struct lend_ep *ep; /* NULL: dead */
	struct lend_mem *mem;
	struct lent_io *io[LENT_KINDS];
	lend_session session[LENT_NODES][LENT_KINDS];
	uint32_t life;
	uint32_t busy;  /* it turns: must not be polled */
	lend_ns paused; /* it does not turn before this time */
	bool dying;
	uint32_t head_max; /* bytes of a head; 0: the default */
	uint8_t without;   /* features that it does not announce */
};

/* Memory that calls lend, one after the other. */
struct lent_block {
	uint8_t *at;
	bool used, shared;
};

/* The first argument of a call. */
struct lent_head {
	uint32_t call;  /* that lends */
	uint32_t by;    /* that brought the reference: this one, or one that passes it on */
	uint64_t depth; /* how often it was passed on */
	uint64_t first; /* where the reference begins in the argument of that call */
};

/* A call with a lent argument, or one that passes the argument of another on; or a result, of which
 * node is the server. */
struct lent_call {
	struct lend_call call; /* first */
	struct lent_head head;
	struct iovec piece[2];
	uint32_t id, node, life, to, block;
	uint64_t len, version; /* of the argument's bytes */
	lend_ns ended;         /* when the loan ended; LEND_NEVER: it has not */
	lend_ns due;           /* a time at which it is done at the latest, but for LENT_PATIENT */
	bool lent, open, cancelled, torn;
	struct lent_request *parent; /* of one that passes on */
	uint32_t before;             /* head.by of that request */
	lend_session session;
	bool result;
	uint32_t reader, reader_life; /* of a result that arrived: its caller */
	struct lend_arg arg;
};

struct lent_request {
	struct lent_request *next;
	uint32_t node, life;
	lend_request request;
	struct lend_arg arg;
	struct lent_head head;
	uint32_t reads, acts; /* under way; to come */
	bool answered;
};

struct lent_loan {
	struct lend_lent_table *table;
	uint64_t serial;
	uint32_t slot;
	struct lent_call *call;
};

struct lent {
	uint64_t seed;
	const struct lent_work *work;
	struct lent_plan plan;
	lend_ns now, skew; /* skew: of a node that dies, ahead of all others */
	lend_ns closes;    /* when the node that closes began */
	struct lend_rng rng[LENT_STREAMS];
	struct sim_heap heap;
	struct lent_node node[LENT_NODES];
	struct lent_block block[LENT_BLOCKS];
	struct lent_call call[LENT_CALLS];
	uint32_t calls;
	struct lent_loan loan[LENT_LOANS];
	uint32_t loans;
	struct lent_call *lending; /* its loan begins now */
	struct lent_request *requests;
	struct lent_read *reads;
	bool healing, waits; /* waits: a node closes, and the others go on */
	uint64_t pins;
	uint32_t born;      /* the newest node */
	bool loses_replies; /* udp loses all replies */
};

extern struct lent *lent; /* the run; NULL: none */
extern bool lent_traced;  /* print each step */

/* Counts of all runs of a process. Many runs must reach each of them. */
#define LENT_SUMS(X)                                                                               \
	X(runs, "runs")                                                                            \
	X(calls, "calls")                                                                          \
	X(loans, "loans")                                                                          \
	X(passed, "arguments passed on")                                                           \
	X(results, "results lent")                                                                 \
	X(released, "results released by their caller")                                            \
	X(datagrams, "datagrams")                                                                  \
	X(kills, "nodes killed")                                                                   \
	X(cancels, "calls cancelled")                                                              \
	X(races, "turns of other nodes within a read in place")                                    \
	X(fine, "reads with the bytes of the call")                                                \
	X(mapped, "views of the caller's memory")                                                  \
	X(fetched, "handlers with fetched bytes")                                                  \
	X(late, "reads that ended NOT_FOUND, or a view that was not intact")                       \
	X(withdrawn, "reads whose bytes were withdrawn in flight")                                 \
	X(relayed, "bytes read for callees on another carrier than the lender's")                  \
	X(flushed, "buffers that a carrier still read when they came back")
struct lent_sums {
#define X(name, text) uint64_t name;
	LENT_SUMS(X)
#undef X
};
extern struct lent_sums lent_sums;

_Noreturn void lent_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
void lent_trace(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define LENT_CHECK(that, ...)                                                                      \
	do {                                                                                       \
		if (!(that))                                                                       \
			lent_fail(__VA_ARGS__);                                                    \
	} while (0)

static inline uint64_t lent_below(enum lent_stream stream, uint64_t n)
{
	return lend_rng_below(&lent->rng[stream], n);
}
static inline bool lent_odds(enum lent_stream stream, uint64_t ppm)
{
	return ppm && lent_below(stream, 1000000) < ppm;
}
static inline void lent_at(lend_ns when, enum lent_what what, uint32_t a, uint32_t b)
{
	sim_heap_push(&lent->heap, when, (uint8_t)what, a, b);
}

/* Copies as a device or another process does: bytes that are freed meanwhile are no error. */
__attribute__((no_sanitize("address"))) static inline void lent_copy(void *to, const void *from,
								     uint64_t len)
{
	for (uint64_t i = 0; i < len; i++)
		((uint8_t *)to)[i] = *((const volatile uint8_t *)from + i);
}

/* lent_run.c: runs a seed, or ends the process with a line on stderr. 0: only makes what a process
 * makes once, so that all runs after it repeat. */
void lent_run_seed(uint64_t seed);
void lent_run_work(uint64_t seed, const struct lent_work *work);

/* lent_carrier.c: the carriers. */
int lent_carrier_open(enum lent_kind kind, const struct lend_io_config *config,
		      struct lend_io **io);
void lent_carrier_address(enum lent_kind kind, uint32_t node, char *text, size_t cap);

/* lent_net.c: the network between them. */
void lent_net_event(enum lent_what what, uint32_t flight);
/* The node's process was killed: its carriers are silent, and shm peers see it. */
void lent_net_kill(uint32_t node);
void lent_net_close(void);

/* lent_node.c: nodes and time. */
void lent_node_birth(uint32_t node);
void lent_node_crash(uint32_t node);
void lent_node_close(uint32_t node);
/* Runs a turn of the node, unless it is dead, paused or turns already. */
void lent_node_turn(uint32_t node);
void lent_node_others(void);  /* runs turns of all nodes that do not turn already */
void lent_step(lend_ns most); /* until the next event, by at most so much */
/* Returns the node's session to another one, and connects if there is none. id 0: refused. */
lend_session lent_node_session(uint32_t node, uint32_t to, enum lent_kind kind);

/* lent_call.c: callers. */
void lent_call_start(void);
/* Passes a received argument on, as part of its request. False: it could not. */
bool lent_call_pass(struct lent_request *r);
void lent_call_cancel(uint32_t call);
/* Answers a request with a result, if results are drawn. */
void lent_call_answer(uint32_t node, lend_request request);
/* Another process may run here: cancels the call, if it is cancelled at all, and runs turns. */
void lent_call_race(void);
void lent_call_check(void); /* no call that ended waits for a reader */
uint32_t lent_call_open(void);

/* lent_serve.c: servers. */
int lent_serve_open(uint32_t node);
void lent_serve_act(uint32_t request);
/* The caller of a result reads it, or releases it. */
void lent_serve_use(uint32_t result);
/* Replies at the end of what it waited for. */
void lent_serve_passed(struct lent_request *r, enum lend_status status);
void lent_serve_drop(uint32_t node, bool views); /* of a node that dies: views, or all */
void lent_serve_check(void);                     /* looks at some views */
uint32_t lent_serve_open_reads(void);

#endif
