/* Goal: one-sided reads are byte-exact, and a peer reads what it is shown and nothing else: not
 * before, not after, not with a key of another peer. Links are bounded, replaced when idle, and
 * closed when they break or stall. What cannot be registered or bound is refused, and nothing
 * leaks. Method: a device in memory that checks each binding, invalidation and read as RC queue
 * pairs and type 2B windows do; seeds against a copy. Time is the test's own. Covers:
 * src/io/verbs/rc_link.c, src/io/verbs/rc_window.c, src/io/verbs/rc_read.c */
#include <criterion/criterion.h>

#if !__has_include(<infiniband/verbs.h>) || !__has_include(<rdma/rdma_cma.h>)
Test(rc_link, needs_rdma_core)
{
	cr_skip_test("no libibverbs-dev or librdmacm-dev");
}
#else
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/conform.h"
#include "io/verbs/rc_link.h"
#include "sys/clock.h"
#include "util/rng.h"

enum { ENDS = 4, OBJECTS = 512, DONE_MAX = 256 };

/* The device. */
struct window {
	struct ibv_mw mw; /* first */
	bool valid;
	uint32_t qp; /* bound to */
	uint64_t at, len;
};
struct queue_pair {
	struct ibv_qp qp; /* first */
	uint32_t dest, psn, theirs;
	int access;
};
struct completions {
	struct ibv_cq cq; /* first */
	struct ibv_wc wc[DONE_MAX];
	uint32_t n;
};

static struct {
	struct ibv_mr mr[OBJECTS];
	int access[OBJECTS];
	struct window mw[OBJECTS];
	struct queue_pair qp[OBJECTS];
	struct completions cq[OBJECTS];
	uint32_t n_qp, n_cq, n_mw, mrs, mws, qps, cqs; /* ever made; there now */
	uint32_t next_key;
	bool no_mr, no_mw, no_qp, hold; /* what fails; hold: reads do not end */
} dev;
static lend_ns now = 1000000000000;

lend_ns lend_clock_now(void)
{
	return now;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *at, size_t len, uint64_t iova,
				unsigned access)
{
	uint32_t i = 0;

	(void)iova;
	while (dev.mr[i].length)
		i++;
	if (dev.no_mr)
		return errno = ENOMEM, NULL;
	dev.next_key += 256;
	dev.mr[i] = (struct ibv_mr){.pd = pd, .addr = at, .length = len, .lkey = dev.next_key};
	dev.access[i] = (int)access;
	dev.mrs++;
	return &dev.mr[i];
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *at, size_t len, int access)
{
	return ibv_reg_mr_iova2(pd, at, len, (uintptr_t)at, (unsigned)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	cr_assert_gt(mr->length, 0);
	mr->length = 0;
	dev.mrs--;
	return 0;
}

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct window *w = &dev.mw[dev.n_mw];

	cr_assert_eq(type, IBV_MW_TYPE_2);
	if (dev.no_mw)
		return NULL;
	dev.n_mw++;
	dev.mws++;
	dev.next_key += 256;
	w->mw = (struct ibv_mw){.context = pd->context, .pd = pd, .rkey = dev.next_key};
	return &w->mw;
}

static int dealloc_mw(struct ibv_mw *mw)
{
	struct window *w = (struct window *)mw;

	w->valid = false;
	w->mw.pd = NULL;
	dev.mws--;
	return 0;
}

static void complete_request(struct queue_pair *q, uint64_t id, enum ibv_wc_status status)
{
	struct completions *c = (struct completions *)q->qp.send_cq;

	cr_assert_lt(c->n, DONE_MAX);
	c->wc[c->n++] = (struct ibv_wc){.wr_id = id, .status = status, .qp_num = q->qp.qp_num};
	if (status != IBV_WC_SUCCESS)
		q->qp.state = IBV_QPS_ERR;
}

