/* stream_run - simulated runs of two ends of a stream over calls that fail, overtake each other and
 * are made again; with half-close, end, cancel and death at any step, and readers that stop. A run
 * is a function of its seed. Layer: test/sim, over src/stream only. Threads: one. */
#ifndef TEST_SIM_STREAM_RUN_H
#define TEST_SIM_STREAM_RUN_H

#include <stdint.h>

/* Runs a seed, or ends the process with a line on stderr. */
void stream_run_seed(uint64_t seed);

#endif
