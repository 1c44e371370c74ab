/* Goal: a batch that one thread puts into the depot is taken once, whole and in order. A full depot
 * refuses, an empty one gives nothing, and short batches work, too. Method: a single-threaded model
 * of the ring, then threads that put numbers and threads that sum up what they take. Covers:
 * src/alloc/depot.c */
#include <criterion/criterion.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "alloc/depot.h"

enum { CLASS = 3, BATCHES = 32, ROUNDS = 5000, PAIRS = 3, BATCHES_OF_LONGEST = 4 };

static void fill_objects(void **obj, uint32_t n, uintptr_t first)
{
	for (uint32_t i = 0; i < n; i++)
		obj[i] = (void *)(first + i);
}

static void expect_taken(uint32_t class, uint32_t n, uintptr_t first)
{
	void *obj[LEND_BATCH_MAX];

	cr_assert_eq(lend_depot_take(class, obj), n);
	for (uint32_t i = 0; i < n; i++)
		cr_assert_eq((uintptr_t)obj[i], first + i);
}

Test(depot, oldest_first_and_full_at_its_length, .init = lend_depots_init)
{
	void *obj[LEND_BATCH_MAX];

	for (uintptr_t turn = 0; turn < 3; turn++) {
		for (uintptr_t i = 0; i < BATCHES; i++) {
			fill_objects(obj, 1 + i % LEND_BATCH_MAX, 100 * i + turn);
			cr_assert(lend_depot_put(CLASS, obj, 1 + i % LEND_BATCH_MAX));
		}
		cr_assert_not(lend_depot_put(CLASS, obj, 1));
		expect_taken(CLASS, 1, turn);
		fill_objects(obj, 2, 7);
		cr_assert(lend_depot_put(CLASS, obj, 2));
		for (uintptr_t i = 1; i < BATCHES; i++)
			expect_taken(CLASS, 1 + i % LEND_BATCH_MAX, 100 * i + turn);
		expect_taken(CLASS, 2, 7);
		cr_assert_eq(lend_depot_take(CLASS, obj), 0);
	}
}

Test(depot, long_objects_are_few, .init = lend_depots_init)
{
	void *obj[LEND_BATCH_MAX];

	fill_objects(obj, LEND_BATCH_MAX, 1);
	for (int i = 0; i < BATCHES_OF_LONGEST; i++)
		cr_assert(lend_depot_put(LEND_CLASSES - 1, obj, 8));
	cr_assert_not(lend_depot_put(LEND_CLASSES - 1, obj, 8));
	cr_assert_not(lend_depot_take(LEND_CLASSES - 2, obj), "each class has its own");
}

static _Atomic uint64_t brought, sum_in, sum_out, taken;

static void *bring_batches(void *arg)
{
	uintptr_t first = (uintptr_t)arg * ROUNDS * LEND_BATCH_MAX + 1;
	void *obj[LEND_BATCH_MAX];

	for (uintptr_t r = 0; r < ROUNDS; r++, first += LEND_BATCH_MAX) {
		uint32_t n = 1 + (uint32_t)r % LEND_BATCH_MAX;

		fill_objects(obj, n, first);
		while (!lend_depot_put(CLASS, obj, n))
			sched_yield();
		for (uint32_t i = 0; i < n; i++)
			atomic_fetch_add(&sum_in, first + i);
		atomic_fetch_add(&brought, 1);
	}
	return NULL;
}

static void *take_batches(void *arg)
{
	void *obj[LEND_BATCH_MAX];

	(void)arg;
	while (atomic_load(&taken) < (uint64_t)PAIRS * ROUNDS) {
		uint32_t n = lend_depot_take(CLASS, obj);

		for (uint32_t i = 0; i < n; i++) {
			cr_assert_eq((uintptr_t)obj[i], (uintptr_t)obj[0] + i);
			atomic_fetch_add(&sum_out, (uintptr_t)obj[i]);
		}
		if (n)
			atomic_fetch_add(&taken, 1);
		else
			sched_yield();
	}
	return NULL;
}

Test(depot, each_batch_goes_to_one, .init = lend_depots_init)
{
	pthread_t thread[2 * PAIRS];

	for (uintptr_t i = 0; i < PAIRS; i++) {
		cr_assert_eq(pthread_create(&thread[2 * i], NULL, bring_batches, (void *)i), 0);
		cr_assert_eq(pthread_create(&thread[2 * i + 1], NULL, take_batches, NULL), 0);
	}
	for (int i = 0; i < 2 * PAIRS; i++)
		pthread_join(thread[i], NULL);
	cr_assert_eq(sum_in, sum_out);
	cr_assert_eq(brought, taken);
}
