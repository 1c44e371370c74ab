/* plan_draw - draws a plan from a seed: which faults occur at all, how often, and all sizes, half
 * of them at a boundary. Part of plan.h. Layer: test/sim. */
#include "core/cc.h"
#include "seal/suite.h"
#include "sim/plan.h"
#include "util/bits.h"
#include "util/rng.h"
#include "wire/pkt.h"

#define PICK(r, ...)                                                                               \
	pick_value(r, (const uint64_t[]){__VA_ARGS__},                                             \
		   sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t))

enum { FOREIGN_MAX = 20000 }; /* datagrams of others in a run */

static uint64_t pick_value(struct lend_rng *r, const uint64_t *of, size_t n)
{
	return of[lend_rng_below(r, n)];
}

static bool one_in(struct lend_rng *r, uint64_t n)
{
	return lend_rng_below(r, n) == 0;
}

/* Draws up to max, each magnitude with the same probability. */
static uint64_t draw_magnitude(struct lend_rng *r, uint64_t max)
{
	return 1 + lend_rng_below(r, 1 + (max >> lend_rng_below(r, 14)));
}

static uint64_t draw_rarely(struct lend_rng *r, uint64_t n, uint64_t max)
{
	return one_in(r, n) ? draw_magnitude(r, max) : 0;
}

static void draw_core(struct lend_rng *r, struct sim_plan *p)
{
	uint64_t payload;

	p->mtu = PICK(r, 1472, 1472, 1472, 1500, 256, 257, 300, 512, 576, 4096, 9000);
	payload = (p->mtu - sizeof(struct lend_pkt_trailer) - LEND_PKT_OVERHEAD) & ~UINT64_C(15);
	p->sessions = one_in(r, 6) ? 1 + lend_rng_below(r, 2 * p->nodes) : 4 * p->nodes;
	p->slots = PICK(r, 8, 8, 16, 1, 2, 3, 64, 64, 65);
	p->inflight = PICK(r, 32, 32, 32, 4, 8, 64, 100);
	p->reassemblies = PICK(r, 8, 8, 8, 1, 2, 3, 16, 33);
	p->unscheduled = PICK(r, 65536, 65536, 65536, 4096, 4097, 16384, 65535, 262144, 1048576);
	p->budget = PICK(r, 1048576, 1048576, 8388608, 65536, 65537, 16384, payload, payload + 1,
			 4 * payload);
	p->probe_us = PICK(r, 500000, 500000, 20000, 50000);
	p->dead_us = p->probe_us * PICK(r, 10, 10, 10, 3, 2);
	p->turn_ns = PICK(r, 0, 0, 100, 1000, 10000, 100000);
	p->ring = PICK(r, 256, 256, 256, 1024, 64, 16, 4, 1);
}

static void draw_work(struct lend_rng *r, struct sim_plan *p)
{
	uint64_t payload =
		     (p->mtu - sizeof(struct lend_pkt_trailer) - LEND_PKT_OVERHEAD) & ~UINT64_C(15),
		 each;

	p->len_max = PICK(r, 64, 64, payload, 2 * payload, 4097, 4 * payload, 65537, 65537, 70000,
			  p->unscheduled + 1, 300000, 1048577, 4194304);
	each = 2 + p->len_max / 3 / payload;
	/* About 40,000 datagrams on average, for short and long plans. */
	p->calls = 8 + lend_rng_below(r, 1 + (300000 / each >> lend_rng_below(r, 8)));
	p->message_max = one_in(r, 6) ? p->len_max - lend_rng_below(r, p->len_max / 2)
				      : PICK(r, 1048576, 4194304, 16777216);
	p->burst = PICK(r, 1, 1, 1, 4, 16, 100);
	p->later_ppm = draw_rarely(r, 2, 900000);
	p->later_us = PICK(r, 1, 10, 100, 1000, 10000, 50000);
	p->never_ppm = draw_rarely(r, 4, 50000);
	p->twice_ppm = draw_rarely(r, 3, 200000);
	p->fail_ppm = draw_rarely(r, 3, 200000);
	p->nest_ppm = draw_rarely(r, 3, 300000);
	p->back_ppm = draw_rarely(r, 2, 900000);
	p->chain_ppm = draw_rarely(r, 2, 900000);
	p->cancel_ppm = draw_rarely(r, 3, 300000);
	p->deadline_ppm = draw_rarely(r, 2, 900000);
	p->deadline_us = PICK(r, 1, 10, 100, 1000, 10000, 100000);
	p->named_ppm = draw_rarely(r, 2, 900000);
	p->refuse_ppm = draw_rarely(r, 5, 300000);
	p->hangup_ppm = draw_rarely(r, 5, 200000);
}

