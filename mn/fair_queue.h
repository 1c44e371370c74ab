/* fair_queue - whose operation runs next: deficit round robin over the processes that ask.
 *
 * An operation runs at once while its process has credit, or is the only one that asks; else it
 * waits in its process's queue, and each round gives every process that waits the same credit. So a
 * process with a thousand operations under way gets no more of the node than one that always has
 * one, and who has one waits for a round at most. What an operation costs is known when it has run:
 * credit may become debt, which later rounds pay.
 * Layer: mn. Threads: the endpoint's. Lives by value in serve; flows live in their processes. */
#ifndef MN_FAIR_QUEUE_H
#define MN_FAIR_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

enum { MN_FAIR_QUANTUM = 64 << 10 }; /* of cost: bytes moved, and so many for each operation: */
enum { MN_FAIR_OPERATION = 4096 };
/* Who asked so many rounds ago counts as there still: a round hears some 64 datagrams, so one
 * session of one process among hundreds of another's is not in each. */
enum { MN_FAIR_MEMORY = 64 };

struct mn_wait {
	STAILQ_ENTRY(mn_wait) link;
};
struct mn_flow {
	int64_t credit;
	uint64_t round; /* in which it asked or waited last */
	bool queued;
	bool alone; /* nobody else asked when it was let run: that costs nothing */
	STAILQ_HEAD(, mn_wait) waits; /* in order of arrival */
	TAILQ_ENTRY(mn_flow) link;
};
struct mn_fair {
	uint64_t round;
	uint64_t busy;               /* rounds in which somebody asked */
	uint64_t mixed;              /* the one of them in which somebody else did than before */
	struct mn_flow *last;        /* who asked last; NULL: nobody, or gone */
	TAILQ_HEAD(, mn_flow) flows; /* that wait, in order of their turns */
};

void mn_fair_open(struct mn_fair *fair);
void mn_flow_open(struct mn_flow *flow);
/* Takes a flow out; what it still has waiting goes to drop(). */
void mn_flow_close(struct mn_fair *fair, struct mn_flow *flow,
		   void (*drop)(struct mn_wait *wait, void *arg), void *arg);
/* An operation arrived. True: run it and charge it; false: let it wait. */
bool mn_fair_may(struct mn_fair *fair, struct mn_flow *flow);
void mn_fair_charge(struct mn_flow *flow, uint64_t cost);
void mn_fair_wait(struct mn_fair *fair, struct mn_flow *flow, struct mn_wait *wait);
/* The next round: those that wait have their turns. run() gives the cost; it may close flows only
 * after the round. */
void mn_fair_round(struct mn_fair *fair, uint64_t (*run)(struct mn_wait *wait, void *arg),
		   void *arg);
/* Something waits: the next round should come soon. */
static inline bool mn_fair_waits(const struct mn_fair *fair)
{
	return !TAILQ_EMPTY(&fair->flows);
}

#endif
