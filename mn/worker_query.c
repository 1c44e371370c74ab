#include "mn/worker_query.h"

#include "mn/node_worker.h"

void mn_query_init(struct mn_query *ask)
{
	pthread_mutex_init(&ask->askers, NULL);
	pthread_mutex_init(&ask->lock, NULL);
	pthread_cond_init(&ask->answered, NULL);
}

void mn_query_open(struct mn_query *ask)
{
	pthread_mutex_lock(&ask->lock);
	ask->open = true;
	pthread_mutex_unlock(&ask->lock);
}

void mn_query_turn(struct mn_worker *worker)
{
	struct mn_query *ask = &worker->ask;

	if (!atomic_load_explicit(&ask->is_any, memory_order_relaxed))
		return;
	pthread_mutex_lock(&ask->lock);
	ask->answer(worker, ask->arg);
	ask->answer = NULL;
	atomic_store(&ask->is_any, false);
	pthread_cond_signal(&ask->answered);
	pthread_mutex_unlock(&ask->lock);
}

void mn_query_close(struct mn_query *ask)
{
	pthread_mutex_lock(&ask->lock);
	ask->open = false;
	pthread_cond_signal(&ask->answered);
	pthread_mutex_unlock(&ask->lock);
}

bool mn_query(struct mn_worker *worker, mn_query_fn *answer, void *arg)
{
	struct mn_query *ask = &worker->ask;
	bool done = false;

	pthread_mutex_lock(&ask->askers);
	pthread_mutex_lock(&ask->lock);
	if (ask->open) {
		ask->answer = answer;
		ask->arg = arg;
		atomic_store(&ask->is_any, true);
		lend_stop(worker->ep);
	}
	while (ask->answer && ask->open)
		pthread_cond_wait(&ask->answered, &ask->lock);
	done = ask->open;
	ask->answer = NULL;
	atomic_store(&ask->is_any, false);
	pthread_mutex_unlock(&ask->lock);
	pthread_mutex_unlock(&ask->askers);
	return done;
}
