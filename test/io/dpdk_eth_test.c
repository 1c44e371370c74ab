/* Goal: a device between hosts drops and counts frames for other stations, answers ARP and
 * neighbour requests for its address, and is shared by endpoints.
 * Method: net_pcap reads frames from one file and writes to another, so no privileges are needed.
 * One EAL per test; each test is a process.
 * Covers: src/io/dpdk/rx.c, src/io/dpdk/neigh.c, src/io/dpdk/shared_port.c, src/io/eth/frame.c */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "io/dpdk_fixture.h"
#include "io/eth/eth.h"
#include "io/io.h"
#include "sys/clock.h"
#include "sys/last_error.h"
#include "one_line_test.h"

static uint8_t frame[4096];

TestSuite(dpdk_eth, .init = dpdk_begin, .fini = dpdk_end, .timeout = 60);

static FILE *pcap_open(void)
{
	static const uint32_t head[6] = {0xa1b2c3d4, 2 | 4 << 16, 0, 0, 65535, 1};
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "%s/in.pcap", dpdk_folder);
	file = fopen(path, "w");
	cr_assert(file && fwrite(head, sizeof(head), 1, file) == 1);
	return file;
}

static void pcap_put(FILE *file, const uint8_t *bytes, uint32_t len)
{
	const uint32_t head[4] = {0, 0, len, len};

	cr_assert(fwrite(head, sizeof(head), 1, file) == 1);
	cr_assert(fwrite(bytes, len, 1, file) == 1);
}

/* Opens a device that reads the frames of the file. It has a random MAC, which broadcast frames do
 * not need. */
static struct lend_io *run_device(const char *address)
{
	struct lend_io_config config = {.listen = address};
	char eal[256];
	struct lend_io *io = NULL;
	int rc;

	snprintf(eal, sizeof(eal),
		 "--no-huge -m 192 --no-pci --no-shconf --vdev "
		 "net_pcap0,rx_pcap=%s/in.pcap,tx_pcap=%s/out.pcap",
		 dpdk_folder, dpdk_folder);
	config.eal = eal;
	if (access(LEND_BUILD_DIR "/lend_io_dpdk.so", F_OK) != 0)
		cr_skip_test("not on this machine: lend_io_dpdk.so was not built (libdpdk-dev)");
	rc = lend_io_open(&config, &io);
	cr_assert(rc == 0, "%s", lend_why_text());
	return io;
}

static struct lend_eth_end end_of(bool four, uint8_t last, uint16_t vlan)
{
	struct lend_eth_end end = {.udp = 7001, .vlan = vlan, .mac = {2, 0, 0, 0, 0, last}};

	end.ip = four ? lend_ip_of4((const uint8_t[4]){10, 0, 0, last})
		      : (struct lend_ip){{0xfd, 0, [15] = last}};
	if (last == 1) /* for the device: to a multicast address, because its MAC is unknown here */
		memset(end.mac, 0xff, 6);
	return end;
}

static uint32_t make_frame(bool four, uint16_t vlan, uint32_t len)
{
	struct lend_eth_end from = end_of(four, 2, vlan), to = end_of(four, 1, vlan);
	struct lend_eth_head head;

	lend_eth_head(&head, &to, &from);
	lend_eth_write(frame, &head, LEND_CLASS_NORMAL, len);
	memset(frame + head.len, 0x5a, len);
	lend_eth_sum(frame, &head, len);
	return head.len + len;
}

/* Corrects the IPv4 header checksum after a change. */
static void fix_checksum(void)
{
	memset(frame + 24, 0, 2);
	lend_eth_put16(frame + 24, (uint16_t)~lend_eth_fold(lend_eth_add(0, frame + 14, 20)));
}

/* Writes one frame of each invalid kind, with valid ones before and after. */
static void put_hostile(FILE *file, bool four)
{
	uint32_t n = make_frame(four, 0, 100);

	pcap_put(file, frame, n); /* valid */
	frame[n - 1] ^= 1;
	pcap_put(file, frame, n); /* header checksum */
	n = make_frame(four, 0, 100);
	frame[14 + (four ? 20 : 40) + 3] ^= 1;
	pcap_put(file, frame, n); /* foreign: another port */
	n = make_frame(four, 7, 100);
	pcap_put(file, frame, n); /* foreign: a VLAN */
	n = make_frame(four, 0, 1600);
	pcap_put(file, frame, n); /* truncated: a jumbo frame */
	n = make_frame(four, 0, 100);
	if (four) {
		frame[20] = 0x20;
		fix_checksum();
	} else {
		frame[20] = 44;
	}
	pcap_put(file, frame, n); /* fragment */
	n = make_frame(four, 0, 100);
	frame[14 + (four ? 20 : 40) + 5] ^= 1;
	pcap_put(file, frame, n); /* bad: length fields */
	n = make_frame(four, 0, 100);
	frame[0] = 2;
	memset(frame + 1, 0x77, 5);
	pcap_put(file, frame, n); /* foreign: another station's MAC */
	n = make_frame(four, 0, 0);
	pcap_put(file, frame, n);  /* valid, and empty */
	pcap_put(file, frame, 13); /* bad: shorter than a header */
}

