/* malloc - lend_malloc() compared with other heaps, with two threads.
 * Layer: apps. Threads: two while measuring. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "apps/commands.h"
#include "apps/common/options.h"
#include "apps/common/cacheline_rtt.h"
#include "apps/common/closed_loop.h"
#include "apps/common/report.h"
#include "apps/common/samples.h"
#include "apps/common/spawn.h"
#include "apps/bench/malloc_heap.h"
#include "lend/alloc.h"
#include "util/rng.h"

enum {
	SIZES = 6,
	ROUNDS_MAX = 99,
	OBJECTS = 16384,
	LIVE = 64,
	BURST = 32,
	RING = 512,
	KEYS = 4096,
	NO_WATCH = -1
};
enum pattern { LOCAL, PAIR, PATTERNS };
static const char *const names[] = {"local", "pair"};
static const size_t sizes[SIZES] = {64, 256, 1024, 4096, 16384, 65536};

struct bench {
	lend_ns time;
	bool json;
	struct app_heap heap[APP_HEAPS];
	double ns[PATTERNS][SIZES][APP_HEAPS][ROUNDS_MAX];
	unsigned rounds;
	_Atomic uint64_t wrong;
	unsigned together; /* races in which both threads ended on one CPU */
	double key_ns, line_ns;
};

/* One race: two threads with one heap and one size. */
struct race {
	const struct app_heap *heap;
	size_t len;
	enum pattern pattern;
	struct bench *bench;
	int cpu; /* CPU of the second thread, at its end */
	pthread_barrier_t start;
	/* Ring from one thread to the other. The counts are published in bursts, like the turns of
	 * an endpoint. */
	_Alignas(64) _Atomic uint64_t put;
	_Alignas(64) _Atomic uint64_t got;
	_Alignas(64) uint64_t *ring[RING];
};

static const struct lend_option options[] = {
    OPT_TIME(struct bench, time, "seconds", "How long to measure (10)", .key = 't'),
    OPT_JSON(struct bench, json),
    {.name = NULL}};

static uint64_t *take_object(const struct race *r)
{
	uint64_t *p = r->heap->take(r->len);

	if (!p)
		app_die("%s: no memory for %zu bytes; end some processes", r->heap->name, r->len);
	return p;
}

static inline void write_to(const struct race *r, uint64_t *p, uint64_t n)
{
	if (!r->heap->is_bare)
		*p = n;
}

static inline bool holds_key(const struct race *r, const uint64_t *p, uint64_t n)
{
	return r->heap->is_bare || *p == n;
}

/* Allocates objects and frees them in random order. Each object is written and checked. */
static void run_local(struct race *r, uint64_t seed)
{
	uint64_t *live[LIVE] = {NULL};
	struct lend_rng rng;

	lend_rng_seed(&rng, seed);
	for (uint64_t n = 0; n < OBJECTS; n++) {
		unsigned i = lend_rng_next(&rng) % LIVE;

		if (live[i])
			r->heap->give(live[i]);
		live[i] = take_object(r);
		write_to(r, live[i], n);
	}
	for (unsigned i = 0; i < LIVE; i++)
		if (live[i])
			r->heap->give(live[i]);
}

static void wait_past(const _Atomic uint64_t *count, uint64_t n)
{
	for (unsigned tries = 1; atomic_load_explicit(count, memory_order_acquire) <= n; tries++) {
		if (tries % 1024 == 0)
			sched_yield(); /* the other thread may need this CPU */
		__builtin_ia32_pause();
	}
}

static void run_producer(struct race *r)
{
	for (uint64_t n = 0; n < OBJECTS;) {
		if (n >= RING)
			wait_past(&r->got, n - RING);
		for (uint64_t end = n + BURST; n < end; n++) {
			uint64_t *p = take_object(r);

			write_to(r, p, n);
			r->ring[n % RING] = p;
		}
		atomic_store_explicit(&r->put, n, memory_order_release);
	}
}

static void run_consumer(struct race *r)
{
	for (uint64_t n = 0; n < OBJECTS;) {
		wait_past(&r->put, n);
		for (uint64_t end = n + BURST; n < end; n++) {
			uint64_t *p = r->ring[n % RING];

			if (!holds_key(r, p, n))
				atomic_fetch_add(&r->bench->wrong, 1);
			r->heap->give(p);
		}
		atomic_store_explicit(&r->got, n, memory_order_release);
	}
}

