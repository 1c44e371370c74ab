/* verbs/send - sends: one linked list of requests and one doorbell per burst.
 *
 * A small datagram is sent inline, so the device reads none of its memory later. For a larger one,
 * head and tail are copied to a slot of the carrier, and the device gathers pieces from registered
 * memory. It reads these until the send completes: see flush(). Other datagrams are copied whole.
 * Only every 64th send is signalled, and the last of a burst while pieces are in place. Layer: io.
 * Threads: one per carrier.
 */
#include "io/verbs/verbs.h"

#include <string.h>

#include "io/builtin.h"
#include "util/bits.h"

enum { FLUSH_TRIES = 200 };

static struct verbs *self(struct lend_io *io)
{
	return (struct verbs *)(void *)io;
}

static struct verbs_send *send_at(struct verbs *v, uint64_t number)
{
	return &v->send[number & (VERBS_SENDS - 1)];
}

/* Counts the pieces of a send as no longer read by the device. */
static void end_loan(struct verbs *v, struct verbs_send *send)
{
	v->in_place -= send->n > 0;
	for (uint32_t p = 0; p < send->n; p++)
		v->reads[send->buf[p] % VERBS_READS]--;
	send->n = 0;
}

static void finish_sends(struct verbs *v, uint64_t upto)
{
	while (v->done < upto)
		end_loan(v, send_at(v, v->done++));
}

void verbs_send_drop(struct verbs *v)
{
	struct ibv_wc wc[16];

	while (ibv_poll_cq(v->tx_cq, 16, wc) > 0)
		continue;
	finish_sends(v, v->next);
	v->quiet = 0;
	v->full = false;
}

void verbs_reap(struct verbs *v)
{
	struct ibv_wc wc[16];
	int n;

	do {
		n = ibv_poll_cq(v->tx_cq, 16, wc);
		for (int i = 0; i < n; i++) {
			if (wc[i].status != IBV_WC_SUCCESS)
				v->broken = true;
			if (wc[i].wr_id < v->next)
				finish_sends(v, wc[i].wr_id + 1);
		}
	} while (n == 16);
	if (n < 0)
		v->broken = true;
	if (v->n_retired > 0)
		verbs_host_free_retired(v);
}

static void put_sge(struct ibv_sge *sge, const void *data, uint32_t len, uint32_t lkey)
{
	*sge = (struct ibv_sge){.addr = (uintptr_t)data, .length = len, .lkey = lkey};
}

/* Lists the parts of an inline send: the provider reads them before the post returns. */
static int give_inline(struct ibv_sge *sge, const struct lend_bufs *bufs,
		       const struct lend_out *out)
{
	int n = 0;

	put_sge(&sge[n++], out->head, out->head_len, 0);
	for (uint32_t i = 0; i < out->n; i++) {
		if (out->piece[i].len > 0)
			put_sge(&sge[n++], lend_piece_data(bufs, &out->piece[i]), out->piece[i].len,
				0);
	}
	if (out->tail_len > 0)
		put_sge(&sge[n++], out->tail, out->tail_len, 0);
	return n;
}

/* Gathers head and tail from our slot, and pieces in place. Returns the number of parts; 0: a piece
 * is not in registered memory. */
static int gather_datagram(struct verbs *v, struct ibv_sge *sge, const struct lend_bufs *bufs,
			   const struct lend_out *out, uint8_t *slot)
{
	uint32_t lkey = v->bounce_mr->lkey;
	int n = 0;

	put_sge(&sge[n++], slot, out->head_len, lkey);
	for (uint32_t i = 0; i < out->n; i++) {
		const uint8_t *data = lend_piece_data(bufs, &out->piece[i]);
		const struct verbs_region *region;

		if (out->piece[i].len == 0)
			continue;
		region = verbs_region_of(v, data, out->piece[i].len);
		if (region == NULL)
			return 0;
		put_sge(&sge[n++], data, out->piece[i].len, region->mr->lkey);
	}
	memcpy(slot, out->head, out->head_len);
	if (out->tail_len > 0) {
		memcpy(slot + out->head_len, out->tail, out->tail_len);
		put_sge(&sge[n++], slot + out->head_len, out->tail_len, lkey);
	}
	return n;
}

static int copy_datagram(struct verbs *v, struct ibv_sge *sge, const struct lend_bufs *bufs,
			 const struct lend_out *out, uint8_t *slot)
{
	uint8_t *at = mempcpy(slot, out->head, out->head_len);

	for (uint32_t i = 0; i < out->n; i++)
		at = mempcpy(at, lend_piece_data(bufs, &out->piece[i]), out->piece[i].len);
	if (out->tail_len > 0)
		at = mempcpy(at, out->tail, out->tail_len);
	put_sge(sge, slot, (uint32_t)(at - slot), v->bounce_mr->lkey);
	return 1;
}

static void lend_pieces(struct verbs *v, uint64_t number, const struct lend_out *out)
{
	struct verbs_send *send = send_at(v, number);

	for (uint32_t i = 0; i < out->n; i++) {
		send->buf[send->n++] = out->piece[i].buf;
		v->reads[out->piece[i].buf % VERBS_READS]++;
	}
	v->in_place += send->n > 0;
	v->io.stats.tx_in_place += send->n > 0;
}

