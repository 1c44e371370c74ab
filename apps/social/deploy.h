/* deploy - what the program does: one process of the social network, or all of it.
 * Layer: apps. Threads: one. */
#ifndef APPS_SOCIAL_DEPLOY_H
#define APPS_SOCIAL_DEPLOY_H

#include "apps/common/bench_server.h"
#include "apps/common/topology.h"
#include "apps/social/social.h"

/* Workloads of a measurement. SOCIAL_DMRPC: sizes of DmRPC's own. */
enum social_workload {
	SOCIAL_EMBEDDED,
	SOCIAL_ORIGINAL,
	SOCIAL_ARTICLES,
	SOCIAL_PHOTOS,
	SOCIAL_DMRPC
};
extern const char *const social_workload_names[];

/* The command line. */
struct social_args {
	struct app_server_args server;
	const char *roles; /* roles of this process; NULL: runs all of them */
	const char *dir, *node, *http, *metrics;
	enum social_by by;
	uint64_t body_max;
	bool embed;
	enum social_stores stores;

	/* Of the whole network. */
	enum app_carrier carrier;
	enum social_workload workload;
	const char *graph, *mix, *photo, *get_photo;
	uint32_t users, rate;
	lend_ns time;
	bool pool, apart, ramp;
};

/* Runs the program over a transport. Returns its exit code. */
int social_main(int argc, char **argv, const struct social_transport *transport);
/* Runs all of it: node, processes, load. Returns the exit code. */
int social_launch(const struct social_args *args);
/* Serves the roles of a process until a signal. */
int social_process(const struct social_args *args);

#endif
