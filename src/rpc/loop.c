/* loop - one turn: clock, rx, core, handlers, core, tx.
 *
 * A turn that moves short datagrams does nothing else. Timers, memory for long messages, other
 * threads' work and waiting calls are for turns that find nothing, that move long datagrams, or
 * that begin TICK_NS after the last one of these.
 *
 * Received datagrams stay on loan from their carrier until the end of the turn, so handlers see
 * bytes in place; rx_done() comes last. The core's events are read after every input, because the
 * next input invalidates them. Layer: rpc. Threads: the endpoint's. */
#include "rpc/endpoint.h"

#include "rpc/keys.h"
#include "rpc/msg.h"
#include "rpc/sealed_sessions.h"
#include "sys/clock.h"
#include "sys/last_error.h"
#include "util/bits.h"

enum { LOOKS = 3 }; /* polls in a turn without other work: more of them gain nothing */
/* After this number of calls, their replies or successors leave before the next calls are handled:
 * the peer can work on them meanwhile. A datagram can bring 64 calls: without this both ends would
 * take turns. */
enum { SEND_AFTER = 16 };
enum { ROUNDS = 8 }; /* rounds of output per turn: if work remains, the next turn runs at once */
/* Limit in bytes of what a turn receives, and sends, for MOMENT_NS after a call above normal
 * priority. Long datagrams take a microsecond each to copy: 32 of them in both directions would
 * delay such a call by a hundred. As a permanent limit it would cost bulk transfers a tenth. */
enum { QUANTUM = 8 << 10, QUANTUM_CHEAP = 2 << 10, MOMENT_NS = 1000000 };
/* While such a call waits for its reply the limit applies too, for WAIT_NS at most. */
enum { WAIT_NS = 100 * MOMENT_NS };
/* Limit in bytes of a burst otherwise, for carriers that deliver whole messages: a worker or a
 * caller copies them at once. */
enum { WHOLE = 4 << 20 };
enum { SHORT = 256 }; /* bytes: a burst of such datagrams needs no limit */
/* Limit of the time from one check of the timers to the next: no timer of short messages is more
 * exact. */
enum { TICK_NS = 100000 };

void lend_ep_urgent_slow(struct lend_ep *ep)
{
	if (ep->config.schedule == LEND_AS_THEY_COME)
		return;
	lend_core_cut_fine(ep->core, lend_urgent_gap_add(&ep->urgent, lend_ep_now(ep)));
}

void lend_ep_pause_bulk_slow(struct lend_ep *ep, bool answered)
{
	if (ep->config.schedule == LEND_AS_THEY_COME)
		return;
	if (answered)
		lend_bulk_pause_end(&ep->bulk_pause, lend_ep_now(ep));
	else
		lend_bulk_pause_begin(&ep->bulk_pause, lend_ep_now(ep));
	lend_core_pause_bulk(ep->core, ep->bulk_pause.until);
}

/* Returns whether an urgent call was seen lately, or waits for its reply, not for too long. */
static bool is_urgent(const struct lend_ep *ep)
{
	return ep->now - ep->urgent.last < MOMENT_NS || ep->now - ep->bulk_pause.began < WAIT_NS;
}

static uint32_t quantum_of(const struct lend_ep *ep)
{
	return ep->slow_poll ? QUANTUM : QUANTUM_CHEAP;
}

/* Returns how many datagrams of the recent maximum length a burst may have. */
static uint32_t burst_of(const struct lend_ep *ep, uint32_t longest)
{
	uint32_t most;

	if (!longest)
		return LEND_BURST;
	most = is_urgent(ep) ? quantum_of(ep) : WHOLE;
	if (longest <= most / LEND_BURST)
		return LEND_BURST;
	return longest < most ? most / longest : 1;
}

/* Tracks the recent maximum length. It decays slowly: short bursts in between do not reset it.
 * While urgent calls come it stays: long messages pause for them again and again. */
static __attribute__((noinline)) void note_long(const struct lend_ep *ep, uint32_t *longest,
						uint32_t len)
{
	if (len > *longest)
		*longest = len;
	else if (!is_urgent(ep))
		*longest -= *longest / 64;
	if (*longest <= SHORT)
		*longest = 0;
}

static inline void note_length(const struct lend_ep *ep, uint32_t *longest, uint32_t len)
{
	if (len > SHORT || *longest)
		note_long(ep, longest, len);
}

