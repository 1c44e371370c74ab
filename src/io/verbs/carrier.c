/* verbs/carrier - UD queue pairs: receives in bursts, and sleeps without losing a wake-up.
 *
 * A completion identifies a datagram. Its bytes are lent in the slot that the device wrote, behind
 * the 40 bytes of GRH. Slots are posted again in bursts after their loan. Before a sleep, the
 * carrier requests an event for the next completion, then polls once more. Layer: io. Threads: one
 * per carrier.
 */
#include "io/verbs/verbs.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/bits.h"

enum { LOOK_EVERY = 1024 /* receive calls between polls of events */, ACK_EVERY = 4096 };

static struct verbs *self(struct lend_io *io)
{
	return (struct verbs *)(void *)io;
}

static uint32_t poll_completions(struct verbs *v, struct ibv_wc *wc, uint32_t cap)
{
	int n;

	if (v->n_early > 0) {
		uint32_t early = lend_min_u32(v->n_early, cap);

		memcpy(wc, v->early, early * sizeof(*wc));
		memmove(v->early, v->early + early, (v->n_early - early) * sizeof(*wc));
		v->n_early -= early;
		return early;
	}
	n = ibv_poll_cq(v->rx_cq, (int)cap, wc);
	if (n > 0) {
		uint32_t had =
		    atomic_fetch_sub_explicit(&v->ring->posted, (uint32_t)n, memory_order_relaxed);

		v->io.stats.rx_missed += had <= (uint32_t)n;
		return (uint32_t)n;
	}
	if (n < 0)
		v->broken = true;
	return 0;
}

static void count_failed(struct verbs *v, const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_LOC_LEN_ERR)
		v->io.stats.rx_truncated++;
	else if (wc->status != IBV_WC_WR_FLUSH_ERR)
		v->io.stats.rx_bad++;
	v->broken = true;
}

/* Returns the index of a sender, which may be new. Datagrams of one sender come in runs. */
static int32_t find_sender(struct verbs *v, const struct lend_udp_key *key, const struct ibv_wc *wc)
{
	if (v->last_peer != LEND_UDP_PEER_NONE && memcmp(key, &v->last_from, sizeof(*key)) == 0 &&
	    lend_udp_peers_at(&v->peers, (uint32_t)v->last_peer) != NULL &&
	    memcmp(&v->peers.peer[v->last_peer].key, key, sizeof(*key)) == 0)
		return v->last_peer;
	v->last_peer = lend_udp_peers_find(&v->peers, key);
	v->last_from = *key;
	if (!v->ethernet)
		verbs_host_set_path(v, key, wc->sl, wc->dlid_path_bits);
	return v->last_peer;
}

/* Returns whether the completion is a valid datagram. Its slot is then lent. */
static bool accept_one(struct verbs *v, const struct ibv_wc *wc, struct lend_in *in)
{
	const uint8_t *at = v->ring->memory + wc->wr_id * v->ring->slot;
	struct lend_udp_key *key = &v->from[v->n_lent];
	uint8_t tclass;
	int32_t peer;

	if (wc->status != IBV_WC_SUCCESS) {
		count_failed(v, wc);
		return false;
	}
	if (wc->byte_len < VERBS_GRH) {
		v->io.stats.rx_bad++;
		return false;
	}
	if (!verbs_peer_key(v, wc, at, key, &tclass)) {
		v->io.stats.rx_foreign++;
		return false;
	}
	peer = find_sender(v, key, wc);
	if (peer == LEND_UDP_PEER_NONE) {
		v->io.stats.peers_refused++;
		return false;
	}
	*in = (struct lend_in){.data = at + VERBS_GRH,
			       .len = wc->byte_len - VERBS_GRH,
			       .peer = (uint32_t)peer,
			       .ecn = (tclass & 3) == 3,
			       .addr = key,
			       .addr_len = sizeof(*key)};
	return true;
}

static uint32_t verbs_rx(struct lend_io *io, struct lend_in *in, uint32_t cap)
{
	struct verbs *v = self(io);
	struct ibv_wc wc[VERBS_BURST];
	uint32_t n = 0, got;

	if (v->look || ++v->turn % LOOK_EVERY == 0)
		verbs_poll_events(v);
	if (v->gone_at < v->gone_end)
		return verbs_report_gone(v, in, cap);
	if (v->life == VERBS_DEAD)
		return 0;
	got = poll_completions(v, wc, lend_min_u32(cap, VERBS_BURST - v->n_lent));
	for (uint32_t i = 0; i < got; i++)
		__builtin_prefetch(v->ring->memory + wc[i].wr_id * v->ring->slot);
	for (uint32_t i = 0; i < got; i++) {
		if (accept_one(v, &wc[i], &in[n])) {
			v->lent[v->n_lent++] = (uint32_t)wc[i].wr_id;
			n++;
		} else {
			v->spare[v->n_spare++] = (uint32_t)wc[i].wr_id;
		}
	}
	if (v->broken)
		verbs_recover(v);
	return n;
}

