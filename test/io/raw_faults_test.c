/* Goal: whatever arrives and whatever an mlx5 device does, the raw carrier counts it and keeps
 * working.
 * Method: both ends in one thread, over devices made of memory (raw/fake.c), with faults switched
 * on.
 * Covers: src/io/raw/carrier.c, src/io/raw/rx.c, src/io/raw/send.c, src/io/raw/peer.c */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "io/raw_pair.h"

TestSuite(raw_faults, .init = raw_set_up, .timeout = 60);

/* Invalid or foreign frames are counted, and none is delivered. */
static void send_altered(const uint8_t *good, uint32_t len, uint32_t at, uint8_t with)
{
	static uint8_t bytes[RAW_FRAME_MAX];

	memcpy(bytes, good, len);
	bytes[at] ^= with;
	fake->inject(bytes, len);
}

Test(raw_faults, foreign_traffic)
{
	enum { IP = 14, UDP = 34 };
	struct raw_pair p = raw_meet4();
	static uint8_t good[RAW_FRAME_MAX], tagged[RAW_FRAME_MAX];
	uint32_t len;

	cr_assert_eq(conform_send(p.a, p.peer, 1, 1, 100), LEND_SENT);
	len = fake->last_len;
	memcpy(good, fake->last, len);
	(void)raw_drain(p.b);
	fake->checks = 0;
	send_altered(good, len, UDP + 3, 1); /* another port */
	send_altered(good, len, 12, 1);      /* another protocol */
	cr_assert_eq(raw_drain(p.b), 0);
	cr_assert_eq(p.b->stats.rx_foreign, 2);
	send_altered(good, len, IP + 10, 1); /* wrong IPv4 header checksum */
	send_altered(good, len, UDP + 6, 1); /* wrong UDP checksum */
	cr_assert_eq(raw_drain(p.b), 0);
	cr_assert_eq(p.b->stats.rx_checksum, 2);
	memcpy(tagged, good, 12);
	memcpy(tagged + 12, "\x81\0\0\5", 4);
	memcpy(tagged + 16, good + 12, len - 12);
	fake->inject(tagged, len + 4);
	cr_assert_eq(raw_drain(p.b), 0);
	cr_assert_eq(p.b->stats.rx_foreign, 3, "a foreign VLAN");
	fake->inject(good, 30); /* truncated */
	cr_assert_eq(raw_drain(p.b), 0);
	cr_assert_eq(p.b->stats.rx_bad, 1);
	good[IP + 6] = 0x20; /* the first fragment of several */
	good[IP + 10] = (uint8_t)(good[IP + 10] + 0x20);
	fake->inject(good, len);
	cr_assert_eq(raw_drain(p.b), 0);
	cr_assert_eq(p.b->stats.rx_fragment, 1);
	raw_expect_alive(&p);
	raw_part(&p);
}

/* A checksum that the device verified is trusted. One that it did not verify is verified by the
 * carrier. */
Test(raw_faults, wrong_checksum_seen_by_the_device)
{
	struct raw_pair p = raw_meet4();
	static uint8_t good[RAW_FRAME_MAX];
	uint32_t len;

	cr_assert_eq(conform_send(p.a, p.peer, 1, 1, 100), LEND_SENT);
	len = fake->last_len;
	memcpy(good, fake->last, len);
	(void)raw_drain(p.b);
	good[40] = 0x12; /* a UDP checksum, and a wrong one */
	fake->checks = RAW_CQE_L3_OK;
	fake->inject(good, len);
	cr_assert_eq(raw_drain(p.b), 0);
	cr_assert_eq(p.b->stats.rx_checksum, 1);
	raw_part(&p);
}

/* Frames before an invalid completion are delivered. The queue is reset once none of its buffers is
 * lent. */
