/* inproc_node - see inproc_node.h. */
#include "apps/store/inproc_node.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "apps/common/options.h"
#include "mn/memory.h"
#include "mn/node_server.h"

enum { WAIT_NS = 1000000 };

struct app_inproc {
	struct lend_ep *ep;
	struct lend_store *store;
	struct mn_serve *serve;
	struct mn_memory pages;
	struct lend_store_config config;
	pthread_t thread;
	atomic_bool over;
};

static void *map_pages(uint64_t len)
{
	void *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		app_die("%llu bytes for a memory node: refused; give a smaller --size",
			(unsigned long long)len);
	(void)madvise(at, len, MADV_HUGEPAGE);
	return at;
}

/* Opens the pages where shm peers read them in place, if there is such memory. */
static void open_pages(struct app_inproc *node)
{
	uint64_t len = lend_store_pages_size(&node->config);

	if (mn_memory_open(&node->pages, "shared", "lend-pages", len, false) < 0 &&
	    mn_memory_open(&node->pages, "private", "lend-pages", len, false) < 0)
		app_die("%s", lend_why());
}

struct app_inproc *app_inproc_open(const char *listen, const char *eal, uint64_t bytes,
				   uint32_t page, char *text, size_t cap)
{
	struct app_inproc *node = calloc(1, sizeof(*node));
	struct lend_config config = LEND_CONFIG_INIT;

	if (!node)
		app_die("no memory for a node; end some processes");
	config.listen = listen;
	config.eal = eal;
	config.receive_budget = bytes > 64 << 20 ? bytes : 0;
	lend_store_config_default(&node->config, bytes, page ? page : LEND_MEM_PAGE);
	node->config.node = node->config.epoch = 1;
	node->config.addresses = text;
	if (lend_open(&config, &node->ep) < 0 || lend_address(node->ep, text, cap) < 0)
		app_die("%s", lend_why());
	open_pages(node);
	node->store = lend_store_init(map_pages(lend_store_size(&node->config)), &node->config,
				      node->pages.base, lend_now(node->ep));
	node->config.addresses = NULL; /* the store has its copy; text is the caller's */
	if (mn_serve_open(node->ep, node->store, &node->serve) < 0)
		app_die("%s", lend_why());
	return node;
}

struct lend_ep *app_inproc_ep(struct app_inproc *node)
{
	return node->ep;
}

void app_inproc_between(void *arg)
{
	struct app_inproc *node = arg;

	mn_serve_turn(node->serve);
	if (lend_now(node->ep) >= lend_store_deadline(node->store))
		lend_store_tick(node->store, lend_now(node->ep));
}

void app_inproc_turn(struct app_inproc *node)
{
	if (lend_poll(node->ep) < 0)
		app_die("%s", lend_why());
	app_inproc_between(node);
}

static void *turn_alone(void *arg)
{
	struct app_inproc *node = arg;

	while (!atomic_load(&node->over)) {
		if (lend_wait(node->ep, lend_now(node->ep) + WAIT_NS) < 0)
			app_die("%s", lend_why());
		app_inproc_between(node);
	}
	return NULL;
}

void app_inproc_alone_begin(struct app_inproc *node)
{
	if (!node)
		return;
	atomic_store(&node->over, false);
	if (pthread_create(&node->thread, NULL, turn_alone, node))
		app_die("cannot start a thread: raise ulimit -u");
}

void app_inproc_alone_end(struct app_inproc *node)
{
	if (!node)
		return;
	atomic_store(&node->over, true);
	(void)pthread_join(node->thread, NULL);
}

void app_inproc_close(struct app_inproc *node)
{
	if (!node)
		return;
	lend_close(node->ep);
	mn_serve_close(node->serve);
	munmap(node->store, lend_store_size(&node->config));
	mn_memory_close(&node->pages);
	free(node);
}
