/* async_events - events that are not datagrams: ports, addresses and devices that come and go, and
 * a queue pair in error.
 *
 * A port that goes down is only counted: cables are plugged in again, and sessions have their own
 * timeouts. If our address leaves the device, all peers are gone; the carrier continues when the
 * address returns. A removed device ends the carrier. A queue pair in error is reset and restarted;
 * its queued sends and receives are lost, as any datagram may be.
 *
 * Layer: io. Threads: one per carrier. With a shared ring, any of its carriers may read an event of
 * another carrier's queue pair.
 */
#include "io/verbs/verbs.h"

#include <errno.h>
#include <sys/epoll.h>

#include "sys/last_error.h"

void verbs_lose(struct verbs *v, enum verbs_life life)
{
	if (v->life == VERBS_DEAD)
		return;
	v->life = life;
	v->gone_at = 0;
	v->gone_end = v->peers.top;
	if (life == VERBS_DEAD) {
		struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

		(void)ibv_modify_qp(v->qp, &attr, IBV_QP_STATE);
		verbs_send_drop(v);
		verbs_rc_lose(v, NULL);
		/* These descriptors would stay readable for ever. */
		(void)epoll_ctl(v->epoll, EPOLL_CTL_DEL, v->watch->async_fd, NULL);
		(void)epoll_ctl(v->epoll, EPOLL_CTL_DEL, v->signal->fd, NULL);
	}
}

uint32_t verbs_report_gone(struct verbs *v, struct lend_in *in, uint32_t cap)
{
	uint32_t n = 0;

	for (; v->gone_at < v->gone_end && n < cap; v->gone_at++) {
		const struct lend_udp_peer *peer = lend_udp_peers_at(&v->peers, v->gone_at);

		if (peer != NULL && peer->used)
			in[n++] = (struct lend_in){.peer = v->gone_at, .gone = 1};
	}
	return n;
}

static void lose_device(struct verbs *v)
{
	verbs_lose(v, VERBS_DEAD);
	(void)lend_fail(
	    ENODEV,
	    "verbs: %s was removed, and all its peers are gone: open the endpoint again "
	    "when it is back",
	    v->device);
}

/* Checks our GID, which may have moved, gone, or come back. */
static void find_gid(struct verbs *v)
{
	uint32_t before = v->gid_index;
	char ip[64];

	if (v->life == VERBS_DEAD)
		return;
	if (verbs_gid_find(v) == 0) {
		if (v->gid_index != before || v->life == VERBS_HOMELESS)
			verbs_host_forget(v);
		v->life = VERBS_UP;
		return;
	}
	if (v->life == VERBS_HOMELESS)
		return;
	verbs_ip_print(v->ip, ip, sizeof(ip));
	verbs_lose(v, VERBS_HOMELESS);
	(void)lend_fail(EADDRNOTAVAIL,
			"verbs: %s is no address of %s any more, and its peers are gone: give it "
			"back to the interface",
			ip, v->device);
}

static void query_port(struct verbs *v)
{
	struct ibv_port_attr port;

	if (ibv_query_port(v->watch, v->port_num, &port) != 0)
		return;
	if (port.state != IBV_PORT_ACTIVE)
		(void)lend_fail(ENETDOWN, "verbs: port %u of %s is down: check its link",
				v->port_num, v->device);
	else if (verbs_mtu(&port) < v->io.path.mtu)
		v->mtu = verbs_mtu(&port);
	else
		v->mtu = v->io.path.mtu;
}

/* Handles an event of a queue. With a shared ring the queue may belong to another carrier. */
static void take_queue_event(struct verbs *v, const struct ibv_async_event *event)
{
	struct verbs *owner;

	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		owner = event->element.qp->qp_context;
		if (event->element.qp == owner->qp)
			owner->broken = true;
		else
			verbs_rc_doubt(owner);
		break;
	case IBV_EVENT_CQ_ERR:
		((struct verbs *)event->element.cq->cq_context)->removed = true;
		break;
	case IBV_EVENT_SRQ_ERR:
		v->removed = true;
		break;
	default:
		break;
	}
}

static void take_event(struct verbs *v, const struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_DEVICE_FATAL:
		v->removed = true;
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
		v->io.stats.port_events++;
		query_port(v);
		break;
	case IBV_EVENT_GID_CHANGE:
	case IBV_EVENT_LID_CHANGE:
	case IBV_EVENT_PKEY_CHANGE:
		v->io.stats.port_events++;
		find_gid(v);
		break;
	default:
		break;
	}
}

static void take_events(struct verbs *v, struct ibv_context *ctx)
{
	struct ibv_async_event event;

	while (v->life != VERBS_DEAD && ibv_get_async_event(ctx, &event) == 0) {
		take_queue_event(v, &event);
		if (ctx == v->watch) /* port events come from watch only */
			take_event(v, &event);
		ibv_ack_async_event(&event);
	}
}

void verbs_poll_events(struct verbs *v)
{
	struct epoll_event event[4];
	int n = epoll_wait(v->epoll, event, 4, 0);

	v->look = false;
	for (int i = 0; i < n; i++) {
		if (event[i].data.ptr == v->cm)
			verbs_cm_turn(v);
		else if (event[i].data.ptr != v->signal)
			take_events(v, event[i].data.ptr);
	}
	if (v->removed && v->life != VERBS_DEAD)
		lose_device(v);
	verbs_rc_turn(v);
}

void verbs_recover(struct verbs *v)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	int rc = ibv_modify_qp(v->qp, &attr, IBV_QP_STATE);

	v->broken = false;
	v->io.stats.resets++;
	verbs_ring_drain(v);
	attr.qp_state = IBV_QPS_RESET;
	if (rc == 0)
		rc = ibv_modify_qp(v->qp, &attr, IBV_QP_STATE);
	if (rc == 0) {
		verbs_ring_drain(v);
		verbs_ring_reclaim(v);
		verbs_send_drop(v);
		rc = verbs_qp_start(v);
	}
	if (rc == 0) {
		verbs_ring_refill(v, true);
		return;
	}
	verbs_lose(v, VERBS_DEAD);
	(void)lend_fail(EIO,
			"verbs: a queue pair of %s is in error and cannot be restarted: open the "
			"endpoint again",
			v->device);
}
