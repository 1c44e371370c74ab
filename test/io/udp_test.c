/* Goal: UDP keeps the promises of a carrier, on IPv4 and IPv6.
 * Method: the conformance suite, then cases for UDP alone.
 * Covers: src/io/udp/carrier.c, src/io/udp/rx.c, src/io/udp/tx.c, src/io/udp/epoll.c,
 * src/io/udp/sock.c */
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/conform.h"
#include "sys/last_error.h"
#include "util/bits.h"

static void make_address6(char *text, size_t cap)
{
	(void)snprintf(text, cap, "udp:[::1]:0");
}

static const char *no_ipv6(void)
{
	struct lend_io_config config = {.listen = "udp:[::1]:0"};
	struct lend_io *io;

	if (lend_io_open(&config, &io) != 0)
		return "no IPv6 loopback";
	io->ops->close(io);
	return NULL;
}

static const struct conform_row udp4 = {.name = "udp",
					.address = conform_udp_address,
					.rebinds = true,
					.threads = true,
					.counts = true,
					.clients = 40,
					.both = true};
static const struct conform_row udp6 = {.name = "udp over IPv6",
					.absent = no_ipv6,
					.address = make_address6,
					.rebinds = true,
					.threads = true,
					.counts = true,
					.clients = 40,
					.both = true};

CONFORM_SUITE(udp, &udp4)
CONFORM_SUITE(udp6, &udp6)

Test(udp_own, port_in_use__is_reported)
{
	char address[104];
	struct lend_io *first = conform_listen(&udp4, address), *second;
	struct lend_io_config config = {.listen = address};

	cr_assert_eq(lend_io_open(&config, &second), -EADDRINUSE);
	cr_assert_not_null(strstr(lend_why_text(), "choose"));
	first->ops->close(first);
}

/* A host that is seen over both families is one peer. Datagrams above the MTU are counted and
 * dropped. */
Test(udp_own, too_long__is_dropped)
{
	char address[104];
	struct lend_io *client, *server;
	struct lend_io_config config = {.listen = "udp:127.0.0.1:0", .mtu = 1472};
	struct lend_in in[4];
	uint32_t peer, n = 0;
	uint64_t end = conform_ms() + 5000;

	cr_assert_eq(lend_io_open(&config, &server), 0);
	cr_assert_eq(server->ops->name(server, address, sizeof(address)), 0);
	client = conform_client(address);
	peer = conform_resolve(client, address, server);
	cr_assert_eq(conform_send(client, peer, 1, 1, 1473), LEND_SENT);
	cr_assert_eq(conform_send(client, peer, 1, 2, 1472), LEND_SENT);
	while (n == 0 && conform_ms() < end)
		n = server->ops->rx(server, in, 4);
	cr_assert_eq(n, 1);
	cr_assert_eq(in[0].len, 1472);
	cr_assert_eq(in[0].addr_len, 24);
	server->ops->rx_done(server);
	cr_assert_eq(server->stats.rx_truncated, 1);
	client->ops->close(client);
	server->ops->close(server);
}

/* Sends short datagrams, then receives them. Returns how many arrived. */
static uint32_t send_short(struct lend_io *client, uint32_t peer, uint32_t n,
			   struct lend_io *server)
{
	uint32_t came = 0;

	for (uint32_t i = 0; i < n; i++)
		(void)conform_send(client, peer, 1, i, 64);
	for (uint32_t quiet = 0; quiet < 3;) {
		uint32_t got = conform_take(server, NULL, NULL);

		came += got;
		quiet = got ? 0 : quiet + 1;
	}
	return came;
}

/* The assumed room falls by a quarter at a drop and rises by 1/64 at each poll without one, within
 * bounds. */
