/* Goal: batches of datagrams that the kernel joins (GSO, GRO) arrive as the datagrams that were
 * sent, each with its sender's index, in the order of its sender. A route that takes no batches
 * gets single datagrams. A client keeps its port when a second peer ends its connection to the
 * first.
 * Method: bursts of random lengths, classes and peers, under seeds, compared with what was sent; a
 * network namespace with a loopback MTU below the length of the datagrams.
 * Covers: src/io/udp/tx.c, src/io/udp/rx.c, src/io/udp/route.c */
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/conform.h"
#include "util/traffic_class.h"
#include "util/rng.h"

enum { PEERS = 3, BURST = 64, ROUNDS = 200 };

static struct lend_io *listen_with(uint32_t mtu, char address[104])
{
	struct lend_io_config config = {.listen = "udp:127.0.0.1:0", .mtu = mtu};
	struct lend_io *io;

	cr_assert_eq(lend_io_open(&config, &io), 0);
	cr_assert_eq(io->ops->name(io, address, 104), 0);
	return io;
}

/* Fills the bytes of datagram number seq to a peer. Each length has its own pattern. */
static void fill_pattern(uint8_t *data, uint32_t peer, uint32_t seq, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		data[i] = (uint8_t)(i * 7 + seq * 13 + peer * 101 + len);
}

static uint64_t seed; /* seed of the running case */

struct sent {
	uint32_t len[BURST];
	uint32_t n;
};

/* Sends a burst with a header and a trailer each. There are few lengths, so that neighbours join.
 * None is urgent, because urgent datagrams overtake. */
static void send_burst(struct lend_io *client, const uint32_t *peer, struct lend_rng *rng,
		       struct sent sent[PEERS])
{
	static uint8_t data[BURST][200];
	static const uint32_t lengths[] = {1, 60, 60, 60, 61, 180, 180};
	struct lend_out out[BURST] = {{.head = NULL}};
	struct lend_bufs none = {.seg = NULL};
	uint32_t n = 1 + (uint32_t)lend_rng_below(rng, BURST), to = 0, len = 60;
	uint8_t class = LEND_CLASS_NORMAL;

	memset(sent, 0, PEERS * sizeof(*sent));
	for (uint32_t i = 0; i < n; i++) {
		if (lend_rng_below(rng, 4) == 0)
			to = (uint32_t)lend_rng_below(rng, PEERS);
		if (lend_rng_below(rng, 4) == 0)
			len = lengths[lend_rng_below(rng, 7)];
		if (lend_rng_below(rng, 8) == 0)
			class = (uint8_t)(3 + lend_rng_below(rng, 5));
		fill_pattern(data[i], to, sent[to].n, len);
		out[i] = (struct lend_out){.head = data[i],
					   .head_len = (uint8_t)((len + 1) / 2),
					   .tail = data[i] + (len + 1) / 2,
					   .tail_len = (uint8_t)(len / 2),
					   .peer = peer[to],
					   .class = class};
		sent[to].len[sent[to].n++] = len;
	}
	client->ops->tx(client, &none, out, n);
	for (uint32_t i = 0; i < n; i++)
		cr_assert_eq(out[i].sent, LEND_SENT);
}

static void expect_pattern(const struct lend_in *in, uint32_t peer, uint32_t seq, uint32_t len)
{
	uint8_t want[200];

	fill_pattern(want, peer, seq, len);
	cr_assert_eq(in->len, len, "seed %llu: %u", (unsigned long long)seed, seq);
	cr_assert_eq(memcmp(in->data, want, len), 0, "seed %llu: datagram %u to %u",
		     (unsigned long long)seed, seq, peer);
}

/* Receives all of them, in order, some per call. Each is checked again before it is released. */
static void take_burst(struct lend_io *server, uint32_t peer, const struct sent *sent,
		       struct lend_rng *rng)
{
	struct lend_in in[BURST];
	uint32_t got = 0;
	uint64_t end = conform_ms() + 5000;

