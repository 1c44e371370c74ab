/* fair_queue - which process's operation runs next: deficit round robin over the processes that
 * send operations.
 *
 * An operation runs at once while its process has credit, or while no other process sends any; else
 * it waits in its process's queue. Each round gives every waiting process the same credit. So a
 * process with a thousand operations in flight gets no more of the node than one that always has
 * one, and a process with a single operation waits for one round at most. The cost of an operation
 * is known after it has run: credit may become negative, and later rounds pay for it.
 * Layer: mn. Threads: the endpoint's. Lives by value in serve; flows live in their processes. */
#ifndef MN_FAIR_QUEUE_H
#define MN_FAIR_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

enum {
	MN_FAIR_QUANTUM = 64 << 10
}; /* quantum of deficit round robin, in cost: the bytes moved, plus for each operation: */
enum { MN_FAIR_OPERATION = 4096 };
/* A flow counts as competing for this many busy rounds after its last operation. A round receives
 * about 64 datagrams, so the only session of one process does not appear in each round when another
 * process has hundreds. */
enum { MN_FAIR_MEMORY = 64 };

struct mn_wait {
	STAILQ_ENTRY(mn_wait) link;
};
struct mn_flow {
	int64_t credit;
	uint64_t round; /* round of its last operation, or when it last waited */
	bool queued;
	bool alone; /* no other flow competed when its operation was admitted: no charge */
	STAILQ_HEAD(, mn_wait) waits; /* operations that wait, in order of arrival */
	TAILQ_ENTRY(mn_flow) link;
};
struct mn_fair {
	uint64_t round;
	uint64_t busy;               /* rounds in which operations arrived */
	uint64_t mixed;              /* busy at the last change from one flow to another */
	struct mn_flow *last;        /* flow of the last operation; NULL: none, or closed */
	TAILQ_HEAD(, mn_flow) flows; /* flows that wait, in round-robin order */
};

void mn_fair_open(struct mn_fair *fair);
void mn_flow_open(struct mn_flow *flow);
/* Removes a flow; its waiting operations go to drop(). */
void mn_flow_close(struct mn_fair *fair, struct mn_flow *flow,
		   void (*drop)(struct mn_wait *wait, void *arg), void *arg);
/* Admits an operation that has arrived. True: run it and charge it. False: queue it with
 * mn_fair_wait(). */
bool mn_fair_may(struct mn_fair *fair, struct mn_flow *flow);
void mn_fair_charge(struct mn_flow *flow, uint64_t cost);
void mn_fair_wait(struct mn_fair *fair, struct mn_flow *flow, struct mn_wait *wait);
/* Runs the next round: gives each waiting flow its credit and runs what that pays for. run()
 * returns the cost of an operation; flows may only be closed after the round. */
void mn_fair_round(struct mn_fair *fair, uint64_t (*run)(struct mn_wait *wait, void *arg),
		   void *arg);
/* Returns whether operations wait: the next round should come soon. */
static inline bool mn_fair_waits(const struct mn_fair *fair)
{
	return !TAILQ_EMPTY(&fair->flows);
}

#endif
