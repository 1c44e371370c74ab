#include "mn/node_worker.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "lend/stats.h"
#include "mn/fdstore.h"
#include "mn/notify.h"
#include "mn/store/recover.h"
#include "sys/cpu.h"
#include "sys/memlimit.h"
#include "sys/last_error.h"
#include "util/bits.h"

enum { PAGE = 4096, HUGE_PAGE = 2 << 20 };

int mn_worker_listen(struct mn_worker *worker, const struct mn_config *config, const char *listen)
{
	struct lend_config c = LEND_CONFIG_INIT;
	int rc;

	c.listen = listen;
	c.eal = config->eal;
	c.capture = config->capture;
	c.capture_limit = config->capture_limit;
	c.sessions = 2 * config->clients + 512; /* each process has one for its lease, too */
	c.receive_budget = UINT64_C(256) << 20;
	rc = lend_open(&c, &worker->ep);
	return rc < 0 ? rc : lend_address(worker->ep, worker->address, sizeof(worker->address));
}

/* Warns when the pages may exceed the memory limits. Pages are allocated when they are first
 * written, so a node that is too large starts well and is killed later. Huge pages and files do not
 * count against these limits. */
static void warn_of_limit(const struct mn_config *config, const struct lend_store_config *c)
{
	uint64_t each = lend_store_pages_size(c) + lend_store_size(c);
	struct lend_memlimit limit = lend_memlimit("");

	if (each <= limit.bytes / config->workers)
		return;
	fprintf(stderr,
		"lend-mn: --size %" PRIu64 " MiB: %s %" PRIu64 " MiB of memory (%s), so the kernel "
		"may kill this node before it is full: give a smaller --size%s\n",
		config->size >> 20, limit.cgroup ? "its cgroup may use" : "this host has left",
		limit.bytes >> 20, limit.name, limit.cgroup ? ", or raise that limit" : "");
}

/* Opens the memory of the pages and of the arena. When other processes can map the pages, the arena
 * is a memfd, which a later start can reopen, too. */
static int open_memory(struct mn_worker *worker, const struct mn_config *config,
		       const struct lend_store_config *c)
{
	const char *kind = config->memory;
	bool is_anonymous;
	struct stat st;
	int rc;

	if (c->workers > 1 && strchr(kind, '/') && (stat(kind, &st) < 0 || !S_ISDIR(st.st_mode)))
		return lend_fail(EINVAL,
				 "--memory %s: a file serves one worker only; give a folder, "
				 "\"memfd\" or \"huge\", or --workers 1",
				 kind);
	is_anonymous = !strcmp(kind, "private") || !strcmp(kind, "shared");
	kind = config->keep && is_anonymous ? "memfd" : kind;
	rc = mn_memory_open(&worker->pages, kind, "lend-pages", lend_store_pages_size(c),
			    config->overwrite);
	if (rc < 0)
		return rc;
	if (c->worker == 0 && !strchr(kind, '/') && worker->pages.grain < HUGE_PAGE)
		warn_of_limit(config, c);
	kind = is_anonymous && !config->keep ? "private" : "memfd";
	return mn_memory_open(&worker->arena, kind, "lend-arena", lend_store_size(c), false);
}

/* Keeps the records on small pages: each client writes a few of its own at first, and huge pages
 * would make those of all clients resident. */
static void keep_records_small(struct mn_worker *worker)
{
	uint64_t bytes, at = lend_store_records(worker->store, &bytes);
	uint64_t first = lend_align_up(at, PAGE), end = (at + bytes) & ~(uint64_t)(PAGE - 1);

	if (first < end)
		(void)madvise((char *)worker->arena.base + first, end - first, MADV_NOHUGEPAGE);
}

static int open_store(struct mn_worker *worker, const struct mn_config *config,
		      const struct lend_store_config *c)
{
	int rc = open_memory(worker, config, c);

	if (rc < 0)
		return rc;
	worker->store =
	    lend_store_build(worker->arena.base, c, worker->pages.base, lend_now(worker->ep));
	if (config->keep)
		rc = mn_fdstore_store(c->worker, MN_FDSTORE_PAGES, &worker->pages);
	if (config->keep && rc == 0)
		rc = mn_fdstore_store(c->worker, MN_FDSTORE_ARENA, &worker->arena);
	return rc;
}

/* Recovers the store, and reports pages that were damaged while no node was running. Reads of them
 * keep failing. */
