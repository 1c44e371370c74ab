/* Goal: an engine's own thread runs turns again as soon as no thread of the program is about to.
 * Method: the program enters without running a turn, many times. Each time only the engine's thread
 * can ring an alarm; with LOOK_IDLE_NS in between, the whole would take longer than is allowed.
 * Covers: src/preload/engine.c
 * Layer: test. Threads: the test's and the engine's. */
#include <criterion/criterion.h>
#include <semaphore.h>

#include "preload/queue.h"

enum { TIMES = 100, LOOK_IDLE_NS = 20000000 };

static struct engine engine;
static sem_t rang;

/* Of queue.c: no batch ends here. */
void queue_deliver(struct engine *e, struct batch *b)
{
	(void)e;
	(void)b;
}

static void note_ring(struct lend_alarm *alarm)
{
	(void)alarm;
	sem_post(&rang);
}

static void open_engine(void)
{
	cr_assert_eq(sem_init(&rang, 0, 0), 0);
	cr_assert_eq(engine_open(&engine, NULL), 0);
}

static void close_engine(void)
{
	engine_close(&engine);
}

static void wait_for_turn(void)
{
	struct lend_alarm alarm = {.ring = note_ring};

	engine_enter(&engine);
	lend_alarm_set(engine.ep, &alarm, lend_now(engine.ep));
	engine_leave(&engine);
	while (sem_wait(&rang) < 0)
		;
}

static void check_no_idle_looks(lend_ns from)
{
	lend_ns took = engine_now() - from, most = (lend_ns)TIMES * LOOK_IDLE_NS * 3 / 4;

	cr_assert_lt(took, most, "%d turns took %.1f ms", TIMES, (double)took / 1e6);
}

TestSuite(engine, .init = open_engine, .fini = close_engine);

Test(engine, thread__entered_while_one_sleeps__goes_on)
{
	lend_ns from = engine_now();

	pthread_mutex_lock(&engine_lock);
	engine.handed = 1;
	engine_hand_over(&engine);
	pthread_mutex_unlock(&engine_lock);
	for (int i = 0; i < TIMES; i++)
		wait_for_turn();
	check_no_idle_looks(from);
}

Test(engine, thread__calls_owed_without_turns__looks_soon)
{
	lend_ns from = engine_now();

	engine.owed = 1;
	for (int i = 0; i < TIMES; i++) {
		pthread_mutex_lock(&engine_lock);
		(void)engine_turn(&engine, 0);
		pthread_mutex_unlock(&engine_lock);
		wait_for_turn();
	}
	check_no_idle_looks(from);
}
