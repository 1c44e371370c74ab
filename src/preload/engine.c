/* engine - see engine.h. */
#include "preload/engine.h"

#include <errno.h>
#include <time.h>

#include "preload/queue.h"

/* Times after which the engine's thread looks whether turns are run: while operations are pending
 * or owed, and else. */
enum { LOOK_PENDING_NS = 1000000, LOOK_IDLE_NS = 20000000 };
/* Of a session at once; bytes. gRPC's own limits are those of the program. */
enum { CALLS = 512, MESSAGE_MAX = 1 << 28 };

pthread_mutex_t engine_lock = PTHREAD_MUTEX_INITIALIZER;

lend_ns engine_now(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (lend_ns)t.tv_sec * 1000000000u + (lend_ns)t.tv_nsec;
}

static void wait_until(pthread_cond_t *cond, lend_ns until)
{
	struct timespec t = {.tv_sec = (time_t)(until / 1000000000u),
			     .tv_nsec = (long)(until % 1000000000u)};

	if (until == LEND_NEVER)
		(void)pthread_cond_wait(cond, &engine_lock);
	else
		(void)pthread_cond_timedwait(cond, &engine_lock, &t);
}

void engine_add_task(struct engine *e, struct engine_task *task)
{
	task->next = NULL;
	*e->tasks_end = task;
	e->tasks_end = &task->next;
}

void engine_run_tasks(struct engine *e)
{
	struct engine_task *task = e->tasks, *next;

	if (!task)
		return;
	e->tasks = NULL;
	e->tasks_end = &e->tasks;
	pthread_mutex_unlock(&engine_lock);
	for (; task; task = next) {
		next = task->next;
		task->run(task);
	}
	pthread_mutex_lock(&engine_lock);
}

static void deliver_finished(struct engine *e)
{
	struct batch *b = e->finished, *next;

	e->finished = NULL;
	e->finished_end = &e->finished;
	for (; b; b = next) {
		next = b->next;
		queue_deliver(e, b);
	}
	if (e->sleepers)
		pthread_cond_broadcast(&e->changed);
}

void engine_sleep(struct engine *e, lend_ns until)
{
	e->sleepers++;
	wait_until(&e->changed, until);
	e->sleepers--;
}

void engine_enter(struct engine *e)
{
	pthread_mutex_lock(&engine_lock);
	e->want++;
	while (e->turning) {
		lend_stop(e->ep);
		engine_sleep(e, LEND_NEVER);
	}
	e->want--;
}

void engine_leave(struct engine *e)
{
	deliver_finished(e);
	engine_run_tasks(e);
	pthread_mutex_unlock(&engine_lock);
}

/* Runs turns with the lock released. */
static void run_turn(struct engine *e, lend_ns until)
{
	e->turning = true;
	pthread_mutex_unlock(&engine_lock);
	(void)lend_wait(e->ep, until);
	pthread_mutex_lock(&engine_lock);
	e->turning = false;
	deliver_finished(e);
	engine_run_tasks(e);
}

bool engine_turn(struct engine *e, lend_ns until)
{
	if (e->turning && e->by_thread && !e->unwatched) {
		e->want++; /* the engine's thread pauses */
		while (e->turning && e->by_thread) {
			lend_stop(e->ep);
			engine_sleep(e, LEND_NEVER);
		}
		e->want--;
		if (e->sleepers)
			pthread_cond_broadcast(&e->changed);
	}
	if (e->turning || e->want || e->closing)
		return false;
	e->turns++;
	run_turn(e, until);
	return true;
}

void engine_hand_over(struct engine *e)
{
	e->needed = true;
	e->seen = e->turns;
	if (!e->by_thread)
		pthread_cond_signal(&e->parked);
}

/* Returns whether threads of the program run turns. One that enters is about to, if none of them
 * sleeps meanwhile. */
static bool is_led(const struct engine *e)
{
	return e->turning || e->seen != e->turns || (e->want && !e->handed);
}

/* Waits while threads of the program run turns, or want to enter. */
static void park_thread(struct engine *e)
{
	while (!e->closing && !e->unwatched && !e->needed && is_led(e)) {
		bool busy = e->pending || __atomic_load_n(&e->owed, __ATOMIC_RELAXED);

		e->seen = e->turns;
		wait_until(&e->parked, engine_now() + (busy ? LOOK_PENDING_NS : LOOK_IDLE_NS));
	}
	while (!e->closing && (e->turning || e->want))
		engine_sleep(e, engine_now() + LOOK_PENDING_NS);
	e->needed = false;
}

static void *run_engine(void *arg)
{
	struct engine *e = arg;

	pthread_mutex_lock(&engine_lock);
	while (!e->closing) {
		park_thread(e);
		if (e->closing)
			break;
		e->by_thread = true;
		run_turn(e, LEND_NEVER);
		e->by_thread = false;
	}
	while (e->turning)
		engine_sleep(e, LEND_NEVER);
	e->turning = true; /* lend_close() runs turns */
	pthread_mutex_unlock(&engine_lock);
	lend_close(e->ep);
	pthread_mutex_lock(&engine_lock);
	e->turning = false;
	e->closed = true;
	deliver_finished(e);
	engine_run_tasks(e);
	pthread_cond_broadcast(&e->changed);
	pthread_mutex_unlock(&engine_lock);
	return NULL;
}

int engine_open(struct engine *e, const char *listen)
{
	struct lend_config config = LEND_CONFIG_INIT;
	pthread_condattr_t monotonic;
	pthread_t thread;
	int rc;

	config.listen = listen;
	config.calls = CALLS;
	config.message_max = MESSAGE_MAX;
	rc = lend_open(&config, &e->ep);
	if (rc < 0)
		return rc;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&e->changed, &monotonic);
	pthread_cond_init(&e->parked, &monotonic);
	pthread_condattr_destroy(&monotonic);
	e->finished_end = &e->finished;
	e->tasks_end = &e->tasks;
	rc = pthread_create(&thread, NULL, run_engine, e);
	if (rc) {
		lend_close(e->ep);
		return -rc;
	}
	pthread_detach(thread);
	return 0;
}

void engine_close(struct engine *e)
{
	pthread_mutex_lock(&engine_lock);
	e->closing = true;
	lend_stop(e->ep);
	pthread_cond_signal(&e->parked);
	while (!e->closed)
		engine_sleep(e, LEND_NEVER);
	pthread_mutex_unlock(&engine_lock);
}
