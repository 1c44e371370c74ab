/* ideal - a near-optimal schedule as reference: shortest remaining message first, at link rate,
 * with complete knowledge. Layer: test/sim. */
#ifndef SIM_EXPERIMENTS_IDEAL_H
#define SIM_EXPERIMENTS_IDEAL_H

#include <stdint.h>

struct ideal_message {
	double at, need; /* at: arrival; need: duration on an idle link */
	uint32_t from, to;
	double done; /* out: when its last byte has left */
};

/* Schedules messages, which are sorted by time.
 * Each host sends to one host and receives from one host at a time, at full link rate, and may
 * switch at any moment. The network between the hosts has no limit. Of the waiting messages, the
 * one with the least remaining time takes its two links, then the next one with both links free,
 * and so on. The authors of pFabric use the same ideal. It is greedy, so another schedule may be
 * slightly better. */
void ideal_run(struct ideal_message *message, uint32_t n, uint32_t hosts);

#endif
