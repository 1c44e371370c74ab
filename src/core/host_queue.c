#include "core/host_queue.h"

enum { ROUNDS = 32 }; /* waits after which the limit shrinks */
#define RETRY_MIN  (LEND_US / 4)
#define RETRY_MAX  (1 * LEND_MS)
#define RETRY      (10 * LEND_US) /* before the rate is known */
#define SECOND     (1000 * LEND_MS)
#define UNMEASURED UINT64_MAX

static void note_rate(struct lend_host_queue *h, uint64_t sent, lend_ns span)
{
	uint64_t rate = sent * SECOND / lend_max_u64(span, 1);

	h->rate = h->rate ? h->rate - h->rate / 8 + rate / 8 : rate;
}

static void begin_period(struct lend_host_queue *h)
{
	h->least = UNMEASURED;
	h->rounds = 0;
}

static void widen_limit(struct lend_host_queue *h)
{
	h->limit = lend_min_u64(2 * h->limit, LEND_HOST_MAX);
	h->held = 0; /* once per wait */
	begin_period(h);
}

static void narrow_limit(struct lend_host_queue *h)
{
	h->limit = lend_max_u64(h->limit - lend_min_u64(h->limit, h->least / 2), LEND_HOST_LEAST);
	begin_period(h);
}

bool lend_core_host_queue_due(const struct lend_core *c, uint32_t carrier)
{
	return c->host[carrier].queued || c->host[carrier].held;
}

void lend_core_host_queue(struct lend_core *c, lend_ns now, uint32_t carrier, uint64_t bytes)
{
	struct lend_host_queue *h = &c->host[carrier];
	uint64_t sent = h->queued - lend_min_u64(h->queued, bytes);

	c->now = lend_max_u64(c->now, now);
	if (sent || !bytes)
		h->moved = c->now;
	if (sent && bytes)
		note_rate(h, sent, c->now - h->at);
	if (h->held && (!bytes || c->now - h->moved >= LEND_HOST_STUCK)) {
		h->moved = c->now;
		widen_limit(h);
	} else if (h->held) {
		h->least = lend_min_u64(h->least, bytes);
	}
	if (h->rounds >= ROUNDS)
		narrow_limit(h);
	h->queued = bytes;
	h->at = c->now;
}

lend_ns lend_host_queue_retry(const struct lend_core *c, const struct lend_sess *s)
{
	const struct lend_host_queue *h = &c->host[LEND_PEER_CARRIER(s->peer)];
	uint64_t half = h->queued - lend_min_u64(h->queued, h->limit / 2);
	lend_ns wait = h->rate ? half * SECOND / h->rate : RETRY;

	return c->now + lend_min_u64(lend_max_u64(wait, RETRY_MIN), RETRY_MAX);
}