static bool bind_window(struct queue_pair *q, struct ibv_send_wr *wr)
{
	struct window *w = (struct window *)wr->bind_mw.mw;
	const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;
	const uint8_t *base = info->mr->addr;

	cr_assert(dev.access[info->mr - dev.mr] & IBV_ACCESS_MW_BIND);
	cr_assert_eq(info->mw_access_flags, IBV_ACCESS_REMOTE_READ);
	if (w->valid || wr->bind_mw.rkey >> 8 != w->mw.rkey >> 8 ||
	    wr->bind_mw.rkey == w->mw.rkey || info->addr < (uintptr_t)base ||
	    info->addr + info->length > (uintptr_t)base + info->mr->length)
		return false;
	*w = (struct window){w->mw, true, q->qp.qp_num, info->addr, info->length};
	w->mw.rkey = wr->bind_mw.rkey;
	return true;
}

static struct window *find_window(uint32_t rkey)
{
	for (uint32_t i = 0; i < dev.n_mw; i++)
		if (dev.mw[i].mw.pd && dev.mw[i].valid && dev.mw[i].mw.rkey == rkey)
			return &dev.mw[i];
	return NULL;
}

static bool invalidate_key(struct ibv_send_wr *wr)
{
	struct window *w = find_window(wr->invalidate_rkey);

	if (w)
		w->valid = false;
	return w;
}

static struct queue_pair *find_qp(uint32_t number)
{
	for (uint32_t i = 0; i < dev.n_qp; i++)
		if (dev.qp[i].qp.qp_num == number && dev.qp[i].qp.state == IBV_QPS_RTS)
			return &dev.qp[i];
	return NULL;
}

static bool read_memory(struct queue_pair *q, struct ibv_send_wr *wr)
{
	struct queue_pair *far = find_qp(q->dest);
	struct window *w = find_window(wr->wr.rdma.rkey);
	uint64_t at = wr->wr.rdma.remote_addr, len = wr->sg_list->length;
	bool lands = false;

	for (uint32_t i = 0; i < OBJECTS; i++)
		lands |= dev.mr[i].length && dev.mr[i].lkey == wr->sg_list->lkey &&
			 dev.access[i] & IBV_ACCESS_LOCAL_WRITE &&
			 wr->sg_list->addr >= (uintptr_t)dev.mr[i].addr &&
			 wr->sg_list->addr + len <= (uintptr_t)dev.mr[i].addr + dev.mr[i].length;
	cr_assert(lands);
	if (!far || far->dest != q->qp.qp_num || far->theirs != q->psn || q->theirs != far->psn)
		return false;
	if (!w || w->qp != far->qp.qp_num || !(far->access & IBV_ACCESS_REMOTE_READ) ||
	    at < w->at || at + len > w->at + w->len) {
		far->qp.state = IBV_QPS_ERR;
		return false;
	}
	memcpy((void *)wr->sg_list->addr, (void *)at, len);
	return true;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct queue_pair *q = (struct queue_pair *)qp;

	*bad = wr;
	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_ERR)
		return EINVAL;
	for (; wr; wr = wr->next) {
		bool ok = qp->state == IBV_QPS_RTS;

		if (dev.hold && wr->opcode == IBV_WR_RDMA_READ)
			continue;
		if (ok)
			ok = wr->opcode == IBV_WR_BIND_MW     ? bind_window(q, wr)
			     : wr->opcode == IBV_WR_LOCAL_INV ? invalidate_key(wr)
							      : read_memory(q, wr);
		if (!ok)
			complete_request(q, wr->wr_id, IBV_WC_REM_ACCESS_ERR);
		else if (wr->send_flags & IBV_SEND_SIGNALED)
			complete_request(q, wr->wr_id, IBV_WC_SUCCESS);
	}
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct completions *c = (struct completions *)cq;
	uint32_t got = c->n < (uint32_t)n ? c->n : (uint32_t)n;

	memcpy(wc, c->wc, got * sizeof(*wc));
	memmove(c->wc, c->wc + got, (c->n - got) * sizeof(*wc));
	c->n -= got;
	return (int)got;
}

static int notify_cq(struct ibv_cq *cq, int solicited)
{
	(void)cq;
	(void)solicited;
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int n, void *context,
			     struct ibv_comp_channel *channel, int vector)
{
	struct completions *c = &dev.cq[dev.n_cq++];

