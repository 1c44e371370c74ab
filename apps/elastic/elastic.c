/* elastic - how fast capacity arrives: workers of a key-value store that start for a load spike,
 * and a function that runs once; through a broker, and with a start of the device of their own.
 *
 * The values are snapshots on a memory node, so a worker has no state to load but the list of their
 * references. Both ways run in turns. In each turn all workers are started at once; the turn ends
 * when each of them has answered LOAD requests, with values that are compared byte by byte. Layer:
 * apps. Threads: one; a process per worker. */
#include "apps/elastic/elastic.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/commands.h"
#include "apps/common/closed_loop.h"
#include "apps/common/memnode.h"
#include "apps/common/options.h"
#include "apps/common/report.h"
#include "apps/common/samples.h"
#include "apps/common/spawn.h"
#include "util/bits.h"
#include "util/check.h"

enum { WORKERS_MAX = 16, WINDOW = 4, LOAD = 32, LINE = 256, SLEEP_MS = 20 };
/* Workers that one process reaches over memif in its life: its 32 ports are not used again. */
enum { MEMIF_MAX = 24 };
enum { REF_TEXT = 200 + 2 * APP_ADDRESS_MAX };
enum { CLIENT, NODE, BROKER, FIRST_WORKER };
enum way { BROKERED, OWN, WAYS };
#define LIMIT UINT64_C(60000000000) /* for a turn to end */

struct args {
	enum app_carrier carrier;
	uint32_t workers, keys, rounds;
	uint64_t size, function_size;
	bool json;
};

struct worker;

/* A request that a worker gets. */
struct get {
	struct lend_call call; /* first */
	struct worker *worker;
	uint32_t key;
};

struct worker {
	struct app_child child;
	lend_session session;
	bool ready; /* its address is known, and there is a session */
	char line[LINE];
	size_t len;
	unsigned started, served;
	struct get get[WINDOW];
};

struct elastic {
	struct args args;
	struct app_net net;
	struct app_child node, broker;
	char broker_name[32];
	char address[APP_ADDRESS_MAX]; /* this end's, for functions */
	struct lend_ep *ep;
	struct lend_mem *mem;
	struct lend_ref *value, list, bytes; /* by key; their list; what a function fetches */
	struct worker worker[WORKERS_MAX];
	uint32_t key; /* the next one to request */
	uint64_t gets, functions, errors, wrong_bytes;
	bool replied;
	struct elastic_reply reply; /* the last function's */
	struct app_series spike[WAYS], function[WAYS], attach[WAYS], fetch[WAYS], in_main[WAYS];
};

static struct elastic elastic;

/* Returns the address at which a process that is started in this way reaches a server. */
static const char *address_for(enum way way, const char *address, char *text, size_t cap)
{
	(void)snprintf(text, cap, "%s%s%s%s", way == BROKERED ? "broker:" : "",
		       way == BROKERED ? elastic.broker_name : "", way == BROKERED ? "/" : "",
		       address);
	return text;
}

/* Converts a reference to text with this address of its node. */
static void print_ref(const struct lend_ref *ref, const char *node, char text[REF_TEXT])
{
	char *at;

	if (lend_ref_text(elastic.mem, ref, text, REF_TEXT) < 0)
		app_die("%s", lend_why());
	at = strchr(text, '@') + 1;
	(void)snprintf(at, (size_t)(text + REF_TEXT - at), "%s", node);
}

