/* images - lend images: a service of several tiers on real photographs, by value and by reference;
 * and lend tier.
 *
 * Photographs are processed in batches that fit into memory. Each batch is decoded, and each
 * operation is also done here. Then the batch goes through the tiers twice: one image at a time for
 * latency, and several at a time for throughput. Layer: apps. Threads: one; with --threads one more
 * per tier. */
#include <string.h>

#include "apps/commands.h"
#include "apps/common/closed_loop.h"
#include "apps/common/memnode.h"
#include "apps/common/options.h"
#include "apps/common/report.h"
#include "apps/images/images_client.h"
#include "apps/images/images_cluster.h"
#include "apps/images/images_sweep.h"
#include "lend/stats.h"
#include "util/bits.h"

enum { BATCH_BYTES = 1 << 30, PAGE = 4096 };

static const char *const work_names[] = {"codec", "nearest", NULL};

struct args {
	enum images_by by;
	enum app_carrier carrier;
	bool threads, json, pool, sweep;
	enum { CODEC, NEAREST } work;
	const char *out, *dir, *connect;
	struct app_hosts hosts;
	unsigned repeat, window, workers;
};

/* The state of a run. */
struct run {
	struct args args;
	struct images_list list;
	struct images_cluster cluster;
	struct images_client client;
	lend_ns began, busy_ns; /* busy_ns: duration of the passes with several images in flight */
	uint64_t first_ended;   /* results of the passes with one image in flight */
	uint64_t moved;         /* bytes */
	struct lend_mem_stat node; /* at the end of the run */
};

static const struct lend_option options[] = {
    OPT_WORD(struct args, dir),
    OPT_CHOICE(
	struct args, by, "by", "HOW", images_by_names,
	"value; ref: workers read the client's memory, or the pool (default); node: through a "
	"memory node; auto"),
    OPT_CHOICE(struct args, work, "work", "WHAT", work_names,
	       "codec: scale and encode (default); nearest: scale to a tenth by nearest neighbour"),
    APP_CARRIER(struct args, carrier,
		"shm (default), udp, dpdk:memif, or what to listen at; dpdk:ring with --threads"),
    OPT_TEXT(struct args, out, "out", "DIR", "Write the results there"),
    OPT_NUMBER(struct args, window, "window", 1, IMAGES_WINDOW_MAX,
	       "Images under way at a time (4), when throughput is measured"),
    OPT_NUMBER(struct args, repeat, "repeat", 1, 1000000, "Send every image N times in each pass"),
    OPT_FLAG(struct args, pool, "pool",
	     "The memory node shares its pages with client and workers (pool:). By ref pixels are "
	     "stored there when they are decoded, by node for each request"),
    APP_WORKERS(struct args, workers),
    APP_HOSTS_OPTIONS(struct args, hosts),
    OPT_TEXT(struct args, connect, "connect", "ADDR",
	     "Use the service whose firewall is at ADDR instead of starting one"),
    OPT_FLAG(struct args, threads, "threads", "Tiers as threads of one process"),
    OPT_FLAG(struct args, sweep, "sweep",
	     "Crop the photographs to squares of 64, 128 ... pixels, and measure each size"),
    OPT_JSON(struct args, json),
    {.name = NULL}};

static bool is_client_here(const struct args *args)
{
	const struct app_host *client =
	    args->hosts.path ? app_hosts_find(&args->hosts, "client") : NULL;

	return !client || !strcmp(client->machine, args->hosts.here);
}

static void read_hosts(struct args *args)
{
	if (args->threads || args->pool || args->connect)
		app_bad("--hosts starts processes that share no memory: leave out --threads, "
			"--pool and --connect");
	app_hosts_read(&args->hosts);
	app_hosts_carrier(&args->hosts, &args->carrier);
	if (args->by == IMAGES_BY_NODE && !app_hosts_find(&args->hosts, "node"))
		app_bad("%s: no line for node; add one, or leave out --by node", args->hosts.path);
}

static void check_args(void *input)
{
	struct args *args = input;

	if (args->hosts.path)
		read_hosts(args);
	else if (args->hosts.here)
		app_bad("--here is for --hosts: add it");
	if (args->connect && (args->threads || args->pool || args->by == IMAGES_BY_NODE))
		app_bad("--connect calls a service that runs already: leave out --threads, --pool "
			"and --by node");
	if (!args->dir && is_client_here(args))
		app_bad("no images; give a folder of JPEG files");
	if (args->sweep && (args->pool || args->out || args->repeat > 1))
		app_bad("--sweep repeats each size by itself: leave out --repeat, --pool and "
			"--out");
	if (args->by == IMAGES_BYS)
		args->by = IMAGES_BY_REF;
	if (args->workers && args->by != IMAGES_BY_NODE && !args->pool)
		app_bad("--workers is for a memory node: add --pool or --by node");
	if (args->carrier == APP_DPDK_RING && !args->threads)
		app_bad("--carrier dpdk:ring: rings stay within one process; add --threads");
}

