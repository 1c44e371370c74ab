/* page_cache - pages of snapshots that this process has fetched, by snapshot and offset.
 *
 * A chained hash over the slots of one arena. Eviction is by the clock algorithm: the hand skips a
 * page once if it was found since the hand last passed. No memory is taken from the system before
 * the first page; after that, it is used as pages come. Layer: cn. Threads: any, under the lock. */
#include "cn/paging/page_cache.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cn/paging/pager.h"
#include "cn/space_view.h"
#include "lend/mem.h"
#include "sys/last_error.h"

#define LIMIT_UNSET (UINT64_C(64) << 20)
#define LIMIT_MAX   (UINT64_C(1) << 40)
#define NONE        UINT32_MAX

struct slot {
	struct cn_cache_key key;
	uint32_t next; /* slot of its hash chain */
	bool used;     /* the slot has a page */
	bool found;    /* a lookup found the page since the hand last passed */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t limit = LIMIT_UNSET;
static char *arena; /* NULL: no page was added yet */
static struct slot *slots;
static uint32_t *chains;
static uint32_t n, mask, hand;
static uint64_t used, hits, evictions;

static uint32_t *chain_of(const struct cn_cache_key *key)
{
	uint64_t hash = key->serial * 0x9e3779b97f4a7c15u;

	hash = (hash ^ key->offset ^ (uint64_t)key->slot << 40 ^ key->node) * 0xbf58476d1ce4e5b9u;
	return &chains[(hash >> 32) & mask];
}

static bool is_same(const struct cn_cache_key *a, const struct cn_cache_key *b)
{
	return a->serial == b->serial && a->offset == b->offset && a->node == b->node &&
	       a->epoch == b->epoch && a->slot == b->slot && a->len == b->len;
}

static uint32_t find_slot(const struct cn_cache_key *key)
{
	uint32_t i = arena ? *chain_of(key) : NONE;

	while (i != NONE && !is_same(&slots[i].key, key))
		i = slots[i].next;
	return i;
}

static void drop_all(void)
{
	if (arena)
		munmap(arena, (size_t)n * CN_CACHE_PAGE);
	free(slots);
	free(chains);
	arena = NULL;
	slots = NULL;
	chains = NULL;
	n = mask = hand = 0;
	used = 0;
}

/* Allocates the tables if needed. Returns false: no memory, or the limit is less than a page. */
static bool make_tables(void)
{
	uint64_t want = limit / CN_CACHE_PAGE;
	uint64_t buckets = 1;

	if (arena || !want)
		return arena != NULL;
	while (buckets < want)
		buckets *= 2;
	n = (uint32_t)want;
	mask = (uint32_t)(buckets - 1);
	slots = calloc(n, sizeof(*slots));
	chains = malloc(buckets * sizeof(*chains));
	arena = mmap(NULL, (size_t)n * CN_CACHE_PAGE, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (arena == MAP_FAILED)
		arena = NULL;
	if (!arena || !slots || !chains) {
		drop_all();
		return false;
	}
	memset(chains, 0xff, buckets * sizeof(*chains));
	return true;
}

static void unlink_slot(uint32_t i)
{
	uint32_t *at = chain_of(&slots[i].key);

	while (*at != i)
		at = &slots[*at].next;
	*at = slots[i].next;
	slots[i].used = false;
}

/* Returns a free slot, by eviction if needed; takes at most two rounds of the hand. */
static uint32_t take_slot(void)
{
	for (;; hand = (hand + 1) % n) {
		struct slot *slot = &slots[hand];

		if (slot->used && slot->found) {
			slot->found = false;
			continue;
		}
		if (slot->used) {
			unlink_slot(hand);
			evictions++;
			used--;
		}
		break;
	}
	return hand;
}

bool cn_cache_find(const struct cn_cache_key *key, void *page)
{
	uint32_t i;

	pthread_mutex_lock(&lock);
	i = find_slot(key);
	if (i != NONE) {
		memcpy(page, arena + (size_t)i * CN_CACHE_PAGE, CN_CACHE_PAGE);
		slots[i].found = true;
		hits++;
	}
	pthread_mutex_unlock(&lock);
	return i != NONE;
}

bool cn_cache_has(const struct cn_cache_key *key)
{
	bool has;

	pthread_mutex_lock(&lock);
	has = find_slot(key) != NONE;
	pthread_mutex_unlock(&lock);
	return has;
}

void cn_cache_add(const struct cn_cache_key *key, const void *page)
{
	uint32_t i;

	pthread_mutex_lock(&lock);
	if (make_tables() && find_slot(key) == NONE) {
		uint32_t *chain = chain_of(key);

		i = take_slot();
		memcpy(arena + (size_t)i * CN_CACHE_PAGE, page, CN_CACHE_PAGE);
		slots[i] = (struct slot){.key = *key, .next = *chain, .used = true};
		*chain = i;
		used++;
		hand = (hand + 1) % n;
	}
	pthread_mutex_unlock(&lock);
}

void cn_cache_freeze(void)
{
	pthread_mutex_lock(&lock);
}

void cn_cache_thaw(void)
{
	pthread_mutex_unlock(&lock);
}

int lend_mem_cache_limit(uint64_t bytes)
{
	if (bytes > LIMIT_MAX)
		return lend_fail(EINVAL, "a cache of at most %llu bytes",
				 (unsigned long long)LIMIT_MAX);
	pthread_mutex_lock(&lock);
	drop_all();
	limit = bytes;
	pthread_mutex_unlock(&lock);
	return 0;
}

void lend_mem_cache_stat_get(struct lend_mem_cache_stat *stat)
{
	memset(stat, 0, sizeof(*stat));
	pthread_mutex_lock(&lock);
	stat->pages_max = limit / CN_CACHE_PAGE;
	stat->pages_used = used;
	stat->hits = hits;
	stat->evictions = evictions;
	pthread_mutex_unlock(&lock);
	cn_pager_stat(stat);
	cn_pointer_stat(stat);
}
