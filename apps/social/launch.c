/* launch - lend social without --role: starts a memory node and all processes, fills the network,
 * loads it with lend load, and reports.
 * Layer: apps. Threads: one. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "apps/common/memnode.h"
#include "apps/common/options.h"
#include "apps/common/report.h"
#include "apps/common/spawn.h"
#include "apps/social/blob.h"
#include "apps/social/deploy.h"
#include "apps/social/photos.h"
#include "apps/social/role_address.h"
#include "apps/social/seed.h"
#include "apps/social/store_servers.h"
#include "util/bits.h"

enum {
	CHILDREN_MAX = SOCIAL_ROLES + 1,
	COMMAND_MAX = 2048,
	METRICS_MAX = 128,
	PAGES_SPARE = 256 << 20,
	TURN_NS = 20000000
};

#define SERVICES                                                                                   \
	"unique-id,text,url-shorten,user-mention,user,media,compose-post,post-storage,"            \
	"user-timeline,home-timeline,social-graph"

/* Workloads: their seed, and their load. */
static const struct workload {
	const char *name, *mix;
	uint32_t posts_min, posts_max, text, media; /* the seed */
	uint32_t read;                              /* posts of a read */
	uint32_t start;                             /* reads start uniformly up to this */
	bool native;                                /* balancer and web tier instead of HTTP */
} workloads[] = {
    [SOCIAL_EMBEDDED] = {"embedded", "30/60/10", 10, 10, 256, 64 << 10, 10, 0, true},
    [SOCIAL_ORIGINAL] = {"original", "60/30/10", 0, 20, 256, 0, 10, 100, false},
    [SOCIAL_ARTICLES] = {"articles", "60/30/10", 10, 10, 16 << 10, 0, 10, 0, false},
    [SOCIAL_PHOTOS] = {"photos", "25/40/30/5", 0, 20, 256, 0, 10, 100, false},
    [SOCIAL_DMRPC] = {"dmrpc", "30/60/10", 10, 10, 256, 2600, 3, 0, true},
};
const char *const social_workload_names[] = {"embedded", "original", "articles",
					     "photos",   "dmrpc",    NULL};

/* A process that was started, and its CPU time when the load began. */
struct tier_process {
	struct app_child child;
	char roles[160];
	double cpu_s;
	uint64_t tx_bytes;
};

static struct {
	const struct social_args *args;
	const struct workload *workload;
	struct app_net net;
	struct app_child node;
	struct tier_process process[CHILDREN_MAX];
	unsigned n;
	double store_s[SOCIAL_ROLES], call_s[SOCIAL_ROLES];
	double node_cpu_s;
	uint64_t node_tx_bytes, posts;
	char dir[64], load[COMMAND_MAX], node_metrics[METRICS_MAX];
} all;

static double cpu_seconds(pid_t pid)
{
	struct timespec time;
	clockid_t clock;

	if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) < 0)
		app_die("process %d has ended; see its own line above", (int)pid);
	return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static const char *by_name(enum social_by by)
{
	return by == SOCIAL_BY_VALUE ? "value" : by == SOCIAL_BY_REF ? "ref" : "auto";
}

/* Writes where the i-th process serves its counters: at the i-th port from that of --metrics on, or
 * at any if that is 0. */
static void plan_metrics(unsigned i, char at[METRICS_MAX])
{
	const char *metrics = all.args->metrics, *colon = strrchr(metrics, ':');
	uint64_t port;

	if (!colon)
		app_bad("--metrics %s: give HOST:PORT", metrics);
	port = lend_cli_u64("metrics", colon + 1, 0, UINT16_MAX - CHILDREN_MAX);
	(void)snprintf(at, METRICS_MAX, "%.*s:%" PRIu64, (int)(colon - metrics), metrics,
		       port ? port + i : 0);
}

/* Prints where each process serves its counters. */
static void print_metrics(void)
{
	char line[256] = "", url[SOCIAL_ADDRESS_MAX];

	if (!all.args->metrics)
		return;
	/* lend-mn prints this with its ready line. */
	if (read(all.node.fd, line, sizeof(line) - 1) < 0 ||
	    sscanf(line, "lend-mn: metrics at %127s", url) != 1)
		app_die("the memory node has no metrics");
	app_note("metrics of memory-node at %s", url);
	for (unsigned i = 0; i < all.n; i++) {
		const char *roles = all.process[i].roles;
		char file[200];
		int len = (int)strcspn(roles, ",");

		(void)snprintf(file, sizeof(file), "%s%.*s",
			       strcmp(roles, "gateway") == 0 ? "" : "metrics-", len, roles);
		if (!social_address_read(all.dir, file, url))
			app_die("%s has no metrics", roles);
		app_note("metrics of %s at %s/metrics", roles, url);
	}
}