static inline void count_sent(struct lend_ep *ep, const struct lend_out *out, uint32_t n)
{
	uint32_t longest = 0, sent = 0;
	uint64_t bytes = 0;

	for (const struct lend_out *end = out + n; out < end; out++) {
		uint32_t len = (uint32_t)out->head_len + out->tail_len;

		if (out->sent != LEND_SENT) {
			ep->blocked |= out->sent == LEND_SENT_FULL;
			continue;
		}
		len += out->n ? out->piece[0].len : 0;
		for (uint32_t p = 1; p < out->n; p++)
			len += out->piece[p].len;
		longest = lend_max_u32(longest, len);
		bytes += len;
		sent++;
	}
	note_length(ep, &ep->tx_long, longest);
	ep->stats.tx_bytes += bytes;
	ep->stats.tx_datagrams += sent;
}

static inline void hand_to(struct lend_ep *ep, uint32_t c, struct lend_out *out, uint32_t n)
{
	struct lend_io *io = ep->carrier[c].io;

	if (lend_sealing_has(&ep->sealing, c))
		lend_sealing_tx(ep, c, out, n);
	else
		io->ops->tx(io, &ep->bufs->table, out, n);
}

/* Consecutive datagrams of one carrier share a tx(). Each carrier numbers its own peers. */
static __attribute__((noinline)) void hand_apart(struct lend_ep *ep, struct lend_out *out,
						 uint32_t n)
{
	for (uint32_t i = 0, end; i < n; i = end) {
		uint32_t c = LEND_PEER_CARRIER(out[i].peer);

		for (end = i; end < n && LEND_PEER_CARRIER(out[end].peer) == c; end++) {
			out[end].peer = LEND_PEER_INDEX(out[end].peer);
			out[end].sent = LEND_SENT_DEAD;
		}
		if (c < ep->n_carriers)
			hand_to(ep, c, out + i, end - i);
		for (; i < end; i++)
			out[i].peer = LEND_PEER(c, out[i].peer);
	}
}

/* The first carrier's peers have the same number in the core and in the carrier. */
_Static_assert(LEND_PEER(0, 1) == 1, "an only carrier needs no translation");

static inline void hand_out(struct lend_ep *ep, struct lend_out *out, uint32_t n)
{
	lend_msg_register_regions(ep->bufs);
	if (ep->n_carriers == 1)
		hand_to(ep, 0, out, n);
	else
		hand_apart(ep, out, n);
}

static inline __attribute__((always_inline)) uint32_t transmit_burst(struct lend_ep *ep,
								     uint32_t burst)
{
	struct lend_out out[LEND_BURST];
	uint32_t n = lend_core_output(ep->core, ep->now, &ep->bufs->table, out, burst);

	if (!n)
		return 0;
	hand_out(ep, out, n);
	count_sent(ep, out, n);
	lend_core_sent(ep->core, out, n);
	return n;
}

static __attribute__((noinline)) void send_between(struct lend_ep *ep)
{
	transmit_burst(ep, LEND_BURST);
}

static void give_back(struct lend_ep *ep, const struct lend_event *ev)
{
	if (ev->maybe_queued && ep->lenders)
		lend_bufs_give(ep->bufs, lend_ep_back_queued(ep, ev->buf));
	else
		lend_msg_drop(ep->bufs, ev->buf);
}

static void pin_peer(struct lend_ep *ep, const struct lend_event *ev)
{
	uint32_t c = LEND_PEER_CARRIER(ev->peer);
	struct lend_io *io = c < ep->n_carriers ? ep->carrier[c].io : NULL;

	if (io)
		io->ops->pin(io, LEND_PEER_INDEX(ev->peer), ev->kind == LEND_EV_PEER_KEEP);
}

/* Handles any event. Returns how many of the user's functions may have run. */
static __attribute__((noinline)) uint32_t handle_any(struct lend_ep *ep,
						     const struct lend_event *ev)
{
	switch ((enum lend_event_kind)ev->kind) {
	case LEND_EV_CALL_END:
		lend_calls_end(ep, ev);
		return 1;
	case LEND_EV_REQUEST:
		lend_serve_request(ep, ev);
		return 1;
	case LEND_EV_REPLY_END:
	case LEND_EV_BUF_BACK:
		give_back(ep, ev);
		return 0;
	case LEND_EV_NEED:
		lend_serve_need(ep, ev);
		return 1;
	case LEND_EV_CANCELLED:
		lend_serve_cancelled(ep, ev);
		return 0;
	case LEND_EV_SESSION_UP:
		lend_sessions_up(ep, ev);
		return 1;
	case LEND_EV_SESSION_DOWN:
		lend_sessions_down(ep, ev);
		return 1;
	case LEND_EV_PEER_DROP:
		lend_sealed_ended(ep, ev->session);
		pin_peer(ep, ev);
		return 0;
	case LEND_EV_PEER_KEEP:
		pin_peer(ep, ev);
		return 0;
	case LEND_EV_PROVE:
		if (!lend_sealed_made(ep, ev))
			lend_handshake_prove(ep, ev);
		return 0;
	}
	return 0;
}

