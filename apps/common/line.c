/* line - see line.h. */
#include "apps/common/line.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>

#include "apps/common/load.h"
#include "apps/common/spawn.h"

enum { WARM = 2000, ROUNDS = 20000, FAR_NS = 300 };

struct line {
	alignas(128) atomic_uint turn; /* even: the caller's, odd: the thread's */
	alignas(128) int cpu;
};

static void *answer(void *arg)
{
	struct line *line = arg;

	app_pin(line->cpu);
	for (unsigned i = 0; i < WARM + ROUNDS; i++) {
		while (atomic_load_explicit(&line->turn, memory_order_acquire) != 2 * i + 1)
			;
		atomic_store_explicit(&line->turn, 2 * i + 2, memory_order_release);
	}
	return NULL;
}

double app_line_ns(int a, int b)
{
	struct line line = {.turn = 0, .cpu = b};
	pthread_t thread;
	lend_ns began = 0;

	if (app_cpus() < 2)
		return 0;
	app_pin(a);
	if (pthread_create(&thread, NULL, answer, &line))
		return 0;
	for (unsigned i = 0; i < WARM + ROUNDS; i++) {
		if (i == WARM)
			began = app_now();
		atomic_store_explicit(&line.turn, 2 * i + 1, memory_order_release);
		while (atomic_load_explicit(&line.turn, memory_order_acquire) != 2 * i + 2)
			;
	}
	began = app_now() - began;
	pthread_join(thread, NULL);
	return (double)began / ROUNDS;
}

const char *app_line_name(double ns)
{
	if (ns <= 0)
		return "one CPU";
	return ns < FAR_NS ? "near" : "far";
}