Test(raw_faults, a_completion_that_contradicts_the_rings)
{
	static const struct {
		uint32_t at;
		uint8_t with;
	} table[] = {
	    {RAW_CQE_OP_OWNER, (RAW_OP_RECEIVED ^ RAW_OP_FAILED) << 4},
	    {RAW_CQE_OP_OWNER, 0x0c},
	    {RAW_CQE_BUFFER + 1, 1},
	    {RAW_CQE_STRIDE, 0xff},
	    {RAW_CQE_BYTES, 0x3f},
	    {RAW_CQE_BYTES + 2, 0xff},
	};
	struct raw_pair p = raw_meet4();
	struct raw_tally t;

	for (uint32_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		raw_expect_alive(&p);
		for (uint32_t k = 0; k < 5; k++) {
			if (k == 2)
				fake->mangle[table[i].at] = table[i].with;
			cr_assert_eq(conform_send(p.a, p.peer, 1, k, 200), LEND_SENT);
		}
		t.n = 0;
		(void)conform_take(p.b, raw_count, &t);
		cr_assert_eq(t.n, 2, "frames before it");
		cr_assert_eq(fake->revived[RAW_RECEIVING], i);
		cr_assert(!p.b->ops->arm(p.b), "there is work");
		raw_take(p.b);
		cr_assert_eq(fake->revived[RAW_RECEIVING], i + 1);
		cr_assert_eq(p.b->stats.rx_bad, i + 1);
		cr_assert_eq(p.b->stats.resets, i + 1);
	}
	raw_expect_alive(&p);
	raw_part(&p);
}

static void expect_gone(struct raw_pair *p)
{
	struct raw_tally t = {0};

	for (int i = 0; i < 10; i++)
		(void)conform_take(p->a, raw_count, &t);
	cr_assert_eq(t.gone, 1, "its only peer, once");
	cr_assert(p->a->ops->arm(p->a), "and then it may sleep");
	cr_assert_eq(conform_send(p->a, p->peer, 1, 1, 100), LEND_SENT_DEAD);
	cr_assert_gt(p->a->stats.tx_dead, 0);
}

Test(raw_faults, failed_reset__ends_the_carrier)
{
	struct raw_pair p = raw_meet4();

	p.a->ops->pin(p.a, p.peer, true);
	raw_expect_alive(&p);
	fake->send_broken = fake->revive_fails = true;
	for (uint32_t i = 0; i < RAW_SEND_SLOTS; i++)
		(void)conform_send(p.a, p.peer, 1, i, 100);
	expect_gone(&p);
	raw_part(&p);
}

Test(raw_faults, the_device_is_taken_away)
{
	struct raw_pair p = raw_meet4();
	uint64_t end = conform_ms() + 5000;
	struct raw_tally t = {0};

	p.a->ops->pin(p.a, p.peer, true);
	fake->link = RAW_REMOVED;
	while (t.gone == 0 && conform_ms() < end)
		(void)conform_take(p.a, raw_count, &t);
	cr_assert_eq(t.gone, 1);
	cr_assert_eq(p.a->stats.link_down, 1);
	cr_assert_eq(conform_send(p.a, p.peer, 1, 1, 100), LEND_SENT_DEAD);
	raw_part(&p);
}

Test(raw_faults, the_link_goes_down_and_up)
{
	struct raw_pair p = raw_meet4();
	uint64_t end = conform_ms() + 5000;

	fake->link = RAW_DOWN;
	while (p.b->stats.link_down == 0 && conform_ms() < end)
		raw_take(p.b);
	cr_assert_eq(p.b->stats.link_down, 1);
	fake->link = RAW_UP;
	raw_expect_alive(&p);
	raw_part(&p);
}

Test(raw_faults, a_send_queue_that_stops)
{
	struct raw_pair p = raw_meet4();
	uint32_t sent = 0;

	raw_expect_alive(&p);
	fake->send_broken = true;
	while (fake->send_broken && sent < RAW_SEND_SLOTS)
		sent += conform_send(p.a, p.peer, 1, 0, 100) == LEND_SENT;
	cr_assert_eq(fake->revived[RAW_SENDING], 1);
	cr_assert_eq(p.a->stats.resets, 1);
	raw_expect_alive(&p);
	raw_part(&p);
}

