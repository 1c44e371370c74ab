/* recv_queue - receive buffers: the ring of one carrier, or of several that share it.
 *
 * A shared ring (srq=1) is posted to a shared receive queue. Endpoints of one process and device
 * then use one ring's memory, and each can use all of it while the others are idle. It is not the
 * default, because an endpoint that is not polled keeps the buffers that it received into, and can
 * so use up the whole ring. Each completion queue has room for the whole ring, because it must
 * never overflow. Layer: io. Threads: any of a ring's carriers posts to it; the provider locks.
 */
#include "io/verbs/verbs.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sys/last_error.h"
#include "util/bits.h"

pthread_mutex_t verbs_world = PTHREAD_MUTEX_INITIALIZER;
static struct verbs_ring *shared;

struct ibv_context *verbs_device(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	for (uint32_t i = 0; list && list[i]; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name) == 0)
			ctx = ibv_open_device(list[i]);
	}
	if (list)
		ibv_free_device_list(list);
	return ctx;
}

static void release_ring(struct verbs_ring *ring)
{
	if (ring->srq)
		(void)ibv_destroy_srq(ring->srq);
	if (ring->mr)
		(void)ibv_dereg_mr(ring->mr);
	if (ring->pd)
		(void)ibv_dealloc_pd(ring->pd);
	if (ring->shared && ring->ctx)
		(void)ibv_close_device(ring->ctx);
	if (ring->memory)
		(void)munmap(ring->memory, (size_t)ring->n * ring->slot);
	free(ring);
}