/* Starts a process with these roles. */
static void start_process(const char *roles)
{
	struct tier_process *p = &all.process[all.n++];
	char metrics[METRICS_MAX];
	const char *argv[16] = {"--role", p->roles,       "--dir",
				all.dir,  "--by",         by_name(all.args->by),
				"--http", all.args->http, NULL};
	unsigned n = 8;

	(void)snprintf(p->roles, sizeof(p->roles), "%s", roles);
	if (all.workload->native)
		argv[n++] = "--embed";
	if (all.args->stores == SOCIAL_REAL) {
		argv[n++] = "--stores";
		argv[n++] = "real";
	}
	if (all.args->metrics) {
		plan_metrics(all.n, metrics);
		argv[n++] = "--metrics";
		argv[n++] = metrics;
	}
	argv[n] = NULL;
	app_child_start(&p->child, p->roles, argv, &all.net, all.n + 1, APP_ANY_CPU);
}

/* Starts each role in a process of its own, or as few processes as there can be. */
static void start_processes(void)
{
	char roles[160], *rest = NULL;

	(void)snprintf(roles, sizeof(roles), "%s", SERVICES);
	if (!all.args->apart)
		start_process(SERVICES);
	for (char *role = strtok_r(roles, ",", &rest); role && all.args->apart;
	     role = strtok_r(NULL, ",", &rest))
		start_process(role);
	if (!all.workload->native) {
		start_process("gateway");
		return;
	}
	start_process("web");
	start_process("balancer");
}

/* Plans the addresses of the processes: 0 is this one, 1 the node. */
static void plan_net(void)
{
	app_net_init(&all.net, all.args->carrier);
	for (unsigned i = 0; i < CHILDREN_MAX + 1; i++)
		app_net_add(&all.net);
	for (unsigned i = 1; i < CHILDREN_MAX + 1; i++)
		app_net_link(&all.net, 0, i);
	app_net_plan(&all.net);
	all.net.populate = true;
	if (all.args->metrics) {
		plan_metrics(0, all.node_metrics);
		all.net.metrics = all.node_metrics;
	}
	if (all.args->pool)
		app_net_pool(&all.net, 1);
	else if (all.args->carrier == APP_SHM)
		all.net.memory = "shared";
}

/* Returns the bytes that the node needs: all that the seed stores, what the load adds, and room. */
static uint64_t node_size(const struct social_graph *graph)
{
	const struct workload *w = all.workload;
	uint64_t post = w->media + (w->text >= SOCIAL_REF_MIN ? w->text : 4096);
	uint64_t added = (uint64_t)all.args->rate * all.args->time / 1000000000 / 4;

	return (uint64_t)graph->users * w->posts_max * (post + 4096) + added * (post + 4096) +
	       (w == &workloads[SOCIAL_PHOTOS] ? added * (512 << 10) : 0) + PAGES_SPARE;
}

static void open_endpoint(void)
{
	struct lend_config config = LEND_CONFIG_INIT;

	config.listen = app_net_listen(&all.net, 0);
	config.timeout = 30 * UINT64_C(1000000000);
	if (lend_open(&config, &social.ep) < 0)
		app_die("%s", lend_why());
	social.over_shm = all.args->carrier == APP_SHM;
	social.mem = app_node_open(social.ep, app_net_address(&all.net, 0, 1));
}

static void make_folder(void)
{
	char path[80];

	(void)snprintf(all.dir, sizeof(all.dir), "%s", "/tmp/lend-social-XXXXXX");
	if (!mkdtemp(all.dir))
		app_die("cannot make a folder in /tmp: %s", strerror(errno));
	(void)snprintf(path, sizeof(path), "%s/addr", all.dir);
	if (mkdir(path, 0755) < 0 ||
	    social_address_write(all.dir, "node", app_net_address(&all.net, 0, 1)) < 0)
		app_die("%s: %s", path, strerror(errno));
	social.dir = all.dir;
}

