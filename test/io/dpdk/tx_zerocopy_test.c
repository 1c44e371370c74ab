/* Goal: a driver that can read a long piece where it is stored gets it without a copy. The piece
 * stays lent until the driver frees the frame, and no longer.
 * Method: jumbo frames over a veth pair. A callback in front of the transmit queue checks each
 * frame and may keep it, as a NIC that reads later does. For DMA the same device imitates a NIC:
 * this file replaces the DPDK functions that describe it, map memory and free frames.
 * Covers: src/io/dpdk/tx_zerocopy.c */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <rte_bus.h>
#include <rte_ethdev.h>

#include "io/conform.h"
#include "io/veth.h"
#include "sys/last_error.h"

#define OURS __attribute__((visibility("default")))

enum { LEN = 4000, SHORT = 2047, MEMORY = 2 << 20, HELD = 64 };

/* The imitated NIC. */
static struct {
	bool poses, refuses;   /* poses: imitation is on; refuses: mapping fails */
	uint64_t mapped, iova; /* mapped: bytes, now; iova: of the newest mapping */
	bool keeps, done;      /* keeps: keeps frames; done: has read them */
	uint32_t segments;     /* segments of the newest frame */
	const void *second;    /* address of its second segment */
	uint64_t second_iova;  /* and the address at which the device reads it */
	struct rte_mbuf *held[HELD];
	uint32_t n;
} card;

static void *real(const char *name)
{
	void *at = dlsym(RTLD_NEXT, name);

	cr_assert_not_null(at, "%s", name);
	return at;
}

OURS int rte_eth_dev_info_get(uint16_t port, struct rte_eth_dev_info *info)
{
	int (*get)(uint16_t, struct rte_eth_dev_info *), rc;

	*(void **)&get = real("rte_eth_dev_info_get");
	rc = get(port, info);
	if (card.poses)
		info->driver_name = "net_card";
	return rc;
}

OURS const char *rte_bus_name(const struct rte_bus *bus)
{
	const char *(*name)(const struct rte_bus *);

	*(void **)&name = real("rte_bus_name");
	return card.poses ? "pci" : name(bus);
}

OURS int rte_dev_dma_map(struct rte_device *device, void *at, uint64_t iova, size_t len)
{
	(void)device;
	if (card.refuses)
		return -1;
	cr_assert_eq((uintptr_t)at, iova);
	card.iova = iova;
	card.mapped += len;
	return 0;
}

OURS int rte_dev_dma_unmap(struct rte_device *device, void *at, uint64_t iova, size_t len)
{
	(void)device;
	(void)at;
	(void)iova;
	card.mapped -= len;
	return 0;
}

static void release_frames(void)
{
	while (card.n > 0)
		rte_pktmbuf_free(card.held[--card.n]);
}

OURS int rte_eth_tx_done_cleanup(uint16_t port, uint16_t queue, uint32_t n)
{
	(void)port;
	(void)queue;
	(void)n;
	if (card.done)
		release_frames();
	return 0;
}

static uint16_t look(uint16_t port, uint16_t queue, struct rte_mbuf *frame[], uint16_t n, void *arg)
{
	(void)port;
	(void)queue;
	(void)arg;
	for (uint16_t i = 0; i < n; i++) {
		card.segments = frame[i]->nb_segs;
		card.second = card.segments > 1 ? rte_pktmbuf_mtod(frame[i]->next, void *) : NULL;
		card.second_iova = card.segments > 1 ? rte_pktmbuf_iova(frame[i]->next) : 0;
		if (!card.keeps)
			continue;
		cr_assert_lt(card.n, HELD);
		for (struct rte_mbuf *m = frame[i]; m != NULL; m = m->next)
			rte_mbuf_refcnt_update(m, 1);
		card.held[card.n++] = frame[i];
	}
	return n;
}

static void write_end(int end, char *text, size_t cap)
{
	(void)snprintf(text, cap, "dpdk:net_af_packet%d@10.9.0.%d:0", end, end + 1);
}

