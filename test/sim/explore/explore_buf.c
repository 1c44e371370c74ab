/* explore_buf - a node's memory during a step: buffers that are lent and returned, and the
 * fragments in them of a message that is being received. Part of explore_prog.h. Layer: test. */
#include <stdlib.h>

#include "core/frags.h"
#include "core/arena.h"
#include "core/rx.h"
#include "sim/explore/explore_canon.h"
#include "sim/explore/explore_prog.h"

static uint8_t pattern_byte(uint32_t buf, uint32_t i)
{
	return (uint8_t)(i * 7 + i / 251 + buf * 37);
}

static void lay_segment(struct ex_node *n, uint32_t buf, uint32_t cap, uint32_t len, uint8_t **at)
{
	n->seg[buf] = (struct lend_seg){.data = *at, .len = len, .cap = cap};
	for (uint32_t i = 0; i < len; i++)
		(*at)[i] = pattern_byte(buf, i);
	*at += (cap + 63) & ~63u;
}

void ex_buf_open(struct ex_node *n)
{
	const struct ex_scope *s = n->scope;
	uint8_t *at;

	n->memory = aligned_alloc(64, (size_t)EX_BUFS * (EX_MESSAGE_MAX + 64));
	LEND_CHECK(n->memory != NULL);
	at = n->memory;
	n->bufs = (struct lend_bufs){n->seg, EX_BUFS};
	for (uint32_t i = 0; i < EX_IDS; i++) {
		lay_segment(n, EX_BUF_REQUEST + i, s->request, s->request, &at);
		lay_segment(n, EX_BUF_REPLY + i, s->reply, s->reply, &at);
		lay_segment(n, EX_BUF_ATTACH + i, s->request, 0, &at);
		lay_segment(n, EX_BUF_ATTACH + EX_IDS + i, s->reply, 0, &at);
	}
	for (uint32_t i = 0; i < EX_SUPPLY_MAX; i++)
		lay_segment(n, EX_BUF_SUPPLY + i, EX_UNSCHEDULED, 0, &at);
	for (uint32_t i = 0; i < EX_REQS; i++)
		n->seg[EX_BUF_DYN + i] =
		    (struct lend_seg){.data = n->app.dyn[i].bytes, .cap = EX_MEM_BYTES};
}

void ex_buf_close(struct ex_node *n)
{
	free(n->memory);
}

void ex_buf_lend(struct ex_node *n, uint32_t buf)
{
	if (n->app.lent >> buf & 1)
		ex_bad(n, "the program lends a buffer twice"); /* an error of the explorer itself */
	n->app.lent |= UINT64_C(1) << buf;
}

void ex_buf_back(struct ex_node *n, uint32_t buf)
{
	if (!buf)
		return;
	if (buf >= EX_BUFS || !(n->app.lent >> buf & 1)) {
		ex_bad(n, "a buffer is returned twice");
		return;
	}
	n->app.lent &= ~(UINT64_C(1) << buf);
	if (buf >= EX_BUF_DYN)
		memset(&n->app.dyn[buf - EX_BUF_DYN], 0, sizeof(n->app.dyn[0]));
}

void ex_buf_supply(struct ex_node *n)
{
	for (uint32_t b = EX_BUF_SUPPLY; lend_core_supply_wanted(n->core); b++) {
		if (b == EX_BUF_SUPPLY + EX_SUPPLY_MAX) {
			ex_bad(n, "a supplied buffer is lost");
			return;
		}
		if (n->app.lent >> b & 1)
			continue;
		ex_buf_lend(n, b);
		lend_core_supply(n->core, b);
	}
}

/* Returns the message that is received for this call, as its sender has it. */
static uint32_t incoming_call(const struct ex_node *n, const struct lend_call_rec *k)
{
	return k->server ? EX_BUF_REQUEST + k->method - EX_METHOD
			 : EX_BUF_REPLY + ex_own(n, (uint32_t)k->tag);
}

static bool is_marked(const struct lend_frags *f, uint32_t i)
{
	return i < f->low || f->seen[i % LEND_FRAGS_WINDOW / 64] >> (i % 64) & 1;
}

/* Calls `what` for each received fragment of a message in a buffer. */
static void each_fragment(struct ex_node *n, struct lend_call_rec *k,
			  void (*what)(struct ex_node *, uint8_t *, uint32_t, uint32_t, uint32_t))
{
	const struct lend_frags *f;
	uint32_t unit;

	if (k->state == LEND_CALL_FREE || !k->rx.buf || k->rx.frags == LEND_NONE)
		return;
	f = lend_frags_at(n->core, k->rx.frags);
	unit = lend_rx_unit(n->core, k);
	for (uint32_t i = 0; i < f->total; i++)
		if (is_marked(f, i))
			what(n, n->seg[k->rx.buf].data, incoming_call(n, k), i * unit,
			     lend_frag_len(unit, k->rx.len, i));
}

static void refill_segment(struct ex_node *n, uint8_t *to, uint32_t message, uint32_t at,
			   uint32_t len)
{
	memcpy(to + at, (const uint8_t *)n->seg[message].data + at, len);
}

static void compare_bytes(struct ex_node *n, uint8_t *data, uint32_t message, uint32_t at,
			  uint32_t len)
{
	if (!ex_same(data + at, message, at, len, n))
		ex_bad(n, "a received fragment has wrong bytes");
}

void ex_buf_refill(struct ex_node *n)
{
	for (uint32_t i = 0; i < EX_REQS; i++)
		n->seg[EX_BUF_DYN + i].len = n->app.dyn[i].len;
	for (uint32_t i = 0; i < n->core->records; i++) {
		struct lend_call_rec *k = lend_call_at(n->core, i);

		if (k->state != LEND_CALL_FREE && k->rx.buf)
			memset(n->seg[k->rx.buf].data, 0xee, n->seg[k->rx.buf].cap);
		each_fragment(n, k, refill_segment);
	}
}

void ex_buf_audit(struct ex_node *n)
{
	uint64_t supply = ((UINT64_C(1) << EX_SUPPLY_MAX) - 1) << EX_BUF_SUPPLY;
	uint32_t pooled = n->core->supply_n;

	for (uint32_t i = 0; i < n->core->records; i++) {
		struct lend_call_rec *k = lend_call_at(n->core, i);

		each_fragment(n, k, compare_bytes);
		pooled += k->state != LEND_CALL_FREE && k->rx.buf && k->rx.pooled;
	}
	if ((uint32_t)__builtin_popcountll(n->app.lent & supply) != pooled)
		ex_bad(n, "supplied buffers are miscounted");
	for (uint32_t i = 0; i < EX_PER && !n->scope->mem[0][0]; i++)
		if ((n->app.lent >> (EX_BUF_REQUEST + ex_own(n, i)) & 1) != (n->app.call[i] != 0))
			ex_bad(n, "a request's buffer is not returned with its call");
	if (ex_core_quiet(n->core) && (n->app.replies || (n->app.lent & ~supply)))
		ex_bad(n, "the core is idle but keeps a buffer");
}
