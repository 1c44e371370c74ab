/* rc_link - RC queue pairs beside the UD queue pair, each with one peer in one direction.
 *
 * A link is made when a transfer first wants it and closed when it was idle. If all are in use, the
 * one that was idle longest is replaced, or the peer gets none and the transfer goes by datagrams.
 * A link that breaks is closed at this end; the other end notices at its next request.
 * Layer: io. Threads: one per carrier.
 */
#include "io/verbs/rc_link.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sys/clock.h"
#include "sys/rand.h"
#include "util/bits.h"

enum { HALF_VERSION = 1, NUMBER_MAX = 0xffffff /* of a queue pair, or a packet */ };
/* A lost packet is sent again after 0.54 s, five times. Memory is hidden when it was read, so a
 * read that is sent again too early finds none, and breaks the link. */
enum { TIMEOUT = 17, RETRIES = 5, DEPTH_MAX = 16 };
/* Soft-RoCE sends an RNR NAK when its own transmit queue is full: wait 0.64 ms, without a limit.
 * The limit of a read is RC_READ_NS. */
enum { RNR_TIMER = 12, RNR_FOREVER = 7 };

static struct verbs *verbs_of(struct lend_io *io)
{
	return (struct verbs *)(void *)io;
}

/* A half, as it travels: version 1, MTU 1, depth 1, zero 1, queue pair 4, packet 4, zero 4. */
struct half {
	uint8_t mtu, depth;
	uint32_t qp, psn;
};

static void encode_half(const struct half *half, uint8_t out[LEND_IO_HALF])
{
	memset(out, 0, LEND_IO_HALF);
	out[0] = HALF_VERSION;
	out[1] = half->mtu;
	out[2] = half->depth;
	lend_store_u32(out + 4, half->qp);
	lend_store_u32(out + 8, half->psn);
}

static bool decode_half(const uint8_t in[LEND_IO_HALF], struct half *half)
{
	*half = (struct half){in[1], in[2], lend_load_u32(in + 4), lend_load_u32(in + 8)};
	return in[0] == HALF_VERSION && half->mtu >= IBV_MTU_256 && half->mtu <= IBV_MTU_4096 &&
	       half->depth > 0 && half->qp > 1 && half->qp <= NUMBER_MAX && half->psn <= NUMBER_MAX;
}

static uint8_t mtu_code(const struct verbs *v)
{
	uint8_t code = IBV_MTU_256;

	while (code < IBV_MTU_4096 && 256u << code <= v->mtu)
		code++;
	return code;
}

static uint8_t index_of(const struct verbs *v, const struct rc_link *link)
{
	return (uint8_t)(link - v->rc->link);
}

static struct rc_link *find_link(struct verbs *v, const struct lend_udp_key *key,
				 enum lend_io_role role)
{
	for (uint32_t i = 0; v->rc && i < RC_LINKS; i++) {
		struct rc_link *link = &v->rc->link[i];

		if (link->state != RC_FREE && link->role == role &&
		    memcmp(&link->key, key, sizeof(*key)) == 0)
			return link;
	}
	return NULL;
}

static struct rc_link *find_of_peer(struct verbs *v, uint32_t peer, enum lend_io_role role)
{
	const struct lend_udp_peer *p = lend_udp_peers_at(&v->peers, peer);

	return p ? find_link(v, &p->key, role) : NULL;
}

/* Closes the queue pair. When it is gone, the device touches no memory for it. */
static void close_link(struct verbs *v, struct rc_link *link, enum rc_state state)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (link->qp) {
		(void)ibv_modify_qp(link->qp, &attr, IBV_QP_STATE);
		rc_windows_drop(v, index_of(v, link));
		(void)ibv_destroy_qp(link->qp);
		rc_reads_end(v, index_of(v, link), 0, -EIO);
	}
	link->qp = NULL;
	link->busy = link->posted = 0;
	link->waits = 0;
	link->state = state;
	link->used = lend_clock_now();
	v->rc->n_links -= state == RC_FREE;
}

void rc_link_break(struct verbs *v, struct rc_link *link)
{
	if (link->state == RC_FREE || link->state == RC_BROKEN)
		return;
	close_link(v, link, RC_BROKEN);
	v->io.stats.resets++;
}

struct rc_link *rc_link_up(struct verbs *v, uint32_t peer, enum lend_io_role role)
{
	struct rc_link *link = find_of_peer(v, peer, role);

	return link && link->state == RC_UP ? link : NULL;
}

/* Returns a FREE entry, if need be by closing the link that was idle longest. NULL: none is idle.
 */
static struct rc_link *take_entry(struct verbs *v)
{
	struct rc_link *best = NULL;

	for (uint32_t i = 0; i < v->address.rc; i++) {
		struct rc_link *link = &v->rc->link[i];

		if (link->state == RC_FREE)
			return link;
		if (link->busy == 0 && (!best || link->used < best->used))
			best = link;
	}
	if (!best || lend_clock_now() - best->used < RC_YOUNG_NS)
		return NULL;
	close_link(v, best, RC_FREE);
	return best;
}

