/* oracle_seal - which datagrams were sealed: each number of a session once, and no others are ever
 * accepted, each of them once. Part of oracle.h. Layer: test/sim. */
#include <stdlib.h>

#include "core/arena.h"
#include "sim/oracle/oracle.h"
#include "util/bits.h"

/* By the receiver's id of the session, and the number. */
struct sealed {
	uint64_t session; /* 0: empty */
	uint64_t number;
	uint64_t hash; /* of the datagram in clear */
	bool taken;
};

struct sim_seals {
	struct sealed *at;
	uint32_t n, cap; /* a power of two */
};

void sim_oracle_seals_open(struct sim *sim)
{
	sim->seals = calloc(1, sizeof(*sim->seals));
	LEND_CHECK(sim->seals);
}

void sim_oracle_seals_close(struct sim *sim)
{
	if (sim->seals)
		free(sim->seals->at);
	free(sim->seals);
	sim->seals = NULL;
}

static uint64_t mix_word(uint64_t hash, uint64_t word)
{
	hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

static uint64_t hash_bytes(uint64_t hash, const uint8_t *at, uint32_t len)
{
	for (uint32_t i = 0; i < len; i++)
		hash = mix_word(hash, at[i]);
	return hash;
}

static struct sealed *find_sealed(const struct sim_seals *s, uint64_t session, uint64_t number)
{
	uint64_t i = mix_word(session, number);

	while (s->at[i & (s->cap - 1)].session && (s->at[i & (s->cap - 1)].session != session ||
						   s->at[i & (s->cap - 1)].number != number))
		i++;
	return &s->at[i & (s->cap - 1)];
}

static void grow_seals(struct sim_seals *s)
{
	struct sim_seals old = *s;

	s->cap = old.cap ? 2 * old.cap : 1024;
	s->at = calloc(s->cap, sizeof(*s->at));
	LEND_CHECK(s->at);
	for (uint32_t i = 0; i < old.cap; i++)
		if (old.at[i].session)
			*find_sealed(s, old.at[i].session, old.at[i].number) = old.at[i];
	free(old.at);
}

/* Keys that are due are replaced as soon as a number that no earlier epoch has reached is
 * acknowledged. */
static void check_epoch(struct sim *sim, struct sim_node *n, const struct lend_out *clear,
			uint8_t epoch)
{
	struct sim_epoch *e = &n->epoch[clear->sess];
	uint64_t most = n->records.limits.epoch_datagrams,
		 id = lend_sess_at(n->core, clear->sess)->id;

	if (e->session != id)
		*e = (struct sim_epoch){.session = id, .epoch = epoch, .first = 1};
	if (e->epoch != epoch)
		*e = (struct sim_epoch){
		    .session = id, .epoch = epoch, .first = e->top + 1, .top = e->top};
	SIM_CHECK(sim, !most || e->n < most || n->records.calls.acked(n, id) < e->first,
		  "node %u seals datagram %llu of an epoch of %llu", n->id,
		  (unsigned long long)e->n + 1, (unsigned long long)most);
	e->n++;
	e->top = lend_max_u64(e->top, lend_load_u64((const uint8_t *)clear->head +
						    offsetof(struct lend_pkt, number)));
}

void sim_oracle_sealed(struct sim *sim, struct sim_node *n, const struct lend_out *clear,
		       const struct lend_out *wire)
{
	struct sim_seals *s = sim->seals;
	struct sealed *e;
	struct lend_pkt head;
	uint64_t hash = hash_bytes(0, clear->head, clear->head_len);

	for (uint32_t i = 0; i < clear->n; i++) {
		const struct lend_piece *p = &clear->piece[i];

		hash =
		    hash_bytes(hash, (const uint8_t *)n->bufs.seg[p->buf].data + p->offset, p->len);
	}
	if (2 * s->n >= s->cap)
		grow_seals(s);
	memcpy(&head, clear->head, sizeof(head));
	e = find_sealed(s, head.session, head.number);
	SIM_CHECK(sim, !e->session, "node %u seals number %llu twice", n->id,
		  (unsigned long long)head.number);
	*e = (struct sealed){.session = head.session, .number = head.number, .hash = hash};
	check_epoch(sim, n, clear, ((const uint8_t *)wire->head)[sizeof(uint64_t) * 3 - 1]);
	s->n++;
	SIM_MARK(sim, sealed);
}

void sim_oracle_opened(struct sim *sim, struct sim_node *n, const struct lend_in *in)
{
	struct sim_seals *s = sim->seals;
	struct lend_pkt head;
	struct sealed *e;

	memcpy(&head, in->data, sizeof(head));
	e = s->cap ? find_sealed(s, head.session, head.number) : NULL;
	SIM_CHECK(sim, e && e->session && e->hash == hash_bytes(0, in->data, in->len),
		  "node %u opens number %llu, which was never sealed", n->id,
		  (unsigned long long)head.number);
	SIM_CHECK(sim, !e->taken, "node %u opens number %llu twice", n->id,
		  (unsigned long long)head.number);
	e->taken = true;
	SIM_MARK(sim, opened);
}
