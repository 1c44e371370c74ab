/* verbs/open - opens a carrier: its address, device, port, queues, memory.
 * Layer: io. Threads: any; the carrier then belongs to the thread that opened it.
 */
#include "io/verbs/verbs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "io/module/module.h"
#include "sys/last_error.h"
#include "util/bits.h"

LEND_IO_EXPORT lend_io_open_fn lend_io_verbs_open;

uint32_t verbs_mtu(const struct ibv_port_attr *port)
{
	return 128u << port->active_mtu; /* IBV_MTU_256 is 1 */
}

int verbs_gid_find(struct verbs *v)
{
	struct ibv_gid_entry gid[128];
	ssize_t n = ibv_query_gid_table(v->watch, gid, 128, 0);

	for (ssize_t i = 0; i < n; i++) {
		if (gid[i].port_num != v->port_num)
			continue;
		if (v->address.gid >= 0 ? gid[i].gid_index == (uint32_t)v->address.gid
		    : v->ethernet       ? gid[i].gid_type == IBV_GID_TYPE_ROCE_V2 &&
					memcmp(gid[i].gid.raw, v->ip, 16) == 0
				  : gid[i].gid_index == 0) {
			memcpy(v->gid, gid[i].gid.raw, 16);
			v->gid_index = gid[i].gid_index;
			return 0;
		}
	}
	return -ENOENT;
}

static int find_gid(struct verbs *v)
{
	char ip[64];

	verbs_ip_print(v->ip, ip, sizeof(ip));
	if (verbs_gid_find(v) < 0 && v->address.gid >= 0)
		return lend_fail(EADDRNOTAVAIL,
				 "verbs:%s has no GID index %d: leave out gid=, or use one that "
				 "ibv_devinfo -v shows",
				 v->device, v->address.gid);
	if (v->gid_index == UINT32_MAX)
		return lend_fail(EADDRNOTAVAIL,
				 "verbs:%s has no RoCE v2 GID of %s: ibv_devinfo -v shows them",
				 v->device, ip);
	if (v->ethernet && memcmp(v->gid, v->ip, 16) != 0)
		return lend_fail(EADDRNOTAVAIL,
				 "verbs:%s: GID index %d is not that of %s: leave out gid=",
				 v->device, v->address.gid, ip);
	return 0;
}

static int find_pkey(struct verbs *v, const struct ibv_port_attr *port)
{
	for (int i = 0; i < port->pkey_tbl_len; i++) {
		uint16_t have = 0;

		if (ibv_query_pkey(v->watch, v->port_num, i, &have) != 0)
			continue;
		/* The top bit distinguishes full members from limited ones. */
		if (v->address.pkey == 0 || (ntohs(have) & 0x7fff) == (v->address.pkey & 0x7fff)) {
			v->pkey_index = (uint16_t)i;
			return 0;
		}
	}
	return lend_fail(EINVAL,
			 "verbs:%s: P_Key 0x%04x is not in the port's table: leave out pkey=, or "
			 "let the subnet manager add it",
			 v->device, v->address.pkey);
}

static int open_port(struct verbs *v, uint32_t mtu)
{
	struct ibv_port_attr port;
	int rc;

	v->watch = verbs_device(v->device);
	if (v->watch == NULL || ibv_query_port(v->watch, v->port_num, &port) != 0)
		return lend_fail(ENODEV, "%s does not open: check the rights of /dev/infiniband",
				 v->device);
	if (port.state != IBV_PORT_ACTIVE)
		return lend_fail(ENETDOWN,
				 "verbs: port %u of %s is down: ip link set its interface up, or "
				 "check cable and subnet manager",
				 v->port_num, v->device);
	v->ethernet = port.link_layer == IBV_LINK_LAYER_ETHERNET;
	v->mtu = verbs_mtu(&port);
	mtu = v->address.mtu ? v->address.mtu : mtu;
	if (v->address.mtu > v->mtu)
		return lend_fail(EINVAL,
				 "verbs:%s: its port's MTU is %u: ask for no more, or raise the "
				 "interface's",
				 v->device, v->mtu);
	rc = find_gid(v);
	if (rc == 0)
		rc = find_pkey(v, &port);
	if (rc < 0)
		return rc;
	rc = verbs_ring_open(v, v->mtu);
	v->mtu = mtu > 0 && mtu < v->mtu ? mtu : v->mtu;
	v->io.path.mtu = v->mtu;
	v->io.path.writable = true;
	return rc;
}

int verbs_qp_start(struct verbs *v)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .pkey_index = v->pkey_index,
				   .port_num = v->port_num,
				   .qkey = RDMA_UDP_QKEY};
	int rc = ibv_modify_qp(v->qp, &attr,
			       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);

	attr.qp_state = IBV_QPS_RTR;
	if (rc == 0)
		rc = ibv_modify_qp(v->qp, &attr, IBV_QP_STATE);
	attr.qp_state = IBV_QPS_RTS;
	if (rc == 0)
		rc = ibv_modify_qp(v->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
	return -rc;
}

