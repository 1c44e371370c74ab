/* marks - (fault x state) pairs that a long run must have met: a green run that never came by one
 * has not tested it. Layer: test/sim. */
#ifndef TEST_SIM_MARKS_H
#define TEST_SIM_MARKS_H

#include <stddef.h>
#include <stdint.h>

/* Add a line, and SIM_MARK(sim, name) where it happens. */
#define SIM_MARKS(X)                                                                               \
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

#endif