/* Makes what all links share, at the first of them. */
static int open_rc(struct verbs *v)
{
	struct verbs_rc *rc;

	if (v->rc)
		return 0;
	rc = calloc(1, sizeof(*rc));
	if (!rc)
		return -ENOMEM;
	rc->cq = ibv_create_cq(v->ring->ctx, RC_LINKS * RC_SENDS, v, v->signal, 0);
	if (!rc->cq) {
		free(rc);
		return -ENOMEM;
	}
	v->rc = rc;
	return 0;
}

static struct ibv_qp *make_qp(struct verbs *v, enum lend_io_role role)
{
	struct ibv_qp_init_attr init = {.qp_context = v,
					.send_cq = v->rc->cq,
					.recv_cq = v->rc->cq,
					.cap = {.max_send_wr = RC_SENDS,
						.max_recv_wr = 1,
						.max_send_sge = 1,
						.max_recv_sge = 1},
					.qp_type = IBV_QPT_RC};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .pkey_index = v->pkey_index,
				   .port_num = v->port_num,
				   .qp_access_flags =
				       role == LEND_IO_OWNER ? IBV_ACCESS_REMOTE_READ : 0};
	struct ibv_qp *qp = ibv_create_qp(v->ring->pd, &init);

	if (qp && ibv_modify_qp(qp, &attr,
				IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				    IBV_QP_ACCESS_FLAGS) != 0) {
		(void)ibv_destroy_qp(qp);
		qp = NULL;
	}
	return qp;
}

/* Makes a link to the peer, OFFERED, and this end's half. */
static int make_link(struct verbs *v, uint32_t peer, enum lend_io_role role, struct rc_link **out,
		     uint8_t half[LEND_IO_HALF])
{
	const struct lend_udp_peer *p = lend_udp_peers_at(&v->peers, peer);
	struct rc_link *link;
	int rc = p && v->life == VERBS_UP ? open_rc(v) : -ENOTCONN;

	if (rc < 0)
		return rc;
	link = take_entry(v);
	if (!link)
		return -EAGAIN;
	*link = (struct rc_link){.key = p->key, .role = role, .used = lend_clock_now()};
	link->qp = make_qp(v, role);
	if (!link->qp)
		return -EAGAIN; /* the device has no more */
	lend_random(&link->psn, sizeof(link->psn));
	link->psn &= NUMBER_MAX;
	link->state = RC_OFFERED;
	v->rc->n_links++;
	v->io.due = lend_clock_now() + RC_IDLE_NS;
	encode_half(&(struct half){mtu_code(v), v->rc_depth, link->qp->qp_num, link->psn}, half);
	*out = link;
	return 0;
}

/* Takes a queue pair from INIT to ready-to-send, towards the peer's. */
static int connect_link(struct verbs *v, struct rc_link *link, const struct half *theirs)
{
	uint8_t depth = lend_min_u32(v->rc_depth, theirs->depth);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
				   .path_mtu = lend_min_u32(mtu_code(v), theirs->mtu),
				   .dest_qp_num = theirs->qp,
				   .rq_psn = theirs->psn,
				   .max_dest_rd_atomic = depth,
				   .min_rnr_timer = RNR_TIMER};
	int rc;

	if (!verbs_host_path(v, &link->key, 0, &attr.ah_attr))
		return -ENOTCONN;
	rc = ibv_modify_qp(link->qp, &attr,
			   IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = TIMEOUT,
				    .retry_cnt = RETRIES,
				    .rnr_retry = RNR_FOREVER,
				    .sq_psn = link->psn,
				    .max_rd_atomic = depth};
	if (rc == 0)
		rc = ibv_modify_qp(link->qp, &attr,
				   IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
	if (rc == 0)
		link->state = RC_UP;
	return -rc;
}

/* Frees the entry of a link that broke long enough ago. -errno: there still is a link. */
static int make_way(struct verbs *v, uint32_t peer, enum lend_io_role role)
{
	struct rc_link *link = find_of_peer(v, peer, role);

	if (!link)
		return 0;
	if (link->state != RC_BROKEN)
		return -EALREADY;
	if (lend_clock_now() - link->used < RC_RETRY_NS)
		return -EAGAIN;
	close_link(v, link, RC_FREE);
	return 0;
}

static bool rc_is_up(struct lend_io *io, uint32_t peer, enum lend_io_role role)
{
	return rc_link_up(verbs_of(io), peer, role) != NULL;
}

static int rc_offer(struct lend_io *io, uint32_t peer, enum lend_io_role role,
		    uint8_t half[LEND_IO_HALF])
{
	struct rc_link *link;
	int rc = make_way(verbs_of(io), peer, role);

	return rc < 0 ? rc : make_link(verbs_of(io), peer, role, &link, half);
}

static int rc_answer(struct lend_io *io, uint32_t peer, enum lend_io_role role,
		     const uint8_t theirs[LEND_IO_HALF], uint8_t half[LEND_IO_HALF])
{
	struct verbs *v = verbs_of(io);
	struct rc_link *link = find_of_peer(v, peer, role);
	struct half other;
	int rc;

	if (!decode_half(theirs, &other))
		return -EINVAL;
	if (link) /* the peer has closed its end */
		close_link(v, link, RC_FREE);
	rc = make_link(v, peer, role, &link, half);
	if (rc < 0)
		return rc;
	rc = connect_link(v, link, &other);
	if (rc < 0)
		close_link(v, link, RC_FREE);
	return rc;
}

