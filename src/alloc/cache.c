#include "alloc/cache.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "sys/rand.h"
#include "sys/last_error.h"

/* The cache of a thread before its first allocation. Every bin is both empty and full, so all
 * allocations and frees take the slow path. */
static struct lend_cache none;
_Thread_local struct lend_cache *lend_cache_self = &none;

static pthread_key_t end_of_thread;
static uint64_t secret;

static void free_cache(void *arg)
{
	(void)arg;
	lend_cache_flush();
	free(lend_cache_self);
	lend_cache_self = &none;
}

static void before_fork(void)
{
	lend_slabs_lock();
	lend_regions_lock();
}

static void after_fork(void)
{
	lend_regions_unlock();
	lend_slabs_unlock();
}

static void after_fork_in_child(void)
{
	lend_regions_forked();
	after_fork();
}

/* Runs at program start: fork() must find all locks initialised, and a trim may use them before
 * there is any cache. */
__attribute__((constructor)) static void init_locks(void)
{
	lend_slabs_init();
	lend_random(&secret, sizeof(secret));
	LEND_CHECK(pthread_key_create(&end_of_thread, free_cache) == 0);
	LEND_CHECK(pthread_atfork(before_fork, after_fork, after_fork_in_child) == 0);
}

static bool open_cache(void)
{
	struct lend_cache *cache;

	cache = aligned_alloc(64, lend_align_up(sizeof(*cache), 64));
	if (!cache || pthread_setspecific(end_of_thread, cache) != 0) {
		free(cache);
		(void)lend_fail(ENOMEM, "no memory for a thread's cache: free some");
		return false;
	}
	cache->secret = secret;
	for (uint32_t c = 0; c < LEND_CLASSES; c++) {
		struct lend_bin *bin = &cache->bin[c];

		bin->n = bin->back = 0;
		bin->batch = lend_class_batch(c);
		bin->magic = lend_class_magic(c);
		bin->take = bin->obj;
		bin->give = bin->obj + LEND_BATCH_MAX;
	}
	lend_cache_self = cache;
	return true;
}

static void swap_halves(struct lend_bin *bin)
{
	void **half = bin->take;
	uint32_t n = bin->n;

	bin->take = bin->give;
	bin->n = bin->back;
	bin->give = half;
	bin->back = n;
}

struct lend_bin *lend_cache_filled(uint32_t class)
{
	struct lend_bin *bin;

	if (lend_cache_self == &none && !open_cache())
		return NULL;
	bin = &lend_cache_self->bin[class];
	if (bin->n == 0 && bin->back > 0)
		swap_halves(bin);
	else if (bin->n == 0)
		bin->n = lend_slabs_take(class, bin->take, bin->batch);
	return bin->n ? bin : NULL;
}

struct lend_bin *lend_cache_emptied(uint32_t class)
{
	struct lend_bin *bin;

	if (lend_cache_self == &none && !open_cache())
		return NULL;
	bin = &lend_cache_self->bin[class];
	if (bin->back == bin->batch && bin->n == 0) {
		swap_halves(bin);
	} else if (bin->back == bin->batch) {
		lend_slabs_give(class, bin->give, bin->back);
		bin->back = 0;
	}
	return bin;
}

void lend_cache_flush(void)
{
	if (lend_cache_self == &none)
		return; /* this one is shared by all threads */
	for (uint32_t c = 0; c < LEND_CLASSES; c++) {
		struct lend_bin *bin = &lend_cache_self->bin[c];

		if (bin->n)
			lend_slabs_give(c, bin->take, bin->n);
		if (bin->back)
			lend_slabs_give(c, bin->give, bin->back);
		bin->n = bin->back = 0;
	}
}
