/* worker - threads that run LEND_SLOW handlers, each with an endpoint of its own for nested calls.
 *
 * Jobs are requests, in one queue under one lock: these handlers are slow by declaration. A job
 * does not start if its caller no longer waits. Results return through lend_reply() from another
 * thread.
 * Layer: rpc. Threads: the endpoint's, and the workers.
 * Ownership: a worker owns its job's bytes until its handler returns, and its endpoint, which it
 * closes itself. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "rpc/job_queue.h"
#include "sys/clock.h"
#include "sys/last_error.h"

enum { WORKERS_DEFAULT = 2, WORKERS_MAX = 256 };

struct lend_worker {
	pthread_t thread;
	struct lend_ep *home;
	_Atomic(struct lend_ep *) ep;   /* opened at first need */
	uint64_t request;               /* id of the request in progress */
	struct lend_buf *bytes;         /* bytes of the request; NULL: taken */
	struct lend_pool_of_bufs *pool; /* its endpoint's, held while answers name its buffers */
	bool started;
};

struct lend_workers {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct lend_jobs jobs;
	bool closing;
	uint32_t n;
	struct lend_worker worker[];
};

_Thread_local struct lend_worker *lend_worker_self __attribute__((tls_model("initial-exec")));

bool lend_worker_of(struct lend_ep *home)
{
	return lend_worker_self && lend_worker_self->home == home;
}

struct lend_ep *lend_worker_ep(struct lend_ep *home)
{
	struct lend_worker *self = lend_worker_self;
	struct lend_config config = home->config;
	struct lend_ep *ep;

	if (!lend_worker_of(home))
		return home;
	ep = atomic_load_explicit(&self->ep, memory_order_relaxed);
	if (ep)
		return ep;
	config.listen = NULL;
	config.sessions = config.sessions < 64 ? config.sessions : 64;
	if (lend_ep_open(&config, &ep) < 0)
		return NULL;
	ep->home = home;
	atomic_store_explicit(&self->ep, ep, memory_order_release);
	return ep;
}

struct lend_buf *lend_worker_take(lend_request request)
{
	struct lend_worker *self = lend_worker_self;
	struct lend_buf *bytes = self->request == request.id ? self->bytes : NULL;

	if (bytes) {
		lend_mbuf(bytes)->request = request.id;
		self->bytes = NULL;
	}
	return bytes;
}

static struct lend_req *next_job(struct lend_workers *all)
{
	struct lend_req *req = NULL;

	pthread_mutex_lock(&all->lock);
	while (!all->closing && !(req = lend_jobs_pop(&all->jobs)))
		pthread_cond_wait(&all->more, &all->lock);
	pthread_mutex_unlock(&all->lock);
	return req;
}

static void *run_worker(void *arg)
{
	struct lend_worker *self = arg;
	struct lend_req *req;
	struct lend_ep *ep;

	lend_worker_self = self;
	while ((req = next_job(self->home->workers))) {
		self->request = atomic_load_explicit(&req->id, memory_order_relaxed);
		self->bytes = req->bytes;
		if (!req->deferred && lend_serve_expired(req, lend_clock_now()))
			lend_serve_drop(self->home, (lend_request){self->request});
		else
			req->handler((lend_request){self->request}, self->bytes, req->arg);
		lend_bufs_give(NULL, self->bytes);
		self->request = 0;
		ep = atomic_load_explicit(&self->ep, memory_order_relaxed);
		if (ep) /* returned wraps, goodbyes, acknowledgements */
			(void)lend_poll(ep);
	}
	ep = atomic_load_explicit(&self->ep, memory_order_relaxed);
	if (ep) {
		self->pool = ep->bufs;
		lend_bufs_ref(self->pool);
		atomic_store_explicit(&self->ep, NULL, memory_order_release);
		lend_close(ep);
	}
	return NULL;
}

