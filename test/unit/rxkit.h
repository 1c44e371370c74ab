/* rxkit - incoming messages made without datagrams: a core with one session, and records with a
 * reassembly that wait for grants. For tests of the order of grants. */
#ifndef TEST_UNIT_RXKIT_H
#define TEST_UNIT_RXKIT_H

#include <stdlib.h>
#include <string.h>

#include "core/call_record.h"
#include "core/rx.h"
#include "core/sess.h"
#include "core/arena.h"

enum { RX_PAYLOAD = 1000, RX_MESSAGES = 16, RX_LEN_MAX = 1000000 };

static inline struct lend_core *rx_open(enum lend_order order, bool lossless, uint64_t budget)
{
	struct lend_core_config cfg = {.sessions = 1,
				       .calls = RX_MESSAGES,
				       .inflight = RX_MESSAGES,
				       .reassemblies = RX_MESSAGES,
				       .wide_rings = 1,
				       .message_max = RX_LEN_MAX,
				       .receive_budget = budget,
				       .unscheduled = 1 << 20,
				       .probe = 1000 * LEND_MS,
				       .dead = 5000 * LEND_MS,
				       .congestion = LEND_CC_CREDIT,
				       .order = (uint8_t)order};
	size_t size;
	struct lend_core *c;

	cfg.path[0] = (struct lend_path){.mtu = 1472, .lossless = lossless};
	size = lend_core_size(&cfg);
	c = aligned_alloc(64, size);
	memset((void *)c, 0, size);
	lend_core_init(c, &cfg, LEND_MS);
	lend_sess_open(c, 0, LEND_SESS_UP)->payload = RX_PAYLOAD;
	for (uint32_t i = 1; i <= RX_MESSAGES; i++)
		lend_core_supply(c, i);
	c->grants.least = RX_PAYLOAD * 8;
	return c;
}

/* A request of len bytes without any byte received or granted. */
static inline struct lend_call_rec *rx_begin(struct lend_core *c, uint8_t class, uint32_t len,
					     lend_ns deadline)
{
	struct lend_call_rec *k = lend_call_new(c, lend_sess_at(c, 0), 0, true);

	k->state = LEND_CALL_PARTIAL;
	k->class = class;
	k->deadline = deadline;
	lend_rx_begin(&k->rx, 0);
	lend_rx_take_memory(c, k, len);
	return k;
}

/* Discards what the core would send to the session's peer. */
static inline void rx_drain(struct lend_core *c)
{
	for (uint32_t i = 0; i < c->records; i++)
		lend_call_at(c, i)->ack_queued = 0;
	c->ctl_n = 0;
}

static inline void rx_end(struct lend_core *c, struct lend_call_rec *k)
{
	lend_rx_drop(c, k);
	lend_call_free(c, lend_sess_at(c, 0), k);
}

#endif
