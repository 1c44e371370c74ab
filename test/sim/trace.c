#include "sim/trace.h"

#include <inttypes.h>

void sim_trace_print(const struct sim_trace *t, FILE *to)
{
	uint64_t first = t->n > SIM_TRACE ? t->n - SIM_TRACE : 0;

	for (uint64_t i = first; i < t->n; i++) {
		const struct sim_trace_line *l = &t->line[i % SIM_TRACE];

		fprintf(to, "%14.6f ms  node %u %s", (double)l->at / 1e6, l->node, l->what);
		if (l->peer != l->node)
			fprintf(to, ", peer %u", l->peer);
		fprintf(to, "  %" PRIu64 " %" PRIu64 "\n", l->a, l->b);
	}
}