	(void)n;
	(void)vector;
	c->cq = (struct ibv_cq){.context = ctx, .channel = channel, .cq_context = context};
	dev.cqs++;
	return &c->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	(void)cq;
	dev.cqs--;
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned n)
{
	(void)cq;
	(void)n;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init)
{
	struct queue_pair *q = &dev.qp[dev.n_qp];

	if (dev.no_qp)
		return errno = ENOMEM, NULL;
	cr_assert_eq(init->qp_type, IBV_QPT_RC);
	*q = (struct queue_pair){.qp = {.context = pd->context,
					.qp_context = init->qp_context,
					.pd = pd,
					.send_cq = init->send_cq,
					.qp_num = 17 + dev.n_qp}};
	dev.n_qp++;
	dev.qps++;
	return &q->qp;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct queue_pair *q = (struct queue_pair *)qp;

	qp->state = attr->qp_state;
	if (mask & IBV_QP_ACCESS_FLAGS)
		q->access = (int)attr->qp_access_flags;
	if (mask & IBV_QP_DEST_QPN)
		q->dest = attr->dest_qp_num;
	if (mask & IBV_QP_RQ_PSN)
		q->theirs = attr->rq_psn;
	if (mask & IBV_QP_SQ_PSN)
		q->psn = attr->sq_psn;
	return 0;
}

int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	(void)mask;
	(void)init;
	attr->qp_state = qp->state;
	return 0;
}

int ibv_destroy_qp(struct ibv_qp *qp)
{
	qp->state = IBV_QPS_RESET;
	qp->qp_num = 0;
	dev.qps--;
	return 0;
}

int ibv_query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	(void)ctx;
	*attr = (struct ibv_device_attr){.device_cap_flags = IBV_DEVICE_MEM_WINDOW_TYPE_2B,
					 .max_qp_rd_atom = 16,
					 .max_qp_init_rd_atom = 128};
	return 0;
}

/* The rest of the carrier: one registered region per end, a path to every peer. */
static struct verbs_region region[ENDS];
static struct verbs end[ENDS];

const struct verbs_region *verbs_region_of(struct verbs *v, const uint8_t *data, uint32_t len)
{
	const struct verbs_region *r = &region[v - end];

	return r->mr && data >= r->base && data + len <= r->base + r->len ? r : NULL;
}

bool verbs_host_path(struct verbs *v, const struct lend_udp_key *peer, uint8_t precedence,
		     struct ibv_ah_attr *path)
{
	(void)v;
	(void)peer;
	(void)precedence;
	memset(path, 0, sizeof(*path));
	return true;
}

static struct ibv_context ctx = {.ops = {.alloc_mw = alloc_mw,
					 .dealloc_mw = dealloc_mw,
					 .poll_cq = poll_cq,
					 .req_notify_cq = notify_cq,
					 .post_send = post_send}};
static struct ibv_pd pd[ENDS];
static struct verbs_ring ring[ENDS];

static void open_ends(uint32_t links)
{
	memset(&dev, 0, sizeof(dev));
	for (uint32_t i = 0; i < ENDS; i++) {
		struct verbs *v = &end[i];

		memset(v, 0, sizeof(*v));
		pd[i].context = &ctx;
		ring[i] = (struct verbs_ring){.ctx = &ctx, .pd = &pd[i]};
		v->ring = &ring[i];
		v->mtu = 4096;
		v->address.rc = links;
		cr_assert_eq(lend_udp_peers_init(&v->peers), 0);
		verbs_rc_open(v);
		cr_assert_not_null(v->io.one_sided);
		region[i] = (struct verbs_region){.base = NULL};
	}
}

static void close_ends(void)
{
	for (uint32_t i = 0; i < ENDS; i++) {
		verbs_rc_close(&end[i]);
		lend_udp_peers_free(&end[i].peers);
	}
	cr_assert(dev.mrs == 0 && dev.mws == 0 && dev.qps == 0 && dev.cqs == 0,
		  "left: %u regions, %u windows, %u queue pairs, %u queues", dev.mrs, dev.mws,
		  dev.qps, dev.cqs);
}

static uint32_t peer_of(struct verbs *v, const struct verbs *far)
{
	struct lend_udp_key key = {.scope = (uint32_t)(far - end) + 1};
	int32_t peer = lend_udp_peers_find(&v->peers, &key);

	cr_assert_geq(peer, 0);
	return (uint32_t)peer;
}

