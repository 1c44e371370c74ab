#include "core/control.h"

#include "core/client_call.h"
#include "core/zero_rtt.h"
#include "core/grant.h"
#include "core/handshake.h"
#include "core/kept_reply.h"
#include "core/loss.h"
#include "core/packet_build.h"
#include "core/rx.h"
#include "core/server_call.h"
#include "core/sess.h"

void lend_ctl_answer(struct lend_core *c, struct lend_sess *s, uint32_t call, uint8_t flags)
{
	const struct lend_ctl e = {.sess = lend_sess_index(c, s),
				   .peer = s->peer,
				   .id = s->id,
				   .call = call,
				   .kind = LEND_PKT_ACK,
				   .flags = flags,
				   .probed = 1};

	lend_ctl_push(c, &e);
}

/* Fills in how much of the call's incoming message has arrived. */
static void describe_arrival(struct lend_core *c, struct lend_sess *s, struct lend_pkt *head,
			     struct lend_pkt_ack *ack)
{
	struct lend_call_rec *k = NULL;

	if (head->call == 0)
		return;
	if (head->flags & LEND_PKT_SERVED) {
		head->offset = lend_serve_state(c, s, head->call, &k);
	} else {
		k = lend_call_of_wire(c, s, head->call);
		head->offset = !k || k->state == LEND_CALL_DRAINING ? LEND_PKT_WHOLE
			       : k->rx.frags == LEND_NONE           ? LEND_PKT_UNSEEN
								    : LEND_PKT_PARTIAL;
	}
	if (!k)
		return;
	k->ack_queued = 0;
	ack->granted = k->rx.granted;
	if (head->offset == LEND_PKT_WHOLE)
		return;
	ack->low = lend_rx_low(c, k);
	if (k->rx.memq_state == LEND_MEMQ_WAITS)
		head->length |= LEND_PKT_WAIT;
	if (k->rx.memq_state == LEND_MEMQ_NOTIFY) {
		head->length |= LEND_PKT_DROPPED;
		k->rx.memq_state = LEND_MEMQ_NONE;
	}
}

/* Gives a PROBE the class of its call's datagrams: so its arrival shows which of them are lost. */
static void set_probe_class(struct lend_core *c, struct lend_sess *s, struct lend_making *m,
			    struct lend_pkt *head)
{
	const struct lend_call_rec *k = lend_call_of_wire(c, s, head->call);

	if (!k)
		return;
	m->out->class = lend_sched_wire_class(s, k);
	head->flags |= m->out->class;
}

static void make_ack(struct lend_core *c, struct lend_sess *s, struct lend_making *m,
		     const struct lend_ctl *e)
{
	struct lend_pkt head = lend_make_header(e->kind, e->flags, e->call);
	struct lend_pkt_ack ack = {0};
	struct lend_pkt_seen seen;

	if (e->kind == LEND_PKT_PROBE)
		set_probe_class(c, s, m, &head);
	describe_arrival(c, s, &head, &ack);
	if (e->probed)
		head.length |= LEND_PKT_PROBED;
	lend_seen_report(c, s, &seen);
	head.session = s->peer_id;
	head.number = lend_sent_number(c, s, m->out->class, false);
	lend_make_put(m, &head, sizeof(head));
	lend_make_put(m, &ack, sizeof(ack));
	lend_make_put(m, &seen, sizeof(seen));
	LEND_COUNT(c, acks);
}

/* Returns whether a queued control datagram is obsolete. While it waited for the carrier, the
 * session may have sent BYE, or the call's slot may belong to another call, which a CANCEL would
 * end. */
static bool is_stale(struct lend_core *c, const struct lend_sess *s, const struct lend_ctl *e)
{
	const struct lend_cslot *cs;

	if (e->kind == LEND_PKT_ACCEPT || e->kind == LEND_PKT_PROOF)
		return s->state == LEND_SESS_CLOSING || s->hs == LEND_NONE;
	if (e->kind == LEND_PKT_CONNECT)
		return s->state != LEND_SESS_CONNECTING;
	if (e->kind == LEND_PKT_REPLY)
		return e->flags && (s->state != LEND_SESS_UP || !lend_kept_slot(c, s, e->call));
	if (e->kind != LEND_PKT_CANCEL)
		return false;
	cs = lend_cslot_at(c, e->sess, lend_pkt_slot(e->call));
	return cs->rec == LEND_NONE || cs->seq != lend_pkt_seq(e->call);
}

/* Adds a 0-RTT call to a CONNECT. The call has the number of the CONNECT and no timer: until the
 * session is up, CONNECT is retransmitted. */
static void make_zero_rtt_call(struct lend_core *c, struct lend_sess *s, struct lend_making *m,
			       struct lend_call_rec *k, const struct lend_bufs *bufs)
{
	struct lend_pkt_request request;

	lend_make_request(&request, k, c->now);
	lend_make_put(m, &request, sizeof(request));
	m->out->n = lend_tx_pieces(&k->tx, bufs, 0, k->tx.len, m->out->piece);
	m->rec->first = 1;
	m->rec->call = k->self;
	lend_call_sent(c, s, k, s->number - 1);
	k->tx.next = 1;
	k->timer = LEND_NEVER;
}

static void make_connect(struct lend_core *c, struct lend_sess *s, struct lend_making *m,
			 const struct lend_bufs *bufs)
{
	struct lend_pkt head = lend_make_header(LEND_PKT_CONNECT, 0, 0);
	struct lend_call_rec *zero_rtt = lend_zero_rtt_choose(c, s);
	struct lend_pkt_connect block;

	head.number = lend_sent_number(c, s, m->out->class, false);
	if (zero_rtt) {
		head.flags = zero_rtt->class;
		head.call = zero_rtt->wire;
		head.length = zero_rtt->tx.len;
	}
	lend_make_put(m, &head, sizeof(head));
	lend_hs_connect(c, s, &block);
	lend_make_put(m, &block, sizeof(block));
	if (zero_rtt)
		make_zero_rtt_call(c, s, m, zero_rtt, bufs);
	memset(&m->rec->end, 0, sizeof(m->rec->end));
	m->out->tail = &m->rec->end;
	m->out->tail_len = sizeof(m->rec->end);
}

