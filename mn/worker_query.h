/* worker_query - runs a function of another thread in a worker's thread, between two event-loop
 * iterations.
 *
 * A store belongs to its worker's thread. Other threads (admin, metrics) pass a function to read
 * it.
 * Layer: mn. Threads: see above. */
#ifndef MN_WORKER_QUERY_H
#define MN_WORKER_QUERY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

struct mn_worker;
typedef void mn_query_fn(struct mn_worker *worker, void *arg);

struct mn_query {
	pthread_mutex_t askers, lock; /* askers: one query at a time; lock: the fields below */
	pthread_cond_t answered;
	mn_query_fn *answer; /* the pending query, or NULL */
	void *arg;
	bool open;          /* the worker runs its event loop */
	atomic_bool is_any; /* answer is set; checked in each iteration */
};

void mn_query_init(struct mn_query *ask);
/* Called by the worker's thread: open starts answering, turn runs a pending query, close stops. */
void mn_query_open(struct mn_query *ask);
void mn_query_turn(struct mn_worker *worker);
void mn_query_close(struct mn_query *ask);
/* Runs answer in the worker's thread and waits for it. Returns false, with nothing run, when the
 * worker does not run its event loop. */
bool mn_query(struct mn_worker *worker, mn_query_fn *answer, void *arg);

#endif