static void run_hostile(bool four)
{
	FILE *file = pcap_open();
	lend_ns end = lend_clock_now() + 10000000000u;
	uint32_t good = 0, bytes = 0;
	struct lend_in in[8];
	struct lend_io *io;
	struct lend_eth_end peer = end_of(four, 2, 0), self = end_of(four, 1, 0);
	uint8_t question[LEND_ETH_NEIGH_MAX], out[4096];
	struct lend_eth_neigh ask;
	bool answered = false;
	char path[64];
	size_t len;

	put_hostile(file, four);
	pcap_put(file, question, lend_eth_neigh_request_write(question, &peer, &self.ip, NULL));
	memcpy(peer.ip.b, self.ip.b, 16); /* another host announces our address */
	pcap_put(file, question, lend_eth_neigh_reply_write(question, &peer, NULL));
	fclose(file);
	io = run_device(four ? "dpdk:net_pcap0@10.0.0.1:7001" : "dpdk:net_pcap0@[fd00::1]:7001");
	cr_assert(io->path.mtu == 1500u - (four ? 28 : 48));
	while ((good < 2 || io->stats.address_clash == 0) && lend_clock_now() < end) {
		uint32_t n = io->ops->rx(io, in, 8);

		for (uint32_t i = 0; i < n; i++)
			bytes += in[i].len;
		good += n;
		io->ops->rx_done(io);
	}
	cr_assert(good == 2 && bytes == 100);
	cr_assert(io->stats.rx_checksum == 1, "%lu", io->stats.rx_checksum);
	cr_assert(io->stats.rx_foreign == 3, "%lu", io->stats.rx_foreign);
	cr_assert(io->stats.rx_truncated == 1 && io->stats.rx_fragment == 1);
	cr_assert(io->stats.rx_bad == 2, "%lu", io->stats.rx_bad);
	cr_assert(io->stats.address_clash == 1);
	io->ops->close(io);
	snprintf(path, sizeof(path), "%s/out.pcap", dpdk_folder);
	file = fopen(path, "r");
	cr_assert(file);
	len = fread(out, 1, 24, file) == 24 ? 1 : 0;
	while (len && fread(out, 1, 16, file) == 16) {
		uint32_t n;

		memcpy(&n, out + 8, 4);
		cr_assert(n <= sizeof(out) && fread(out, 1, n, file) == n);
		answered |= lend_eth_neigh_read(out, n, &ask) && out[5] == 2 && !ask.question &&
			    lend_ip_same(&ask.from, &self.ip);
	}
	fclose(file);
	cr_assert(answered);
}

TestRuns(dpdk_eth, hostile_ip4, run_hostile(true));
TestRuns(dpdk_eth, hostile_ip6, run_hostile(false));

static struct lend_io *open_more(const char *listen, const char *peer, int want)
{
	struct lend_io_config config = {.listen = listen, .peer = peer};
	struct lend_io *io = NULL;
	int rc = lend_io_open(&config, &io);

	cr_assert(rc == want, "%s: %d %s", listen ? listen : peer, rc, lend_why_text());
	return io;
}

/* Endpoints of one device reach each other. Each address belongs to one endpoint. */
Test(dpdk_eth, shared)
{
	FILE *file = pcap_open();
	struct lend_io *a, *b, *c;
	struct lend_bufs bufs = {NULL, 0};
	struct lend_out out = {.head = "hello", .head_len = 5};
	struct lend_in in;
	char name[104];
	uint32_t peer;

	pcap_put(file, frame, make_frame(true, 0, 10)); /* for a; b may receive it first */
	fclose(file);
	a = run_device("dpdk:net_pcap0@10.0.0.1:7001");
	open_more("dpdk:net_pcap0@10.0.0.1:7001", NULL, -EADDRINUSE);
	cr_assert(strstr(lend_why_text(), "7001 is open in this process already"));
	open_more("dpdk:net_pcap0@10.0.0.1:7003?mtu=9000", NULL, -EINVAL);
	open_more("dpdk:net_absent@10.0.0.1:7003", NULL, -ENODEV);
	b = open_more("dpdk:net_pcap0@10.0.0.1:7002", NULL, 0);
	c = open_more(NULL, "dpdk:net_pcap0@10.0.0.1:7002", 0);
	cr_assert(c->ops->name(c, name, sizeof(name)) == 0);
	cr_assert(strncmp(name, "dpdk:net_pcap0@10.0.0.1:", 24) == 0, "%s", name);
	for (int i = 0; i < 100; i++)
		cr_assert(b->ops->rx(b, &in, 1) == 0, "that address was a's");
	cr_assert(a->ops->rx(a, &in, 1) == 1 && in.len == 10);
	a->ops->rx_done(a);
	cr_assert(c->ops->resolve(c, "dpdk:net_pcap0@10.0.0.1:7002", &peer) == 0);
	out.peer = peer;
	c->ops->tx(c, &bufs, &out, 1);
	cr_assert(out.sent == LEND_SENT && b->ops->rx(b, &in, 1) == 1 && in.len == 5);
	out.peer = in.peer;
	b->ops->tx(b, &bufs, &out, 1);
	b->ops->rx_done(b);
	cr_assert(out.sent == LEND_SENT && c->ops->rx(c, &in, 1) == 1 && in.len == 5);
	c->ops->rx_done(c);
	cr_assert(c->ops->resolve(c, "dpdk:net_pcap0@[fd00::1]:1", &peer) == -EINVAL);
	cr_assert(c->ops->resolve(c, "dpdk:net_pcap0@10.0.0.9:1?vlan=4", &peer) == -EINVAL);
	cr_assert(c->ops->resolve(c, "dpdk:net_pcap0@10.0.0.9:1", &peer) == -EINPROGRESS);
	cr_assert(c->ops->resolve(c, "dpdk:net_pcap0@10.0.0.9:1?mac=02:00:00:00:00:09", &peer) ==
		  0);
	b->ops->close(b);
	out.peer = peer;
	c->ops->close(c);
	a->ops->close(a);
	a = open_more("dpdk:net_pcap0@10.0.0.1:7001", NULL, 0); /* the address is free again */
	a->ops->close(a);
}