/* lend_event.what of a reply, and of a request, that has nothing special. */
static const struct lend_event usual_reply = {
    .kind = LEND_EV_CALL_END, .ran = LEND_RAN_YES, .class = LEND_NORMAL - 1};
static const struct lend_event usual_request = {.kind = LEND_EV_REQUEST, .class = LEND_NORMAL - 1};

/* Ends a call that began on the common path, if its reply is in place, or there is a buffer for a
 * copy. */
static inline __attribute__((always_inline)) bool end_usual(struct lend_ep *ep,
							    const struct lend_event *ev)
{
	struct lend_call *call = (struct lend_call *)(uintptr_t)ev->tag;
	struct lend_call_priv *p = lend_call_priv(call);
	struct lend_buf *request = p->request;
	uint32_t len = ev->data_len;

	if (p->flags != (LEND_CALL_BUSY | LEND_CALL_PLAIN) || ev->reply || !len)
		return false;
	if (call->in_place)
		call->reply = lend_reply_show(ep, ev->data, len);
	else if (lend_bufs_has(ep->bufs, len))
		call->reply = lend_msg_copy(ep->bufs, ev->data, len);
	else
		return false;
	lend_mbuf(request)->state = LEND_MBUF_USER;
	call->request = request;
	call->status = LEND_OK;
	call->ran = LEND_RAN_YES;
	call->hops = 1;
	call->reply_len = len;
	if (ep->head_of == call)
		ep->head_of = NULL;
	p->flags = 0;
	ep->stats.calls_ended++;
	if (call->done)
		call->done(call);
	return true;
}

/* Runs the inline handler of a request with its bytes in place, if its method was looked up last.
 */
static inline __attribute__((always_inline)) bool serve_usual(struct lend_ep *ep,
							      const struct lend_event *ev)
{
	const struct lend_method *method = ep->methods.last;
	struct lend_req *req = &ep->req[(uint32_t)ev->call];

	if (!method || method->number != ev->method || !method->fast_path || ev->buf ||
	    ev->deadline <= ep->now)
		return false;
	LEND_CHECK((uint32_t)ev->call < ep->n_req);
	lend_req_fill(req, ev);
	ep->stats.requests++;
	ep->serving = req;
	method->handler((lend_request){ev->call}, &req->view, method->arg);
	ep->serving = NULL;
	if (req->rare)
		lend_serve_handled(ep, req);
	else
		req->bytes = NULL;
	return true;
}

/* Handles events. Returns how many of the user's functions may have run. */
static inline __attribute__((always_inline)) uint32_t
handle_events(struct lend_ep *ep, const struct lend_event *ev, const struct lend_event *end)
{
	bool serves = !ep->draining && !ep->routes;
	uint32_t n = 0;

	for (; ev < end; ev++) {
		if ((ev->what == usual_reply.what && end_usual(ep, ev)) ||
		    (ev->what == usual_request.what && serves && serve_usual(ep, ev)))
			n++;
		else
			n += handle_any(ep, ev);
	}
	return n;
}

/* Handles the core's events, and those that their handling causes, until there are none. */
static inline __attribute__((always_inline)) void run_events(struct lend_ep *ep)
{
	const struct lend_event *ev;

	while (*ep->events) {
		uint32_t n = lend_core_events(ep->core, &ev), some;

		for (;; n -= some, ev += some) {
			some = lend_min_u32(n, SEND_AFTER);
			ep->ran += handle_events(ep, ev, ev + some);
			if (some == n)
				break;
			send_between(ep);
		}
	}
	if (ep->ended)
		ep->ran += lend_calls_ended(ep);
}

/* Does the same where events are rare. */
static __attribute__((noinline)) void run_more_events(struct lend_ep *ep)
{
	run_events(ep);
}

/* Supplies the core with buffers for long messages that have no memory of their own yet. */
static void supply_buffers(struct lend_ep *ep)
{
	for (uint32_t n = lend_core_supply_wanted(ep->core); n; n--) {
		struct lend_buf *buf = lend_bufs_take(ep->bufs, ep->supply_len);
		int err;

		if (!buf)
			return;
		lend_core_supply(ep->core, lend_msg_lend(ep->bufs, buf, true, &err));
	}
}

