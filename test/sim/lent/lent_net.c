/* lent_net - the network between the simulated carriers.
 *
 * shm: in order, without loss; a dead peer is noticed. udp: loss, duplicates, delay. Layer:
 * test/sim. */
#include <stdlib.h>
#include <string.h>

#include "sim/lent/lent_flight.h"
#include "wire/head.h"
#include "wire/pkt.h"

struct lent_flight *lent_flights[LENT_FLIGHTS];
uint32_t lent_flights_made;

void lent_flight_drop(struct lent_flight *f)
{
	lent_flights[f->index] = NULL;
	free(f);
}

struct lent_flight *lent_flight_make(uint32_t len)
{
	struct lent_flight *f = calloc(1, sizeof(*f) + len);
	uint32_t i = lent_flights_made++ % LENT_FLIGHTS;

	LEND_CHECK(f);
	LENT_CHECK(!lent_flights[i], "too many datagrams are in flight");
	f->index = i;
	f->len = len;
	return lent_flights[i] = f;
}

/* No head is sent to a peer that reads none. */
static void check_head(const struct lent_flight *f)
{
	uint8_t without = lent->node[f->to_node].without;
	struct lend_pkt head;

	memcpy(&head, f->data, sizeof(head));
	LENT_CHECK(!(head.flags & LEND_PKT_WITH_HEAD) ||
		       !(without & (head.kind == LEND_PKT_REQUEST ? LEND_FEATURE_REQUEST_HEADS
								  : LEND_FEATURE_REPLY_HEADS)),
		   "node %u gets a head of kind %u that it does not read", f->to_node, head.kind);
}

static bool is_reply(const struct lent_flight *f)
{
	uint8_t kind = f->data[offsetof(struct lend_pkt, kind)];

	return f->kind == LENT_UDP && (kind == LEND_PKT_REPLY || kind == LEND_PKT_CALLS);
}

void lent_flight_send(struct lent_flight *f)
{
	const struct lent_plan *p = &lent->plan;
	lend_ns at = lent->now + p->delay + lent_below(LENT_NET, p->jitter + 1);
	lend_ns *last = &f->from->last[f->to_node].arrival;

	lent_sums.datagrams++;
	check_head(f);
	if (lent->loses_replies && is_reply(f)) {
		lent_flight_drop(f);
		return;
	}
	if (f->kind == LENT_SHM) {
		at = *last = at > *last ? at : *last;
	} else if (!lent->healing) {
		if (lent_odds(LENT_NET, p->loss_ppm)) {
			lent_flight_drop(f);
			return;
		}
		if (lent_odds(LENT_NET, p->late_ppm))
			at += lent_below(LENT_NET, 5 * LENT_MS);
		if (lent_odds(LENT_NET, p->dup_ppm)) {
			struct lent_flight *twice = lent_flight_make(f->len);
			uint32_t index = twice->index;

			memcpy(twice, f, sizeof(*f) + f->len);
			twice->index = index;
			lent_at(at + lent_below(LENT_NET, LENT_MS), LENT_ARRIVE, index, 0);
		}
	}
	lent_at(at, LENT_ARRIVE, f->index, 0);
}

void lent_flight_read(struct lent_flight *f)
{
	for (uint32_t i = 0; i < f->n; i++)
		lent_copy(f->data + f->piece[i].place, f->piece[i].at, f->piece[i].len);
	f->n = 0;
	f->pending = false;
}

static void take_arrived(struct lent_flight *f)
{
	struct lent_io *io = lent_io_of(f->to_node, f->kind);
	struct lent_flight **at;

	if (!io || (f->kind == LENT_SHM && io->life != f->to_life)) {
		lent_flight_drop(f);
		return;
	}
	f->peer = lent_io_peer(io, f->node, f->life);
	for (at = &io->first; *at; at = &(*at)->next)
		;
	*at = f;
	f->next = NULL;
}

void lent_net_event(enum lent_what what, uint32_t index)
{
	struct lent_flight *f = lent_flights[index];

	if (!f) /* its carrier was closed, or it was flushed */
		return;
	if (what == LENT_ARRIVE) {
		take_arrived(f);
	} else if (f->pending) {
		lent_flight_read(f);
		lent_flight_send(f);
	}
}

/* Tells the shm peers of a dead process. */
static void send_gone(const struct lent_io *dead)
{
	for (uint32_t i = 0; i < lent->plan.nodes; i++) {
		struct lent_io *io = lent_io_of(i, LENT_SHM);
		struct lent_flight *f;

		if (!io || io == dead)
			continue;
		f = lent_flight_make(0);
		f->kind = LENT_SHM;
		f->node = dead->node;
		f->life = dead->life;
		f->to_node = i;
		f->to_life = io->life;
		f->gone = true;
		lent_at(lent->now + 20 * LENT_US + lent_below(LENT_NET, LENT_MS), LENT_ARRIVE,
			f->index, 0);
	}
}

void lent_net_kill(uint32_t node)
{
	for (uint32_t kind = 0; kind < LENT_KINDS; kind++) {
		struct lent_io *io = lent->node[node].io[kind];

		io->dead = true;
		lent_io_silence(io);
		if (kind == LENT_SHM)
			send_gone(io);
	}
}

void lent_net_close(void)
{
	for (uint32_t i = 0; i < LENT_FLIGHTS && i < lent_flights_made; i++) {
		free(lent_flights[i]);
		lent_flights[i] = NULL;
	}
	lent_flights_made = 0;
}