static void draw_net(struct lend_rng *r, struct sim_plan *p)
{
	p->mbps = PICK(r, 100000, 100000, 10000, 1000, 100);
	p->delay_ns = PICK(r, 5000, 5000, 0, 1, 500, 50000, 1000000, 20000000);
	p->jitter_ns = one_in(r, 3) ? draw_magnitude(r, 1 + 2 * p->delay_ns) : 0;
	p->buffer_kb = PICK(r, 4096, 4096, 512, 64, 16);
	p->share = one_in(r, 3) ? PICK(r, 1, 8, 64) : 0;
	p->mark_kb = one_in(r, 3) ? p->buffer_kb / 8 : 0;
	p->full_ppm = draw_rarely(r, 4, 300000);
}

static void draw_faults(struct lend_rng *r, struct sim_plan *p)
{
	p->loss_ppm = draw_rarely(r, 2, 300000);
	p->loss_mask = one_in(r, 8) ? lend_rng_next(r) & 0xffffff : 0;
	p->burst_ppm = draw_rarely(r, 4, 20000);
	p->burst_len = PICK(r, 2, 8, 64, 300);
	p->dup_ppm = draw_rarely(r, 3, 300000);
	p->reorder_ppm = draw_rarely(r, 3, 300000);
	p->reorder_ns = PICK(r, 1000, 100000, 1000000, 30000000);
	p->truncate_ppm = draw_rarely(r, 5, 50000);
	p->corrupt_ppm = draw_rarely(r, 4, 100000);
	p->replay_ppm = draw_rarely(r, 4, 50000);
	p->hostile_ppm = draw_rarely(r, 3, 500000);
	p->partition_us = one_in(r, 3) ? 1 + p->span_us / draw_magnitude(r, 20) : 0;
}

/* Some hundreds in the idle time as well, not a hundred thousand. */
static void thin_out(const struct sim_plan *p, uint64_t *mean_us)
{
	if (*mean_us)
		*mean_us = lend_max_u64(*mean_us, p->idle_us / 300);
}

static void draw_deaths(struct lend_rng *r, struct sim_plan *p)
{
	if (one_in(r, 4))
		p->crash_us = 1 + p->span_us / draw_magnitude(r, 20);
	if (one_in(r, 4))
		p->pause_us = 1 + p->span_us / draw_magnitude(r, 20);
	if (one_in(r, 20))
		p->idle_us = PICK(r, p->probe_us - 1, p->probe_us + 1, 2 * p->dead_us, 60000000);
	p->keep_ppm = p->seed % 2 * 1000000 / (1 + p->seed / 2 % 2);
	thin_out(p, &p->crash_us);
	thin_out(p, &p->pause_us);
	thin_out(p, &p->partition_us);
}

static void draw_mem(struct lend_rng *r, struct sim_plan *p)
{
	if (!one_in(r, 3))
		return;
	p->stores = 1 + lend_rng_below(r, p->nodes > 3 ? 2 : 1);
	p->memops = one_in(r, 3) ? 500 + draw_magnitude(r, 3000) : 20 + draw_magnitude(r, 600);
	p->pages = PICK(r, 256, 256, 16, 64, 1024);
	if (p->seed % 7 == 5) /* not drawn, so that the rest of a seed's plan is unchanged */
		p->page_bits = UINT64_C(0x10100e0d) >> p->seed / 7 % 4 * 8 & 31;
	if (p->seed % 61 == 7) {
		p->page_bits = 21;
		p->pages = 16;
	}
	p->clients = PICK(r, 1, 2, 2, 5);
	p->budget =
	    lend_max_u64(p->budget, 65536); /* operations are long: less only makes it slow */
	p->lease_us = PICK(r, 1000000, 1000000, 20000, 50000, 5000000);
	p->calls = p->calls / 4;
	p->sums = p->seed / 2 % 2;
	p->rot_ppm = p->sums * (p->seed % 8 != 2) * 100000;
}

