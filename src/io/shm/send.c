#include "io/shm/send.h"

#include <string.h>

#include "io/builtin.h"
#include "io/shm/poll.h"
#include "sys/shared_arena.h"
#include "util/bits.h"

enum { NOTIFIED_MAX = 32 }; /* peers notified after one fence */

static struct lend_shm *self(struct lend_io *io)
{
	return (struct lend_shm *)(void *)io;
}

uint32_t lend_shm_op_rx(struct lend_io *io, struct lend_in *in, uint32_t cap)
{
	return lend_shm_rx(self(io), in, cap);
}

void lend_shm_op_rx_done(struct lend_io *io)
{
	lend_shm_rx_done(self(io));
}

static void copy_in(unsigned char *to, const struct lend_bufs *bufs, const struct lend_out *out)
{
	memcpy(to, out->head, out->head_len);
	to += out->head_len;
	for (uint32_t i = 0; i < out->n; i++) {
		/* An empty piece may have a NULL address. */
		if (out->piece[i].len > 0)
			memcpy(to, lend_piece_data(bufs, &out->piece[i]), out->piece[i].len);
		to += out->piece[i].len;
	}
	if (out->tail_len > 0)
		memcpy(to, out->tail, out->tail_len);
}

/* The segments of a datagram's one piece: those that the peer reads in our memory, and the others.
 */
struct apart {
	struct lend_ring_ref place[LEND_PLACES];
	struct lend_part rest[LEND_PARTS];
	uint32_t n, rests;
	uint32_t len; /* of the datagram in the ring */
};

/* Adds a span of bytes that is contiguous and at this offset of the message. False: there are too
 * many. */
static bool add_span(struct apart *a, const uint8_t *data, uint32_t len, uint32_t at)
{
	struct lend_ring_ref place = {.len = len, .at = at};

	if (len >= LEND_PLACE_MIN && a->n < LEND_PLACES &&
	    lend_arena_find(data, len, &place.offset)) {
		a->place[a->n++] = place;
		a->len += (uint32_t)sizeof(place);
		return true;
	}
	if (a->rests == LEND_PARTS || len > LEND_RING_MTU)
		return false;
	a->rest[a->rests++] = (struct lend_part){data, len};
	a->len += len;
	return true;
}

/* Sorts the segments of the datagram's one piece. False: the datagram must be copied. None is in
 * our shared memory, the peer does not read it, or the mark of a slot cannot hold the head's
 * length. */
static bool is_apart(const struct lend_ring_tx *tx, const struct lend_bufs *bufs,
		     const struct lend_out *out, struct apart *a)
{
	const struct lend_piece *piece = out->piece;
	uint32_t left = piece->len, from = piece->offset;

	if (tx->lent == NULL || out->n != 1 || piece->len < LEND_PLACE_MIN || out->tail_len > 0 ||
	    out->head_len > UINT8_MAX)
		return false;
	a->n = a->rests = 0;
	a->len = out->head_len;
	for (uint32_t i = piece->buf; left > 0; i = bufs->seg[i].next, from = 0) {
		const struct lend_seg *seg = &bufs->seg[i];
		uint32_t here;

		LEND_CHECK(i < bufs->n && from <= seg->len);
		here = lend_min_u32(left, seg->len - from);
		if (here > 0 && !add_span(a, (uint8_t *)seg->data + from, here, piece->len - left))
			return false;
		left -= here;
	}
	return a->n > 0;
}

static void put_apart(struct lend_ring_tx *tx, const struct lend_out *out, const struct apart *a)
{
	unsigned char *to = lend_ring_reserve(tx, a->len);

	to = mempcpy(to, out->head, out->head_len);
	for (uint32_t i = 0; i < a->rests; i++)
		to = mempcpy(to, a->rest[i].data, a->rest[i].len);
	memcpy(to, a->place, a->n * sizeof(a->place[0]));
	lend_ring_commit_refs(tx, lend_ring_mark_refs(a->len, out->head_len, a->n),
			      out->piece[0].buf);
}

static enum lend_sent count_dead(struct lend_shm *s)
{
	s->io.stats.tx_dead++;
	return LEND_SENT_DEAD;
}

static __attribute__((noinline)) enum lend_sent
send_one(struct lend_shm *s, const struct lend_bufs *bufs, const struct lend_out *out)
{
	struct lend_shm_peer *p = &s->peer[out->peer];
	struct lend_ring_tx *tx;
	struct apart a;
	bool fast, apart;
	uint32_t len;

	if (out->peer >= s->top || p->state != LEND_SHM_UP)
		return count_dead(s);
	fast = out->fast && p->fast_tx.ring;
	tx = fast ? &p->fast_tx : &p->tx;
	apart = is_apart(tx, bufs, out, &a);
	len = apart ? a.len : lend_out_len(out);
	if (len > s->io.path.mtu)
		return count_dead(s);
	/* None overtakes a refused datagram: a short one waits behind a long one. */
	if (p->full_in[fast] == s->bursts ||
	    !lend_ring_room(tx, lend_max_u32(len, p->blocked_len[fast]))) {
		p->full_in[fast] = s->bursts;
		p->blocked_len[fast] = lend_max_u32(len, p->blocked_len[fast]);
		s->io.stats.tx_full++;
		return LEND_SENT_FULL;
	}
	p->blocked_len[fast] = 0;
	if (apart) {
		put_apart(tx, out, &a);
		return LEND_SENT;
	}
	copy_in(lend_ring_reserve(tx, len), bufs, out);
	lend_ring_commit(tx, len);
	return LEND_SENT;
}