static void verbs_rx_done(struct lend_io *io)
{
	struct verbs *v = self(io);

	memcpy(v->spare + v->n_spare, v->lent, v->n_lent * sizeof(*v->lent));
	v->n_spare += v->n_lent;
	v->n_lent = 0;
	if (v->life != VERBS_DEAD && !v->broken)
		verbs_ring_refill(v, false);
}

static int verbs_fd(struct lend_io *io)
{
	return self(io)->epoll;
}

/* Takes the requested events that have come: at most one of each completion queue. */
static void take_signal(struct verbs *v)
{
	struct ibv_cq *cq;
	void *context;

	while (ibv_get_cq_event(v->signal, &cq, &context) == 0) {
		if (cq != v->rx_cq) {
			verbs_rc_signal(v, cq);
			continue;
		}
		v->armed = false;
		if (++v->signals == ACK_EVERY) {
			ibv_ack_cq_events(v->rx_cq, v->signals);
			v->signals = 0;
		}
	}
}

static bool verbs_arm(struct lend_io *io)
{
	struct verbs *v = self(io);

	v->look = true;
	if (v->gone_at < v->gone_end || v->n_early > 0)
		return false;
	if (v->life == VERBS_DEAD)
		return true;
	if (v->broken || v->full)
		return false;
	if (v->armed || v->rc)
		take_signal(v);
	if (!verbs_rc_arm(v))
		return false;
	if (!v->armed && ibv_req_notify_cq(v->rx_cq, 0) != 0)
		return false;
	v->armed = true;
	/* Completions before the request raise no event, so poll once more. */
	v->n_early = poll_completions(v, v->early, VERBS_BURST);
	return v->n_early == 0;
}

static int verbs_resolve(struct lend_io *io, const char *address, uint32_t *peer)
{
	return verbs_cm_resolve(self(io), address, peer);
}

static void verbs_pin(struct lend_io *io, uint32_t index, bool kept)
{
	struct verbs *v = self(io);
	const struct lend_udp_peer *peer = lend_udp_peers_at(&v->peers, index);

	if (peer != NULL && !kept && peer->pins == 1)
		verbs_rc_lose(v, &peer->key);
	verbs_peer_pin(v, index, kept);
}

static void verbs_peer_info(struct lend_io *io, uint32_t index, struct lend_io_peer_info *info)
{
	struct verbs *v = self(io);
	const struct lend_udp_peer *peer = lend_udp_peers_at(&v->peers, index);

	*info = (struct lend_io_peer_info){.uid = -1};
	if (peer != NULL)
		(void)verbs_address_print(v->address.device, peer->key.ip, 0, peer->key.scope,
					  info->address, sizeof(info->address));
}

static int verbs_name(struct lend_io *io, char *address, size_t cap)
{
	struct verbs *v = self(io);

	return verbs_address_print(v->address.device, v->ip, v->port, 0, address, cap);
}

static void close_queues(struct verbs *v)
{
	verbs_rc_close(v);
	if (v->qp)
		(void)ibv_destroy_qp(v->qp);
	if (v->rx_cq) {
		verbs_ring_leave(v);
		ibv_ack_cq_events(v->rx_cq, v->signals);
		(void)ibv_destroy_cq(v->rx_cq);
	}
	if (v->tx_cq)
		(void)ibv_destroy_cq(v->tx_cq);
	if (v->signal)
		(void)ibv_destroy_comp_channel(v->signal);
}

static void close_memory(struct verbs *v)
{
	v->done = v->next;
	verbs_host_forget(v);
	verbs_host_free_retired(v);
	for (uint32_t i = 0; i < v->n_regions; i++)
		(void)ibv_dereg_mr(v->region[i].mr);
	if (v->bounce_mr)
		(void)ibv_dereg_mr(v->bounce_mr);
	free(v->bounce);
	free(v->region);
	free(v->retired);
	free(v->host);
	lend_udp_peers_free(&v->peers);
	lend_udp_peers_free(&v->hosts);
}

void verbs_close(struct lend_io *io)
{
	struct verbs *v = self(io);

	close_queues(v);
	verbs_cm_close(v);
	close_memory(v);
	verbs_ring_close(v);
	if (v->watch)
		(void)ibv_close_device(v->watch);
	if (v->epoll >= 0)
		close(v->epoll);
	free(v);
}

const struct lend_io_ops verbs_ops = {
    .rx = verbs_rx,
    .rx_done = verbs_rx_done,
    .tx = verbs_tx,
    .queued = verbs_queued,
    .flush = verbs_flush,
    .fd = verbs_fd,
    .arm = verbs_arm,
    .reg = verbs_reg,
    .resolve = verbs_resolve,
    .pin = verbs_pin,
    .peer_info = verbs_peer_info,
    .name = verbs_name,
    .close = verbs_close,
};
