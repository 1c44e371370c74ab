/* rc_read - reads of a peer's memory: one request for each piece that is contiguous at both ends.
 * Layer: io. Threads: one per carrier.
 */
#include "io/verbs/rc_link.h"

#include <errno.h>

#include "sys/clock.h"
#include "util/bits.h"

enum { REQUEST_MAX = 1 << 30 /* bytes of one request; the devices' limit is twice that */ };

static struct verbs *verbs_of(struct lend_io *io)
{
	return (struct verbs *)(void *)io;
}

static struct rc_read *take_read(struct verbs *v)
{
	for (uint32_t i = 0; i < RC_READS; i++) {
		if (v->rc->read[i].state == RC_READ_FREE)
			return &v->rc->read[i];
	}
	return NULL;
}

static void free_registrations(struct rc_read *read)
{
	for (uint32_t i = 0; i < LEND_IO_RUNS; i++) {
		if (read->temp[i])
			(void)ibv_dereg_mr(read->temp[i]);
		read->temp[i] = NULL;
	}
}

/* Returns the key of a piece of the destination, or registers it. False: it cannot be. */
static bool find_key(struct verbs *v, const struct iovec *to, struct ibv_mr **temp, uint32_t *lkey)
{
	const struct verbs_region *region = verbs_region_of(v, to->iov_base, (uint32_t)to->iov_len);

	if (!region || !region->writable)
		*temp = ibv_reg_mr(v->ring->pd, to->iov_base, to->iov_len, IBV_ACCESS_LOCAL_WRITE);
	if (!*temp && (!region || !region->writable))
		return false;
	*lkey = *temp ? (*temp)->lkey : region->mr->lkey;
	return true;
}

struct requests {
	struct ibv_send_wr wr[RC_SENDS];
	struct ibv_sge sge[RC_SENDS];
	uint32_t n;
};

/* Makes the requests for one piece of the destination from the keys' bytes at *at of key *k.
 * False: the keys have too few bytes, or there are too many pieces. */
static bool add_piece(struct requests *r, const struct iovec *to, uint32_t lkey,
		      const struct lend_io_key *key, uint32_t n, uint32_t *k, uint64_t *at)
{
	for (size_t done = 0; done < to->iov_len;) {
		struct ibv_send_wr *wr = &r->wr[r->n];
		uint64_t len = to->iov_len - done;

		if (*k == n || r->n == RC_SENDS)
			return false;
		len = lend_min_u64(lend_min_u64(len, key[*k].len - *at), REQUEST_MAX);
		r->sge[r->n] = (struct ibv_sge){
		    .addr = (uintptr_t)to->iov_base + done, .length = (uint32_t)len, .lkey = lkey};
		*wr = (struct ibv_send_wr){.next = wr + 1,
					   .sg_list = &r->sge[r->n],
					   .num_sge = 1,
					   .opcode = IBV_WR_RDMA_READ};
		wr->wr.rdma.remote_addr = key[*k].at + *at;
		wr->wr.rdma.rkey = key[*k].key;
		r->n += len > 0;
		done += len;
		*at += len;
		if (*at == key[*k].len) {
			*at = 0;
			++*k;
		}
	}
	return true;
}

/* Makes the requests of a read, and registers its destination. */
static int make_requests(struct verbs *v, struct rc_read *read, struct requests *r,
			 const struct lend_io_key *key, uint32_t n, const struct iovec *to,
			 uint32_t n_to)
{
	uint32_t k = 0, lkey;
	uint64_t at = 0;

	for (uint32_t i = 0; i < n_to; i++) {
		if (to[i].iov_len == 0)
			continue;
		if (!find_key(v, &to[i], &read->temp[i], &lkey))
			return -ENOMEM;
		if (!add_piece(r, &to[i], lkey, key, n, &k, &at))
			return -E2BIG;
	}
	return k == n && r->n > 0 ? 0 : -EINVAL;
}

/* Posts the requests. A request that the device took before it refused one ends with the link. */
static int post_requests(struct verbs *v, struct rc_link *link, struct rc_read *read,
			 struct requests *r)
{
	struct ibv_send_wr *bad;

	v->rc->last_id += RC_LINKS;
	read->id = v->rc->last_id + read->link;
	r->wr[r->n - 1].next = NULL;
	r->wr[r->n - 1].send_flags = IBV_SEND_SIGNALED;
	r->wr[r->n - 1].wr_id = read->id;
	if (ibv_post_send(link->qp, r->wr, &bad) == 0)
		return 0;
	rc_link_break(v, link);
	return -EIO;
}

int rc_read_start(struct lend_io *io, uint32_t peer, const struct lend_io_key *key, uint32_t n,
		  const struct iovec *to, uint32_t n_to, void *user)
{
	struct verbs *v = verbs_of(io);
	struct rc_link *link = rc_link_up(v, peer, LEND_IO_READER);
	struct rc_read *read = link ? take_read(v) : NULL;
	struct requests r;
	int rc;

	if (!read)
		return link ? -EAGAIN : -ENOTCONN;
	if (n > LEND_IO_RUNS || n_to > LEND_IO_RUNS)
		return -E2BIG;
	r.n = 0;
	read->link = (uint8_t)(link - v->rc->link);
	rc = make_requests(v, read, &r, key, n, to, n_to);
	if (rc == 0 && link->posted + r.n > RC_SENDS)
		rc = -EAGAIN;
	if (rc == 0)
		rc = post_requests(v, link, read, &r);
	if (rc < 0) {
		free_registrations(read);
		return rc;
	}
	read->user = user;
	read->n = r.n;
	read->state = RC_READ_WAITS;
	link->busy++;
	link->posted += r.n;
	link->used = read->begun = lend_clock_now();
	v->rc->n_reads++;
	v->io.stats.one_sided_reads++;
	return 0;
}

bool rc_reads_late(const struct verbs *v, uint8_t link, lend_ns now)
{
	for (uint32_t i = 0; i < RC_READS; i++) {
		const struct rc_read *read = &v->rc->read[i];

		if (read->state == RC_READ_WAITS && read->link == link &&
		    now - read->begun >= RC_READ_NS)
			return true;
	}
	return false;
}

void rc_reads_end(struct verbs *v, uint8_t link, uint64_t id, int err)
{
	for (uint32_t i = 0; i < RC_READS; i++) {
		struct rc_read *read = &v->rc->read[i];

		if (read->state != RC_READ_WAITS || read->link != link || (id && read->id != id))
			continue;
		free_registrations(read);
		read->state = RC_READ_ENDED;
		read->err = err;
		if (v->rc->link[link].busy > 0) { /* 0: the link is being closed */
			v->rc->link[link].busy--;
			v->rc->link[link].posted -= read->n;
		}
	}
}

uint32_t rc_read_ended(struct lend_io *io, struct lend_io_read_end *end, uint32_t cap)
{
	struct verbs *v = verbs_of(io);
	uint32_t n = 0;

	if (!v->rc || v->rc->n_reads == 0)
		return 0;
	rc_poll(v);
	for (uint32_t i = 0; i < RC_READS && n < cap; i++) {
		struct rc_read *read = &v->rc->read[i];

		if (read->state != RC_READ_ENDED)
			continue;
		end[n++] = (struct lend_io_read_end){read->user, read->err};
		read->state = RC_READ_FREE;
		v->rc->n_reads--;
	}
	return n;
}