	while (got < sent->n && conform_ms() < end) {
		uint32_t n = server->ops->rx(server, in, 1 + (uint32_t)lend_rng_below(rng, 32));

		for (uint32_t i = 0; i < n; i++)
			expect_pattern(&in[i], peer, got + i, sent->len[got + i]);
		got += n;
		for (uint32_t i = 0; i < n; i++) {
			expect_pattern(&in[i], peer, got - n + i, sent->len[got - n + i]);
			cr_assert_eq(in[i].peer, in[0].peer);
		}
		server->ops->rx_done(server);
	}
	cr_assert_eq(got, sent->n, "seed %llu", (unsigned long long)seed);
	cr_assert_eq(server->ops->rx(server, in, 1), 0);
}

Test(udp_joined, batches__are_split)
{
	struct lend_io *client, *server[PEERS];
	struct sent sent[PEERS];
	uint32_t peer[PEERS];
	char address[PEERS][104];
	struct lend_rng rng;

	seed = conform_seed();
	lend_rng_seed(&rng, seed);
	for (uint32_t i = 0; i < PEERS; i++)
		server[i] = listen_with(1472, address[i]);
	client = conform_client(address[0]);
	for (uint32_t i = 0; i < PEERS; i++)
		peer[i] = conform_resolve(client, address[i], NULL);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		send_burst(client, peer, &rng, sent);
		for (uint32_t i = 0; i < PEERS; i++)
			take_burst(server[i], i, &sent[i], &rng);
	}
	for (uint32_t i = 0; i < PEERS; i++)
		server[i]->ops->close(server[i]);
	client->ops->close(client);
}

Test(udp_joined, unsplit_batch__does_not_sleep)
{
	static const uint32_t len[3] = {64, 64, 64};
	char address[104];
	struct lend_io *server = listen_with(0, address), *client = conform_client(address);
	uint32_t peer = conform_resolve(client, address, server);
	struct lend_in in;

	cr_assert_eq(conform_burst(client, peer, 0, len, 3), 3);
	for (int i = 0; i < 3; i++) {
		while (server->ops->rx(server, &in, 1) == 0)
			;
		server->ops->rx_done(server);
		cr_assert_eq(server->ops->arm(server), i == 2);
	}
	client->ops->close(client);
	server->ops->close(server);
}

static void count_datagram(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq)
{
	uint32_t *next = arg;

	(void)in;
	(void)id;
	cr_assert_eq(seq, *next);
	++*next;
}

/* Expects n datagrams, in order. */
static void expect_all(struct lend_io *io, uint32_t n)
{
	uint32_t next = 0;
	uint64_t end = conform_ms() + 5000;

	while (next < n && conform_ms() < end)
		conform_take(io, count_datagram, &next);
	cr_assert_eq(next, n);
}

static bool narrow_loopback(void)
{
	struct ifreq request = {.ifr_name = "lo"};
	int fd;
	bool done;

	if (unshare(CLONE_NEWNET) != 0)
		return false;
	fd = socket(AF_INET, SOCK_DGRAM, 0);
	request.ifr_mtu = 1500;
	done = ioctl(fd, SIOCSIFMTU, &request) == 0;
	request.ifr_flags = IFF_UP | IFF_RUNNING;
	done = done && ioctl(fd, SIOCSIFFLAGS, &request) == 0;
	close(fd);
	return done;
}

Test(udp_joined, narrow_route__gets_single_datagrams)
{
	static const uint32_t len[8] = {3000, 3000, 3000, 3000, 1000, 1000, 3000, 3000};
	struct lend_io *client, *server;
	char address[104];
	uint32_t peer;

	if (!narrow_loopback())
		cr_skip_test("no network namespace of one's own here: needs root");
	server = listen_with(9000, address);
	client = listen_with(9000, (char[104]){0});
	peer = conform_resolve(client, address, server);
	for (int round = 0; round < 3; round++) {
		cr_assert_eq(conform_burst(client, peer, 0, len, 8), 8);
		expect_all(server, 8);
	}
	client->ops->close(client);
	server->ops->close(server);
}