/* Adds the times of the roles of a process. */
static void add_times(const struct tier_process *p, double sign)
{
	char path[SOCIAL_PATH_MAX];
	double store_ns, call_ns;
	FILE *file;

	social_times_path(path, sizeof(path), all.dir, p->roles);
	file = fopen(path, "re");
	if (!file)
		app_die("%s: %s", path, strerror(errno));
	for (unsigned role = 0;
	     role < SOCIAL_ROLES && fscanf(file, "%lf %lf", &store_ns, &call_ns) == 2; role++) {
		all.store_s[role] += sign * store_ns / 1e9;
		all.call_s[role] += sign * call_ns / 1e9;
	}
	fclose(file);
}

static void read_usage(bool begin)
{
	const double sign = begin ? 0 : -1;

	for (unsigned i = 0; i < all.n; i++) {
		struct tier_process *p = &all.process[i];
		uint64_t tx, rx;

		app_child_bytes(&p->child, &tx, &rx);
		p->cpu_s = cpu_seconds(p->child.pid) + sign * p->cpu_s;
		p->tx_bytes = begin ? tx : tx - p->tx_bytes;
		add_times(p, begin ? -1 : 1);
	}
	all.node_cpu_s = cpu_seconds(all.node.pid) + sign * all.node_cpu_s;
}

static uint64_t node_sent(void)
{
	struct lend_mem_stat stat;

	app_node_stat(social.mem, &stat);
	return stat.tx_bytes;
}

/* Adds the options of the workload to the command of lend load. */
static void make_command(uint32_t users)
{
	const struct social_args *args = all.args;
	const struct workload *w = all.workload;
	char program[1024], target[SOCIAL_ADDRESS_MAX];
	char photo[PHOTO_PATH_MAX], get_photo[PHOTO_PATH_MAX];
	size_t len;

	if (!app_program_find("lend", "", program, sizeof(program)))
		app_die("cannot find lend (%s): build it", program);
	if (w->native)
		(void)snprintf(target, sizeof(target), "%s", all.dir);
	else if (!social_address_read(all.dir, "gateway", target))
		app_die("the gateway has no address");
	len = (size_t)snprintf(all.load, sizeof(all.load),
			       "'%s' load --target '%s' --mix %s --users %u --posts %u --start %u "
			       "--text %u --seconds %.3f --json --rate %u%s",
			       program, target, args->mix ? args->mix : w->mix, users, w->read,
			       w->start, w->text, (double)args->time / 1e9, args->rate,
			       args->ramp ? " --ramp" : "");
	if (w->native)
		len += (size_t)snprintf(all.load + len, sizeof(all.load) - len, " --media %u%s",
					w->media, social_by_ref(w->media) ? " --by-ref" : "");
	if (w == &workloads[SOCIAL_PHOTOS])
		(void)snprintf(
		    all.load + len, sizeof(all.load) - len, " --photo '%s' --get-photo '%s'",
		    args->photo ? args->photo : photo_find(all.dir, "photo.jpg", 512 << 10, photo),
		    args->get_photo ? args->get_photo
				    : photo_find(all.dir, "get.jpg", 64 << 10, get_photo));
}

/* Runs lend load. Returns its report; app_die() if there is none. */
static json_t *run_load(void)
{
	FILE *pipe = popen(all.load, "r");
	struct pollfd wait = {.fd = pipe ? fileno(pipe) : -1, .events = POLLIN};
	json_t *report;

	while (pipe && poll(&wait, 1, 0) == 0) /* keeps the session to the node */
		(void)lend_run(social.ep, lend_now(social.ep) + TURN_NS);
	report = pipe ? json_loadf(pipe, 0, NULL) : NULL;
	if (!report || pclose(pipe) != 0)
		app_die("the load failed: %s", all.load);
	return report;
}

/* Puts {role: us}: of each request of the load. */
static void put_times(json_t *report, const char *key, const double *seconds, double requests)
{
	json_t *times = json_object();

	for (unsigned role = 0; role < SOCIAL_ROLES; role++)
		if (seconds[role] > 0 && requests > 0)
			json_object_set_new(times, social_role_names[role],
					    json_real(seconds[role] * 1e6 / requests));
	json_object_set_new(report, key, times);
}

