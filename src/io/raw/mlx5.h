/* mlx5 - the state that an mlx5 device's files share. Layer: io. */
#ifndef LEND_IO_RAW_MLX5_H
#define LEND_IO_RAW_MLX5_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "io/raw/raw.h"

enum { MLX5_PORT = 1 };

struct mlx5 {
	struct raw_device device; /* first */
	char name[64];
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_comp_channel *channel;
	struct ibv_cq *rx_cq, *tx_cq;
	struct ibv_wq *wq;
	struct ibv_rwq_ind_table *table;
	struct ibv_qp *rx_qp, *tx_qp;
	struct ibv_flow *flow[3];
	uint32_t flows;
	struct mlx5dv_cq cq; /* device's view of rx_cq */
	uint32_t signals;    /* events taken: a sequence number in each request for an event */
	bool removed;
};

/* mlx5_datapath.c: a running device. */
/* RESET -> INIT -> RTR -> RTS; the step to RESET only if it was in use. Returns 0 or an errno. */
int mlx5_raise_sender(struct mlx5 *d, bool used);
uint32_t mlx5_send(struct raw_device *device, const struct raw_send *send, uint32_t n);
int mlx5_sent(struct raw_device *device);
int mlx5_revive(struct raw_device *device, enum raw_side side);
void mlx5_arm(struct raw_device *device, uint32_t next);
void mlx5_calm(struct raw_device *device);
void mlx5_query_health(struct raw_device *device, struct raw_health *health);

/* mlx5_port.c */
/* A steering rule in the kernel's form: specs follow the header. */
struct raw_rule {
	struct ibv_flow_attr attr;
	uint8_t spec[192];
};

void raw_rule_write(struct raw_rule *rule, const struct raw_flow *flow);

/* Fills in the name, MAC and MTU of the device's Ethernet interface: 0, or -ENODEV with lend_why().
 */
int raw_netdev_find(const char *device, struct raw_facts *facts);
/* Returns the number of frames that the device dropped because a queue had no buffer. The count is
 * for all queues of the device. */
uint64_t raw_netdev_overruns(const char *device);

#endif
