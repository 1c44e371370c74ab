/* pager - the thread that serves touches of missing pages, one per process, with an endpoint of its
 * own.
 *
 * It waits for the kernel's events about waiting threads, for its endpoint, and for an eventfd that
 * stops it. It never touches the memory that it serves, and takes no lock that another thread might
 * hold while touching it. Layer: cn. Threads: join and leave from any; the list of memory is under
 * the lock. */
#include "cn/paging/pager.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "cn/paging/page_source.h"
#include "cn/paging/page_fetch.h"
#include "sys/uffd.h"
#include "sys/last_error.h"
#include "util/bits.h"

#define SPIN UINT64_C(50000) /* as in lend_wait(): an answer takes less, or much more */

enum { BURST = 32 };

/* OFF -> STARTING -> ON -> ENDING -> ENDED -> OFF; STARTING -> ENDED if it cannot start. In OFF the
 * descriptors are closed, too. */
enum state { OFF, STARTING, ON, ENDING, ENDED };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct cn_paged_view **faults; /* the views that it serves, by address */
static size_t n_faults, cap_faults;
static enum state state;
static uint32_t users;
static int uffd = -1, bell = -1;
static int failure; /* -errno: why it did not start */
static char reason[256];

/* A thread's request that the pager opens the carrier of this address. */
struct connect {
	const char *home; /* NULL: done */
	int rc;
	char why[256];
};

static struct connect *asked; /* NULL: no thread waits */
static uint64_t touches, stores, prefetched;

void cn_pager_lock(void)
{
	pthread_mutex_lock(&lock);
}

void cn_pager_unlock(void)
{
	pthread_mutex_unlock(&lock);
}

/* Returns how many views begin at or below an address. */
static size_t place_of(uintptr_t at)
{
	size_t low = 0, high = n_faults;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if ((uintptr_t)faults[mid]->view.base <= at)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static struct cn_paged_view *fault_at(uintptr_t page)
{
	size_t i = place_of(page);
	struct cn_paged_view *f = i ? faults[i - 1] : NULL;

	return f && page - (uintptr_t)f->view.base < f->pages * CN_PAGE ? f : NULL;
}

static void serve_fault(const struct lend_uffd_event *event)
{
	struct cn_paged_view *f = fault_at(event->page);
	uint64_t page;

	if (!f) /* the view was freed while a thread touched it */
		return;
	page = (event->page - (uintptr_t)f->view.base) / CN_PAGE;
	if (event->was_clean) {
		stores++;
		cn_paged_store(f, page);
	} else {
		touches++;
		cn_page_fetch_touch(f, page, event->store);
	}
}

/* Serves the threads that wait, BURST at most. Returns true if there was one. */
static bool serve_faults(void)
{
	struct lend_uffd_event event;
	int n = 0;

	while (n < BURST && cn_page_fetch_room() && lend_uffd_next(uffd, &event)) {
		serve_fault(&event);
		n++;
	}
	return n > 0;
}

/* Opens the carrier that a thread asked for. */
static void serve_connect(void)
{
	uint64_t count;

	if (!asked || !asked->home)
		return;
	(void)!read(bell, &count, sizeof(count));
	asked->rc = cn_page_read_connect(asked->home);
	if (asked->rc < 0)
		strncpy(asked->why, lend_why(), sizeof(asked->why) - 1);
	asked->home = NULL;
	pthread_cond_broadcast(&changed);
}

/* Sleeps. room: a touch can be served, so wake up for touches, too. */
static void sleep_until(struct lend_ep *ep, lend_ns again, bool room)
{
	struct pollfd fds[] = {{lend_fd(ep), POLLIN, 0}, {bell, POLLIN, 0}, {uffd, POLLIN, 0}};
	lend_ns now = lend_now(ep);
	int ms = again == LEND_NEVER ? -1 : again <= now ? 0 : (int)((again - now) / 1000000) + 1;

	if (lend_prepare_sleep(ep))
		(void)poll(fds, room ? 3 : 2, ms);
}

static void run_loop(struct lend_ep *ep)
{
	lend_ns active = 0;

	for (;;) {
		int ran = lend_poll(ep);
		lend_ns now = lend_now(ep), again;
		bool busy, ended, flight, room;

		pthread_mutex_lock(&lock);
		serve_connect();
		busy = serve_faults() || ran > 0;
		again = cn_page_fetch_retry(now);
		flight = cn_page_reads_in_flight() > 0;
		room = cn_page_fetch_room();
		ended = state == ENDING;
		pthread_mutex_unlock(&lock);
		if (ended)
			return;
		if (busy)
			active = now;
		else if (!flight || now - active > SPIN)
			sleep_until(ep, again, room);
	}
}

static void set_state(enum state next)
{
	pthread_mutex_lock(&lock);
	state = next;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

static void *run_thread(void *arg)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct lend_ep *ep;
	int rc = lend_open(&config, &ep);

	(void)arg;
	(void)pthread_setname_np(pthread_self(), "lend-pager");
	if (rc == 0) {
		rc = cn_page_fetch_open(ep);
		if (rc < 0)
			lend_close(ep);
	}
	if (rc < 0) {
		failure = rc;
		strncpy(reason, lend_why(), sizeof(reason) - 1);
		set_state(ENDED);
		return NULL;
	}
	set_state(ON);
	run_loop(ep);
	lend_close(ep);
	cn_page_fetch_close();
	set_state(ENDED);
	return NULL;
}

static void close_both(void)
{
	if (uffd >= 0)
		close(uffd);
	if (bell >= 0)
		close(bell);
	uffd = bell = -1;
}

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
	cn_cache_freeze();
}