/* Translates the senders to the core's peer numbers, and counts. */
static inline void note_received(struct lend_ep *ep, uint32_t c, struct lend_in *in, uint32_t n)
{
	uint32_t longest = 0;
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t len = in[i].len + in[i].body_len;

		in[i].peer = LEND_PEER(c, in[i].peer);
		bytes += len;
		longest = lend_max_u32(longest, len);
	}
	note_length(ep, &ep->rx_long, longest);
	ep->stats.rx_bytes += bytes;
	ep->stats.rx_datagrams += n;
}

static inline __attribute__((always_inline)) uint32_t receive_burst(struct lend_ep *ep, uint32_t c)
{
	struct lend_io *io = ep->carrier[c].io;
	struct lend_in in[LEND_BURST];
	uint32_t n = io->ops->rx(io, in, burst_of(ep, ep->rx_long)), left;

	if (!n)
		return 0;
	ep->rx_open |= (uint8_t)(1u << c);
	note_received(ep, c, in, n);
	left = lend_sealing_has(&ep->sealing, c) ? lend_sealing_rx(ep, c, in, n) : n;
	lend_core_input(ep->core, ep->now, &ep->bufs->table, in, left);
	return n;
}

static __attribute__((noinline)) void release_each_rx(struct lend_ep *ep)
{
	for (uint32_t c = 0; ep->rx_open; c++, ep->rx_open >>= 1)
		if (ep->rx_open & 1)
			ep->carrier[c].io->ops->rx_done(ep->carrier[c].io);
}

static inline void release_rx(struct lend_ep *ep)
{
	struct lend_io *io = ep->carrier[0].io;

	if (ep->rx_open > 1) {
		release_each_rx(ep);
	} else if (ep->rx_open) {
		ep->rx_open = 0;
		io->ops->rx_done(io);
	}
}

/* Returns whether other threads left work, or there is work to look for. */
static bool has_odd_jobs(struct lend_ep *ep)
{
	return atomic_load_explicit(&ep->answers, memory_order_relaxed) ||
	       atomic_load_explicit(&ep->wake_workers, memory_order_relaxed) ||
	       atomic_load_explicit(&ep->bufs->inbox, memory_order_relaxed) ||
	       ep->pending != LEND_NONE32 || ep->lent || ep->reads ||
	       ep->keys_generation != lend_keys_generation() || ep->descriptors.look_at <= ep->now;
}

static __attribute__((noinline)) void do_odd_jobs(struct lend_ep *ep)
{
	if (atomic_load_explicit(&ep->answers, memory_order_relaxed))
		lend_serve_answers(ep);
	if (atomic_exchange_explicit(&ep->wake_workers, false, memory_order_acquire))
		lend_nested_adopt(ep);
	if (ep->pending != LEND_NONE32)
		lend_sessions_retry(ep);
	if (ep->lent)
		lend_ep_free_deferred(ep);
	if (ep->reads)
		ep->shown_ops->turn(ep);
	if (ep->keys_generation != lend_keys_generation())
		lend_sealed_reloaded(ep);
	lend_bufs_drain(ep->bufs);
	if (ep->descriptors.look_at <= ep->now)
		lend_descriptors_look(ep);
}

/* Sends one burst. Returns whether it was full: there may be more to send. */
static inline __attribute__((always_inline)) bool send_round(struct lend_ep *ep, uint32_t *moved)
{
	uint32_t burst = burst_of(ep, ep->tx_long), n = transmit_burst(ep, burst);

	*moved += n;
	if (*ep->events || ep->ended)
		run_more_events(ep);
	return n == burst && !ep->blocked;
}

/* Sends in more rounds, after one that was full. sent: tx_bytes before it. */
static __attribute__((noinline)) uint32_t send_more(struct lend_ep *ep, uint64_t sent)
{
	uint32_t moved = 0, round = 1;
	bool full = true;

	for (; full && round < ROUNDS; round++) {
		if (ep->stats.tx_bytes - sent >= quantum_of(ep) && is_urgent(ep))
			break;
		full = send_round(ep, &moved);
	}
	ep->dirty |= full;
	return moved;
}

/* Sends all output. Returns the number of datagrams. Events of calls into the core since the last
 * turn, such as a cancelled call's end, are handled after the first round. */