static const char *recover_store(struct mn_worker *worker, const struct lend_store_config *c)
{
	struct lend_store *store = worker->arena.base;
	struct lend_memstats was, is;
	const char *why;

	lend_store_stats(store, &was);
	why = lend_store_recover(store, c, worker->pages.base, lend_now(worker->ep));
	lend_store_stats(store, &is);
	if (!why && is.damaged > was.damaged)
		fprintf(stderr,
			"lend-mn: %" PRIu64
			" pages of an earlier start are damaged: reads of them end in DATA_LOSS; "
			"test this host's memory\n",
			is.damaged - was.damaged);
	return why;
}

/* Reopens the store of an earlier start with all its contents. Opens none when there are no files,
 * or when that start was killed before it served. */
static int go_on(struct mn_worker *worker, const struct mn_config *config,
		 const struct lend_store_config *c)
{
	int pages = mn_fdstore_find(c->worker, MN_FDSTORE_PAGES);
	int arena = mn_fdstore_find(c->worker, MN_FDSTORE_ARENA);
	struct lend_store_config want = *c;
	const char *why;
	int rc;

	if (pages < 0 || arena < 0)
		return 0;
	rc = mn_memory_adopt(&worker->pages, pages, "lend-pages", lend_store_pages_size(c));
	/* A pool's pages are sealed and were copied: the next start must find the copy. */
	if (rc == 0 && worker->pages.fd != pages)
		rc = mn_fdstore_store(c->worker, MN_FDSTORE_PAGES, &worker->pages);
	if (rc == 0)
		rc = mn_memory_adopt(&worker->arena, arena, "lend-arena", lend_store_size(c));
	if (rc < 0)
		return rc;
	want.node = config->id; /* 0: any node */
	why = lend_store_mismatch(worker->arena.base, worker->arena.len, &want);
	if (!why && !mn_fdstore_is_whole(c->workers)) {
		mn_memory_close(&worker->arena);
		mn_memory_close(&worker->pages);
		return 0;
	}
	if (!why)
		why = recover_store(worker, c);
	if (why)
		return lend_fail(
		    EINVAL,
		    "--keep: the state of an earlier start cannot be used: %s; start with the same "
		    "options as then, or stop the service, which drops it",
		    why);
	worker->store = worker->arena.base;
	return 0;
}

/* Registers the pages with carriers that need that to send them in place. Registered memory is
 * resident, so pages beyond the memory limit are copied instead. The limit no longer includes what
 * earlier workers registered. */
static void register_pages(struct mn_worker *worker, const struct mn_config *config)
{
	uint64_t room = lend_memlimit("").bytes / (config->workers - worker->index);

	if (worker->pages.grain < HUGE_PAGE && worker->pages.len > room)
		return;
	if (lend_register(worker->ep, worker->pages.base, worker->pages.len) < 0)
		fprintf(stderr, "lend-mn: replies are copies of their pages: %s\n", lend_why());
}

/* Shares the pages at the name of this worker's shm address. */
static int open_pool(struct mn_worker *worker, const char *pool)
{
	char name[LEND_MEMOP_TEXT_MAX + 1];

	if (worker->index)
		(void)snprintf(name, sizeof(name), "%s.%u", pool, worker->index);
	return mn_pool_open(worker->ep, worker->store, &worker->pages, worker->index ? name : pool,
			    &worker->pool);
}

/* Gives the i-th number of the store: a lend_numbers_fn. All are of the time when the first is
 * read. */
static bool give_number(void *arg, unsigned i, const char **name, uint64_t *value)
{
#define X(stat, text) #stat,
	static const char *const names[] = {LEND_MEM_STATS(X)};
#undef X
	struct mn_worker *worker = arg;

	if (i == 0)
		lend_store_stats(worker->store, &worker->published);
	if (i >= sizeof(names) / sizeof(names[0]))
		return false;
	*name = names[i];
	*value = ((const uint64_t *)&worker->published)[i];
	return true;
}

int mn_worker_open(struct mn_worker *worker, const struct mn_config *config,
		   const struct lend_store_config *store)
{
	struct lend_store_config c = *store;
	int rc;

	c.worker = worker->index;
	worker->pin = config->pin;
	worker->keep = config->keep;
	worker->drain_ms = config->drain_ms;
	worker->clients = c.clients;
	mn_query_init(&worker->ask);
	rc = config->keep ? go_on(worker, config, &c) : 0;
	if (rc == 0 && !worker->store)
		rc = open_store(worker, config, &c);
	if (rc < 0)
		return rc;
	keep_records_small(worker);
	rc = config->populate ? mn_memory_populate(&worker->pages) : 0;
	if (rc == 0)
		rc = mn_serve_open(worker->ep, worker->store, &worker->serve);
	if (rc < 0)
		return rc;
	mn_serve_set_memory(worker->serve, &worker->pages);
	mn_serve_set_tenants(worker->serve, worker->tenants);
	register_pages(worker, config);
	lend_stats_publish(worker->ep, give_number, worker);
	return config->pool ? open_pool(worker, config->pool) : 0;
}

