/* sight - what a memory node holds, counted by itself when it is asked over a method of its own.
 * Layer: test. In the node's process; apart from node_process.h, because the store and lend/mem.h
 * have one name for two things. */
#ifndef TEST_KILL_SIGHT_H
#define TEST_KILL_SIGHT_H

#include <stdint.h>

enum { NODE_METHOD = 0x6b696c6c }; /* a request of one byte: with the store's own audit */

/* Each worker answers for itself; the first one also for the process. */
struct node_sight {
	uint64_t pages, pinned, refs, spaces, holds, grants, clients, processes, placements, liens;
	uint64_t sessions, fds, rings, leases_expired; /* rings: mappings */
	char bad[96];                                  /* what the audit found; "" nothing */
};

/* In the node's process, before its main: what it has from now on is its own. */
void sight_begin(void);

/* Of this process. */
unsigned kill_open_fds(void);
unsigned kill_ring_maps(void); /* lines of its map that name a ring's memory */

#endif