Test(udp_joined, a_second_peer_leaves_a_client_its_port)
{
	struct lend_io *client, *server[2];
	uint32_t to[2], index = 0;
	char address[2][104], name[2][104];
	struct lend_in in[2];

	for (int i = 0; i < 2; i++)
		server[i] = listen_with(0, address[i]);
	client = conform_client(address[0]);
	for (int i = 0; i < 2; i++) {
		to[i] = conform_resolve(client, address[i], NULL);
		cr_assert_eq(conform_send(client, to[0], 1, 0, 64), LEND_SENT);
		while (server[0]->ops->rx(server[0], in, 2) == 0)
			;
		cr_assert(i == 0 || in[0].peer == index, "the client seems to be another one");
		index = in[0].peer;
		server[0]->ops->pin(server[0], index, true);
		server[0]->ops->rx_done(server[0]);
		cr_assert_eq(conform_send(server[0], index, 1, 0, 64), LEND_SENT);
		expect_all(client, 1);
		cr_assert_eq(client->ops->name(client, name[i], sizeof(name[i])), 0);
	}
	cr_assert_str_eq(strrchr(name[0], ':'), strrchr(name[1], ':'));
	cr_assert_eq(conform_send(client, to[1], 1, 0, 64), LEND_SENT);
	while (server[1]->ops->rx(server[1], in, 2) == 0)
		;
	server[1]->ops->rx_done(server[1]);
	cr_assert_eq(conform_send(server[1], in[0].peer, 1, 0, 64), LEND_SENT);
	expect_all(client, 1);
	for (int i = 0; i < 2; i++)
		server[i]->ops->close(server[i]);
	client->ops->close(client);
}

/* Returns the TOS of the next datagram at a plain socket. */
static int next_tos(int fd)
{
	char data[64], control[64];
	struct iovec iov = {data, sizeof(data)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};

	cr_assert_eq(recvmsg(fd, &msg, 0), 8);
	return CMSG_FIRSTHDR(&msg) ? *CMSG_DATA(CMSG_FIRSTHDR(&msg)) : -1;
}

/* Opens a plain socket that reports TOS. address: in the carrier's form. */
static int plain_socket(bool six, char address[104])
{
	struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr *local = six ? (void *)&v6 : (void *)&v4;
	socklen_t len = six ? sizeof(v6) : sizeof(v4);
	int fd = socket(local->sa_family, SOCK_DGRAM, 0), on = 1;

	cr_assert_eq(bind(fd, local, len), 0);
	cr_assert_eq(getsockname(fd, local, &len), 0);
	cr_assert_eq(setsockopt(fd, six ? IPPROTO_IPV6 : IPPROTO_IP,
				six ? IPV6_RECVTCLASS : IP_RECVTOS, &on, sizeof(on)),
		     0);
	(void)snprintf(address, 104, "udp:%s:%u", six ? "[::1]" : "127.0.0.1",
		       ntohs(six ? v6.sin6_port : v4.sin_port));
	return fd;
}

static void keeps_marks(bool six)
{
	static const uint8_t class[8] = {0, 0, 3, 3, 0, 7, 7, 1};
	char address[104];
	int fd = plain_socket(six, address);
	struct lend_out out[8];
	struct lend_bufs none = {.seg = NULL};
	struct lend_io *io = conform_client(address);
	uint32_t peer = conform_resolve(io, address, NULL);

	for (int i = 0; i < 8; i++)
		out[i] = (struct lend_out){
		    .head = "12345678", .head_len = 8, .peer = peer, .class = class[i]};
	io->ops->tx(io, &none, out, 8);
	for (int i = 0; i < 8; i++)
		cr_expect_eq(next_tos(fd), lend_class_tos(class[i]) | LEND_ECN_CAPABLE, "%d, %s", i,
			     address);
	io->ops->close(io);
	close(fd);
}

/* The two ECN bits are kept as well. */
Test(udp_joined, each_keeps_the_mark_of_its_class)
{
	keeps_marks(false);
	keeps_marks(true);
}
