/* handshake_proof - pattern 1: the transcript of the handshake, and the effect of a proof.
 * Layer: core (pure). */
#include "core/control.h"
#include "core/handshake.h"
#include "core/packet_build.h"
#include "core/sess.h"
#include "core/short_burst.h"

enum {
	CONNECT_LEN = sizeof(struct lend_pkt) + sizeof(struct lend_pkt_connect),
	ACCEPT_LEN = sizeof(struct lend_pkt) + offsetof(struct lend_pkt_accept, tag),
};
_Static_assert(CONNECT_LEN + ACCEPT_LEN == LEND_TRANSCRIPT, "both datagrams");

/* Writes a CONNECT of the transcript. Number and cookie are zero there, because they differ when a
 * CONNECT is repeated. */
static void put_connect(uint8_t *to, struct lend_pkt head, struct lend_pkt_connect block)
{
	head.number = 0;
	memset(&block.cookie, 0, sizeof(block.cookie));
	memcpy(to, &head, sizeof(head));
	memcpy(to + sizeof(head), &block, sizeof(block));
}

static void put_accept(uint8_t *to, struct lend_pkt head, const struct lend_pkt_accept *block)
{
	head.number = 0;
	memcpy(to, &head, sizeof(head));
	memcpy(to + sizeof(head), block, ACCEPT_LEN - sizeof(head));
}

/* Returns the session that waits for this proof, and decodes the datagram; NULL: it has ended. */
static struct lend_sess *find_waiting(struct lend_core *c, const struct lend_event *ev,
				      struct lend_pkt_view *v)
{
	struct lend_sess *s = lend_sess_find(c, ev->session);

	if (!s || s->state != (s->client ? LEND_SESS_CONNECTING : LEND_SESS_HALF) ||
	    lend_hs_of(c, s)->ready || lend_pkt_decode(v, ev->data, ev->data_len) != LEND_PKT_OK ||
	    v->head.kind != (s->client ? LEND_PKT_ACCEPT : LEND_PKT_CONNECT))
		return NULL;
	return s;
}

int lend_core_transcript(struct lend_core *c, const struct lend_event *ev,
			 uint8_t out[LEND_TRANSCRIPT])
{
	struct lend_pkt_view v;
	struct lend_sess *s = find_waiting(c, ev, &v);
	struct lend_pkt_connect connect;
	struct lend_pkt_accept accept;
	struct lend_pkt ours;

	if (!s)
		return E_STALE;
	ours = lend_make_header(s->client ? LEND_PKT_CONNECT : LEND_PKT_ACCEPT, 0, 0);
	if (s->client) {
		lend_hs_connect(c, s, &connect);
		put_connect(out, ours, connect);
		put_accept(out + CONNECT_LEN, v.head, &v.accept);
		return 0;
	}
	ours.session = s->peer_id;
	lend_hs_accept(c, s, &accept);
	put_connect(out, v.head, v.connect);
	put_accept(out + CONNECT_LEN, ours, &accept);
	return 0;
}

static void prove_server(struct lend_core *c, struct lend_sess *s,
			 const struct lend_core_proof *proof)
{
	struct lend_hs *h = lend_hs_of(c, s);

	h->pattern = proof ? LEND_PATTERN_PROOF : LEND_PATTERN_OPEN;
	if (proof) {
		h->ready = 1;
		memcpy(h->tag, proof->tag, sizeof(h->tag));
		memcpy(h->proof, proof->proof, sizeof(h->proof));
		memcpy(s->binding, proof->binding, sizeof(s->binding));
	}
	lend_ctl_sess(c, s, LEND_PKT_ACCEPT, 0, 0);
}

static void prove_client(struct lend_core *c, struct lend_sess *s, const struct lend_pkt_view *v,
			 const struct lend_core_proof *proof)
{
	struct lend_hs *h = lend_hs_of(c, s);

	if (!proof || !lend_equal_ct(proof->tag, v->accept.tag, sizeof(proof->tag))) {
		LEND_COUNT(c, rx_unproven);
		return;
	}
	h->ready = 1;
	memcpy(h->proof, proof->proof, sizeof(h->proof));
	memcpy(s->binding, proof->binding, sizeof(s->binding));
	s->key_id = h->key_id;
	lend_hs_accepted(c, s, v);
}

void lend_core_bind(struct lend_core *c, uint64_t session, const uint8_t binding[16])
{
	struct lend_sess *s = lend_sess_find(c, session);

	if (s)
		memcpy(s->binding, binding, sizeof(s->binding));
}

int lend_core_prove(struct lend_core *c, lend_ns now, const struct lend_event *ev,
		    const struct lend_core_proof *proof)
{
	struct lend_pkt_view v;
	struct lend_sess *s;

	lend_burst_end(c);
	c->now = lend_max_u64(c->now, now);
	s = find_waiting(c, ev, &v);
	if (!s)
		return E_STALE;
	if (s->client)
		prove_client(c, s, &v, proof);
	else
		prove_server(c, s, proof);
	return 0;
}
