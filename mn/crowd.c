#include "mn/crowd.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "util/check.h"

/* here -> gone when sessions is 0 -> freed when all have heard */
struct process {
	TAILQ_ENTRY(process) link;
	uint8_t incarnation[16];
	uint32_t sessions;
	uint64_t deaf; /* gone: workers who have not heard */
};
TAILQ_HEAD(processes, process);

struct mn_crowd {
	pthread_mutex_t lock;
	uint32_t workers;
	struct processes here, gone; /* gone: in the order of their ends */
	struct lend_ep *ep[64];
	atomic_uint news[64]; /* processes of gone that this worker has not heard of */
};

struct mn_crowd *mn_crowd_open(uint32_t workers)
{
	struct mn_crowd *crowd = calloc(1, sizeof(*crowd));

	LEND_CHECK(workers >= 1 && workers <= 64);
	if (!crowd)
		return NULL;
	pthread_mutex_init(&crowd->lock, NULL);
	crowd->workers = workers;
	TAILQ_INIT(&crowd->here);
	TAILQ_INIT(&crowd->gone);
	return crowd;
}

static void drop_all(struct processes *list)
{
	struct process *p;

	while ((p = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, p, link);
		free(p);
	}
}

void mn_crowd_close(struct mn_crowd *crowd)
{
	if (!crowd)
		return;
	drop_all(&crowd->here);
	drop_all(&crowd->gone);
	pthread_mutex_destroy(&crowd->lock);
	free(crowd);
}

void mn_crowd_wake(struct mn_crowd *crowd, uint32_t worker, struct lend_ep *ep)
{
	pthread_mutex_lock(&crowd->lock);
	crowd->ep[worker] = ep;
	pthread_mutex_unlock(&crowd->lock);
}

static struct process *find(struct mn_crowd *crowd, const uint8_t incarnation[16])
{
	struct process *p;

	TAILQ_FOREACH(p, &crowd->here, link)
	if (!memcmp(p->incarnation, incarnation, sizeof(p->incarnation)))
		return p;
	return NULL;
}

bool mn_crowd_join(struct mn_crowd *crowd, const uint8_t incarnation[16])
{
	struct process *p;

	pthread_mutex_lock(&crowd->lock);
	p = find(crowd, incarnation);
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (p) {
			memcpy(p->incarnation, incarnation, sizeof(p->incarnation));
			TAILQ_INSERT_HEAD(&crowd->here, p, link);
		}
	}
	if (p)
		p->sessions++;
	pthread_mutex_unlock(&crowd->lock);
	return p != NULL;
}

static void tell(struct mn_crowd *crowd, struct process *p)
{
	TAILQ_REMOVE(&crowd->here, p, link);
	TAILQ_INSERT_TAIL(&crowd->gone, p, link);
	for (uint32_t w = 0; w < crowd->workers; w++) {
		p->deaf |= UINT64_C(1) << w;
		atomic_fetch_add_explicit(&crowd->news[w], 1, memory_order_release);
		if (crowd->ep[w])
			lend_stop(crowd->ep[w]);
	}
}

void mn_crowd_leave(struct mn_crowd *crowd, const uint8_t incarnation[16])
{
	struct process *p;

	pthread_mutex_lock(&crowd->lock);
	p = find(crowd, incarnation);
	LEND_CHECK(p && p->sessions);
	if (!--p->sessions)
		tell(crowd, p);
	pthread_mutex_unlock(&crowd->lock);
}

bool mn_crowd_next(struct mn_crowd *crowd, uint32_t worker, uint8_t incarnation[16])
{
	const uint64_t bit = UINT64_C(1) << worker;
	struct process *p;

	if (!atomic_load_explicit(&crowd->news[worker], memory_order_acquire))
		return false;
	pthread_mutex_lock(&crowd->lock);
	TAILQ_FOREACH(p, &crowd->gone, link)
	if (p->deaf & bit)
		break;
	LEND_CHECK(p);
	memcpy(incarnation, p->incarnation, sizeof(p->incarnation));
	p->deaf &= ~bit;
	atomic_fetch_sub_explicit(&crowd->news[worker], 1, memory_order_relaxed);
	if (!p->deaf) {
		TAILQ_REMOVE(&crowd->gone, p, link);
		free(p);
	}
	pthread_mutex_unlock(&crowd->lock);
	return true;
}
