/* Goal: threads that allocate, free objects of other threads, look up keys, trim, watch and end do
 * not race. Method: four threads with the thread sanitizer swap objects through a table; one thread
 * fills an object, another checks it; the heap is empty afterwards. Covers: src/alloc/alloc.c,
 * src/alloc/cache.c, src/alloc/depot.c, src/alloc/region.c */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "lend/alloc.h"
#include "util/rng.h"

enum { THREADS = 4, LIVES = 3, PLACES = 64, STEPS = 4000 };

static _Atomic(uint64_t *) place[PLACES];
static _Atomic uint64_t wrong;

static int on_grow(void *arg, void *memory, size_t len, uint64_t *key)
{
	(void)arg;
	*key = (uintptr_t)memory + len;
	return 0;
}

static void on_shrink(void *arg, void *memory, size_t len, uint64_t key)
{
	(void)arg;
	wrong += key != (uintptr_t)memory + len;
}

/* The first word is the length; the complement of it is at the end. */
static uint64_t *make_object(struct lend_rng *rng)
{
	size_t words = 2 + lend_rng_below(rng, (size_t)1 << (3 + lend_rng_below(rng, 14)));
	uint64_t *p = lend_malloc(words * sizeof(*p));

	if (!p)
		abort();
	p[0] = words;
	p[words - 1] = ~(uint64_t)words;
	return p;
}

static void end_object(uint64_t *p)
{
	if (!p)
		return;
	wrong += p[p[0] - 1] != ~p[0];
	lend_free(p);
}

static void *run_life(void *arg)
{
	struct lend_rng rng;

	lend_rng_seed(&rng, (uintptr_t)arg);
	for (int i = 0; i < STEPS; i++) {
		uint64_t *p = make_object(&rng);

		if (i % 1000 == 0) {
			int watch = lend_alloc_watch_add(
			    &(struct lend_alloc_watch){on_grow, on_shrink, NULL});
			uint64_t key = 0;

			wrong +=
			    watch < 0 || !lend_alloc_key(watch, p, &key) || key <= (uintptr_t)p;
			lend_alloc_watch_remove(watch);
			lend_alloc_trim();
		}
		end_object(atomic_exchange(&place[lend_rng_below(&rng, PLACES)], p));
	}
	return NULL;
}

int main(void)
{
	struct lend_alloc_stat stat;
	pthread_t thread[THREADS];

	for (uintptr_t round = 0; round < LIVES; round++) {
		for (uintptr_t i = 0; i < THREADS; i++)
			if (pthread_create(&thread[i], NULL, run_life,
					   (void *)(round * THREADS + i)))
				return 2;
		for (int i = 0; i < THREADS; i++)
			pthread_join(thread[i], NULL);
	}
	for (int i = 0; i < PLACES; i++)
		end_object(atomic_exchange(&place[i], NULL));
	lend_alloc_trim();
	lend_alloc_stat_get(&stat);
	if (wrong || stat.used || stat.mapped)
		fprintf(stderr, "alloc_races: %llu wrong, %zu bytes used, %zu mapped\n",
			(unsigned long long)wrong, stat.used, stat.mapped);
	return wrong || stat.used || stat.mapped;
}