static void put_cpu(json_t *report, double requests)
{
	json_t *cpu = json_object(), *sent = json_object(), *layout = json_array();
	double sum = all.node_cpu_s, bytes = (double)all.node_tx_bytes;

	for (unsigned i = 0; i < all.n; i++) {
		const struct tier_process *p = &all.process[i];

		json_object_set_new(cpu, p->roles, json_real(p->cpu_s));
		json_object_set_new(sent, p->roles,
				    json_real(requests > 0 ? (double)p->tx_bytes / requests : 0));
		json_array_append_new(layout, json_string(p->roles));
		sum += p->cpu_s;
		bytes += (double)p->tx_bytes;
	}
	json_object_set_new(cpu, "memory-node", json_real(all.node_cpu_s));
	json_object_set_new(sent, "memory-node",
			    json_real(requests > 0 ? (double)all.node_tx_bytes / requests : 0));
	json_object_set_new(report, "cpu_s_per_tier", cpu);
	json_object_set_new(report, "bytes_sent_per_request", sent);
	put_times(report, "store_us_per_request", all.store_s, requests);
	put_times(report, "call_us_per_request", all.call_s, requests);
	json_object_set_new(report, "processes", layout);
	json_object_set_new(report, "requests_per_cpu_s", json_real(sum > 0 ? requests / sum : 0));
	json_object_set_new(report, "bytes_moved_per_request",
			    json_real(requests > 0 ? bytes / requests : 0));
}

/* Ends all processes. Returns the pages that the node has in use then. */
static uint64_t stop_processes(void)
{
	struct lend_mem_stat stat;
	char command[128];

	while (all.n) {
		struct tier_process *p = &all.process[--all.n];

		if (app_child_stop(&p->child) != 0)
			app_die("%s failed; see its own line above", p->roles);
	}
	store_servers_stop();
	app_node_stat_idle(social.mem, &stat);
	lend_mem_close(social.mem);
	lend_close(social.ep);
	(void)app_child_stop(&all.node);
	(void)snprintf(command, sizeof(command), "rm -rf '%s'", all.dir);
	if (system(command) != 0)
		app_note("%s is left", all.dir);
	return stat.pages_used;
}

static void print_report(json_t *report, uint64_t pages)
{
	json_object_set_new(report, "workload", json_string(all.workload->name));
	json_object_set_new(report, "by", json_string(by_name(all.args->by)));
	json_object_set_new(report, "carrier", json_string(app_carrier_name(all.args->carrier)));
	json_object_set_new(report, "level", json_string(app_carrier_level(all.args->carrier)));
	json_object_set_new(report, "posts_seeded", json_integer((json_int_t)all.posts));
	json_object_set_new(report, "pages_used_after", json_integer((json_int_t)pages));
	if (json_dumpf(report, stdout,
		       (all.args->server.json ? JSON_COMPACT : JSON_INDENT(2)) |
			   JSON_REAL_PRECISION(6)) < 0 ||
	    puts("") < 0)
		app_die("cannot write the report");
}

/* Loads the network that is filled, and reports. */
static int measure_load(void)
{
	json_t *report;
	double requests;
	uint64_t pages;
	bool ok;

	read_usage(true);
	all.node_tx_bytes = node_sent();
	report = run_load();
	read_usage(false);
	all.node_tx_bytes = node_sent() - all.node_tx_bytes;
	requests = json_number_value(json_object_get(report, "goodput_per_s")) *
		   (double)all.args->time / 1e9;
	if (!all.args->ramp)
		put_cpu(report, requests);
	pages = stop_processes();
	print_report(report, pages);
	ok = !pages && json_integer_value(json_object_get(report, "wrong_bytes")) == 0;
	json_decref(report);
	return ok ? APP_EXIT_OK : APP_EXIT_FAILED;
}

/* Returns the number of edges that gives the degrees of socfb-Reed98, or as many as there can be.
 */
static size_t edges_of(uint64_t users)
{
	return lend_min_u64(GRAPH_EDGES * users / GRAPH_USERS, users * (users - 1) / 8);
}

int social_launch(const struct social_args *args)
{
	struct social_graph graph;
	struct seed_plan plan;

	all.args = args;
	all.workload = &workloads[args->workload];
	if (args->graph)
		graph_read(&graph, args->graph);
	else
		graph_make(&graph, args->users, edges_of(args->users), 1);
	social.embed = all.workload->native;
	plan_net();
	app_child_start_mn(&all.node, &all.net, 1, node_size(&graph), APP_ANY_CPU);
	open_endpoint();
	make_folder();
	if (args->stores == SOCIAL_REAL)
		store_servers_start(all.dir);
	start_processes();
	print_metrics();
	plan = (struct seed_plan){.graph = &graph,
				  .posts_min = all.workload->posts_min,
				  .posts_max = all.workload->posts_max,
				  .text = all.workload->text,
				  .media = all.workload->media,
				  .seed = 1};
	all.posts = seed_network(&plan);
	make_command(graph.users);
	graph_free(&graph);
	return measure_load();
}
