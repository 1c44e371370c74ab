/* mlx5 - the mlx5 device of a raw carrier, through rdma-core.
 *
 * Receiving: a work queue of multi-packet buffers behind a hash queue pair; its rings are mapped as
 * memory (mlx5dv). The hash has only one queue to choose. Sending: a separate raw packet queue
 * pair, through plain verbs, which write the part of a frame that the device needs inline.
 *
 * Layer: io. Threads: the carrier's. A device owns its verbs objects.
 */
#include "io/raw/mlx5.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "sys/last_error.h"

enum { INLINE_MAX = 128 };

_Static_assert(sizeof(struct mlx5_cqe64) == RAW_CQE_LEN, "completion");
_Static_assert(offsetof(struct mlx5_cqe64, wqe_id) == RAW_CQE_BUFFER, "buffer");
_Static_assert(offsetof(struct mlx5_cqe64, hds_ip_ext) == RAW_CQE_CHECKS, "checks");
_Static_assert(offsetof(struct mlx5_cqe64, byte_cnt) == RAW_CQE_BYTES, "bytes");
_Static_assert(offsetof(struct mlx5_cqe64, wqe_counter) == RAW_CQE_STRIDE, "stride");
_Static_assert(offsetof(struct mlx5_cqe64, op_own) == RAW_CQE_OP_OWNER, "owner");
_Static_assert((int)MLX5_CQE_L3_OK == (int)RAW_CQE_L3_OK &&
		   (int)MLX5_CQE_L4_OK == (int)RAW_CQE_L4_OK,
	       "checks");
_Static_assert((int)MLX5_CQE_RESP_SEND == (int)RAW_OP_RECEIVED &&
		   (int)MLX5_CQE_RESP_ERR == (int)RAW_OP_FAILED &&
		   (int)MLX5_CQE_INVALID == (int)RAW_OP_NONE,
	       "opcodes");
_Static_assert(sizeof(struct mlx5_mprq_wqe) == RAW_WQE_LEN &&
		   offsetof(struct mlx5_mprq_wqe, dseg) == RAW_WQE_SEG,
	       "descriptor");

static struct mlx5 *self(struct raw_device *device)
{
	return (struct mlx5 *)device;
}

/* Reports which operation the kernel refused, and how to fix it. */
static int fail_refused(const struct mlx5 *d, const char *what)
{
	int err = errno;

	if (err == EPERM || err == EACCES)
		return lend_fail(EPERM,
				 "raw:%s: no right to %s: run as root, or setcap cap_net_raw+ep on "
				 "the program",
				 d->name, what);
	if (err == ENOMEM || err == EAGAIN)
		return lend_fail(ENOMEM,
				 "raw:%s: no memory to %s: raise the limit of locked memory "
				 "(ulimit -l unlimited)",
				 d->name, what);
	return lend_fail(err, "raw:%s: the device cannot %s (%s): use dpdk: or udp: there", d->name,
			 what, strerror(err));
}

static struct ibv_context *open_by_name(const char *name)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);
	struct ibv_context *context = NULL;
	bool found = false;

	for (int i = 0; list && i < n; i++) {
		if (strcmp(ibv_get_device_name(list[i]), name) != 0)
			continue;
		found = true;
		if (!mlx5dv_is_supported(list[i]))
			(void)lend_fail(ENODEV,
					"raw:%s: no mlx5 device: raw needs a ConnectX-4 or later; "
					"use verbs: or dpdk: there",
					name);
		else if ((context = ibv_open_device(list[i])) == NULL)
			(void)lend_fail(ENODEV,
					"raw:%s: does not open (%s): check the rights of "
					"/dev/infiniband/uverbs*",
					name, strerror(errno));
	}
	if (list)
		ibv_free_device_list(list);
	if (!found)
		(void)lend_fail(ENODEV,
				"raw:%s: no such RDMA device: see ibv_devices for their names, and "
				"load mlx5_ib",
				name);
	return context;
}