static int fill_ring(struct verbs_ring *ring, const struct verbs *v, uint32_t mtu)
{
	struct ibv_device_attr attr;
	int most;

	if (ibv_query_device(ring->ctx, &attr) != 0)
		return lend_fail(ENODEV, "%s does not answer: was it removed?", v->device);
	most = v->address.srq ? attr.max_srq_wr : attr.max_qp_wr;
	most = most < attr.max_cqe ? most : attr.max_cqe;
	ring->n = lend_min_u32(v->address.ring, most > 1 ? (uint32_t)most : 1);
	/* An odd number of cache lines, so that first lines do not share a cache set. */
	ring->slot = (uint32_t)lend_align_up(VERBS_GRH + mtu, 128) + 64;
	ring->memory = mmap(NULL, (size_t)ring->n * ring->slot, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (ring->memory == MAP_FAILED) {
		ring->memory = NULL;
		return lend_fail(ENOMEM, "no memory for a ring of %u datagrams", ring->n);
	}
	ring->pd = ibv_alloc_pd(ring->ctx);
	if (ring->pd)
		ring->mr = ibv_reg_mr(ring->pd, ring->memory, (size_t)ring->n * ring->slot,
				      IBV_ACCESS_LOCAL_WRITE);
	if (ring->mr == NULL)
		return lend_fail(errno,
				 "%s: a receive ring of %zu KiB cannot be registered: raise ulimit "
				 "-l, or lower ?ring=",
				 v->device, (size_t)ring->n * ring->slot >> 10);
	if (v->address.srq) {
		struct ibv_srq_init_attr init = {.attr = {.max_wr = ring->n, .max_sge = 1}};

		ring->srq = ibv_create_srq(ring->pd, &init);
		if (ring->srq == NULL)
			return lend_fail(errno,
					 "%s supports no shared receive queue: leave out srq=1",
					 v->device);
	}
	return 0;
}

static int make_ring(const struct verbs *v, uint32_t mtu, struct verbs_ring **out)
{
	struct verbs_ring *ring = calloc(1, sizeof(*ring));
	int rc;

	if (ring == NULL)
		return lend_fail(ENOMEM, "no memory for a receive ring");
	ring->port_num = v->port_num;
	ring->users = 1;
	ring->shared = v->address.srq;
	ring->ctx = ring->shared ? verbs_device(v->device) : v->watch;
	rc = ring->ctx ? fill_ring(ring, v, mtu)
		       : lend_fail(ENODEV, "%s does not open: check the rights of /dev/infiniband",
				   v->device);
	if (rc < 0) {
		release_ring(ring);
		return rc;
	}
	*out = ring;
	return 0;
}

static bool ring_fits(const struct verbs_ring *ring, const struct verbs *v, uint32_t mtu)
{
	return strcmp(ibv_get_device_name(ring->ctx->device), v->device) == 0 &&
	       ring->port_num == v->port_num && ring->slot >= VERBS_GRH + mtu;
}

static int join_ring(struct verbs *v, uint32_t mtu)
{
	struct verbs_ring *ring;
	int rc = 0;

	pthread_mutex_lock(&verbs_world);
	for (ring = shared; ring && !ring_fits(ring, v, mtu); ring = ring->next)
		continue;
	if (ring) {
		ring->users++;
		v->ring = ring;
	} else {
		rc = make_ring(v, mtu, &v->ring);
		if (rc == 0) {
			v->ring->next = shared;
			shared = v->ring;
		}
	}
	pthread_mutex_unlock(&verbs_world);
	return rc;
}

int verbs_ring_open(struct verbs *v, uint32_t mtu)
{
	int rc = v->address.srq ? join_ring(v, mtu) : make_ring(v, mtu, &v->ring);

	if (rc < 0)
		return rc;
	v->spare = calloc(v->ring->n, sizeof(*v->spare));
	return v->spare ? 0 : lend_fail(ENOMEM, "no memory for a receive ring");
}

void verbs_ring_fill(struct verbs *v)
{
	pthread_mutex_lock(&verbs_world);
	for (uint32_t i = 0; !v->ring->filled && i < v->ring->n; i++)
		v->spare[v->n_spare++] = i;
	v->ring->filled = true;
	verbs_ring_refill(v, true);
	pthread_mutex_unlock(&verbs_world);
}

void verbs_ring_drain(struct verbs *v)
{
	struct ibv_wc wc[16];
	int n;

	while (v->n_early > 0)
		v->spare[v->n_spare++] = (uint32_t)v->early[--v->n_early].wr_id;
	while ((n = ibv_poll_cq(v->rx_cq, 16, wc)) > 0) {
		atomic_fetch_sub_explicit(&v->ring->posted, (uint32_t)n, memory_order_relaxed);
		for (int i = 0; i < n; i++)
			v->spare[v->n_spare++] = (uint32_t)wc[i].wr_id;
	}
}

static bool is_lent(const struct verbs *v, uint32_t slot)
{
	for (uint32_t i = 0; i < v->n_lent; i++) {
		if (v->lent[i] == slot)
			return true;
	}
	return false;
}

/* Buffers posted to a shared queue stay posted. */
void verbs_ring_reclaim(struct verbs *v)
{
	if (v->ring->srq)
		return;
	v->n_spare = 0;
	for (uint32_t i = 0; i < v->ring->n; i++) {
		if (!is_lent(v, i))
			v->spare[v->n_spare++] = i;
	}
	atomic_store_explicit(&v->ring->posted, 0, memory_order_relaxed);
}

void verbs_ring_leave(struct verbs *v)
{
	if (!v->ring->srq)
		return;
	verbs_ring_drain(v);
	while (v->n_lent > 0)
		v->spare[v->n_spare++] = v->lent[--v->n_lent];
	verbs_ring_refill(v, true);
}

void verbs_ring_close(struct verbs *v)
{
	struct verbs_ring *ring = v->ring;
	bool last;

	free(v->spare);
	if (ring == NULL)
		return;
	pthread_mutex_lock(&verbs_world);
	last = --ring->users == 0;
	for (struct verbs_ring **at = &shared; last && *at; at = &(*at)->next) {
		if (*at == ring) {
			*at = ring->next;
			break;
		}
	}
	pthread_mutex_unlock(&verbs_world);
	if (last)
		release_ring(ring);
}

static bool post_receives(struct verbs *v, uint32_t n)
{
	struct verbs_ring *ring = v->ring;
	struct ibv_recv_wr wr[VERBS_REFILL], *bad = NULL;
	struct ibv_sge sge[VERBS_REFILL];
	int rc;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t slot = v->spare[v->n_spare - n + i];

		sge[i] =
		    (struct ibv_sge){.addr = (uintptr_t)ring->memory + (uint64_t)slot * ring->slot,
				     .length = ring->slot,
				     .lkey = ring->mr->lkey};
		wr[i] = (struct ibv_recv_wr){.wr_id = slot,
					     .next = i + 1 < n ? &wr[i + 1] : NULL,
					     .sg_list = &sge[i],
					     .num_sge = 1};
	}
	atomic_fetch_add_explicit(&ring->posted, n, memory_order_relaxed);
	rc = ring->srq ? ibv_post_srq_recv(ring->srq, wr, &bad) : ibv_post_recv(v->qp, wr, &bad);
	if (rc == 0) {
		v->n_spare -= n;
		return true;
	}
	/* The device takes no more: the slots that it did not take stay spare. */
	for (uint32_t i = 0; i < n; i++) {
		if (bad == &wr[i]) {
			uint32_t left = n - i;

			memmove(v->spare + v->n_spare - n, v->spare + v->n_spare - left,
				left * sizeof(*v->spare));
			v->n_spare -= i;
			atomic_fetch_sub_explicit(&ring->posted, left, memory_order_relaxed);
		}
	}
	return false;
}

void verbs_ring_refill(struct verbs *v, bool all)
{
	uint32_t least = all ? 1 : lend_min_u32(VERBS_REFILL, v->ring->n / 4);

	while (v->n_spare >= least && v->n_spare > 0) {
		if (!post_receives(v, lend_min_u32(v->n_spare, VERBS_REFILL)))
			break;
	}
}