/* Send slots are not reused before their frames are out. Full is reported, and ends. */
Test(raw_faults, a_device_that_lags)
{
	struct raw_pair p = raw_meet4();
	uint32_t sent = 0, got = 0;

	(void)raw_drain(p.b);
	fake->lag = RAW_SEND_SLOTS;
	while (conform_send(p.a, p.peer, 1, sent, 64 + sent % 1000) == LEND_SENT)
		sent++;
	cr_assert_geq(sent, RAW_SEND_SLOTS - RAW_SIGNAL);
	cr_assert_leq(sent, RAW_SEND_SLOTS);
	cr_assert_gt(p.a->stats.tx_full, 0);
	cr_assert(!p.a->ops->arm(p.a), "there is room again soon");
	for (int round = 0; round < 50; round++) {
		fake->lag = 300;
		for (uint32_t i = 0; i < 100; i++)
			sent += conform_send(p.a, p.peer, 1, sent, 64 + sent % 1000) == LEND_SENT;
		got += raw_drain(p.b);
	}
	fake->lag = 0;
	fake->settle();
	got += raw_drain(p.b);
	cr_assert_eq(got, sent);
	cr_assert_leq(fake->signals, sent / RAW_SIGNAL + 1, "one in %d", RAW_SIGNAL);
	raw_part(&p);
}

/* Completions are not believed beyond the sends that were posted. */
Test(raw_faults, completions_beyond_posts__are_ignored)
{
	struct raw_pair p = raw_meet4();

	for (int round = 0; round < 20; round++) {
		fake->signals_more = 1000000007;
		for (uint32_t i = 0; i < RAW_SEND_SLOTS; i++)
			cr_assert_eq(conform_send(p.a, p.peer, 1, i, 100), LEND_SENT);
		cr_assert_eq(raw_drain(p.b), RAW_SEND_SLOTS);
		(void)raw_drain(p.a);
		cr_assert(p.a->ops->arm(p.a), "and no peer is full");
	}
	raw_part(&p);
}

/* A burst rings one doorbell. Datagrams that the device does not accept get the result full. */
Test(raw_faults, a_burst_is_one_doorbell)
{
	struct raw_pair p = raw_meet4();
	struct lend_bufs none = {0};
	struct lend_out out[RAW_BURST];
	uint32_t before;

	for (uint32_t i = 0; i < RAW_BURST; i++)
		out[i] =
		    (struct lend_out){.head = "0123456789abcdef", .head_len = 16, .peer = p.peer};
	before = fake->posts;
	p.a->ops->tx(p.a, &none, out, RAW_BURST);
	cr_assert_eq(fake->posts, before + 1);
	fake->took_most = 5;
	p.a->ops->tx(p.a, &none, out, RAW_BURST);
	for (uint32_t i = 0; i < RAW_BURST; i++)
		cr_assert_eq(out[i].sent, i < 5 ? LEND_SENT : LEND_SENT_FULL);
	cr_assert_eq(p.a->stats.tx_full, RAW_BURST - 5);
	fake->took_most = 0;
	raw_part(&p);
}

/* More frames than fit while the receiver does not poll are lost and counted; then it works
 * again. */
Test(raw_faults, overrun)
{
	struct raw_pair p;
	uint64_t end;
	uint32_t room;

	fake->stride_log = 6;
	fake->strides_log = 5;
	p = raw_meet4();
	raw_expect_alive(&p);
	room = RAW_BUFFERS << 5;
	for (uint32_t i = 0; i < 2 * room; i++)
		cr_assert_eq(conform_send(p.a, p.peer, 1, i, 16), LEND_SENT);
	cr_assert_gt(fake->overruns, room / 2);
	cr_assert_gt(raw_drain(p.b), room / 2);
	end = conform_ms() + 5000;
	while (p.b->stats.rx_missed == 0 && conform_ms() < end)
		raw_take(p.b);
	cr_assert_eq(p.b->stats.rx_missed, fake->overruns);
	raw_expect_alive(&p);
	cr_assert_gt(fake->fillers, 0);
	raw_part(&p);
}

/* A receive buffer is partly used, wrapped and reused many times, with both completion sizes. */
static void go_round(uint32_t cqe_len)
{
	struct raw_pair p;

	fake->cqe_len = cqe_len;
	fake->stride_log = 7;
	fake->strides_log = 4; /* a full frame takes 12 of 16 */
	p = raw_meet4();
	for (uint32_t i = 0; i < 20000; i++) {
		cr_assert_eq(conform_send(p.a, p.peer, 1, i, 16 + i * 61 % 1457), LEND_SENT);
		if (i % 7 == 0)
			raw_take(p.b);
	}
	cr_assert_gt(fake->fillers, 100);
	cr_assert_eq(fake->overruns, 0);
	raw_expect_alive(&p);
	raw_part(&p);
}

