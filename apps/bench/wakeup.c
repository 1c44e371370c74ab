/* wakeup - the cost of waiting: the latency of a sleeping server, and the CPU time of spinning and
 * of idle sessions.
 *
 * Each result is compared with a lower bound: a thread that sleeps in a read of an eventfd, a
 * server that polls all the time, an idle core. Compared variants take turns in one run. Layer:
 * apps. Threads: one, and the one that sleeps on the bare eventfd. */
#include <dirent.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "apps/commands.h"
#include "apps/common/options.h"
#include "apps/common/bench.h"
#include "apps/common/cacheline_rtt.h"
#include "apps/common/bench_server.h"
#include "apps/bench/wakeup_busy.h"
#include "lend/stats.h"

enum {
	ROUNDS = 4,        /* turns of each variant */
	IDLE = 128,        /* sessions, by default */
	PAUSE_NS = 250000, /* long enough that the waiting thread is asleep */
};

struct args {
	struct app_load_args load;
	unsigned idle; /* sessions; 0: not given */
	unsigned busy; /* threads; 0: measure everything else instead */
};

/* The results of a run; times in ns. */
struct waits {
	struct lend_hist bare; /* from write() to an eventfd until the sleeping thread has run */
	struct lend_hist slept, awake; /* a call to a sleeping server; to a spinning one */
	struct lend_hist hybrid,
	    polled;     /* latencies of calls back to back: both ends may sleep; neither does */
	double line_ns; /* round trip of a cache line: the bare answer without a sleep */
	double idle_server, idle_client; /* percent of a core */
	uint64_t wrong_bytes;
	double sleeps; /* sleeps per second of the idle client endpoint */
	double wakes;  /* times per second that a thread of the idle server has slept */
};

struct sleeper {
	int fd, cpu;
	_Alignas(128) atomic_uint ran; /* wake-ups that the thread answered */
};

static void *sleep_bare(void *arg)
{
	struct sleeper *s = arg;
	uint64_t got;

	app_pin(s->cpu);
	while (read(s->fd, &got, sizeof(got)) == (ssize_t)sizeof(got) && got == 1)
		atomic_fetch_add_explicit(&s->ran, 1, memory_order_release);
	return NULL;
}

static void pause_ns(lend_ns ns)
{
	for (lend_ns until = app_now() + ns; app_now() < until;)
		;
}

/* Measures one wake-up, in the thread that causes it. */
static void wake_bare(struct sleeper *s, struct lend_hist *hist)
{
	unsigned ran = atomic_load_explicit(&s->ran, memory_order_relaxed);
	const uint64_t one = 1;
	uint64_t began;

	pause_ns(PAUSE_NS);
	began = app_ticks();
	if (write(s->fd, &one, sizeof(one)) != (ssize_t)sizeof(one))
		app_die("cannot write to an eventfd of our own; run it again");
	while (atomic_load_explicit(&s->ran, memory_order_acquire) == ran)
		;
	lend_hist_add(hist, (uint64_t)((double)(app_ticks() - began) / app_ticks_per_ns()));
}

static void measure_bare(struct lend_hist *hist, lend_ns time)
{
	struct sleeper s = {.fd = eventfd(0, EFD_CLOEXEC), .cpu = app_cpu(1)};
	const uint64_t end = 2;
	lend_ns until = app_now() + time;
	pthread_t thread;

	if (s.fd < 0 || pthread_create(&thread, NULL, sleep_bare, &s))
		app_die("no eventfd or no thread: raise ulimit -n and -u");
	do
		wake_bare(&s, hist);
	while (app_now() < until);
	if (write(s.fd, &end, sizeof(end)) == (ssize_t)sizeof(end))
		pthread_join(thread, NULL);
	close(s.fd);
}

/* Makes calls for time, one at a time, each after a pause. This end polls. */
static void measure_calls(struct app_bench *b, struct lend_hist *hist, lend_ns pause, lend_ns time)
{
	lend_ns until = app_now() + time;

	b->load.quiet = true;
	b->load.sleep = false;
	b->load.time = 0;
	b->load.max = 1;
	do {
		for (lend_ns go = app_now() + pause; app_now() < go;)
			lend_poll(b->pair.ep);
		if (app_load_run(&b->load, b->order, 1) < 0 || b->load.errors)
			app_die("a call failed; is the machine out of memory?");
		lend_hist_merge(hist, &b->load.hist);
	} while (app_now() < until);
}

