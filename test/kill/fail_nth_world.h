/* fail_nth_world - a history of everything in one process: a server with a memory node in a thread
 * of its own, and a client. Every failure on the way is checked; whatever was opened is closed.
 * Layer: test. */
#ifndef TEST_KILL_FAIL_NTH_WORLD_H
#define TEST_KILL_FAIL_NTH_WORLD_H

#include <stdbool.h>

#include "kill/fail_nth.h"

struct nth_world {
	const char *scheme;
	bool strict;       /* nothing may fail */
	bool lstat_failed; /* lstat() failed: a name may stay, because its owner is unknown */
	char why[256];     /* the first violation; "" none */
};

void nth_world_run(struct nth_world *world);
/* Records the current blocks, mappings and descriptors as the allowed ones. */
void nth_world_base(void);
void nth_world_leaks(struct nth_world *world);
/* Keeps the first violation in why. */
void nth_wrong(struct nth_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The same for lend-mn's start, each in a process of its own. */
void nth_start_all(uint32_t *runs, uint32_t *bad);

#endif
