/* job_queue - requests that wait for a worker: strict priority between classes; within a class FIFO
 * order or earliest deadline first.
 *
 * Against starvation, a waiting class gets one of LEND_JOBS_FLOOR jobs taken from it and the
 * classes above it. The links are part of the request records, so a push cannot fail for lack of
 * memory. Layer: rpc. Threads: the one that holds the workers' lock. */
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

/* Adds a request with its class and deadline set; the queue owns it until it is popped. */
void lend_jobs_push(struct lend_jobs *jobs, struct lend_req *req);
/* Takes the next request; NULL: the queue is empty. */
struct lend_req *lend_jobs_pop(struct lend_jobs *jobs);

#endif
