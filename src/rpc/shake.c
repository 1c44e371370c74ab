#include "rpc/shake.h"

#include <errno.h>
#include <stdlib.h>

#include "util/check.h"

enum {
	HEAD = sizeof(struct lend_pkt),
	CONNECT_MIN = HEAD + sizeof(struct lend_pkt_connect) + sizeof(struct lend_pkt_connect_end),
	ACCEPT_LEN = HEAD + sizeof(struct lend_pkt_accept),
};
_Static_assert((int)CONNECT_MIN <= (int)LEND_SHAKE_SHORT, "a CONNECT without a call is short");

int lend_shake_open(struct lend_shake *s, const struct lend_seal_ops *ops,
		    const struct lend_core_config *config)
{
	*s = (struct lend_shake){.shorts = malloc(LEND_SHAKE_SHORTS * sizeof(*s->shorts)),
				 .longs = malloc(LEND_SHAKE_LONGS * sizeof(*s->longs))};
	if (!s->shorts || !s->longs ||
	    lend_secret_map(&s->memory, lend_kex_size(config->sessions)) < 0) {
		lend_shake_close(s);
		return -ENOMEM;
	}
	s->kex = lend_kex_init(s->memory.base, ops, config->sessions, config->ticket_ns);
	return 0;
}

void lend_shake_close(struct lend_shake *s)
{
	if (s->kex)
		lend_kex_close(s->kex);
	lend_mapping_unmap(&s->memory);
	free(s->shorts);
	free(s->longs);
	*s = (struct lend_shake){0};
}

void lend_shake_burst(struct lend_shake *s)
{
	lend_kex_burst(s->kex);
}

static void wipe_keys(struct lend_kex_keys *keys)
{
	explicit_bzero(keys, sizeof(*keys));
}

static void finish_exchange(struct lend_shake *s, struct lend_kex_result *r)
{
	lend_core_bind(s->core, r->session, r->binding);
	s->done(s->arg, r);
	explicit_bzero(r, sizeof(*r));
}

static bool accept_in(struct lend_shake *s, struct lend_in *in)
{
	struct lend_kex_result r;
	struct lend_pkt_accept b;

	if (in->len != ACCEPT_LEN)
		return true; /* the core counts it */
	memcpy(&b, (const uint8_t *)in->data + HEAD, sizeof(b));
	if (b.pattern < LEND_PATTERN_NN)
		return true; /* answers no CONNECT that we sealed */
	if (!lend_kex_accepted(s->kex, (uint8_t *)(uintptr_t)in->data, in->len, &r))
		return false;
	finish_exchange(s, &r);
	return true;
}

/* Opens a CONNECT whose mac1 is valid. */
static bool open_connect(struct lend_shake *s, lend_ns now, struct lend_in *in,
			 const struct lend_pkt_connect *b, struct lend_kex_keys *keys)
{
	uint64_t address = lend_core_address(s->core, in);

	if (b->pattern == LEND_PATTERN_RESUME &&
	    (b->ticket.key_id != b->key_id ||
	     !lend_kex_ticket_secret(s->kex, now, &b->ticket, address, keys->ticket)))
		return false;
	return lend_kex_open(s->kex, keys, (uint8_t *)(uintptr_t)in->data, in->len, address);
}

static bool connect_in(struct lend_shake *s, lend_ns now, struct lend_in *in)
{
	const struct lend_core_policy *policy = &s->policy[LEND_PEER_CARRIER(in->peer)];
	struct lend_pkt_connect b;
	struct lend_kex_keys keys;
	bool good;

	if (in->len < CONNECT_MIN)
		return true; /* the core counts it */
	memcpy(&b, (const uint8_t *)in->data + HEAD, sizeof(b));
	if (b.pattern < LEND_PATTERN_NN || b.pattern >= LEND_PATTERNS)
		return lend_core_screen(s->core, now, in, policy);
	good = s->find(s->arg, &b, false, &keys);
	good = lend_kex_mac_valid(s->kex, &keys, in->data, in->len) && good &&
	       lend_core_screen(s->core, now, in, policy) && open_connect(s, now, in, &b, &keys);
	wipe_keys(&keys);
	return good;
}

