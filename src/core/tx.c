#include "core/tx.h"

enum { WORDS = LEND_FRAGS_WINDOW / 64 };
enum { FULL = 8192 }; /* bytes: a datagram that is long enough to delay others */

static uint64_t bit_of(uint32_t frag)
{
	return UINT64_C(1) << (frag % 64);
}

static uint32_t word_of(uint32_t frag)
{
	return frag % LEND_FRAGS_WINDOW / 64;
}

void lend_tx_open(struct lend_core *c, const struct lend_sess *s, struct lend_tx *t, uint32_t len)
{
	t->fine = c->fine_until > c->now && s->payload >= FULL;
	t->total = lend_frag_count(lend_frag_unit(s, t->fine), len);
	t->win = lend_pool_take(&c->free_wins, LEND_AT(c, at_free_wins, uint32_t));
	LEND_CHECK(t->win != LEND_NONE); /* there is one for every record */
	memset(lend_win_at(c, t->win), 0, sizeof(struct lend_win));
}

void lend_tx_close(struct lend_core *c, struct lend_tx *t)
{
	lend_pool_give(&c->free_wins, LEND_AT(c, at_free_wins, uint32_t), t->win);
	t->win = LEND_NONE;
}

/* Returns the lowest fragment to retransmit. There is one. */
static uint32_t lowest_resend(const struct lend_win *w, uint32_t low)
{
	uint32_t n = lend_bits_distance(w->resend, WORDS, low % LEND_FRAGS_WINDOW);

	LEND_CHECK(n < LEND_FRAGS_WINDOW);
	return low + n;
}

static bool may_send(const struct lend_sess *s, const struct lend_tx *t, uint32_t frag)
{
	uint32_t unit = lend_tx_unit(s, t);
	uint64_t end = (uint64_t)frag * unit + lend_frag_len(unit, t->len, frag);

	return end <= t->granted && frag - t->low < LEND_FRAGS_WINDOW;
}

bool lend_tx_pick(struct lend_core *c, const struct lend_sess *s, const struct lend_tx *t,
		  uint32_t *frag)
{
	if (t->resend) {
		*frag = lowest_resend(lend_win_at(c, t->win), t->low);
		return true;
	}
	*frag = t->next;
	return t->next < t->total && may_send(s, t, t->next);
}

void lend_tx_sent(struct lend_core *c, struct lend_tx *t, uint32_t frag)
{
	if (t->resend && lend_win_at(c, t->win)->resend[word_of(frag)] & bit_of(frag)) {
		lend_win_at(c, t->win)->resend[word_of(frag)] &= ~bit_of(frag);
		t->resend--;
	}
	if (frag == t->next)
		t->next++;
}

bool lend_tx_waits_resend(struct lend_core *c, const struct lend_tx *t, uint32_t frag)
{
	return lend_win_at(c, t->win)->resend[word_of(frag)] & bit_of(frag);
}

void lend_tx_lost(struct lend_core *c, struct lend_tx *t, uint32_t frag)
{
	struct lend_win *w;

	if (frag < t->low || frag >= t->next)
		return;
	if (t->win == LEND_NONE) {
		t->resend = 1;
		return;
	}
	w = lend_win_at(c, t->win);
	if ((w->acked[word_of(frag)] | w->resend[word_of(frag)]) & bit_of(frag))
		return;
	w->resend[word_of(frag)] |= bit_of(frag);
	t->resend++;
}

static void slide_window(struct lend_win *w, struct lend_tx *t)
{
	while (t->low < t->next && w->acked[word_of(t->low)] & bit_of(t->low)) {
		w->acked[word_of(t->low)] &= ~bit_of(t->low);
		t->low++;
	}
}

static void clear_resend(struct lend_win *w, struct lend_tx *t, uint32_t frag)
{
	if (w->resend[word_of(frag)] & bit_of(frag)) {
		w->resend[word_of(frag)] &= ~bit_of(frag);
		t->resend--;
	}
	w->acked[word_of(frag)] |= bit_of(frag);
}

