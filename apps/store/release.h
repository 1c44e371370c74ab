/* release - what a store does when a large snapshot is released, step by step in this thread's CPU
 * time.
 * Layer: apps/store, which sees into the store. Threads: any. */
#ifndef APPS_STORE_RELEASE_H
#define APPS_STORE_RELEASE_H

#include <stdint.h>

struct app_release {
	uint64_t frames, turns;
	uint64_t frames_per_turn; /* the most of one turn; the release itself is the first */
	double first_us;          /* the release */
	double ns_per_frame;      /* over all turns */
	double turn_us;           /* a turn, on average */
};
/* Seals and releases a space of so many bytes, all written, in pages of page bytes (0: 4 KiB), in a
 * store of this process's own; app_die() without memory for it. */
void app_release_run(uint64_t bytes, uint32_t page, struct app_release *out);

#endif