/* Combinations that independent draws rarely produce: many small calls across long one-way
 * partitions; long messages, half of them into named memory, with too few reassemblies and a small
 * budget. */
static void draw_character(struct lend_rng *r, struct sim_plan *p)
{
	switch (lend_rng_below(r, 16)) {
	case 0:
		p->slots = PICK(r, 64, 64, 200);
		p->inflight = 200;
		p->len_max = 64;
		p->calls = lend_min_u64(p->calls, 20000);
		p->span_us = lend_max_u64(p->span_us, 200000);
		p->partition_us = p->lossless ? 0 : p->span_us / PICK(r, 2, 4, 16);
		return;
	case 1:
		p->named_ppm = 500000;
		p->reassemblies = PICK(r, 1, 2, 3);
		p->inflight = 64;
		p->budget = PICK(r, 16384, 65536, 65537, 100000);
		p->len_max = PICK(r, 100000, 300000);
		p->message_max = 1048576;
		p->calls = lend_min_u64(p->calls, 300);
		return;
	default:
		return;
	}
}

/* Some networks have several switches, most of those with more than one path. */
static void draw_racks(struct lend_rng *r, struct sim_plan *p)
{
	if (!one_in(r, 8) || p->lossless)
		return;
	p->racks = 2 + lend_rng_below(r, p->nodes - 1);
	p->spines = PICK(r, 1, 2, 4);
	p->speed = PICK(r, 1, 4);
	p->spread = lend_rng_below(r, 2);
}

/* Sessions that end and are opened again with 0-RTT calls. Not drawn, so that the rest of a seed's
 * plan is unchanged. */
static void add_early(struct sim_plan *p)
{
	static const uint64_t lives[] = {30000000, 1000, 100000, 1000000, 20000};

	if (p->seed % 4 != 3)
		return;
	p->ticket_us = lives[p->seed / 4 % 5];
	p->zero_rtt_ppm = p->seed / 20 % 2 ? 1000000 : 500000;
	p->hangup_ppm = lend_max_u64(p->hangup_ppm, 200000);
	p->attempts = p->seed / 40 % 2 ? 8 : 64;
	/* Copies of 0-RTT calls must arrive after the server has forgotten much of them. */
	if (!p->lossless)
		p->replay_ppm = lend_max_u64(p->replay_ppm, 50000);
}

/* Different numbers of slots, and sessions under a key. Not drawn either. */
static void add_handshake(struct sim_plan *p)
{
	if (p->seed % 8 == 2)
		p->keyed = 1 + p->seed / 8 % p->nodes;
	/* All messages are copied into sealed datagrams. */
	if (p->seed % 8 == 6)
		p->keyed = p->nodes;
	if (p->seed % 8 == 6 || p->seed % 16 == 2) {
		p->sealed = p->seed / 16 % 4 ? LEND_LEVEL_ENCRYPT : LEND_LEVEL_AUTHENTICATE;
		p->shared_ppm = 0;
	}
	if (p->seed % 8 == 4)
		p->slots_last = 1 + p->seed / 8 % p->slots;
}

/* Paths that differ in length, and traffic of others, up to half of a link. Not drawn either. */
static void add_network(struct sim_plan *p)
{
	static const uint64_t skews[] = {1000, 5000, 100, 50000};
	uint64_t per_mbps = (p->span_us + p->idle_us) * p->nodes;

	if (p->spines > 1 && p->seed % 2)
		p->skew_ns = skews[p->seed / 2 % 4];
	if (!p->lossless && p->seed % 16 == 13)
		p->foreign_mbps = lend_min_u64(p->mbps / 2, FOREIGN_MAX * p->mtu * 8 / per_mbps);
}

/* A node hoards while calls of one length are made one after the other over a network without
 * faults. Not drawn, so that the plans of other seeds are unchanged. */