/* Starts a process of that way. name: its hidden subcommand. listens: it is a server. */
static void start_task(struct app_child *child, enum way way, const char *name, unsigned proc,
		       bool listens, const struct lend_ref *ref, uint64_t size)
{
	char node[2 * APP_ADDRESS_MAX], caller[2 * APP_ADDRESS_MAX], keys[16], bytes[24];
	char text[REF_TEXT], broker[48];
	const char *argv[24] = {"lend", name,       "--ref", text,     "--caller",
				caller, "--values", keys,    "--size", bytes};
	const char *listen = app_net_listen(&elastic.net, proc);
	unsigned n = 10;

	address_for(way, app_net_address(&elastic.net, proc, NODE), node, sizeof(node));
	address_for(way, elastic.address, caller, sizeof(caller));
	print_ref(ref, node, text);
	(void)snprintf(keys, sizeof(keys), "%u", elastic.args.keys);
	(void)snprintf(bytes, sizeof(bytes), "%" PRIu64, size);
	(void)snprintf(broker, sizeof(broker), "broker:%s", elastic.broker_name);
	if (way == BROKERED)
		listen = broker;
	/* A device needs an address for clients, too; a carrier that makes its own does not. */
	if (listens || (way == OWN && elastic.net.carrier == APP_GIVEN)) {
		argv[n++] = "--listen";
		argv[n++] = listen;
	}
	if (way == OWN && app_net_eal(&elastic.net, proc)) {
		argv[n++] = "--eal";
		argv[n++] = app_net_eal(&elastic.net, proc);
	}
	app_child_exec(child, name, argv);
}

static void get_next(struct get *get);

static void get_done(struct lend_call *call)
{
	struct get *get = (struct get *)(void *)call;

	elastic.gets++;
	elastic.errors += call->status != LEND_OK;
	if (call->status == LEND_OK)
		elastic.wrong_bytes += app_pattern_wrong(call->reply, get->key, elastic.args.size);
	else
		app_note("a worker answered %s: %s", app_status_name(call->status), lend_why());
	lend_buf_give(elastic.ep, call->request);
	lend_buf_give(elastic.ep, call->reply);
	get->worker->served++;
	get_next(get);
}

/* Requests the next key from a worker, unless that has had its load. */
static void get_next(struct get *get)
{
	struct lend_buf *request;

	if (get->worker->started == LOAD)
		return;
	request = lend_buf_take(elastic.ep, sizeof(get->key));
	if (!request)
		app_die("no memory for a request; end some processes");
	get->key = elastic.key++ % elastic.args.keys;
	memcpy(request->data, &get->key, sizeof(get->key));
	request->len = sizeof(get->key);
	get->call = (struct lend_call){
	    .method = APP_METHOD_STORE_GET, .request = request, .done = get_done};
	get->worker->started++;
	if (lend_call_start(elastic.ep, get->worker->session, &get->call) < 0)
		app_die("%s", lend_why());
}

/* Returns the address of a worker's endpoint on the device, from its line "ready ADDRESS". */
static const char *find_address(const struct worker *worker)
{
	const char *address = worker->line + strlen("ready ");

	if (strncmp(worker->line, "ready ", strlen("ready ")) != 0)
		app_die("a worker printed \"%s\"; is this lend a whole build?", worker->line);
	return strncmp(address, "broker:", 7) ? address : address + strcspn(address, "/") + 1;
}

/* Takes what a worker printed. With its address, its load begins. */
static void read_worker(struct worker *worker)
{
	ssize_t n = read(worker->child.fd, worker->line + worker->len, LINE - 1 - worker->len);
	char *end;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0)
		app_child_read(&worker->child, worker->line, 1); /* it has ended: so do we */
	worker->len += (size_t)n;
	worker->line[worker->len] = 0;
	end = strchr(worker->line, '\n');
	if (!end)
		return;
	*end = 0;
	if (lend_connect(elastic.ep, find_address(worker), &worker->session) < 0)
		app_die("%s", lend_why());
	worker->ready = true;
	for (unsigned i = 0; i < WINDOW; i++) {
		worker->get[i].worker = worker;
		get_next(&worker->get[i]);
	}
}

/* Runs a turn of the endpoint, and reads the lines of the first n workers. Sleeps a while if there
 * is nothing to do. */
static void run_turn(unsigned n)
{
	bool sleeps = lend_prepare_sleep(elastic.ep);
	struct pollfd fd[WORKERS_MAX + 1];

	fd[n] = (struct pollfd){.fd = lend_fd(elastic.ep), .events = POLLIN};
	for (unsigned i = 0; i < n; i++)
		fd[i] =
		    (struct pollfd){.fd = elastic.worker[i].ready ? -1 : elastic.worker[i].child.fd,
				    .events = POLLIN};
	(void)poll(fd, n + 1, sleeps ? SLEEP_MS : 0);
	if (lend_poll(elastic.ep) < 0)
		app_die("%s", lend_why());
	for (unsigned i = 0; i < n; i++)
		if (fd[i].fd >= 0 && fd[i].revents)
			read_worker(&elastic.worker[i]);
}

