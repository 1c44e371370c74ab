/* images_thread - a tier in a thread of this process, with its own endpoint.
 *
 * The thread opens its endpoint, signals that it is ready, and runs until it is stopped. On a
 * request for its counters it leaves lend_run(), reads them and enters lend_run() again. Layer:
 * apps. Threads: the starter's, and the one that it starts. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "apps/common/options.h"
#include "apps/images/images_cluster.h"
#include "lend/stats.h"

struct images_thread {
	pthread_t id;
	enum images_role role;
	struct lend_config config;
	const char *next[2];
	unsigned nexts;
	const char *node;
	struct images_tier tier;
	struct lend_ep *ep; /* set before `answer` is first posted */
	sem_t answer;       /* posted when ready, and once per request for counters */
	atomic_bool asked, stopping;
	uint64_t tx_bytes; /* written before an answer, read after it */
	char address[APP_ADDRESS_MAX];
};

static void run_thread(struct images_thread *t)
{
	while (!atomic_load(&t->stopping)) {
		struct lend_stats stats;

		if (lend_run(t->ep, LEND_NEVER) < 0)
			app_die("%s", lend_why());
		if (!atomic_exchange(&t->asked, false))
			continue;
		lend_stats_get(t->ep, &stats);
		t->tx_bytes = stats.tx_bytes;
		sem_post(&t->answer);
	}
}

static void *main_of(void *arg)
{
	struct images_thread *t = arg;

	if (lend_open(&t->config, &t->ep) < 0 ||
	    lend_address(t->ep, t->address, sizeof(t->address)) < 0 ||
	    images_tier_open(&t->tier, t->ep, t->role, t->next, t->nexts, t->node) < 0)
		app_die("%s", lend_why());
	sem_post(&t->answer);
	run_thread(t);
	images_tier_stop(&t->tier);
	lend_close(t->ep);
	images_tier_close(&t->tier);
	return NULL;
}

static void wait_answer(struct images_thread *t)
{
	while (sem_wait(&t->answer) < 0) /* EINTR */
		;
}

struct images_thread *images_thread_start(enum images_role role, struct app_net *net, unsigned proc,
					  const char *const next[], unsigned n, const char *node)
{
	struct images_thread *t = calloc(1, sizeof(*t));

	if (!t)
		app_die("no memory for a tier");
	t->role = role;
	t->config = (struct lend_config)LEND_CONFIG_INIT;
	images_config(&t->config);
	t->config.listen = app_net_listen(net, proc);
	t->config.eal = app_net_eal(net, proc);
	for (t->nexts = 0; t->nexts < n; t->nexts++)
		t->next[t->nexts] = next[t->nexts];
	t->node = node;
	sem_init(&t->answer, 0, 0);
	if (pthread_create(&t->id, NULL, main_of, t))
		app_die("cannot start a thread; end some, or raise ulimit -u");
	wait_answer(t);
	app_net_ready(net, proc, t->address);
	return t;
}

uint64_t images_thread_tx_bytes(struct images_thread *thread)
{
	atomic_store(&thread->asked, true);
	lend_stop(thread->ep);
	wait_answer(thread);
	return thread->tx_bytes;
}

void images_thread_stop(struct images_thread *thread)
{
	atomic_store(&thread->stopping, true);
	lend_stop(thread->ep);
	pthread_join(thread->id, NULL);
	sem_destroy(&thread->answer);
	free(thread);
}
