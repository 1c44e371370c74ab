/* Goal: no data race and no lost work where two threads meet: rings, sleep and wake, stop and
 * close, replies from workers, leases, workers that notify each other of dead processes. Method:
 * everything is built with the thread sanitizer; in each scene threads interfere, with random
 * turns. A plain program, because Criterion does not start under that sanitizer. Races between
 * processes are the same code on the same memory. Covers: src/io/shm/send.c,
 * src/io/shm/ring_read.c, src/io/shm/poll.c, src/rpc/sleep.c, src/rpc/loop.c, src/rpc/worker.c,
 * mn/notify.c, cn/lease_renew.c, cn/deferred_release.c */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/shm/ring.h"
#include "kill/fail_nth_node.h"
#include "lend/mem.h"
#include "util/check.h"
#include "util/rng.h"

#define MUST(what) LEND_CHECK(what)
#define MS         UINT64_C(1000000)

enum { ECHO = 1, SLOW = 2, ITEMS = 40000, CALLS = 1500 };

static pthread_t begin_thread(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	MUST(pthread_create(&thread, NULL, run, arg) == 0);
	return thread;
}

/* Short and long messages; the producer asks for a wake-up when the ring is full. */
static void *fill_queue(void *ring)
{
	struct lend_ring_tx tx = {.ring = ring};

	for (uint32_t i = 0; i < ITEMS; i++) {
		uint32_t len = i % 3 ? 4 + i % 200 : 300 + i % 16000;

		while (!lend_ring_room(&tx, len)) {
			(void)lend_ring_await_room(&tx, len);
			sched_yield();
		}
		memset(lend_ring_reserve(&tx, len), (int)(i & 0xff), len);
		lend_ring_commit(&tx, len);
	}
	return NULL;
}

static void shm_ring(void)
{
	struct lend_ring *ring = aligned_alloc(64, sizeof(*ring));
	struct lend_ring_rx rx = {.ring = ring};
	uint32_t i = 0, len, wakes = 0;
	const void *data;
	pthread_t thread;

	memset(ring, 0, sizeof(*ring));
	thread = begin_thread(fill_queue, ring);
	while (i < ITEMS) {
		enum lend_ring_verdict look = lend_ring_next(&rx, &data, &len);

		MUST(look != LEND_RING_BAD);
		if (look == LEND_RING_DATA) {
			MUST(len == (i % 3 ? 4 + i % 200 : 300 + i % 16000));
			MUST(((const uint8_t *)data)[0] == (i & 0xff));
			MUST(((const uint8_t *)data)[len - 1] == (i & 0xff));
			i++;
		}
		if (look == LEND_RING_EMPTY || i % 13 == 0)
			wakes += lend_ring_done(&rx);
		if (look == LEND_RING_EMPTY)
			sched_yield();
	}
	pthread_join(thread, NULL);
	free(ring);
}

struct server {
	struct lend_ep *ep;
	struct nth_node *node;
	char address[128];
};

static void serve_echo(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct lend_ep *ep = ((struct server *)arg)->ep;
	struct lend_buf *out = lend_buf_take(ep, bytes->len);

	memcpy(out->data, bytes->data, bytes->len);
	out->len = bytes->len;
	(void)lend_request_left(ep, request);
	(void)lend_request_cancelled(ep, request);
	(void)lend_reply(ep, request, LEND_OK, out);
}

static void *run_server(void *arg)
{
	MUST(lend_run(((struct server *)arg)->ep, LEND_NEVER) == 0);
	return NULL;
}

static void open_server(struct server *server, const char *scheme)
{
	struct lend_config config = LEND_CONFIG_INIT;
	static unsigned count;

	(void)snprintf(server->address, sizeof(server->address),
		       strcmp(scheme, "shm") ? "udp:127.0.0.1:0" : "shm:race%d-%u", (int)getpid(),
		       count++);
	config.listen = server->address;
	config.sessions = 32;
	MUST(lend_open(&config, &server->ep) == 0);
	MUST(lend_address(server->ep, server->address, sizeof(server->address)) == 0);
	MUST(lend_serve(server->ep, ECHO, serve_echo, server, 0) == 0);
	MUST(lend_serve(server->ep, SLOW, serve_echo, server, LEND_SLOW) == 0);
	MUST(nth_node_open(server->ep, &server->node) == 0);
}

