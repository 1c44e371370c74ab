/* job_queue - requests that wait for a worker: strict across classes, within one as they came or by
 * deadline.
 *
 * So that nothing starves, a class that waits gets one of LEND_JOBS_FLOOR of what goes to it and
 * those above it.
 * Records link themselves, so that none is refused for want of memory. Layer: rpc. Threads: whoever
 * holds the workers' lock.
 */
#ifndef LEND_RPC_JOB_QUEUE_H
#define LEND_RPC_JOB_QUEUE_H

#include "rpc/endpoint.h"

enum { LEND_JOBS_CLASSES = 8, LEND_JOBS_FLOOR = 32 };

struct lend_jobs {
	bool by_deadline;
	uint32_t passed[LEND_JOBS_CLASSES]; /* jobs taken from above it while it waited */
	uint64_t pushed;
	struct lend_req *root[LEND_JOBS_CLASSES]; /* heaps: see job_queue.c */
};

/* Its class and deadline are set; it is the queue's until it is popped. */
void lend_jobs_push(struct lend_jobs *jobs, struct lend_req *req);
/* NULL: none waits. */
struct lend_req *lend_jobs_pop(struct lend_jobs *jobs);

#endif
