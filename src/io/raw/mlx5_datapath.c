/* mlx5_datapath - a running mlx5 device: sends, events, recovery, health.
 *
 * Layer: io. Threads: the carrier's.
 */
#include "io/raw/mlx5.h"

#include <endian.h>
#include <errno.h>

#include "io/raw/barrier.h"

enum { EVENTS = 16, ARM_INDEX = 1 };

static struct mlx5 *self(struct raw_device *device)
{
	return (struct mlx5 *)device;
}

int mlx5_raise_sender(struct mlx5 *d, bool used)
{
	static const enum ibv_qp_state step[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
						 IBV_QPS_RTS};

	for (int i = used ? 0 : 1; i < 4; i++) {
		struct ibv_qp_attr attr = {.qp_state = step[i], .port_num = MLX5_PORT};
		int err = ibv_modify_qp(d->tx_qp, &attr,
					IBV_QP_STATE | (step[i] == IBV_QPS_INIT ? IBV_QP_PORT : 0));

		if (err != 0)
			return errno = err;
	}
	return 0;
}

uint32_t mlx5_send(struct raw_device *device, const struct raw_send *send, uint32_t n)
{
	struct mlx5 *d = self(device);
	struct ibv_send_wr wr[RAW_BURST], *bad = NULL;
	struct ibv_sge sge[RAW_BURST];
	unsigned sums = device->facts.checksums ? IBV_SEND_IP_CSUM : 0;

	for (uint32_t i = 0; i < n; i++) {
		bool inside = send[i].len <= device->facts.inline_max;

		sge[i] = (struct ibv_sge){
		    .addr = (uintptr_t)send[i].data, .length = send[i].len, .lkey = d->mr->lkey};
		wr[i] =
		    (struct ibv_send_wr){.next = i + 1 < n ? &wr[i + 1] : NULL,
					 .sg_list = &sge[i],
					 .num_sge = 1,
					 .opcode = IBV_WR_SEND,
					 .send_flags = sums | (inside ? IBV_SEND_INLINE : 0) |
						       (send[i].signal ? IBV_SEND_SIGNALED : 0)};
	}
	if (ibv_post_send(d->tx_qp, wr, &bad) == 0)
		return n;
	return bad ? (uint32_t)(bad - wr) : 0;
}

int mlx5_sent(struct raw_device *device)
{
	struct ibv_wc wc[EVENTS];
	int n = ibv_poll_cq(self(device)->tx_cq, EVENTS, wc);

	for (int i = 0; i < n; i++) {
		if (wc[i].status != IBV_WC_SUCCESS)
			return -EIO;
	}
	return n < 0 ? -EIO : n;
}

int mlx5_revive(struct raw_device *device, enum raw_side side)
{
	struct mlx5 *d = self(device);
	struct ibv_wq_attr attr = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RESET};
	struct ibv_wc wc[EVENTS];
	int err;

	if (side == RAW_SENDING) {
		err = mlx5_raise_sender(d, true);
		while (err == 0 && ibv_poll_cq(d->tx_cq, EVENTS, wc) > 0)
			continue;
		return -err;
	}
	err = ibv_modify_wq(d->wq, &attr);
	attr.wq_state = IBV_WQS_RDY;
	return err != 0 ? -err : -ibv_modify_wq(d->wq, &attr);
}

/* Arms the completion queue in the kernel's order: writes the request to memory first, then to the
 * device. */
void mlx5_arm(struct raw_device *device, uint32_t next)
{
	struct mlx5 *d = self(device);
	uint32_t request = (d->signals & 3) << 28 | MLX5_CQ_DB_REQ_NOT | (next & 0xffffff);
	uint64_t doorbell = (uint64_t)request << 32 | d->cq.cqn;

	((volatile uint32_t *)d->cq.dbrec)[ARM_INDEX] = htobe32(request);
	raw_to_device();
	*(volatile uint64_t *)((uint8_t *)d->cq.cq_uar + MLX5_CQ_DOORBELL) = htobe64(doorbell);
}

void mlx5_calm(struct raw_device *device)
{
	struct mlx5 *d = self(device);
	struct ibv_cq *cq;
	void *context;

	while (ibv_get_cq_event(d->channel, &cq, &context) == 0) {
		ibv_ack_cq_events(cq, 1);
		d->signals++;
	}
}

void mlx5_query_health(struct raw_device *device, struct raw_health *health)
{
	struct mlx5 *d = self(device);
	struct ibv_async_event event;
	struct ibv_port_attr port;

	while (ibv_get_async_event(d->context, &event) == 0) {
		d->removed |= event.event_type == IBV_EVENT_DEVICE_FATAL;
		ibv_ack_async_event(&event);
	}
	d->removed |= ibv_query_port(d->context, MLX5_PORT, &port) != 0;
	health->link = d->removed ? RAW_REMOVED : port.state == IBV_PORT_ACTIVE ? RAW_UP : RAW_DOWN;
	health->overruns = raw_netdev_overruns(d->name);
}
