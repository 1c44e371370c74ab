/* Goal: the UDP payload of a datagram on an Ethernet is the same, whichever carrier sends it, with
 * no bytes added before or after.
 * Method: the same random datagrams, by kernel UDP from one end of a veth pair and by DPDK from the
 * other. A packet socket captures both.
 * Covers: src/io/eth/frame.c, src/io/dpdk/tx.c, src/io/udp/tx.c */
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/conform.h"
#include "io/veth.h"
#include "sys/last_error.h"
#include "util/rng.h"

enum { FRAME_MAX = 2048, ETHER = 14, IPV4 = 20, UDP = 8, ROUNDS = 300 };

/* Opens a packet socket for all frames at lend1. */
static int open_tap(void)
{
	struct sockaddr_ll at = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));

	at.sll_ifindex = (int)if_nametoindex("lend1");
	cr_assert(fd >= 0 && bind(fd, (void *)&at, sizeof(at)) == 0);
	return fd;
}

/* Copies the payload of the next UDP datagram from that address to port. The length fields of its
 * headers must be right, and only padding may follow it. */
static uint32_t tap_payload(int tap, const char *from, uint16_t port, uint8_t *payload)
{
	uint8_t frame[FRAME_MAX], ip[4];
	uint64_t end = conform_ms() + 5000;

	(void)inet_pton(AF_INET, from, ip);
	while (conform_ms() < end) {
		ssize_t n = recv(tap, frame, sizeof(frame), MSG_DONTWAIT);
		const uint8_t *head = frame + ETHER, *udp = head + IPV4;

		if (n < ETHER + IPV4 + UDP || frame[12] != 8 || frame[13] != 0 || head[9] != 17 ||
		    memcmp(head + 12, ip, 4) != 0 || (udp[2] << 8 | udp[3]) != port)
			continue;
		uint32_t all = (uint32_t)(head[2] << 8 | head[3]);
		uint32_t len = (uint32_t)(udp[4] << 8 | udp[5]);

		cr_assert_eq(head[0], 0x45);
		cr_assert_eq(all, len + IPV4);
		cr_assert((uint32_t)n == ETHER + all || (n == 60 && ETHER + all < 60));
		memcpy(payload, udp + UDP, len - UDP);
		return len - UDP;
	}
	cr_assert_fail("nothing from %s", from);
	return 0;
}

/* A carrier at one end, which sends to port at the other. */
struct end {
	struct lend_io *io;
	const char *ip;
	char address[104];
	uint16_t port;
	uint32_t peer;
};

static void open_end(struct end *end, const char *scheme, const char *ip)
{
	char at[104];
	struct lend_io_config config = {.listen = at};

	end->ip = ip;
	(void)snprintf(at, sizeof(at), "%s%s:0", scheme, ip);
	cr_assert_eq(lend_io_open(&config, &end->io), 0, "%s: %s", at, lend_why_text());
	cr_assert_eq(end->io->ops->name(end->io, end->address, sizeof(end->address)), 0);
	cr_assert_eq(sscanf(strrchr(end->address, ':'), ":%hu", &end->port), 1);
}

static void point_end(struct end *end, const char *scheme, const struct end *to)
{
	char at[104];

	(void)snprintf(at, sizeof(at), "%s%s:%u", scheme, to->ip, to->port);
	end->peer = conform_resolve(end->io, at, to->io);
}

static uint64_t seed;
static uint8_t bytes[1600];
static struct lend_seg seg[2] = {{0}, {.data = bytes, .len = sizeof(bytes), .cap = sizeof(bytes)}};

/* Draws a header, up to four pieces and a trailer, each of random length. want: the payload. */
static uint32_t draw_datagram(struct lend_rng *rng, struct lend_out *out, uint8_t *want)
{
	uint8_t *at = want;

	for (uint32_t i = 0; i < sizeof(bytes); i++)
		bytes[i] = (uint8_t)lend_rng_below(rng, 256);
	*out = (struct lend_out){.head = bytes, .tail = bytes + 100};
	out->head_len = (uint8_t)lend_rng_below(rng, 64);
	out->tail_len = (uint8_t)lend_rng_below(rng, 5);
	out->n = (uint8_t)lend_rng_below(rng, 5);
	at = mempcpy(at, out->head, out->head_len);
	for (uint32_t i = 0; i < out->n; i++) {
		uint32_t len = (uint32_t)lend_rng_below(rng, lend_rng_below(rng, 340) + 1);
		uint32_t from = (uint32_t)lend_rng_below(rng, sizeof(bytes) - len);

		out->piece[i] = (struct lend_piece){1, from, len};
		at = mempcpy(at, bytes + from, len);
	}
	at = mempcpy(at, out->tail, out->tail_len);
	return (uint32_t)(at - want);
}

static void send_and_tap(struct end *from, const struct end *to, int tap, struct lend_out out,
			 const uint8_t *want, uint32_t len)
{
	uint8_t payload[FRAME_MAX];
	struct lend_bufs bufs = {seg, 2};
	struct lend_in in[32];

	out.peer = from->peer;
	from->io->ops->tx(from->io, &bufs, &out, 1);
	cr_assert_eq(out.sent, LEND_SENT, "SEED=%lu", (unsigned long)seed);
	cr_assert_eq(tap_payload(tap, from->ip, to->port, payload), len, "%s; SEED=%lu",
		     from->address, (unsigned long)seed);
	cr_assert(memcmp(payload, want, len) == 0, "%s; SEED=%lu", from->address,
		  (unsigned long)seed);
	(void)to->io->ops->rx(to->io, in, 32);
	to->io->ops->rx_done(to->io);
}

static void make_ends(struct end *kernel, struct end *device)
{
	const char *absent = veth_make("net_af_packet", false);

	if (absent != NULL)
		cr_skip_test("not on this machine: %s", absent);
	cr_assert(veth_run("ip addr add 10.9.0.2/24 dev lend1 && "
			   "ip neigh add 10.9.0.1 dev lend1 lladdr 02:00:00:00:00:01"));
	open_end(kernel, "udp:", "10.9.0.2");
	open_end(device, "dpdk:net_af_packet0@", "10.9.0.1");
	point_end(kernel, "udp:", device);
	point_end(device, "dpdk:net_af_packet0@", kernel);
}

Test(payload, the_same_by_the_kernel_and_by_dpdk, .timeout = 60)
{
	struct end kernel, device;
	struct lend_rng rng;
	int tap;

	seed = conform_seed();
	make_ends(&kernel, &device);
	lend_rng_seed(&rng, seed);
	tap = open_tap();
	for (int round = 0; round < ROUNDS; round++) {
		uint8_t want[FRAME_MAX];
		struct lend_out out;
		uint32_t len = draw_datagram(&rng, &out, want);

		send_and_tap(&kernel, &device, tap, out, want, len);
		send_and_tap(&device, &kernel, tap, out, want, len);
	}
	kernel.io->ops->close(kernel.io);
	device.io->ops->close(device.io);
	(void)close(tap);
}
