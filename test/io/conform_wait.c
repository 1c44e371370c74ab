/* conform_wait - cases with two threads: round trips, sleeping and waking up. Layer: test. */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "io/conform.h"
#include "util/rng.h"

enum { ROUNDS = 10000, POLLS = 3, GAP_MS = 100 };

struct echo {
	struct lend_io *io;
	_Atomic int stop;
	_Atomic uint64_t slept; /* number of sleeps */
	bool sleeps;
};

/* Returns the number of sleeps that a case aims for: $LEND_CONFORM_SLEEPS, or a few thousand. */
static uint64_t sleeps_wanted(void)
{
	const char *given = getenv("LEND_CONFORM_SLEEPS");

	return given != NULL ? strtoull(given, NULL, 0) : 3000;
}

/* Pauses for a random time, mostly short. Some pauses end at the moment when the other thread falls
 * asleep. */
static void pause_a_bit(struct lend_rng *rng)
{
	volatile uint64_t spin = lend_rng_below(rng, UINT64_C(1) << lend_rng_below(rng, 13));

	while (spin > 0)
		spin--;
}

/* Sleeps as an event loop does: arms the descriptor, then polls it. False: no event came for so
 * long that a wake-up must be lost. It polls several times. A single poll can time out when the
 * machine pauses the sender; a lost wake-up never arrives. */
static bool sleep_until_ready(struct lend_io *io, struct lend_rng *rng, _Atomic uint64_t *slept)
{
	struct pollfd p = {.fd = io->ops->fd(io), .events = POLLIN};

	pause_a_bit(rng);
	if (!io->ops->arm(io))
		return true;
	if (p.fd < 0) { /* until the peer is known to wake it, an event loop sleeps by time */
		sched_yield();
		return true;
	}
	atomic_fetch_add(slept, 1);
	for (int i = 0; i < POLLS; i++) {
		if (poll(&p, 1, (int)conform_patience_ms / 2) == 1)
			return true;
	}
	return false;
}

/* True when the carrier allows sleeping. It may refuse for a while after a datagram, because more
 * may follow. */
static bool arms_soon(struct lend_io *io)
{
	uint64_t began = conform_ms();

	while (!io->ops->arm(io)) {
		if (conform_ms() - began > conform_patience_ms)
			return false;
		(void)conform_take(io, NULL, NULL);
	}
	return true;
}

static void answer_echo(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq)
{
	struct echo *e = arg;

	(void)id;
	if (!in->gone)
		cr_assert_eq(conform_send(e->io, in->peer, 2, seq, 100), LEND_SENT);
}

static void *echo_main(void *arg)
{
	struct echo *e = arg;
	struct lend_rng rng;

	lend_rng_seed(&rng, 1);
	while (!atomic_load(&e->stop)) {
		if (conform_take(e->io, answer_echo, e) > 0)
			continue;
		if (!e->sleeps)
			sched_yield();
		else if (!sleep_until_ready(e->io, &rng, &e->slept) && !atomic_load(&e->stop))
			cr_assert_fail("the server slept through a datagram");
	}
	return NULL;
}

struct got {
	uint32_t n, seq;
};

static void note_got(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq)
{
	struct got *g = arg;

	cr_assert_eq(id, 2);
	cr_assert(!in->gone);
	g->n++;
	g->seq = seq;
}

/* Makes two round trips. After the first, the peer is known to poll; at the second it may just have
 * stopped. slept: NULL for a client that does not sleep. False: a datagram was lost. */
static bool round_trip(struct conform_pair *p, uint32_t seq, _Atomic uint64_t *slept,
		       struct lend_rng *rng)
{
	uint64_t last = conform_ms(), waited = 0; /* ms of our own running time */
	struct got g = {0};

	cr_assert_eq(conform_send(p->client, p->peer, 1, seq, 64), LEND_SENT);
	pause_a_bit(rng);
	cr_assert_eq(conform_send(p->client, p->peer, 1, seq, 64), LEND_SENT);
	while (waited < conform_patience_ms / 2) {
		uint64_t now = conform_ms();

		waited += now - last < GAP_MS ? now - last : 0;
		last = now;
		(void)conform_take(p->client, note_got, &g);
		if (g.n == 2)
			return g.seq == seq;
		if (slept != NULL && !sleep_until_ready(p->client, rng, slept))
			return false;
		if (slept == NULL)
			sched_yield();
	}
	return false;
}