/* True for a head with at most one piece that fit behind the mark, as most do. */
static inline bool is_short(const struct lend_out *out, uint32_t *len)
{
	*len = out->head_len + (out->n ? out->piece[0].len : 0);
	return *len <= LEND_RING_SHORT && out->n <= 1 && out->tail_len == 0;
}

/* Returns the ring for a datagram. NULL: the peer has none, or earlier datagrams wait for room. */
static struct lend_ring_tx *open_ring(struct lend_shm *s, const struct lend_out *out)
{
	struct lend_shm_peer *p = &s->peer[out->peer];
	bool fast;

	if (out->peer >= s->top || p->state != LEND_SHM_UP)
		return NULL;
	fast = out->fast && p->fast_tx.ring;
	if (p->blocked_len[fast])
		return NULL;
	return fast ? &p->fast_tx : &p->tx;
}

/* Sends the datagrams from out[0] on that are short and use its ring, while that has known room.
 * Returns how many. */
static __attribute__((noinline)) uint32_t
send_short(struct lend_shm *s, const struct lend_bufs *bufs, struct lend_out *out, uint32_t n)
{
	struct lend_ring_tx *tx = open_ring(s, out);
	const struct lend_bufs table = *bufs;
	uint32_t i = 0, peer = out->peer, fast = out->fast, next, end, len;
	struct lend_ring *ring;

	if (!tx)
		return 0;
	ring = tx->ring;
	next = tx->next;
	end = next + lend_min_u32(n, lend_ring_free_slots(tx));
	for (; next != end && is_short(out, &len); i++, next++, out++) {
		struct lend_ring_slot *slot = &ring->slot[next % LEND_RING_SLOTS];
		uint32_t head = out->head_len;

		if (out->peer != peer || out->fast != fast)
			break;
		lend_copy_short(slot->data, out->head, head);
		if (len > head)
			lend_copy_short(slot->data + head, lend_piece_data(&table, out->piece),
					len - head);
		lend_ring_publish(slot, next, len);
		out->sent = LEND_SENT;
	}
	tx->next = next;
	return i;
}

/* Rings the doorbell of a receiver that does not poll this ring, and wakes it if it sleeps. The
 * wake-up comes first and clearing `asleep` second: if this process stops in between, other
 * senders still wake the receiver. By then it may sleep again, under another number. */
static __attribute__((noinline)) void ring_bell(struct lend_shm_peer *p)
{
	uint64_t bit = UINT64_C(1) << p->bit % 64;
	uint32_t sleep;

	(void)atomic_fetch_or_explicit(&p->bell->word[p->bit / 64], bit, memory_order_seq_cst);
	sleep = atomic_load_explicit(&p->bell->asleep, memory_order_seq_cst);
	if (sleep == 0 || p->sock < 0)
		return;
	lend_rendezvous_wake(p->sock);
	(void)atomic_compare_exchange_strong_explicit(&p->bell->asleep, &sleep, 0,
						      memory_order_seq_cst, memory_order_relaxed);
}

/* Call after a fence: datagrams are published before the check whether the receiver polls. */
static inline void ring_doorbell(struct lend_shm_peer *p)
{
	if (atomic_load_explicit(&p->tx.ring->polled, memory_order_relaxed) == 0)
		ring_bell(p);
}

/* Sends a burst that is not all short and for one peer with room. Those before out[i] were sent
 * already. One fence serves many peers. */
static __attribute__((noinline)) void send_mixed(struct lend_shm *s, const struct lend_bufs *bufs,
						 struct lend_out *out, uint32_t i, uint32_t n)
{
	uint32_t notified[NOTIFIED_MAX], n_notified = 0;

	s->bursts++;
	if (i > 0)
		notified[n_notified++] = out->peer;
	for (uint32_t run; i < n; i += run) {
		run = send_short(s, bufs, out + i, n - i);
		if (run == 0) {
			out[i].sent = send_one(s, bufs, &out[i]);
			run = 1;
		}
		if (out[i].sent == LEND_SENT &&
		    (n_notified == 0 || notified[n_notified - 1] != out[i].peer))
			notified[n_notified++] = out[i].peer;
		if (n_notified < NOTIFIED_MAX && i + run < n)
			continue;
		atomic_thread_fence(memory_order_seq_cst);
		while (n_notified > 0)
			ring_doorbell(&s->peer[notified[--n_notified]]);
	}
}

void lend_shm_op_tx(struct lend_io *io, struct lend_bufs *bufs, struct lend_out *out, uint32_t n)
{
	struct lend_shm *s = self(io);
	uint32_t sent = n > 0 ? send_short(s, bufs, out, n) : 0;

	if (sent < n) {
		send_mixed(s, bufs, out, sent, n);
		return;
	}
	atomic_thread_fence(memory_order_seq_cst);
	if (n > 0)
		ring_doorbell(&s->peer[out->peer]);
}

bool lend_shm_op_flush(struct lend_io *io, uint32_t buf)
{
	struct lend_shm *s = self(io);

	for (uint32_t i = 0; i < s->top; i++) {
		struct lend_shm_peer *p = &s->peer[i];

		if (p->state == LEND_SHM_UP &&
		    !(lend_ring_is_unread(&p->tx, buf) && lend_ring_is_unread(&p->fast_tx, buf)))
			return false;
	}
	return true;
}

void lend_shm_op_pin(struct lend_io *io, uint32_t peer, bool kept)
{
	struct lend_shm *s = self(io);

	if (peer >= s->top || s->peer[peer].state == LEND_SHM_FREE)
		return;
	if (kept)
		s->peer[peer].pins++;
	else if (s->peer[peer].pins > 0)
		s->peer[peer].pins--;
	if (s->gone > 0 && s->lent == 0)
		lend_shm_drop_gone(s);
}