static int learn_facts(struct mlx5 *d)
{
	struct raw_facts *facts = &d->device.facts;
	struct mlx5dv_context dv = {.comp_mask = MLX5DV_CONTEXT_MASK_STRIDING_RQ};
	struct ibv_device_attr_ex attr;
	struct ibv_port_attr port;

	if (ibv_query_device_ex(d->context, NULL, &attr) != 0 ||
	    mlx5dv_query_device(d->context, &dv) != 0 ||
	    ibv_query_port(d->context, MLX5_PORT, &port) != 0)
		return lend_fail(EIO, "raw:%s: does not answer: reset the device", d->name);
	if (port.link_layer != IBV_LINK_LAYER_ETHERNET)
		return lend_fail(
		    ENODEV,
		    "raw:%s: its port is InfiniBand: use verbs: there, or set the port "
		    "to Ethernet (mlxconfig)",
		    d->name);
	if (!(dv.comp_mask & MLX5DV_CONTEXT_MASK_STRIDING_RQ) ||
	    !(dv.striding_rq_caps.supported_qpts & 1u << IBV_QPT_RAW_PACKET))
		return lend_fail(
		    ENODEV, "raw:%s: has no multi-packet receive queue: use dpdk: or udp: there",
		    d->name);
	facts->stride_log[0] = (uint8_t)dv.striding_rq_caps.min_single_stride_log_num_of_bytes;
	facts->stride_log[1] = (uint8_t)dv.striding_rq_caps.max_single_stride_log_num_of_bytes;
	facts->strides_log[0] = (uint8_t)dv.striding_rq_caps.min_single_wqe_log_num_of_strides;
	facts->strides_log[1] = (uint8_t)dv.striding_rq_caps.max_single_wqe_log_num_of_strides;
	facts->checksums = attr.raw_packet_caps & IBV_RAW_PACKET_CAP_IP_CSUM;
	return raw_netdev_find(d->name, facts);
}

static void mlx5_close(struct raw_device *device)
{
	struct mlx5 *d = self(device);

	while (d->flows > 0)
		(void)ibv_destroy_flow(d->flow[--d->flows]);
	if (d->tx_qp)
		(void)ibv_destroy_qp(d->tx_qp);
	if (d->rx_qp)
		(void)ibv_destroy_qp(d->rx_qp);
	if (d->table)
		(void)ibv_destroy_rwq_ind_table(d->table);
	if (d->wq)
		(void)ibv_destroy_wq(d->wq);
	if (d->tx_cq)
		(void)ibv_destroy_cq(d->tx_cq);
	if (d->rx_cq)
		(void)ibv_destroy_cq(d->rx_cq);
	if (d->channel)
		(void)ibv_destroy_comp_channel(d->channel);
	if (d->mr)
		(void)ibv_dereg_mr(d->mr);
	if (d->pd)
		(void)ibv_dealloc_pd(d->pd);
	if (d->context)
		(void)ibv_close_device(d->context);
	free(d);
}

static int mlx5_open(const char *name, struct raw_device **out)
{
	struct mlx5 *d = calloc(1, sizeof(*d));
	int rc;

	if (d == NULL)
		return lend_fail(ENOMEM, "no memory for a device");
	strncpy(d->name, name, sizeof(d->name) - 1);
	d->device.ops = &raw_device_ops;
	d->device.fd = -1;
	d->context = open_by_name(name);
	rc = d->context ? learn_facts(d) : -ENODEV;
	if (rc == 0)
		(void)fcntl(d->context->async_fd, F_SETFL, O_NONBLOCK);
	if (rc < 0)
		mlx5_close(&d->device);
	else
		*out = &d->device;
	return rc;
}

static bool make_queues(struct mlx5 *d, const struct raw_memory *m)
{
	uint32_t strides = m->buffers << m->strides_log;

	d->pd = ibv_alloc_pd(d->context);
	d->mr = d->pd ? ibv_reg_mr(d->pd, m->memory, m->len, IBV_ACCESS_LOCAL_WRITE) : NULL;
	d->channel = d->mr ? ibv_create_comp_channel(d->context) : NULL;
	/* The ring of a queue for n - 1 completions has n slots, rounded up to a power of two. */
	d->rx_cq =
	    d->channel ? ibv_create_cq(d->context, (int)strides - 1, NULL, d->channel, 0) : NULL;
	d->tx_cq = d->rx_cq
		       ? ibv_create_cq(d->context, (int)(m->sends / RAW_SIGNAL) + 1, NULL, NULL, 0)
		       : NULL;
	return d->tx_cq && fcntl(d->channel->fd, F_SETFL, O_NONBLOCK) == 0;
}