static void write_end6(int end, char *text, size_t cap)
{
	(void)snprintf(text, cap, "dpdk:net_af_packet%d@[fd09::%d]:0", end, end + 1);
}

static void near(char *text, size_t cap)
{
	write_end(0, text, cap);
}

static void far(char *text, size_t cap)
{
	write_end(1, text, cap);
}

static void near6(char *text, size_t cap)
{
	write_end6(0, text, cap);
}

static void far6(char *text, size_t cap)
{
	write_end6(1, text, cap);
}

static const char *absent(void)
{
	const char *why = veth_make_queues("net_af_packet", 1, ",framesz=9216,blocksz=36864");

	if (why == NULL && !veth_run("ip link set lend0 mtu 9000 && ip link set lend1 mtu 9000"))
		why = "no veth with jumbo frames";
	return why;
}

#define ROW(at, to)                                                                                \
	{                                                                                          \
		.name = "af_packet", .absent = absent, .address = at, .far = to,                   \
		.across = veth_across                                                              \
	}
static const struct conform_row row = ROW(near, far), row6 = ROW(near6, far6);

/* A link from end 0 to another listener, with a callback that checks its frames. */
struct link {
	struct lend_io *from, *to;
	uint32_t peer;
};

static struct link join(const struct conform_row *over, bool same_device)
{
	char own[104], address[104];
	struct link l;
	uint16_t port;

	conform_need(over);
	l.from = conform_listen(over, own);
	l.to = same_device ? conform_listen(over, own) : conform_listen_far(over, own);
	cr_assert_eq(l.to->ops->name(l.to, own, sizeof(own)), 0);
	if (same_device)
		memcpy(address, own, sizeof(own));
	else
		veth_across(own, address, sizeof(address));
	l.peer = conform_resolve(l.from, address, l.to);
	cr_assert_eq(rte_eth_dev_get_port_by_name("net_af_packet0", &port), 0);
	cr_assert_not_null(rte_eth_add_tx_callback(port, 0, look, NULL));
	return l;
}

static void part(struct link *l)
{
	l->from->ops->close(l->from);
	l->to->ops->close(l->to);
}

/* Sends a header, 100 bytes of buffer 1, len bytes of buffer 2 and a trailer; expects them to
 * arrive. */
static void send_some(const struct link *l, uint8_t *memory, uint32_t len)
{
	uint8_t first[100], want[32 + 100 + LEN + 4], *at = want;
	struct lend_seg seg[3] = {{NULL}, {first, 100, 100, 0, 0}, {memory, MEMORY, MEMORY, 0, 0}};
	struct lend_bufs bufs = {seg, 3};
	struct lend_out out = {.head = "a head of thirty-two bytes, all ",
			       .head_len = 32,
			       .tail = "tail",
			       .tail_len = 4,
			       .peer = l->peer,
			       .n = 2,
			       .piece = {{1, 0, 100}, {2, 8, len}}};

	memset(first, 'f', sizeof(first));
	for (uint32_t i = 0; i < len; i++)
		memory[8 + i] = (uint8_t)(i * 7 + len);
	at = mempcpy(at, out.head, 32);
	at = mempcpy(at, first, 100);
	at = mempcpy(at, memory + 8, len);
	at = mempcpy(at, "tail", 4);
	l->from->ops->tx(l->from, &bufs, &out, 1);
	cr_assert_eq(out.sent, LEND_SENT);
	conform_expect(l->to, want, (uint32_t)(at - want));
}

static uint8_t *new_memory(void)
{
	uint8_t *at =
	    mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	cr_assert_neq(at, MAP_FAILED);
	return at;
}

static void expect_in_place(const struct link *l, uint8_t *memory, bool in_place)
{
	uint64_t before = l->from->stats.tx_in_place;

	send_some(l, memory, LEN);
	cr_assert_eq(card.segments, in_place ? 3 : 1);
	cr_assert_eq(card.second, in_place ? memory + 8 : NULL);
	cr_assert_eq(l->from->stats.tx_in_place - before, in_place);
}

