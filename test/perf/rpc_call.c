/* rpc_call - the cost of a call through the public interface: two endpoints in one thread.
 * perf_rpc_call [-c shm|ring|memif|udp] [-s REQUEST] [-r REPLY] [-w WINDOW] [-n CALLS] [-p PEERS]
 * [-S SESSIONS] [-f always|never] [-t THREADS] [-k]
 * Prints cycles per call of both ends and their carrier; `count.sh` has callgrind count
 * instructions. A request goes out again in the buffer that it came back in, and replies are seen
 * in place, as in a client that avoids copies. The calls are spread over SESSIONS: with as many as
 * calls in flight, no two calls share a datagram; with -f never all take the slow path. PEERS more
 * clients make one call each and are idle then. ring: DPDK's net_ring, no root, no hugepages.
 * Each of THREADS has two endpoints of its own; shared_lines.py counts what they share. With -k
 * all threads count their calls in one word, which shared_lines.py must find.
 * Threads: THREADS. */
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <x86intrin.h>

#include <lend/rpc.h>

#include "core/core.h"

enum { ECHO = 1, WINDOW_MAX = 128, PEERS_MAX = 1000, SPARE = 7, THREADS_MAX = 8, LINE = 64 };
#define PATIENCE_NS UINT64_C(600000000000)
/* Address of a page, in which a thread writes to its line before and after the counted calls. */
#define MARKS 0x5eed0000

struct bench {
	struct lend_ep *server, *client;
	lend_session session[WINDOW_MAX];
	struct lend_ep *peer[PEERS_MAX];
	uint32_t size, reply_size, window, peers, sessions;
	uint64_t calls, started, ended;
	enum lend_fast fast;
	bool shares; /* counts its calls in shared_count */
	struct lend_call call[WINDOW_MAX];
};

static _Atomic uint64_t shared_count;
static _Thread_local struct bench bench = {
    .size = 32, .reply_size = 8, .window = 32, .sessions = 1};

/* The endpoints' cores: the linker's --wrap puts this before the core's function. */
struct lend_core *__real_lend_core_init(void *mem, const struct lend_core_config *config,
					lend_ns now);
struct lend_core *__wrap_lend_core_init(void *mem, const struct lend_core_config *config,
					lend_ns now);

struct lend_core *__wrap_lend_core_init(void *mem, const struct lend_core_config *config,
					lend_ns now)
{
	struct lend_core_config chosen = *config;

	chosen.fast = (uint8_t)bench.fast;
	return __real_lend_core_init(mem, &chosen, now);
}

static void fail_bench(const char *what)
{
	fprintf(stderr, "perf_rpc_call: %s: %s\n", what, lend_why());
	exit(1);
}

static void serve_echo(lend_request request, const struct lend_buf *in, void *arg)
{
	(void)arg;
	if (in->len != bench.size)
		fail_bench("a request of another length");
	lend_reply_copy(bench.server, request, LEND_OK, in->data, bench.reply_size);
}

static void start_call(struct lend_call *call)
{
	if (bench.started == bench.calls)
		return;
	call->request->len = bench.size;
	if (lend_call_start(bench.client, bench.session[(call - bench.call) % bench.sessions],
			    call) < 0)
		fail_bench("start");
	bench.started++;
}

static void call_done(struct lend_call *call)
{
	if (call->status != LEND_OK || call->reply_len != bench.reply_size)
		fail_bench("a call failed");
	call->reply = NULL;
	bench.ended++;
	if (bench.shares)
		atomic_fetch_add(&shared_count, 1);
	start_call(call);
}

static void run_calls(uint64_t calls)
{
	bench.calls = bench.started + calls;
	for (uint32_t i = 0; i < bench.window; i++)
		start_call(&bench.call[i]);
	while (bench.ended < bench.calls) {
		lend_poll(bench.client);
		lend_poll(bench.server);
	}
}

static void open_ends(const char *carrier)
{
	struct lend_config config = LEND_CONFIG_INIT;
	static unsigned number;
	char address[128];

	snprintf(address, sizeof(address), "shm:perf-%d-%u", (int)getpid(), number++);
	config.sessions = bench.peers + bench.sessions + SPARE;
	config.timeout = config.dead = PATIENCE_NS; /* valgrind may stop a thread for long */
	config.listen = strcmp(carrier, "ring") == 0    ? "dpdk:ring@127.0.0.1:0"
			: strcmp(carrier, "memif") == 0 ? "dpdk:memif@127.0.0.1:0"
			: strcmp(carrier, "udp") == 0   ? "udp:127.0.0.1:0"
							: address;
	if (lend_open(&config, &bench.server) < 0 ||
	    lend_address(bench.server, address, sizeof(address)) < 0)
		fail_bench(config.listen);
	config.listen = NULL;
	config.sessions = bench.sessions + SPARE;
	if (lend_serve(bench.server, ECHO, serve_echo, NULL, 0) < 0 ||
	    lend_open(&config, &bench.client) < 0)
		fail_bench(address);
	for (uint32_t i = 0; i < bench.sessions; i++)
		if (lend_connect(bench.client, address, &bench.session[i]) < 0)
			fail_bench(address);
	for (uint32_t i = 0; i < bench.window; i++) {
		bench.call[i] =
		    (struct lend_call){.method = ECHO, .in_place = 1, .done = call_done};
		bench.call[i].request = lend_buf_take(bench.client, bench.size);
		if (!bench.call[i].request)
			fail_bench("buffers");
		memset(bench.call[i].request->data, 0x5a, bench.size);
	}
}

