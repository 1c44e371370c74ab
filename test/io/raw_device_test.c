/* Goal: what an mlx5 device or an address lacks is reported in one line with the fix in it. Peers
 * are resolved, and frames equal those of udp and dpdk.
 * Method: both ends in one thread, over devices made of memory (raw/fake.c); the real module where
 * there is no device.
 * Covers: src/io/raw/open.c, src/io/raw/peer.c, src/io/eth/arp_nd.c, src/io/eth/neighbours.c */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/raw_pair.h"
#include "sys/last_error.h"

TestSuite(raw_device, .init = raw_set_up, .timeout = 60);

static void expect_refused(const char *listen, int rc, const char *words)
{
	struct lend_io *io = NULL;
	int got = lend_io_open(&(struct lend_io_config){.listen = listen}, &io);

	cr_assert_eq(got, rc, "%s: %d (%s)", listen, got, lend_why_text());
	cr_assert_null(io);
	cr_assert(strstr(lend_why_text(), words), "%s", lend_why_text());
	cr_assert_null(strchr(lend_why_text(), '\n'));
}

Test(raw_device, invalid_addresses__are_refused)
{
	static const char *const bad[] = {
	    "raw:",
	    "raw:mlx5_0",
	    "raw:@10.0.0.1:1",
	    "raw:mlx5_0@10.0.0.1",
	    "raw:mlx5_0@10.0.0.1:65536",
	    "raw:mlx5_0@localhost:1",
	    "raw:mlx5_0@fd00::1:1",
	    "raw:mlx5_0@[10.0.0.1]:1",
	    "raw:mlx5_0@[fd00::1]",
	    "raw:mlx5_0@10.0.0.1:1?vlan=0",
	    "raw:mlx5_0@10.0.0.1:1?vlan=4095",
	    "raw:mlx5_0@10.0.0.1:1?mtu=100",
	    "raw:mlx5_0@10.0.0.1:1?mac=02:00:00:00:00",
	    "raw:mlx5_0@10.0.0.1:1?links=2",
	    "raw:mlx5_0@10.0.0.1:1?colour=red",
	    "raw:mlx5_0@10.0.0.1:1?vlan",
	    "raw:mlx5_0@10.0.0.1:1?from=fd00::1",
	    "raw:mlx5_0@239.1.1.1:1",
	    "raw:mlx5_0@[ff02::1]:1",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		expect_refused(bad[i], -EINVAL, "write raw:DEV");
}

Test(raw_device, what_a_device_refuses)
{
	expect_refused("raw:mlx5_9@10.77.0.1:0", -ENODEV, "no such RDMA device");
	fake->link = RAW_DOWN;
	expect_refused("raw:mlx5_0@10.77.0.1:0", -ENETDOWN, "port is down: check the cable");
	fake->link = RAW_UP;
	fake->refuse_start = -ENOMEM;
	expect_refused("raw:mlx5_0@10.77.0.1:0", -ENOMEM, "refuses");
	fake->refuse_start = 0;
	fake->refuse_udp = -EPERM;
	expect_refused("raw:mlx5_0@10.77.0.1:0", -EPERM, "run as root");
	fake->refuse_udp = 0;
	fake->cqe_less = 1;
	expect_refused("raw:mlx5_0@10.77.0.1:0", -EOPNOTSUPP, "use dpdk: or udp:");
	fake->cqe_less = 0;
	fake->stride_log = 6;
	fake->strides_log = 4; /* no frame of 1,500 bytes fits */
	expect_refused("raw:mlx5_0@10.77.0.1:0", -EOPNOTSUPP, "use dpdk: or udp:");
	fake->stride_log = fake->strides_log = 0;
	expect_refused("raw:mlx5_0@10.77.0.1:0?mtu=9000", -EINVAL, "ip link set lo mtu 9000");
	cr_assert_eq(fake->opens, 0);
}

Test(raw_device, two_endpoints_ask_for_one_port)
{
	struct lend_io *first = raw_open("raw:mlx5_0@10.77.0.1:0");
	char address[104];

	cr_assert_eq(first->ops->name(first, address, sizeof(address)), 0);
	expect_refused(address, -EADDRINUSE, "choose another, or 0 for any");
	first->ops->close(first);
	first = raw_open(address);
	first->ops->close(first);
}

Test(raw_device, a_port_that_a_kernel_socket_has)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	socklen_t len = sizeof(in);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	char address[104];

	cr_assert_eq(bind(fd, (struct sockaddr *)&in, len), 0);
	cr_assert_eq(getsockname(fd, (struct sockaddr *)&in, &len), 0);
	snprintf(address, sizeof(address), "raw:mlx5_0@127.0.0.1:%u", ntohs(in.sin_port));
	expect_refused(address, -EADDRINUSE, "in use on this host");
	close(fd);
}

