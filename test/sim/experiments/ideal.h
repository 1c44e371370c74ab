/* ideal - what nobody can beat by much: one who knows all, shortest remaining first, at line rate.
 * Layer: test/sim. */
#ifndef SIM_EXPERIMENTS_IDEAL_H
#define SIM_EXPERIMENTS_IDEAL_H

#include <stdint.h>

struct ideal_message {
	double at, need; /* when it is asked for; how long it takes on a line of its own */
	uint32_t from, to;
	double done; /* out: its last byte has left */
};

/* Messages in order of time. Each of the hosts sends to one and receives from one at any moment,
 * all of its line, and may change at any; between them there is room for all. Of those that wait
 * the one with the least left takes both its lines, then the next whose two are free, and so on,
 * which is what pFabric's authors take as ideal; it may be beaten by a little, since it is greedy.
 */
void ideal_run(struct ideal_message *message, uint32_t n, uint32_t hosts);

#endif