static void measure_wakes(const struct app_load_args *args, struct waits *w)
{
	static struct app_bench bench;
	struct app_load_args with = *args;
	lend_ns part = args->time / ROUNDS / 8;

	with.sleep = true;
	app_bench_open(&bench, &with, APP_METHOD_ECHO);
	for (int i = 0; i < ROUNDS; i++) {
		measure_calls(&bench, &w->awake, 0, part / 2);
		measure_calls(&bench, &w->slept, PAUSE_NS, part);
		measure_bare(&w->bare, part);
	}
	w->wrong_bytes += bench.load.wrong_bytes;
	app_bench_close(&bench);
}

static void measure_ping_pong(const struct app_load_args *args, struct waits *w)
{
	static struct app_bench bench;
	struct app_load_args with = *args;

	with.time = args->time / ROUNDS / 8;
	for (int i = 0; i < 2 * ROUNDS; i++) {
		with.sleep = i % 2;
		app_bench_open(&bench, &with, APP_METHOD_ECHO);
		app_bench_run(&bench);
		lend_hist_merge(with.sleep ? &w->hybrid : &w->polled, &bench.load.hist);
		w->wrong_bytes += bench.load.wrong_bytes;
		app_bench_close(&bench);
	}
}

static double cpu_seconds(clockid_t clock)
{
	struct timespec t = {0};

	(void)clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Returns how often a thread gave its CPU up: "voluntary_ctxt_switches" of /proc. */
static uint64_t count_switches(pid_t pid, const char *task)
{
	char path[300], line[128];
	uint64_t n = 0;
	FILE *file;

	(void)snprintf(path, sizeof(path), "/proc/%d/task/%s/status", (int)pid, task);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		(void)sscanf(line, "voluntary_ctxt_switches: %" SCNu64, &n);
	if (file)
		(void)fclose(file);
	return n;
}

/* Returns how often the threads of a process have slept, those of DPDK, too. */
static uint64_t count_sleeps(pid_t pid)
{
	struct dirent *at;
	char folder[40];
	uint64_t n = 0;
	DIR *dir;

	(void)snprintf(folder, sizeof(folder), "/proc/%d/task", (int)pid);
	dir = opendir(folder);
	while (dir && (at = readdir(dir)) != NULL)
		n += at->d_name[0] == '.' ? 0 : count_switches(pid, at->d_name);
	if (dir)
		(void)closedir(dir);
	return n;
}

static void measure_idle(const struct args *args, struct waits *w)
{
	static struct app_bench bench;
	struct app_load_args with = args->load;
	struct lend_stats before, after;
	uint64_t sleeps;
	double here, there, seconds = (double)args->load.time / 4e9;
	clockid_t server;

	with.sleep = true;
	with.sessions = args->idle;
	app_bench_open(&bench, &with, APP_METHOD_ECHO);
	if (clock_getcpuclockid(bench.pair.child.pid, &server))
		app_die("cannot see the server's CPU time; run as its user");
	lend_run(bench.pair.ep, lend_now(bench.pair.ep) + PAUSE_NS);
	lend_stats_get(bench.pair.ep, &before);
	here = cpu_seconds(CLOCK_THREAD_CPUTIME_ID);
	there = cpu_seconds(server);
	sleeps = count_sleeps(bench.pair.child.pid);
	lend_run(bench.pair.ep, lend_now(bench.pair.ep) + (lend_ns)(seconds * 1e9));
	w->idle_client = 100 * (cpu_seconds(CLOCK_THREAD_CPUTIME_ID) - here) / seconds;
	w->idle_server = 100 * (cpu_seconds(server) - there) / seconds;
	w->wakes = (double)(count_sleeps(bench.pair.child.pid) - sleeps) / seconds;
	lend_stats_get(bench.pair.ep, &after);
	w->sleeps = (double)(after.sleeps - before.sleeps) / seconds;
	app_bench_close(&bench);
}

static double p50(const struct lend_hist *hist)
{
	return app_hist_us(hist, 0.5);
}

static void write_report(const struct args *args, const struct waits *w)
{
	double wake = p50(&w->slept) - p50(&w->awake), bare = p50(&w->bare) - w->line_ns / 1e3;
	struct app_report r;

	app_report_begin(&r, args->load.json, "wait: sleeping, spinning and doing nothing");
	app_report_num(&r, "wake_us", wake, 2, "us, added to a call by a sleeping server");
	app_report_num(&r, "wake_bare_us", bare, 2, "us, a thread asleep on a bare eventfd");
	app_report_num(&r, "wake_of_bare", wake / bare, 2, "sleeping server : bare eventfd");
	app_report_num(&r, "slept_p50_us", p50(&w->slept), 2, "us, a call to a sleeping server");
	app_report_num(&r, "hybrid_p50_us", p50(&w->hybrid), 3, "us, a call; both ends may sleep");
	app_report_num(&r, "polled_p50_us", p50(&w->polled), 3, "us, a call; both ends only poll");
	app_report_num(&r, "hybrid_of_polled", p50(&w->hybrid) / p50(&w->polled), 3, "");
	app_report_int(&r, "idle_sessions", args->idle, "open, without a call");
	app_report_num(&r, "idle_server_percent", w->idle_server, 3, "of a core, their server");
	app_report_num(&r, "idle_client_percent", w->idle_client, 3, "of a core, their client");
	app_report_num(&r, "idle_sleeps_per_s", w->sleeps, 1, "of the client");
	app_report_num(&r, "idle_server_wakes_per_s", w->wakes, 1, "of all threads of the server");
	app_report_num(&r, "line_ns", w->line_ns, 1, "ns, round trip of a cache line");
	app_report_int(&r, "wrong_bytes", w->wrong_bytes, "");
	app_report_carrier(&r, args->load.carrier);
	app_report_end(&r);
}

static const struct lend_option options[] = {
    OPT_NUMBER(struct args, idle, "idle", 1, 1024, "Idle sessions (128)"),
    OPT_NUMBER(struct args, busy, "busy", 1, APP_BUSY_MAX,
	       "Only this: calls and eventfds next to N threads that compute"),
    {.name = NULL}};

static const char doc[] =
    "Cost of waiting, compared with a bare eventfd.\v"
    "The extra time of a call to a sleeping server is compared with the wake-up of a thread that "
    "sleeps in a read of an eventfd. Calls back to back where both ends may sleep are compared "
    "with both polling. Then the CPU time of idle sessions.\n\n"
    "With --busy, threads compute on the CPUs of both ends. One call every 0.5 ms, and in turns "
    "with that a round trip of two threads that sleep on eventfds: p99_over_eventfd compares "
    "them.\n\n"
    "  lend bench wait --seconds 4\n"
    "  lend bench wait --carrier udp --idle 128 --json\n"
    "  lend bench wait --busy 4 --json";

int app_wait(int argc, char **argv)
{
	const struct lend_syntax syntax = {.option = options,
					   .child = &app_load_syntax,
					   .child_at = offsetof(struct args, load),
					   .some = "carrier seconds json",
					   .doc = doc};
	static struct waits w;
	struct args args = {.load = APP_LOAD_ARGS_INIT};

	app_options_read(&syntax, argc, argv, &args);
	if (args.load.carrier == APP_DPDK_RING || app_cpus() < 2)
		app_bad("the server is a process of its own on a CPU of its own: leave out "
			"dpdk:ring, and give two CPUs");
	args.load.window = args.load.sessions = 1;
	if (args.busy && args.idle)
		app_bad("--busy measures no idle sessions; leave out --idle or --busy");
	if (args.busy)
		return app_wait_busy(&args.load, args.busy);
	if (!args.idle)
		args.idle = IDLE;
	lend_hist_init(&w.bare);
	lend_hist_init(&w.slept);
	lend_hist_init(&w.awake);
	lend_hist_init(&w.hybrid);
	lend_hist_init(&w.polled);
	w.line_ns = app_cacheline_ns(app_cpu(0), app_cpu(1));
	measure_wakes(&args.load, &w);
	measure_ping_pong(&args.load, &w);
	measure_idle(&args, &w);
	write_report(&args, &w);
	return w.wrong_bytes ? APP_EXIT_FAILED : APP_EXIT_OK;
}
