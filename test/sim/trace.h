/* trace - the last events of a run, kept as numbers and formatted only when it fails. Layer:
 * test/sim. */
#ifndef TEST_SIM_TRACE_H
#define TEST_SIM_TRACE_H

#include <stdint.h>
#include <stdio.h>

#include "util/dgram.h"

enum { SIM_TRACE = 40 };

/* what: a string literal of the caller. */
struct sim_trace_line {
	lend_ns at;
	const char *what;
	uint32_t node, peer;
	uint64_t a, b;
};
struct sim_trace {
	struct sim_trace_line line[SIM_TRACE];
	uint64_t n;
};

static inline void sim_trace_add(struct sim_trace *t, lend_ns at, const char *what, uint32_t node,
				 uint32_t peer, uint64_t a, uint64_t b)
{
	t->line[t->n++ % SIM_TRACE] = (struct sim_trace_line){at, what, node, peer, a, b};
}

/* Prints one line each, oldest first. */
void sim_trace_print(const struct sim_trace *t, FILE *to);

#endif
