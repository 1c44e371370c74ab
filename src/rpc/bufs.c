#include "rpc/bufs.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "lend/alloc.h"
#include "sys/last_error.h"
#include "util/check.h"

struct lend_map {
	struct lend_map *next;
	void *memory;
	size_t len;
	struct lend_mbuf *buf; /* the one buffer in it; NULL: a chunk */
	bool foreign;          /* memory of lend_register(), not of the heap */
};

static void *reserve_memory(size_t len)
{
	void *memory = mmap(NULL, len, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return memory == MAP_FAILED ? NULL : memory;
}

int lend_bufs_open(uint64_t limit, struct lend_pool_of_bufs **out)
{
	struct lend_pool_of_bufs *pool = aligned_alloc(64, sizeof(*pool));

	if (!pool)
		return lend_fail(
		    ENOMEM, "no memory for an endpoint's buffers: free some, or raise ulimit -v");
	*pool = (struct lend_pool_of_bufs){.limit = limit, .refs = 1};
	pool->table.seg = reserve_memory(LEND_BUF_HANDLES * sizeof(*pool->table.seg));
	pool->of = reserve_memory(LEND_BUF_HANDLES * sizeof(struct lend_mbuf *));
	pool->own = reserve_memory(LEND_BUF_HANDLES * sizeof(*pool->own));
	pool->table.n = 1;
	if (!pool->table.seg || !pool->of || !pool->own) {
		lend_bufs_close(pool);
		return lend_fail(ENOMEM,
				 "no address space for a table of buffers: raise ulimit -v");
	}
	*out = pool;
	return 0;
}

/* Returns memory to the heap, where it stays registered with the carriers. */
static void map_free(struct lend_map *map)
{
	LEND_SHOW(map->memory, map->len);
	lend_free(map->memory);
}

static void pool_free(struct lend_pool_of_bufs *pool)
{
	lend_bufs_drain(pool);
	for (uint32_t h = 1; pool->of && pool->own && h < pool->table.n; h++) {
		struct lend_mbuf *buf = &pool->own[h];

		if (pool->of[h] == buf && buf->class == LEND_BUF_CLASSES && buf->gone &&
		    buf->state != LEND_MBUF_FREE)
			buf->gone(buf->arg);
	}
	while (pool->maps) {
		struct lend_map *map = pool->maps;

		pool->maps = map->next;
		if (!map->foreign)
			map_free(map);
		free(map);
	}
	if (pool->table.seg)
		munmap(pool->table.seg, LEND_BUF_HANDLES * sizeof(*pool->table.seg));
	if (pool->of)
		munmap((void *)pool->of, LEND_BUF_HANDLES * sizeof(struct lend_mbuf *));
	if (pool->own)
		munmap(pool->own, LEND_BUF_HANDLES * sizeof(*pool->own));
	free(pool);
}

static void drop_ref(struct lend_pool_of_bufs *pool)
{
	if (atomic_fetch_sub_explicit(&pool->refs, 1, memory_order_acq_rel) == 1)
		pool_free(pool);
}

void lend_bufs_ref(struct lend_pool_of_bufs *pool)
{
	atomic_fetch_add_explicit(&pool->refs, 1, memory_order_relaxed);
}

/* Keeps these pools reachable, so that leak checkers do not report them. */
static _Atomic(struct lend_pool_of_bufs *) all_lost;

void lend_bufs_lose(struct lend_pool_of_bufs *pool, uint32_t handle)
{
	struct lend_mbuf *buf = pool->of[handle];
	struct lend_pool_of_bufs *home;

	LEND_CHECK(buf && buf->state == LEND_MBUF_CORE);
	buf->state = LEND_MBUF_LOST;
	home = buf->pool; /* pool of another endpoint: its thread may lose something of it now */
	if (atomic_exchange_explicit(&home->lost, true, memory_order_relaxed))
		return;
	lend_bufs_ref(home);
	home->next_lost = atomic_load_explicit(&all_lost, memory_order_relaxed);
	while (!atomic_compare_exchange_weak_explicit(&all_lost, &home->next_lost, home,
						      memory_order_release, memory_order_relaxed))
		continue;
}

struct lend_bufs_lost lend_bufs_lost(void)
{
	struct lend_pool_of_bufs *pool = atomic_load_explicit(&all_lost, memory_order_acquire);
	struct lend_bufs_lost lost = {0};

	for (; pool; pool = pool->next_lost) {
		lost.blocks++;
		lost.mapped += (uint64_t)LEND_BUF_HANDLES *
			       (sizeof(*pool->table.seg) + sizeof(*pool->of) + sizeof(*pool->own));
		for (const struct lend_map *map = pool->maps; map; map = map->next)
			lost.blocks++;
	}
	return lost;
}

void lend_bufs_reclaim(struct lend_pool_of_bufs *pool)
{
	pool->grown = NULL;
	for (uint32_t h = 1; h < pool->table.n; h++) {
		struct lend_mbuf *buf = pool->of[h];

		if (!buf || buf->state != LEND_MBUF_CORE)
			continue;
		if (buf->pool == pool && buf->abroad)
			continue; /* another endpoint has it */
		buf->state = LEND_MBUF_USER;
		if (buf->pool == pool) {
			lend_bufs_free(pool, buf);
			continue;
		}
		lend_bufs_handle_free(pool, h);
		buf->abroad = 0;
		lend_bufs_return(buf);
		drop_ref(buf->pool);
	}
}

void lend_bufs_close(struct lend_pool_of_bufs *pool)
{
	drop_ref(pool);
}

void lend_bufs_each_memory(struct lend_pool_of_bufs *pool, lend_bufs_memory *memory, void *arg)
{
	for (struct lend_map *map = pool->maps; map; map = map->next)
		if (map->foreign)
			memory(arg, map->memory, map->len);
}

int lend_bufs_add_memory(struct lend_pool_of_bufs *pool, void *memory, size_t len)
{
	struct lend_map *map = malloc(sizeof(*map));

	if (!map)
		return lend_fail(ENOMEM, "no memory to remember %zu registered bytes", len);
	*map = (struct lend_map){.next = pool->maps, .memory = memory, .len = len, .foreign = true};
	pool->maps = map;
	return 0;
}

void lend_bufs_on_grow(struct lend_pool_of_bufs *pool, void (*grown)(void *arg), void *arg)
{
	pool->grown = grown;
	pool->grown_arg = arg;
}

uint32_t lend_bufs_handle(struct lend_pool_of_bufs *pool)
{
	uint32_t handle = pool->handles_free;

	if (handle) {
		pool->handles_free = pool->table.seg[handle].next;
		return handle;
	}
	return pool->table.n < LEND_BUF_HANDLES ? pool->table.n++ : 0;
}

void lend_bufs_handle_free(struct lend_pool_of_bufs *pool, uint32_t handle)
{
	pool->of[handle] = NULL;
	pool->table.seg[handle] = (struct lend_seg){.next = pool->handles_free};
	pool->handles_free = handle;
}

/* Takes len bytes of the heap and counts them; NULL past the limit. */
static struct lend_map *map_new(struct lend_pool_of_bufs *pool, size_t len)
{
	struct lend_map *map;

	if (pool->held + len > pool->limit)
		return NULL;
	map = malloc(sizeof(*map));
	if (!map)
		return NULL;
	map->memory = pool->shares ? lend_malloc_shared(len) : NULL;
	if (!map->memory)
		map->memory = lend_malloc(len);
	if (!map->memory) {
		free(map);
		return NULL;
	}
	map->len = len;
	map->buf = NULL;
	map->foreign = false;
	map->next = pool->maps;
	pool->maps = map;
	pool->held += len;
	return map;
}

/* Frees unused big buffers until the pool may grow by want bytes; false: it may not. */
static bool trim_unused(struct lend_pool_of_bufs *pool, uint64_t want)
{
	if (want > pool->limit)
		return false;
	for (struct lend_map **at = &pool->maps; *at && pool->held + want > pool->limit;) {
		struct lend_map *map = *at;
		struct lend_buf **link;

		if (!map->buf || map->buf->state != LEND_MBUF_FREE) {
			at = &map->next;
			continue;
		}
		for (link = &pool->free[map->buf->class]; *link != &map->buf->pub;
		     link = &(*link)->next)
			continue;
		*link = map->buf->pub.next;
		lend_bufs_handle_free(pool, map->buf->handle);
		*at = map->next;
		pool->held -= map->len;
		map_free(map);
		free(map);
	}
	return pool->held + want <= pool->limit;
}

/* Takes memory for one buffer of a class: a piece of a chunk, or a mapping of its own. */
static void *memory_new(struct lend_pool_of_bufs *pool, uint32_t class, struct lend_map **map)
{
	size_t len = lend_buf_class_len(class);
	void *memory = pool->bump;

	*map = NULL;
	if (class >= LEND_BUF_SMALL) {
		*map = map_new(pool, len);
		return *map ? (*map)->memory : NULL;
	}
	if ((size_t)(pool->bump_end - pool->bump) < len) {
		struct lend_map *chunk = map_new(pool, LEND_BUF_CHUNK);

		if (!chunk)
			return NULL;
		memory = chunk->memory;
		pool->bump_end = (uint8_t *)memory + LEND_BUF_CHUNK;
	}
	pool->bump = (uint8_t *)memory + len;
	return memory;
}

static struct lend_mbuf *buf_new(struct lend_pool_of_bufs *pool, uint32_t class)
{
	uint32_t handle = lend_bufs_handle(pool);
	struct lend_map *map;
	struct lend_mbuf *buf;
	void *memory;

	if (!handle)
		return NULL;
	memory = memory_new(pool, class, &map);
	if (!memory &&
	    trim_unused(pool, class < LEND_BUF_SMALL ? LEND_BUF_CHUNK : lend_buf_class_len(class)))
		memory = memory_new(pool, class, &map);
	if (!memory) {
		lend_bufs_handle_free(pool, handle);
		return NULL;
	}
	buf = &pool->own[handle];
	*buf = (struct lend_mbuf){.pub = {.data = memory, .cap = lend_buf_class_len(class)},
				  .pool = pool,
				  .handle = handle,
				  .class = (uint8_t) class,
				  .whole = {.data = memory, .cap = lend_buf_class_len(class)}};
	pool->of[handle] = buf;
	if (map)
		map->buf = buf;
	return buf;
}

struct lend_buf *lend_bufs_take_slow(struct lend_pool_of_bufs *pool, uint32_t class)
{
	struct lend_mbuf *buf;

	if (class >= LEND_BUF_CLASSES)
		return NULL;
	if (atomic_load_explicit(&pool->inbox, memory_order_relaxed)) {
		lend_bufs_drain(pool);
		if (pool->free[class])
			return lend_bufs_take(pool, lend_buf_class_len(class));
	}
	buf = buf_new(pool, class);
	if (!buf)
		return NULL;
	buf->state = LEND_MBUF_USER;
	pool->out += lend_buf_class_len(class);
	return &buf->pub;
}

struct lend_buf *lend_bufs_wrap(struct lend_pool_of_bufs *pool, void *data, uint32_t len,
				void (*gone)(void *), void *arg)
{
	uint32_t handle = lend_bufs_handle(pool);
	struct lend_mbuf *buf;

	if (!handle)
		return NULL;
	buf = &pool->own[handle];
	*buf = (struct lend_mbuf){.pub = {.data = data, .len = len, .cap = len},
				  .pool = pool,
				  .handle = handle,
				  .class = LEND_BUF_CLASSES,
				  .state = LEND_MBUF_USER,
				  .gone = gone,
				  .arg = arg};
	pool->of[handle] = buf;
	return &buf->pub;
}

void lend_bufs_free_wrap(struct lend_pool_of_bufs *pool, struct lend_mbuf *buf)
{
	void (*gone)(void *) = buf->gone;
	void *arg = buf->arg;

	buf->gone = NULL;
	lend_bufs_handle_free(pool, buf->handle);
	if (gone)
		gone(arg);
}

void lend_bufs_give_chain(struct lend_pool_of_bufs *pool, struct lend_buf *chain)
{
	while (chain) {
		struct lend_mbuf *buf = lend_mbuf(chain);

		chain = chain->next;
		if (buf->pool == pool)
			lend_bufs_free(pool, buf);
		else
			lend_bufs_return(buf);
	}
}

/* A reference keeps the pool until the push is complete: another thread may free the buffer as soon
 * as it is in the inbox. */
void lend_bufs_return(struct lend_mbuf *buf)
{
	struct lend_pool_of_bufs *pool = buf->pool;
	struct lend_buf *top = atomic_load_explicit(&pool->inbox, memory_order_relaxed);

	LEND_CHECK(buf->state == LEND_MBUF_USER);
	atomic_fetch_add_explicit(&pool->refs, 1, memory_order_relaxed);
	do
		buf->pub.next = top;
	while (!atomic_compare_exchange_weak_explicit(&pool->inbox, &top, &buf->pub,
						      memory_order_release, memory_order_relaxed));
	drop_ref(pool);
}

void lend_bufs_drain(struct lend_pool_of_bufs *pool)
{
	struct lend_buf *buf;

	if (!atomic_load_explicit(&pool->inbox, memory_order_relaxed))
		return;
	buf = atomic_exchange_explicit(&pool->inbox, NULL, memory_order_acquire);
	while (buf) {
		struct lend_buf *next = buf->next;

		lend_bufs_free(pool, lend_mbuf(buf));
		buf = next;
	}
}