Test(udp_own, room__follows_the_kernels_drops)
{
	char address[104];
	struct lend_io *server = conform_listen(&udp4, address), *client = conform_client(address);
	uint32_t peer = conform_resolve(client, address, server);
	uint32_t most = server->path.room, some = most - most / 4, less;
	uint64_t end = conform_ms() + 10000;

	cr_assert_geq(most, 64);
	cr_assert_eq(send_short(client, peer, some, server), some, "fits");
	cr_assert_eq(server->path.room, most);
	cr_assert_lt(send_short(client, peer, 4 * most, server), 4 * most);
	less = server->path.room;
	cr_assert_lt(less, most);
	cr_assert_gt(server->stats.rx_missed, 0);
	while (server->path.room < most && conform_ms() < end) {
		uint32_t before = server->path.room;

		cr_assert_eq(send_short(client, peer, some, server), some);
		cr_assert_geq(server->path.room, before);
	}
	cr_assert_eq(server->path.room, most);
	client->ops->close(client);
	server->ops->close(server);
}

/* Sends more than the server takes, so that the kernel drops between any two queries. */
Test(udp_own, room__under_steady_drops__falls_to_64)
{
	char address[104];
	struct lend_io *server = conform_listen(&udp4, address), *client = conform_client(address);
	uint32_t peer = conform_resolve(client, address, server), least = server->path.room;
	uint64_t end = conform_ms() + 10000;

	for (uint32_t i = 0; i < 4 * server->path.room; i++)
		(void)conform_send(client, peer, 1, i, 64);
	for (uint64_t after = 0; after < 2000 && conform_ms() < end; after += least == 64) {
		for (uint32_t sent = conform_take(server, NULL, NULL) + 2; sent > 0; sent--)
			(void)conform_send(client, peer, 1, sent, 64);
		least = lend_min_u32(least, server->path.room);
	}
	cr_assert_eq(least, 64);
	client->ops->close(client);
	server->ops->close(server);
}

/* More unknown senders than the table of unpinned peers holds: the pinned peer keeps its index. */
Test(udp_own, unknown_senders__evict_unpinned_only)
{
	char address[104];
	struct lend_io *server = conform_listen(&udp4, address), *friend = conform_client(address);
	uint32_t to = conform_resolve(friend, address, server), kept;
	struct lend_in in[4];

	cr_assert_eq(conform_send(friend, to, 1, 1, 64), LEND_SENT);
	while (server->ops->rx(server, in, 4) == 0)
		;
	kept = in[0].peer;
	server->ops->pin(server, kept, true);
	server->ops->rx_done(server);
	for (uint32_t i = 0; i < 700; i++) {
		struct lend_io *stranger = conform_client(address);

		to = conform_resolve(stranger, address, server);
		cr_assert_eq(conform_send(stranger, to, 1, i, 64), LEND_SENT);
		while (server->ops->rx(server, in, 4) == 0)
			;
		cr_assert_neq(in[0].peer, kept);
		cr_assert_lt(in[0].peer, 300, "unknown senders take turns");
		server->ops->rx_done(server);
		stranger->ops->close(stranger);
	}
	cr_assert_eq(conform_send(server, kept, 1, 2, 64), LEND_SENT);
	while (conform_take(friend, NULL, NULL) == 0)
		;
	friend->ops->close(friend);
	server->ops->close(server);
}

/* Returns the TOS with which a datagram of that class arrives at a socket of that family. */
static int tos_of(struct lend_io *io, int fd, uint32_t peer, uint8_t class)
{
	static const uint8_t head[4] = "mark";
	struct lend_out out = {
	    .head = head, .head_len = sizeof(head), .peer = peer, .class = class};
	struct lend_bufs none = {.seg = NULL};
	char data[16], control[64];
	struct iovec iov = {data, sizeof(data)};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control,
			     .msg_controllen = sizeof(control)};
	struct cmsghdr *c;
	int tos = 0;

	io->ops->tx(io, &none, &out, 1);
	cr_assert_eq(out.sent, LEND_SENT);
	cr_assert_eq(recvmsg(fd, &msg, 0), (ssize_t)sizeof(head));
	c = CMSG_FIRSTHDR(&msg);
	cr_assert_not_null(c);
	memcpy(&tos, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0) < sizeof(tos) ? 1 : sizeof(tos));
	return tos;
}