static void make_accept(struct lend_core *c, struct lend_sess *s, struct lend_making *m)
{
	struct lend_pkt head = lend_make_header(LEND_PKT_ACCEPT, 0, 0);
	struct lend_pkt_accept block;

	head.session = s->peer_id;
	head.number = lend_sent_number(c, s, m->out->class, false);
	lend_make_put(m, &head, sizeof(head));
	lend_hs_accept(c, s, &block);
	lend_make_put(m, &block, sizeof(block));
}

static void make_running(struct lend_core *c, struct lend_sess *s, struct lend_making *m)
{
	struct lend_pkt head = lend_make_header(LEND_PKT_RUNNING, 0, 0);
	struct lend_pkt_running running;
	struct lend_pkt_seen seen;

	lend_serve_running(c, s, &running);
	lend_seen_report(c, s, &seen);
	head.session = s->peer_id;
	head.number = lend_sent_number(c, s, m->out->class, false);
	lend_make_put(m, &head, sizeof(head));
	lend_make_put(m, &running, sizeof(running));
	lend_make_put(m, &seen, sizeof(seen));
}

static void make_plain(struct lend_core *c, struct lend_sess *s, struct lend_making *m,
		       const struct lend_ctl *e)
{
	struct lend_pkt head = lend_make_header(e->kind, e->flags, e->call);
	struct lend_pkt_seen seen;

	if (e->kind == LEND_PKT_PING) {
		head.flags |= LEND_PKT_ACKED;
		head.length = lend_call_any_parked(c, s) ? LEND_PKT_ASKS : 0;
	}
	head.session = s->peer_id;
	head.number = lend_sent_number(c, s, m->out->class, false);
	lend_make_put(m, &head, sizeof(head));
	/* PING carries a report: an end that sends PINGs may never receive one, and its last
	 * acknowledgement may be lost. */
	if (e->kind == LEND_PKT_PING) {
		lend_seen_report(c, s, &seen);
		lend_make_put(m, &seen, sizeof(seen));
	}
	if (e->kind == LEND_PKT_PROOF)
		lend_make_put(m, lend_hs_of(c, s)->proof, sizeof(struct lend_pkt_proof));
}

/* Builds the reply to a request that has no call record: see table_share.h. */
static void make_refusal(struct lend_core *c, struct lend_sess *s, struct lend_making *m,
			 const struct lend_ctl *e)
{
	struct lend_pkt head = lend_make_header(LEND_PKT_REPLY, 0, e->call);
	struct lend_pkt_reply reply = {.status = RESOURCE_EXHAUSTED,
				       .ran = e->probed,
				       .window = lend_window_share(c, s),
				       .delay_ns = UINT32_MAX};

	head.session = s->peer_id;
	head.number = lend_sent_number(c, s, m->out->class, false);
	lend_make_put(m, &head, sizeof(head));
	lend_make_put(m, &reply, sizeof(reply));
}

/* Retransmits a reply that its slot keeps. */
static void make_kept(struct lend_core *c, struct lend_sess *s, struct lend_making *m,
		      const struct lend_ctl *e)
{
	lend_kept_make(c, s, lend_kept_slot(c, s, e->call), e->call, m);
	LEND_COUNT(c, repeats);
}

static void make_stateless(struct lend_core *c, struct lend_making *m, const struct lend_ctl *e)
{
	struct lend_pkt head = lend_make_header(e->kind, 0, 0);
	struct lend_pkt_retry retry;

	head.session = e->id;
	lend_make_put(m, &head, sizeof(head));
	m->out->peer = e->peer;
	if (e->kind == LEND_PKT_RETRY) {
		lend_hs_retry(c, e, &retry);
		lend_make_put(m, &retry, sizeof(retry));
	} else {
		LEND_COUNT(c, resets);
	}
}

bool lend_ctl_make(struct lend_core *c, struct lend_making *m, const struct lend_ctl *e,
		   const struct lend_bufs *bufs)
{
	struct lend_sess *s;

	m->rec->ctl = *e;
	if (e->sess == LEND_NONE) {
		make_stateless(c, m, e);
		return true;
	}
	s = lend_sess_at(c, e->sess);
	if (s->state == LEND_SESS_FREE || s->id != e->id)
		return false;
	if (lend_ctl_is_timed(e->kind))
		s->ctl_waits = 0;
	if (is_stale(c, s, e))
		return false;
	if (e->kind == LEND_PKT_ACK || e->kind == LEND_PKT_PROBE)
		make_ack(c, s, m, e);
	else if (e->kind == LEND_PKT_RUNNING)
		make_running(c, s, m);
	else if (e->kind == LEND_PKT_CONNECT)
		make_connect(c, s, m, bufs);
	else if (e->kind == LEND_PKT_ACCEPT)
		make_accept(c, s, m);
	else if (e->kind == LEND_PKT_REPLY && e->flags)
		make_kept(c, s, m, e);
	else if (e->kind == LEND_PKT_REPLY)
		make_refusal(c, s, m, e);
	else
		make_plain(c, s, m, e);
	m->rec->news = s->blocked[0] || e->kind == LEND_PKT_BYE;
	lend_unhashed(c)->news |= m->rec->news;
	m->out->peer = s->peer;
	m->out->sess = e->sess;
	return true;
}
