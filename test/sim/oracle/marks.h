/* marks - (fault x state) pairs that a long run must have met: a green run that never came by one
 * has not tested it. Layer: test/sim. */
#ifndef SIM_ORACLE_MARKS_H
#define SIM_ORACLE_MARKS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/stats.h"
#include "sim/memory/mem_marks.h"

/* By the state of the session at the receiver, in the order of enum lend_sess_state. */
#define SIM_MARKS_BY_STATE(X, name, what)                                                          \
	X(name##_none, what ", for no session")                                                    \
	X(name##_connecting, what ", for a session that connects")                                 \
	X(name##_half, what ", for a half-open session")                                           \
	X(name##_up, what ", for a session that is up")                                            \
	X(name##_closing, what ", for a session that closes")
#define SIM_MARKS_NET(X)                                                                           \
	SIM_MARKS_BY_STATE(X, lost, "datagram lost")                                               \
	X(cut_off, "datagram across a partition")                                                  \
	SIM_MARKS_BY_STATE(X, copied, "datagram twice")                                            \
	SIM_MARKS_BY_STATE(X, held_back, "datagram held back")                                     \
	SIM_MARKS_BY_STATE(X, corrupted, "datagram corrupted")                                     \
	X(truncated, "datagram truncated")                                                         \
	SIM_MARKS_BY_STATE(X, replayed, "datagram of the past")                                    \
	X(reborn_from, "datagram of its sender's earlier life")                                    \
	X(reborn_to, "datagram to its receiver's earlier life")                                    \
	SIM_MARKS_BY_STATE(X, malformed, "malformed datagram")                                     \
	SIM_MARKS_BY_STATE(X, spoofed, "datagram from a wrong address")                            \
	X(stray, "datagram for a session that never was")                                          \
	X(stranger, "connect by nobody")                                                           \
	X(hung_up, "a peer's death seen by a hang-up")                                             \
	X(carrier_dead, "datagram to a dead peer refused")                                         \
	X(went_whole, "message longer than a datagram in one: its receiver reads it in place")     \
	X(carrier_full, "datagram refused: the carrier is full")                                   \
	X(switch_full, "datagram dropped: the switch is full")                                     \
	X(switch_marked, "datagram marked: a long queue")

/* By what a call at the node was doing; the order is call_phase()'s in marks.c. */
#define SIM_MARKS_BY_CALL(X, name, what)                                                           \
	X(name##_none, what " and there was no call")                                              \
	X(name##_queued, what " with a call that is not sent yet")                                 \
	X(name##_sending, what " with a request partly sent")                                      \
	X(name##_asking, what " with a call that waits for its reply")                             \
	X(name##_receiving, what " with a reply partly here")                                      \
	X(name##_draining, what " with a call that drains")                                        \
	X(name##_partial, what " with a request partly here")                                      \
	X(name##_running, what " with a handler that runs")                                        \
	X(name##_replying, what " with a reply under way")                                         \
	X(name##_orphan, what " with a handler for nobody")
#define SIM_MARKS_CORE(X)                                                                          \
	SIM_MARKS_BY_CALL(X, crashed, "a node died")                                               \
	SIM_MARKS_BY_CALL(X, paused, "a node stopped")                                             \
	X(starved_asking, "a reply waits for memory or budget")                                    \
	X(starved_receiving, "a partial reply waits for memory or budget")                         \
	X(starved_partial, "a partial request waits for memory or budget")                         \
	X(credit_out, "a call waits for unscheduled credit")                                       \
	X(pool_out, "no buffer is left in the core's pool")                                        \
	X(reassemblies_out, "no reassembly is left")                                               \
	X(records_out, "no call record is left")                                                   \
	X(budget_out, "the receive budget is used up")                                             \
	X(need_unanswered, "a call was ended between NEED and its memory")                         \
	X(answered_cancelled, "a handler answered what was cancelled")                             \
	X(late_run, "a request ran after its call had ended")                                      \
	X(ended_unsent, "a call ended before a byte of it left")                                   \
	X(class_patient, "a class waits for half of its share, or longer")                         \
	X(class_share, "a class gets its share beside more urgent ones")                           \
	X(silent, "something keeps silent for what is urgent")                                     \
	X(gave_way, "a message gave way to others more than once")                                 \
	X(passed_in_queues, "a network without faults whose queues let pass")

/* Add a line, and SIM_MARK(sim, name) where it happens. */
#define SIM_MARKS(X)                                                                               \
	SIM_MARKS_NET(X)                                                                           \
	SIM_MARKS_CORE(X)                                                                          \
	SIM_MARKS_MEM(X)                                                                           \
	X(call_ok, "a call ended with OK")                                                         \
	X(call_deadline, "a call ended by its deadline")                                           \
	X(call_cancelled, "a call ended by its caller")                                            \
	X(call_exhausted, "a call ended for want of memory")                                       \
	X(call_unavailable, "a call ended by the death of its server")                             \
	X(ring_full, "a datagram found the ring of its node full")                                 \
	X(hoarded, "a call ended while a node takes all it can of the tables")                     \
	X(connect_refused, "a connect found the table of sessions full")

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
/* The i-th; NULL behind the last. */
const char *sim_marks_name(size_t i, const char **text);
struct sim_node;
/* A fault strikes a node: what of its group was there. */
void sim_marks_fault(struct sim_marks *m, size_t group, const struct sim_node *n);
/* What a core is short of now; what it counted in its life. */
void sim_marks_want(struct sim_marks *m, const struct sim_node *n);
void sim_marks_life(struct sim_marks *m, const struct sim_node *n);
/* One of a group that begins with name##_none. */
#define SIM_MARK_OF(name) offsetof(struct sim_marks, name##_none)
static inline void sim_mark_at(struct sim_marks *m, size_t group, unsigned i)
{
	uint64_t n;

	memcpy(&n, (char *)m + group + i * sizeof(n), sizeof(n));
	n++;
	memcpy((char *)m + group + i * sizeof(n), &n, sizeof(n));
}

#endif
