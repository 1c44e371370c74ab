/* oracle_handshake - checks of the handshake: a cookie is valid only for its address, attempt and
 * time, and a session under a key only with a proof. Part of oracle.h. Layer: test/sim. */
#include <string.h>

#include "core/handshake.h"
#include "sim/sim_node.h"
#include "sim/oracle/oracle.h"
#include "wire/pkt.h"

#define COOKIE_NS UINT64_C(10000000000)

void sim_oracle_retry(struct sim *sim, struct sim_node *n, const struct lend_out *out)
{
	struct sim_cookie *k = &n->cookie[n->cookies++ % SIM_COOKIES];
	struct lend_pkt_retry block;

	memcpy(&block, (const uint8_t *)out->head + sizeof(struct lend_pkt), sizeof(block));
	*k = (struct sim_cookie){.cookie = block.cookie,
				 .connect = block.connect,
				 .to = LEND_PEER_INDEX(out->peer),
				 .at = sim->now};
}

static bool is_ours(const struct sim *sim, const struct sim_node *n, uint32_t from,
		    const struct lend_pkt_connect *b)
{
	for (uint32_t i = 0; i < SIM_COOKIES; i++) {
		const struct sim_cookie *k = &n->cookie[i];

		if (k->to == from && k->connect == b->connect && sim->now - k->at < COOKIE_NS &&
		    memcmp(&k->cookie, &b->cookie, sizeof(b->cookie)) == 0)
			return true;
	}
	return n->cookies > SIM_COOKIES; /* otherwise it may be an older cookie, which was dropped
					    from the array */
}

/* Records a CONNECT with a cookie of this node, or with a ticket, which is not checked. */
void sim_oracle_connect(struct sim *sim, struct sim_node *n, const struct lend_in *in)
{
	uint32_t from = LEND_PEER_INDEX(in->peer), len = in->len;
	struct lend_pkt_view v;

	if (!sim->plan.checked) {
		len -= lend_min_u32(len, LEND_RECORD_TRAILER);
		if (!lend_pkt_whole(in->data, len))
			return;
	}
	if (lend_pkt_decode(&v, in->data, len) == LEND_PKT_OK &&
	    ((v.connect.cookie.time && is_ours(sim, n, from, &v.connect)) ||
	     v.connect.ticket.until))
		n->proven[n->provens++ % SIM_COOKIES] =
		    (struct sim_cookie){.connect = v.connect.connect, .to = from, .at = sim->now};
}

/* True when a CONNECT that proved its address came when the session was opened, or later. */
static bool came_proven(const struct sim_node *n, const struct lend_sess *s)
{
	for (uint32_t i = 0; i < SIM_COOKIES; i++)
		if (n->proven[i].connect == s->connect && n->proven[i].at >= s->last_ping &&
		    n->proven[i].to == LEND_PEER_INDEX(s->peer))
			return true;
	return n->provens > SIM_COOKIES;
}

void sim_oracle_half(struct sim *sim, struct sim_node *n)
{
	for (uint32_t i = 0; i < n->cfg.sessions && !n->cfg.path[0].proven; i++) {
		const struct lend_sess *s = lend_sess_at(n->core, i);

		SIM_CHECK(sim, s->state != LEND_SESS_HALF || s->half.in || came_proven(n, s),
			  "node %u: a session without a cookie counts as proven", n->id);
	}
}

/* All nodes have the key, so a client that asks for a proof gets one, or no session. */
void sim_oracle_up(struct sim *sim, struct sim_node *n, const struct lend_event *e)
{
	const struct lend_sess *s = lend_sess_find(n->core, e->session);
	uint32_t from = LEND_PEER_INDEX(e->peer);

	if (!s || from >= sim->plan.nodes || !sim_is_keyed(sim, s->client ? n->id : from))
		return;
	SIM_CHECK(sim, s->key_id == SIM_KEY, "node %u: a session under a key without a proof",
		  n->id);
}
