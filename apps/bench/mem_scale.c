/* mem_scale - see mem_scale.h. */
#include "apps/bench/mem_scale.h"

#include <stdio.h>
#include <stdlib.h>

#include "util/rng.h"

enum { GET, RELEASE, SEAL, LEN = 64, TURNS = 15, SEED = 11 };
static const char *const names[] = {"get", "release", "seal"};

struct among {
	struct app_memory *m;
	lend_space space;
	struct lend_ref *ref;
	struct lend_rng rng;
	uint32_t at[APP_SCALE_FEW]; /* indices of the drawn references */
	struct lend_ref drawn[APP_SCALE_FEW];
};

/* A node has two objects per page; the constant part is for everything else on it. */
uint64_t app_scale_bytes(uint32_t n)
{
	return n ? (uint64_t)n * 4096 / 2 + (64 << 20) : 0;
}

static struct lend_ref seal_object(struct among *x, struct lend_hist *hist)
{
	struct app_timed t;
	int rc = lend_space_seal(x->m->mem, x->space, 0, LEN, NULL, app_timed_begin(&t));

	if (hist)
		app_timed_add(x->m, &t, rc, names[SEAL], hist);
	else
		(void)app_timed_end(x->m, &t, rc, names[SEAL]);
	return t.op.ref;
}

/* Draws APP_SCALE_FEW different references of n, in random order. Copies them, so that cache misses
 * in the client's table of a million references do not count as the node's cost. */
static void draw_refs(struct among *x, uint32_t n)
{
	for (uint32_t i = 0; i < APP_SCALE_FEW; i++)
		x->at[i] =
		    (uint32_t)(((uint64_t)i * n + lend_rng_below(&x->rng, n)) / APP_SCALE_FEW);
	for (uint32_t i = APP_SCALE_FEW - 1; i > 0; i--) {
		uint32_t k = (uint32_t)lend_rng_below(&x->rng, i + 1), at = x->at[i];

		x->at[i] = x->at[k];
		x->at[k] = at;
	}
	for (uint32_t i = 0; i < APP_SCALE_FEW; i++)
		x->drawn[i] = x->ref[x->at[i]];
}

static void measure_among(struct among *x, uint32_t n, struct lend_hist hist[APP_SCALE_OPS])
{
	struct lend_mem *mem = x->m->mem;
	char byte[LEN];
	struct iovec into = {byte, LEN};
	struct app_timed t;

	for (int i = 0; i < APP_SCALE_OPS; i++)
		lend_hist_init(&hist[i]);
	for (int turn = 0; turn < TURNS; turn++) {
		draw_refs(x, n);
		for (uint32_t i = 0; i < APP_SCALE_FEW; i++)
			app_timed_add(x->m, &t,
				      lend_get(mem, &x->drawn[i], 0, &into, 1, app_timed_begin(&t)),
				      names[GET], &hist[GET]);
		draw_refs(x, n);
		for (uint32_t i = 0; i < APP_SCALE_FEW; i++) {
			app_timed_add(x->m, &t,
				      lend_release(mem, &x->drawn[i], 1, app_timed_begin(&t)),
				      names[RELEASE], &hist[RELEASE]);
			x->drawn[i] = seal_object(x, &hist[SEAL]);
		}
		for (uint32_t i = 0; i < APP_SCALE_FEW; i++)
			x->ref[x->at[i]] = x->drawn[i];
	}
}

void app_scale_measure(struct app_memory *m, struct app_scale *a)
{
	static const char text[LEN + 1] =
	    "what many references of one page name, the same 64 bytes of it: ";
	static struct among x;
	struct iovec data = {(void *)(uintptr_t)text, LEN};
	struct app_timed t;

	x.m = m;
	x.ref = malloc((size_t)a->n * sizeof(*x.ref));
	if (!x.ref)
		app_die("no memory for %u references; give a smaller --among", a->n);
	lend_rng_seed(&x.rng, SEED);
	(void)app_timed_end(m, &t, lend_space_alloc(m->mem, LEN, &x.space, app_timed_begin(&t)),
			    "alloc");
	(void)app_timed_end(
	    m, &t, lend_space_write(m->mem, x.space, 0, &data, 1, app_timed_begin(&t)), "write");
	for (uint32_t i = 0; i < a->n; i++) {
		if (i == APP_SCALE_FEW)
			measure_among(&x, i, a->few);
		x.ref[i] = seal_object(&x, NULL);
	}
	measure_among(&x, a->n, a->many);
	(void)app_timed_end(m, &t, lend_release(m->mem, x.ref, (int)a->n, app_timed_begin(&t)),
			    "release");
	(void)app_timed_end(m, &t, lend_space_free(m->mem, x.space, app_timed_begin(&t)), "free");
	free(x.ref);
}

void app_scale_report(const struct app_scale *a, struct app_report *report)
{
	char key[64];

	if (!a->n)
		return;
	app_report_int(report, "among", a->n, "references at once, of one page");
	for (int i = 0; i < APP_SCALE_OPS; i++) {
		double few = app_hist_us(&a->few[i], 0.5), many = app_hist_us(&a->many[i], 0.5);

		snprintf(key, sizeof(key), "among_few_%s_p50_us", names[i]);
		app_report_num(report, key, few, 3, "us, among 1,000");
		snprintf(key, sizeof(key), "among_%s_p50_us", names[i]);
		app_report_num(report, key, many, 3, "us, among all of them");
		snprintf(key, sizeof(key), "among_%s_over_few", names[i]);
		app_report_num(report, key, few > 0 ? many / few : 0, 2, "of these two");
	}
}
