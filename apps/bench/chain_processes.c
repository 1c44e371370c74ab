/* chain_processes - starts, links, measures and ends the processes of a chain.
 * Layer: apps. Threads: the main one. */
#include <errno.h>
#include <stdio.h>

#include "apps/bench/chain.h"
#include "apps/common/bench_server.h"
#include "apps/common/memnode.h"
#include "lend/stats.h"

enum { SEED = 3 };

/* Returns the message_max that --size needs; 0 if the endpoint's default is enough. */
static uint64_t message_max(const struct app_chain *chain)
{
	uint64_t bytes = chain->load_args.size + APP_HEADS;

	return bytes > 16 << 20 ? bytes : 0;
}

/* Returns the receive budget: twice the bytes in flight. */
static uint64_t budget_bytes(const struct app_chain *chain)
{
	uint64_t all = 2 * chain->load_args.size * chain->load_args.window;

	return all > 64 << 20 ? all : 64 << 20;
}

/* Returns the process at which the i-th chain begins. */
static unsigned entry_of(const struct app_chain *chain, unsigned i)
{
	return chain->hop[chain->services - chain->length[i]];
}

static void plan_net(struct app_chain *chain, bool with_node)
{
	struct app_net *net = &chain->net;

	app_net_init(net, chain->load_args.carrier);
	net->workers = chain->workers;
	chain->me = app_net_add(net);
	for (unsigned i = 0; i < chain->services; i++) {
		chain->hop[i] = app_net_add(net);
		if (i)
			app_net_link(net, chain->hop[i - 1], chain->hop[i]);
	}
	for (unsigned i = 0; i < chain->lengths; i++)
		app_net_link(net, chain->me, entry_of(chain, i));
	chain->node = app_net_add(net);
	if (chain->by != APP_BY_VALUE) /* the last hop connects to the caller */
		app_net_link(net, chain->hop[chain->services - 1], chain->me);
	if (with_node) {
		app_net_link(net, chain->me, chain->node);
		app_net_link(net, chain->hop[chain->services - 1], chain->node);
	}
	app_net_plan(net);
	if (chain->pool)
		app_net_pool(net, chain->node);
}

static void check_hosts(struct app_chain *chain, bool with_node)
{
	char roles[64];

	(void)snprintf(roles, sizeof(roles), "client, hop1 to hop%u%s", chain->services,
		       with_node ? ", node" : "");
	app_hosts_check(&chain->hosts, roles);
}

/* Finds out whether process proc is to be started here. */
static bool place_process(struct app_chain *chain, unsigned proc, const char *role)
{
	bool me = proc == chain->me, here = me || !chain->load_args.connect;

	if (chain->hosts.path)
		here = app_hosts_place(&chain->hosts, &chain->net, proc, role, !me);
	chain->far = chain->far || !here;
	return here;
}

/* A name of a process that lives as long as the run: "hop3". */
static const char *hop_name(unsigned i)
{
	static char names[APP_CHAIN_HOPS_MAX][16];

	snprintf(names[i], sizeof(names[i]), "hop%u", i + 1);
	return names[i];
}

static void start_hop(struct app_chain *chain, unsigned i, bool with_node)
{
	char longest[24], bytes[24];
	const char *argv[12] = {"hop", "--message-max", longest, "--receive-budget", bytes};
	unsigned n = 5;

	snprintf(longest, sizeof(longest), "%llu", (unsigned long long)message_max(chain));
	snprintf(bytes, sizeof(bytes), "%llu", (unsigned long long)budget_bytes(chain));
	if (i + 1 < chain->services) {
		argv[n++] = "--next";
		argv[n++] = app_net_address(&chain->net, chain->hop[i], chain->hop[i + 1]);
	} else if (with_node) {
		argv[n++] = "--node";
		argv[n++] = app_net_address(&chain->net, chain->hop[i], chain->node);
	}
	app_child_start(&chain->child[i], hop_name(i), argv, &chain->net, chain->hop[i],
			APP_ANY_CPU);
}