void lend_tx_acked(struct lend_core *c, struct lend_tx *t, uint32_t frag)
{
	if (frag < t->low || frag >= t->next)
		return;
	if (t->win == LEND_NONE) {
		t->low = 1;
		t->resend = 0;
		return;
	}
	clear_resend(lend_win_at(c, t->win), t, frag);
	slide_window(lend_win_at(c, t->win), t);
}

void lend_tx_acked_below(struct lend_core *c, struct lend_tx *t, uint32_t low)
{
	if (low > t->next || low <= t->low)
		return;
	if (t->win == LEND_NONE) {
		lend_tx_acked(c, t, 0);
		return;
	}
	for (uint32_t i = t->low; i < low; i++)
		clear_resend(lend_win_at(c, t->win), t, i);
	slide_window(lend_win_at(c, t->win), t);
}

void lend_tx_restart(struct lend_core *c, const struct lend_sess *s, struct lend_tx *t,
		     uint32_t first)
{
	t->since = lend_max_u32((uint32_t)s->number, 1);
	if (first <= t->low && t->win != LEND_NONE) {
		memset(lend_win_at(c, t->win), 0, sizeof(struct lend_win));
		t->low = first;
		t->resend = 0;
		/* More fragments than the window can mark are sent as if they were new. */
		if (t->next - first > LEND_FRAGS_WINDOW)
			t->next = first;
	}
	for (uint32_t i = lend_max_u32(first, t->low); i < t->next; i++)
		lend_tx_lost(c, t, i);
}

bool lend_tx_is_shared(const struct lend_bufs *bufs, uint32_t buf)
{
	uint32_t places = 0;
	uint64_t rest = 0;

	if (!bufs->seg[buf].next)
		return true;
	for (; buf && places <= LEND_PLACES; buf = bufs->seg[buf].next) {
		if (lend_seg_is_place(&bufs->seg[buf]))
			places++;
		else
			rest += bufs->seg[buf].len;
	}
	return places > 0 && places <= LEND_PLACES && rest <= LEND_INLINE_MAX;
}

/* Moves the cursor to the segment that holds offset; starts over if it has to go back. */
static void seek_segment(struct lend_tx *t, const struct lend_bufs *bufs, uint32_t offset)
{
	if (offset < t->base) {
		t->seg = t->buf;
		t->base = 0;
	}
	while (offset >= t->base + bufs->seg[t->seg].len && bufs->seg[t->seg].next) {
		t->base += bufs->seg[t->seg].len;
		t->seg = bufs->seg[t->seg].next;
	}
}

uint8_t lend_tx_pieces_slow(struct lend_tx *t, const struct lend_bufs *bufs, uint32_t offset,
			    uint32_t len, struct lend_piece *piece)
{
	uint32_t seg, at;
	uint8_t n = 0;

	seek_segment(t, bufs, offset);
	seg = t->seg;
	at = offset - t->base;
	while (len > 0) {
		uint32_t here = lend_min_u32(len, bufs->seg[seg].len - at);

		if (here > 0) {
			LEND_CHECK(n < LEND_PIECES);
			piece[n++] = (struct lend_piece){.buf = seg, .offset = at, .len = here};
		}
		len -= here;
		at = 0;
		seg = bufs->seg[seg].next;
		LEND_CHECK(len == 0 || seg != 0);
	}
	return n;
}

/* A span touches more than PIECES segments only if PIECES - 1 neighbours fit strictly inside it:
 * with the first and last byte of the span in the segments around them. */
bool lend_tx_fits_slow(const struct lend_bufs *bufs, uint32_t buf, uint32_t payload, uint64_t *len)
{
	uint32_t last[LEND_PIECES - 1] = {0}, n = 0;
	uint64_t sum = 0;
	bool fits = true;

	*len = 0;
	for (uint32_t i = buf; i; i = bufs->seg[i].next) {
		uint32_t here = bufs->seg[i].len;

		*len += here;
		if (here == 0)
			continue;
		if (n >= LEND_PIECES && sum + 2 <= payload)
			fits = false; /* the segment before them, they, and this one */
		sum += here - last[n % (LEND_PIECES - 1)];
		last[n++ % (LEND_PIECES - 1)] = here;
	}
	return fits;
}
