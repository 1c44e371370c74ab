/* Goal: requests wait for a worker by class, within a class in FIFO order or by deadline, and each
 * class gets its share. In deadline order at most a fifth as many are late as in FIFO order.
 * Method: a table of three; shares counted over saturated classes; calls at 0.9 of a worker's
 * capacity in virtual time; then seeded histories against a model that searches an array. Covers:
 * src/rpc/job_queue.c */
#include <criterion/criterion.h>
#include <string.h>

#include "rpc/job_queue.h"
#include "util/rng.h"

enum { JOBS = 64, CLASSES = LEND_JOBS_CLASSES, FLOOR = LEND_JOBS_FLOOR };

static struct lend_req req[JOBS];
static struct lend_jobs jobs;

static void begin(bool by_deadline)
{
	jobs = (struct lend_jobs){.by_deadline = by_deadline};
}

static void push(uint32_t i, uint32_t class, lend_ns due)
{
	req[i].class = (uint8_t) class;
	atomic_store(&req[i].deadline, due);
	lend_jobs_push(&jobs, &req[i]);
}

Test(job_queue, next__three_waiting__order)
{
	static const struct {
		bool by_deadline;
		uint32_t class[3];
		lend_ns due[3];
		uint32_t order[3];
	} row[] = {
	    {false, {7, 3, 0}, {1, 2, 3}, {2, 1, 0}},
	    {false, {3, 3, 3}, {9, 5, 1}, {0, 1, 2}},
	    {true, {3, 3, 3}, {9, 5, 1}, {2, 1, 0}},
	    {true, {3, 3, 3}, {LEND_NEVER, 5, LEND_NEVER}, {1, 0, 2}},
	    {true, {4, 3, 3}, {1, 7, 6}, {2, 1, 0}},
	    {true, {3, 3, 3}, {5, 5, 5}, {0, 1, 2}},
	};

	for (size_t r = 0; r < sizeof(row) / sizeof(row[0]); r++) {
		begin(row[r].by_deadline);
		for (uint32_t i = 0; i < 3; i++)
			push(i, row[r].class[i], row[r].due[i]);
		for (uint32_t i = 0; i < 3; i++)
			cr_expect_eq(lend_jobs_pop(&jobs), &req[row[r].order[i]], "row %zu", r);
		cr_expect_null(lend_jobs_pop(&jobs));
	}
}

Test(job_queue, every_class_gets_its_share)
{
	uint32_t got[CLASSES] = {0};

	begin(false);
	for (uint32_t i = 0; i < CLASSES; i++)
		push(i, i, 0);
	for (uint32_t n = 0; n < FLOOR * 1000; n++) {
		struct lend_req *job = lend_jobs_pop(&jobs);

		got[job->class]++;
		lend_jobs_push(&jobs, job);
	}
	for (uint32_t i = 1, above = got[0]; i < CLASSES; above += got[i++])
		cr_expect(got[i] * (FLOOR - 1) >= above * 0.98 &&
			      got[i] * (FLOOR - 1) <= above * 1.02,
			  "class %u: %u behind %u", i, got[i], above);
}

/* The model's choice: the lowest class that is owed its share, else the first; within it the least
 * key. */
static uint32_t next(const bool *waits, const uint64_t *age, const uint32_t *passed,
		     bool by_deadline)
{
	uint32_t class = CLASSES, best = JOBS;

	for (uint32_t c = 0; c < CLASSES; c++) {
		bool any = false;

		for (uint32_t i = 0; i < JOBS; i++)
			any |= waits[i] && req[i].class == c;
		if (any && (class == CLASSES || passed[c] >= FLOOR - 1))
			class = c;
	}
	for (uint32_t i = 0; i < JOBS; i++) {
		lend_ns due = by_deadline ? req[i].deadline : 0;

		if (waits[i] && req[i].class == class &&
		    (best == JOBS || due < (by_deadline ? req[best].deadline : 0) ||
		     (due == (by_deadline ? req[best].deadline : 0) && age[i] < age[best])))
			best = i;
	}
	return best;
}

static void history(uint64_t seed)
{
	struct lend_rng rng;
	bool waits[JOBS] = {false}, by_deadline = seed % 2;
	uint32_t passed[CLASSES] = {0}, classes = 1 + (uint32_t)(seed % CLASSES);
	uint64_t age[JOBS] = {0};

	lend_rng_seed(&rng, seed);
	begin(by_deadline);
	for (uint32_t step = 1; step < 4000; step++) {
		uint32_t i = (uint32_t)lend_rng_below(&rng, JOBS);

		if (!waits[i] && lend_rng_below(&rng, 100) < 55) {
			push(i, (uint32_t)lend_rng_below(&rng, classes), lend_rng_below(&rng, 50));
			waits[i] = true;
			age[i] = step;
			continue;
		}
		i = next(waits, age, passed, by_deadline);
		cr_assert_eq(lend_jobs_pop(&jobs), i == JOBS ? NULL : &req[i], "seed %llu, step %u",
			     (unsigned long long)seed, step);
		if (i == JOBS)
			continue;
		waits[i] = false;
		passed[req[i].class] = 0;
		for (uint32_t c = req[i].class + 1u; c < CLASSES; c++) {
			bool any = false;

			for (uint32_t j = 0; j < JOBS; j++)
				any |= waits[j] && req[j].class == c;
			passed[c] = any ? passed[c] + 1 : 0;
		}
	}
}

/* One worker in virtual time; calls of one length at random times, half of them with a deadline.
 * Returns the number of calls that end too late or can no longer begin. */
static uint32_t misses(bool by_deadline, uint64_t seed, uint32_t calls)
{
	enum { WORK = 64, SOON = 6 * WORK, LATER = 200 * WORK, MOST = 1024 };
	static struct lend_req call[MOST];
	uint32_t late = 0, begun = 0, waiting = 0;
	lend_ns now = 1, busy = 0;
	struct lend_rng rng;

	lend_rng_seed(&rng, seed);
	begin(by_deadline);
	for (; begun < calls; now++) {
		if (lend_rng_below(&rng, 1000) < 900 / WORK) { /* at 0.896 of its capacity */
			struct lend_req *r = &call[begun++ % MOST];

			cr_assert_lt(++waiting, MOST / 2);
			r->class = 3;
			r->deadline = now + (lend_rng_below(&rng, 2) ? SOON : LATER);
			lend_jobs_push(&jobs, r);
		}
		while (busy <= now) {
			struct lend_req *r = lend_jobs_pop(&jobs);

			if (!r)
				break;
			waiting--;
			late += now + WORK > r->deadline;
			busy = now < r->deadline ? now + WORK : busy;
		}
	}
	return late;
}

Test(job_queue, few_miss_their_deadline)
{
	enum { CALLS = 20000 };
	uint32_t fifo = 0, edf = 0;

	for (uint64_t seed = 1; seed <= 5; seed++) {
		fifo += misses(false, seed, CALLS);
		edf += misses(true, seed, CALLS);
	}
	cr_expect(fifo > CALLS / 10 && edf * 5 <= fifo, "%u by deadline, %u as they come", edf,
		  fifo);
}

Test(job_queue, next__random_history__equals_the_model)
{
	for (uint64_t seed = 1; seed <= 100; seed++)
		history(seed);
}
