/* lend_mn - the memory-node daemon: opens, runs and closes its workers.
 * Layer: mn. Threads: the main thread runs worker 0; each other worker has a thread of its own, and
 * one waits for SIGHUP. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/numa.h"
#include "mn/admin.h"
#include "mn/config.h"
#include "mn/fdstore.h"
#include "mn/metrics.h"
#include "mn/notify.h"
#include "mn/worker_addresses.h"
#include "mn/node_worker.h"
#include "sys/rand.h"
#include "sys/last_error.h"
#include "util/bits.h"

struct node {
	struct mn_worker *worker;
	uint32_t workers;
	struct mn_tenants *tenants;
	struct mn_admin *admin;
	struct mn_metrics *metrics;
	char url[64]; /* address of the metrics */
	char addresses[LEND_MEMOP_TEXT_MAX + 1];
};

static atomic_uint leaving; /* 1: end once all operations are answered; 2: end at once */
static atomic_uint awake;   /* workers to be woken by signals */
static struct mn_worker *woken;

static void leave_all(void)
{
	atomic_fetch_or(&leaving, 1);
	for (uint32_t i = 0; i < atomic_load(&awake); i++)
		lend_stop(woken[i].ep);
}

static void handle_signal(int signal_number)
{
	(void)signal_number;
	if (atomic_load(&leaving))
		atomic_store(&leaving, 2);
	leave_all();
}

static int open_stores(struct node *node, const struct mn_config *config)
{
	uint64_t each = config->size / node->workers,
		 most = (uint64_t)config->page * LEND_STORE_PAGES_MAX;
	struct lend_store_config c;
	int rc = 0;

	lend_store_config_default(&c, each, config->page);
	lend_random(&c.node, sizeof(c.node));
	lend_random(&c.epoch, sizeof(c.epoch));
	lend_random(c.key, sizeof(c.key));
	c.node = config->id ? config->id : c.node | 1;
	c.epoch |= 1;
	c.workers = node->workers;
	c.quarantine = config->quarantine_ms * 1000000;
	c.yields = config->yields;
	c.checksum = config->checksum;
	c.clients = config->clients ? config->clients : c.clients;
	c.incarnations = (uint32_t)lend_max_u64(c.clients, c.incarnations);
	if (config->lease_ms) {
		c.lease = config->lease_ms * 1000000;
		c.late = lend_min_u64(c.late, lend_max_u64(c.lease, 10000000));
	}
	c.addresses = node->addresses;
	if (each < config->page || each > most || !lend_store_size(&c))
		return lend_fail(EINVAL,
				 "--size %" PRIu64 ": give %u to %" PRIu64
				 " bytes for each worker, or another --page",
				 config->size, config->page, most);
	for (uint32_t i = 0; i < node->workers && rc == 0; i++) {
		node->worker[i].tenants = node->tenants;
		rc = mn_worker_open(&node->worker[i], config, &c);
	}
	return rc;
}

static int open_all(struct node *node, const struct mn_config *config)
{
	int rc = config->keep ? mn_fdstore_check(config) : 0;

	if (rc == 0)
		rc = mn_tenants_open(config->quota, config->page, config->workers, &node->tenants);
	if (rc < 0)
		return rc;
	node->worker = calloc(config->workers, sizeof(*node->worker));
	if (!node->worker)
		return lend_fail(ENOMEM, "no memory for %u workers", config->workers);
	node->workers = config->workers;
	for (uint32_t i = 0; i < node->workers; i++) {
		node->worker[i].index = i;
		node->worker[i].leaving = &leaving;
		node->worker[i].leave_all = leave_all;
	}
	rc = mn_addresses_listen(node->worker, node->workers, config);
	if (rc == 0) {
		mn_addresses_text(node->worker, node->workers, node->addresses);
		rc = open_stores(node, config);
	}
	if (rc == 0 && config->admin)
		rc = mn_admin_open(node->worker, node->workers, config->admin, &node->admin);
	if (rc == 0 && config->metrics)
		rc = mn_metrics_open(node->worker, node->workers, config->metrics, node->url,
				     &node->metrics);
	return rc;
}

static void watch_signals(struct node *node)
{
	struct sigaction act = {.sa_handler = handle_signal};

	atomic_store(&leaving, 0);
	woken = node->worker;
	atomic_store(&awake, node->workers);
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGINT, &act, NULL);
	signal(SIGPIPE, SIG_IGN);
}

static void print_ready(const struct node *node, const struct mn_config *config)
{
	char text[sizeof(node->worker->address) + 1], status[1024];

	mn_pool_text(config, node->worker->address, text, sizeof(text));
	printf("lend-mn: serving %" PRIu64 " bytes at %s", config->size, text);
	if (node->workers > 1)
		printf(" by %u workers", node->workers);
	printf(" on %s pages\n", mn_memory_pages(&node->worker->pages));
	if (node->metrics)
		printf("lend-mn: metrics at %s\n", node->url);
	fflush(stdout);
	(void)snprintf(status, sizeof(status), "READY=1\nSTATUS=serving at %.900s", text);
	if (mn_notify(status, -1) < 0)
		fprintf(stderr, "lend-mn: %s\n", lend_why());
}

/* Returns the first failure. READY is reported only when all threads are running. */
static int run_node(struct node *node, const struct mn_config *config)
{
	int rc = 0;

	for (uint32_t i = 1; i < node->workers && rc == 0; i++)
		rc = mn_worker_start(&node->worker[i]);
	if (rc == 0) {
		print_ready(node, config);
		rc = mn_worker_run(node->worker);
	}
	leave_all();
	for (uint32_t i = 1; i < node->workers; i++) {
		int ended = mn_worker_join(&node->worker[i]);

		rc = rc < 0 ? rc : ended;
	}
	return rc;
}

static void print_report(const struct node *node)
{
	struct lend_memstats sum = {0}, stats;
	uint64_t in_place = 0;

	for (uint32_t i = 0; i < node->workers; i++) {
		lend_store_stats(node->worker[i].store, &stats);
#define X(name, text) sum.name += stats.name;
		LEND_MEM_STATS(X)
#undef X
		in_place += node->worker[i].tx_in_place;
	}
	putchar('{');
#define X(name, text) printf("\"" #name "\":%" PRIu64 ",", sum.name);
	LEND_MEM_STATS(X)
#undef X
	printf("\"tx_in_place\":%" PRIu64 "}\n", in_place);
}

static void close_all(struct node *node, bool json)
{
	mn_admin_close(node->admin);
	mn_metrics_close(node->metrics);
	atomic_store(&awake, 0);
	for (uint32_t i = 0; i < node->workers; i++)
		mn_worker_close_endpoint(&node->worker[i]);
	if (json)
		print_report(node);
	for (uint32_t i = 0; i < node->workers; i++)
		mn_worker_close(&node->worker[i]);
	mn_tenants_close(node->tenants);
	free(node->worker);
}

int main(int argc, char **argv)
{
	struct node node = {.workers = 0};
	struct mn_config config;
	int rc;

	mn_config_read(&config, argc, argv);
	lend_numa_follow(config.listen);
	(void)lend_reload_keys_on_hangup("lend-mn");
	rc = mn_pool_plan(&config);
	if (rc == 0)
		rc = open_all(&node, &config);
	if (rc == 0) {
		watch_signals(&node);
		rc = run_node(&node, &config);
	}
	if (rc < 0)
		fprintf(stderr, "lend-mn: %s\n", lend_why());
	close_all(&node, config.json && rc == 0);
	return rc < 0;
}
