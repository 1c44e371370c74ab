/* conform_tally - checks of received datagrams, and a sender that fills the queue. Layer: test. */
#include <string.h>

#include "io/conform.h"

enum { LOST_MS = 200 /* a datagram that has not arrived by then is lost */ };

static unsigned long tally_seed(const struct conform_tally *t)
{
	return (unsigned long)t->seed;
}

static void note_datagram(void *arg, const struct lend_in *in, uint32_t id, uint32_t seq)
{
	struct conform_tally *t = arg;

	(void)id;
	if (in->gone) {
		t->gone++;
		return;
	}
	cr_assert_lt(seq, t->sent, "invented: %u of %u; SEED=%lu", seq, t->sent, tally_seed(t));
	cr_assert_eq(t->mark[seq], 0, "%u received twice; SEED=%lu", seq, tally_seed(t));
	if (conform_has(t->row, LEND_CARRIER_LOSSLESS))
		cr_assert_eq(seq, t->next, "%u instead of %u; SEED=%lu", seq, t->next,
			     tally_seed(t));
	else if (t->ordered)
		cr_assert_geq(seq, t->next, "%u after %u; SEED=%lu", seq, t->next - 1,
			      tally_seed(t));
	t->mark[seq] = 1;
	t->next = seq + 1;
	t->count++;
}

void conform_settle(struct lend_io *io, struct conform_tally *t, uint32_t want)
{
	uint64_t lost = t->lost_ms ? t->lost_ms : LOST_MS;
	uint64_t wait = conform_has(t->row, LEND_CARRIER_LOSSLESS) ? conform_patience_ms : lost,
		 end = conform_ms() + wait;

	while (t->count < want && conform_ms() < end) {
		if (conform_take(io, note_datagram, t) > 0)
			end = conform_ms() + wait;
	}
	if (conform_has(t->row, LEND_CARRIER_LOSSLESS))
		cr_assert_eq(t->count, want, "%u of %u came; SEED=%lu", t->count, want,
			     tally_seed(t));
}

bool conform_fill(struct lend_io *io, uint32_t peer, struct conform_tally *t, uint32_t most)
{
	uint32_t len[CONFORM_BURST];

	for (uint32_t i = 0; i < CONFORM_BURST; i++)
		len[i] = 64;
	while (t->sent < most) {
		uint32_t n = most - t->sent < CONFORM_BURST ? most - t->sent : CONFORM_BURST;
		uint32_t sent = conform_burst(io, peer, t->sent, len, n);

		t->sent += sent;
		if (sent < n)
			return true;
	}
	return false;
}

void conform_expect(struct lend_io *io, const void *want, uint32_t len)
{
	struct lend_in in[1];
	uint64_t end = conform_ms() + conform_patience_ms;
	uint32_t n = 0;

	while (n == 0 && conform_ms() < end)
		n = io->ops->rx(io, in, 1);
	cr_assert_eq(n, 1, "%u bytes did not arrive", len);
	cr_assert(!in[0].gone);
	cr_assert_eq(in[0].len, len, "%u bytes arrived as %u", len, in[0].len);
	cr_assert(len == 0 || memcmp(in[0].data, want, len) == 0);
	io->ops->rx_done(io);
}