static void connect_entries(struct app_chain *chain)
{
	for (unsigned i = 0; i < chain->lengths; i++)
		if (lend_connect(chain->ep,
				 app_net_address(&chain->net, chain->me, entry_of(chain, i)),
				 &chain->entry[i]) < 0)
			app_die("%s", lend_why());
	chain->session = chain->entry[0];
	chain->hops = chain->length[0];
}

static void start_node(struct app_chain *chain)
{
	if (chain->node_address)
		app_net_ready(&chain->net, chain->node, chain->node_address);
	else
		app_child_start_mn(&chain->mn, &chain->net, chain->node, 2 * budget_bytes(chain),
				   APP_ANY_CPU);
}

/* Starts the processes of this machine, servers first. Returns whether the caller is here. */
static bool start_processes(struct app_chain *chain, bool with_node)
{
	bool here[APP_CHAIN_HOPS_MAX];
	bool caller = place_process(chain, chain->me, "client");
	bool node = with_node && (chain->node_address || place_process(chain, chain->node, "node"));

	for (unsigned i = 0; i < chain->services; i++)
		here[i] = place_process(chain, chain->hop[i], hop_name(i));
	check_hosts(chain, with_node);
	if (chain->load_args.connect)
		app_net_ready(&chain->net, entry_of(chain, 0), chain->load_args.connect);
	if (node)
		start_node(chain);
	for (unsigned i = chain->services; i-- > 0;)
		if (here[i])
			start_hop(chain, i, with_node);
	return caller;
}

/* Calls the chain once, and the memory node if there is one. Opens another session when the last
 * one has ended. */
static enum lend_status try_chain(void *of)
{
	struct app_chain *chain = of;
	struct iovec byte = {&(char){0}, 1};
	struct lend_call call = {.method = APP_METHOD_CHAIN, .timeout = APP_HOSTS_TRY_NS};
	int rc = lend_call_sync_args(chain->mem, chain->session, &call, &byte, 1);

	if (rc == -ESTALE)
		connect_entries(chain);
	if (rc < 0)
		return LEND_UNAVAILABLE;
	lend_buf_give(chain->ep, call.reply);
	return call.status == LEND_OK && chain->with_node ? app_node_try(chain->mem) : call.status;
}

bool app_chain_open(struct app_chain *chain)
{
	bool with_node = app_chain_has_node(chain);
	struct lend_config config = LEND_CONFIG_INIT;

	chain->with_node = with_node;
	chain->services = chain->length[chain->lengths - 1];
	plan_net(chain, with_node);
	if (!start_processes(chain, with_node))
		return false;
	config.listen = app_net_listen(&chain->net, chain->me);
	config.eal = app_net_eal(&chain->net, chain->me);
	config.receive_budget = budget_bytes(chain);
	config.message_max = message_max(chain);
	if (lend_open(&config, &chain->ep) < 0)
		app_die("%s", lend_why());
	connect_entries(chain);
	if (with_node)
		chain->mem =
		    app_node_open(chain->ep, app_net_address(&chain->net, chain->me, chain->node));
	else if (lend_mem_open(chain->ep, "", &chain->mem) < 0)
		app_die("%s", lend_why());
	app_pattern_init(SEED, chain->load_args.size);
	app_pattern_register(chain->ep);
	app_chain_slots_make(chain);
	if (chain->far)
		app_hosts_await(&chain->hosts, try_chain, chain);
	return true;
}

void app_chain_close(struct app_chain *chain)
{
	if (chain->mem)
		lend_mem_close(chain->mem);
	lend_close(chain->ep);
	for (unsigned i = 0; i < chain->services; i++)
		app_child_stop(&chain->child[i]);
	app_child_stop(&chain->mn);
	app_chain_slots_free(chain);
}

uint64_t app_chain_moved(struct app_chain *chain)
{
	struct lend_mem_stat node = {.tx_bytes = 0};
	struct lend_stats mine;
	uint64_t sum, tx, rx;

	if (chain->far)
		return 0;
	if (chain->with_node)
		app_node_stat(chain->mem, &node);
	lend_stats_get(chain->ep, &mine);
	sum = mine.tx_bytes + node.tx_bytes;
	for (unsigned i = 0; i < chain->services; i++) {
		app_child_bytes(&chain->child[i], &tx, &rx);
		sum += tx;
	}
	return sum;
}