/* Sends from a carrier at that address to a plain socket. */
static void send_marked(const char *from, const char *to, int family)
{
	static const int want[] = {0xa0, 0x80, 0x40, 0, 0x20, 0x20, 0x20, 0x20}, on = 1;
	struct lend_io_config config = {.listen = from};
	struct sockaddr_storage local = {.ss_family = (sa_family_t)family};
	socklen_t len = sizeof(local);
	int fd = socket(family, SOCK_DGRAM, 0);
	char address[64];
	struct lend_io *io;
	uint32_t peer;

	cr_assert_eq(
	    bind(fd, (void *)&local,
		 family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)),
	    0);
	cr_assert_eq(family == AF_INET
			 ? setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on))
			 : setsockopt(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, &on, sizeof(on)),
		     0);
	cr_assert_eq(getsockname(fd, (void *)&local, &len), 0);
	(void)snprintf(address, sizeof(address), "udp:%s:%u", to,
		       ntohs(((struct sockaddr_in *)(void *)&local)->sin_port));
	cr_assert_eq(lend_io_open(&config, &io), 0, "%s", lend_why_text());
	cr_assert_eq(io->ops->resolve(io, address, &peer), 0, "%s", lend_why_text());
	for (uint32_t i = 0; i < 24; i++) /* in changing order: no mark remains for the next */
		cr_expect_eq(tos_of(io, fd, peer, (uint8_t)(i * 5 % 8)), want[i * 5 % 8] | 2,
			     "%s %u", from, i * 5 % 8);
	io->ops->close(io);
	close(fd);
}

Test(udp_own, classes_are_marked)
{
	send_marked("udp:127.0.0.1:0", "127.0.0.1", AF_INET);
	if (no_ipv6())
		return;
	send_marked("udp:[::1]:0", "[::1]", AF_INET6);
	send_marked("udp:[::]:0", "127.0.0.1", AF_INET);
}

/* A datagram that a plain socket sends with this TOS is reported as marked, or not. */
static void expect_ecn(const char *listen, int family, int level, int option)
{
	struct lend_io_config config = {.listen = listen};
	int fd = socket(family, SOCK_DGRAM, 0);
	struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	struct sockaddr_in to4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	char address[64];
	struct lend_io *io;
	struct lend_in in;

	cr_assert_eq(lend_io_open(&config, &io), 0, "%s", lend_why_text());
	cr_assert_eq(io->ops->name(io, address, sizeof(address)), 0);
	to.sin6_port = to4.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
	for (int tos = 0; tos < 8; tos++) {
		int rc = setsockopt(fd, level, option, &tos, sizeof(tos));
		uint32_t n;

		cr_assert_eq(rc, 0);
		cr_assert_eq(sendto(fd, "mark", 4, 0,
				    family == AF_INET ? (const void *)&to4 : (const void *)&to,
				    family == AF_INET ? sizeof(to4) : sizeof(to)),
			     4);
		while ((n = io->ops->rx(io, &in, 1)) == 0)
			;
		cr_expect_eq(in.ecn, (tos & 3) == 3, "%s, %d: %u", listen, tos, in.ecn);
		io->ops->rx_done(io);
	}
	io->ops->close(io);
	close(fd);
}

Test(udp_own, ecn_marks__are_reported)
{
	expect_ecn("udp:127.0.0.1:0", AF_INET, IPPROTO_IP, IP_TOS);
	if (no_ipv6())
		return;
	expect_ecn("udp:[::1]:0", AF_INET6, IPPROTO_IPV6, IPV6_TCLASS);
	expect_ecn("udp:[::]:0", AF_INET, IPPROTO_IP, IP_TOS);
}