static void open_peer(struct lend_ep **ep, const char *address)
{
	struct lend_config config = {.size = sizeof(config), .sessions = 1, .calls = 1};
	struct lend_call call = {.method = ECHO};
	lend_session session;

	if (lend_open(&config, ep) < 0 || lend_connect(*ep, address, &session) < 0)
		fail_bench(address);
	call.request = lend_buf_take(*ep, bench.size);
	if (!call.request)
		fail_bench("buffers");
	call.request->len = bench.size;
	if (lend_call_start(*ep, session, &call) < 0)
		fail_bench("start");
	while (!call.reply && call.status == LEND_UNKNOWN) {
		lend_poll(*ep);
		lend_poll(bench.server);
	}
	lend_buf_give(*ep, call.request);
	lend_buf_give(*ep, call.reply);
}

static struct crew {
	const char *carrier;
	struct bench options;
	uint64_t calls;
	unsigned threads;
	volatile uint8_t *marks;
	pthread_mutex_t opening;
	pthread_barrier_t turn;
} crew = {.carrier = "shm", .calls = 1000000, .threads = 1, .opening = PTHREAD_MUTEX_INITIALIZER};

/* Opens a thread's endpoints, makes calls, and prints their cost. */
static void *run_thread(void *arg)
{
	size_t index = (size_t)(uintptr_t)arg;
	char address[128];
	uint64_t begin;

	bench = crew.options;
	pthread_mutex_lock(&crew.opening);
	open_ends(crew.carrier);
	lend_address(bench.server, address, sizeof(address));
	for (uint32_t i = 0; i < bench.peers; i++)
		open_peer(&bench.peer[i], address);
	pthread_mutex_unlock(&crew.opening);
	run_calls(1000);
	pthread_barrier_wait(&crew.turn);
	crew.marks[index * LINE] = 1;
	begin = __rdtsc();
	run_calls(crew.calls);
	begin = __rdtsc() - begin;
	crew.marks[index * LINE] = 0;
	pthread_barrier_wait(&crew.turn);
	pthread_mutex_lock(&crew.opening);
	printf("%.1f cycles per call, %u B there, %u B back, %u in flight, %u sessions, %s\n",
	       (double)begin / (double)crew.calls, bench.size, bench.reply_size, bench.window,
	       bench.sessions, crew.carrier);
	for (uint32_t i = 0; i < bench.peers; i++)
		lend_close(bench.peer[i]);
	lend_close(bench.client);
	lend_close(bench.server);
	pthread_mutex_unlock(&crew.opening);
	return NULL;
}

static void run_crew(void)
{
	pthread_t thread[THREADS_MAX];

	crew.options = bench;
	crew.marks = mmap((void *)(uintptr_t)MARKS, LINE * THREADS_MAX, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (crew.marks == MAP_FAILED || pthread_barrier_init(&crew.turn, NULL, crew.threads) != 0)
		fail_bench("memory");
	for (uintptr_t i = 1; i < crew.threads; i++)
		if (pthread_create(&thread[i], NULL, run_thread, (void *)i) != 0)
			fail_bench("threads");
	run_thread(NULL);
	for (unsigned i = 1; i < crew.threads; i++)
		pthread_join(thread[i], NULL);
}

static int print_usage(void)
{
	fprintf(stderr, "usage: perf_rpc_call [-c shm|ring|memif|udp] [-s REQUEST] [-r REPLY] "
			"[-w WINDOW 1..128] [-n CALLS] [-p PEERS 0..1000] [-S SESSIONS 1..128] "
			"[-f always|never] [-t THREADS 1..8] [-k]\n");
	return 2;
}

int main(int argc, char **argv)
{
	int option;

	while ((option = getopt(argc, argv, "c:s:r:w:n:p:S:f:t:k")) != -1) {
		if (option == 'c')
			crew.carrier = optarg;
		else if (option == 's')
			bench.size = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'r')
			bench.reply_size = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'w')
			bench.window = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'p')
			bench.peers = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'S')
			bench.sessions = (uint32_t)strtoul(optarg, NULL, 10);
		else if (option == 'f')
			bench.fast =
			    strcmp(optarg, "never") == 0 ? LEND_FAST_NEVER : LEND_FAST_ALWAYS;
		else if (option == 'k')
			bench.shares = true;
		else if (option == 'n')
			crew.calls = strtoull(optarg, NULL, 10);
		else if (option == 't')
			crew.threads = (unsigned)strtoul(optarg, NULL, 10);
		else
			return print_usage();
	}
	if (bench.window < 1 || bench.window > WINDOW_MAX || bench.size < 1 ||
	    bench.reply_size > bench.size || crew.calls < 1 || bench.peers > PEERS_MAX ||
	    bench.sessions < 1 || bench.sessions > WINDOW_MAX || crew.threads < 1 ||
	    crew.threads > THREADS_MAX)
		return print_usage();
	run_crew();
	return 0;
}