static bool all_served(void)
{
	for (unsigned i = 0; i < elastic.args.workers; i++)
		if (elastic.worker[i].served < LOAD)
			return false;
	return true;
}

static void stop_workers(void)
{
	for (unsigned i = 0; i < elastic.args.workers; i++) {
		lend_disconnect(elastic.ep, elastic.worker[i].session);
		kill(elastic.worker[i].child.pid, SIGTERM);
	}
	for (unsigned i = 0; i < elastic.args.workers; i++)
		(void)app_child_stop(&elastic.worker[i].child);
}

/* Starts all workers at once. Returns the time until each has served its load, in ms. */
static double run_spike(enum way way)
{
	lend_ns began = app_now(), ended;

	for (unsigned i = 0; i < elastic.args.workers; i++) {
		struct worker *worker = &elastic.worker[i];

		memset(worker, 0, sizeof(*worker));
		start_task(&worker->child, way, "elastic-worker", FIRST_WORKER + i, true,
			   &elastic.list, elastic.args.size);
		(void)fcntl(worker->child.fd, F_SETFL, O_NONBLOCK);
	}
	while (!all_served()) {
		run_turn(elastic.args.workers);
		if (app_now() - began > LIMIT)
			app_die("the workers did not serve within a minute; is the machine "
				"overloaded?");
	}
	ended = app_now();
	stop_workers();
	return (double)(ended - began) / 1e6;
}

static void take_reply(lend_request request, const struct lend_buf *in, void *arg)
{
	bool good = in->len == sizeof(elastic.reply);

	(void)arg;
	if (good)
		memcpy(&elastic.reply, in->data, sizeof(elastic.reply));
	elastic.replied = elastic.replied || good;
	lend_reply(elastic.ep, request, good ? LEND_OK : LEND_INVALID_ARGUMENT, NULL);
}

/* Waits until a function's process has ended. */
static void await_end(struct app_child *child, lend_ns began)
{
	int status = 0;

	while (waitpid(child->pid, &status, WNOHANG) == 0) {
		run_turn(0);
		if (app_now() - began > LIMIT)
			app_die("a function did not end within a minute; is the machine "
				"overloaded?");
	}
	close(child->fd);
	if (status != 0)
		app_die("a function failed; its line is above");
}

static void run_function(enum way way)
{
	lend_ns began = app_now(), ended;
	struct app_child child;

	elastic.replied = false;
	start_task(&child, way, "elastic-function", FIRST_WORKER, false, &elastic.bytes,
		   elastic.args.function_size);
	while (!elastic.replied && app_now() - began < LIMIT) {
		struct pollfd fd = {.fd = child.fd};

		run_turn(0);
		if (!elastic.replied && poll(&fd, 1, 0) > 0)
			break; /* it has ended without a reply */
	}
	ended = app_now();
	await_end(&child, began);
	if (!elastic.replied)
		app_die("a function ended without a reply; see its line above");
	elastic.functions++;
	if (elastic.reply.crc != app_pattern_crc(0, elastic.args.function_size))
		elastic.wrong_bytes += elastic.args.function_size;
	app_series_add(&elastic.function[way], (double)(ended - began) / 1e3);
	app_series_add(&elastic.attach[way],
		       (double)(elastic.reply.attached - elastic.reply.in_main) / 1e3);
	app_series_add(&elastic.fetch[way],
		       (double)(elastic.reply.fetched - elastic.reply.attached) / 1e3);
	app_series_add(&elastic.in_main[way], (double)(ended - elastic.reply.in_main) / 1e3);
}

static struct lend_ref put_bytes(const void *bytes, uint64_t len)
{
	struct iovec data = {(void *)(uintptr_t)bytes, len};
	struct lend_op op = {.done = NULL};

	app_node_wait(elastic.mem, &op, lend_put(elastic.mem, &data, 1, NULL, &op), "put");
	return op.ref;
}

