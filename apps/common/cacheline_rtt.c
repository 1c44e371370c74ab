/* cacheline_rtt - see cacheline_rtt.h. */
#include "apps/common/cacheline_rtt.h"

#include <limits.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>

#include "apps/common/closed_loop.h"
#include "apps/common/spawn.h"

enum { ROUNDS = 100, PARTS = 200, FAR_NS = 300, ENOUGH_NS = 50000000, WHOLE_NS = 2000 };
#define STOP UINT_MAX

struct line {
	alignas(128) atomic_uint turn; /* even: the caller's, odd: the thread's; STOP: the end */
	alignas(128) int cpu;
};

/* Waits for that turn, or for STOP. */
static unsigned await_turn(struct line *line, unsigned turn)
{
	unsigned seen;

	do
		seen = atomic_load_explicit(&line->turn, memory_order_acquire);
	while (seen != turn && seen != STOP);
	return seen;
}

static void *answer_rounds(void *arg)
{
	struct line *line = arg;

	app_pin(line->cpu);
	for (unsigned i = 0, turn; (turn = await_turn(line, 2 * i + 1)) != STOP; i++)
		atomic_store_explicit(&line->turn, turn + 1, memory_order_release);
	return NULL;
}

/* Returns the quickest of several parts, because the others were interrupted. On a busy machine the
 * two threads rarely run at once: one part without an interruption is enough there. */
static lend_ns bounce_line(struct line *line)
{
	lend_ns best = UINT64_MAX, start = app_now(), began = start, now;

	for (unsigned i = 0; i < ROUNDS * PARTS; i++) {
		atomic_store_explicit(&line->turn, 2 * i + 1, memory_order_release);
		while (atomic_load_explicit(&line->turn, memory_order_acquire) != 2 * i + 2)
			;
		if (i % ROUNDS != ROUNDS - 1)
			continue;
		now = app_now();
		best = now - began < best ? now - began : best;
		if (now - start > ENOUGH_NS && best < ROUNDS * WHOLE_NS)
			break;
		began = now;
	}
	atomic_store_explicit(&line->turn, STOP, memory_order_release);
	return best;
}

double app_cacheline_ns(int a, int b)
{
	struct line line = {.turn = 0, .cpu = b};
	pthread_t thread;
	lend_ns best;

	if (app_cpus() < 2)
		return 0;
	app_pin(a);
	if (pthread_create(&thread, NULL, answer_rounds, &line))
		return 0;
	best = bounce_line(&line);
	pthread_join(thread, NULL);
	app_unpin();
	return (double)best / ROUNDS;
}

const char *app_cacheline_name(double ns)
{
	if (ns <= 0)
		return "one CPU";
	return ns < FAR_NS ? "near" : "far";
}
