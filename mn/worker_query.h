/* worker_query - another thread's question to a worker, answered in the worker's turn.
 *
 * A store belongs to its worker's thread; who wants to look at it from outside (admin, metrics)
 * hands over a function. Layer: mn. Threads: as said. */
#ifndef MN_WORKER_QUERY_H
#define MN_WORKER_QUERY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct mn_worker;
typedef void mn_answer(struct mn_worker *worker, void *arg);

struct mn_ask {
	pthread_mutex_t askers, lock; /* one question at a time; the fields below */
	pthread_cond_t answered;
	mn_answer *answer; /* the question under way, or NULL */
	void *arg;
	bool open;          /* somebody turns */
	atomic_bool is_any; /* answer is set: what a turn looks at */
};

void mn_ask_init(struct mn_ask *ask);
/* The worker's thread: from now on it answers; what was asked; no more. */
void mn_ask_open(struct mn_ask *ask);
void mn_ask_turn(struct mn_worker *worker);
void mn_ask_close(struct mn_ask *ask);
/* Runs answer in the worker's turn and waits for it. False: it does not turn, nothing ran. */
bool mn_ask(struct mn_worker *worker, mn_answer *answer, void *arg);

#endif
