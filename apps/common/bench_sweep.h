/* bench_sweep - lat, rate and bw by message size, as a table and a plot.
 * Layer: apps. Threads: one. */
#ifndef APPS_COMMON_BENCH_SWEEP_H
#define APPS_COMMON_BENCH_SWEEP_H

#include "apps/common/options.h"

enum app_sweep_figure { APP_SWEEP_LATENCY, APP_SWEEP_RATE, APP_SWEEP_BANDWIDTH };

struct app_sweep_args {
	struct app_load_args load;
	bool sweep;
	uint64_t most;    /* largest size of a sweep without --size */
	const char *plot; /* file for the plot of a sweep; NULL: none */
};

/* The options --sweep and --plot, and those of a load. */
extern const struct lend_syntax app_sweep_syntax;
/* Parses the command line of a command with further options: syntax has app_sweep_syntax as its
 * child, and args are the child's part of all. */
void app_sweep_read(const struct lend_syntax *syntax, int argc, char **argv, void *all,
		    struct app_sweep_args *args);
/* Parses the command line of a command that has --sweep, --plot and the load options in `names`.
 * args->load.size is the default of a run without --sweep. */
void app_sweep_args_read(struct app_sweep_args *args, int argc, char **argv, const char *names,
			 const char *doc);
/* Measures each power of two from 2 bytes to the size of args, and that size; reports all of them.
 * The sizes share the time of args. The plot shows figure. Returns the exit code; app_die() when a
 * size cannot be measured. */
int app_bench_sweep(const struct app_sweep_args *args, uint32_t method, const char *title,
		    enum app_sweep_figure figure);

#endif