/* Links a reader and an owner. Returns the reader's result. */
static int join_ends(struct verbs *reader, struct verbs *owner)
{
	uint8_t a[LEND_IO_HALF], b[LEND_IO_HALF];
	int rc =
	    reader->io.one_sided->offer(&reader->io, peer_of(reader, owner), LEND_IO_READER, a);

	if (rc == 0)
		rc = owner->io.one_sided->answer(&owner->io, peer_of(owner, reader), LEND_IO_OWNER,
						 a, b);
	if (rc < 0) {
		(void)reader->io.one_sided->accept(&reader->io, peer_of(reader, owner),
						   LEND_IO_READER, NULL);
		return rc;
	}
	return reader->io.one_sided->accept(&reader->io, peer_of(reader, owner), LEND_IO_READER, b);
}

static int show_runs(struct verbs *owner, struct verbs *reader, const struct iovec *run, uint32_t n,
		     struct lend_io_key *key, uint32_t *shown)
{
	return owner->io.one_sided->show(&owner->io, peer_of(owner, reader), run, n, key, shown);
}

/* Reads, and returns how that ended, or why it did not start; 1: it has not ended. */
static int read_now(struct verbs *reader, struct verbs *owner, const struct lend_io_key *key,
		    uint32_t n, const struct iovec *to, uint32_t n_to)
{
	struct lend_io_read_end ended;
	int rc = reader->io.one_sided->read(&reader->io, peer_of(reader, owner), key, n, to, n_to,
					    reader);

	if (rc < 0)
		return rc;
	if (reader->io.one_sided->ended(&reader->io, &ended, 1) == 0)
		return 1;
	cr_assert_eq(ended.user, reader);
	return ended.err;
}

static uint8_t memory[2][1 << 16];

/* Cuts len bytes into pieces, with gaps between them. Returns how many. */
static uint32_t cut_pieces(struct lend_rng *rng, uint8_t *at, uint32_t len, struct iovec piece[8])
{
	uint32_t n = 0;

	while (len) {
		uint32_t part = n == 7 ? len : 1 + (uint32_t)(lend_rng_next(rng) % len);

		piece[n++] = (struct iovec){at, part};
		at += part + lend_rng_next(rng) % 64;
		len -= part;
	}
	return n;
}