Test(raw_faults, buffers__wrap)
{
	go_round(64);
	go_round(128);
}

/* Only dropped frames are lost. */
Test(raw_faults, drops)
{
	struct raw_pair p = raw_meet4();

	(void)raw_drain(p.b);
	fake->drop_every = 5;
	for (uint32_t i = 0; i < 1000; i++)
		cr_assert_eq(conform_send(p.a, p.peer, 1, i, 100), LEND_SENT);
	cr_assert_eq(raw_drain(p.b), 800);
	raw_part(&p);
}

/* Unknown senders share indices; each gets its replies. */
Test(raw_faults, more_senders_than_indices)
{
	enum { PORT_FROM = 34, PORT_TO = 36 };
	struct raw_pair p = raw_meet4();
	static uint8_t bytes[RAW_FRAME_MAX];
	struct lend_in in;
	uint32_t len;

	cr_assert_eq(conform_send(p.a, p.peer, 1, 1, 100), LEND_SENT);
	len = fake->last_len;
	memcpy(bytes, fake->last, len);
	(void)raw_drain(p.b);
	for (uint32_t i = 0; i < 3 * LEND_UDP_LOOSE_MAX; i++) {
		lend_eth_put16(bytes + PORT_FROM, 1000 + i);
		bytes[11] = (uint8_t)i; /* and another MAC */
		fake->inject(bytes, len);
		cr_assert_eq(p.b->ops->rx(p.b, &in, 1), 1);
		p.b->ops->rx_done(p.b);
		cr_assert_eq(conform_send(p.b, in.peer, 1, 1, 100), LEND_SENT);
		cr_assert_eq(lend_eth_get16(fake->last + PORT_TO), 1000 + i);
		cr_assert_eq(fake->last[5], (uint8_t)i);
	}
	raw_part(&p);
}

/* The peer's machine is replaced. Its new MAC is accepted once the old one is quiet. */
Test(raw_faults, a_peer_moves)
{
	struct raw_pair p = raw_meet4();
	uint64_t end = conform_ms() + 10000;
	char address[104];

	raw_expect_alive(&p);
	cr_assert_eq(p.b->ops->name(p.b, address, sizeof(address)), 0);
	p.b->ops->close(p.b);
	address[9] = '2'; /* an address with equal IP and port, on mlx5_2 */
	p.b = raw_open(address);
	cr_assert_eq(conform_send(p.a, p.peer, 1, 0, 100), LEND_SENT);
	cr_assert_eq(raw_drain(p.b), 0, "sent to the old one");
	/* The new machine sends without an ARP request: only its frames show the new MAC. */
	char back[104], address_of_a[160];
	uint32_t to_a;

	cr_assert_eq(p.a->ops->name(p.a, back, sizeof(back)), 0);
	back[9] = '2';
	snprintf(address_of_a, sizeof(address_of_a), "%s?mac=02:fa:ce:00:00:01", back);
	to_a = conform_resolve(p.b, address_of_a, p.a);
	cr_assert_eq(conform_send(p.b, to_a, 1, 0, 100), LEND_SENT);
	while (conform_ms() < end) {
		raw_take(p.a);
		cr_assert_eq(conform_send(p.a, p.peer, 1, 0, 100), LEND_SENT);
		if (raw_drain(p.b) > 0)
			break;
	}
	cr_assert_lt(conform_ms(), end, "found again");
	raw_part(&p);
}

Test(raw_faults, wakes)
{
	struct raw_pair p = raw_meet4();
	struct pollfd fd = {.fd = p.b->ops->fd(p.b), .events = POLLIN};

	(void)raw_drain(p.b);
	cr_assert(p.b->ops->arm(p.b));
	cr_assert_eq(poll(&fd, 1, 0), 0);
	cr_assert_eq(conform_send(p.a, p.peer, 1, 0, 100), LEND_SENT);
	cr_assert_eq(poll(&fd, 1, 5000), 1);
	cr_assert(!p.b->ops->arm(p.b), "not while a datagram waits");
	cr_assert_eq(raw_drain(p.b), 1);
	cr_assert(p.b->ops->arm(p.b));
	cr_assert_eq(poll(&fd, 1, 0), 0, "idle again");
	raw_part(&p);
}
