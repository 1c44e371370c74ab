/* translate - how quickly a memory node finds the frame of a page, compared with a flat hash map.
 * Layer: apps. Threads: one. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "apps/commands.h"
#include "apps/common/options.h"
#include "apps/common/closed_loop.h"
#include "apps/common/report.h"
#include "apps/common/samples.h"
#include "apps/common/spawn.h"
#include "apps/store/lookup.h"
#include "util/bits.h"
#include "util/rng.h"

enum { PAGE = 4096, LOOKUPS = 1 << 21, ROUNDS_MAX = 99, SEED = 7 };
enum access { SEQUENTIAL, ZIPF, ZIPF_SCATTERED, UNIFORM, ACCESSES };
static const char *const names[] = {"sequential", "zipf", "zipf_scattered", "uniform", NULL};

struct translate {
	uint64_t space;
	lend_ns time; /* for each access */
	enum access access;
	bool streaming, small_pages, json;
	struct app_lookup lookup;
	uint32_t *page;                  /* pages in the order of one access pattern */
	unsigned n;                      /* number of pages */
	double rate[ACCESSES][APP_WAYS]; /* lookups per second */
	uint64_t wrong, lookups;
};

static const struct lend_option options[] = {
    OPT_SIZE(struct translate, space, "space", PAGE, UINT64_C(160) << 30,
	     "Address space behind the page tables (100G)"),
    OPT_CHOICE(struct translate, access, "access", "HOW", names,
	       "Access that lookups_per_s reports: sequential, zipf (default), zipf_scattered, "
	       "uniform"),
    OPT_TIME(struct translate, time, "seconds", "How long to measure each access (1)", .key = 't'),
    OPT_FLAG(struct translate, streaming, "streaming", "Lookups do not depend on the previous one"),
    OPT_FLAG(struct translate, small_pages, "small-pages", "Keep all tables out of huge pages"),
    OPT_JSON(struct translate, json),
    {.name = NULL}};

/* Draws a rank in [0, n) from a Zipf distribution with exponent 0.99, by rejection-inversion
 * (Hoermann and Derflinger), which needs no table of n sums. */
static uint64_t draw_zipf(struct lend_rng *rng, uint64_t n)
{
	const double s = 0.99, e = 1 - s;
	const double low = (pow(1.5, e) - 1) / e - 1, high = (pow((double)n + 0.5, e) - 1) / e;

	for (;;) {
		double u = low + lend_rng_unit(rng) * (high - low), x = pow(1 + u * e, 1 / e);
		double k = fmin(fmax(floor(x + 0.5), 1), (double)n);

		if (u >= (pow(k + 0.5, e) - 1) / e - pow(k, -s))
			return (uint64_t)k - 1;
	}
}

static void draw_pages(struct translate *t, enum access access)
{
	const uint64_t n = t->lookup.pages, prime = 2654435761u;
	struct lend_rng rng;
	uint64_t first;

	lend_rng_seed(&rng, SEED);
	first = lend_rng_below(&rng, n);
	for (unsigned i = 0; i < t->n; i++) {
		uint64_t page = access == SEQUENTIAL ? (first + i) % n
				: access == UNIFORM  ? lend_rng_below(&rng, n)
						     : draw_zipf(&rng, n);

		t->page[i] = (uint32_t)(access == ZIPF_SCATTERED ? page * prime % n : page);
	}
}

/* Measures one round over all pages, in CPU time, since other processes may run on this machine. */
static double time_round(struct translate *t, enum app_way table, uint64_t *sum)
{
	lend_ns began = app_cpu_now();

	*sum = app_lookup_sum(&t->lookup, table, !t->streaming, t->page, t->n);
	return (double)(app_cpu_now() - began);
}