/* Makes the queue pair, with as much inline data as the device has, up to VERBS_INLINE. */
static void make_qp(struct verbs *v)
{
	struct ibv_qp_init_attr init = {.qp_context = v,
					.send_cq = v->tx_cq,
					.recv_cq = v->rx_cq,
					.srq = v->ring->srq,
					.qp_type = IBV_QPT_UD};

	for (uint32_t most = VERBS_INLINE; v->qp == NULL; most /= 2) {
		init.cap = (struct ibv_qp_cap){.max_send_wr = VERBS_SENDS,
					       .max_recv_wr = v->ring->srq ? 0 : v->ring->n,
					       .max_send_sge = VERBS_PIECES,
					       .max_recv_sge = v->ring->srq ? 0 : 1,
					       .max_inline_data = most};
		v->qp = ibv_create_qp(v->ring->pd, &init);
		v->inline_max = most;
		if (most == 0)
			break;
	}
}

static int open_queues(struct verbs *v)
{
	struct ibv_context *ctx = v->ring->ctx;

	v->signal = ibv_create_comp_channel(ctx);
	if (v->signal)
		v->rx_cq = ibv_create_cq(ctx, (int)v->ring->n, v, v->signal, 0);
	if (v->rx_cq)
		v->tx_cq = ibv_create_cq(ctx, VERBS_SENDS, v, NULL, 0);
	if (v->tx_cq)
		make_qp(v);
	if (v->qp == NULL || verbs_qp_start(v) < 0)
		return lend_fail(
		    errno ? errno : EIO,
		    "verbs: %s cannot create a UD queue pair: raise ulimit -l, close other "
		    "endpoints, or lower ?ring=",
		    v->device);
	verbs_ring_fill(v);
	return 0;
}

static int open_memory(struct verbs *v)
{
	v->bounce_slot = (uint32_t)lend_align_up(v->mtu, 64) + 64;
	v->bounce = aligned_alloc(4096, lend_align_up((size_t)VERBS_SENDS * v->bounce_slot, 4096));
	if (v->bounce == NULL || lend_udp_peers_init(&v->peers) < 0 ||
	    lend_udp_peers_init(&v->hosts) < 0)
		return lend_fail(ENOMEM, "no memory for a verbs carrier");
	v->bounce_mr = ibv_reg_mr(v->ring->pd, v->bounce, (size_t)VERBS_SENDS * v->bounce_slot, 0);
	if (v->bounce_mr == NULL)
		return lend_fail(errno,
				 "%s: %zu KiB for sending cannot be registered: raise ulimit -l",
				 v->device, (size_t)VERBS_SENDS * v->bounce_slot >> 10);
	return 0;
}

static int watch_fd(struct verbs *v, int fd, void *what)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = what};

	if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0 ||
	    epoll_ctl(v->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
		return lend_fail(errno, "verbs: cannot watch a file descriptor: raise ulimit -n");
	return 0;
}

static int open_fds(struct verbs *v)
{
	int rc;

	v->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (v->epoll < 0)
		return lend_fail(errno, "verbs: no file descriptor left: raise ulimit -n");
	rc = watch_fd(v, v->cm->fd, v->cm);
	if (rc == 0)
		rc = watch_fd(v, v->signal->fd, v->signal);
	if (rc == 0)
		rc = watch_fd(v, v->watch->async_fd, v->watch);
	if (rc == 0 && v->ring->ctx != v->watch)
		rc = watch_fd(v, v->ring->ctx->async_fd, v->ring->ctx);
	return rc;
}

static int need_device(void)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	if (list)
		ibv_free_device_list(list);
	return n > 0 ? 0
		     : lend_fail(ENODEV,
				 "verbs: no RDMA device here: load its driver, or make one by "
				 "rdma link add rxe0 type rxe netdev INTERFACE");
}

static int make_carrier(struct verbs *v, const struct lend_io_config *config)
{
	int rc = need_device();

	if (rc == 0)
		rc = verbs_cm_open(v);
	if (rc == 0)
		rc = open_port(v, config->mtu);
	if (rc == 0)
		rc = open_memory(v);
	if (rc == 0)
		rc = open_queues(v);
	if (rc == 0)
		rc = open_fds(v);
	if (rc == 0)
		verbs_rc_open(v);
	/* Last step: requests are answered from now on. */
	if (rc == 0 && v->listening)
		rc = verbs_cm_listen(v);
	return rc;
}

int lend_io_verbs_open(const struct lend_io_config *config, struct lend_io **io)
{
	const char *text = config->listen ? config->listen : config->peer;
	struct verbs_address address;
	struct verbs *v;
	int rc;

	if (text == NULL)
		return lend_fail(EINVAL, "a verbs carrier needs an address to listen at or to "
					 "connect to: give one");
	rc = verbs_address_parse(text, &address);
	if (rc < 0)
		return rc;
	v = calloc(1, sizeof(*v));
	if (v == NULL)
		return lend_fail(ENOMEM, "no memory for a verbs carrier");
	v->io.ops = &verbs_ops;
	v->io.path.checked = true; /* the ICRC covers a datagram from end to end */
	v->address = address;
	v->listening = config->listen != NULL;
	v->epoll = -1;
	v->last_peer = LEND_UDP_PEER_NONE;
	v->gid_index = UINT32_MAX;
	rc = make_carrier(v, config);
	if (rc < 0) {
		verbs_close(&v->io);
		return rc;
	}
	*io = &v->io;
	return 0;
}