static void after_fork(void)
{
	cn_cache_thaw();
	pthread_mutex_unlock(&lock);
}

/* Resets the state in a fork's child: the thread, its endpoint and the memory stayed with the
 * parent. */
static void in_child(void)
{
	n_faults = 0;
	asked = NULL;
	users = 0;
	state = OFF;
	close_both();
	pthread_cond_init(&changed, NULL);
	after_fork();
}

static void watch_forks(void)
{
	(void)pthread_atfork(before_fork, after_fork, in_child);
}

/* Starts the thread with all signals blocked: a handler that touches the memory would wait for the
 * thread that it runs in. */
static int spawn_thread(void)
{
	sigset_t all, before;
	pthread_t thread;
	int rc;

	sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&thread, NULL, run_thread, NULL);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc == 0)
		pthread_detach(thread);
	return rc;
}

/* Opens the descriptors, then starts the thread. Called under the lock, which it releases while it
 * waits. */
static int start_pager(void)
{
	uffd = lend_uffd_open();
	if (uffd < 0)
		return uffd;
	bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (bell < 0 || spawn_thread())
		return lend_fail(
		    EAGAIN,
		    "no thread or file descriptor left to fetch pages: raise ulimit -u or -n");
	state = STARTING;
	while (state == STARTING)
		pthread_cond_wait(&changed, &lock);
	return state == ON ? 0 : lend_fail(-failure, "%s", reason);
}

static void end_pager(void)
{
	if (state == ON) {
		state = ENDING;
		(void)!write(bell, &(uint64_t){1}, 8);
		while (state != ENDED)
			pthread_cond_wait(&changed, &lock);
	}
	close_both();
	free(faults);
	faults = NULL;
	cap_faults = 0;
	state = OFF;
	pthread_cond_broadcast(&changed);
}

int cn_pager_join(struct lend_mem *mem)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	int rc = 0;

	(void)pthread_once(&once, watch_forks);
	pthread_mutex_lock(&lock);
	while (state != OFF && state != ON)
		pthread_cond_wait(&changed, &lock);
	if (state == OFF) {
		rc = start_pager();
		if (rc < 0)
			end_pager();
	}
	if (rc == 0) {
		users += !mem->paged;
		mem->paged = true;
		rc = uffd;
	}
	pthread_mutex_unlock(&lock);
	return rc;
}

void cn_pager_leave(struct lend_mem *mem)
{
	if (!mem->paged)
		return;
	mem->paged = false;
	pthread_mutex_lock(&lock);
	if (users && !--users) /* 0 in a fork's child */
		end_pager();
	pthread_mutex_unlock(&lock);
}

/* Lets the pager open a carrier, which may fail, before a thread touches the memory. The lock is
 * released while it waits. */
static int connect_pager(const char *home)
{
	struct connect ask = {.home = home};

	while (asked)
		pthread_cond_wait(&changed, &lock);
	asked = &ask;
	(void)!write(bell, &(uint64_t){1}, 8);
	while (ask.home)
		pthread_cond_wait(&changed, &lock);
	asked = NULL;
	pthread_cond_broadcast(&changed);
	return ask.rc < 0 ? lend_fail(-ask.rc, "%s", ask.why) : 0;
}

int cn_pager_add(struct cn_paged_view *f)
{
	struct cn_paged_view **more = faults;
	size_t at;
	int rc;

	pthread_mutex_lock(&lock);
	rc = connect_pager(f->home);
	if (rc < 0) {
		pthread_mutex_unlock(&lock);
		return rc;
	}
	if (n_faults == cap_faults)
		more = realloc(faults, (cap_faults * 2 + 16) * sizeof(struct cn_paged_view *));
	if (more) {
		cap_faults = n_faults == cap_faults ? cap_faults * 2 + 16 : cap_faults;
		faults = more;
		at = place_of((uintptr_t)f->view.base);
		memmove(faults + at + 1, faults + at,
			(n_faults - at) * sizeof(struct cn_paged_view *));
		faults[at] = f;
		n_faults++;
	}
	pthread_mutex_unlock(&lock);
	return more ? 0 : lend_fail(ENOMEM, "no memory to map another space");
}

bool cn_pager_del(struct cn_paged_view *f)
{
	size_t at;
	bool known;

	pthread_mutex_lock(&lock);
	at = place_of((uintptr_t)f->view.base);
	known = at && faults[at - 1] == f;
	if (known) {
		memmove(faults + at - 1, faults + at,
			(n_faults - at) * sizeof(struct cn_paged_view *));
		n_faults--;
		cn_page_fetch_drop(f);
	}
	pthread_mutex_unlock(&lock);
	return known;
}

void cn_pager_prefetched(uint64_t pages)
{
	pthread_mutex_lock(&lock);
	prefetched += pages;
	pthread_mutex_unlock(&lock);
}

void cn_pager_stat(struct lend_mem_cache_stat *stat)
{
	pthread_mutex_lock(&lock);
	stat->faults = touches;
	stat->stores = stores;
	stat->prefetched = prefetched;
	cn_page_fetch_stat(stat);
	pthread_mutex_unlock(&lock);
}