static void run_race(const struct conform_row *row, bool server_sleeps, bool client_sleeps)
{
	struct conform_pair p;
	struct lend_rng rng;
	struct echo e = {.sleeps = server_sleeps};
	uint64_t sleeps = server_sleeps ? sleeps_wanted() : 0;
	/* Through the kernel, a round takes a hundred times as long. */
	uint32_t rounds = conform_has(row, LEND_CARRIER_LOSSLESS) ? ROUNDS : ROUNDS / 5;
	pthread_t thread;

	conform_open(&p, row);
	lend_rng_seed(&rng, p.seed);
	e.io = p.server;
	cr_assert_eq(pthread_create(&thread, NULL, echo_main, &e), 0);
	for (uint32_t seq = 0; seq < rounds || atomic_load(&e.slept) < sleeps; seq++) {
		pause_a_bit(&rng);
		cr_assert(round_trip(&p, seq, client_sleeps ? &e.slept : NULL, &rng),
			  "round %u; SEED=%lu", seq, (unsigned long)p.seed);
	}
	atomic_store(&e.stop, 1);
	(void)conform_send(p.client, p.peer, 1, 0, 64);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	conform_close(&p);
}

static void need_threads(const struct conform_row *row)
{
	conform_need(row);
	if (!row->threads)
		cr_skip_test("both ends are in one thread");
}

void conform_ping_pong(const struct conform_row *row)
{
	need_threads(row);
	run_race(row, false, false);
}

void conform_wait(const struct conform_row *row)
{
	struct conform_pair p;
	struct lend_rng rng;
	_Atomic uint64_t slept = 0;
	int fd;

	need_threads(row);
	conform_open(&p, row);
	lend_rng_seed(&rng, p.seed);
	fd = p.server->ops->fd(p.server);
	if (fd >= 0) {
		cr_assert(arms_soon(p.server), "no datagram: may sleep");
		(void)conform_take(p.server, NULL, NULL);
		cr_assert_eq(conform_send(p.client, p.peer, 1, 0, 64), LEND_SENT);
		/* Either it refuses to sleep, or the datagram wakes it at once. */
		cr_assert(sleep_until_ready(p.server, &rng, &slept));
		cr_assert_gt(conform_take(p.server, NULL, NULL), 0);
	}
	conform_close(&p);
	if (fd < 0)
		cr_skip_test("no interrupt to sleep on: the loop sleeps by time");
	run_race(row, true, false);
	run_race(row, true, true);
}

static void *drain_main(void *arg)
{
	struct echo *e = arg;
	struct lend_rng rng;

	lend_rng_seed(&rng, 1);
	while (!atomic_load(&e->stop)) {
		pause_a_bit(
		    &rng); /* slower than the sender, so the queue is full most of the time */
		/* Rarely sleeps, so that there often is room again when the sender is about to
		 * sleep. */
		if (conform_take(e->io, NULL, NULL) == 0 && lend_rng_below(&rng, 64) == 0 &&
		    !sleep_until_ready(e->io, &rng, &e->slept) && !atomic_load(&e->stop))
			cr_assert_fail("the receiver slept through a datagram");
	}
	return NULL;
}

/* The sender fills the ring and sleeps until there is room. The receiver sleeps until there is a
 * datagram. */
void conform_wait_for_room(const struct conform_row *row)
{
	struct conform_pair p;
	struct echo e = {0};
	struct lend_rng rng;
	pthread_t thread;
	uint64_t sleeps = sleeps_wanted();
	_Atomic uint64_t slept = 0; /* sleeps of the sender */

	need_threads(row);
	conform_open(&p, row);
	lend_rng_seed(&rng, p.seed);
	if (!conform_has(row, LEND_CARRIER_LOSSLESS) || p.client->ops->fd(p.client) < 0) {
		conform_close(&p);
		cr_skip_test("%s", conform_has(row, LEND_CARRIER_LOSSLESS)
				       ? "no interrupt to sleep on: the loop sleeps by time"
				       : "loses datagrams instead of waiting for room");
	}
	e.io = p.server;
	cr_assert_eq(pthread_create(&thread, NULL, drain_main, &e), 0);
	for (uint32_t seq = 0; seq < 100000 || atomic_load(&slept) < sleeps;) {
		if (conform_send(p.client, p.peer, 1, seq, 64) == LEND_SENT) {
			seq++;
			continue;
		}
		for (uint64_t n = lend_rng_below(&rng, 16); n > 0; n--)
			pause_a_bit(&rng);
		cr_assert(sleep_until_ready(p.client, &rng, &slept),
			  "slept although there is room");
		(void)conform_take(p.client, NULL, NULL);
	}
	atomic_store(&e.stop, 1);
	(void)conform_send(p.client, p.peer, 1, 0, 64);
	cr_assert_eq(pthread_join(thread, NULL), 0);
	conform_close(&p);
}