/* Stores the values, the list of their references, and the bytes of functions. */
static void fill_store(void)
{
	uint32_t keys = elastic.args.keys;
	char *list = malloc(keys * sizeof(struct lend_ref));

	elastic.value = malloc(keys * sizeof(*elastic.value));
	if (!list || !elastic.value)
		app_die("no memory for %u keys; give fewer", keys);
	for (uint32_t i = 0; i < keys; i++) {
		elastic.value[i] = put_bytes(app_pattern(i, elastic.args.size), elastic.args.size);
		lend_ref_store(list + i * sizeof(struct lend_ref), &elastic.value[i]);
	}
	elastic.list = put_bytes(list, keys * sizeof(struct lend_ref));
	elastic.bytes =
	    put_bytes(app_pattern(0, elastic.args.function_size), elastic.args.function_size);
	free(list);
}

static void plan_net(void)
{
	app_net_init(&elastic.net, elastic.args.carrier);
	for (unsigned i = 0; i < FIRST_WORKER + elastic.args.workers; i++)
		app_net_link(&elastic.net, CLIENT, app_net_add(&elastic.net));
	app_net_plan(&elastic.net);
}

static void open_all(void)
{
	const struct args *args = &elastic.args;
	struct lend_config config = LEND_CONFIG_INIT;
	uint64_t memory = (args->size + 8192) * args->keys + args->function_size;

	plan_net();
	app_pattern_init(22, lend_max_u64(args->size, args->function_size));
	app_child_start_mn(&elastic.node, &elastic.net, NODE, 2 * memory + (8 << 20), APP_ANY_CPU);
	(void)snprintf(elastic.broker_name, sizeof(elastic.broker_name), "elastic-%d",
		       (int)getpid());
	app_child_start_broker(&elastic.broker, &elastic.net, BROKER, elastic.broker_name,
			       elastic.args.workers);
	config.listen = app_net_listen(&elastic.net, CLIENT);
	config.eal = app_net_eal(&elastic.net, CLIENT);
	if (lend_open(&config, &elastic.ep) < 0 ||
	    lend_address(elastic.ep, elastic.address, sizeof(elastic.address)) < 0 ||
	    lend_serve(elastic.ep, APP_METHOD_FUNCTION, take_reply, NULL, LEND_RESERVED) < 0)
		app_die("%s", lend_why());
	app_unpin(); /* EAL pins its thread; children would inherit that */
	elastic.mem = app_node_open(elastic.ep, elastic.node.address);
	fill_store();
}

static void measure_rounds(void)
{
	lend_ns began = app_now();

	for (unsigned i = 0; i < elastic.args.rounds; i++) {
		for (unsigned k = 0; k < WAYS; k++) {
			enum way way = (enum way)((i + k) % WAYS);

			app_series_add(&elastic.spike[way], run_spike(way));
			run_function(way);
			app_progress(began, WAYS * i + k + 1, WAYS * elastic.args.rounds);
		}
	}
	app_progress_clear();
}

static void close_all(void)
{
	lend_mem_close(elastic.mem);
	lend_close(elastic.ep);
	(void)app_child_stop(&elastic.broker);
	(void)app_child_stop(&elastic.node);
	free(elastic.value);
}

static void report_way(struct app_report *r, enum way way)
{
	r->prefix = way == BROKERED ? "broker_" : "own_";
	app_report_num(r, "spike_ms", app_series_median(&elastic.spike[way]), 2,
		       "ms, from the first exec until each worker has served its load");
	app_report_num(r, "function_us", app_series_median(&elastic.function[way]), 0,
		       "us, from exec to a function's reply");
	app_report_num(r, "function_main_us", app_series_median(&elastic.in_main[way]), 0,
		       "us of it, from main() on");
	app_report_num(r, "attach_us", app_series_median(&elastic.attach[way]), 0,
		       "us of it, until the carrier is open");
	app_report_num(r, "fetch_us", app_series_median(&elastic.fetch[way]), 0,
		       "us of it, from then until the bytes are there");
	r->prefix = "";
}