static int run_turn(struct mn_worker *worker)
{
	int rc = lend_wait(worker->ep,
			   mn_serve_waits(worker->serve) ? 0 : lend_store_deadline(worker->store));

	mn_serve_turn(worker->serve);
	mn_pool_turn(worker->pool);
	mn_query_turn(worker);
	if (lend_now(worker->ep) >= lend_store_deadline(worker->store))
		lend_store_tick(worker->store, lend_now(worker->ep));
	return rc;
}

/* Replies to the requests that have arrived, starts no new operations, and waits for replies in
 * flight. */
static void drain_requests(struct mn_worker *worker)
{
	lend_ns until = lend_now(worker->ep) + worker->drain_ms * UINT64_C(1000000);
	struct lend_memstats stats;

	if (worker->index == 0)
		(void)mn_notify("STOPPING=1", -1);
	mn_serve_refuse(worker->serve);
	do {
		lend_ns soon = lend_now(worker->ep) + 1000000;

		(void)lend_wait(worker->ep, soon < until ? soon : until);
		lend_store_stats(worker->store, &stats);
	} while (stats.pages_pinned && lend_now(worker->ep) < until &&
		 atomic_load(worker->leaving) == 1);
}

int mn_worker_run(struct mn_worker *worker)
{
	int rc = worker->pin ? lend_cpu_pin(lend_cpu_at((int)worker->index)) : 0;

	mn_query_open(&worker->ask);
	while (!atomic_load_explicit(worker->leaving, memory_order_relaxed) && rc >= 0)
		rc = run_turn(worker);
	mn_query_close(&worker->ask);
	if (rc >= 0)
		drain_requests(worker);
	return rc < 0 ? rc : 0;
}

static void *run_thread(void *arg)
{
	struct mn_worker *worker = arg;

	worker->rc = mn_worker_run(worker);
	if (worker->rc < 0) {
		(void)snprintf(worker->why, sizeof(worker->why), "%s", lend_why());
		worker->leave_all();
	}
	return NULL;
}

int mn_worker_start(struct mn_worker *worker)
{
	int rc = pthread_create(&worker->thread, NULL, run_thread, worker);

	worker->running = rc == 0;
	return rc ? lend_fail(rc, "no thread for worker %u: %s; ask for fewer --workers",
			      worker->index, strerror(rc))
		  : 0;
}

int mn_worker_join(struct mn_worker *worker)
{
	if (!worker->running)
		return 0;
	worker->running = false;
	(void)pthread_join(worker->thread, NULL);
	return worker->rc < 0 ? lend_fail(-worker->rc, "worker %u: %s", worker->index, worker->why)
			      : 0;
}

static uint64_t read_counter(struct lend_ep *ep, const char *wanted)
{
	const char *name, *meaning;
	uint64_t value;

	for (unsigned i = 0; lend_stats_each(ep, i, &name, &meaning, &value); i++)
		if (strcmp(name, wanted) == 0)
			return value;
	return 0;
}

void mn_worker_close_endpoint(struct mn_worker *worker)
{
	struct lend_stats stats;

	if (!worker->ep)
		return;
	mn_pool_close(worker->pool);
	worker->pool = NULL;
	if (worker->keep) /* the sessions end by shutdown, not by a hang-up */
		(void)lend_watch_sessions(worker->ep, NULL, NULL);
	lend_stats_get(worker->ep, &stats);
	worker->tx_bytes = stats.tx_bytes;
	worker->tx_in_place = read_counter(worker->ep, "io_tx_in_place");
	lend_close(worker->ep);
	worker->ep = NULL;
	if (worker->store)
		lend_store_set_tx_bytes(worker->store, worker->tx_bytes);
}

void mn_worker_close(struct mn_worker *worker)
{
	mn_worker_close_endpoint(worker);
	if (worker->serve)
		mn_serve_close(worker->serve);
	mn_memory_close(&worker->arena);
	mn_memory_close(&worker->pages);
}
