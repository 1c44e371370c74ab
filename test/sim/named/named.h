/* named - simulated runs of whole endpoints that call methods by name, with metadata, and that
 * exchange messages on streams.
 *
 * The nodes, carriers, network and faults are those of lent runs (lent/lent.h); nothing is lent.
 * Which names a node serves differs from life to life and changes while it runs; two of the names
 * have one number. Layer: test/sim, over everything but the carriers. Threads: one. */
#ifndef TEST_SIM_NAMED_NAMED_H
#define TEST_SIM_NAMED_NAMED_H

#include "lend/metadata.h"
#include "sim/lent/lent.h"

enum {
	NAMED_CALLS = 320,
	NAMED_NAMES = 5,
	NAMED_ANY = NAMED_NAMES, /* the handler of every name */
	NAMED_PLAIN,             /* a method without a name */
	NAMED_METHODS,
	NAMED_STREAMS = 12,
	NAMED_METHOD = 20,      /* its number */
	NAMED_PARKED = 21,      /* number of the method whose handler lasts */
	NAMED_LEN_MAX = 100000, /* bytes of a message */
};

/* Events of a run, with the number of a call, stream or node. */
enum named_what {
	NAMED_CALL,
	NAMED_CANCEL,
	NAMED_ANSWER,
	NAMED_CHANGE,  /* a node adds or removes a handler */
	NAMED_OPEN,    /* a stream is opened */
	NAMED_CUT,     /* its opener cancels it */
	NAMED_HANG_UP, /* its server cancels it */
	NAMED_END,     /* its server ends it */
};

static inline void named_at(lend_ns when, enum named_what what, uint32_t number)
{
	lent_at(when, LENT_WORK, what, number);
}
/* Returns whether the node can do something now. */
static inline bool named_is_free(uint32_t node)
{
	const struct lent_node *n = &lent->node[node];

	return n->ep && !n->busy && n->paused <= lent->now;
}

/* Returns whether the peers of a node may send it heads of requests, or of replies. */
static inline bool named_reads(uint32_t node, uint8_t feature)
{
	return !(lent->node[node].without & feature);
}

#define NAMED_SUMS(X)                                                                              \
	X(runs, "runs")                                                                            \
	X(calls, "calls")                                                                          \
	X(heads, "requests with a head")                                                           \
	X(bare, "requests with the number of a name alone")                                        \
	X(again, "requests with a name to a server that was restarted")                            \
	X(any, "requests for the handler of every name")                                           \
	X(replies, "replies that were compared")                                                   \
	X(pairs, "pairs of metadata that were compared")                                           \
	X(reasons, "reason texts that were compared")                                              \
	X(missing, "names without a handler")                                                      \
	X(encodings, "encodings refused")                                                          \
	X(too_long, "heads that were too long")                                                    \
	X(in_use, "replies with a buffer in use")                                                  \
	X(old, "calls of or to a peer that reads no heads")                                        \
	X(changes, "handlers added or removed")                                                    \
	X(cancels, "calls cancelled")                                                              \
	X(streams, "streams")                                                                      \
	X(messages, "messages read from streams")                                                  \
	X(full, "writes that had to wait for a reader")                                            \
	X(whole, "streams that ended with their server's status")                                  \
	X(half_closed, "half-closes that were read")                                               \
	X(cuts, "streams cancelled by an end of them")                                             \
	X(lost, "streams whose peer died")                                                         \
	X(parked, "calls parked")                                                                  \
	X(found, "lost replies of parked calls that were found")                                   \
	X(dead, "parked calls that ended with their peer")
struct named_sums {
#define X(name, text) uint64_t name;
	NAMED_SUMS(X)
#undef X
};
extern struct named_sums named_sums;

/* named_run.c: runs a seed as lent_run_seed(). */
void named_run_seed(uint64_t seed);

/* named_head.c: metadata that depend on a number alone. */
struct lend_metadata *named_metadata(uint64_t number);
/* Returns their bytes in a head, at least. */
uint32_t named_metadata_len(uint64_t number);
/* Where pairs are read: from a call's reply, or from a request. */
struct named_source {
	struct lend_ep *ep;
	const struct lend_call *call;
	lend_request request; /* without a call */
	bool trailing;
};
/* Checks that the pairs are those of the number; number 0: that there are none. */
void named_metadata_check(const struct named_source *source, uint64_t number);
/* Returns the text of a number: UTF-8, "" for some. */
const char *named_text(uint64_t number);

/* named_call.c: callers, and what they check. */
void named_call_start(void);
void named_call_cancel(uint32_t call);
uint32_t named_call_open(void);
void named_calls_free(void);

/* named_serve.c: handlers, and what they check. */
void named_serve_birth(uint32_t node);
void named_serve_change(uint32_t node);
/* Answers a request. inside: in its handler. */
void named_serve_answer(uint32_t call, bool inside);
/* Returns the time since which a node served a name without interruption; LEND_NEVER: it does not.
 */
lend_ns named_served_since(uint32_t node, uint32_t name);

/* named_stream.c: both ends of streams. */
void named_stream_birth(uint32_t node);
void named_stream_event(enum named_what what, uint32_t stream);
void named_stream_step(void);
void named_stream_heal(void);
void named_stream_check_end(void);

/* named_parked.c: calls that last, at the end of some runs. */
static inline bool named_is_parked(void)
{
	return lent->seed % 8 == 0;
}
void named_parked_run(void);

#endif