static const char doc[] =
    "Sends photographs through a service of several tiers: firewall, load balancer, two image "
    "servers, two "
    "workers that scale and encode; and compares every result with the same work done locally."
    "\vThe argument is the pixels of a photograph, decoded by the client. Seven processes, and a "
    "memory node if pixels go through one, unless "
    "--threads.\n\n"
    "  lend bench images --by ref --carrier udp ~/Pictures\n"
    "  lend bench images --by value --out /tmp/small ~/Pictures --json\n"
    "  lend bench images --sweep --by value --carrier udp ~/Pictures\n"
    "  lend bench images --hosts FILE --here b            on each machine, as lend bench chain "
    "does\n"
    "  lend bench images --hosts FILE --here a ~/Pictures              the client's measures\n\n"
    "Roles of a hosts file are client, firewall, balancer, server1, server2, worker1, worker2 and, "
    "for a memory node of 1 GiB, node.";

/* Returns whether pixels are stored in a pool after decoding. */
static bool stores_pixels(const struct run *run)
{
	return run->args.pool && run->args.by == IMAGES_BY_REF;
}

/* Returns the memory that the node needs: arguments and results of the window at once, or the
 * pixels of a batch; and lend-mn's minimum of 64 MiB; 0: no node. */
static uint64_t node_bytes(const struct run *run)
{
	uint64_t largest = 0, all = 0, bytes;

	if (run->args.hosts.path)
		return app_hosts_find(&run->args.hosts, "node") ? BATCH_BYTES : 0;
	if (run->args.by != IMAGES_BY_NODE && !run->args.pool)
		return 0;
	for (unsigned i = 0; i < run->list.n; i++) {
		uint64_t len = images_size_bytes(run->list.item[i].size);

		largest = lend_max_u64(largest, len);
		all += len + PAGE;
	}
	if (stores_pixels(run))
		bytes = lend_min_u64(all, BATCH_BYTES + largest);
	else
		bytes = (run->args.window + 1) * 2 * largest;
	bytes += 64 << 20;
	return (bytes + (1 << 20) - 1) & ~((UINT64_C(1) << 20) - 1);
}

/* Calls the service once, and the memory node if there is one. */
static enum lend_status try_service(void *of)
{
	struct run *run = of;
	enum lend_status status =
	    images_client_try(&run->client, images_cluster_service(&run->cluster));

	return status == LEND_OK && run->cluster.with_node ? app_node_try(run->client.mem) : status;
}

/* Returns false, after a signal: the client is on another machine. */
static bool open_client(struct run *run)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct images_client *client = &run->client;
	const struct images_plan plan = {.carrier = run->args.carrier,
					 .threads = run->args.threads,
					 .pool = run->args.pool,
					 .workers = run->args.workers,
					 .reads_client =
					     (run->args.by == IMAGES_BY_REF && !run->args.pool) ||
					     run->args.by == IMAGES_BY_AUTO,
					 .node_bytes = node_bytes(run),
					 .hosts = &run->args.hosts,
					 .connect = run->args.connect};

	if (!images_cluster_open(&run->cluster, &plan)) {
		app_hosts_wait(&run->args.hosts);
		images_cluster_close(&run->cluster);
		return false;
	}
	images_client_init(client, run->args.by);
	client->stored = stores_pixels(run);
	client->what = run->list.what;
	client->out = run->args.out;
	images_cluster_config(&run->cluster, &config);
	if (lend_open(&config, &client->ep) < 0 ||
	    lend_connect(client->ep, images_cluster_service(&run->cluster), &client->service) < 0)
		app_die("%s", lend_why());
	client->mem = app_node_open(client->ep, images_cluster_node(&run->cluster));
	if (run->cluster.far)
		app_hosts_await(&run->args.hosts, try_service, run);
	return true;
}

static void close_client(struct run *run)
{
	lend_mem_close(run->client.mem);
	lend_close(run->client.ep);
	images_cluster_close(&run->cluster);
}

/* Returns the bytes that all processes have sent through their carriers so far. */
static uint64_t moved_bytes(struct run *run)
{
	struct lend_stats stats;
	struct lend_mem_stat node = {.tx_bytes = 0};

	if (run->cluster.far)
		return 0;
	if (run->cluster.with_node)
		app_node_stat(run->client.mem, &node);
	lend_stats_get(run->client.ep, &stats);
	return stats.tx_bytes + node.tx_bytes + images_cluster_tx_bytes(&run->cluster);
}

