/* mem_pointer - see mem_pointer.h. */
#include "apps/bench/mem_pointer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "util/bits.h"

enum { PAGE = 4096, PAGES = APP_POINTER_SIZE / PAGE };

static void add_time(struct lend_hist *hist, uint64_t began)
{
	lend_hist_add(hist, (uint64_t)((double)(app_ticks() - began) / app_ticks_per_ns()));
}

static lend_space map_object(struct app_memory *m, const struct lend_ref *ref)
{
	struct app_timed t;
	lend_space space;

	(void)app_timed_end(m, &t, lend_space_map(m->mem, ref, &space, app_timed_begin(&t)), "map");
	return space;
}

static void unmap_object(struct app_memory *m, lend_space space)
{
	struct app_timed t;

	(void)app_timed_end(m, &t, lend_space_free(m->mem, space, app_timed_begin(&t)), "free");
}

typedef uint64_t pair __attribute__((vector_size(16)));

static pair pair_at(const char *bytes)
{
	pair value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

/* Reads every byte, at about memory speed. */
static uint64_t sum_of(const char *bytes)
{
	pair a = {0}, b = {0}, c = {0}, d = {0};

	for (size_t i = 0; i < APP_POINTER_SIZE; i += 4 * sizeof(a)) {
		a += pair_at(bytes + i);
		b += pair_at(bytes + i + 16);
		c += pair_at(bytes + i + 32);
		d += pair_at(bytes + i + 48);
	}
	a += b + c + d;
	return a[0] + a[1];
}

/* Returns shared memory of the object's bytes that stays mapped: what a map can be at best. */
static char *map_plain(const char *bytes)
{
	char *plain =
	    mmap(NULL, APP_POINTER_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (plain == MAP_FAILED)
		app_die("no shared memory for %d bytes: %s; end some processes", APP_POINTER_SIZE,
			strerror(errno));
	return memcpy(plain, bytes, APP_POINTER_SIZE);
}

static void read_plain(struct app_pointer *p, const char *plain, uint64_t want)
{
	uint64_t began = app_ticks(), word = sum_of(plain);

	add_time(&p->plain, began);
	p->wrong_bytes += word != want ? APP_POINTER_SIZE : 0;
}

/* Reads 8 bytes of the object in one map, then the whole object in another map. */
static void load_object(struct app_memory *m, struct app_pointer *p, const struct lend_ref *ref,
			const char *bytes)
{
	uint64_t at = p->rounds * 4099 % (APP_POINTER_SIZE / 8) * 8, began = app_ticks();
	lend_space space = map_object(m, ref);
	const char *pointer = lend_space_pointer(m->mem, space);
	uint64_t word = lend_load_u64(pointer + at);

	add_time(&p->touch, began);
	p->wrong_bytes += word != lend_load_u64(bytes + at) ? 8 : 0;
	unmap_object(m, space);
	began = app_ticks();
	space = map_object(m, ref);
	pointer = lend_space_pointer(m->mem, space);
	word = sum_of(pointer);
	add_time(&p->read, began);
	if (word != sum_of(bytes) || memcmp(pointer, bytes, APP_POINTER_SIZE) != 0)
		p->wrong_bytes += APP_POINTER_SIZE;
	unmap_object(m, space);
}

static void store_to_each(struct lend_hist *hist, char *pages)
{
	uint64_t began = app_ticks();

	for (unsigned i = 0; i < PAGES; i++)
		((volatile char *)pages)[(size_t)i * PAGE + 64] = 1;
	add_time(hist, began);
}

/* Measures the first store to each page of a map, and to each page of as much fresh memory. */
static void store_pages(struct app_memory *m, struct app_pointer *p, const struct lend_ref *ref,
			const char *bytes)
{
	lend_space space = map_object(m, ref);
	char *pointer = lend_space_pointer(m->mem, space);
	char *fresh = mmap(NULL, APP_POINTER_SIZE, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (fresh == MAP_FAILED)
		app_die("no memory for %d bytes: %s; end some processes", APP_POINTER_SIZE,
			strerror(errno));
	(void)madvise(fresh, APP_POINTER_SIZE, MADV_NOHUGEPAGE);
	store_to_each(&p->store, pointer);
	store_to_each(&p->fault, fresh);
	for (size_t i = 0; i < APP_POINTER_SIZE; i++)
		p->wrong_bytes += pointer[i] != (i % PAGE == 64 ? 1 : bytes[i]);
	munmap(fresh, APP_POINTER_SIZE);
	unmap_object(m, space);
}

/* Measures the readers in turns, then the writer, separately since services read and write in
 * different processes. */
static void run_rounds(struct app_memory *m, lend_ns time, struct app_pointer *p,
		       const struct lend_ref *ref, char *into)
{
	const char *bytes = app_pattern(0, APP_POINTER_SIZE);
	struct iovec iov = {into, APP_POINTER_SIZE};
	char *plain = map_plain(bytes);
	lend_ns began = app_now();
	struct app_timed t;

	while (p->rounds < 3 || app_now() < began + time / 2) {
		app_timed_add(m, &t, lend_get(m->mem, ref, 0, &iov, 1, app_timed_begin(&t)), "get",
			      &p->get);
		load_object(m, p, ref, bytes);
		read_plain(p, plain, sum_of(bytes));
		p->rounds++;
	}
	munmap(plain, APP_POINTER_SIZE);
	do
		store_pages(m, p, ref, bytes);
	while (app_now() < began + time);
}

static bool is_offered(struct app_memory *m, const struct lend_ref *ref)
{
	lend_space space = map_object(m, ref);
	bool offered = lend_space_pointer(m->mem, space) != NULL;

	unmap_object(m, space);
	return offered;
}

void app_pointer_measure(struct app_memory *m, lend_ns time, struct app_pointer *p)
{
	struct lend_hist *const hist[] = {&p->get,   &p->touch, &p->read,
					  &p->plain, &p->store, &p->fault};
	const char *bytes = app_pattern(0, APP_POINTER_SIZE);
	struct iovec data = {(void *)(uintptr_t)bytes, APP_POINTER_SIZE};
	char *into = malloc(APP_POINTER_SIZE);
	struct lend_mem_cache_stat before, after;
	struct lend_ref ref;
	struct app_timed t;

	if (!into)
		app_die("no memory for %d bytes; end some processes", APP_POINTER_SIZE);
	for (unsigned i = 0; i < sizeof(hist) / sizeof(hist[0]); i++)
		lend_hist_init(hist[i]);
	(void)app_timed_end(m, &t, lend_put(m->mem, &data, 1, NULL, app_timed_begin(&t)), "put");
	ref = t.op.ref;
	p->offered = !m->inproc && is_offered(m, &ref);
	lend_mem_cache_stat_get(&before);
	if (p->offered)
		run_rounds(m, time, p, &ref, into);
	lend_mem_cache_stat_get(&after);
	p->pool_views = after.pool_views - before.pool_views;
	p->pool_fetched = after.pool_fetched - before.pool_fetched;
	p->pool_gets = after.pool_gets - before.pool_gets;
	p->pool_gets_sent = after.pool_gets_sent - before.pool_gets_sent;
	(void)app_timed_end(m, &t, lend_release(m->mem, &ref, 1, app_timed_begin(&t)), "release");
	free(into);
}

void app_pointer_report(const struct app_pointer *p, struct app_report *r)
{
	double get = app_hist_us(&p->get, 0.5), touch = app_hist_us(&p->touch, 0.5);
	double read = app_hist_us(&p->read, 0.5), plain = app_hist_us(&p->plain, 0.5);
	double store = app_hist_us(&p->store, 0.5), fault = app_hist_us(&p->fault, 0.5);

	app_report_bool(r, "pointers", p->offered, "lend_space_pointer() works here");
	if (!p->offered)
		return;
	app_report_int(r, "pool_views", p->pool_views, "of the maps: the pages of the node itself");
	app_report_int(r, "pool_fetched", p->pool_fetched, "of a pool's, but fetched: not mapped");
	app_report_int(r, "pool_gets", p->pool_gets, "gets copied from the pages of the node");
	app_report_int(r, "pool_gets_sent", p->pool_gets_sent, "gets of a pool's, but sent by it");
	app_report_num(r, "get_1m_us", get, 2, "us, get of 1 MiB");
	app_report_num(r, "map_touch_1m_us", touch, 2, "us, map of 1 MiB and one word of it");
	app_report_num(r, "map_read_1m_us", read, 2, "us, map of 1 MiB and a sum over all of it");
	app_report_num(r, "plain_read_1m_us", plain, 2,
		       "us, a sum over 1 MiB of shared memory that stays mapped");
	app_report_num(r, "map_read_over_plain", read / plain, 2, "");
	app_report_num(r, "get_over_touch", get / touch, 2, "");
	app_report_num(r, "get_over_read", get / read, 2, "");
	app_report_num(r, "first_store_ns", store * 1e3 / PAGES, 1, "ns, first store to a page");
	app_report_num(r, "minor_fault_ns", fault * 1e3 / PAGES, 1,
		       "ns, first store to new anonymous memory");
	app_report_num(r, "store_over_fault", store / fault, 2, "");
}
