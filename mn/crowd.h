/* crowd - processes on shm, as all workers of this node see them together.
 *
 * A process hangs up when its last session on shm ends, at whichever worker that was. Then every
 * worker has to hear of it, for each may keep something of that process. Sessions come and go
 * seldom: all is under one lock.
 * Layer: mn. Threads: any. Owner: mnd; outlives the workers. */
#ifndef MN_CROWD_H
#define MN_CROWD_H

#include <stdbool.h>
#include <stdint.h>

#include "lend/rpc.h"

struct mn_crowd;

/* For 1 .. 64 workers. NULL: no memory. */
struct mn_crowd *mn_crowd_open(uint32_t workers);
void mn_crowd_close(struct mn_crowd *crowd);
/* Whom to wake when there is news for a worker; NULL: nobody, before its endpoint closes. */
void mn_crowd_wake(struct mn_crowd *crowd, uint32_t worker, struct lend_ep *ep);

/* A session on shm began, or ended. False: no memory for it, and leave() is not to be called. */
bool mn_crowd_join(struct mn_crowd *crowd, const uint8_t incarnation[16]);
void mn_crowd_leave(struct mn_crowd *crowd, const uint8_t incarnation[16]);
/* The next process that hung up, which this worker has not yet heard of. Cheap when there is none.
 * To be asked before a session of the same process is taken in: it may have come back. */
bool mn_crowd_next(struct mn_crowd *crowd, uint32_t worker, uint8_t incarnation[16]);

#endif
