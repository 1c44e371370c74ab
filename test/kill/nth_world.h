/* nth_world - a history of everything in one process: a server with a memory node in it, in a
 * thread of its own, and a client. Every failure on the way is looked at; whatever was opened is
 * closed. Layer: test. */
#ifndef TEST_KILL_NTH_WORLD_H
#define TEST_KILL_NTH_WORLD_H

#include <stdbool.h>

#include "kill/nth.h"

struct nth_world {
	const char *scheme;
	bool strict;       /* nothing may fail */
	bool lstat_failed; /* then a name may stay: whose it is cannot be told */
	char why[256];     /* the first violation; "" none */
};

void nth_world_run(struct nth_world *world);
/* What blocks, mappings and descriptors there are now is what there may be. */
void nth_world_base(void);
void nth_world_leaks(struct nth_world *world);
/* Keeps the first of them in why. */
void nth_wrong(struct nth_world *world, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* lend-mn's start, likewise: each in a process of its own. */
void nth_start_all(uint32_t *runs, uint32_t *bad);

#endif
