#include "alloc/slab.h"

#include <pthread.h>

#include "alloc/depot.h"
#include "util/check.h"

static struct class
{
	_Alignas(64) pthread_mutex_t lock;
	struct lend_slab *partial; /* list of slabs with free objects */
} classes[LEND_CLASSES];

void lend_slabs_init(void)
{
	pthread_mutexattr_t kind;

	pthread_mutexattr_init(&kind);
	pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ADAPTIVE_NP);
	for (uint32_t c = 0; c < LEND_CLASSES; c++)
		pthread_mutex_init(&classes[c].lock, &kind);
	pthread_mutexattr_destroy(&kind);
	lend_depots_init();
}

static void list_slab(struct class *c, struct lend_slab *slab)
{
	slab->listed = 1;
	slab->prev = NULL;
	slab->next = c->partial;
	if (slab->next)
		slab->next->prev = slab;
	c->partial = slab;
}

static void unlist_slab(struct class *c, struct lend_slab *slab)
{
	slab->listed = 0;
	if (slab->next)
		slab->next->prev = slab->prev;
	if (slab->prev)
		slab->prev->next = slab->next;
	else
		c->partial = slab->next;
}

static struct lend_slab *slab_new(struct class *c, uint32_t class)
{
	uint32_t n = lend_class_objects(class);
	struct lend_slab *slab =
	    lend_run_take(lend_class_tiles(class), 1, (uint8_t)(class + 1), false);

	if (!slab)
		return NULL;
	slab->class = (uint8_t) class;
	slab->n = n;
	for (uint32_t i = 0; i < n; i += 64)
		slab->free[i / 64] = UINT64_MAX >> (n - i < 64 ? 64 - (n - i) : 0);
	list_slab(c, slab);
	return slab;
}

/* Takes up to n objects from one slab, lowest addresses first. Returns how many. */
static uint32_t carve_objects(struct lend_slab *slab, void **obj, uint32_t n)
{
	uint8_t *base = lend_run_base(slab);
	uint32_t got = 0;

	for (uint32_t word = 0; word < LEND_SLAB_OBJECTS_MAX / 64; word++)
		while (slab->free[word] && got < n) {
			uint32_t bit = (uint32_t)__builtin_ctzll(slab->free[word]);

			slab->free[word] &= slab->free[word] - 1;
			obj[got++] = base + (size_t)(word * 64 + bit) * lend_class_len(slab->class);
		}
	slab->n -= got;
	return got;
}

uint32_t lend_slabs_take(uint32_t class, void **obj, uint32_t n)
{
	struct class *c = &classes[class];
	uint32_t got = lend_depot_take(class, obj);

	if (got)
		return got;
	pthread_mutex_lock(&c->lock);
	while (got < n) {
		struct lend_slab *slab = c->partial ? c->partial : slab_new(c, class);

		if (!slab)
			break;
		got += carve_objects(slab, obj + got, n - got);
		if (!slab->n)
			unlist_slab(c, slab);
	}
	pthread_mutex_unlock(&c->lock);
	return got;
}

static void release_slab(struct class *c, struct lend_slab *slab)
{
	unlist_slab(c, slab);
	lend_run_give(slab, lend_class_tiles(slab->class));
}

/* Returns an object to its slab. Frees the slab if all its objects are free, unless it is the
 * class's only slab with free objects: the next allocation would have to make a new one. */
static void return_object(struct class *c, void *obj)
{
	struct lend_region *r = lend_region_of(obj);
	uint32_t tile = (uint32_t)(((uint8_t *)obj - r->base) / LEND_TILE_LEN);
	struct lend_slab *slab = &r->slab[tile - r->tile[tile].back];
	uint32_t i = (uint32_t)((uint8_t *)obj - (uint8_t *)lend_run_base(slab)) /
		     lend_class_len(slab->class);
	uint64_t bit = UINT64_C(1) << i % 64;

	LEND_CHECK(!(slab->free[i / 64] & bit));
	slab->free[i / 64] |= bit;
	slab->n++;
	if (!slab->listed)
		list_slab(c, slab);
	if (slab->n == lend_class_objects(slab->class) && (slab->next || slab->prev))
		release_slab(c, slab);
}

static void return_objects(struct class *c, void *const *obj, uint32_t n)
{
	pthread_mutex_lock(&c->lock);
	for (uint32_t i = 0; i < n; i++)
		return_object(c, obj[i]);
	pthread_mutex_unlock(&c->lock);
}

void lend_slabs_give(uint32_t class, void *const *obj, uint32_t n)
{
	if (!lend_depot_put(class, obj, n))
		return_objects(&classes[class], obj, n);
}

void lend_slabs_trim(void)
{
	for (struct class *c = classes; c < classes + LEND_CLASSES; c++) {
		void *obj[LEND_BATCH_MAX];
		uint32_t n;

		while ((n = lend_depot_take((uint32_t)(c - classes), obj)))
			return_objects(c, obj, n);
		pthread_mutex_lock(&c->lock);
		if (c->partial && c->partial->n == lend_class_objects(c->partial->class))
			release_slab(c, c->partial);
		pthread_mutex_unlock(&c->lock);
	}
}

void lend_slabs_lock(void)
{
	lend_depots_lock();
	for (struct class *c = classes; c < classes + LEND_CLASSES; c++)
		pthread_mutex_lock(&c->lock);
}

void lend_slabs_unlock(void)
{
	for (struct class *c = classes; c < classes + LEND_CLASSES; c++)
		pthread_mutex_unlock(&c->lock);
	lend_depots_unlock();
}

static bool slab_is_sound(const struct lend_slab *slab, uint32_t class)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < LEND_SLAB_OBJECTS_MAX / 64; i++)
		n += (uint32_t)__builtin_popcountll(slab->free[i]);
	return slab->listed && slab->class == class && slab->n == n && n > 0 &&
	       n <= lend_class_objects(class) && (!slab->next || slab->next->prev == slab) &&
	       slab->region->tile[slab - slab->region->slab].kind == class + 1;
}

bool lend_slabs_audit(void)
{
	bool sound = true;

	for (uint32_t i = 0; i < LEND_CLASSES; i++) {
		pthread_mutex_lock(&classes[i].lock);
		for (const struct lend_slab *s = classes[i].partial; s; s = s->next)
			sound &= slab_is_sound(s, i);
		pthread_mutex_unlock(&classes[i].lock);
	}
	return sound;
}
