#include "alloc/depot.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum { BATCHES_MAX = 32, BATCHES_MIN = 4, BYTES_MAX = 1 << 20 };

/* Four cache lines. The count is in the first one, so that a short batch needs one line only. */
struct batch {
	_Alignas(64) _Atomic uint32_t n; /* objects; 0: free, the bringing end may write it; else
					    the taking end may read it */
	void *obj[LEND_BATCH_MAX];
};
_Static_assert(sizeof(struct batch) == 256, "found by a shift");

/* One of the ring's ends. */
struct end {
	_Alignas(64) pthread_mutex_t lock;
	uint32_t next; /* next batch, modulo their number */
	uint32_t batches;
};

static struct depot {
	struct end in, out;
} depots[LEND_CLASSES];

/* By class. Apart from depots: next to them, each program start would write one page per class. */
static struct batch batches[LEND_CLASSES][BATCHES_MAX];

/* Batches of up to 1 MiB of objects, but at least BATCHES_MIN. */
static uint32_t batches_of(uint32_t class)
{
	uint32_t fit = BYTES_MAX / (lend_class_batch(class) * lend_class_len(class));

	return lend_max_u32(BATCHES_MIN, lend_min_u32(BATCHES_MAX, fit));
}

void lend_depots_init(void)
{
	pthread_mutexattr_t kind;

	pthread_mutexattr_init(&kind);
	pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ADAPTIVE_NP);
	for (uint32_t c = 0; c < LEND_CLASSES; c++) {
		pthread_mutex_init(&depots[c].in.lock, &kind);
		pthread_mutex_init(&depots[c].out.lock, &kind);
		depots[c].in.batches = depots[c].out.batches = batches_of(c);
	}
	pthread_mutexattr_destroy(&kind);
}

static struct batch *next_of(uint32_t class, const struct end *end)
{
	return &batches[class][end->next];
}

static void advance_end(struct end *end)
{
	end->next = end->next + 1 < end->batches ? end->next + 1 : 0;
}

bool lend_depot_put(uint32_t class, void *const *obj, uint32_t n)
{
	struct depot *d = &depots[class];
	struct batch *b;
	bool is_free;

	pthread_mutex_lock(&d->in.lock);
	b = next_of(class, &d->in);
	is_free = atomic_load_explicit(&b->n, memory_order_acquire) == 0;
	if (is_free) {
		memcpy(b->obj, obj, n * sizeof(*obj));
		atomic_store_explicit(&b->n, n, memory_order_release);
		advance_end(&d->in);
	}
	pthread_mutex_unlock(&d->in.lock);
	return is_free;
}

uint32_t lend_depot_take(uint32_t class, void **obj)
{
	struct depot *d = &depots[class];
	struct batch *b;
	uint32_t n;

	pthread_mutex_lock(&d->out.lock);
	b = next_of(class, &d->out);
	n = atomic_load_explicit(&b->n, memory_order_acquire);
	if (n) {
		memcpy(obj, b->obj, n * sizeof(*obj));
		atomic_store_explicit(&b->n, 0, memory_order_release);
		advance_end(&d->out);
	}
	pthread_mutex_unlock(&d->out.lock);
	return n;
}

void lend_depots_lock(void)
{
	for (struct depot *d = depots; d < depots + LEND_CLASSES; d++) {
		pthread_mutex_lock(&d->in.lock);
		pthread_mutex_lock(&d->out.lock);
	}
}

void lend_depots_unlock(void)
{
	for (struct depot *d = depots; d < depots + LEND_CLASSES; d++) {
		pthread_mutex_unlock(&d->out.lock);
		pthread_mutex_unlock(&d->in.lock);
	}
}
