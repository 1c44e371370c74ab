/* Goal: a question to a worker is answered in an iteration of its event loop, and a question that
 * waits when the loop ends is refused, not left waiting. Method: a worker with an endpoint whose
 * loop is the test's; another thread asks. Covers: mn/worker_query.c */
#include <criterion/criterion.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "mn/node_worker.h"

enum { BOUND_S = 20 };

static struct mn_worker worker;
static int answers;

static void count_answer(struct mn_worker *w, void *arg)
{
	(void)w, (void)arg;
	answers++;
}

static void *ask_worker(void *arg)
{
	*(bool *)arg = mn_query(&worker, count_answer, NULL);
	return NULL;
}

/* Opens the worker and starts a thread that asks it; returns when the question waits. */
static void ask_from_thread(pthread_t *thread, bool *answered)
{
	struct lend_config config = LEND_CONFIG_INIT;

	cr_assert_eq(lend_open(&config, &worker.ep), 0, "%s", lend_why());
	mn_query_init(&worker.ask);
	mn_query_open(&worker.ask);
	cr_assert_eq(pthread_create(thread, NULL, ask_worker, answered), 0);
	while (!atomic_load(&worker.ask.is_any))
		cr_assert_geq(lend_poll(worker.ep), 0);
}

static void end_thread(pthread_t thread)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += BOUND_S;
	cr_assert_eq(pthread_timedjoin_np(thread, NULL, &until), 0, "it still waits");
	lend_close(worker.ep);
}

Test(worker_query, query__the_loop_turns__answered)
{
	bool answered = false;
	pthread_t thread;

	ask_from_thread(&thread, &answered);
	mn_query_turn(&worker);
	end_thread(thread);
	cr_expect(answered);
	cr_expect_eq(answers, 1);
}

Test(worker_query, query__the_loop_ends__refused)
{
	bool answered = true;
	pthread_t thread;

	ask_from_thread(&thread, &answered);
	/* The lock is free only while the asker waits. */
	mn_query_close(&worker.ask);
	end_thread(thread);
	cr_expect_not(answered);
	cr_expect_eq(answers, 0);
	cr_expect_not(mn_query(&worker, count_answer, NULL), "it is closed");
}