/* Loads items from first on until the batch is full; returns the end of the batch. */
static unsigned load_batch(struct run *run, unsigned first)
{
	uint64_t bytes = 0;
	unsigned end = first;

	while (end < run->list.n && (end == first || bytes < BATCH_BYTES)) {
		bytes += images_size_bytes(run->list.item[end].size);
		images_list_load(&run->list, end++);
		(void)lend_poll(run->client.ep); /* keeps the sessions alive while decoding */
		app_progress(run->began, first + (end - first) / 2.0, run->list.n);
	}
	return end;
}

/* Stores the pixels of [first, end) in the pool, or releases them. */
static void move_pixels(struct run *run, unsigned first, unsigned end, bool in)
{
	struct lend_mem *mem = run->client.mem;

	for (unsigned i = first; i < end && run->client.stored && !run->client.failed; i++) {
		struct images_item *item = &run->list.item[i];
		struct iovec data = {item->rgb, images_size_bytes(item->size)};
		struct lend_op op = {.timeout = IMAGES_TIMEOUT};
		lend_ns began = app_now();

		if (!item->rgb)
			continue;
		if (!in) {
			(void)lend_release_sync(mem, &item->ref, 1, NULL);
			continue;
		}
		app_node_wait(mem, &op, lend_put(mem, &data, 1, NULL, &op), item->path);
		item->decode_ns += app_now() - began;
		item->ref = op.ref;
	}
}

static void run_batch(struct run *run, unsigned first, unsigned end)
{
	struct images_client *client = &run->client;
	struct images_item *items = run->list.item;
	uint64_t before = moved_bytes(run), ended = client->ended;

	move_pixels(run, first, end, true);
	client->timed = true; /* no other request in flight adds queueing time */
	for (unsigned i = first; i < end; i++) {
		for (unsigned k = 0; k < run->args.repeat && !client->failed; k++)
			images_client_pass(client, items, i, i + 1, 1);
		app_progress(run->began, (first + i + 1) / 2.0 + (end - first) / 4.0, run->list.n);
	}
	client->timed = false;
	run->first_ended += client->ended - ended;
	for (unsigned k = 0; k < run->args.repeat && !client->failed; k++)
		run->busy_ns += images_client_pass(client, items, first, end, run->args.window);
	if (!client->failed)
		run->moved += moved_bytes(run) - before;
	move_pixels(run, first, end, false);
}

static double ns_to_ms(uint64_t ns)
{
	return (double)ns / 1e6;
}

static double per_s(uint64_t n, lend_ns ns)
{
	return ns ? (double)n * 1e9 / (double)ns : 0;
}

struct sums {
	unsigned images, identical;
	lend_ns decode_ns; /* decoding time of the throughput passes' images */
	uint64_t pixels;
	uint64_t
	    in_throughput; /* results of the throughput passes, with several images at a time */
};

static struct sums sum_up(const struct run *run)
{
	struct sums sums = {0};

	for (unsigned i = 0; i < run->list.n; i++) {
		const struct images_item *item = &run->list.item[i];

		if (!item->results)
			continue;
		sums.images++;
		sums.identical += item->results == 2 * run->args.repeat && !item->differ;
		sums.decode_ns += item->decode_ns * run->args.repeat;
		sums.pixels += images_size_bytes(item->size);
	}
	sums.in_throughput = run->client.ended - run->first_ended;
	return sums;
}

static void report_times(struct app_report *out, const struct run *run, const struct sums *sums)
{
	const struct images_client *client = &run->client;

	app_report_num(out, "images_per_s", per_s(sums->in_throughput, run->busy_ns), 2,
		       "with several in flight, pixels decoded, and stored, before");
	app_report_num(out, "images_per_s_with_decode",
		       per_s(sums->in_throughput, run->busy_ns + sums->decode_ns), 2,
		       "the client's decoding, and storing, added for each");
	app_report_num(out, "p50_ms", ns_to_ms(lend_hist_quantile(&client->with_ns, 0.5)), 3,
		       "ms, one at a time: file's bytes to result, codecs included");
	app_report_num(out, "p99_ms", ns_to_ms(lend_hist_quantile(&client->with_ns, 0.99)), 3,
		       "ms");
	app_report_num(out, "p50_ms_without_codec",
		       ns_to_ms(lend_hist_quantile(&client->without_ns, 0.5)), 3,
		       "ms, cost of the tiers and of passing the data");
	app_report_num(out, "p99_ms_without_codec",
		       ns_to_ms(lend_hist_quantile(&client->without_ns, 0.99)), 3, "ms");
	app_report_num(out, "mean_ms_without_codec", lend_hist_mean(&client->without_ns) / 1e6, 3,
		       "ms");
}

