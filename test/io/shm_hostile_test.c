/* Goal: whatever a peer writes into shared memory, the server accesses no memory out of bounds,
 * does not block and keeps serving other clients.
 * Method: a client made of the handshake's own functions writes random bytes, under seeds, over all
 * memory that it may write, while an honest client is served.
 * Covers: src/io/shm/peers.c, src/io/shm/ring.h, src/io/shm/poll.c */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/conform.h"
#include "io/shm/rendezvous.h"
#include "io/shm/peers.h"
#include "sys/clock.h"
#include "sys/last_error.h"
#include "util/rng.h"

static const struct conform_row shm = {.name = "shm", .address = conform_shm_address};

struct attacker {
	int sock;
	struct lend_shm_pair *pair;
	struct lend_bell *bell; /* doorbell of the server */
	struct lend_bell *own;
	int own_fd;
};

/* Sends a valid HELLO, which maps the memory to misuse. */
static void join(struct attacker *v, struct lend_io *server, const char *at)
{
	struct lend_rendezvous_msg msg;
	void *own, *pair, *bell;
	int fds[LEND_RENDEZVOUS_FDS], err;

	cr_assert_eq(lend_rendezvous_memory(LEND_BELL_LEN, &v->own_fd, &own), 0);
	cr_assert_eq(lend_rendezvous_connect(at + 4, &v->sock), 0, "%s", lend_why_text());
	lend_rendezvous_fill(&msg, 0, 3, LEND_SHM_LINK_LEN);
	cr_assert_eq(lend_rendezvous_send(v->sock, &msg, &v->own_fd, 1), 0);
	while ((err = lend_rendezvous_recv(v->sock, &msg, fds, 2)) == -EAGAIN)
		(void)conform_take(server, NULL, NULL);
	cr_assert_eq(err, 0);
	cr_assert_eq(lend_rendezvous_map(fds[0], LEND_SHM_LINK_LEN, &pair), 0);
	cr_assert_eq(lend_rendezvous_map(fds[1], LEND_BELL_LEN, &bell), 0);
	(void)close(fds[0]);
	(void)close(fds[1]);
	v->own = own;
	v->pair = pair;
	v->bell = bell;
}

static void leave(struct attacker *v)
{
	(void)munmap(v->pair, LEND_SHM_LINK_LEN);
	(void)munmap(v->bell, LEND_BELL_LEN);
	(void)munmap(v->own, LEND_BELL_LEN);
	(void)close(v->own_fd);
	(void)close(v->sock);
}

/* Writes random bytes anywhere, and almost valid slot marks: plausible numbers with any length. */
static void scribble(struct attacker *v, struct lend_rng *rng)
{
	for (int i = 0; i < 64; i++) {
		size_t word = lend_rng_below(rng, LEND_SHM_LINK_LEN / 8);
		uint64_t number = lend_rng_below(rng, 600), slot = (number - 1) % LEND_RING_SLOTS;
		uint32_t len = (uint32_t)lend_rng_next(rng) >> lend_rng_below(rng, 32);

		((volatile uint64_t *)(void *)v->pair)[word] = lend_rng_next(rng);
		atomic_store(&v->pair->to_server.slot[slot].mark, number << 32 | len);
		atomic_store(&v->pair->to_client.taken,
			     (uint32_t)lend_rng_next(rng) >> lend_rng_below(rng, 32));
		atomic_store(&v->pair->to_client.polled, (uint32_t)lend_rng_below(rng, 2));
		atomic_store(&v->pair->to_server.wanted, (uint32_t)lend_rng_below(rng, 2));
		atomic_store(&v->bell->word[lend_rng_below(rng, LEND_SHM_WORDS)],
			     lend_rng_next(rng));
		atomic_store(&v->bell->asleep, (uint32_t)lend_rng_below(rng, 2));
	}
	if (lend_rng_below(rng, 4) == 0)
		(void)send(v->sock, "garbage", lend_rng_below(rng, 8), MSG_DONTWAIT | MSG_NOSIGNAL);
}

struct served {
	uint32_t next;   /* next seq of the honest client */
	uint32_t honest; /* index of the honest client */
	uint32_t sum;
};

/* Reads each byte that was received. The honest client's datagrams must be complete and in
 * order. */
static void take_all(struct lend_io *server, struct served *s)
{
	struct lend_in in[64];
	uint32_t n = server->ops->rx(server, in, 64), id, seq;

	cr_assert_leq(n, 64);
	for (uint32_t i = 0; i < n; i++) {
		cr_assert_leq(in[i].len, LEND_RING_MTU);
		for (uint32_t k = 0; k < in[i].len; k++)
			s->sum += ((const volatile uint8_t *)in[i].data)[k];
		if (in[i].peer == s->honest) {
			cr_assert(conform_check(&in[i], &id, &seq));
			cr_assert_eq(seq, s->next);
			s->next++;
		}
	}
	server->ops->rx_done(server);
}

static void expect_served(struct lend_io *server, struct lend_io *client, uint32_t peer,
			  struct served *s)
{
	uint32_t want = s->next + 1;
	uint64_t end = conform_ms() + 10000;

	cr_assert_eq(conform_send(client, peer, 1, s->next, 500), LEND_SENT);
	while (s->next < want && conform_ms() < end)
		take_all(server, s);
	cr_assert_eq(s->next, want, "the honest client is served");
}

static void find_honest(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq)
{
	(void)id;
	(void)seq;
	((struct served *)arg)->honest = in->peer;
}

Test(hostile, random_writes__harm_no_other, .timeout = 60)
{
	uint64_t seed = lend_clock_cycles();
	struct lend_rng rng;

	lend_rng_seed(&rng, seed);
	fprintf(stderr, "seed %lu\n", (unsigned long)seed);
	for (int round = 0; round < 40; round++) {
		char at[104];
		struct lend_io *server = conform_listen(&shm, at), *client = conform_client(at);
		uint32_t peer = conform_resolve(client, at, server);
		struct served s = {.honest = UINT32_MAX};
		struct attacker v;

		cr_assert_eq(conform_send(client, peer, 1, 0, 64), LEND_SENT);
		while (conform_take(server, find_honest, &s) == 0)
			;
		s.next = 1;
		join(&v, server, at);
		for (int turn = 0; turn < 60; turn++) {
			scribble(&v, &rng);
			take_all(server, &s);
			/* Index 1 is the attacker. tx must not trust its ring. */
			for (uint32_t i = 0; i < 20; i++)
				(void)conform_send(server, 1, 2, i,
						   16 + (uint32_t)lend_rng_below(&rng, 8432));
			(void)server->ops->arm(server);
			if (turn % 20 == 0)
				expect_served(server, client, peer, &s);
		}
		leave(&v);
		for (int turn = 0; turn < 200; turn++)
			take_all(server, &s);
		expect_served(server, client, peer, &s);
		client->ops->close(client);
		server->ops->close(server);
	}
}
