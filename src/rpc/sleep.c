/* sleep - time of the next turn: spin for a time that adapts to recent waits (adaptive_spin.h),
 * then sleep until a carrier, a timer or another thread wakes the endpoint.
 *
 * To sleep: set asleep, full fence, check everything again, wait on one epoll of the carriers, a
 * timerfd and an eventfd. The first microseconds of a spin keep the core. After that each poll
 * yields it, because two processes that share a core would otherwise wait for each other's time
 * slice. If other threads compute on this core, it does not yield but sleeps early: see
 * adaptive_spin.h.
 * Layer: rpc. Threads: the endpoint's, but for lend_stop() and lend_ep_wake(). */
#include <errno.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "rpc/endpoint.h"
#include "sys/clock.h"
#include "sys/last_error.h"

/* Descriptors of the endpoint's epoll: carriers, timer, eventfd, descriptors.c. */
enum { SOURCES = LEND_CARRIERS_MAX + 3 };

static inline void pause_cpu(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#endif
}

void lend_ep_wake(struct lend_ep *ep)
{
	uint64_t one = 1;

	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&ep->asleep, memory_order_relaxed)) {
		ssize_t n = write(ep->wake, &one, sizeof(one));

		(void)n; /* full means awake already */
	}
}

void lend_stop(struct lend_ep *ep)
{
	int err = errno;

	atomic_fetch_add_explicit(&ep->touching, 1, memory_order_relaxed);
	atomic_store_explicit(&ep->stop, true, memory_order_release);
	atomic_store_explicit(&ep->wait_stopped, true, memory_order_release);
	lend_ep_wake(ep);
	atomic_fetch_sub_explicit(&ep->touching, 1, memory_order_release);
	errno = err;
}

int lend_ep_watch_fd(struct lend_ep *ep, int fd)
{
	struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

	if (fd < 0 || epoll_ctl(ep->epoll, EPOLL_CTL_ADD, fd, &event) == 0 || errno == EEXIST)
		return 0;
	return lend_fail(
	    errno, "cannot watch a carrier's file descriptor: raise ulimit -n or fs.epoll limits");
}

/* Returns the time at which the next turn must run if nothing arrives. */
static lend_ns next_time(struct lend_ep *ep)
{
	lend_ns at = lend_core_deadline(ep->core), retry = ep->now + LEND_RETRY_NS;
	lend_ns blind = (ep->now - ep->active) / LEND_SLEEP_SHARE;

	blind = lend_min_u64(lend_max_u64(blind, LEND_SLEEP_MIN_NS), LEND_SLEEP_MAX_NS);
	if ((ep->lent || ep->pending != LEND_NONE32) && retry < at)
		at = retry;
	if (ep->alarms && ep->alarms->at < at)
		at = ep->alarms->at;
	if (ep->queued != LEND_NONE32 && ep->queue_at < at)
		at = ep->queue_at;
	for (uint32_t c = 0; c < ep->n_carriers; c++) {
		struct lend_io *io = ep->carrier[c].io;

		if (io->ops->fd(io) < 0 && ep->now + blind < at)
			at = ep->now + blind;
		if (io->due && io->due < at)
			at = io->due;
	}
	return at;
}

static void set_timer(struct lend_ep *ep, lend_ns at)
{
	struct itimerspec spec = {.it_value = {.tv_sec = 0}};

	if (at == ep->timer_at)
		return;
	ep->timer_at = at;
	if (at != LEND_NEVER) {
		at = at ? at : 1; /* zero would disarm */
		spec.it_value.tv_sec = (time_t)(at / 1000000000u);
		spec.it_value.tv_nsec = (long)(at % 1000000000u);
	}
	(void)timerfd_settime(ep->timer, TFD_TIMER_ABSTIME, &spec, NULL);
}

/* Clears what lend_stop() set for the next wait; false: nothing. */
static bool clear_stop(struct lend_ep *ep)
{
	return atomic_load_explicit(&ep->wait_stopped, memory_order_relaxed) &&
	       atomic_exchange_explicit(&ep->wait_stopped, false, memory_order_acquire);
}

static bool has_mail(struct lend_ep *ep)
{
	return atomic_load_explicit(&ep->answers, memory_order_relaxed) ||
	       atomic_load_explicit(&ep->wait_stopped, memory_order_relaxed) ||
	       atomic_load_explicit(&ep->wake_workers, memory_order_relaxed) ||
	       atomic_load_explicit(&ep->bufs->inbox, memory_order_relaxed);
}

/* Prepares to sleep until a time. False: run a turn instead. asleep stays set until
 * clear_wakeups(). */
