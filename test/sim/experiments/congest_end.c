#include "sim/experiments/congest_end.h"

#include <stdlib.h>
#include <string.h>

#include "util/bits.h"

enum { BURST = 32, LINE = 64 };

static void *zero_array(size_t n, size_t each)
{
	void *p = calloc(n, each);

	LEND_CHECK(p);
	return p;
}

/* Maps a zeroed arena. Most of it is never touched. */
static void *map_arena(size_t size)
{
	uint8_t *raw = zero_array(1, size + LINE + sizeof(void *));
	uint8_t *at = (uint8_t *)lend_align_up((uintptr_t)raw + sizeof(void *), LINE);

	memcpy(at - sizeof(raw), &raw, sizeof(raw));
	return at;
}

void congest_end_open(struct sim *sim, uint32_t id, struct congest_end *end, uint32_t n)
{
	lend_store_u64(end->cfg.incarnation, id + 1);
	lend_store_u64(end->cfg.seed, sim->plan.seed * 8191 + id);
	end->cfg.path[0] = (struct lend_path){.mtu = (uint32_t)sim->plan.mtu - LEND_RECORD_TRAILER,
					      .counts = sim->plan.host_queue == 1};
	end->core = map_arena(lend_core_size(&end->cfg));
	lend_core_init(end->core, &end->cfg, sim->now);
	end->turn = end->late = LEND_NEVER;
	end->bufs = (struct lend_bufs){zero_array(n, sizeof(struct lend_seg)), n};
	end->lent = zero_array(n, sizeof(bool));
	for (uint32_t b = n - 1; b > 0; b--) {
		end->bufs.seg[b].next = end->free;
		end->free = b;
	}
}

void congest_end_close(struct congest_end *end)
{
	void *raw;

	for (uint32_t b = 1; b < end->bufs.n; b++)
		if (!end->lent[b])
			free(end->bufs.seg[b].data);
	if (end->core) {
		memcpy(&raw, (uint8_t *)end->core - sizeof(raw), sizeof(raw));
		free(raw);
	}
	free(end->bufs.seg);
	free(end->lent);
	free(end->ring);
}

static uint32_t take_handle(struct sim *sim, struct congest_end *end)
{
	uint32_t b = end->free;

	SIM_CHECK(sim, b, "an end has no buffer left");
	end->free = end->bufs.seg[b].next;
	return b;
}

uint32_t congest_buf(struct sim *sim, struct congest_end *end, uint32_t cap)
{
	uint32_t b = take_handle(sim, end);

	end->bufs.seg[b] = (struct lend_seg){malloc(cap + !cap), cap, cap, 0, 0};
	LEND_CHECK(end->bufs.seg[b].data);
	return b;
}

uint32_t congest_wrap(struct sim *sim, struct congest_end *end, void *data, uint32_t len)
{
	uint32_t b = take_handle(sim, end);

	end->bufs.seg[b] = (struct lend_seg){data, len, len, 0, 0};
	end->lent[b] = true;
	return b;
}

void congest_unbuf(struct congest_end *end, uint32_t buf)
{
	for (uint32_t next; buf; buf = next) {
		struct lend_seg *seg = &end->bufs.seg[buf];

		next = seg->next;
		if (!end->lent[buf])
			free(seg->data);
		seg->data = NULL;
		end->lent[buf] = false;
		seg->next = end->free;
		end->free = buf;
	}
}

static void look_at(struct sim *sim, uint32_t id, struct congest_end *end, lend_ns at)
{
	if (at >= end->late)
		return;
	end->late = at;
	sim_at(sim, at, SIM_TURN, id, 0);
}

void congest_kick(struct sim *sim, uint32_t id, struct congest_end *end)
{
	lend_ns at = lend_max_u64(sim->now, end->busy);

	if (end->turn <= at)
		return;
	end->turn = at;
	if (end->turn < end->late)
		sim_at(sim, end->turn, SIM_TURN, id, 0);
}

void congest_arrive(struct sim *sim, uint32_t id, struct congest_end *end, uint32_t flight)
{
	if (end->ring_n == end->ring_cap) {
		end->ring_cap = 2 * end->ring_cap + 16;
		end->ring = realloc(end->ring, end->ring_cap * sizeof(*end->ring));
		LEND_CHECK(end->ring);
	}
	end->ring[end->ring_n++] = flight;
	congest_kick(sim, id, end);
}

static void handle_events(struct sim *sim, uint32_t id, struct congest_end *end,
			  congest_event *event)
{
	const struct lend_event *ev;

	while ((ev = lend_core_next(end->core)))
		event(sim, id, ev);
	while (lend_core_supply_wanted(end->core))
		lend_core_supply(end->core, congest_buf(sim, end, end->cfg.unscheduled));
}