/* Measures all tables in turns; keeps the median round of each. */
static void measure_tables(struct translate *t, enum access access)
{
	double ns[APP_WAYS][ROUNDS_MAX];
	lend_ns began = app_now();
	unsigned n = 0;

	draw_pages(t, access);
	t->wrong += app_lookup_wrong(&t->lookup, t->page, t->n);
	do {
		uint64_t sum[APP_WAYS];

		for (int i = 0; i < APP_WAYS; i++) {
			ns[i][n] = time_round(t, (enum app_way)i, &sum[i]);
			t->wrong += sum[i] != sum[0];
		}
		n++;
		app_progress(began, (double)(app_now() - began), (double)t->time);
	} while (n < ROUNDS_MAX && app_now() < began + t->time);
	t->lookups += (uint64_t)n * t->n;
	for (int i = 0; i < APP_WAYS; i++)
		t->rate[access][i] = t->n / app_median(ns[i], n) * 1e9;
}

static void report_access(const struct translate *t, struct app_report *r, enum access access)
{
	static const struct {
		const char *key, *meaning;
	} of[] = {[APP_WAY_TREE] = {"lookups_per_s", "page tables"},
		  [APP_WAY_FLAT] = {"hash_lookups_per_s", "flat hash map of the same pages"},
		  [APP_WAY_LINEAR] = {"linear_lookups_per_s", "hash map without tags"}};
	char key[64];

	for (int i = 0; i < APP_WAYS; i++) {
		snprintf(key, sizeof(key), "%s_%s", names[access], of[i].key);
		app_report_num(r, key, t->rate[access][i], 0, of[i].meaning);
	}
	snprintf(key, sizeof(key), "%s_over_hash", names[access]);
	app_report_num(r, key, t->rate[access][APP_WAY_TREE] / t->rate[access][APP_WAY_FLAT], 2,
		       "page tables relative to the flat hash map");
}

static void write_report(const struct translate *t)
{
	struct app_report r;

	app_report_begin(&r, t->json, "translate: from page to frame");
	app_report_num(&r, "lookups_per_s", t->rate[t->access][APP_WAY_TREE], 0, "page tables");
	app_report_num(&r, "hash_lookups_per_s", t->rate[t->access][APP_WAY_FLAT], 0,
		       "flat hash map of the same pages");
	app_report_text(&r, "access", names[t->access], "of these two");
	for (int i = 0; i < ACCESSES; i++)
		report_access(t, &r, (enum access)i);
	app_report_int(&r, "wrong", t->wrong, "lookups that found a wrong frame");
	app_report_int(&r, "lookups", t->lookups, "timed, in each");
	app_report_int(&r, "pages", t->lookup.pages, "of 4 KiB");
	app_report_bool(&r, "streaming", t->streaming, "lookups do not depend on the previous one");
	app_report_bool(&r, "huge_pages", !t->small_pages, "asked for, for all tables");
	app_report_text(&r, "clock", "thread CPU time", "median round");
	app_report_end(&r);
}

static const char doc[] =
    "Lookups per second in the page tables of a large space, by the function that get and read "
    "use, and in hash maps of the same pages in the same run.\v"
    "The flat map is laid out as Abseil's: groups of 16 entries, searched by a byte of each hash. "
    "The linear one has no tags: a collision goes to the next entry. Each lookup depends on the "
    "previous one, as in operations. zipf has exponent 0.99; its hot pages are neighbours, or "
    "spread "
    "over the space (zipf_scattered).\n\n"
    "  lend bench translate --space 100G\n"
    "  lend bench translate --streaming --access uniform --json";

int app_translate(int argc, char **argv)
{
	static const struct lend_syntax syntax = {.option = options, .doc = doc};
	static struct translate t = {
	    .space = UINT64_C(100) << 30, .time = 1000000000, .access = ZIPF};

	app_options_read(&syntax, argc, argv, &t);
	app_pin(app_cpu(0));
	app_lookup_open(&t.lookup, (t.space + PAGE - 1) / PAGE, !t.small_pages);
	t.n = (unsigned)lend_min_u64(LOOKUPS, 8 * t.lookup.pages);
	t.page = malloc(t.n * sizeof(*t.page));
	if (!t.page)
		app_die("no memory for %u lookups; end some processes", t.n);
	for (int i = 0; i < ACCESSES; i++)
		measure_tables(&t, (enum access)i);
	write_report(&t);
	app_lookup_close(&t.lookup);
	free(t.page);
	return t.wrong ? APP_EXIT_FAILED : APP_EXIT_OK;
}