static bool prepare_sleep(struct lend_ep *ep, lend_ns until)
{
	lend_ns at = next_time(ep);
	bool quiet = !ep->dirty && !ep->ended;

	atomic_store_explicit(&ep->asleep, true, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	quiet = quiet && !has_mail(ep);
	for (uint32_t c = 0; quiet && c < ep->n_carriers; c++)
		quiet = ep->carrier[c].io->ops->arm(ep->carrier[c].io);
	at = at < until ? at : until;
	if (!quiet || at <= lend_clock_now()) {
		atomic_store_explicit(&ep->asleep, false, memory_order_relaxed);
		return false;
	}
	set_timer(ep, at);
	return true;
}

/* Clears the timer and the eventfd after a sleep; carriers clear their descriptors in rx(). */
static void clear_wakeups(struct lend_ep *ep, const struct epoll_event *event, int n)
{
	atomic_store_explicit(&ep->asleep, false, memory_order_relaxed);
	for (int i = 0; i < n; i++) {
		uint64_t count;
		ssize_t got = 0;

		if (event[i].data.fd == ep->timer)
			ep->timer_at = LEND_NEVER;
		if (event[i].data.fd == ep->timer || event[i].data.fd == ep->wake)
			got = read(event[i].data.fd, &count, sizeof(count));
		(void)got;
	}
}

/* Returns when it ended. */
static lend_ns sleep_until(struct lend_ep *ep, lend_ns until)
{
	struct epoll_event event[SOURCES];
	lend_ns now;
	int n;

	if (!prepare_sleep(ep, until))
		return ep->now;
	ep->stats.sleeps++;
	n = epoll_wait(ep->epoll, event, SOURCES, -1);
	now = lend_clock_now();
	if (n != 1 || event[0].data.fd != ep->timer) /* sleeps grow until work arrives */
		ep->active = now;
	clear_wakeups(ep, event, n);
	return now;
}

/* Ends a sleep that lend_prepare_sleep() began for the user's own event loop. */
static __attribute__((noinline)) void awake_elsewhere(struct lend_ep *ep)
{
	struct epoll_event event[SOURCES];

	clear_wakeups(ep, event, epoll_wait(ep->epoll, event, SOURCES, 0));
}

int lend_poll(struct lend_ep *ep)
{
	int rc = lend_ep_check(ep);

	if (rc < 0)
		return rc;
	if (atomic_load_explicit(&ep->asleep, memory_order_relaxed))
		awake_elsewhere(ep);
	return lend_ep_turn(ep);
}

/* For a poll that took too long: returns whether another thread had the core meanwhile, and notes
 * it. An interrupt or a pause of the virtual machine switches no threads. */
static __attribute__((noinline)) bool lost_core(struct lend_ep *ep)
{
	struct rusage use = {.ru_nivcsw = 0};

	(void)getrusage(RUSAGE_THREAD, &use);
	return lend_contention_switched(&ep->contention, use.ru_nivcsw);
}

/* Sleeps, yields or spins until the next poll. spun: as of lend_spin_credit_slept(). Returns the
 * time since which this thread is awake. */
static __attribute__((noinline)) lend_ns pass_time(struct lend_ep *ep, lend_ns until, lend_ns idle,
						   lend_ns spun)
{
	if (idle >= lend_spin_limit(&ep->contention, &ep->spin_credit, ep->spin)) {
		lend_spin_credit_slept(&ep->spin_credit, spun);
		return sleep_until(ep, until);
	}
	if (ep->contention.skip)
		pause_cpu();
	else
		sched_yield();
	return ep->now;
}

/* Notes what a poll found, from the time on since which this thread was awake. Returns the time of
 * the spin up to now. */
static lend_ns note_poll(struct lend_ep *ep, lend_ns from, lend_ns spun)
{
	spun = lend_spin_polled(spun, ep->now - from);
	if (ep->active != ep->now)
		return spun;
	lend_spin_credit_worked(&ep->spin_credit, spun);
	return 0;
}

int lend_wait(struct lend_ep *ep, lend_ns until)
{
	int rc = lend_poll(ep);
	lend_ns start = ep->now, spun = 0;
	bool lost = false, long_wait = false;

	while (rc == 0 && ep->now < until && !clear_stop(ep)) {
		lend_ns idle = ep->now - (ep->active > start ? ep->active : start), from = ep->now;
		uint64_t sleeps = ep->stats.sleeps;

		if (idle < LEND_SPIN_HARD_NS) {
			pause_cpu();
		} else {
			from = pass_time(ep, until, idle, spun);
			long_wait = true;
		}
		rc = lend_ep_turn(ep);
		spun = ep->stats.sleeps == sleeps ? note_poll(ep, from, spun) : 0;
		if (__builtin_expect(ep->now > from + LEND_LOST_NS, 0))
			lost |= lost_core(ep);
	}
	if (long_wait && !lost)
		lend_contention_waited(&ep->contention);
	if (rc > 0 && ep->now > start)
		ep->spin = lend_spin_adapt(ep->spin, ep->now - start);
	return rc;
}

int lend_run(struct lend_ep *ep, lend_ns until)
{
	int rc = lend_ep_check(ep);

	while (rc >= 0 && !atomic_exchange_explicit(&ep->stop, false, memory_order_acquire)) {
		rc = lend_wait(ep, until);
		if (ep->now >= until)
			break;
	}
	return rc < 0 ? rc : 0;
}

int lend_fd(struct lend_ep *ep)
{
	return ep->epoll;
}

bool lend_prepare_sleep(struct lend_ep *ep)
{
	return lend_ep_check(ep) == 0 && !clear_stop(ep) && prepare_sleep(ep, LEND_NEVER);
}

lend_ns lend_now(struct lend_ep *ep)
{
	(void)ep;
	return lend_clock_now();
}
