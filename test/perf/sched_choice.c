/* sched_choice - the cost of choosing the next datagram: calls that always have something to send,
 * and no datagram made. perf_sched [-c CLASSES 1..8] [-b DATAGRAMS 1..8] [-o
 * shortest|deadline|fifo] [-n TURNS] A turn is lend_sched_next(), lend_sched_sent() of b datagrams,
 * lend_sched_ready(), for 64 calls spread over the classes and eight lengths. Cycles are those of
 * the best eighth of all turns; `count.sh` has callgrind count the instructions. Threads: one. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <x86intrin.h>

#include "core/sched.h"
#include "core/arena.h"

enum { CALLS = 64, RUNS = 8 };

static const char *const orders[] = {
    [LEND_ORDER_SHORTEST] = "shortest",
    [LEND_ORDER_DEADLINE] = "deadline",
    [LEND_ORDER_FIFO] = "fifo",
};

static struct lend_core *open_core(uint8_t order, uint32_t classes)
{
	struct lend_core_config f = {.sessions = 1,
				     .calls = CALLS,
				     .inflight = CALLS,
				     .reassemblies = 1,
				     .message_max = 1 << 20,
				     .unscheduled = 65536,
				     .probe = 1,
				     .dead = 1,
				     .order = order};
	size_t len = lend_core_size(&f);
	void *arena = aligned_alloc(64, len);
	struct lend_core *c;

	LEND_CHECK(arena);
	memset(arena, 0, len);
	c = lend_core_init(arena, &f, LEND_MS);
	for (uint32_t i = 0; i < CALLS; i++) {
		struct lend_call_rec *k = lend_call_at(c, i);

		k->self = i;
		lend_sched_class(c, k, (uint8_t)(i % classes));
		k->tx.total = 1u << i / 8 * 2;
		k->deadline = LEND_MS + (1 + i) * LEND_MS;
		lend_sched_ready(c, k);
	}
	return c;
}

static double cycles(struct lend_core *c, uint32_t datagrams, uint64_t turns)
{
	uint64_t begin = __rdtsc();

	for (uint64_t i = 0; i < turns; i++) {
		uint32_t queue;
		struct lend_call_rec *k = lend_sched_next(c, &queue);

		lend_sched_ready(c, k);
		lend_sched_sent(c, queue, datagrams);
	}
	return (double)(__rdtsc() - begin) / (double)(turns * datagrams);
}

static int usage(void)
{
	fprintf(stderr, "usage: perf_sched_choice [-c CLASSES 1..8] [-b DATAGRAMS 1..8] "
			"[-o shortest|deadline|fifo] [-n TURNS]\n");
	return 2;
}

int main(int argc, char **argv)
{
	uint32_t classes = 8, datagrams = 1;
	uint64_t turns = 1000000;
	uint8_t order = LEND_ORDER_SHORTEST;
	double best = 0;
	struct lend_core *c;
	int option;

	while ((option = getopt(argc, argv, "c:b:o:n:")) != -1) {
		if (option == 'c')
			classes = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'b')
			datagrams = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'n')
			turns = strtoull(optarg, NULL, 10);
		else if (option == 'o')
			for (order = 0; order < 3 && strcmp(orders[order], optarg) != 0;)
				order++;
		else
			return usage();
	}
	if (classes < 1 || classes > 8 || datagrams < 1 || datagrams > LEND_SCHED_BURST ||
	    turns < 1 || order > LEND_ORDER_FIFO)
		return usage();
	c = open_core(order, classes);
	for (int run = 0; run < RUNS; run++) {
		double now = cycles(c, datagrams, (turns + RUNS - 1) / RUNS);

		best = run && best < now ? best : now;
	}
	printf("%.1f cycles per datagram, %u of a turn, %u classes, %s\n", best, datagrams, classes,
	       orders[order]);
	free(c);
	return 0;
}