/* Runs in the second thread of a race; the first one runs run_race(). */
static void *run_other(void *arg)
{
	struct race *r = arg;

	app_pin(app_cpu(1));
	if (r->heap->enter)
		r->heap->enter();
	pthread_barrier_wait(&r->start);
	if (r->pattern == PAIR)
		run_consumer(r);
	else
		run_local(r, 2);
	r->cpu = sched_getcpu();
	pthread_barrier_wait(&r->start);
	return NULL;
}

/* Returns nanoseconds per object: CPU time of this thread where the threads are independent, else
 * wall-clock time. */
static double run_race(struct bench *b, enum pattern pattern, size_t len,
		       const struct app_heap *heap)
{
	static struct race r;
	lend_ns began;
	pthread_t thread;

	r.heap = heap;
	r.len = len;
	r.pattern = pattern;
	r.bench = b;
	r.put = r.got = 0;
	pthread_barrier_init(&r.start, NULL, 2);
	if (pthread_create(&thread, NULL, run_other, &r) != 0)
		app_die("no second thread: raise ulimit -u");
	if (heap->enter)
		heap->enter();
	pthread_barrier_wait(&r.start);
	began = pattern == PAIR ? app_now() : app_cpu_now();
	if (pattern == PAIR)
		run_producer(&r);
	else
		run_local(&r, 1);
	if (pattern == PAIR)
		pthread_barrier_wait(&r.start);
	began = (pattern == PAIR ? app_now() : app_cpu_now()) - began;
	if (pattern == LOCAL)
		pthread_barrier_wait(&r.start);
	pthread_join(thread, NULL);
	b->together += r.cpu == sched_getcpu();
	pthread_barrier_destroy(&r.start);
	return (double)began / OBJECTS;
}

/* Measures all heaps in turns, so that a disturbance affects heaps equally. */
static void measure_heaps(struct bench *b)
{
	lend_ns began = app_now();

	do {
		for (int p = 0; p < PATTERNS; p++)
			for (int s = 0; s < SIZES; s++)
				for (int h = 0; h < APP_HEAPS; h++)
					b->ns[p][s][h][b->rounds] =
					    b->heap[h].give ? run_race(b, p, sizes[s], &b->heap[h])
							    : 0;
		b->rounds++;
		app_progress(began, (double)(app_now() - began), (double)b->time);
	} while (b->rounds < ROUNDS_MAX && app_now() < began + b->time);
}

static int give_key(void *arg, void *memory, size_t len, uint64_t *key)
{
	(void)arg;
	(void)memory;
	*key = len;
	return 0;
}

static void end_key(void *arg, void *memory, size_t len, uint64_t key)
{
	(void)arg;
	(void)memory;
	(void)len;
	(void)key;
}

/* Returns nanoseconds per object of a chain of dependent key lookups, or of plain reads for
 * NO_WATCH. */
static double walk_chain(struct bench *b, int me, void *const *object)
{
	lend_ns began = app_cpu_now();
	uint64_t at = 0, key = 0;

	for (int n = 0; n < 100 * KEYS; n++) {
		const void *p = object[at % KEYS];

		if (me == NO_WATCH)
			key = (uintptr_t)p;
		else if (!lend_alloc_key(me, p, &key))
			b->wrong++;
		at += 1 + (key & 1); /* all keys are even */
	}
	return (double)(app_cpu_now() - began) / (100 * KEYS);
}

static void measure_keys(struct bench *b)
{
	static void *object[KEYS];
	struct lend_alloc_watch watch = {give_key, end_key, NULL};
	int me = lend_alloc_watch_add(&watch);
	struct lend_rng rng;

	lend_rng_seed(&rng, 5);
	for (int i = 0; i < KEYS; i++) {
		object[i] = lend_malloc((size_t)1 << lend_rng_below(&rng, 17));
		if (!object[i])
			app_die("%s", lend_why());
	}
	b->key_ns = walk_chain(b, me, object) - walk_chain(b, NO_WATCH, object);
	for (int i = 0; i < KEYS; i++)
		lend_free(object[i]);
	lend_alloc_watch_remove(me);
}

