/* Goal: datagrams that are sent in one burst over a link within this machine share buffers. They
 * arrive unchanged, in receive calls of any size, and before the gone notice of their sender.
 * Method: numbers in bursts over net_ring and net_memif, both ends in one thread. Each test is a
 * process of its own, as EAL is.
 * Covers: src/io/dpdk/tx.c, src/io/dpdk/rx.c, src/io/dpdk/port_burst.c */
#include <stdio.h>
#include <string.h>

#include "io/conform.h"
#include "io/dpdk_fixture.h"

TestSuite(dpdk_shared, .init = dpdk_begin, .fini = dpdk_end, .timeout = 60);

static void write_ring(char *text, size_t cap)
{
	(void)snprintf(text, cap, "dpdk:ring@127.0.0.1:0");
}

static void write_memif(char *text, size_t cap)
{
	(void)snprintf(text, cap, "dpdk:memif@127.0.0.1:0?links=2");
}

static const struct conform_row ring = {
    .name = "ring", .absent = dpdk_absent, .address = write_ring};
static const struct conform_row memif = {
    .name = "memif", .absent = dpdk_absent, .address = write_memif};

/* Defines a test for both kinds of link. */
#define OVER_BOTH(noun)                                                                            \
	Test(dpdk_shared, ring_##noun)                                                             \
	{                                                                                          \
		noun(&ring);                                                                       \
	}                                                                                          \
	Test(dpdk_shared, memif_##noun)                                                            \
	{                                                                                          \
		noun(&memif);                                                                      \
	}

/* Receives up to cap datagrams; returns 0 after a timeout. */
static uint32_t receive_burst(struct lend_io *io, struct lend_in *in, uint32_t cap)
{
	uint64_t late = conform_ms() + 5000;
	uint32_t n;

	while ((n = io->ops->rx(io, in, cap)) == 0 && conform_ms() < late)
		;
	return n;
}

/* Sends consecutive numbers from *next in one burst, each as a datagram. Returns how many were
 * accepted. */
enum { NUMBERS = 40 };
static uint32_t send_numbers(struct lend_io *io, uint32_t peer, uint32_t *next)
{
	uint32_t number[NUMBERS], sent = 0;
	struct lend_out out[NUMBERS] = {{.head = NULL}};

	for (uint32_t i = 0; i < NUMBERS; i++) {
		number[i] = *next + i;
		out[i] = (struct lend_out){.head = &number[i], .head_len = 4, .peer = peer};
	}
	io->ops->tx(io, NULL, out, NUMBERS);
	while (sent < NUMBERS && out[sent].sent == LEND_SENT)
		sent++;
	*next += sent;
	return sent;
}

static void expect_numbers(const struct lend_in *in, uint32_t n, uint32_t first)
{
	for (uint32_t i = 0; i < n; i++) {
		uint32_t number;

		cr_assert(in[i].len == 4 && !in[i].gone, "%u: len %u", first + i, in[i].len);
		memcpy(&number, in[i].data, 4);
		cr_assert(number == first + i, "%u, not %u", number, first + i);
	}
}

/* Datagrams of one burst share buffers, so a link accepts more of them than it has slots. They are
 * delivered one by one, in receive calls of any size, and stay unchanged until they are
 * released. */
static void split_again(const struct conform_row *row)
{
	uint32_t sent = 0, got = 0, n;
	struct lend_in in[2 * NUMBERS];
	struct conform_pair p;

	conform_open(&p, row);
	while (sent < 40000 && send_numbers(p.client, p.peer, &sent) == NUMBERS)
		;
	cr_assert(sent > 4000, "only %u were accepted", sent);
	for (uint32_t cap = 1; got < sent; cap = cap % 37 + 1) {
		n = receive_burst(p.server, in, cap);
		n += p.server->ops->rx(p.server, in + n, cap);
		cr_assert(n > 0 && n <= 2 * cap, "%u of %u came", got, sent);
		expect_numbers(in, n, got);
		got += n;
		p.server->ops->rx_done(p.server);
	}
	conform_close(&p);
}

OVER_BOTH(split_again)

/* Lets a link's events arrive; resolve() processes them. */
static void wait_for_link_events(struct lend_io *io, const struct conform_row *row)
{
	uint64_t late = conform_ms() + 100;
	char gone[64];
	uint32_t peer;

	(void)snprintf(gone, sizeof(gone), "dpdk:%s@127.0.0.9:1", row->name);
	while (conform_ms() < late)
		cr_assert(io->ops->resolve(io, gone, &peer) < 0);
}

/* A peer's gone notice follows all that was received from it, even while the receiver has no room
 * for some of it. */
static void gone_comes_last(const struct conform_row *row)
{
	uint32_t sent = 0, peer = 0;
	struct conform_pair p;
	struct lend_in in;

	conform_open(&p, row);
	cr_assert(send_numbers(p.client, p.peer, &sent) == NUMBERS);
	for (uint32_t got = 0; got < sent; got++) {
		cr_assert(receive_burst(p.server, &in, 1) == 1);
		expect_numbers(&in, 1, got);
		cr_assert(got == 0 || in.peer == peer);
		peer = in.peer;
		if (got == 0) {
			p.client->ops->close(p.client);
			wait_for_link_events(p.server, row);
		}
		p.server->ops->rx_done(p.server);
	}
	cr_assert(receive_burst(p.server, &in, 1) == 1 && in.gone && in.peer == peer);
	p.server->ops->rx_done(p.server);
	p.server->ops->close(p.server);
}

OVER_BOTH(gone_comes_last)
