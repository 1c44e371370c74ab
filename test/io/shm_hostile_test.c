/* Goal: whatever a peer writes into shared memory or sends during the handshake, the server
 * accesses no memory out of bounds, does not block and keeps serving other clients.
 * Method: a client made of the handshake's own functions writes random bytes, under seeds, over all
 * memory that it may write, while an honest client is served. Then each invalid handshake message
 * once.
 * Covers: src/io/shm/handshake.c, src/io/shm/rendezvous.c, src/io/shm/peers.c, src/io/shm/ring.h,
 * src/io/shm/poll.c */
#include <errno.h>
#include <fcntl.h>
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

static void write_fresh_name(char name[64])
{
	static unsigned count;

	(void)snprintf(name, 64, "hostile-%d-%u", (int)getpid(), count++);
}

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

static int unsealed(void)
{
	int fd = memfd_create("attacker", MFD_CLOEXEC);

	cr_assert_eq(ftruncate(fd, LEND_BELL_LEN), 0);
	return fd;
}

static int too_short(void)
{
	void *base;
	int fd;

	cr_assert_eq(lend_rendezvous_memory(LEND_BELL_LEN / 2, &fd, &base), 0);
	return fd;
}

static int proper(void)
{
	void *base;
	int fd;

	cr_assert_eq(lend_rendezvous_memory(LEND_BELL_LEN, &fd, &base), 0);
	return fd;
}

static int no_memory(void)
{
	return dup(2);
}

static int sealed(size_t len, int seals)
{
	int fd = memfd_create("attacker", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_eq(ftruncate(fd, (off_t)len), 0);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

/* Memory without a seal can be truncated by its owner; access beyond its end would raise SIGBUS. */
static int may_shrink(void)
{
	return sealed(LEND_BELL_LEN, F_SEAL_GROW);
}

Test(hostile, unsealed_client__is_refused)
{
	static const struct {
		int seals;
		size_t len;
		int want;
	} row[] = {
	    {0, LEND_BELL_LEN, -EPROTO},
	    {F_SEAL_GROW, LEND_BELL_LEN, -EPROTO},
	    {F_SEAL_GROW | F_SEAL_SEAL, LEND_BELL_LEN, -EPROTO},
	    {F_SEAL_SHRINK, LEND_BELL_LEN, -EPROTO},
	    {F_SEAL_SHRINK | F_SEAL_GROW, LEND_BELL_LEN - 4096, -EPROTO},
	    {F_SEAL_SHRINK | F_SEAL_GROW, LEND_BELL_LEN + 4096, -EPROTO},
	    {F_SEAL_SHRINK | F_SEAL_GROW, LEND_BELL_LEN, 0},
	};

	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		int fd = sealed(row[i].len, row[i].seals);
		const void *read = NULL;
		void *base = NULL;

		cr_assert_eq(lend_rendezvous_map(fd, LEND_BELL_LEN, &base), row[i].want, "row %zu",
			     i);
		cr_assert_eq(lend_rendezvous_map_to_read(fd, LEND_BELL_LEN, &read), row[i].want);
		if (row[i].want == 0) {
			(void)munmap(base, LEND_BELL_LEN);
			(void)munmap((void *)(uintptr_t)read, LEND_BELL_LEN);
		}
		(void)close(fd);
	}
}

/* Each client makes one mistake. The server refuses it or closes the connection, and keeps
 * serving. */
Test(hostile, invalid_handshakes__are_refused, .timeout = 60)
{
	static int (*const bell[])(void) = {unsealed, too_short, no_memory, may_shrink};
	char at[104];
	struct lend_io *server = conform_listen(&shm, at), *client = conform_client(at);
	struct served s = {.honest = UINT32_MAX};

	for (unsigned kind = 0; kind < 10; kind++) {
		struct lend_rendezvous_msg msg;
		int sock, fds[LEND_RENDEZVOUS_FDS] = {-1, -1}, err = -EAGAIN;
		uint64_t end = conform_ms() + 5000;

		cr_assert_eq(lend_rendezvous_connect(at + 4, &sock), 0);
		lend_rendezvous_fill(&msg, 0, 0, LEND_SHM_LINK_LEN);
		fds[0] = kind < 3 || kind == 9 ? bell[kind % 6]() : proper();
		fds[1] = no_memory();
		msg.version += kind == 3;
		msg.magic[0] = kind == 4 ? 'X' : 'L';
		msg.bit = kind == 5 ? LEND_SHM_PEERS : 0;
		msg.pair += kind == 6;
		if (kind == 7)
			cr_assert_eq(send(sock, "hello", 5, MSG_NOSIGNAL), 5);
		else
			cr_assert_eq(lend_rendezvous_send(sock, &msg, fds, kind == 8 ? 2 : 1), 0);
		(void)close(fds[0]);
		(void)close(fds[1]);
		while (err == -EAGAIN && conform_ms() < end) {
			take_all(server, &s);
			err = lend_rendezvous_recv(sock, &msg, fds, 0);
		}
		cr_assert_eq(err, -EPROTO, "kind %u: refused with a reason, not %d", kind, err);
		cr_assert_eq(msg.version, LEND_RENDEZVOUS_VERSION);
		cr_assert_eq(msg.status, EPROTO);
		(void)close(sock);
	}
	cr_assert_eq(server->stats.peers_refused, 10);
	(void)conform_resolve(client, at, server);
	client->ops->close(client);
	server->ops->close(server);
}

static unsigned count_descriptors(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

/* More descriptors than the message may have: the receiver closes all of them. */
Test(hostile, too_many_descriptors__stay_not_open)
{
	_Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(int) * 6)] = {0};
	struct lend_rendezvous_msg msg;
	struct iovec iov = {&msg, sizeof(msg)};
	struct msghdr m = {.msg_iov = &iov,
			   .msg_iovlen = 1,
			   .msg_control = control,
			   .msg_controllen = sizeof(control)};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	int pair[2], fds[LEND_RENDEZVOUS_FDS], six[6] = {2, 2, 2, 2, 2, 2};
	unsigned before;

	cr_assert_eq(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	lend_rendezvous_fill(&msg, 0, 0, LEND_SHM_LINK_LEN);
	*c = (struct cmsghdr){
	    .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof(six))};
	memcpy(CMSG_DATA(c), six, sizeof(six));
	before = count_descriptors();
	cr_assert_eq(sendmsg(pair[0], &m, 0), (ssize_t)sizeof(msg));
	cr_expect_eq(lend_rendezvous_recv(pair[1], &msg, fds, 1), -EPROTO);
	cr_expect_eq(count_descriptors(), before);
	(void)close(pair[0]);
	(void)close(pair[1]);
}

