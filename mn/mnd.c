/* mnd - the memory-node daemon: an endpoint around one store.
 * Layer: mn. Threads: one. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lend/stats.h"
#include "mn/config.h"
#include "mn/memory.h"
#include "mn/serve.h"
#include "sys/rand.h"
#include "sys/why.h"
#include "util/bits.h"

struct node {
	struct lend_ep *ep;
	struct lend_store *store;
	struct mn_serve *serve;
	struct mn_memory arena, pages;
	char address[LEND_MEMOP_TEXT_MAX];
};

static volatile sig_atomic_t leaving;
static struct lend_ep *woken;

static void leave(int signal_number)
{
	(void)signal_number;
	leaving = 1;
	if (woken)
		lend_stop(woken);
}

static int open_endpoint(struct node *node, const struct mn_config *config)
{
	struct lend_config c = LEND_CONFIG_INIT;
	int rc;

	c.listen = config->listen;
	c.eal = config->eal;
	c.capture = config->capture;
	c.capture_limit = config->capture_limit;
	c.sessions = 2 * config->clients + 512; /* each process has one for its lease, too */
	c.receive_budget = UINT64_C(256) << 20;
	rc = lend_open(&c, &node->ep);
	return rc < 0 ? rc : lend_address(node->ep, node->address, sizeof(node->address));
}

/* Where pages can be mapped by others, the arena can be found again, too. */
static int open_memory(struct node *node, const struct mn_config *config,
		       const struct lend_store_config *c)
{
	const char *kind = config->memory;
	int rc = mn_memory_open(&node->pages, kind, "lend-pages", lend_store_pages_size(c));

	if (rc < 0)
		return rc;
	kind = strcmp(kind, "private") ? "memfd" : "private";
	return mn_memory_open(&node->arena, kind, "lend-arena", lend_store_size(c));
}

static int open_store(struct node *node, const struct mn_config *config)
{
	struct lend_store_config c;
	int rc;

	lend_store_config_default(&c, config->size);
	lend_random(&c.node, sizeof(c.node));
	lend_random(&c.epoch, sizeof(c.epoch));
	lend_random(c.key, sizeof(c.key));
	c.node = config->id ? config->id : c.node | 1;
	c.epoch |= 1;
	c.clients = config->clients ? config->clients : c.clients;
	c.incarnations = (uint32_t)lend_max_u64(c.clients, c.incarnations);
	if (config->lease_ms) {
		c.lease = config->lease_ms * 1000000;
		c.late = lend_min_u64(c.late, lend_max_u64(c.lease, 10000000));
	}
	c.addresses = node->address;
	if (!lend_store_size(&c))
		return lend_fail(EINVAL, "--size %" PRIu64 ": give 4K to 64G", config->size);
	rc = open_memory(node, config, &c);
	if (rc < 0)
		return rc;
	node->store = lend_store_init(node->arena.base, &c, node->pages.base, lend_now(node->ep));
	return mn_serve_open(node->ep, node->store, &node->serve);
}

static void watch_signals(struct lend_ep *ep)
{
	struct sigaction act = {.sa_handler = leave};

	woken = ep;
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGINT, &act, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static int run(struct node *node)
{
	int rc = 0;

	while (!leaving && rc >= 0) {
		rc = lend_turn(node->ep, lend_store_deadline(node->store));
		if (lend_now(node->ep) >= lend_store_deadline(node->store))
			lend_store_tick(node->store, lend_now(node->ep));
	}
	return rc < 0 ? rc : 0;
}

static void report(const struct node *node, uint64_t tx_bytes)
{
	struct lend_memstats stats;
	const char *comma = "";

	lend_store_set_tx_bytes(node->store, tx_bytes);
	lend_store_stats(node->store, &stats);
	putchar('{');
#define X(name, text)                                                                              \
	printf("%s\"" #name "\":%" PRIu64, comma, stats.name);                                     \
	comma = ",";
	LEND_MEM_STATS(X)
#undef X
	puts("}");
}

static void close_all(struct node *node, bool json)
{
	struct lend_stats stats = {.tx_bytes = 0};

	woken = NULL;
	if (node->ep) {
		lend_stats(node->ep, &stats);
		lend_close(node->ep);
	}
	if (node->store && json)
		report(node, stats.tx_bytes);
	if (node->serve)
		mn_serve_close(node->serve);
	mn_memory_close(&node->arena);
	mn_memory_close(&node->pages);
}

int main(int argc, char **argv)
{
	struct node node = {.ep = NULL};
	struct mn_config config;
	int rc;

	mn_config_read(&config, argc, argv);
	rc = open_endpoint(&node, &config);
	if (rc == 0)
		rc = open_store(&node, &config);
	if (rc == 0) {
		watch_signals(node.ep);
		printf("lend-mn: serving %" PRIu64 " bytes at %s\n", config.size, node.address);
		fflush(stdout);
		rc = run(&node);
	}
	if (rc < 0)
		fprintf(stderr, "lend-mn: %s\n", lend_why());
	close_all(&node, config.json && rc == 0);
	return rc < 0;
}
