/* broker_hop - the cost of a broker between a process and its device: datagrams there and back.
 * perf_broker_hop [-d DEVICE] [-s BYTES] [-n TRIPS]
 * All in one thread: an echo on the device and a sender on the same device, directly; then the
 * sender through a broker that runs in between; and the same over a bare link of shm, which is the
 * hop that the broker adds. So it measures work, not waiting. Medians of interleaved runs. */
#include <errno.h>
#include <getopt.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "broker/broker.h"
#include "io/io.h"
#include "sys/clock.h"
#include "sys/last_error.h"
#include "util/check.h"

enum { RUNS = 9, BURST = 64, SIZE_MAX_SENT = 255, WAYS = 3, ATTACHES = 101 };

struct way {
	struct lend_io *echo, *io;
	struct lend_broker *broker; /* NULL: no broker */
	uint32_t peer;
	double ns[RUNS], attach_us;
	atomic_bool attached;
};

static struct lend_io *open_end(const char *listen, const char *peer)
{
	struct lend_io_config config = {.listen = listen, .peer = peer, .capture = ""};
	struct lend_io *io;

	if (lend_io_open(&config, &io) == 0)
		return io;
	fprintf(stderr, "perf_broker_hop: %s\n", lend_why_text());
	exit(EXIT_FAILURE);
}

static void send_one(struct lend_io *io, uint32_t peer, const void *bytes, uint32_t len)
{
	struct lend_out out = {.head = bytes, .head_len = (uint8_t)len, .peer = peer};
	struct lend_bufs none = {NULL, 0};

	io->ops->tx(io, &none, &out, 1);
	LEND_CHECK(out.sent != LEND_SENT_DEAD);
}

static void turn_echo(struct way *w)
{
	struct lend_in in[BURST];
	uint32_t n = w->echo->ops->rx(w->echo, in, BURST);

	for (uint32_t i = 0; i < n; i++)
		if (!in[i].gone)
			send_one(w->echo, in[i].peer, in[i].data, in[i].len);
	if (n > 0)
		w->echo->ops->rx_done(w->echo);
	if (w->broker)
		(void)lend_broker_turn(w->broker);
}

static void round_trip(struct way *w, uint32_t len)
{
	static const char bytes[SIZE_MAX_SENT];
	struct lend_in in[BURST];
	uint32_t n = 0;

	send_one(w->io, w->peer, bytes, len);
	while (n == 0) {
		if (w->broker)
			(void)lend_broker_turn(w->broker);
		turn_echo(w);
		n = w->io->ops->rx(w->io, in, BURST);
	}
	LEND_CHECK(in[0].len == len);
	w->io->ops->rx_done(w->io);
}

static void resolve_peer(struct way *w, const char *address)
{
	int rc;

	while ((rc = w->io->ops->resolve(w->io, address, &w->peer)) == -EINPROGRESS)
		turn_echo(w);
	if (rc < 0)
		fprintf(stderr, "perf_broker_hop: %s\n", lend_why_text());
	LEND_CHECK(rc == 0);
}

static double run_trips(struct way *w, uint32_t len, uint32_t n)
{
	struct timespec a, b;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
	for (uint32_t i = 0; i < n; i++)
		round_trip(w, len);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
	return ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / n;
}

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static int print_usage(void)
{
	fprintf(stderr, "usage: perf_broker_hop [-d DEVICE] [-s BYTES 1..255] [-n TRIPS]\n");
	return 2;
}

static double median_of(double *v, unsigned n)
{
	qsort(v, n, sizeof(v[0]), compare_doubles);
	return v[n / 2];
}

static void *turn_meanwhile(void *arg)
{
	struct way *w = arg;

	while (!atomic_load(&w->attached))
		if (lend_broker_turn(w->broker) == 0)
			lend_broker_wait(w->broker);
	return NULL;
}

/* Opening waits for the broker, so another thread runs its turns until the open returns, and sleeps
 * between them, as the daemon does. */
static void attach_ends(struct way *w, const char *name, const char *device)
{
	struct lend_broker_config config = {.name = name, .device = device};
	const struct timespec pause = {.tv_nsec = 1000000};
	char address[80];
	pthread_t thread;
	double us[ATTACHES];

	(void)mallopt(M_MMAP_THRESHOLD,
		      128 << 10); /* malloc() maps large blocks for each use, as in a new process */
	LEND_CHECK(lend_broker_open(&config, &w->broker) == 0);
	LEND_CHECK(pthread_create(&thread, NULL, turn_meanwhile, w) == 0);
	(void)snprintf(address, sizeof(address), "broker:%s", name);
	for (int i = 0; i < ATTACHES; i++) {
		lend_ns began;

		if (w->io)
			w->io->ops->close(w->io);
		(void)nanosleep(&pause, NULL);
		began = lend_clock_now();
		w->io = open_end(NULL, address);
		us[i] = (double)(lend_clock_now() - began) / 1e3;
	}
	w->attach_us = median_of(us, ATTACHES);
	atomic_store(&w->attached, true);
	(void)pthread_join(thread, NULL);
}

static void set_up(struct way way[WAYS], const char *device)
{
	char name[64], listen[80], address[104], route[200];

	(void)snprintf(name, sizeof(name), "perf-broker-%d", (int)getpid());
	(void)snprintf(listen, sizeof(listen), "shm:%s-echo", name);
	for (int i = 0; i < WAYS; i++) {
		struct way *w = &way[i];

		w->echo = open_end(i == 0 ? listen : device, NULL);
		LEND_CHECK(w->echo->ops->name(w->echo, address, sizeof(address)) == 0);
		if (i < 2)
			w->io = open_end(NULL, address);
		else
			attach_ends(w, name, device);
		(void)snprintf(route, sizeof(route), "broker:%s/%s", name, address);
		resolve_peer(w, i < 2 ? address : route);
	}
}

static void tear_down(struct way way[WAYS])
{
	for (int i = 0; i < WAYS; i++) {
		way[i].io->ops->close(way[i].io);
		if (way[i].broker)
			lend_broker_close(way[i].broker);
		way[i].echo->ops->close(way[i].echo);
	}
}

int main(int argc, char **argv)
{
	static struct way way[WAYS];
	const char *device = "dpdk:ring@127.0.0.1:0";
	uint32_t len = 64, n = 20000;
	double ns[WAYS];
	int opt;

	while ((opt = getopt(argc, argv, "d:s:n:")) != -1) {
		if (opt == 'd')
			device = optarg;
		else if (opt == 's')
			len = (uint32_t)strtoul(optarg, NULL, 10);
		else if (opt == 'n')
			n = (uint32_t)strtoul(optarg, NULL, 10);
		else
			return print_usage();
	}
	if (len < 1 || len > SIZE_MAX_SENT || n < 1)
		return print_usage();
	set_up(way, device);
	for (int r = 0; r < RUNS; r++)
		for (int i = 0; i < WAYS; i++)
			way[i].ns[r] = run_trips(&way[i], len, n);
	for (int i = 0; i < WAYS; i++)
		ns[i] = median_of(way[i].ns, RUNS);
	printf(
	    "%u bytes there and back, CPU ns: a ring of shm %.0f, %s %.0f, through a broker %.0f: "
	    "%.2f rings more; attached in %.0f us\n",
	    len, ns[0], device, ns[1], ns[2], (ns[2] - ns[1]) / ns[0], way[2].attach_us);
	tear_down(way);
	return EXIT_SUCCESS;
}