static void add_hoard(struct lend_rng *r, struct sim_plan *p)
{
	static const uint64_t lens[] = {0, 64, 4000, 100000, 64};
	uint64_t seed = p->seed;

	if (seed % 37 != 22)
		return;
	*p = sim_plan_calm();
	p->seed = seed;
	p->hoard = 1 + seed / 37 % 4;
	p->nodes = 3 + lend_rng_below(r, 3);
	p->lossless = one_in(r, 4);
	p->checked = p->lossless;
	p->proven = p->lossless;
	p->calls = 60;
	p->len_min = p->len_max = lens[p->hoard];
	p->span_us = p->calls * 400;
	p->sessions = p->hoard == 4 ? 16 : 32;
	p->inflight = PICK(r, 64, 64, 100);
	p->reassemblies = PICK(r, 8, 16, 33);
	p->budget = PICK(r, 1048576, 8388608);
	p->cc = lend_rng_below(r, LEND_CC_KINDS);
	p->order = lend_rng_below(r, 3);
	p->classes = PICK(r, 1, 2, 8);
	p->hangup_ppm = p->hoard == 4 ? 300000 : 0;
	/* Longer than the reserve of the budget. With other congestion controls the latency of such
	 * calls varies by more than the oracle allows. */
	if (p->hoard == 3 && seed / 148 % 3 == 1)
		p->hoard = 5;
	if (p->hoard == 4 && seed / 148 % 2) {
		p->hoard = 6;
		p->sessions = 64;
		p->inflight = 256;
	}
	if (p->len_min == 100000 && seed / 148 % 2 &&
	    (p->cc == LEND_CC_NONE || p->cc == LEND_CC_CREDIT))
		p->len_min = p->len_max = 400000;
	else if (p->hoard == 3)
		p->hoard_mib = 2;
}

struct sim_plan sim_plan_draw(uint64_t seed)
{
	struct sim_plan p = sim_plan_calm();
	struct lend_rng r;
	uint64_t trip;

	lend_rng_seed(&r, seed);
	p.seed = seed;
	p.nodes = PICK(&r, 2, 2, 2, 3, 3, 4, 6);
	p.lossless = one_in(&r, 5);
	p.checked = p.lossless || one_in(&r, 5);
	p.proven = p.lossless;
	/* Not drawn, so that the rest of a seed's plan is unchanged. */
	p.shared_ppm = p.lossless && seed % 2 ? 600000 : 0;
	draw_core(&r, &p);
	draw_work(&r, &p);
	draw_net(&r, &p);
	p.span_us = PICK(&r, 100, 1000, 1000, 10000, 10000, 100000, 1000000);
	p.span_us = lend_max_u64(p.span_us, p.calls * p.len_max / p.mbps / 4);
	/* Most plans give their calls enough time: in the others calls find no slot. */
	trip = (2 * p.delay_ns + p.turn_ns + 4000) / 1000;
	if (!one_in(&r, 4))
		p.span_us = lend_max_u64(
		    p.span_us, 2 * p.calls * trip / (lend_min_u64(p.slots, p.inflight) * p.nodes));
	p.span_us = lend_min_u64(p.span_us, 4000000);
	if (!p.lossless)
		draw_faults(&r, &p);
	if (p.checked)
		p.corrupt_ppm = p.truncate_ppm = 0;
	draw_deaths(&r, &p);
	draw_character(&r, &p);
	draw_mem(&r, &p);
	p.budget = lend_max_u64(p.budget, p.len_max / 64); /* less only makes it slow */
	p.mtu_last = one_in(&r, 8) ? PICK(&r, 256, 272, 512, 1024) : 0;
	p.cc = lend_rng_below(&r, LEND_CC_KINDS);
	draw_racks(&r, &p);
	p.order = PICK(&r, 0, 0, 3, 1, 2);
	p.classes = PICK(&r, 1, 2, 8);
	if (!p.lossless)
		p.queues = PICK(&r, 1, 1, 8);
	p.bulk_pause_ppm = draw_rarely(&r, 4, 300000);
	p.bulk_pause_us = PICK(&r, 50, 50, 1, 10000);
	add_early(&p);
	add_network(&p);
	/* Not drawn either. */
	p.room = !p.lossless && seed % 3 == 0 ? p.ring : 0;
	p.joins = !p.lossless && seed % 3 == 1;
	p.defer_ppm = seed % 5 == 3 ? 300000 : 0;
	p.fast = seed / 3 % 3;
	if (seed % 16 == 5) /* long enough to park a call */
		p.later_us = 1500000;
	p.host_queue = seed % 16 == 9;
	if (seed % 16 == 11)
		p.audit = 1 + seed / 16 % 50;
	p.early_ppm = p.stores && !p.rot_ppm && seed % 3 ? 500000 : 0;
	add_handshake(&p);
	add_hoard(&r, &p);
	return p;
}