/* Makes request m for a datagram. False: it can never be sent. */
static bool prepare_send(struct verbs *v, const struct lend_bufs *bufs, struct lend_out *out,
			 uint32_t m)
{
	const struct lend_udp_peer *peer = lend_udp_peers_at(&v->peers, out->peer);
	struct ibv_send_wr *wr = &v->wr[m];
	uint64_t number = v->next + m;
	uint8_t *slot = v->bounce + (number & (VERBS_SENDS - 1)) * v->bounce_slot;
	uint32_t len = lend_out_len(out);

	if (peer == NULL || len > v->mtu)
		return false;
	*wr = (struct ibv_send_wr){
	    .wr_id = number, .next = wr + 1, .sg_list = v->sge[m], .opcode = IBV_WR_SEND};
	wr->wr.ud.ah = verbs_host_ah(v, &peer->key, out->class);
	wr->wr.ud.remote_qpn = peer->key.scope;
	wr->wr.ud.remote_qkey = RDMA_UDP_QKEY;
	if (wr->wr.ud.ah == NULL)
		return false;
	v->quiet++;
	if (len <= v->inline_max) {
		wr->num_sge = give_inline(v->sge[m], bufs, out);
		wr->send_flags = IBV_SEND_INLINE;
	} else {
		wr->num_sge =
		    len > VERBS_COPY_MAX ? gather_datagram(v, v->sge[m], bufs, out, slot) : 0;
		if (wr->num_sge == 0)
			wr->num_sge = copy_datagram(v, v->sge[m], bufs, out, slot);
		else
			lend_pieces(v, number, out);
	}
	if (v->quiet >= VERBS_SIGNAL) {
		wr->send_flags |= IBV_SEND_SIGNALED;
		v->quiet = 0;
	}
	v->out[m] = out;
	return true;
}

/* Undoes requests from m on, which the device did not take. */
static void take_back(struct verbs *v, uint32_t m, uint32_t n)
{
	for (uint32_t i = m; i < n; i++) {
		end_loan(v, send_at(v, v->next + i));
		v->out[i]->sent = LEND_SENT_FULL;
	}
	v->io.stats.tx_full += n - m;
	v->full = true;
}

/* Posts requests [0, n) with one doorbell. */
static void post_sends(struct verbs *v, uint32_t n)
{
	struct ibv_send_wr *bad = NULL;
	uint32_t taken = n;

	if (n == 0)
		return;
	v->wr[n - 1].next = NULL;
	if (v->in_place > 0 && v->quiet > 0) {
		v->wr[n - 1].send_flags |= IBV_SEND_SIGNALED;
		v->quiet = 0;
	}
	if (ibv_post_send(v->qp, v->wr, &bad) != 0) {
		taken = bad ? (uint32_t)(bad - v->wr) : 0;
		v->quiet = VERBS_SIGNAL; /* the signalled one may be lost */
		v->broken = true;
	}
	for (uint32_t i = 0; i < taken; i++)
		v->out[i]->sent = LEND_SENT;
	if (taken < n)
		take_back(v, taken, n);
	v->next += taken;
}

static bool has_room(struct verbs *v, uint32_t more)
{
	if (v->next + more - v->done < VERBS_SENDS)
		return true;
	verbs_reap(v);
	return v->next + more - v->done < VERBS_SENDS;
}

/* Counts up to the last signalled send: of those behind it nothing is known. */
uint64_t verbs_queued(struct lend_io *io)
{
	struct verbs *v = self(io);
	uint64_t unknown;

	verbs_reap(v);
	unknown = lend_min_u64(v->quiet, v->next - v->done);
	return (v->next - v->done - unknown) * v->mtu;
}

void verbs_tx(struct lend_io *io, struct lend_bufs *bufs, struct lend_out *out, uint32_t n)
{
	struct verbs *v = self(io);
	uint32_t m = 0;

	if (v->broken && v->life != VERBS_DEAD)
		verbs_recover(v);
	v->full = false;
	for (uint32_t i = 0; i < n; i++) {
		if (v->full || !has_room(v, m)) {
			out[i].sent = LEND_SENT_FULL;
			v->io.stats.tx_full++;
			v->full = true;
			continue;
		}
		if (v->life != VERBS_UP || !prepare_send(v, bufs, &out[i], m)) {
			out[i].sent = LEND_SENT_DEAD;
			v->io.stats.tx_dead++;
			continue;
		}
		if (++m == VERBS_BURST) {
			post_sends(v, m);
			m = 0;
		}
	}
	post_sends(v, m);
}

static bool is_lent(struct verbs *v, uint32_t buf)
{
	for (uint64_t i = v->done; i < v->next; i++) {
		const struct verbs_send *send = send_at(v, i);

		for (uint32_t p = 0; p < send->n; p++) {
			if (send->buf[p] == buf)
				return true;
		}
	}
	return false;
}

bool verbs_flush(struct lend_io *io, uint32_t buf)
{
	struct verbs *v = self(io);

	for (uint32_t tries = 0; v->reads[buf % VERBS_READS] > 0 && is_lent(v, buf); tries++) {
		if (tries == FLUSH_TRIES)
			return false;
		verbs_reap(v);
		if (v->broken && v->life != VERBS_DEAD)
			verbs_recover(v);
	}
	return true;
}
