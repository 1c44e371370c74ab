/* cost_probe - measures the costs of a session and of a node, one length at a time.
 * Layer: cn. Threads: the endpoint's. */
#ifndef LEND_CN_ARGS_COST_PROBE_H
#define LEND_CN_ARGS_COST_PROBE_H

#include "cn/args/costs.h"
#include "cn/args/way_trial.h"
#include "cn/client.h"

enum { CN_PROBE_SESSIONS = 256, CN_PROBE_METHODS = 256 };
/* Ranges of lengths; each ends at twice the length of the one before. */
enum { CN_PROBE_TRIALS = 16 };
#define CN_PROBE_TIMEOUT UINT64_C(1000000000)

/* One measurement, of one length, in several rounds. Calls alternate between CN_COST_FIRST and
 * CN_COST_NEXT. */
struct cn_probe_run {
	bool active;
	enum cn_cost_kind kind;
	uint32_t point, round;
	lend_ns since;
	uint64_t best[CN_COST_KINDS];
};

/* The threshold of one method on one session. */
struct cn_probe_method {
	uint64_t session;
	uint32_t number;
	uint32_t hops16; /* moving average of the hops, times 16; 0: unknown */
	struct {
		uint64_t inline_max;
		uint32_t hops16, version; /* inputs of inline_max */
	} by[2];                          /* [0]: by way of a node; [1]: lent */
	struct cn_way_trial trial[CN_PROBE_TRIALS];
};

struct cn_threshold {
	struct lend_mem *mem;
	struct {
		uint64_t id;
		struct cn_costs line;
	} session[CN_PROBE_SESSIONS];
	struct cn_probe_method method[CN_PROBE_METHODS];
	struct cn_costs node[CN_NODES_MAX];
	struct cn_probe_run calls, puts;
	lend_session called; /* session that is measured by `calls` */
	bool calling;
	uint32_t wraps;   /* segments of `bytes` that a carrier may still use */
	uint32_t version; /* incremented when a cost was measured */
	uint32_t asked;   /* queries that found all costs known */
	uint16_t at;      /* index of the node that is measured by `puts` */
	struct lend_call call;
	struct lend_op op;
	struct iovec iov;
	char *bytes; /* LEND_ARG_HEAD + CN_COST_LEN_MAX of them */
};

/* Returns the known costs of a session; an entry of another session is replaced. */
struct cn_costs *cn_probe_session(struct cn_threshold *g, lend_session session);
/* Starts the next measurement that is missing among the first `points` lengths. node CN_NODES_MAX:
 * none. */
void cn_probe_start(struct cn_threshold *g, lend_session session, uint16_t node, uint32_t points);

#endif
