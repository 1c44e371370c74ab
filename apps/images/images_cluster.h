/* images_cluster - the tiers of a run and its memory node: started, linked, counted and ended.
 * Layer: apps. Threads: the main one, and one per tier where tiers are threads. */
#ifndef LEND_APPS_IMAGES_IMAGES_CLUSTER_H
#define LEND_APPS_IMAGES_IMAGES_CLUSTER_H

#include "apps/common/spawn.h"
#include "apps/images/images.h"

enum { IMAGES_TIERS = 6 };

struct images_thread;
struct images_cluster {
	struct app_net net;
	struct app_child node;
	struct app_child child[IMAGES_TIERS];       /* of tiers that are processes */
	struct images_thread *thread[IMAGES_TIERS]; /* of those that are threads; owned */
};

/* Starts lend-mn with node_bytes, then the tiers, servers before their clients. app_die() when one
 * does not come up. Lives at one address. */
void images_cluster_open(struct images_cluster *cluster, enum app_carrier carrier, bool threads,
			 uint64_t node_bytes);
void images_cluster_close(struct images_cluster *cluster);
/* For the client: how to open its endpoint, and whom to reach. */
void images_cluster_config(const struct images_cluster *cluster, struct lend_config *config);
const char *images_cluster_service(const struct images_cluster *cluster);
const char *images_cluster_node(const struct images_cluster *cluster);
/* What all tiers handed to their carriers so far. */
uint64_t images_cluster_tx_bytes(struct images_cluster *cluster);
/* Processes of the run, the caller's own included. */
unsigned images_cluster_processes(const struct images_cluster *cluster);

/* A tier in a thread of this process. */
struct images_thread *images_thread_start(enum images_role role, struct app_net *net, unsigned proc,
					  const char *const next[], unsigned n, const char *node);
uint64_t images_thread_tx_bytes(struct images_thread *thread);
void images_thread_stop(struct images_thread *thread);

#endif