int lend_workers_need(struct lend_ep *ep)
{
	uint32_t n = ep->config.workers ? ep->config.workers : WORKERS_DEFAULT;
	struct lend_workers *all;

	if (ep->workers)
		return 0;
	if (n > WORKERS_MAX)
		return lend_fail(EINVAL, "config.workers: %u threads; %d is the most", n,
				 WORKERS_MAX);
	all = calloc(1, sizeof(*all) + n * sizeof(all->worker[0]));
	if (!all)
		return lend_fail(ENOMEM, "no memory for %u workers", n);
	pthread_mutex_init(&all->lock, NULL);
	pthread_cond_init(&all->more, NULL);
	all->n = n;
	all->jobs.by_deadline = ep->config.schedule == LEND_EARLIEST_FIRST;
	ep->workers = all;
	for (uint32_t i = 0; i < n; i++) {
		struct lend_worker *worker = &all->worker[i];
		int err;

		worker->home = ep;
		err = pthread_create(&worker->thread, NULL, run_worker, worker);
		if (err) {
			lend_workers_close(ep);
			lend_workers_free(ep);
			return lend_fail(err,
					 "cannot start %u worker threads: raise ulimit -u or lower "
					 "config.workers",
					 n);
		}
		worker->started = true;
	}
	return 0;
}

void lend_workers_push(struct lend_ep *ep, struct lend_req *req)
{
	struct lend_workers *all = ep->workers;
	const struct lend_method *method = lend_methods_find(&ep->methods, req->method);

	req->name = method ? method->name : NULL;
	pthread_mutex_lock(&all->lock);
	lend_jobs_push(&all->jobs, req);
	pthread_cond_signal(&all->more);
	pthread_mutex_unlock(&all->lock);
}

int lend_request_defer(struct lend_ep *ep, lend_request request, struct lend_buf *bytes,
		       lend_handler_fn *handler, void *arg)
{
	struct lend_req *req = lend_serve_find(ep, request);
	int rc = lend_workers_need(ep);

	if (rc < 0)
		return rc;
	if (!req || req->slow || req->bytes)
		return lend_fail(ESTALE, "the request has ended, its bytes were not taken, or a "
					 "worker has it");
	req->bytes = bytes;
	req->handler = handler;
	req->arg = arg;
	req->slow = req->deferred = req->rare = true;
	lend_workers_push(ep, req);
	return 0;
}

/* After a cancel: wakes the workers, which check whether their own request was cancelled. */
void lend_workers_wake(struct lend_ep *ep)
{
	for (uint32_t i = 0; ep->workers && i < ep->workers->n; i++) {
		struct lend_ep *own =
		    atomic_load_explicit(&ep->workers->worker[i].ep, memory_order_acquire);

		if (!own)
			continue;
		atomic_store_explicit(&own->wake_workers, true, memory_order_release);
		lend_ep_wake(own);
	}
}

/* Waits for running handlers; jobs that did not start are dropped with their bytes. */
void lend_workers_close(struct lend_ep *ep)
{
	struct lend_workers *all = ep->workers;

	if (!all)
		return;
	pthread_mutex_lock(&all->lock);
	all->closing = true;
	pthread_cond_broadcast(&all->more);
	pthread_mutex_unlock(&all->lock);
	for (uint32_t i = 0; i < all->n; i++)
		if (all->worker[i].started)
			pthread_join(all->worker[i].thread, NULL);
	for (struct lend_req *req; (req = lend_jobs_pop(&all->jobs));)
		lend_bufs_give(ep->bufs, req->bytes);
}

void lend_workers_free(struct lend_ep *ep)
{
	struct lend_workers *all = ep->workers;

	if (!all)
		return;
	for (uint32_t i = 0; i < all->n; i++)
		if (all->worker[i].pool)
			lend_bufs_close(all->worker[i].pool);
	pthread_cond_destroy(&all->more);
	pthread_mutex_destroy(&all->lock);
	free(all);
	ep->workers = NULL;
}
