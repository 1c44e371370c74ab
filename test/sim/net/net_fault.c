/* net_fault - faults of a network: what happens to one datagram, and which pairs are partitioned.
 * Each fault has its own random stream and draws nothing while it is off. Layer: test/sim. */
#include "core/sess.h"
#include "sim/net/net_state.h"
#include "util/bits.h"
#include "util/crc32c.h"
#include "util/siphash.h"

enum { UNCOVERED = 12 }; /* trailer bytes that the checksum does not cover */

/* Adds a line to the trace. Returns the state of the session at the receiver. */
static unsigned trace_fault(struct sim *sim, const struct sim_flight *f, const char *what)
{
	struct lend_core *core = sim->node[f->to].core;
	struct lend_sess *s = NULL;
	struct lend_pkt head = {0};

	if (f->len >= sizeof(head)) {
		memcpy(&head, f->data, sizeof(head));
		s = core ? lend_sess_find(core, head.session) : NULL;
	}
	sim_trace_add(&sim->trace, sim->now, what, f->from, f->to, head.kind, head.number);
	return s ? s->state : LEND_SESS_FREE;
}

void net_mark(struct sim *sim, const struct sim_flight *f, const char *what, size_t by_state)
{
	sim_mark_at(&sim->marks, by_state, trace_fault(sim, f, what));
}

static void count_fault(struct sim *sim, const struct sim_flight *f, const char *what,
			size_t by_state)
{
	sim->count.faults++;
	net_mark(sim, f, what, by_state);
}

static bool in_burst(struct sim *sim)
{
	struct sim_net *n = sim->net;

	if (n->burst == 0 && sim_odds(sim, SIM_RNG_BURST, n->plan.burst_ppm))
		n->burst = 1 + (uint32_t)sim_below(sim, SIM_RNG_BURST, n->plan.burst_len + 1);
	return n->burst > 0 && n->burst-- > 0;
}

static bool is_lost(struct sim *sim, const struct sim_flight *f)
{
	struct sim_net *n = sim->net;
	uint64_t nth = n->ledger.sent - 1;

	if (n->cut && n->cut[f->from * n->nodes + f->to]) {
		sim->count.faults++;
		SIM_MARK(sim, cut_off);
		trace_fault(sim, f, "cut off");
		return true;
	}
	if ((nth < 64 && n->plan.loss_mask >> nth & 1) || in_burst(sim) ||
	    sim_odds(sim, SIM_RNG_LOSS, n->plan.loss_ppm)) {
		count_fault(sim, f, "lost", SIM_MARK_OF(lost));
		return true;
	}
	return false;
}

/* True when the checksum is right. */
static bool checksum_good(const struct sim_flight *f)
{
	uint32_t body = f->len - (uint32_t)sizeof(struct lend_pkt_trailer);

	return f->len > sizeof(struct lend_pkt_trailer) &&
	       lend_load_u32(f->data + body) == lend_crc32c(0, f->data, body);
}

static bool is_sealed(const struct sim_flight *f)
{
	return f->len > offsetof(struct lend_pkt, flags) &&
	       f->data[offsetof(struct lend_pkt, flags)] & LEND_PKT_ENCRYPTED;
}

/* Returns a number that differs for other bytes. */
static uint64_t sum_bytes(const struct sim_flight *f)
{
	static const uint8_t key[16];

	return lend_siphash64(key, f->data, f->len);
}

static void swap_halves(uint8_t *data, uint32_t len)
{
	for (uint32_t i = 0; i < len / 2; i++) {
		uint8_t byte = data[i];

		data[i] = data[len / 2 + i];
		data[len / 2 + i] = byte;
	}
}