/* A client's own address is that of its interface. */
Test(raw_device, a_client_without_an_address)
{
	struct lend_io *io = NULL;
	struct lend_io_config config = {.peer = "raw:mlx5_0@127.0.0.1:7"};
	char own[104];

	cr_assert_eq(lend_io_open(&config, &io), 0, "%s", lend_why_text());
	cr_assert_eq(io->ops->name(io, own, sizeof(own)), 0);
	cr_assert(strstr(own, "raw:mlx5_0@127.0.0.1:") == own, "%s", own);
	io->ops->close(io);
	config.peer = "raw:mlx5_0@[fe80::7]:7";
	cr_assert_eq(lend_io_open(&config, &io), -EADDRNOTAVAIL);
	cr_assert(strstr(lend_why_text(), "?from=IP"), "%s", lend_why_text());
}

Test(raw_device, addresses_that_this_carrier_does_not_reach)
{
	static const char *const bad[] = {
	    "raw:mlx5_1@10.77.0.9:7",        "raw:mlx5_0@10.77.0.9:0", "raw:mlx5_0@[fd00::9]:7",
	    "raw:mlx5_0@10.77.0.9:7?vlan=5", "udp:10.77.0.9:7",        "raw:mlx5_0@10.77.0.9",
	};
	struct lend_io *io = raw_open("raw:mlx5_0@10.77.0.1:0");
	uint32_t peer;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		cr_assert_eq(io->ops->resolve(io, bad[i], &peer), -EINVAL, "%s", bad[i]);
		cr_assert(strstr(lend_why_text(), "name one on that device"));
	}
	io->ops->close(io);
}

/* No host has that address. Reports this within seconds, and asks again later. */
Test(raw_device, unknown_address__is_reported_in_seconds)
{
	struct lend_io *io = raw_open("raw:mlx5_0@10.77.0.1:0");
	uint64_t end = conform_ms() + 20000;
	uint32_t peer;
	int rc;

	while ((rc = io->ops->resolve(io, "raw:mlx5_0@10.77.0.9:7", &peer)) == -EINPROGRESS &&
	       conform_ms() < end)
		raw_take(io);
	cr_assert_eq(rc, -EHOSTDOWN);
	cr_assert(strstr(lend_why_text(), "?mac="), "%s", lend_why_text());
	cr_assert_eq(io->ops->resolve(io, "raw:mlx5_0@10.77.0.9:7", &peer), -EINPROGRESS);
	/* An address with a MAC needs no request. */
	cr_assert_eq(io->ops->resolve(io, "raw:mlx5_0@10.77.0.9:7?mac=02:00:00:00:00:09", &peer),
		     0);
	cr_assert_eq(conform_send(io, peer, 1, 1, 100), LEND_SENT);
	cr_assert_eq(memcmp(fake->last, "\2\0\0\0\0\t\2\xfa\xce\0\0\0", 12), 0);
	io->ops->close(io);
}

/* A MAC that was part of an address is kept, whatever MAC the peer's frames have. */
Test(raw_device, a_given_mac_stays)
{
	struct raw_pair p = raw_meet4();
	char address[104], fixed[160];
	uint32_t peer, back;

	cr_assert_eq(p.b->ops->name(p.b, address, sizeof(address)), 0);
	snprintf(fixed, sizeof(fixed), "raw:mlx5_1%.80s?mac=02:00:00:00:00:09",
		 strchr(address, '@'));
	cr_assert_eq(p.a->ops->resolve(p.a, fixed, &peer), 0);
	cr_assert_eq(p.a->ops->name(p.a, address, sizeof(address)), 0);
	snprintf(fixed, sizeof(fixed), "raw:mlx5_0%.80s", strchr(address, '@'));
	back = conform_resolve(p.b, fixed, p.a);
	cr_assert_eq(conform_send(p.b, back, 1, 1, 100), LEND_SENT);
	cr_assert_eq(raw_drain(p.a), 1);
	cr_assert_eq(conform_send(p.a, peer, 1, 1, 100), LEND_SENT);
	cr_assert_eq(memcmp(fake->last, "\2\0\0\0\0\t", 6), 0);
	raw_part(&p);
}