static void write_report(void)
{
	const struct args *args = &elastic.args;
	struct app_report r;

	app_report_begin(&r, args->json,
			 "elastic: workers and functions that start, through a broker and with "
			 "a device of their own");
	app_report_carrier(&r, args->carrier);
	app_report_int(&r, "workers", args->workers, "started at once");
	app_report_int(&r, "rounds", args->rounds, "of each way; medians count");
	report_way(&r, BROKERED);
	report_way(&r, OWN);
	app_report_num(&r, "spike_ratio",
		       app_series_ratio(&elastic.spike[BROKERED], &elastic.spike[OWN]), 3,
		       "time to served load, broker over own");
	app_report_num(&r, "function_ratio",
		       app_series_ratio(&elastic.function[BROKERED], &elastic.function[OWN]), 4,
		       "time of a function, broker over own");
	app_report_num(&r, "function_main_ratio",
		       app_series_ratio(&elastic.in_main[BROKERED], &elastic.in_main[OWN]), 4,
		       "the same from main() on, without exec");
	app_report_num(&r, "attach_ratio",
		       app_series_ratio(&elastic.attach[BROKERED], &elastic.attach[OWN]), 4,
		       "the same until the carrier is open");
	app_report_num(&r, "fetch_ratio",
		       app_series_ratio(&elastic.fetch[BROKERED], &elastic.fetch[OWN]), 3,
		       "the same of the fetch alone");
	app_report_int(&r, "gets", elastic.gets, "values that workers sent, each compared");
	app_report_int(&r, "functions", elastic.functions, "that replied, each with a CRC32C");
	app_report_int(&r, "errors", elastic.errors, "requests that did not end OK");
	app_report_int(&r, "wrong_bytes", elastic.wrong_bytes, "");
	app_report_end(&r);
}

static const struct lend_option options[] = {
    APP_CARRIER(struct args, carrier,
		"dpdk:memif (default), udp, or an address with EAL's arguments; lend bench --help"),
    OPT_NUMBER(struct args, workers, "workers", 1, WORKERS_MAX, "Processes started at once (4)"),
    OPT_NUMBER(struct args, keys, "values", 1, 1u << 18, "Values of the store (1024)"),
    OPT_SIZE(struct args, size, "size", 1, 1u << 20, "Bytes of a value (4K)"),
    OPT_SIZE(struct args, function_size, "function-size", 1, 64u << 20,
	     "Bytes that a function fetches (1M)"),
    OPT_NUMBER(struct args, rounds, "rounds", 1, 100, "Starts of each way, in turns (3)"),
    OPT_JSON(struct args, json),
    {.name = NULL}};

static const char doc[] =
    "How fast capacity arrives: workers of a key-value store that start for a load spike, and a "
    "function that runs once, through lend-broker and with a start of the device of their own.\v"
    "The values are on a memory node. A worker attaches, fetches the list of references and "
    "serves; the time ends when each worker has sent 32 values, which are compared. A function "
    "attaches, fetches --function-size bytes by reference, and replies with their CRC32C.\n\n"
    "  lend bench elastic\n"
    "  lend bench elastic --workers 2 --rounds 6 --json\n"
    "  lend bench elastic --carrier udp";

int app_elastic(int argc, char **argv)
{
	static const struct lend_syntax syntax = {.option = options, .doc = doc};

	elastic.args = (struct args){.carrier = APP_DPDK_MEMIF,
				     .workers = 4,
				     .keys = 1024,
				     .rounds = 3,
				     .size = 4096,
				     .function_size = 1 << 20};
	app_options_read(&syntax, argc, argv, &elastic.args);
	if (elastic.args.carrier == APP_SHM || elastic.args.carrier == APP_DPDK_RING)
		app_bad("--carrier %s: no device that a broker shares; give dpdk:memif or udp",
			app_carrier_name(elastic.args.carrier));
	if (elastic.args.carrier == APP_DPDK_MEMIF &&
	    WAYS * elastic.args.workers * elastic.args.rounds > MEMIF_MAX)
		app_bad("--workers %u --rounds %u: over dpdk:memif, 12 starts each way at most; "
			"give less, or run scripts/elastic.sh",
			elastic.args.workers, elastic.args.rounds);
	open_all();
	measure_rounds();
	write_report();
	close_all();
	return elastic.wrong_bytes || elastic.errors ? APP_EXIT_FAILED : APP_EXIT_OK;
}