/* Reports the speed of lend_malloc() relative to another heap in the median round: the geometric
 * mean over the sizes, and the minimum. */
static void report_ratio(const struct bench *b, struct app_report *r, enum pattern p, int heap)
{
	double sum = 0, least = INFINITY, ratio[ROUNDS_MAX];
	char key[64], meaning[96];

	for (int s = 0; s < SIZES; s++) {
		for (unsigned i = 0; i < b->rounds; i++)
			ratio[i] = b->ns[p][s][heap][i] / b->ns[p][s][APP_HEAP_LEND][i];
		sum += log(app_median(ratio, b->rounds));
		least = fmin(least, app_median(ratio, b->rounds));
	}
	snprintf(key, sizeof(key), "%s_over_%s", names[p], b->heap[heap].name);
	snprintf(meaning, sizeof(meaning), "times as fast as %s, mean over the sizes",
		 b->heap[heap].name);
	app_report_num(r, key, exp(sum / SIZES), 2, meaning);
	snprintf(key, sizeof(key), "%s_over_%s_least", names[p], b->heap[heap].name);
	app_report_num(r, key, least, 2, "the same, lowest of all sizes");
}

static void report_table(const struct bench *b, struct app_report *r, enum pattern p)
{
	const char *column[1 + APP_HEAPS] = {"bytes"};
	double cell[SIZES * (1 + APP_HEAPS)];
	unsigned columns = 1, n = 0;

	for (int h = 0; h < APP_HEAPS; h++)
		if (b->heap[h].give)
			column[columns++] = b->heap[h].name;
	for (int s = 0; s < SIZES; s++) {
		cell[n++] = (double)sizes[s];
		for (int h = 0; h < APP_HEAPS; h++)
			if (b->heap[h].give)
				cell[n++] = app_median(b->ns[p][s][h], b->rounds);
	}
	app_report_table(r, &(struct app_table){names[p], column, columns, SIZES, cell});
}

static void write_report(const struct bench *b)
{
	struct app_report r;

	app_report_begin(&r, b->json, "malloc: ns per object, allocated and freed");
	for (int p = 0; p < PATTERNS; p++) {
		report_table(b, &r, p);
		for (int h = APP_HEAP_GLIBC; h < APP_HEAPS; h++)
			if (b->heap[h].give)
				report_ratio(b, &r, p, h);
	}
	app_report_num(&r, "key_ns", b->key_ns, 2, "ns, from an address to its region's key");
	app_report_num(&r, "line_ns", b->line_ns, 1, "ns, round trip of a cache line");
	app_report_bool(&r, "check_apart", !b->together, "each thread had its own CPU");
	app_report_int(&r, "wrong", b->wrong, "objects whose bytes were damaged");
	app_report_int(&r, "rounds", b->rounds, "of all heaps in turn; medians");
	app_report_end(&r);
}

static const char doc[] =
    "lend_malloc() compared with glibc, mimalloc, jemalloc and rte_malloc, 64 B to 64 KiB, two "
    "threads.\v"
    "local: each thread allocates and frees its own objects, 64 live at a time, in random order; "
    "CPU time. pair: one thread allocates, the other frees; wall time. floor is the same without a "
    "heap; bare also without touching the objects: in a pair it is the queue between the threads. "
    "Heaps that are not installed are left out.\n\n"
    "  lend bench malloc\n"
    "  lend bench malloc --seconds 30 --json";

int app_malloc(int argc, char **argv)
{
	static const struct lend_syntax syntax = {.option = options, .doc = doc};
	static struct bench b = {.time = 10000000000};
	char *again[16] = {(char *)"lend"};

	for (int i = 0; i < argc && i < 14; i++)
		again[1 + i] = argv[i];
	app_options_read(&syntax, argc, argv, &b);
	app_heaps_open(b.heap, again);
	for (int h = 0; h < APP_HEAPS; h++)
		if (!b.heap[h].give && !b.json)
			app_note("%s is not installed: %s", b.heap[h].name, b.heap[h].fix);
	b.line_ns = app_cacheline_ns(app_cpu(0), app_cpu(1));
	app_pin(app_cpu(0));
	measure_keys(&b);
	measure_heaps(&b);
	write_report(&b);
	return b.wrong ? APP_EXIT_FAILED : APP_EXIT_OK;
}