/* Sends an ARP request from 10.77.0.9 for target, in that VLAN. */
static void send_request(const char *target, const char *from, uint16_t vlan)
{
	struct lend_eth_end end = {.vlan = vlan, .mac = {2, 0, 0, 0, 0, 9}};
	uint8_t four[4], bytes[LEND_ETH_NEIGH_MAX];
	struct lend_ip ip;

	inet_pton(AF_INET, from, four);
	end.ip = lend_ip_of4(four);
	inet_pton(AF_INET, target, four);
	ip = lend_ip_of4(four);
	fake->inject(bytes, lend_eth_neigh_request_write(bytes, &end, &ip, NULL));
}

Test(raw_device, only_questions_for_us_are_answered)
{
	struct lend_io *io = raw_open("raw:mlx5_0@10.77.0.1:0");
	uint32_t posts = fake->posts;

	send_request("10.77.0.2", "10.77.0.9", 0);
	send_request("10.77.0.1", "10.77.0.9", 7);
	raw_take(io);
	cr_assert_eq(fake->posts, posts);
	send_request("10.77.0.1", "10.77.0.9", 0);
	raw_take(io);
	cr_assert_eq(fake->posts, posts + 1);
	cr_assert_eq(memcmp(fake->last, "\2\0\0\0\0\t\2\xfa\xce\0\0\0\x08\x06", 14), 0);
	cr_assert_eq(io->stats.address_clash, 0);
	send_request("10.77.0.2", "10.77.0.1", 0); /* another host announces our address */
	raw_take(io);
	cr_assert_eq(io->stats.address_clash, 1);
	fake->inject(fake->last, 20); /* truncated */
	raw_take(io);
	cr_assert_eq(io->stats.rx_bad, 1);
	io->ops->close(io);
}

Test(raw_device, a_device_that_shows_no_arp)
{
	struct raw_pair p;
	uint32_t peer;

	fake->refuse_neighbours = -EOPNOTSUPP;
	p = raw_exchange("raw:mlx5_0@10.77.0.1:0", "raw:mlx5_1@10.77.0.2:0",
			 "?mac=02:fa:ce:00:00:00");
	raw_expect_alive(&p);
	cr_assert_eq(p.a->ops->resolve(p.a, "raw:mlx5_1@10.77.0.3:7", &peer), -EHOSTUNREACH);
	cr_assert(strstr(lend_why_text(), "(?mac=)"), "%s", lend_why_text());
	raw_part(&p);
}

/* The same bytes as from udp and dpdk: Ethernet, IPv4 with the mark of class 0, UDP, payload; the
 * checksum is right or omitted. */
Test(raw_device, bytes_on_the_wire)
{
	static const uint8_t head[] = {2, 0xfa, 0xce, 0,    0, 0,       2, 0xfa, 0xce, 0, 0,  1,
				       8, 0,    0x45, 0xa2, 0, 16 + 28, 0, 0,    0x40, 0, 64, 17};
	struct raw_pair p = raw_meet4();

	cr_assert_eq(conform_send_fast(p.a, p.peer, 1, 1, 16), LEND_SENT);
	cr_assert_eq(fake->last_len, 14 + 20 + 8 + 16);
	cr_assert_eq(memcmp(fake->last, head, sizeof(head)), 0);
	cr_assert_eq(lend_eth_get16(fake->last + 40), 0, "no UDP checksum over IPv4");
	raw_part(&p);
	fake->checksums = true;
	p = raw_meet4();
	cr_assert_eq(conform_send(p.a, p.peer, 1, 1, 16), LEND_SENT);
	cr_assert_neq(lend_eth_get16(fake->last + 40), 0, "the device computed it");
	fake->checks = 0; /* so the carrier verifies it itself */
	raw_expect_alive(&p);
	cr_assert_eq(p.b->stats.rx_checksum, 0);
	raw_part(&p);
	fake->checksums = false;
	p = raw_exchange("raw:mlx5_0@[fd00::1]:0", "raw:mlx5_1@[fd00::2]:0", "");
	raw_expect_alive(&p);
	cr_assert_neq(lend_eth_get16(fake->last + 14 + 40 + 6), 0, "IPv6 requires one");
	cr_assert_eq(p.b->stats.rx_checksum, 0);
	raw_part(&p);
}

/* The module with rdma-core, which has no such device. */
Test(raw_device, the_real_module)
{
	setenv("LEND_MODULE_DIR", LEND_BUILD_DIR, 1);
	if (access(LEND_BUILD_DIR "/lend_io_raw.so", F_OK) != 0)
		cr_skip_test("not on this machine: lend_io_raw.so was not built (libibverbs-dev)");
	expect_refused("raw:mlx5_99@10.77.0.1:0", -ENODEV, "see ibv_devices for their names");
}