bool lend_shake_in(struct lend_shake *s, lend_ns now, struct lend_in *in)
{
	uint8_t kind =
	    in->len < HEAD ? 0 : ((const uint8_t *)in->data)[offsetof(struct lend_pkt, kind)];

	if (kind == LEND_PKT_CONNECT)
		return connect_in(s, now, in);
	return kind != LEND_PKT_ACCEPT || accept_in(s, in);
}

/* Returns memory for a datagram; NULL: it is too long. */
static uint8_t *take_memory(struct lend_shake *s, uint32_t len)
{
	if (len <= LEND_SHAKE_SHORT)
		return s->shorts[s->short_at++ % LEND_SHAKE_SHORTS];
	return len <= LEND_SHAKE_LONG ? s->longs[s->long_at++ % LEND_SHAKE_LONGS] : NULL;
}

/* Copies the pieces of a datagram into memory that we may change. */
static uint8_t *gather_pieces(struct lend_shake *s, const struct lend_bufs *bufs,
			      struct lend_out *out, uint32_t *len)
{
	uint8_t *to, *at;

	*len = (uint32_t)out->head_len + out->tail_len;
	for (uint32_t i = 0; i < out->n; i++)
		*len += out->piece[i].len;
	at = to = take_memory(s, *len);
	if (!to)
		return NULL;
	memcpy(at, out->head, out->head_len);
	at += out->head_len;
	for (uint32_t i = 0; i < out->n; i++) {
		const struct lend_piece *p = &out->piece[i];

		memcpy(at, (const uint8_t *)bufs->seg[p->buf].data + p->offset, p->len);
		at += p->len;
	}
	if (out->tail_len)
		memcpy(at, out->tail, out->tail_len);
	return to;
}

/* Seals our CONNECT. Returns false: its key is gone. */
static bool connect_out(struct lend_shake *s, uint8_t *data, uint32_t len)
{
	struct lend_kex_keys keys;
	struct lend_pkt_connect b;
	bool good;

	memcpy(&b, data + HEAD, sizeof(b));
	good = s->find(s->arg, &b, true, &keys) &&
	       (b.pattern != LEND_PATTERN_RESUME ||
		lend_core_ticket_secret(s->core, b.session, keys.ticket));
	if (good)
		lend_kex_connect(s->kex, (uint32_t)(b.session & 0xffffff), &keys, data, len);
	wipe_keys(&keys);
	return good;
}

static bool accept_out(struct lend_shake *s, lend_ns now, uint8_t *data, uint32_t len)
{
	struct lend_kex_result r;
	struct lend_pkt_accept b;
	int rc;

	memcpy(&b, data + HEAD, sizeof(b));
	rc = lend_kex_accept(s->kex, (uint32_t)(b.session & 0xffffff), now, data, len, &r);
	if (rc > 0)
		finish_exchange(s, &r);
	return rc >= 0;
}

bool lend_shake_out(struct lend_shake *s, lend_ns now, const struct lend_bufs *bufs,
		    struct lend_out *out)
{
	const uint8_t *head = out->head;
	uint8_t kind = head[offsetof(struct lend_pkt, kind)], *data;
	uint32_t len;

	/* The pattern is at the same place in both. */
	if ((kind != LEND_PKT_CONNECT && kind != LEND_PKT_ACCEPT) ||
	    head[HEAD + offsetof(struct lend_pkt_connect, pattern)] < LEND_PATTERN_NN)
		return true;
	data = gather_pieces(s, bufs, out, &len);
	if (!data ||
	    !(kind == LEND_PKT_CONNECT ? connect_out(s, data, len) : accept_out(s, now, data, len)))
		return false;
	out->head = data;
	out->head_len = (uint16_t)len;
	out->tail_len = 0;
	out->n = 0;
	return true;
}

bool lend_shake_made(struct lend_shake *s, const struct lend_event *ev)
{
	struct lend_pkt_connect b;

	if (ev->data_len < CONNECT_MIN ||
	    ((const uint8_t *)ev->data)[offsetof(struct lend_pkt, kind)] != LEND_PKT_CONNECT)
		return false;
	memcpy(&b, (const uint8_t *)ev->data + HEAD, sizeof(b));
	if (b.pattern < LEND_PATTERN_NN)
		return false;
	lend_kex_claim(s->kex, ev->session, &b);
	return true;
}
