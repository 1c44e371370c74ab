/* stats_service - statistics of an endpoint and its sessions, for its own program and for
 * authorized peers. Layer: rpc. Threads: the endpoint's. It keeps no counters: it collects on
 * request. */
#include <string.h>
#include <unistd.h>

#include "rpc/endpoint.h"
#include "sys/ref_counts.h"
#include "util/bits.h"

enum { AT_ONCE = 64 }; /* sessions in a reply */

static void describe_session(struct lend_ep *ep, unsigned i, struct lend_session_stats *stats)
{
	struct lend_session_rec *s = &ep->session[i];
	struct lend_core_sess_stats look = {.sent = 0};
	struct lend_peer peer;
	lend_ns since;

	*stats =
	    (struct lend_session_stats){.session = {(uint64_t)s->gen << 32 | (i + 1)}, .up = s->up};
	if (lend_session_peer(ep, stats->session, &peer) == 0)
		memcpy(stats->peer, peer.address, sizeof(stats->peer));
	if (lend_core_sess_stats(ep->core, s->core, &look) < 0)
		return;
	stats->tx = look.sent;
	stats->rx = look.seen;
	stats->rtt = look.rtt;
	stats->rtt_var = look.rtt_var;
	stats->gap = look.gap;
	stats->in_flight = look.in_flight;
	stats->window = look.window;
	stats->credit = look.credit;
	stats->granted = look.granted;
	stats->level = lend_records_level(&ep->sealing.records, s->core, &stats->suite);
	since = lend_records_key_since(&ep->sealing.records, s->core);
	stats->key_age = since ? lend_ep_now(ep) - since + 1 : 0;
	stats->forged = lend_records_failures(&ep->sealing.records, s->core);
	memcpy(stats->calls, look.calls[0], sizeof(stats->calls));
	memcpy(stats->served, look.calls[1], sizeof(stats->served));
	memcpy(stats->queued, look.queued, sizeof(stats->queued));
}

unsigned lend_stats_session(struct lend_ep *ep, unsigned i, struct lend_session_stats *stats)
{
	for (; i < ep->session_top; i++)
		if (ep->session[i].state == LEND_SESSION_OPEN) {
			describe_session(ep, i, stats);
			return i + 1;
		}
	return 0;
}

static bool may_query(struct lend_ep *ep, lend_session session)
{
	struct lend_peer peer;

	if (!lend_sessions_find(ep, session) || lend_session_peer(ep, session, &peer) < 0)
		return false;
	return peer.uid == (int64_t)geteuid() || lend_handshake_administers(ep, session);
}

bool lend_stats_allowed(struct lend_ep *ep, lend_request request)
{
	if (may_query(ep, lend_request_session(ep, request)))
		return true;
	(void)lend_reply_why(ep, request, LEND_PERMISSION_DENIED,
			     "statistics are for this user only, or for peers that prove "
			     "this endpoint's key");
	return false;
}

static void send_stats(lend_request request, const struct lend_buf *bytes, void *arg)
{
	struct lend_ep *ep = arg;
	struct lend_stats_head head = {.size = sizeof(head),
				       .session_size = sizeof(struct lend_session_stats),
				       .pid = (uint64_t)getpid(),
				       .now = lend_now(ep),
				       .refs = {.in_place = lend_ref_counts.in_place,
						.copied = lend_ref_counts.copied,
						.by_value = lend_ref_counts.by_value,
						.expired = lend_ref_counts.expired,
						.relayed = lend_ref_counts.relayed}};
	struct lend_session_stats session;
	uint32_t i = bytes->len >= 4 ? lend_load_u32(bytes->data) : 0;
	struct lend_buf *out;

	if (!lend_stats_allowed(ep, request))
		return;
	out = lend_buf_take(ep, sizeof(head) + AT_ONCE * sizeof(session));
	if (!out) {
		(void)lend_reply(ep, request, LEND_RESOURCE_EXHAUSTED, NULL);
		return;
	}
	lend_stats_get(ep, &head.stats);
	while (head.n < AT_ONCE && (i = lend_stats_session(ep, i, &session)) != 0)
		memcpy((char *)out->data + sizeof(head) + head.n++ * sizeof(session), &session,
		       sizeof(session));
	head.next = head.n == AT_ONCE ? i : 0;
	memcpy(out->data, &head, sizeof(head));
	out->len = (uint32_t)(sizeof(head) + head.n * sizeof(session));
	(void)lend_reply(ep, request, LEND_OK, out);
}

static void pong(lend_request request, const struct lend_buf *bytes, void *ep)
{
	(void)bytes;
	(void)lend_reply(ep, request, LEND_OK, NULL);
}

int lend_stats_serve(struct lend_ep *ep)
{
	int rc = lend_serve(ep, LEND_METHOD_STATS, send_stats, ep, LEND_RESERVED);

	return rc < 0 ? rc : lend_serve(ep, LEND_METHOD_PING, pong, ep, LEND_RESERVED);
}
