/* lease_renew - keeps a process's leases while its threads are busy with other things.
 *
 * Any traffic renews a lease, but a thread that computes for longer than the lease sends none. So
 * one small thread per process, with an endpoint of its own, joins the process's life at each node.
 * It does so again three times per lease, which renews the lease. The thread starts with the first
 * node and ends with the last. It opens its endpoint shortly before the first renewal is due, so
 * that a process that lives for less than that does without.
 * Layer: cn. Threads: join, life and leave from any. The lock protects the list; the calls and
 * sessions are the thread's. */
#include "cn/client.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cn/life.h"
#include "sys/clock.h"
#include "util/bits.h"

#define PERIOD_MAX UINT64_C(10000000000)
#define PERIOD_MIN UINT64_C(5000000)
#define OPEN_NS    UINT64_C(1000000000) /* for the thread to open its endpoint and a session */

struct entry {
	LIST_ENTRY(entry) link;
	char home[CN_HOME_MAX];
	uint32_t client;
	uint64_t life;
	lend_ns lease;
	bool gone;
	/* used by the thread only: */
	bool busy, connected, knocks;
	lend_session session;
	uint32_t name; /* number of the name under which it was dialled */
	lend_ns next;
	struct lend_call call;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LIST_HEAD(, entry) entries = LIST_HEAD_INITIALIZER(entries);
static uint32_t alive; /* entries that are not gone */
static bool running;
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* entries: while ep is NULL */
static struct lend_ep
    *ep; /* endpoint that lend_stop() wakes: under the lock; NULL while it is closed */
static struct lend_ep *mine; /* endpoint of the renewing thread, for that thread only */

static void renew_done(struct lend_call *call)
{
	struct entry *e = (struct entry *)((char *)call - offsetof(struct entry, call));

	if (call->request)
		lend_buf_give(mine, call->request);
	if (call->reply)
		lend_buf_give(mine, call->reply);
	call->request = call->reply = NULL;
	e->busy = false;
	if (e->knocks && call->ran == LEND_RAN_YES)
		e->next = 0;
	if (call->status == LEND_UNAVAILABLE && e->connected) {
		lend_disconnect(mine, e->session);
		e->connected = false;
	}
}

static void renew_lease(struct lend_ep *own, struct entry *e)
{
	struct lend_memop say;
	struct lend_buf *head;

	if (e->connected && cn_life_renamed(e->home, e->name)) {
		lend_disconnect(own, e->session);
		e->connected = false;
	}
	if (!e->connected && cn_life_connect(own, e->home, &e->session, &e->name) < 0)
		return;
	e->connected = true;
	if (!cn_life_encode(own, e->session, e->home, 0, &say))
		return;
	e->knocks = say.kind == LEND_MEMOP_RENEW;
	head = lend_buf_take(own, LEND_MEMOP_FIXED_MAX);
	if (!head)
		return;
	head->len = lend_memop_encode(&say, head->data);
	head->next = NULL;
	memset(&e->call, 0, sizeof(e->call));
	e->call.method = LEND_MEM_METHOD;
	e->call.timeout = e->lease;
	e->call.request = head;
	e->call.done = renew_done;
	e->busy = lend_call_start(own, e->session, &e->call) == 0;
	if (!e->busy) {
		lend_buf_give(own, head);
		lend_disconnect(own, e->session);
		e->connected = false;
	}
}

/* Returns whether an earlier entry renews the same lease. A lease belongs to the process: of
 * several clients of one node, the first entry renews it. */
static bool renewed_by_other(const struct entry *e)
{
	const struct entry *o;

	for (o = LIST_FIRST(&entries); o != e; o = LIST_NEXT(o, link))
		if (!o->gone && o->life == e->life && !strcmp(o->home, e->home))
			return true;
	return false;
}

/* Frees entries of closed clients when their call has ended. */
static void free_closed(struct lend_ep *own)
{
	struct entry *e, *after;

	for (e = LIST_FIRST(&entries); e; e = after) {
		after = LIST_NEXT(e, link);
		if (!e->gone || e->busy)
			continue;
		if (e->connected)
			lend_disconnect(own, e->session);
		LIST_REMOVE(e, link);
		free(e);
	}
}

static lend_ns period_of(const struct entry *e)
{
	return lend_max_u64(lend_min_u64(e->lease / 3, PERIOD_MAX), PERIOD_MIN);
}

/* Sends the renewals that are due. Returns when to check again. */
static lend_ns send_renewals(struct lend_ep *own)
{
	lend_ns now = lend_now(own), next = now + PERIOD_MAX;
	struct entry *e;

	LIST_FOREACH(e, &entries, link)
	{
		if (e->gone || !e->life || renewed_by_other(e))
			continue;
		if (now >= e->next && !e->busy) {
			e->next = now + period_of(e);
			renew_lease(own, e);
		}
		next = lend_min_u64(next, lend_max_u64(e->next, now + PERIOD_MIN));
	}
	return next;
}

/* Frees the remaining entries after the last client left, when there is no thread to do it. */
static void free_entries(void)
{
	struct entry *e;

	while (!alive && (e = LIST_FIRST(&entries))) {
		LIST_REMOVE(e, link);
		free(e);
	}
}

static void serve_entries(struct lend_ep *own)
{
	pthread_mutex_lock(&lock);
	for (ep = mine = own; alive;) {
		lend_ns until;

		free_closed(own);
		until = send_renewals(own);

		pthread_mutex_unlock(&lock);
		(void)lend_run(own, until);
		pthread_mutex_lock(&lock);
	}
	ep = NULL;
	pthread_mutex_unlock(&lock);
	lend_close(own);
}

/* Returns when the first renewal is due. */
static lend_ns first_due(void)
{
	lend_ns due = LEND_NEVER;
	struct entry *e;

	LIST_FOREACH(e, &entries, link)
	if (!e->gone && e->life)
		due = lend_min_u64(due, e->next);
	return due;
}

/* Sleeps until a renewal is due, or no client is left. */
static void await_due(void)
{
	while (alive && first_due() > lend_clock_now()) {
		lend_ns until = lend_min_u64(first_due(), lend_clock_now() + PERIOD_MAX);
		struct timespec at = {.tv_sec = (time_t)(until / 1000000000),
				      .tv_nsec = (long)(until % 1000000000)};

		(void)pthread_cond_clockwait(&changed, &lock, CLOCK_MONOTONIC, &at);
	}
}

static void *run_thread(void *arg)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *own;
	bool fine = true;