static void receive_datagrams(struct sim *sim, struct congest_end *end, const uint32_t *flight,
			      uint32_t n)
{
	struct lend_in in[BURST];

	for (uint32_t i = 0; i < n; i++) {
		const struct sim_flight *f = sim_net_flight(sim, flight[i]);

		in[i] = (struct lend_in){
		    .data = f->data, .len = f->len, .peer = LEND_PEER(0, f->from), .ecn = f->ecn};
	}
	lend_core_input(end->core, sim->now, &end->bufs, in, n);
}

/* A run of datagrams to or from one peer. */
struct batch {
	uint32_t peer, len;
};

/* Adds a datagram to the batch, or begins the next one. Returns its CPU time. */
static lend_ns batch_ns(const struct sim *sim, struct batch *b, uint32_t peer)
{
	if (b->len > 0 && b->peer == peer && b->len < sim->plan.gso) {
		b->len++;
		return 0;
	}
	*b = (struct batch){peer, 1};
	return sim->plan.cpu_ns;
}

/* Returns how many datagrams the carrier accepts. A batch is not divided. */
static uint32_t carrier_room(struct sim *sim, uint32_t id)
{
	uint32_t room = sim_net_room(sim, id, BURST);

	return room ? lend_max_u32(room, (uint32_t)sim->plan.gso) : 0;
}

/* Sends datagrams. False: the link's queue is full. */
static bool transmit_burst(struct sim *sim, uint32_t id, struct congest_end *end)
{
	struct lend_out out[BURST];
	struct batch batch = {0};
	uint32_t n, cap;

	end->busy = sim->now;
	while ((cap = carrier_room(sim, id)) > 0) {
		n = lend_core_output(end->core, sim->now, &end->bufs, out, cap);
		if (n == 0)
			return true;
		for (uint32_t i = 0; i < n; i++) {
			out[i].sent = (uint8_t)sim_net_send(sim, id, &end->bufs, &out[i]);
			end->busy += batch_ns(sim, &batch, LEND_PEER_INDEX(out[i].peer));
		}
		lend_core_sent(end->core, out, n);
	}
	return false;
}

/* Begins a turn. Datagrams that arrive until its end belong to the next one. */
static void begin_turn(struct sim *sim, struct congest_end *end)
{
	struct batch batch = {0};

	end->working = true;
	end->taken = end->ring_n;
	end->busy = sim->now + sim->plan.turn_ns;
	for (uint32_t i = 0; i < end->taken; i++)
		end->busy += batch_ns(sim, &batch, sim_net_flight(sim, end->ring[i])->from);
	end->turn = end->busy;
}

static void forget_taken(struct sim *sim, struct congest_end *end)
{
	for (uint32_t i = 0; i < end->taken; i++)
		sim_net_free(sim, end->ring[i]);
	end->ring_n -= end->taken;
	if (end->ring_n)
		memmove(end->ring, end->ring + end->taken, end->ring_n * sizeof(*end->ring));
}

static void end_turn(struct sim *sim, uint32_t id, struct congest_end *end, congest_event *event)
{
	uint32_t taken = end->taken, n;
	lend_ns next;
	bool all;

	handle_events(sim, id, end, event);
	for (uint32_t i = 0; i < taken; i += n) {
		n = lend_min_u32(taken - i, BURST);
		receive_datagrams(sim, end, end->ring + i, n);
		handle_events(sim, id, end, event);
	}
	forget_taken(sim, end);
	if (sim->plan.host_queue == 1 && lend_core_host_queue_due(end->core, 0))
		lend_core_host_queue(end->core, sim->now, 0, sim_net_queued(sim, id));
	if (lend_core_deadline(end->core) <= sim->now)
		lend_core_tick(end->core, sim->now);
	handle_events(sim, id, end, event);
	all = transmit_burst(sim, id, end);
	handle_events(sim, id, end, event);
	next = lend_core_deadline(end->core);
	if (next != LEND_NEVER)
		next = lend_max_u64(next, sim->now + 1);
	end->working = false;
	end->turn = end->ring_n ? end->busy : all ? next : sim_net_drained(sim, id);
	end->turn = lend_max_u64(end->turn, end->busy);
	look_at(sim, id, end, end->turn);
}

void congest_wake(struct sim *sim, uint32_t id, struct congest_end *end, congest_event *event)
{
	if (end->late == sim->now)
		end->late = LEND_NEVER;
	if (end->turn <= sim->now && !end->working)
		begin_turn(sim, end);
	if (end->turn <= sim->now)
		end_turn(sim, id, end, event);
	else
		look_at(sim, id, end, end->turn);
}
