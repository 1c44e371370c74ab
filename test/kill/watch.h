/* watch - what a memory node holds, counted by the node itself and queried by a method of its own.
 * Layer: test. In the node's process; separate from node_process.h, because the store and
 * lend/mem.h use one name for two things. */
#ifndef TEST_KILL_WATCH_H
#define TEST_KILL_WATCH_H

#include <stdint.h>

enum { NODE_METHOD = 0x6b696c6c }; /* a request of one byte: with the store's own audit */

/* Each worker reports for itself; the first one also for the process. */
struct node_counts {
	uint64_t pages, pinned, refs, spaces, holds, grants, clients, processes, placements,
	    pinned_maps;
	uint64_t sessions, fds, rings, leases_expired; /* rings: mappings */
	char bad[96];                                  /* the audit's finding; "" none */
};

/* In the node's process, before its main: its own descriptors are counted from here. early: counts
 * reads that wait for bytes on their way. */
void watch_begin(_Atomic uint64_t *early);

/* Of this process. */
unsigned kill_open_fds(void);
unsigned kill_ring_maps(void); /* lines of its map that name a ring's memory */

#endif
