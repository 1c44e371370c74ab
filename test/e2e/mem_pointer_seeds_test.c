/* Goal: for any sequence of operations on spaces with pointers, by several threads, every byte
 * equals a naive model's. Method: seeds; the model is an array per space and per snapshot. Each
 * step maps, allocates, stores, loads, writes, reads, prefetches, seals, gets or frees, mostly
 * around the edges of pages; in between, threads store into parts of their own, in shared pages. A
 * failure prints its seed: LEND_SEED=N runs that one alone. Covers: cn/space_pointer.c,
 * cn/space_view.c, cn/space_ops.c, cn/paging/paged_view.c, cn/pool/pool_view.c */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "e2e/mem_node.h"
#include "util/rng.h"
#include "one_line_test.h"

enum { PAGE = 4096, MAX = 40 * PAGE, SPACES = 6, REFS = 6, THREADS = 3, STEPS = 150, SEEDS = 12 };

struct space {
	lend_space space;
	size_t len; /* 0: none */
	char *p;    /* NULL: no pointer yet */
	char want[MAX];
};

struct ref {
	struct lend_ref ref;
	size_t len;
	char want[MAX];
};

struct world {
	struct mem_node *node;
	struct lend_rng rng;
	uint64_t seed;
	struct space space[SPACES];
	struct ref ref[REFS];
};

#define EXPECT(w, cond) cr_assert(cond, "seed %llu: %s", (unsigned long long)(w)->seed, lend_why())

static size_t draw_below(struct world *w, size_t n)
{
	return (size_t)lend_rng_below(&w->rng, n);
}

/* A range in len bytes, often around the edges of pages. */
static size_t draw_range(struct world *w, size_t len, size_t *n)
{
	size_t at = draw_below(w, len);

	if (draw_below(w, 2))
		at = at / PAGE * PAGE;
	*n =
	    draw_below(w, 3) ? draw_below(w, lend_rng_below(&w->rng, 2) ? PAGE + 2 : 50) : len - at;
	if (*n > len - at)
		*n = len - at;
	return at;
}

static bool op_ended(struct world *w, struct lend_op *op, int rc)
{
	return mem_end(w->node->mem, op, rc) == LEND_OK;
}

static void drop_ref(struct world *w, struct ref *r)
{
	if (r->len)
		EXPECT(w, mem_release(w->node->mem, &r->ref) == LEND_OK);
	r->len = 0;
}

static void drop_space(struct world *w, struct space *s)
{
	struct lend_op op = {.timeout = SECOND * 5};

	if (s->len)
		EXPECT(w, op_ended(w, &op, lend_space_free(w->node->mem, s->space, &op)));
	s->len = 0;
	s->p = NULL;
}

static void put_object(struct world *w, struct ref *r)
{
	drop_ref(w, r);
	r->len = 1 + draw_below(w, MAX);
	mem_fill(r->want, r->len, lend_rng_next(&w->rng));
	r->ref = mem_put(w->node->mem, r->want, r->len, NULL);
}

/* Maps all of a snapshot, or a slice of it. */
static void map_ref(struct world *w, struct ref *r, struct space *s)
{
	struct lend_op op = {.timeout = SECOND * 5};
	struct lend_ref ref = r->ref;
	size_t at = 0, n = r->len;

	if (!r->len)
		return;
	if (draw_below(w, 3) == 0)
		at = draw_range(w, r->len, &n);
	if (!n)
		return;
	EXPECT(w, lend_ref_slice(&r->ref, at, n, LEND_READ | LEND_MAP, &ref) == 0);
	drop_space(w, s);
	EXPECT(w, op_ended(w, &op, lend_space_map(w->node->mem, &ref, &s->space, &op)));
	s->len = n;
	memcpy(s->want, r->want + at, n);
}

static void alloc_space(struct world *w, struct space *s)
{
	struct lend_op op = {.timeout = SECOND * 5};

	drop_space(w, s);
	s->len = 1 + draw_below(w, MAX);
	memset(s->want, 0, s->len);
	EXPECT(w, op_ended(w, &op, lend_space_alloc(w->node->mem, s->len, &s->space, &op)));
}

static void store_bytes(struct world *w, struct space *s)
{
	size_t n, at = draw_range(w, s->len, &n);

	if (!s->p)
		return;
	mem_fill(s->p + at, n, lend_rng_next(&w->rng));
	memcpy(s->want + at, s->p + at, n);
}

static void by_operation(struct world *w, struct space *s, bool write)
{
	struct lend_op op = {.timeout = SECOND * 5};
	size_t n, at = draw_range(w, s->len, &n);
	char *bytes = malloc(n + 1);
	struct iovec iov = {bytes, n};

	if (write) {
		mem_fill(bytes, n, lend_rng_next(&w->rng));
		EXPECT(w, op_ended(w, &op,
				   lend_space_write(w->node->mem, s->space, at, &iov, 1, &op)));
		memcpy(s->want + at, bytes, n);
	} else {
		EXPECT(w,
		       op_ended(w, &op, lend_space_read(w->node->mem, s->space, at, &iov, 1, &op)));
		EXPECT(w, !memcmp(bytes, s->want + at, n));
	}
	free(bytes);
}

