/* wakeup_busy - see wakeup_busy.h. */
#include "apps/bench/wakeup_busy.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "apps/common/bench.h"
#include "apps/common/bench_server.h"
#include "apps/common/spawn.h"

enum {
	ROUNDS = 8,         /* turns of each variant */
	PERIOD_NS = 500000, /* from a call's end to the next one's start */
};

static atomic_bool is_over;

static void *compute_until_over(void *cpu)
{
	app_pin(*(int *)cpu);
	while (!atomic_load_explicit(&is_over, memory_order_relaxed))
		;
	return NULL;
}

/* Starts busy threads, alternately on the client's CPU and on the server's. */
static void start_busy(pthread_t *thread, int *cpu, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		cpu[i] = app_cpu(i % 2);
		if (pthread_create(&thread[i], NULL, compute_until_over, &cpu[i]))
			app_die("no thread to be busy; raise ulimit -u, or give a smaller --busy");
	}
}

static void end_busy(const pthread_t *thread, unsigned n)
{
	atomic_store(&is_over, true);
	for (unsigned i = 0; i < n; i++)
		pthread_join(thread[i], NULL);
}

/* Two threads, each sleeping in a read() of an eventfd. */
struct bounce {
	int there, back, cpu;
};

static void *answer_bounces(void *arg)
{
	const struct bounce *b = arg;
	uint64_t got;

	app_pin(b->cpu);
	while (read(b->there, &got, sizeof(got)) == (ssize_t)sizeof(got) && got == 1)
		if (write(b->back, &got, sizeof(got)) < 0)
			break;
	return NULL;
}

static void bounce_once(const struct bounce *b, struct lend_hist *hist)
{
	const struct timespec period = {.tv_nsec = PERIOD_NS};
	uint64_t got, one = 1, began;

	(void)nanosleep(&period, NULL);
	began = app_now();
	if (write(b->there, &one, sizeof(one)) < 0 || read(b->back, &got, sizeof(got)) < 0)
		app_die("cannot use an eventfd of our own; run it again");
	lend_hist_add(hist, app_now() - began);
}

static void measure_eventfd(struct lend_hist *hist, lend_ns time)
{
	struct bounce b = {eventfd(0, EFD_CLOEXEC), eventfd(0, EFD_CLOEXEC), app_cpu(1)};
	const uint64_t end = 2;
	lend_ns until = app_now() + time;
	pthread_t thread;

	if (b.there < 0 || b.back < 0 || pthread_create(&thread, NULL, answer_bounces, &b))
		app_die("no eventfd or no thread: raise ulimit -n and -u");
	while (app_now() < until)
		bounce_once(&b, hist);
	if (write(b.there, &end, sizeof(end)) == (ssize_t)sizeof(end))
		pthread_join(thread, NULL);
	close(b.there);
	close(b.back);
}

/* Makes one call at a time. This end waits inside the library, between calls as well. */
static void measure_calls(struct app_bench *b, struct lend_hist *hist, lend_ns time)
{
	lend_ns until = app_now() + time;

	b->load.quiet = true;
	b->load.sleep = true;
	b->load.time = 0;
	b->load.max = 1;
	do {
		if (lend_run(b->pair.ep, lend_now(b->pair.ep) + PERIOD_NS) < 0 ||
		    app_load_run(&b->load, b->order, 1) < 0 || b->load.errors)
			app_die("a call failed; is the machine out of memory?");
		lend_hist_merge(hist, &b->load.hist);
	} while (app_now() < until);
}

static void write_report(const struct app_load_args *args, unsigned busy,
			 const struct lend_hist *calls, const struct lend_hist *eventfd)
{
	double p99 = app_hist_us(calls, 0.99), bare = app_hist_us(eventfd, 0.99);
	struct app_report r;

	app_report_begin(&r, args->json, "wait: calls at a low rate next to busy threads");
	app_report_int(&r, "busy", busy, "threads that compute, half of them on each end's CPU");
	app_report_num(&r, "p50_us", app_hist_us(calls, 0.5), 2, "us, a call");
	app_report_num(&r, "p99_us", p99, 2, "us");
	app_report_num(&r, "eventfd_p50_us", app_hist_us(eventfd, 0.5), 2,
		       "us, round trip of two threads that sleep on eventfds");
	app_report_num(&r, "eventfd_p99_us", bare, 2, "us");
	app_report_num(&r, "p99_over_eventfd", p99 / bare, 3,
		       "a call : the round trip on eventfds");
	app_report_int(&r, "calls", calls->count, "");
	app_report_carrier(&r, args->carrier);
	app_report_end(&r);
}

int app_wait_busy(const struct app_load_args *args, unsigned busy)
{
	static struct lend_hist calls, eventfd;
	static struct app_bench bench;
	struct app_load_args with = *args;
	lend_ns part = args->time / ROUNDS / 2;
	pthread_t thread[APP_BUSY_MAX];
	int cpu[APP_BUSY_MAX];

	lend_hist_init(&calls);
	lend_hist_init(&eventfd);
	with.sleep = true;
	app_bench_open(&bench, &with, APP_METHOD_ECHO);
	start_busy(thread, cpu, busy);
	measure_calls(&bench, &calls, part);
	lend_hist_init(&calls); /* warmed up: the waiting strategy has detected the busy CPUs */
	for (int i = 0; i < ROUNDS; i++) {
		measure_calls(&bench, &calls, part);
		measure_eventfd(&eventfd, part);
	}
	end_busy(thread, busy);
	app_bench_close(&bench);
	write_report(args, busy, &calls, &eventfd);
	return bench.load.wrong_bytes ? APP_EXIT_FAILED : APP_EXIT_OK;
}