static bool make_receiver(struct mlx5 *d, const struct raw_memory *m)
{
	static uint8_t key[40];
	struct ibv_wq_init_attr wq = {
	    .wq_type = IBV_WQT_RQ, .max_wr = m->buffers, .max_sge = 1, .pd = d->pd, .cq = d->rx_cq};
	struct mlx5dv_wq_init_attr striding = {
	    .comp_mask = MLX5DV_WQ_INIT_ATTR_MASK_STRIDING_RQ,
	    .striding_rq_attrs = {.single_stride_log_num_of_bytes = m->stride_log,
				  .single_wqe_log_num_of_strides = m->strides_log}};
	struct ibv_rwq_ind_table_init_attr table = {.ind_tbl = &d->wq};
	struct ibv_qp_init_attr_ex qp = {
	    .qp_type = IBV_QPT_RAW_PACKET,
	    .comp_mask =
		IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE | IBV_QP_INIT_ATTR_RX_HASH,
	    .pd = d->pd,
	    .rx_hash_conf = {.rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
			     .rx_hash_key_len = sizeof(key),
			     .rx_hash_key = key}};
	struct ibv_wq_attr ready = {.attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY};

	d->wq = mlx5dv_create_wq(d->context, &wq, &striding);
	if (d->wq == NULL || (errno = ibv_modify_wq(d->wq, &ready)) != 0)
		return false;
	d->table = ibv_create_rwq_ind_table(d->context, &table);
	qp.rwq_ind_tbl = d->table;
	d->rx_qp = d->table ? ibv_create_qp_ex(d->context, &qp) : NULL;
	return d->rx_qp != NULL;
}

static bool make_sender(struct mlx5 *d, const struct raw_memory *m)
{
	struct ibv_qp_init_attr attr = {
	    .qp_type = IBV_QPT_RAW_PACKET,
	    .send_cq = d->tx_cq,
	    .recv_cq = d->tx_cq,
	    .cap = {.max_send_wr = m->sends, .max_send_sge = 1, .max_inline_data = INLINE_MAX}};

	d->tx_qp = ibv_create_qp(d->pd, &attr);
	if (d->tx_qp == NULL || mlx5_raise_sender(d, false) != 0)
		return false;
	d->device.facts.inline_max = attr.cap.max_inline_data;
	return true;
}

static int mlx5_start(struct raw_device *device, const struct raw_memory *memory)
{
	struct mlx5 *d = self(device);
	struct raw_queue *q = &device->queue;
	struct mlx5dv_rwq rwq = {0};
	struct mlx5dv_obj obj = {0};

	if (!make_queues(d, memory))
		return fail_refused(d, "make its queues");
	if (!make_receiver(d, memory))
		return fail_refused(d, "make a multi-packet receive queue");
	if (!make_sender(d, memory))
		return fail_refused(d, "make a raw packet queue pair");
	obj.cq.in = d->rx_cq;
	obj.cq.out = &d->cq;
	obj.rwq.in = d->wq;
	obj.rwq.out = &rwq;
	errno = mlx5dv_init_obj(&obj, MLX5DV_OBJ_CQ | MLX5DV_OBJ_RWQ);
	if (errno != 0)
		return fail_refused(d, "show its rings");
	*q = (struct raw_queue){.cq = d->cq.buf,
				.cq_at = (volatile uint32_t *)d->cq.dbrec,
				.cqe_n = d->cq.cqe_cnt,
				.cqe_len = d->cq.cqe_size,
				.wq = rwq.buf,
				.wq_at = (volatile uint32_t *)rwq.dbrec,
				.wqe_n = rwq.wqe_cnt,
				.wqe_len = rwq.stride,
				.key = d->mr->lkey};
	device->fd = d->channel->fd;
	return 0;
}

static int mlx5_steer(struct raw_device *device, const struct raw_flow *flow)
{
	struct mlx5 *d = self(device);
	struct raw_rule rule;

	raw_rule_write(&rule, flow);
	d->flow[d->flows] = ibv_create_flow(d->rx_qp, &rule.attr);
	if (d->flow[d->flows] == NULL)
		return fail_refused(d, "steer frames to this endpoint");
	d->flows++;
	return 0;
}

const struct raw_device_ops raw_device_ops = {
    .open = mlx5_open,
    .start = mlx5_start,
    .steer = mlx5_steer,
    .send = mlx5_send,
    .sent = mlx5_sent,
    .revive = mlx5_revive,
    .arm = mlx5_arm,
    .calm = mlx5_calm,
    .look = mlx5_query_health,
    .close = mlx5_close,
};
