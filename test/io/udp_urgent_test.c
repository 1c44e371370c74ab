/* Goal: over udp, urgent datagrams overtake long ones that wait in the receiver's socket, in both
 * directions. Nothing is lost or delayed when this starts and when it ends.
 * Method: one end sends a batch of long datagrams and an urgent one behind it; the other end
 * receives one at a time.
 * Covers: src/io/udp/urgent.c */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "io/conform.h"
#include "util/traffic_class.h"
#include "one_line_test.h"

enum {
	LONG = 8192,
	SHORT = 64,
	TRAIN = 20,
	BULK = 7,
	URGENT = 0,
	FORGOTTEN = 140000,
	ALONE = 2000,
	PAIRS = 12
};

static void make_any_address(char *text, size_t cap)
{
	(void)snprintf(text, cap, "udp:0.0.0.0:0");
}

static const struct conform_row udp = {.name = "udp", .address = conform_udp_address};
static const struct conform_row any = {.name = "udp everywhere", .address = make_any_address};

/* Sends a datagram that starts with its class and number. */
static void send_one(struct lend_io *io, uint32_t peer, uint32_t class, uint32_t seq)
{
	static char bytes[LONG];
	struct lend_seg seg[2] = {{0}, {.data = bytes, .len = LONG, .cap = LONG}};
	struct lend_bufs bufs = {seg, 2};
	uint32_t head[2] = {class, seq};
	struct lend_out out = {.head = head, .head_len = sizeof(head), .peer = peer, .n = 1};

	out.class = (uint8_t) class;
	out.fast = class < LEND_CLASS_NORMAL;
	out.piece[0] = (struct lend_piece){.buf = 1, .len = (class == BULK ? LONG : SHORT) - 8};
	io->ops->tx(io, &bufs, &out, 1);
	cr_assert_eq(out.sent, LEND_SENT);
}

/* Receives the next datagram. Returns its class and sets its number. */
static uint32_t take_next(struct lend_io *io, uint32_t *seq, uint32_t *peer)
{
	uint64_t end = conform_ms() + conform_patience_ms;
	uint32_t head[2] = {UINT32_MAX};
	struct lend_in in;

	while (io->ops->rx(io, &in, 1) == 0)
		cr_assert_lt(conform_ms(), end, "no datagram arrives");
	cr_assert_geq(in.len, sizeof(head));
	memcpy(head, in.data, sizeof(head));
	cr_assert_eq(in.len, head[0] == BULK ? LONG : SHORT);
	*seq = head[1];
	*peer = in.peer;
	io->ops->rx_done(io);
	return head[0];
}

/* Sends one of each kind, so that the receiver knows of both; then a batch with an urgent one
 * behind. Returns how many of the batch came before the urgent one; all must arrive. */
static uint32_t count_overtaken(struct lend_io *from, uint32_t peer, struct lend_io *to)
{
	uint32_t seq, end, next = 0, before = UINT32_MAX;

	for (uint32_t i = 0; i < 4; i++) {
		send_one(from, peer, i % 2 ? URGENT : BULK, i);
		(void)take_next(to, &seq, &end);
	}
	for (uint32_t i = 0; i < TRAIN; i++)
		send_one(from, peer, BULK, i);
	send_one(from, peer, URGENT, TRAIN);
	for (uint32_t i = 0; i <= TRAIN; i++) {
		if (take_next(to, &seq, &end) == URGENT)
			before = next;
		else
			cr_assert_eq(seq, next++, "order of the batch");
	}
	cr_assert_eq(next, TRAIN);
	return before;
}

static void poll_empty(struct lend_io *io, uint32_t times)
{
	struct lend_in in;

	for (uint32_t i = 0; i < times; i++)
		cr_assert_eq(io->ops->rx(io, &in, 1), 0);
}

