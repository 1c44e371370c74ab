#include "mn/worker_query.h"

#include "mn/node_worker.h"

void mn_ask_init(struct mn_ask *ask)
{
	pthread_mutex_init(&ask->askers, NULL);
	pthread_mutex_init(&ask->lock, NULL);
	pthread_cond_init(&ask->answered, NULL);
}

void mn_ask_open(struct mn_ask *ask)
{
	pthread_mutex_lock(&ask->lock);
	ask->open = true;
	pthread_mutex_unlock(&ask->lock);
}

void mn_ask_turn(struct mn_worker *worker)
{
	struct mn_ask *ask = &worker->ask;

	if (!atomic_load_explicit(&ask->is_any, memory_order_relaxed))
		return;
	pthread_mutex_lock(&ask->lock);
	ask->answer(worker, ask->arg);
	ask->answer = NULL;
	atomic_store(&ask->is_any, false);
	pthread_cond_signal(&ask->answered);
	pthread_mutex_unlock(&ask->lock);
}

void mn_ask_close(struct mn_ask *ask)
{
	pthread_mutex_lock(&ask->lock);
	ask->open = false;
	pthread_cond_signal(&ask->answered);
	pthread_mutex_unlock(&ask->lock);
}

bool mn_ask(struct mn_worker *worker, mn_answer *answer, void *arg)
{
	struct mn_ask *ask = &worker->ask;
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
