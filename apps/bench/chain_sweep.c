/* chain_sweep - a table of all ways to pass a payload, by number of hops and size.
 *
 * The ways of a cell take turns, so that a change of the machine's speed affects all of them; a
 * rate is the median of its turns. Layer: apps. Threads: the main one. */
#include <stdio.h>
#include <stdlib.h>

#include "apps/bench/chain.h"
#include "apps/common/options.h"

enum { TURNS = 3, WAYS = 4, SIZE_MIN = 4096, STEP_NS_MIN = 30000000 };

struct cell {
	double rate[WAYS], bytes[WAYS];
	double ratio; /* throughput of auto over that of the fastest other way */
};

struct sweep {
	struct app_chain *chain;
	lend_ns time; /* duration of one measurement */
	uint64_t wrong;
	unsigned cells, near; /* near: cells with a ratio of at least 0.9 */
	double least;         /* ratio */
};

static int compare_rates(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure_cell(struct sweep *sweep, uint64_t size, struct cell *cell)
{
	double rate[WAYS][TURNS], best = 0;

	for (int turn = 0; turn < TURNS; turn++)
		for (int by = 0; by < WAYS; by++) {
			cell->bytes[by] =
			    app_chain_measure(sweep->chain, size, (enum app_by)by, sweep->time);
			rate[by][turn] = app_load_rate(&sweep->chain->load);
			sweep->wrong += sweep->chain->load.wrong_bytes;
		}
	for (int by = 0; by < WAYS; by++) {
		qsort(rate[by], TURNS, sizeof(rate[by][0]), compare_rates);
		cell->rate[by] = rate[by][TURNS / 2];
		if (by != APP_BY_AUTO && cell->rate[by] > best)
			best = cell->rate[by];
	}
	cell->ratio = best > 0 ? cell->rate[APP_BY_AUTO] / best : 0;
}

static void print_cell(const struct sweep *sweep, uint64_t size, const struct cell *cell)
{
	if (!sweep->chain->load_args.json) {
		printf("%5u %10llu", sweep->chain->hops, (unsigned long long)size);
		for (int by = 0; by < WAYS; by++)
			printf(" %12.1f", cell->rate[by]);
		printf(" %6.2f\n", cell->ratio);
		return;
	}
	printf("%s{\"size\": %llu, \"hops\": %u", sweep->cells ? ", " : "",
	       (unsigned long long)size, sweep->chain->hops);
	for (int by = 0; by < WAYS; by++)
		printf(", \"%s_calls_per_s\": %.1f, \"%s_bytes_per_call\": %.1f", app_by_names[by],
		       cell->rate[by], app_by_names[by], cell->bytes[by]);
	printf(", \"auto_over_best\": %.3f}", cell->ratio);
}

static void measure_length(struct sweep *sweep)
{
	for (uint64_t size = SIZE_MIN; size <= sweep->chain->load_args.size; size *= 4) {
		struct cell cell;

		measure_cell(sweep, size, &cell);
		print_cell(sweep, size, &cell);
		fflush(stdout);
		sweep->near += cell.ratio >= 0.9;
		if (!sweep->cells++ || cell.ratio < sweep->least)
			sweep->least = cell.ratio;
	}
}

static lend_ns time_of_step(const struct app_chain *chain)
{
	uint64_t steps = 0;

	for (uint64_t size = SIZE_MIN; size <= chain->load_args.size; size *= 4)
		steps += chain->lengths * WAYS * TURNS;
	return chain->load_args.time / (steps ? steps : 1) + STEP_NS_MIN;
}

uint64_t app_chain_sweep(struct app_chain *chain)
{
	struct sweep sweep = {.chain = chain, .time = time_of_step(chain), .least = 0};
	bool json = chain->load_args.json;

	if (chain->load_args.size < SIZE_MIN)
		app_bad("--sweep begins at 4 KiB: give a larger --size");
	printf(json ? "{\"sweep\": [" : "%5s %10s %12s %12s %12s %12s %6s\n", "hops", "size",
	       "value", "ref", "auto", "node", "ratio");
	for (unsigned i = 0; i < chain->lengths; i++) {
		chain->session = chain->entry[i];
		chain->hops = chain->length[i];
		measure_length(&sweep);
	}
	printf(json ? "], \"cells\": %u, \"at_least_0_9\": %u, \"least\": %.3f, "
		      "\"wrong_bytes\": %llu}\n"
		    : "auto over the fastest way: %u cells, %u at least 0.9, least %.2f; "
		      "wrong bytes: %llu\n",
	       sweep.cells, sweep.near, sweep.least, (unsigned long long)sweep.wrong);
	return sweep.wrong;
}
