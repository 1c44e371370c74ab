/* peer_args - the command line of all programs of the comparison.
 * Layer: apps/peers. Threads: the main one. Texts live as long as argv. */
#ifndef APPS_PEERS_PEER_ARGS_H
#define APPS_PEERS_PEER_ARGS_H

#include "apps/peers/peer.h"
#include "lend/rpc.h"

struct peer_args {
	struct peer_job job;
	const struct peer_lane *lane; /* lane of the job, one of peer_this */
	lend_ns time;                 /* duration of the measurement */
	uint64_t count;               /* requests to measure instead; 0: until time */
	bool free;                    /* no CPU is chosen for the processes */
	bool serve;                   /* only the server, until SIGTERM */
	bool json;
};

/* Parses the command line and fills in defaults. Ends the program for --help and --lanes; app_bad()
 * for options that no lane of peer_this supports. */
void peer_args_read(struct peer_args *args, int argc, char **argv);

#endif