Test(udp_urgent, urgent__overtakes_in_both_directions, .timeout = 60)
{
	struct conform_pair p;
	char before[104], after[104];
	uint32_t seq, back;

	conform_open(&p, &udp);
	cr_assert_leq(count_overtaken(p.client, p.peer, p.server), 1);
	send_one(p.client, p.peer, BULK, 0);
	(void)take_next(p.server, &seq, &back);
	p.server->ops->pin(p.server, back, true);
	cr_assert_eq(p.client->ops->name(p.client, before, sizeof(before)), 0);
	cr_assert_leq(count_overtaken(p.server, back, p.client), 1);
	cr_assert_eq(p.client->ops->name(p.client, after, sizeof(after)), 0);
	cr_assert_str_eq(strrchr(after, ':'), strrchr(before, ':'), "its port is unchanged");
	conform_close(&p);
}

/* An endpoint that no longer gets urgent datagrams reads one socket again. Later urgent datagrams
 * arrive through it, in the order in which they were sent. */
Test(udp_urgent, unused__is_closed_and_opened_again, .timeout = 60)
{
	struct conform_pair p;
	uint32_t seq, end;

	conform_open(&p, &udp);
	for (int round = 0; round < 2; round++) {
		cr_assert_leq(count_overtaken(p.client, p.peer, p.server), 1);
		poll_empty(p.server, FORGOTTEN);
		send_one(p.client, p.peer, LEND_CLASS_NORMAL, 0);
		send_one(p.client, p.peer, URGENT, 1);
		for (uint32_t i = 0; i < 2; i++) {
			(void)take_next(p.server, &seq, &end);
			cr_assert_eq(seq, i);
		}
	}
	conform_close(&p);
}

/* A client that was alone for a while has a connected socket at the listener. That socket must not
 * get the client's urgent datagrams, before, during or after. */
static void single_before(const struct conform_row *row, int rounds)
{
	struct conform_pair p;
	uint32_t seq, end;

	conform_open(&p, row);
	for (int round = 0; round < rounds; round++) {
		for (uint32_t i = 0; i < ALONE; i++) {
			send_one(p.client, p.peer, LEND_CLASS_NORMAL, i);
			(void)take_next(p.server, &seq, &end);
			cr_assert_eq(seq, i);
		}
		cr_assert_leq(count_overtaken(p.client, p.peer, p.server), 1, "round %d", round);
		if (round > 0)
			poll_empty(p.server, FORGOTTEN);
	}
	conform_close(&p);
}

TestRuns(udp_urgent, urgent__overtakes_a_single_peer, single_before(&udp, 3), .timeout = 60);
TestRuns(udp_urgent, urgent__overtakes_at_a_wildcard_address, single_before(&any, 3),
	 .timeout = 60);

/* When a filter names no member, the kernel selects one by a hash of the ports, which is the right
 * one for half of all ports. */
Test(udp_urgent, urgent__overtakes_for_all_ports, .timeout = 60)
{
	for (int i = 0; i < PAIRS; i++)
		single_before(&any, 1);
}

Test(udp_urgent, urgent__does_not_starve_others, .timeout = 60)
{
	struct conform_pair p;
	uint32_t seq, end, sent = 0, turns = 0;

	conform_open(&p, &udp);
	cr_assert_leq(count_overtaken(p.client, p.peer, p.server), 1);
	send_one(p.client, p.peer, BULK, 0);
	do
		send_one(p.client, p.peer, URGENT, sent++);
	while (take_next(p.server, &seq, &end) != BULK && ++turns < 100);
	cr_assert_lt(turns, 20, "a poll of its own");
	conform_close(&p);
}

/* A datagram in the urgent socket alone wakes the sleeper, and keeps a polling endpoint from
 * sleeping. */
Test(udp_urgent, wakes, .timeout = 60)
{
	struct conform_pair p;
	struct pollfd fd;
	uint32_t seq, end;

	conform_open(&p, &udp);
	cr_assert_leq(count_overtaken(p.client, p.peer, p.server), 1);
	cr_assert(p.server->ops->arm(p.server));
	fd = (struct pollfd){.fd = p.server->ops->fd(p.server), .events = POLLIN};
	cr_assert_eq(poll(&fd, 1, 0), 0);
	send_one(p.client, p.peer, URGENT, 7);
	cr_assert_eq(poll(&fd, 1, 10000), 1);
	cr_assert_not(p.server->ops->arm(p.server));
	cr_assert_eq(take_next(p.server, &seq, &end), URGENT);
	cr_assert_eq(seq, 7);
	cr_assert(p.server->ops->arm(p.server));
	conform_close(&p);
}