static void seal_space(struct world *w, struct space *s, struct ref *r)
{
	struct lend_op op = {.timeout = SECOND * 5};
	size_t n, at = draw_range(w, s->len, &n);

	if (!n)
		return;
	drop_ref(w, r);
	EXPECT(w, op_ended(w, &op, lend_space_seal(w->node->mem, s->space, at, n, NULL, &op)));
	r->ref = op.ref;
	r->len = n;
	memcpy(r->want, s->want + at, n);
}

static void check_bytes(struct world *w, struct space *s)
{
	size_t n, at = draw_range(w, s->len, &n);

	EXPECT(w, !s->p || !memcmp(s->p + at, s->want + at, n));
}

static void prefetch_space(struct world *w, struct space *s)
{
	struct lend_op op = {.timeout = SECOND * 5};
	size_t n, at = draw_range(w, s->len, &n);

	if (s->p)
		EXPECT(w,
		       op_ended(w, &op, lend_space_prefetch(w->node->mem, s->space, at, n, &op)));
}

static void get_ref(struct world *w, struct ref *r)
{
	char *bytes = malloc(r->len + 1);

	EXPECT(w, !r->len || mem_get(w->node->mem, &r->ref, 0, bytes, r->len) == LEND_OK);
	EXPECT(w, !memcmp(bytes, r->want, r->len));
	free(bytes);
}

struct storer {
	struct space *s;
	unsigned which;
	uint64_t seed;
};

/* Stores to the thread's own bytes: every THREADS-th run of 100. */
static void *store_own(void *arg)
{
	struct storer *t = arg;
	struct lend_rng rng;

	lend_rng_seed(&rng, t->seed);
	for (int i = 0; i < 200; i++) {
		size_t run = lend_rng_below(&rng, t->s->len / 100 + 1);
		size_t at = run * 100 + lend_rng_below(&rng, 100);

		if (run % THREADS != t->which || at >= t->s->len)
			continue;
		t->s->want[at] = (char)(t->s->p[at] + 1);
		t->s->p[at] = t->s->want[at];
	}
	return NULL;
}

static void run_storm(struct world *w, struct space *s)
{
	struct storer t[THREADS];
	pthread_t thread[THREADS];

	if (!s->p)
		return;
	for (unsigned i = 0; i < THREADS; i++) {
		t[i] = (struct storer){s, i, lend_rng_next(&w->rng)};
		EXPECT(w, pthread_create(&thread[i], NULL, store_own, &t[i]) == 0);
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

static void with_space(struct world *w, size_t what, struct space *s, struct ref *r)
{
	switch (what) {
	case 0:
		drop_space(w, s);
		break;
	case 1:
	case 2:
		seal_space(w, s, r);
		break;
	case 3:
		by_operation(w, s, true);
		break;
	case 4:
		by_operation(w, s, false);
		break;
	case 5:
		prefetch_space(w, s);
		break;
	case 6:
		run_storm(w, s);
		break;
	case 7:
	case 8:
		store_bytes(w, s);
		break;
	default:
		check_bytes(w, s);
		break;
	}
}

static void run_step(struct world *w)
{
	struct space *s = &w->space[draw_below(w, SPACES)];
	struct ref *r = &w->ref[draw_below(w, REFS)];
	size_t what = draw_below(w, 16);

	if (what == 15) {
		EXPECT(w, lend_mem_cache_limit(draw_below(w, 4) * 20 * PAGE) == 0);
	} else if (what == 14) {
		put_object(w, r);
	} else if (what == 13) {
		get_ref(w, r);
	} else if (what == 12 || !s->len) {
		if (draw_below(w, 3))
			map_ref(w, r, s);
		else
			alloc_space(w, s);
	} else if (what == 11 || (!s->p && draw_below(w, 2))) {
		s->p = lend_space_pointer(w->node->mem, s->space);
		EXPECT(w, s->p);
	} else {
		with_space(w, what, s, r);
	}
}

static void one_seed(struct mem_node *node, uint64_t seed)
{
	struct world *w = calloc(1, sizeof(*w));

	w->node = node;
	w->seed = seed;
	lend_rng_seed(&w->rng, seed);
	for (int i = 0; i < STEPS; i++)
		run_step(w);
	for (int i = 0; i < SPACES; i++) {
		EXPECT(w,
		       !w->space[i].p || !memcmp(w->space[i].p, w->space[i].want, w->space[i].len));
		EXPECT(w, !w->space[i].len || lend_space_intact(node->mem, w->space[i].space) == 0);
		drop_space(w, &w->space[i]);
	}
	for (int i = 0; i < REFS; i++) {
		get_ref(w, &w->ref[i]);
		drop_ref(w, &w->ref[i]);
	}
	free(w);
}

static void run_seeds(const char *carrier, const char *more, uint64_t first)
{
	const char *given = getenv("LEND_SEED");
	struct mem_node node;

	mem_node_start(&node, carrier, "64M", more);
	if (given)
		one_seed(&node, strtoull(given, NULL, 10));
	for (uint64_t i = 0; !given && i < SEEDS; i++)
		one_seed(&node, first + i);
	mem_node_stop(&node);
}

TestRuns(mem_pointer_seeds, shm, run_seeds("shm", "", 1000));
TestRuns(mem_pointer_seeds, pool, run_seeds("pool", "", 3000));
TestRuns(mem_pointer_seeds, udp, run_seeds("udp", "", 2000));
TestRuns(mem_pointer_seeds, workers, run_seeds("shm", "--workers 2", 4000));
