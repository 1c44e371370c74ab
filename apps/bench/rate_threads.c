/* rate_threads - see rate_threads.h. The threads share no endpoint, session, queue or buffer, so
 * the rate grows with their number until the CPUs are used up. */
#include "apps/bench/rate_threads.h"

#include <pthread.h>
#include <stdlib.h>

#include "apps/common/bench.h"
#include "apps/common/bench_server.h"
#include "apps/common/spawn.h"

enum { CACHE_LINE = 64, STEPS_MAX = 8, COLUMNS = 4 };

/* Begins with a cache line of its own. */
struct runner {
	_Alignas(64) struct app_bench bench;
	struct crew *crew;
	pthread_t thread;
	unsigned index;
};

struct crew {
	const struct app_load_args *args;
	pthread_mutex_t opening; /* addresses, patterns and EAL are the process's */
	pthread_barrier_t start;
	unsigned n;
	struct runner *runner;
};

static void *run_one(void *arg)
{
	struct runner *runner = arg;
	struct crew *crew = runner->crew;

	pthread_mutex_lock(&crew->opening);
	app_bench_open(&runner->bench, crew->args, APP_METHOD_ECHO);
	pthread_mutex_unlock(&crew->opening);
	runner->bench.load.quiet = runner->index > 0;
	app_pin(app_cpu(runner->index));
	pthread_barrier_wait(&crew->start);
	app_bench_run(&runner->bench);
	pthread_barrier_wait(&crew->start);
	pthread_mutex_lock(&crew->opening);
	app_bench_close(&runner->bench);
	pthread_mutex_unlock(&crew->opening);
	return NULL;
}

/* Measures n threads. Adds their results to *sum, and returns the sum of their rates. */
static double measure_crew(const struct app_load_args *args, unsigned n, struct app_load *sum)
{
	struct crew crew = {.args = args, .n = n, .opening = PTHREAD_MUTEX_INITIALIZER};
	double rate = 0;

	crew.runner = aligned_alloc(CACHE_LINE, n * sizeof(*crew.runner));
	if (!crew.runner || pthread_barrier_init(&crew.start, NULL, n) != 0)
		app_die("no memory for %u threads", n);
	for (unsigned i = 0; i < n; i++) {
		crew.runner[i].crew = &crew;
		crew.runner[i].index = i;
		if (pthread_create(&crew.runner[i].thread, NULL, run_one, &crew.runner[i]) != 0)
			app_die("no thread number %u: raise ulimit -u", i + 1);
	}
	*sum = (struct app_load){.slots = 0};
	lend_hist_init(&sum->hist);
	for (unsigned i = 0; i < n; i++) {
		pthread_join(crew.runner[i].thread, NULL);
		rate += app_load_rate(&crew.runner[i].bench.load);
		app_load_merge(sum, &crew.runner[i].bench.load);
	}
	pthread_barrier_destroy(&crew.start);
	free(crew.runner);
	return rate;
}

static unsigned next_step(unsigned n, unsigned threads)
{
	return n < threads && n * 2 > threads ? threads : n * 2;
}

int app_rate_threads(const struct app_load_args *args, unsigned threads)
{
	static const char *const column[COLUMNS] = {"threads", "calls_per_s", "calls_per_s_each",
						    "of_linear"};
	struct app_load_args one = *args;
	double cell[STEPS_MAX * COLUMNS], *row = cell;
	struct app_report report;
	struct app_table table = {"scaling", column, COLUMNS, 0, cell};
	struct app_load sum;
	uint64_t wrong = 0, errors = 0;

	one.one_thread = true;
	(void)app_ticks_per_ns(); /* measured before there are threads */
	for (unsigned n = 1; n <= threads; n = next_step(n, threads), row += COLUMNS) {
		row[0] = n;
		row[1] = measure_crew(&one, n, &sum);
		row[2] = row[1] / n;
		row[3] = row[2] / cell[1];
		table.rows++;
		wrong += sum.wrong_bytes;
		errors += sum.errors;
	}
	app_report_begin(&report, args->json, "rate: threads with a client and a server each");
	app_report_table(&report, &table);
	app_report_int(&report, "cpus", app_cpus(), "that threads share");
	app_report_int(&report, "errors", errors, "calls that did not end OK");
	app_report_int(&report, "wrong_bytes", wrong, "bytes that arrived damaged");
	app_report_int(&report, "size", args->size, "bytes of payload");
	app_report_int(&report, "window", args->window, "calls in flight per session");
	app_report_int(&report, "sessions", args->sessions, "of each thread");
	app_report_carrier(&report, args->carrier);
	app_report_end(&report);
	return wrong ? APP_EXIT_FAILED : APP_EXIT_OK;
}
