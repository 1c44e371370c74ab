/* marks - (fault x state) pairs that a long run must have met: a green run that never came by one
 * has not tested it. Layer: test/sim. */
#ifndef TEST_SIM_MARKS_H
#define TEST_SIM_MARKS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "sim/mem_marks.h"

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
	X(carrier_full, "datagram refused: the carrier is full")                                   \
	X(switch_full, "datagram dropped: the switch is full")                                     \
	X(switch_marked, "datagram marked: a long queue")

/* Add a line, and SIM_MARK(sim, name) where it happens. */
#define SIM_MARKS(X)                                                                               \
	SIM_MARKS_NET(X)                                                                           \
	SIM_MARKS_MEM(X)                                                                           \
	X(call_ok, "a call ended with OK")                                                         \
	X(call_deadline, "a call ended by its deadline")                                           \
	X(call_cancelled, "a call ended by its caller")                                            \
	X(call_exhausted, "a call ended for want of memory")                                       \
	X(call_unavailable, "a call ended by the death of its server")                             \
	X(ring_full, "a datagram found the ring of its node full")                                 \
	X(connect_refused, "a connect found the table of sessions full")

struct sim_marks {
#define X(name, text) uint64_t name;
	SIM_MARKS(X)
#undef X
};
enum { SIM_MARKS_N = sizeof(struct sim_marks) / sizeof(uint64_t) };
#define SIM_MARK(sim, name) ((void)(sim)->marks.name++)
/* The i-th; NULL behind the last. */
const char *sim_marks_name(size_t i, const char **text);
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