Test(rc_link, any_runs_and_pieces__arrive_exactly)
{
	struct lend_rng rng;
	struct verbs *owner = &end[0], *reader = &end[1];

	lend_rng_seed(&rng, conform_seed());
	open_ends(8);
	cr_assert_eq(join_ends(reader, owner), 0);
	for (int round = 0; round < 500; round++) {
		struct iovec run[8], piece[8];
		struct lend_io_key key[8];
		uint8_t *want = malloc(40000), *got = malloc(40000);
		uint32_t len = 1 + (uint32_t)(lend_rng_next(&rng) % 32768), n, m, shown, at = 0;

		for (size_t i = 0; i < sizeof(memory[0]); i++)
			memory[0][i] = (uint8_t)lend_rng_next(&rng);
		if (round == 250) { /* from here on both ends use registered memory */
			for (int i = 0; i < 2; i++) {
				region[i] = (struct verbs_region){memory[i], sizeof(memory[i]),
								  NULL, true, true};
				region[i].mr =
				    ibv_reg_mr(&pd[i], memory[i], sizeof(memory[i]),
					       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
			}
		}
		n = cut_pieces(&rng, memory[0], len, run);
		m = cut_pieces(&rng, memory[1], len, piece);
		for (uint32_t i = 0; i < n; at += (uint32_t)run[i++].iov_len)
			memcpy(want + at, run[i].iov_base, run[i].iov_len);
		cr_assert_eq(show_runs(owner, reader, run, n, key, &shown), 0);
		cr_assert_eq(read_now(reader, owner, key, n, piece, m), 0, "round %d", round);
		owner->io.one_sided->hide(&owner->io, shown);
		at = 0;
		for (uint32_t i = 0; i < m; at += (uint32_t)piece[i++].iov_len)
			memcpy(got + at, piece[i].iov_base, piece[i].iov_len);
		cr_assert_eq(memcmp(want, got, len), 0, "round %d", round);
		free(want);
		free(got);
		for (uint32_t i = 0; i < dev.n_mw; i++)
			cr_assert(!dev.mw[i].valid, "a hidden run has a key");
	}
	cr_assert_eq(owner->io.stats.resets + reader->io.stats.resets, 0);
	for (int i = 0; i < 2; i++)
		ibv_dereg_mr(region[i].mr);
	close_ends();
}

static struct iovec run_of(uint8_t *at, size_t len)
{
	return (struct iovec){at, len};
}

/* What a peer may not do with keys, and how each attempt ends. */
Test(rc_link, forged_and_old_keys__read_nothing)
{
	for (int attempt = 0; attempt < 6; attempt++) {
		struct verbs *owner = &end[0], *reader = &end[1], *other = &end[2];
		struct iovec run = run_of(memory[0] + 4096, 4096), to = run_of(memory[1], 4096);
		struct lend_io_key key;
		uint32_t shown;
		int rc;

		open_ends(8);
		memset(memory[0], 'x', sizeof(memory[0]));
		memset(memory[1], 0, sizeof(memory[1]));
		cr_assert_eq(join_ends(reader, owner), 0);
		cr_assert_eq(join_ends(other, owner), 0);
		cr_assert_eq(show_runs(owner, reader, &run, 1, &key, &shown), 0);
		key.at -= attempt == 1;  /* before the run */
		key.at += attempt == 2;  /* behind it */
		key.key += attempt == 3; /* another key */
		if (attempt == 0)        /* hidden */
			owner->io.one_sided->hide(&owner->io, shown);
		if (attempt == 4) /* the key is shown to another peer */
			rc = read_now(other, owner, &key, 1, &to, 1);
		else if (attempt == 5) /* the owner broke the link */
			rc = (rc_link_break(
				  owner, rc_link_up(owner, peer_of(owner, reader), LEND_IO_OWNER)),
			      read_now(reader, owner, &key, 1, &to, 1));
		else
			rc = read_now(reader, owner, &key, 1, &to, 1);
		cr_assert_eq(rc, -EIO, "attempt %d: %d", attempt, rc);
		for (size_t i = 0; i < to.iov_len; i++)
			cr_assert_eq(memory[1][i], 0, "attempt %d", attempt);
		/* The owner's end notices, and nothing stays shown. */
		verbs_rc_doubt(owner);
		verbs_rc_turn(owner);
		if (attempt)
			owner->io.one_sided->hide(&owner->io, shown);
		close_ends();
	}
}

Test(rc_link, malformed_halves__are_refused)
{
	struct verbs *v = &end[0];
	uint8_t half[LEND_IO_HALF], mine[LEND_IO_HALF];
	static const uint8_t bad[][2] = {{0, 0}, {0, 9}, {1, 0}, {1, 6}, {2, 0}, {7, 1}, {11, 1}};

	open_ends(8);
	for (size_t i = 0; i <= sizeof(bad) / sizeof(bad[0]); i++) {
		memset(half, 0, sizeof(half));
		half[0] = half[2] = 1;
		half[1] = IBV_MTU_4096;
		half[4] = i < sizeof(bad) / sizeof(bad[0]) ? 99 : 0; /* last: queue pair 0 */
		if (i < sizeof(bad) / sizeof(bad[0]))
			half[bad[i][0]] = bad[i][1];
		cr_assert_eq(
		    v->io.one_sided->answer(&v->io, peer_of(v, &end[1]), LEND_IO_OWNER, half, mine),
		    -EINVAL, "%zu", i);
	}
	cr_assert_eq(dev.qps, 0);
	close_ends();
}

Test(rc_link, links__are_bounded_and_idle_ones_replaced)
{
	struct verbs *owner = &end[0];

	open_ends(2);
	cr_assert_eq(join_ends(&end[1], owner), 0);
	now += RC_YOUNG_NS / 2;
	cr_assert_eq(join_ends(&end[2], owner), 0);
	cr_assert_eq(join_ends(&end[3], owner), -EAGAIN, "a link in use was replaced");
	now += RC_YOUNG_NS / 2;
	cr_assert_eq(join_ends(&end[3], owner), -EAGAIN, "the peer refused a moment ago");
	now += RC_RETRY_NS;
	cr_assert_eq(join_ends(&end[3], owner), 0);
	cr_assert_null(rc_link_up(owner, peer_of(owner, &end[1]), LEND_IO_OWNER));
	cr_assert_eq(owner->rc->n_links, 2);
	now += RC_IDLE_NS;
	verbs_rc_turn(owner);
	cr_assert_eq(owner->rc->n_links, 0, "idle links stay");
	cr_assert_eq(owner->io.due, 0);
	close_ends();
}

Test(rc_link, a_read_that_stalls__ends_with_its_link)
{
	struct verbs *owner = &end[0], *reader = &end[1];
	struct iovec run = run_of(memory[0], 4096), to = run_of(memory[1], 4096);
	struct lend_io_read_end ended;
	struct lend_io_key key;
	uint32_t shown;

	open_ends(2);
	cr_assert_eq(join_ends(reader, owner), 0);
	cr_assert_eq(show_runs(owner, reader, &run, 1, &key, &shown), 0);
	dev.hold = true;
	cr_assert_eq(read_now(reader, owner, &key, 1, &to, 1), 1);
	now += RC_READ_NS - 1;
	verbs_rc_turn(reader);
	cr_assert_eq(reader->io.one_sided->ended(&reader->io, &ended, 1), 0);
	cr_assert(verbs_rc_arm(reader));
	now += 1;
	verbs_rc_turn(reader);
	cr_assert_not(verbs_rc_arm(reader), "a read that ended lets the thread sleep");
	cr_assert_eq(reader->io.one_sided->ended(&reader->io, &ended, 1), 1);
	cr_assert_eq(ended.err, -EIO);
	cr_assert_eq(join_ends(reader, owner), -EAGAIN, "no pause after a link that broke");
	now += RC_RETRY_NS;
	dev.hold = false;
	cr_assert_eq(join_ends(reader, owner), 0, "a broken link is not made again");
	owner->io.one_sided->hide(&owner->io, shown); /* its window ended with the old link */
	cr_assert_eq(show_runs(owner, reader, &run, 1, &key, &shown), 0);
	cr_assert_eq(read_now(reader, owner, &key, 1, &to, 1), 0);
	close_ends();
}

Test(rc_link, what_the_device_refuses__is_refused)
{
	struct verbs *owner = &end[0], *reader = &end[1];
	struct iovec run[2] = {run_of(memory[0], 4096), run_of(memory[0] + 8192, 4096)};
	struct iovec many[LEND_IO_RUNS + 1];
	struct lend_io_key key[LEND_IO_RUNS + 1];
	uint32_t shown;

	open_ends(2);
	cr_assert_eq(show_runs(owner, reader, run, 2, key, &shown), -ENOTCONN);
	cr_assert_eq(read_now(reader, owner, key, 1, run, 1), -ENOTCONN);
	dev.no_qp = true;
	cr_assert_eq(join_ends(reader, owner), -EAGAIN);
	dev.no_qp = false;
	cr_assert_eq(join_ends(reader, owner), 0);
	for (int i = 0; i <= LEND_IO_RUNS; i++)
		many[i] = run_of(memory[0] + 64 * i, 64);
	cr_assert_eq(show_runs(owner, reader, many, LEND_IO_RUNS + 1, key, &shown), -E2BIG);
	dev.no_mr = true; /* ulimit -l */
	cr_assert_eq(show_runs(owner, reader, run, 2, key, &shown), -ENOMEM);
	dev.no_mr = false;
	dev.no_mw = true;
	cr_assert_eq(show_runs(owner, reader, run, 2, key, &shown), -ENOMEM);
	dev.no_mw = false;
	cr_assert_eq(show_runs(owner, reader, run, 2, key, &shown), 0);
	dev.no_mr = true;
	cr_assert_eq(read_now(reader, owner, key, 2, run, 2), -ENOMEM);
	dev.no_mr = false;
	cr_assert_eq(read_now(reader, owner, key, 2, run, 1), -EINVAL, "lengths differ");
	cr_assert_eq(read_now(reader, owner, key, 1, run, 2), -E2BIG, "lengths differ");
	verbs_rc_lose(owner, NULL); /* the device went */
	owner->io.one_sided->hide(&owner->io, shown);
	cr_assert_eq(show_runs(owner, reader, run, 2, key, &shown), -ENOTCONN);
	close_ends();
}
#endif