static void write_report(const struct run *run)
{
	struct sums sums = sum_up(run);
	const struct args *args = &run->args;
	struct app_report out;

	app_report_begin(&out, args->json,
			 "images: photographs through a service of several tiers");
	app_report_text(&out, "by", images_by_names[args->by], "how pixels and results travel");
	app_report_carrier(&out, args->carrier);
	app_report_text(&out, "work", work_names[args->work], "");
	app_report_bool(&out, "pool", args->pool, "the memory node shares its pages");
	app_report_int(&out, "images", sums.images, "photographs");
	app_report_int(&out, "identical", sums.identical, "whose results equal local ones");
	app_report_int(&out, "skipped", run->list.skipped, "files that cannot be used");
	app_report_int(&out, "errors", run->client.failed, "requests that failed");
	report_times(&out, run, &sums);
	if (run->cluster.far)
		app_report_null(&out, "bytes_moved_per_image", "not known of other machines");
	else
		app_report_int(&out, "bytes_moved_per_image",
			       run->client.ended ? run->moved / run->client.ended : 0,
			       "sent by all processes");
	app_report_int(&out, "pixel_bytes_per_image", sums.images ? sums.pixels / sums.images : 0,
		       "the argument, on average");
	app_report_int(&out, "window", args->window, "under way at a time");
	app_report_int(&out, "processes", images_cluster_processes(&run->cluster),
		       "with client and memory node");
	app_report_int(&out, "pages_used_after", run->node.pages_used, "at the memory node");
	app_report_int(&out, "node_clients", run->node.clients,
		       "of the memory node, counted once for each worker that they use");
	app_report_end(&out);
}

static void run_all(struct run *run)
{
	run->began = app_now();
	for (unsigned first = 0, end; first < run->list.n && !run->client.failed; first = end) {
		end = load_batch(run, first);
		run_batch(run, first, end);
		for (unsigned i = first; i < end; i++)
			images_list_unload(&run->list, i);
	}
	app_progress_clear();
	if (run->client.failed)
		app_note("%s: %s; if a tier ended, its own line above says why",
			 run->client.culprit, app_status_name(run->client.status));
	if (run->cluster.with_node)
		app_node_stat_idle(run->client.mem, &run->node);
}

/* Measures the first batch by size. Returns the exit code. */
static int run_sweep(struct run *run)
{
	struct app_report out;
	unsigned end, identical = 0, images = 0;

	run->began = app_now();
	end = load_batch(run, 0);
	app_report_begin(&out, run->args.json, "images: by size of the photographs");
	app_report_text(&out, "by", images_by_names[run->args.by], "how pixels and results travel");
	app_report_carrier(&out, run->args.carrier);
	app_report_text(&out, "work", work_names[run->args.work], "");
	app_report_int(&out, "window", run->args.window, "under way at a time, for images_per_s");
	images_sweep(&run->client, &run->list, end, run->args.window, &out);
	for (unsigned i = 0; i < end; i++) {
		images += run->list.item[i].rgb != NULL;
		identical += run->list.item[i].results && !run->list.item[i].differ;
		images_list_unload(&run->list, i);
	}
	app_report_int(&out, "images", images, "photographs");
	app_report_int(&out, "identical", identical,
		       "whose results equal local ones, at each size");
	app_report_int(&out, "errors", run->client.failed, "requests that failed");
	app_report_end(&out);
	if (run->client.failed)
		app_note("%s: %s; if a tier ended, its own line above says why",
			 run->client.culprit, app_status_name(run->client.status));
	return run->client.failed || !images || identical != images;
}

int app_images(int argc, char **argv)
{
	static const struct lend_syntax syntax = {
	    .option = options, .check = check_args, .words = "DIR", .doc = doc};
	static struct run run;
	struct sums sums;
	int code;

	run.args = (struct args){.by = IMAGES_BYS, .carrier = APP_SHM, .repeat = 1, .window = 4};
	app_options_read(&syntax, argc, argv, &run.args);
	if (!is_client_here(&run.args))
		return open_client(&run) ? APP_EXIT_FAILED : APP_EXIT_OK;
	images_list_open(&run.list, run.args.dir);
	run.list.what = run.args.work == NEAREST ? IMAGES_NEAREST : IMAGES_THUMBNAIL;
	if (run.args.out)
		images_out_open(run.args.out);
	(void)open_client(&run);
	if (run.args.sweep) {
		code = run_sweep(&run);
	} else {
		run_all(&run);
		write_report(&run);
		sums = sum_up(&run);
		code = run.client.failed || !sums.images || sums.identical != sums.images;
	}
	close_client(&run);
	images_list_close(&run.list);
	return code ? APP_EXIT_FAILED : APP_EXIT_OK;
}
