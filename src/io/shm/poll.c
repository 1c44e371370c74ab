#include "io/shm/poll.h"

#include "io/shm/ring_read.h"
#include "sys/clock.h"

enum {
	ATTEND_CYCLES = 250000, /* about 100 us */
	ATTEND_POLLS = 8,       /* polls between two reads of the cycle counter */
	HOT_FREE = 4,           /* this many rings stay hot however idle they are */
	FAIR = 8,         /* one poll in this number starts with datagrams that are not urgent */
	HOT_IDLE = 1024,  /* empty polls until a further ring becomes cold */
	SWEEP_LOOKS = 64, /* polls of the sockets between two polls of all rings */
};

void lend_shm_make_hot(struct lend_shm *s, struct lend_shm_peer *p)
{
	p->idle = 0;
	if (p->hot)
		return;
	p->hot = true;
	s->hot[s->hot_n++] = (uint16_t)lend_shm_index(s, p);
	atomic_store_explicit(&p->rx.ring->polled, 1, memory_order_relaxed);
}

void lend_shm_unlist(struct lend_shm *s, struct lend_shm_peer *p)
{
	if (!p->hot)
		return;
	p->hot = false;
	for (uint32_t i = 0; i < s->hot_n; i++) {
		if (s->hot[i] == lend_shm_index(s, p)) {
			s->hot[i] = s->hot[--s->hot_n];
			return;
		}
	}
}