static int rc_accept(struct lend_io *io, uint32_t peer, enum lend_io_role role,
		     const uint8_t *theirs)
{
	struct verbs *v = verbs_of(io);
	struct rc_link *link = find_of_peer(v, peer, role);
	struct half other;
	int rc = -EINVAL;

	if (!link || (theirs && link->state != RC_OFFERED))
		return -ESTALE;
	if (theirs && decode_half(theirs, &other))
		rc = connect_link(v, link, &other);
	if (rc < 0)
		rc_link_break(v, link);
	return rc;
}

static void take_failure(struct verbs *v, const struct ibv_wc *wc)
{
	for (uint32_t i = 0; i < RC_LINKS; i++) {
		struct rc_link *link = &v->rc->link[i];

		if (link->qp && link->qp->qp_num == wc->qp_num)
			rc_link_break(v, link);
	}
}

void rc_poll(struct verbs *v)
{
	struct ibv_wc wc[16];
	int n;

	do {
		n = ibv_poll_cq(v->rc->cq, 16, wc);
		for (int i = 0; i < n; i++) {
			struct rc_link *link = &v->rc->link[wc[i].wr_id % RC_LINKS];

			if (wc[i].status != IBV_WC_SUCCESS)
				take_failure(v, &wc[i]);
			else if (link->waits == wc[i].wr_id)
				link->waits = 0;
			else
				rc_reads_end(v, index_of(v, link), wc[i].wr_id, 0);
		}
	} while (n == 16);
	if (n < 0)
		v->removed = true;
}

void verbs_rc_turn(struct verbs *v)
{
	bool check = v->rc && atomic_exchange(&v->rc->check, false);
	lend_ns now = v->rc && v->rc->n_links ? lend_clock_now() : 0;

	for (uint32_t i = 0; now && i < RC_LINKS; i++) {
		struct rc_link *link = &v->rc->link[i];
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr attr;

		if (check && link->qp &&
		    (ibv_query_qp(link->qp, &attr, IBV_QP_STATE, &init) != 0 ||
		     attr.qp_state == IBV_QPS_ERR))
			rc_link_break(v, link);
		if (rc_reads_late(v, (uint8_t)i, now))
			rc_link_break(v, link);
		if (link->state != RC_FREE && link->busy == 0 && now - link->used >= RC_IDLE_NS)
			close_link(v, link, RC_FREE);
	}
	v->io.due = now && v->rc->n_links ? now + RC_IDLE_NS : 0;
}

void verbs_rc_lose(struct verbs *v, const struct lend_udp_key *key)
{
	for (uint32_t i = 0; v->rc && i < RC_LINKS; i++) {
		struct rc_link *link = &v->rc->link[i];

		if (link->state != RC_FREE && (!key || memcmp(&link->key, key, sizeof(*key)) == 0))
			close_link(v, link, RC_FREE);
	}
}

void verbs_rc_close(struct verbs *v)
{
	if (!v->rc)
		return;
	verbs_rc_lose(v, NULL);
	rc_windows_free(v);
	(void)ibv_destroy_cq(v->rc->cq);
	free(v->rc);
	v->rc = NULL;
}

void verbs_rc_doubt(struct verbs *v)
{
	if (v->rc)
		v->rc->check = true;
}

void verbs_rc_signal(struct verbs *v, struct ibv_cq *cq)
{
	if (v->rc && v->rc->cq == cq) {
		v->rc->armed = false;
		ibv_ack_cq_events(cq, 1);
	}
}

bool verbs_rc_arm(struct verbs *v)
{
	if (!v->rc || v->rc->n_reads == 0)
		return true;
	if (!v->rc->armed && ibv_req_notify_cq(v->rc->cq, 0) != 0)
		return false;
	v->rc->armed = true;
	rc_poll(v);
	for (uint32_t i = 0; i < RC_READS; i++) {
		if (v->rc->read[i].state == RC_READ_ENDED)
			return false;
	}
	return true;
}

static const struct lend_one_sided_ops ops = {
    .is_up = rc_is_up,
    .offer = rc_offer,
    .answer = rc_answer,
    .accept = rc_accept,
    .show = rc_show,
    .hide = rc_hide,
    .read = rc_read_start,
    .ended = rc_read_ended,
};

void verbs_rc_open(struct verbs *v)
{
	struct ibv_device_attr attr;
	int depth;

	if (v->address.rc == 0 || ibv_query_device(v->ring->ctx, &attr) != 0 ||
	    !(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B))
		return;
	depth = attr.max_qp_rd_atom < attr.max_qp_init_rd_atom ? attr.max_qp_rd_atom
							       : attr.max_qp_init_rd_atom;
	v->rc_depth = (uint8_t)(depth < DEPTH_MAX ? depth : DEPTH_MAX);
	if (v->rc_depth > 0)
		v->io.one_sided = &ops;
}