static void close_server(struct server *server, pthread_t thread)
{
	lend_stop(server->ep);
	pthread_join(thread, NULL);
	lend_close(server->ep);
	MUST(nth_node_close(server->node, true) == NULL);
}

/* Both ends fall asleep now and then: the next call has to wake them. */
static void run_talk(struct lend_ep *ep, lend_session session, uint64_t seed, uint32_t calls)
{
	struct lend_rng rng;

	lend_rng_seed(&rng, seed);
	for (uint32_t i = 0; i < calls; i++) {
		struct lend_call call = {.method = i % 5 ? ECHO : SLOW, .timeout = 20000 * MS};
		uint32_t len = (uint32_t)lend_rng_below(&rng, i % 50 ? 300 : 30000);

		call.request = lend_buf_take(ep, len + 1);
		call.request->len = len;
		memset(call.request->data, (int)i, len);
		MUST(lend_call_sync(ep, session, &call) == 0 && call.status == LEND_OK);
		MUST(call.reply_len == len);
		lend_buf_give(ep, call.request);
		lend_buf_give(ep, call.reply);
		if (i % 40 == 0)
			(void)lend_wait(ep, lend_now(ep) + lend_rng_below(&rng, MS));
	}
}

static void *run_client(void *arg)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct server *server = arg;
	lend_session session;
	struct lend_ep *ep;

	config.sessions = 8;
	MUST(lend_open(&config, &ep) == 0);
	MUST(lend_connect(ep, server->address, &session) == 0);
	run_talk(ep, session, (uint64_t)(uintptr_t)&session, CALLS / 2);
	lend_close(ep);
	return NULL;
}

/* Runs two clients at once, each in its thread. */
static void run_two(const char *scheme, void *(*client)(void *))
{
	struct server server;
	pthread_t thread, one, two;

	open_server(&server, scheme);
	thread = begin_thread(run_server, &server);
	one = begin_thread(client, &server);
	two = begin_thread(client, &server);
	pthread_join(one, NULL);
	pthread_join(two, NULL);
	close_server(&server, thread);
}

static void *stop_server(void *ep)
{
	lend_stop(ep);
	return NULL;
}

/* Closes the endpoint as soon as the stop was seen, perhaps before lend_stop() has returned. */
static void stop_and_close(void)
{
	struct lend_config config = LEND_CONFIG_INIT;

	config.sessions = 8;
	for (int i = 0; i < 100; i++) {
		struct lend_ep *ep;
		pthread_t thread;

		MUST(lend_open(&config, &ep) == 0);
		thread = begin_thread(stop_server, ep);
		MUST(lend_run(ep, LEND_NEVER) == 0);
		lend_close(ep);
		pthread_join(thread, NULL);
	}
}

/* Clients open and close in two threads: the thread that renews their leases starts and ends
 * meanwhile. */
static void *run_lease(void *arg)
{
	struct lend_config config = LEND_CONFIG_INIT;
	struct server *server = arg;

	config.sessions = 8;
	for (int i = 0; i < 15; i++) {
		struct lend_op op = {.timeout = 20000 * MS};
		char bytes[4] = "abc";
		struct iovec iov = {bytes, 4};
		struct lend_mem *mem;
		struct lend_ep *ep;

		MUST(lend_open(&config, &ep) == 0);
		MUST(lend_mem_open(ep, server->address, &mem) == 0);
		MUST(lend_put_sync(mem, &iov, 1, NULL, &op) >= 0);
		MUST(op.status == LEND_OK);
		lend_mem_close(mem);
		lend_close(ep);
	}
	return NULL;
}

int main(void)
{
	char folder[] = "/tmp/lend-races-XXXXXX", path[64];

	MUST(mkdtemp(folder) && !setenv("XDG_RUNTIME_DIR", folder, 1));
	shm_ring();
	run_two("shm", run_client);
	run_two("udp", run_client);
	stop_and_close();
	run_two("shm", run_lease);
	(void)snprintf(path, sizeof(path), "%s/lend/.lock", folder);
	(void)unlink(path);
	(void)snprintf(path, sizeof(path), "%s/lend", folder);
	(void)rmdir(path);
	MUST(rmdir(folder) == 0);
	puts("no race was seen");
	return 0;
}
