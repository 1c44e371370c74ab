/* marks - (fault, state) pairs that a long run must have reached. A run that passes without
 * reaching one has not tested it. Layer: test/sim. */
#ifndef SIM_ORACLE_MARKS_H
#define SIM_ORACLE_MARKS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/counters.h"
#include "sim/memory/mem_marks.h"

/* By the state of the session at the receiver, in the order of enum lend_sess_state. */
#define SIM_MARKS_BY_STATE(X, name, what)                                                          \
	X(name##_none, what ", for no session")                                                    \
	X(name##_connecting, what ", for a connecting session")                                    \
	X(name##_half, what ", for a half-open session")                                           \
	X(name##_up, what ", for a session that is up")                                            \
	X(name##_closing, what ", for a closing session")
#define SIM_MARKS_NET(X)                                                                           \
	SIM_MARKS_BY_STATE(X, lost, "datagram lost")                                               \
	X(cut_off, "datagram across a partition")                                                  \
	SIM_MARKS_BY_STATE(X, copied, "datagram duplicated")                                       \
	SIM_MARKS_BY_STATE(X, held_back, "datagram held back")                                     \
	SIM_MARKS_BY_STATE(X, corrupted, "datagram corrupted")                                     \
	X(truncated, "datagram truncated")                                                         \
	SIM_MARKS_BY_STATE(X, replayed, "datagram replayed")                                       \
	X(earlier_life_from, "datagram of its sender's earlier life")                              \
	X(earlier_life_to, "datagram for its receiver's earlier life")                             \
	SIM_MARKS_BY_STATE(X, malformed, "malformed datagram")                                     \
	SIM_MARKS_BY_STATE(X, spoofed, "datagram from a wrong address")                            \
	X(stray, "datagram for a session that never existed")                                      \
	X(stranger, "CONNECT by an attacker")                                                      \
	X(hung_up, "a peer's death reported by a hang-up")                                         \
	X(carrier_dead, "datagram to a dead peer refused")                                         \
	X(read_in_place,                                                                           \
	  "message longer than a datagram, sent in one: its receiver reads it in place")           \
	X(read_chain, "chain sent as one datagram: its receiver reads segments in place")          \
	X(host_queue_full, "long messages wait for the host's own queue")                          \
	X(carrier_full, "datagram refused: the carrier is full")                                   \
	X(switch_full, "datagram dropped: the switch is full")                                     \
	X(switch_marked, "datagram marked with ECN: a long queue")

/* By the phase of a call at the node, in the order of call_phase() in marks.c. */
#define SIM_MARKS_BY_CALL(X, name, what)                                                           \
	X(name##_none, what " without a call")                                                     \
	X(name##_queued, what " with a call that is not sent yet")                                 \
	X(name##_sending, what " with a partly sent request")                                      \
	X(name##_asking, what " with a call that waits for its reply")                             \
	X(name##_receiving, what " with a partly received reply")                                  \
	X(name##_draining, what " with a draining call")                                           \
	X(name##_partial, what " with a partly received request")                                  \
	X(name##_running, what " with a running handler")                                          \
	X(name##_replying, what " with a reply in flight")                                         \
	X(name##_orphan, what " with a handler without a caller")
#define SIM_MARKS_CORE(X)                                                                          \
	SIM_MARKS_BY_CALL(X, crashed, "a node died")                                               \
	SIM_MARKS_BY_CALL(X, paused, "a node paused")                                              \
	X(reply_unfunded, "a reply waits for memory or budget")                                    \
	X(reply_partial_unfunded, "a partial reply waits for memory or budget")                    \
	X(request_partial_unfunded, "a partial request waits for memory or budget")                \
	X(credit_out, "a call waits for unscheduled credit")                                       \
	X(pool_out, "no buffer is left in the core's pool")                                        \
	X(reassemblies_out, "no reassembly is left")                                               \
	X(records_out, "no call record is left")                                                   \
	X(budget_out, "the receive budget is used up")                                             \
	X(need_unanswered, "a call ended between NEED and its memory")                             \
	X(answered_cancelled, "a handler answered a cancelled request")                            \
	X(reply_kept, "a short reply sent from its slot")                                          \
	X(coalesced, "a datagram of several calls")                                                \
	X(late_run, "a request ran after its call had ended")                                      \
	X(ended_unsent, "a call ended before its first byte was sent")                             \
	X(class_waited, "a class waited for half of its guaranteed share, or longer")              \
	X(class_share, "a class got its guaranteed share next to higher classes")                  \
	X(silent, "bulk data was paused for an urgent message")                                    \
	X(gave_way, "a message was evicted more than once")                                        \
	X(overtaken_in_queues, "datagrams overtook in the queues of a network without faults")

/* To add a mark, add a line here and SIM_MARK(sim, name) where it happens. */
#define SIM_MARKS(X)                                                                               \
	SIM_MARKS_NET(X)                                                                           \
	SIM_MARKS_CORE(X)                                                                          \
	SIM_MARKS_MEM(X)                                                                           \
	X(call_ok, "a call ended with OK")                                                         \
	X(call_deadline, "a call ended by its deadline")                                           \
	X(call_cancelled, "a call cancelled by its caller")                                        \
	X(call_exhausted, "a call ended because memory was exhausted")                             \
	X(call_unavailable, "a call ended by the death of its server")                             \
	X(ring_full, "a datagram dropped: the ring of its node was full")                          \
	X(hoarded, "a call ended while a node hoards table entries")                               \
	X(deferred, "a long request had to go on before it got memory")                            \
	X(connect_refused, "a CONNECT found the table of sessions full")                           \
	X(sealed, "a datagram sealed")                                                             \
	X(opened, "a sealed datagram opened")

struct sim_marks {
#define X(name, text) uint64_t name;
	SIM_MARKS(X)
#undef X
#define X(name, text) uint64_t core_##name;
	LEND_CORE_STATS(X)
#undef X
};
enum { SIM_MARKS_N = sizeof(struct sim_marks) / sizeof(uint64_t) };
#define SIM_MARK(sim, name) ((void)(sim)->marks.name++)
/* Returns the i-th name; NULL behind the last. */
const char *sim_marks_name(size_t i, const char **text);
struct sim_node;
/* Counts a fault of a node in this group, by the phase of the node's calls. */
void sim_marks_fault(struct sim_marks *m, size_t group, const struct sim_node *n);
/* want: counts the resources that a core has run out of. life: adds the counters of a core's
 * life. */
void sim_marks_want(struct sim_marks *m, const struct sim_node *n);
void sim_marks_life(struct sim_marks *m, const struct sim_node *n);
/* The first mark of a group, name##_none. */
#define SIM_MARK_OF(name) offsetof(struct sim_marks, name##_none)
static inline void sim_mark_at(struct sim_marks *m, size_t group, unsigned i)
{
	uint64_t n;

	memcpy(&n, (char *)m + group + i * sizeof(n), sizeof(n));
	n++;
	memcpy((char *)m + group + i * sizeof(n), &n, sizeof(n));
}

#endif