TestSuite(dpdk_tx_zerocopy, .timeout = 60);

/* A driver that copies the frame before its burst call returns. Each buffer has its own reference
 * count; a short piece is copied. */
Test(dpdk_tx_zerocopy, is_lent_until_the_driver_frees_it)
{
	uint8_t *memory = new_memory();
	struct link l = join(&row, false);

	expect_in_place(&l, memory, true);
	cr_assert(l.from->ops->flush(l.from, 2));
	send_some(&l, memory, SHORT);
	cr_assert_eq(card.segments, 1);
	card.keeps = true;
	expect_in_place(&l, memory, true);
	expect_in_place(&l, memory, true);
	cr_assert_not(l.from->ops->flush(l.from, 2));
	cr_assert(l.from->ops->flush(l.from, 1), "this one was copied");
	rte_pktmbuf_free(card.held[--card.n]);
	cr_assert_not(l.from->ops->flush(l.from, 2), "there is another");
	release_frames();
	cr_assert(l.from->ops->flush(l.from, 2));
	part(&l);
}

/* A checksum in software and a transfer to another endpoint both need the whole frame in one
 * buffer. */
Test(dpdk_tx_zerocopy, is_copied_for_a_checksum)
{
	struct link l = join(&row6, false);

	expect_in_place(&l, new_memory(), false);
	part(&l);
}

Test(dpdk_tx_zerocopy, is_copied_for_a_neighbour_in_the_process)
{
	struct link l = join(&row, true);

	send_some(&l, new_memory(), LEN);
	cr_assert_eq(l.from->stats.tx_in_place, 0);
	part(&l);
}

/* Only memory that is registered and mapped is lent, as long as the endpoint exists. */
Test(dpdk_tx_zerocopy, is_mapped_for_a_card)
{
	uint8_t *memory = new_memory(), *other = new_memory();
	struct link l;

	card.poses = true;
	l = join(&row, false);
	expect_in_place(&l, memory, false);
	cr_assert_eq(l.from->ops->reg(l.from, memory + 5, MEMORY - 5), 0);
	cr_assert_eq(l.to->ops->reg(l.to, memory + 5, MEMORY - 5), 0);
	cr_assert_eq(card.iova, (uintptr_t)memory);
	expect_in_place(&l, memory, true);
	cr_assert_eq(card.second_iova, (uintptr_t)memory + 8);
	card.refuses = true;
	cr_assert_eq(l.from->ops->reg(l.from, other, MEMORY), 0);
	expect_in_place(&l, other, false);
	l.from->ops->close(l.from);
	cr_assert_gt(card.mapped, 0);
	l.to->ops->close(l.to);
	cr_assert_eq(card.mapped, 0);
}

/* Opens a link with a NIC that has a piece of that memory and has not read it yet. */
static struct link join_card(uint8_t *memory)
{
	struct link l;

	card.poses = card.keeps = true;
	l = join(&row, false);
	cr_assert_eq(l.from->ops->reg(l.from, memory, MEMORY), 0);
	expect_in_place(&l, memory, true);
	return l;
}

/* flush() makes the driver release the frames that the NIC has read. */
Test(dpdk_tx_zerocopy, is_lent_until_the_card_has_read_it)
{
	struct link l = join_card(new_memory());

	cr_assert_not(l.from->ops->flush(l.from, 2));
	card.done = true;
	cr_assert(l.from->ops->flush(l.from, 2));
	part(&l);
	cr_assert_eq(card.mapped, 0);
}

/* Memory that the NIC still reads when the endpoint closes stays mapped, and is counted. */
Test(dpdk_tx_zerocopy, outlives_the_endpoint)
{
	struct link l = join_card(new_memory());

	part(&l);
	cr_assert_eq(card.mapped, MEMORY);
	release_frames();
}
