/* images_cluster - see images_cluster.h. */
#include "apps/images/images_cluster.h"

#include <string.h>

/* Processes of the net, in the order of their start; the tiers are FIRST_TIER + their place in
 * `tiers`. */
enum { CLIENT, NODE, FIRST_TIER };
enum { WORKER_A, WORKER_B, SERVER_A, SERVER_B, BALANCER, FIREWALL };

static const struct {
	const char *name;
	const char *at; /* in a hosts file */
	enum images_role role;
	unsigned nexts;
	int next[2];
} tiers[IMAGES_TIERS] = {
    [WORKER_A] = {"worker 1", "worker1", IMAGES_WORKER, 0, {0}},
    [WORKER_B] = {"worker 2", "worker2", IMAGES_WORKER, 0, {0}},
    [SERVER_A] = {"image server 1", "server1", IMAGES_SERVER, 2, {WORKER_A, WORKER_B}},
    [SERVER_B] = {"image server 2", "server2", IMAGES_SERVER, 2, {WORKER_B, WORKER_A}},
    [BALANCER] = {"the load balancer", "balancer", IMAGES_BALANCER, 2, {SERVER_A, SERVER_B}},
    [FIREWALL] = {"the firewall", "firewall", IMAGES_FIREWALL, 1, {BALANCER}},
};

static void plan_net(struct app_net *net, const struct images_plan *plan)
{
	app_net_init(net, plan->carrier);
	net->workers = plan->workers;
	for (int i = 0; i < FIRST_TIER + IMAGES_TIERS; i++)
		app_net_add(net);
	if (plan->node_bytes)
		app_net_link(net, CLIENT, NODE);
	app_net_link(net, CLIENT, FIRST_TIER + FIREWALL);
	for (unsigned i = 0; i < IMAGES_TIERS; i++) {
		if (tiers[i].role == IMAGES_WORKER && plan->node_bytes)
			app_net_link(net, FIRST_TIER + i, NODE);
		if (tiers[i].role == IMAGES_WORKER && plan->reads_client)
			app_net_link(net, FIRST_TIER + i, CLIENT);
		for (unsigned k = 0; k < tiers[i].nexts; k++)
			app_net_link(net, FIRST_TIER + i, FIRST_TIER + (unsigned)tiers[i].next[k]);
	}
	app_net_plan(net);
	if (plan->node_bytes)
		app_net_apart(net, NODE);
	if (plan->pool)
		app_net_pool(net, NODE);
}

static void start_tier(struct images_cluster *cluster, unsigned i, bool thread)
{
	struct app_net *net = &cluster->net;
	unsigned proc = FIRST_TIER + i;
	const char *argv[10] = {"tier", "--role", images_role_names[tiers[i].role]};
	const char *next[2] = {NULL, NULL};
	const char *node = NULL;
	unsigned n = 3;

	if (tiers[i].role == IMAGES_WORKER && cluster->with_node) {
		node = app_net_address(net, proc, NODE);
		argv[n++] = "--node";
		argv[n++] = node;
	}
	for (unsigned k = 0; k < tiers[i].nexts; k++) {
		next[k] = app_net_address(net, proc, FIRST_TIER + (unsigned)tiers[i].next[k]);
		argv[n++] = "--next";
		argv[n++] = next[k];
	}
	if (thread)
		cluster->thread[i] =
		    images_thread_start(tiers[i].role, net, proc, next, tiers[i].nexts, node);
	else
		app_child_start(&cluster->child[i], tiers[i].name, argv, net, proc, APP_ANY_CPU);
}

/* Finds out whether process proc is to be started here. */
static bool place_process(struct images_cluster *cluster, const struct images_plan *plan,
			  unsigned proc, const char *role)
{
	bool here = proc == CLIENT || !plan->connect;

	if (plan->hosts->path)
		here = app_hosts_place(plan->hosts, &cluster->net, proc, role, proc != CLIENT);
	cluster->far = cluster->far || !here;
	return here;
}

bool images_cluster_open(struct images_cluster *cluster, const struct images_plan *plan)
{
	bool client, node, here[IMAGES_TIERS];

	memset(cluster, 0, sizeof(*cluster));
	cluster->with_node = plan->node_bytes;
	plan_net(&cluster->net, plan);
	client = place_process(cluster, plan, CLIENT, "client");
	node = cluster->with_node && place_process(cluster, plan, NODE, "node");
	for (unsigned i = 0; i < IMAGES_TIERS; i++)
		here[i] = place_process(cluster, plan, FIRST_TIER + i, tiers[i].at);
	app_hosts_check(plan->hosts, "client, firewall, balancer, server1, server2, worker1, "
				     "worker2 and, for a memory node, node");
	if (plan->connect)
		app_net_ready(&cluster->net, FIRST_TIER + FIREWALL, plan->connect);
	if (node)
		app_child_start_mn(&cluster->node, &cluster->net, NODE, plan->node_bytes,
				   APP_ANY_CPU);
	for (unsigned i = 0; i < IMAGES_TIERS; i++)
		if (here[i])
			start_tier(cluster, i, plan->threads);
	return client;
}

void images_cluster_close(struct images_cluster *cluster)
{
	for (unsigned i = IMAGES_TIERS; i-- > 0;) {
		if (cluster->thread[i])
			images_thread_stop(cluster->thread[i]);
		app_child_stop(&cluster->child[i]);
	}
	app_child_stop(&cluster->node);
}

void images_cluster_config(const struct images_cluster *cluster, struct lend_config *config)
{
	config->listen = app_net_listen(&cluster->net, CLIENT);
	config->eal = app_net_eal(&cluster->net, CLIENT);
	images_config(config);
}

const char *images_cluster_service(const struct images_cluster *cluster)
{
	return app_net_address(&cluster->net, CLIENT, FIRST_TIER + FIREWALL);
}

const char *images_cluster_node(const struct images_cluster *cluster)
{
	return cluster->with_node ? app_net_address(&cluster->net, CLIENT, NODE) : "";
}

uint64_t images_cluster_tx_bytes(struct images_cluster *cluster)
{
	uint64_t sum = 0;

	if (cluster->far)
		return 0;
	for (unsigned i = 0; i < IMAGES_TIERS; i++) {
		uint64_t tx = 0, rx;

		if (cluster->thread[i])
			tx = images_thread_tx_bytes(cluster->thread[i]);
		else
			app_child_bytes(&cluster->child[i], &tx, &rx);
		sum += tx;
	}
	return sum;
}

unsigned images_cluster_processes(const struct images_cluster *cluster)
{
	unsigned n = 1 + cluster->with_node; /* this one, and a memory node */

	for (unsigned i = 0; i < IMAGES_TIERS; i++)
		n += !cluster->thread[i];
	return n;
}
