/* sim_node_seal - the records of a node, between its core and the network: CRC32C, or the tag of
 * sessions under a key. Part of sim_node.h. Layer: test/sim. */
#include <stdlib.h>

#include "core/arena.h"
#include "kit/toy_suite.h"
#include "sim/hoard.h"
#include "sim/oracle/oracle.h"
#include "util/bits.h"
#include "util/siphash.h"

enum { LINE = 64 };

/* Limits in some seeds, so that keys change often. */
static struct lend_records_limits limits_of(const struct sim_plan *p)
{
	static const uint64_t datagrams[] = {0, 1, 3, 50}, us[] = {0, 0, 1000, 100000};

	return (struct lend_records_limits){.epoch_datagrams = datagrams[p->seed / 32 % 4],
					    .epoch_ns = us[p->seed / 128 % 4] * 1000};
}

static void *take_memory(void *arg, size_t len)
{
	void *memory = aligned_alloc(LINE, len);

	(void)arg;
	LEND_CHECK(memory);
	memset(memory, 0, len);
	return memory;
}

static void give_memory(void *arg, void *memory, size_t len)
{
	(void)arg;
	(void)len;
	free(memory);
}

/* A copy of PROOF is acknowledged, too, but not sealed: it shows no keys. The sessions of endpoints
 * have none. */
static uint64_t acked_by(void *arg, uint64_t session)
{
	const struct sim_node *n = arg;
	uint64_t acked = lend_core_session_acked(n->core, session);
	const struct sim_bare *bare = &n->bare[session & 0xffffff];

	return bare->session == session && acked < 64 && bare->numbers >> acked & 1 ? 0 : acked;
}

static void answer_stray(void *arg, const struct lend_in *in)
{
	struct sim_node *n = arg;

	lend_core_stray(n->core, n->seal_now, in);
}

void sim_node_seal_open(struct sim *sim, struct sim_node *n)
{
	const struct lend_records_calls calls = {.take = take_memory,
						 .give = give_memory,
						 .acked = acked_by,
						 .stray = answer_stray,
						 .arg = n};

	if (!n->keys) {
		n->keys = calloc(sim->plan.sessions, sizeof(struct lend_record_keys *));
		n->epoch = calloc(sim->plan.sessions, sizeof(*n->epoch));
		n->bare = calloc(sim->plan.sessions, sizeof(*n->bare));
		n->seal_room = aligned_alloc(LINE, SIM_BURST * lend_records_room(UINT16_MAX));
		LEND_CHECK(n->keys && n->epoch && n->bare && n->seal_room);
	} else {
		lend_records_end(&n->records);
	}
	lend_records_begin(&n->records, &lend_toy_ops, &calls, n->keys,
			   (uint32_t)sim->plan.sessions);
	n->records.limits = limits_of(&sim->plan);
}

void sim_node_seal_close(struct sim_node *n)
{
	if (n->keys)
		lend_records_end(&n->records);
	free(n->keys);
	free(n->epoch);
	free(n->bare);
	free(n->seal_room);
}

static struct lend_records_path path_of(const struct sim *sim)
{
	return (struct lend_records_path){.checked = sim->plan.checked,
					  .lossless = sim->plan.lossless};
}

/* Both ends derive the same secrets from what they have proven. */
void sim_node_seal_proven(struct sim *sim, struct sim_node *n, uint64_t session,
			  const uint8_t transcript[LEND_TRANSCRIPT])
{
	struct lend_seal_keys keys = {
	    .session = session, .suite = LEND_SUITE_TEST, .level = (uint8_t)sim->plan.sealed};
	uint64_t client = lend_load_u64(transcript + SIM_CLIENT_AT),
		 server = lend_load_u64(transcript + SIM_SERVER_AT);
	bool here = client == session;
	uint8_t key[2][16] = {{1}, {2}};

	if (!sim->plan.sealed)
		return;
	keys.peer_id = here ? server : client;
	lend_siphash128(key[0], transcript, LEND_TRANSCRIPT, here ? keys.tx : keys.rx);
	lend_siphash128(key[1], transcript, LEND_TRANSCRIPT, here ? keys.rx : keys.tx);
	LEND_CHECK(lend_records_install(&n->records, sim->now, &keys) == 0);
}

uint32_t sim_node_open_burst(struct sim *sim, struct sim_node *n, struct lend_in *in, uint32_t k)
{
	const struct lend_records_path path = path_of(sim);
	uint64_t opened = n->records.stats.opened;
	uint8_t suite;

	if (path.checked && !sim->plan.sealed)
		return k;
	n->seal_now = sim->now;
	k = lend_records_open(&n->records, &path, sim->now, in, k);
	for (uint32_t i = 0; i < k && opened != n->records.stats.opened; i++)
		if (in[i].len >= sizeof(struct lend_pkt) &&
		    lend_records_level(&n->records, lend_pkt_session(in[i].data), &suite) &&
		    !lend_record_is_bare(
			((const uint8_t *)in[i].data)[offsetof(struct lend_pkt, kind)]))
			sim_oracle_opened(sim, n, &in[i]);
	return k;
}

static bool was_sealed(const struct lend_out *wire)
{
	return ((const uint8_t *)wire->head)[offsetof(struct lend_pkt, flags)] & LEND_PKT_ENCRYPTED;
}

static void note_bare(const struct sim *sim, struct sim_node *n, const struct lend_out *out)
{
	uint64_t number =
	    lend_load_u64((const uint8_t *)out->head + offsetof(struct lend_pkt, number));
	uint64_t id = out->sess < sim->plan.sessions ? lend_sess_at(n->core, out->sess)->id : 0;
	struct sim_bare *bare;

	if (!id || number >= 64)
		return;
	bare = &n->bare[out->sess];
	if (bare->session != id)
		*bare = (struct sim_bare){.session = id};
	bare->numbers |= UINT64_C(1) << number;
}

void sim_node_send_burst(struct sim *sim, struct sim_node *n, struct lend_out *out, uint32_t k)
{
	const struct lend_records_path path = path_of(sim);
	const struct lend_records_memory room = {
	    n->seal_room, n->seal_room + SIM_BURST * lend_records_room(UINT16_MAX)};
	struct lend_out wire[SIM_BURST];

	memcpy(wire, out, k * sizeof(*out));
	if (!path.checked || sim->plan.sealed)
		SIM_CHECK(
		    sim,
		    lend_records_seal(&n->records, &path, sim->now, &n->bufs, room, wire, k) == k,
		    "node %u: a datagram must not leave", n->id);
	for (uint32_t i = 0; i < k; i++) {
		if (was_sealed(&wire[i]))
			sim_oracle_sealed(sim, n, &out[i], &wire[i]);
		else
			note_bare(sim, n, &out[i]);
		out[i].sent = (uint8_t)sim_hoard_send(sim, n->id, &n->bufs, &wire[i]);
	}
}