static void spoil_datagram(struct sim *sim, uint8_t *data, uint32_t len)
{
	uint64_t how = sim_below(sim, SIM_RNG_CORRUPT, 8);
	uint64_t bit;

	if (how == 0) {
		swap_halves(data, len);
	} else if (how < 3) {
		for (uint64_t n = how; n > 0; n--)
			data[sim_below(sim, SIM_RNG_CORRUPT, len)] =
			    (uint8_t)sim_below(sim, SIM_RNG_CORRUPT, 256);
	} else {
		for (uint64_t n = how / 2; n > 0; n--) {
			bit = sim_below(sim, SIM_RNG_CORRUPT, 8 * len);
			data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
	}
}

/* Corrupts a datagram so that its checksum detects it. If the change undid an earlier one, corrupts
 * it again. */
static void corrupt_flight(struct sim *sim, struct sim_flight *f)
{
	uint32_t covered = f->len - (is_sealed(f) ? 0 : UNCOVERED);
	bool sealed = is_sealed(f);
	uint64_t sum = sum_bytes(f);

	count_fault(sim, f, "corrupted", SIM_MARK_OF(corrupted));
	for (int tries = 0; tries < 8 && !f->forged; tries++) {
		spoil_datagram(sim, f->data, covered);
		f->forged = sealed ? sum_bytes(f) != sum : !checksum_good(f);
	}
}

static void truncate_flight(struct sim *sim, struct sim_flight *f)
{
	sim->count.faults++;
	SIM_MARK(sim, truncated);
	trace_fault(sim, f, "truncated");
	f->len = sim_below(sim, SIM_RNG_TRUNCATE, 4)
		     ? (uint32_t)sim_below(sim, SIM_RNG_TRUNCATE, f->len)
		     : f->len - 1;
	f->forged = !checksum_good(f);
}

static void copy_flight(struct sim *sim, struct sim_flight *f)
{
	struct sim_net *n = sim->net;
	struct sim_flight *g = net_copy(sim, f);

	count_fault(sim, f, "copied", SIM_MARK_OF(copied));
	n->ledger.copied++;
	if (sim_below(sim, SIM_RNG_DUP, 2))
		net_launch(sim, g);
	else
		net_later(sim, g,
			  sim->now + n->plan.delay_ns +
			      sim_below(sim, SIM_RNG_DUP, 2 * n->plan.reorder_ns + 1));
}

void net_faults(struct sim *sim, struct sim_flight *f)
{
	struct sim_net *n = sim->net;

	if (n->tape.entry) {
		net_record(sim, f);
		if (sim_odds(sim, SIM_RNG_REPLAY, n->plan.replay_ppm))
			net_replay_one(sim, NET_END);
	}
	if (is_lost(sim, f)) {
		net_lose(sim, f);
		return;
	}
	if (sim_odds(sim, SIM_RNG_DUP, n->plan.dup_ppm))
		copy_flight(sim, f);
	/* Without a trailer, the carrier itself protects datagrams. */
	if (!n->plan.checked && sim_odds(sim, SIM_RNG_CORRUPT, n->plan.corrupt_ppm))
		corrupt_flight(sim, f);
	else if (!n->plan.checked && sim_odds(sim, SIM_RNG_TRUNCATE, n->plan.truncate_ppm))
		truncate_flight(sim, f);
	if (!sim_odds(sim, SIM_RNG_REORDER, n->plan.reorder_ppm)) {
		net_launch(sim, f);
		return;
	}
	count_fault(sim, f, "held back", SIM_MARK_OF(held_back));
	net_later(sim, f,
		  sim->now + n->plan.delay_ns +
		      sim_below(sim, SIM_RNG_REORDER, n->plan.reorder_ns + 1));
}

/* Draws a duration: mostly short; some exceed the RTO, the probe interval, or the peer's
 * timeout. */
static lend_ns how_long(struct sim *sim)
{
	static const lend_ns longest[] = {1000, 300000, 3000000, 200000000, 1200000000, 7000000000};
	uint64_t mean = sim->net->plan.partition_us * 1000, i;

	if (sim_below(sim, SIM_RNG_PARTITION, 2))
		return 1 + sim_below(sim, SIM_RNG_PARTITION, mean);
	i = sim_below(sim, SIM_RNG_PARTITION, sizeof(longest) / sizeof(longest[0]));
	return 1 + sim_below(sim, SIM_RNG_PARTITION, longest[i]);
}

void net_partition_next(struct sim *sim)
{
	sim_at(sim,
	       sim->now + 1 + sim_below(sim, SIM_RNG_PARTITION, 2000 * sim->net->plan.partition_us),
	       SIM_PARTITION, NET_END, 0);
}

/* a: NET_END: one begins; else the one from a to b ends. */
void net_partition(struct sim *sim, uint32_t a, uint32_t b)
{
	struct sim_net *n = sim->net;
	uint8_t *cut;

	if (!n->faulty)
		return;
	if (a != NET_END) {
		n->cut[a * n->nodes + b] = 0;
		return;
	}
	a = (uint32_t)sim_below(sim, SIM_RNG_PARTITION, n->nodes);
	b = (uint32_t)((a + 1 + sim_below(sim, SIM_RNG_PARTITION, n->nodes - 1)) % n->nodes);
	cut = &n->cut[a * n->nodes + b];
	if (!*cut) {
		*cut = 1;
		sim->count.faults++;
		sim_trace_add(&sim->trace, sim->now, "partition", a, b, 0, 0);
		sim_at(sim, sim->now + how_long(sim), SIM_PARTITION, a, b);
	}
	net_partition_next(sim);
}
