/* images_cluster - starts, links, measures and ends the tiers of a run and its memory node.
 * Layer: apps. Threads: the main one, and one per tier where tiers are threads. */
#ifndef LEND_APPS_IMAGES_IMAGES_CLUSTER_H
#define LEND_APPS_IMAGES_IMAGES_CLUSTER_H

#include "apps/common/hosts.h"
#include "apps/common/spawn.h"
#include "apps/images/images.h"

enum { IMAGES_TIERS = 6 };

struct images_thread;
struct images_cluster {
	struct app_net net;
	bool with_node;
	bool far; /* at least one process is not a child of this one */
	struct app_child node;
	struct app_child child[IMAGES_TIERS]; /* processes of the tiers that are processes */
	struct images_thread
	    *thread[IMAGES_TIERS]; /* threads of the tiers that are threads; owned */
};

struct images_plan {
	enum app_carrier carrier;
	bool threads, pool;
	bool reads_client;       /* workers read pixels in the client's memory */
	uint64_t node_bytes;     /* 0: no memory node */
	unsigned workers;        /* of the node; 0: one */
	struct app_hosts *hosts; /* path NULL: all processes are on this machine */
	const char *connect;     /* address of a service that runs already; NULL: none */
};
/* Starts lend-mn if it has bytes, then the tiers, servers before their clients. app_die() when one
 * does not start. The cluster must not move in memory. With hosts, those of this machine. Returns
 * false: the client is on another machine. */
bool images_cluster_open(struct images_cluster *cluster, const struct images_plan *plan);
void images_cluster_close(struct images_cluster *cluster);
/* Fill in the configuration of the client's endpoint, and return the addresses of the service and
 * of the node. */
void images_cluster_config(const struct images_cluster *cluster, struct lend_config *config);
const char *images_cluster_service(const struct images_cluster *cluster);
const char *images_cluster_node(const struct images_cluster *cluster);
/* Returns the bytes that all tiers have sent through their carriers so far; 0: not known, since one
 * is not a child of this process. */
uint64_t images_cluster_tx_bytes(struct images_cluster *cluster);
/* Returns the number of processes of the run, including the caller's own. */
unsigned images_cluster_processes(const struct images_cluster *cluster);

/* Starts a tier in a thread of this process; app_die() when that fails. images_thread_stop() frees
 * it. */
struct images_thread *images_thread_start(enum images_role role, struct app_net *net, unsigned proc,
					  const char *const next[], unsigned n, const char *node);
uint64_t images_thread_tx_bytes(struct images_thread *thread);
void images_thread_stop(struct images_thread *thread);

#endif