/* More clients that send nothing than the server waits for at once; then one that sends a HELLO. */
Test(hostile, silent_clients__block_no_other, .timeout = 60)
{
	char at[104];
	struct lend_io *server = conform_listen(&shm, at), *client = conform_client(at);
	struct served s = {.honest = UINT32_MAX};
	int sock[100], ended = 0;
	uint64_t began;
	char byte;

	for (int i = 0; i < 100; i++) {
		while (lend_rendezvous_connect(at + 4, &sock[i]) == -EAGAIN)
			take_all(server, &s);
	}
	began = conform_ms();
	(void)conform_resolve(client, at, server);
	cr_assert_lt(conform_ms() - began, 900, "before any of them expired");
	/* The oldest are dropped first. */
	while (ended < 100 - LEND_SHM_HALF_OPEN_MAX && conform_ms() - began < 900) {
		take_all(server, &s);
		ended += recv(sock[ended], &byte, 1, MSG_DONTWAIT) == 0;
	}
	cr_assert_eq(ended, 100 - LEND_SHM_HALF_OPEN_MAX, "only so many are kept");
	for (int i = 0; i < 100; i++)
		(void)close(sock[i]);
	client->ops->close(client);
	server->ops->close(server);
}

static int resolve_until(struct lend_io *client, const char *at)
{
	uint64_t end = conform_ms() + 8000;
	uint32_t peer;
	int err;

	while ((err = client->ops->resolve(client, at, &peer)) == -EINPROGRESS &&
	       conform_ms() < end)
		;
	return err;
}

Test(hostile, invalid_servers__are_refused, .timeout = 60)
{
	struct lend_unix_listener listener;
	struct lend_rendezvous_msg msg;
	struct lend_io *client;
	char name[64], at[104];
	uint32_t peer;
	int sock;

	write_fresh_name(name);
	(void)snprintf(at, sizeof(at), "shm:%s", name);
	cr_assert_eq(lend_rendezvous_open(&listener, name), 0);
	client = conform_client(at);

	cr_assert_eq(client->ops->resolve(client, at, &peer), -EINPROGRESS,
		     "accepts and sends nothing");
	sock = lend_rendezvous_accept(&listener);
	lend_rendezvous_fill(&msg, EPROTO, 0, 0);
	msg.version = 77;
	cr_assert_eq(lend_rendezvous_send(sock, &msg, NULL, 0), 0);
	cr_assert_eq(resolve_until(client, at), -EPROTO);
	cr_assert_not_null(strstr(lend_why_text(), "version 77"), "%s", lend_why_text());
	(void)close(sock);

	cr_assert_eq(client->ops->resolve(client, at, &peer), -EINPROGRESS);
	sock = lend_rendezvous_accept(&listener);
	(void)close(sock);
	cr_assert_eq(resolve_until(client, at), -ECONNREFUSED, "closes the connection");

	cr_assert_eq(client->ops->resolve(client, at, &peer), -EINPROGRESS);
	sock = lend_rendezvous_accept(&listener);
	lend_rendezvous_fill(&msg, 0, 0, LEND_SHM_LINK_LEN);
	int fds[2] = {unsealed(), unsealed()};

	cr_assert_eq(lend_rendezvous_send(sock, &msg, fds, 2), 0);
	cr_assert_eq(resolve_until(client, at), -EPROTO, "memory without a seal");
	(void)close(sock);
	(void)close(fds[0]);
	(void)close(fds[1]);

	cr_assert_eq(client->ops->resolve(client, at, &peer), -EINPROGRESS);
	sock = lend_rendezvous_accept(&listener);
	lend_rendezvous_fill(&msg, 0, LEND_SHM_PEERS, LEND_SHM_LINK_LEN);
	fds[0] = sealed(LEND_SHM_LINK_LEN, F_SEAL_SHRINK | F_SEAL_GROW);
	fds[1] = proper();
	cr_assert_eq(lend_rendezvous_send(sock, &msg, fds, 2), 0);
	cr_assert_eq(resolve_until(client, at), -EPROTO, "a bit that its bell does not have");
	(void)close(sock);
	(void)close(fds[0]);
	(void)close(fds[1]);

	cr_assert_eq(client->ops->resolve(client, at, &peer), -EINPROGRESS);
	cr_assert_eq(resolve_until(client, at), -ETIMEDOUT, "never answers");
	lend_unix_listener_close(&listener);
	cr_assert_eq(client->ops->resolve(client, at, &peer), -ENOENT, "no listener");
	cr_assert_gt(strlen(lend_why_text()), 10);
	client->ops->close(client);
}