	(void)arg;
	pthread_mutex_lock(&lock);
	while (await_due(), alive && fine) { /* a join may come while the endpoint closes */
		pthread_mutex_unlock(&lock);
		fine = lend_open(&config, &own) ==
		       0; /* if it fails, ordinary traffic still renews the leases */
		if (fine)
			serve_entries(own);
		pthread_mutex_lock(&lock);
	}
	running = false;
	free_entries();
	pthread_cond_broadcast(&ended);
	pthread_mutex_unlock(&lock);
	return NULL;
}

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

/* Resets the state in a fork's child: the thread, its endpoint and the leases stayed with the
 * parent. */
static void in_child(void)
{
	alive = 0;
	running = false;
	ep = mine = NULL;
	pthread_cond_init(&ended, NULL);
	pthread_cond_init(&changed, NULL);
	free_entries();
	pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
	(void)pthread_atfork(before_fork, after_fork, in_child);
}

static void start_thread(void)
{
	pthread_t thread;

	if (running || pthread_create(&thread, NULL, run_thread, NULL))
		return;
	running = true;
	pthread_detach(thread);
}

static void wake_thread(void)
{
	if (ep)
		lend_stop(ep);
	pthread_cond_signal(&changed);
}

int cn_renew_join(const char *home, uint32_t client)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct entry *e = calloc(1, sizeof(*e));

	if (!e)
		return -1;
	(void)pthread_once(&once, watch_forks);
	strcpy(e->home, home);
	e->client = client;
	pthread_mutex_lock(&lock);
	LIST_INSERT_HEAD(&entries, e, link);
	alive++;
	pthread_mutex_unlock(&lock);
	return 0;
}

static struct entry *find_entry(const char *home, uint32_t client)
{
	struct entry *e;

	LIST_FOREACH(e, &entries, link)
	if (!e->gone && e->client == client && !strcmp(e->home, home))
		return e;
	return NULL;
}

void cn_renew_life(const char *home, uint32_t client, uint64_t life, lend_ns lease)
{
	struct entry *e;

	pthread_mutex_lock(&lock);
	e = find_entry(home, client);
	if (e) {
		e->life = life;
		e->lease = lease;
		e->next =
		    ep ? 0 : lend_clock_now() + period_of(e) - lend_min_u64(period_of(e), OPEN_NS);
		start_thread(); /* without it traffic still renews */
		wake_thread();
	}
	pthread_mutex_unlock(&lock);
}

void cn_renew_leave(const char *home, uint32_t client)
{
	struct entry *e;

	pthread_mutex_lock(&lock);
	e = find_entry(home, client);
	if (e) {
		e->gone = true;
		alive--;
		wake_thread();
	}
	while (!alive && running)
		pthread_cond_wait(&ended, &lock);
	free_entries();
	pthread_mutex_unlock(&lock);
}