bool lend_shm_make_cold(struct lend_shm *s, struct lend_shm_peer *p)
{
	if (p->state != LEND_SHM_UP)
		return false;
	atomic_store_explicit(&p->rx.ring->polled, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	if (lend_shm_is_ready(p)) {
		atomic_store_explicit(&p->rx.ring->polled, 1, memory_order_relaxed);
		return false;
	}
	lend_shm_unlist(s, p);
	return true;
}

static __attribute__((noinline)) void clear_bell_word(struct lend_shm *s, uint32_t w)
{
	uint64_t bits = atomic_exchange_explicit(&s->bell->word[w], 0, memory_order_seq_cst);

	for (; bits != 0; bits &= bits - 1) {
		uint32_t i = w * 64 + (uint32_t)__builtin_ctzll(bits);

		if (i < s->top && lend_shm_is_live(&s->peer[i]))
			lend_shm_make_hot(s, &s->peer[i]);
	}
}

static void answer_bell(struct lend_shm *s)
{
	uint32_t words = (s->top + 63) / 64;

	for (uint32_t w = 0; w < words; w++)
		if (atomic_load_explicit(&s->bell->word[w], memory_order_relaxed) != 0)
			clear_bell_word(s, w);
}

static __attribute__((noinline)) void poll_all(struct lend_shm *s)
{
	for (uint32_t i = 0; i < s->top; i++) {
		if (lend_shm_is_live(&s->peer[i]) && lend_shm_is_ready(&s->peer[i]))
			lend_shm_make_hot(s, &s->peer[i]);
	}
}

static void end_sleep(struct lend_shm *s)
{
	if (s->armed)
		atomic_store_explicit(&s->bell->asleep, 0, memory_order_relaxed);
	s->armed = false;
}

static bool has_rung(const struct lend_shm *s)
{
	for (uint32_t w = 0; w * 64 < s->top; w++) {
		if (atomic_load_explicit(&s->bell->word[w], memory_order_relaxed) != 0)
			return true;
	}
	return false;
}

static __attribute__((noinline)) void poll_all_sockets(struct lend_shm *s)
{
	uint64_t now = lend_clock_cycles();

	if (!s->armed && now - s->attended < ATTEND_CYCLES)
		return;
	if (s->armed) {
		end_sleep(s);
		s->attended = now - ATTEND_CYCLES;
		/* The ring that woke us is served first: system calls for the sockets would take as
		 * long as the rest of the wake-up. */
		if (has_rung(s))
			return;
	}
	s->attended = now;
	s->poll_sockets(s);
	if (++s->socket_polls % SWEEP_LOOKS == 0)
		poll_all(s);
}

/* Reports the end of a peer that hung up, once all its datagrams are delivered. */
static __attribute__((noinline)) bool is_over(struct lend_shm *s, struct lend_shm_peer *p,
					      struct lend_in *in)
{
	if (p->left > 0 && lend_shm_is_ready(p))
		return false;
	*in = (struct lend_in){.peer = lend_shm_index(s, p), .gone = 1};
	lend_shm_set_state(s, p, LEND_SHM_GONE);
	return true;
}

/* Returns the next index of hot[], in round-robin order. */
static inline uint32_t next_hot(uint32_t turn, uint32_t hots)
{
	return turn + 1 < hots ? turn + 1 : 0;
}

static inline bool has_fast(const struct lend_shm_peer *p)
{
	return p->fast_rx.ring && lend_ring_ready(&p->fast_rx);
}

static uint32_t poll_fast(struct lend_shm *s, struct lend_in *in, uint32_t cap)
{
	uint32_t n = 0, hots = s->hot_n, turn = s->turn;

	for (uint32_t left = hots; left > 0 && n < cap; left--, turn = next_hot(turn, hots)) {
		struct lend_shm_peer *p = &s->peer[s->hot[turn]];

		if (has_fast(p))
			n += lend_shm_read_ring(s, p, &p->fast_rx, in + n, cap - n);
	}
	return n;
}

/* Lends the datagrams of one ring. Returns how many. */
static inline uint32_t poll_one(struct lend_shm *s, struct lend_shm_peer *p, struct lend_in *in,
				uint32_t cap)
{
	uint32_t n = 0;

	p->idle++;
	if (lend_ring_ready(&p->rx)) {
		n = lend_shm_read_ring(s, p, &p->rx, in, cap);
		p->idle = 0;
	}
	if (p->state == LEND_SHM_HUNG_UP && n < cap)
		n += is_over(s, p, &in[n]);
	return n;
}

static uint32_t poll_hot(struct lend_shm *s, struct lend_in *in, uint32_t cap)
{
	uint32_t n = 0, hots = s->hot_n, turn = s->turn;

	for (uint32_t left = hots; left > 0 && n < cap; left--, turn = next_hot(turn, hots))
		n += poll_one(s, &s->peer[s->hot[turn]], in + n, cap - n);
	s->turn = next_hot(s->turn, hots);
	return n;
}

/* As poll_fast() and poll_hot(), for a single peer, which is the usual case. */
static uint32_t poll_only(struct lend_shm *s, struct lend_in *in, uint32_t cap, bool fast)
{
	struct lend_shm_peer *p = &s->peer[s->hot[0]];

	if (fast && has_fast(p))
		return lend_shm_read_ring(s, p, &p->fast_rx, in, cap);
	return poll_one(s, p, in, cap);
}

static __attribute__((noinline)) void cool_down(struct lend_shm *s)
{
	for (uint32_t k = s->hot_n; k-- > 0 && s->hot_n > HOT_FREE;) {
		struct lend_shm_peer *p = &s->peer[s->hot[k]];

		if (p->idle > HOT_IDLE)
			(void)lend_shm_make_cold(s, p);
	}
	if (s->turn >= s->hot_n)
		s->turn = 0;
}

uint32_t lend_shm_rx(struct lend_shm *s, struct lend_in *in, uint32_t cap)
{
	uint32_t n;
	bool fast;

	if (s->armed || ++s->polls % ATTEND_POLLS == 0)
		poll_all_sockets(s);
	/* Rings cool down here, before datagrams are lent: on a busy carrier some are lent at any
	 * later point. */
	if (s->hot_n > HOT_FREE && s->polls % HOT_IDLE == 0 && s->lent == 0)
		cool_down(s);
	answer_bell(s);
	if (s->turn >= s->hot_n)
		s->turn = 0;
	/* Returns urgent datagrams alone, so that they are answered before others are copied. One
	 * poll of FAIR starts with the others, so that they are not starved. */
	fast = s->polls % FAIR;
	if (s->hot_n == 1) {
		n = poll_only(s, in, cap, fast);
	} else {
		n = fast ? poll_fast(s, in, cap) : 0;
		if (n == 0)
			n = poll_hot(s, in, cap);
	}
	s->lent += n;
	return n;
}

void lend_shm_drop_gone(struct lend_shm *s)
{
	for (uint32_t k = s->hot_n; k-- > 0;) {
		struct lend_shm_peer *p = &s->peer[s->hot[k]];

		if (p->state == LEND_SHM_GONE) {
			p->hot = false;
			s->hot[k] = s->hot[--s->hot_n];
		}
	}
	s->turn = 0;
	lend_shm_release_gone(s);
}

void lend_shm_rx_done(struct lend_shm *s)
{
	if (s->lent == 0)
		return;
	s->lent = 0;
	s->parts = 0;
	for (uint32_t k = 0; k < s->hot_n; k++) {
		struct lend_shm_peer *p = &s->peer[s->hot[k]];
		bool bulk = lend_ring_done(&p->rx);
		bool fast = lend_ring_done(&p->fast_rx);

		if ((bulk || fast) && p->sock >= 0)
			lend_rendezvous_wake(p->sock);
	}
	if (s->gone > 0)
		lend_shm_drop_gone(s);
}

static bool can_go_on(uint32_t *blocked_len, struct lend_ring_tx *tx)
{
	if (*blocked_len == 0 || lend_ring_await_room(tx, *blocked_len))
		return false;
	*blocked_len = 0;
	return true;
}

static bool has_room_again(struct lend_shm *s)
{
	for (uint32_t i = 0; i < s->top; i++) {
		struct lend_shm_peer *p = &s->peer[i];

		if (p->state == LEND_SHM_UP && (can_go_on(&p->blocked_len[0], &p->tx) ||
						can_go_on(&p->blocked_len[1], &p->fast_tx)))
			return true;
	}
	return false;
}

bool lend_shm_arm(struct lend_shm *s)
{
	for (uint32_t k = s->hot_n; k-- > 0;) {
		if (!lend_shm_make_cold(s, &s->peer[s->hot[k]]))
			return false;
	}
	s->turn = 0;
	if (has_room_again(s))
		return false;
	s->armed = true;
	s->sleeps += s->sleeps + 1 == 0 ? 2 : 1;
	atomic_store_explicit(&s->bell->asleep, s->sleeps, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	if (!has_rung(s))
		return true;
	end_sleep(s);
	return false;
}