static inline __attribute__((always_inline)) uint32_t send_all(struct lend_ep *ep)
{
	uint64_t sent = ep->stats.tx_bytes;
	uint32_t moved = 0;

	/* Calls into the core from here on are for a later round, or the next turn. */
	ep->dirty = false;
	if (send_round(ep, &moved))
		moved += send_more(ep, sent);
	return moved;
}

/* Passes the core a carrier's room for datagrams if it changed, and the bytes in the host's own
 * queue if they matter. */
static void note_room(struct lend_ep *ep)
{
	for (uint32_t c = 0; c < ep->n_carriers; c++) {
		struct lend_io *io = ep->carrier[c].io;
		const struct lend_path *path = &io->path;

		if (path->counts && lend_core_host_queue_due(ep->core, c))
			lend_core_host_queue(ep->core, ep->now, c, io->ops->queued(io));
		if (path->room == ep->core_config.path[c].room)
			continue;
		ep->core_config.path[c].room = path->room;
		lend_core_path(ep->core, c, &ep->core_config.path[c]);
	}
}

/* Does everything that may be due before the output. Returns whether there may be output: most
 * polls find nothing, then the turn skips it. */
static __attribute__((noinline)) bool prepare_output(struct lend_ep *ep, uint32_t received)
{
	bool silent = received, due;

	note_room(ep);
	supply_buffers(ep);
	if (!received && ep->now < ep->descriptors.busy_until)
		ep->descriptors.look_at = ep->now;
	if (has_odd_jobs(ep)) {
		do_odd_jobs(ep);
		silent = false;
	}
	/* Timers may end a call before it is sent. Grants and pauses precede long messages. */
	ep->tick_at = lend_core_deadline(ep->core);
	due = received || ep->dirty || ep->ended || ep->tick_at <= ep->now;
	if (ep->tick_at <= ep->now) {
		lend_core_tick(ep->core, ep->now);
		silent = false;
	}
	if (due && !silent)
		run_more_events(ep);
	return due;
}

/* Does everything that may be due after the output. */
static __attribute__((noinline)) void finish_turn(struct lend_ep *ep, bool sent)
{
	if (sent)
		ep->tick_at = lend_core_deadline(ep->core);
	ep->tick_at = lend_min_u64(ep->tick_at, ep->now + TICK_NS);
	/* Slots become free by datagrams, timers and cancels. */
	if (ep->queued != LEND_NONE32 && (sent || ep->now >= ep->queue_at))
		lend_calls_unqueue(ep);
	if (ep->alarms && ep->alarms->at <= ep->now)
		lend_alarms_ring(ep);
}

/* Returns whether a turn has nothing to do but send after what it received. */
static inline bool only_sends(const struct lend_ep *ep, uint32_t received)
{
	return (received || ep->dirty) && ep->tick_at > ep->now && ep->queued == LEND_NONE32 &&
	       !(ep->rx_long | ep->tx_long) &&
	       !atomic_load_explicit(&ep->answers, memory_order_relaxed) &&
	       !atomic_load_explicit(&ep->wake_workers, memory_order_relaxed);
}

static __attribute__((noinline)) uint32_t receive_from(struct lend_ep *ep, uint32_t c)
{
	uint32_t n = receive_burst(ep, c);

	if (n)
		run_more_events(ep);
	return n;
}

/* Polls the carriers; returns the number of datagrams. One that arrives just after a poll waits for
 * the next poll. So a turn without other work polls several times if polls are cheap. */
static inline __attribute__((always_inline)) uint32_t poll_carriers(struct lend_ep *ep)
{
	uint32_t moved = 0, looks = ep->slow_poll || ep->dirty ? 1 : LOOKS;

	if (ep->n_carriers == 0)
		return 0;
	for (; looks > 0 && moved == 0; looks--) {
		moved = receive_burst(ep, 0);
		if (moved)
			run_events(ep);
		for (uint32_t c = 1; c < ep->n_carriers; c++)
			moved += receive_from(ep, c);
	}
	return moved;
}

int lend_ep_turn(struct lend_ep *ep)
{
	uint32_t moved;
	bool quick, due;

	ep->turning = true;
	ep->blocked = false;
	ep->ran = 0;
	ep->now = lend_clock_now();
	moved = poll_carriers(ep);
	quick = only_sends(ep, moved);
	due = quick || prepare_output(ep, moved);
	if (due)
		moved += send_all(ep);
	if (!quick)
		finish_turn(ep, due);
	else if (ep->blocked)
		ep->tick_at = ep->now; /* the core retries soon */
	release_rx(ep);
	ep->turning = false;
	if (moved || ep->ran)
		ep->active = ep->now;
	return (int)ep->ran;
}
