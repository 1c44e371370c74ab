#include "core/flight.h"

#include "core/peer_window.h"

enum {
	ROUNDS = 8, /* of rounds that were held back: how long a rate counts, at least */
	DRAIN = 2,  /* rounds in which the queue drains */
	ENOUGH = 8, /* datagrams in a round that show a rate */
	LOST = 3, /* datagrams of a round, and one in SHARE at least, that are not random losses */
	SHARE = 32,
	CALM = 8, /* rounds without a queue after such losses */
	FLAT = 3, /* rounds held back in a row without a higher rate that end the start */
};
#define HOST_NS (1 * LEND_MS)
#define ROUND   (1 * LEND_MS) /* a round of this duration shows a rate, too */

/* Notes an RTT sample: in the last round of a drained queue, of a new minimum. */
static void note_trip(struct lend_flight *f, lend_ns trip, lend_ns now)
{
	uint32_t *least = f->drain == 1 ? &f->fresh : &f->trip;

	if (trip == 0 || trip >= UINT32_MAX || (*least && trip > *least))
		return;
	*least = (uint32_t)trip;
	f->trip_at = now;
}

static uint32_t best_rate(const struct lend_flight *f)
{
	return lend_max_u32(f->rate[0], f->rate[1]);
}

static void note_rate(struct lend_flight *f, uint32_t rate)
{
	if (rate / 5 > best_rate(f) / 4)
		f->flat = 0;
	else if (f->held && f->flat < FLAT)
		f->flat++;
	if (f->held && ++f->rounds > ROUNDS) {
		f->rate[1] = f->rate[0];
		f->rate[0] = 0;
		f->rounds = 0;
	}
	f->rate[0] = lend_max_u32(f->rate[0], rate);
	f->held = false;
}

static void set_limit(struct lend_flight *f)
{
	uint64_t rate = best_rate(f), trips = f->drain ? 2 : f->calm ? 5 : f->flat < FLAT ? 8 : 6;
	lend_ns time = trips * f->trip / 4 + (f->drain ? 0 : HOST_NS);

	if (rate == 0 || f->trip == 0)
		return;
	f->limit = (uint32_t)lend_min_u64(
	    lend_max_u64(rate * time / (1000 * LEND_MS), LEND_FLIGHT_LEAST), UINT32_MAX);
}

static struct lend_flight *flight_of(struct lend_core *c, struct lend_sess *s)
{
	struct lend_flight *f = &lend_few_of(c, s)->flight;
	const struct lend_peer *p = lend_peer_of(c, s);

	if (!s->has_flight) {
		*f = (struct lend_flight){.round = s->number,
					  .began = c->now,
					  .trip_at = c->now,
					  .trip = p->trip,
					  .rate = {p->rate},
					  .out = (uint32_t)(s->number - s->oldest),
					  .limit = UINT32_MAX};
		set_limit(f);
		s->has_flight = 1;
	}
	return f;
}

void lend_flight_keep(struct lend_core *c, const struct lend_sess *s)
{
	const struct lend_flight *f = &lend_few_of(c, s)->flight;
	struct lend_peer *p = lend_peer_of(c, s);

	if (!s->has_flight || !f->trip || !best_rate(f))
		return;
	p->trip = f->trip;
	p->rate = best_rate(f);
}

/* Begins to drain the queue when the smallest round trip is stale, and takes the new one in the
 * end.
 */
static void renew_trip(struct lend_flight *f, lend_ns now)
{
	if (!f->drain) {
		f->drain =
		    f->limit != UINT32_MAX && now - f->trip_at > LEND_FLIGHT_STALE ? DRAIN : 0;
		f->fresh = 0;
	} else if (--f->drain == 0 && f->fresh) {
		f->trip = f->fresh;
	}
}

/* Leaves the queue to others for a while after more than random losses: the buffer is full. */
static void note_losses(struct lend_flight *f)
{
	if (f->lost >= LOST && f->lost * SHARE > f->acked + f->lost)
		f->calm = CALM;
	else if (f->calm)
		f->calm--;
}

static void end_round(struct lend_flight *f, uint64_t next, lend_ns now)
{
	lend_ns span = lend_max_u64(now - f->began, 1);

	if (f->acked >= ENOUGH || (f->acked && span >= ROUND))
		note_rate(f, (uint32_t)lend_min_u64(f->acked * UINT64_C(1000) * LEND_MS / span,
						    UINT32_MAX));
	note_losses(f);
	renew_trip(f, now);
	set_limit(f);
	f->acked = f->lost = 0;
	f->round = next;
	f->began = now;
}

void lend_flight_reported(struct lend_core *c, struct lend_sess *s, const struct lend_cc_report *r)
{
	struct lend_flight *f = flight_of(c, s);

	note_trip(f, r->rtt, c->now);
	f->acked += r->seen;
	f->lost += r->lost;
	f->out -= lend_min_u32(f->out, r->seen + r->lost);
	if (r->acked >= f->round)
		end_round(f, s->number, c->now);
}
