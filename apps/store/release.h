/* release - measures what a store does when a large snapshot is released, turn by turn, in this
 * thread's CPU time.
 * Layer: apps/store, which may include the store's code. Threads: any. */
#ifndef APPS_STORE_RELEASE_H
#define APPS_STORE_RELEASE_H

#include <stdint.h>

struct app_release {
	uint64_t frames, turns;
	uint64_t
	    frames_per_turn; /* the maximum in one turn; the release itself is the first turn */
	double first_us;     /* the release */
	double ns_per_frame; /* over all turns */
	double turn_us;      /* a turn, on average */
};
/* Seals and releases a fully written space of bytes, in pages of page bytes (0: 4 KiB), in a store
 * of this process; app_die() without memory for it. */
void app_release_run(uint64_t bytes, uint32_t page, struct app_release *out);

#endif
