/* wheelkit - a core of sessions without peers, for tests of the timer wheels that they wait on. */
#ifndef TEST_UNIT_WHEELKIT_H
#define TEST_UNIT_WHEELKIT_H

#include <stdlib.h>
#include <string.h>

#include "core/arena.h"

enum { WHEEL_SESSIONS = 50 };

/* The caller releases it with free(). */
static inline struct lend_core *wheel_open(uint8_t congestion, lend_ns now)
{
	struct lend_core_config cfg = {.sessions = WHEEL_SESSIONS,
				       .calls = 2,
				       .inflight = 2,
				       .reassemblies = 2,
				       .message_max = 1 << 20,
				       .unscheduled = 65536,
				       .probe = 5,
				       .dead = 10,
				       .congestion = congestion};
	size_t size = lend_align_up(lend_core_size(&cfg), 64);
	void *arena = aligned_alloc(64, size);
	struct lend_core *c;

	memset(arena, 0, size); /* cleared sessions are on no list */
	c = lend_core_init(arena, &cfg, now);
	for (uint32_t i = 0; i < WHEEL_SESSIONS; i++) {
		struct lend_sess *s = lend_sess_at(c, i);

		s->id = i; /* the low bits are its index */
		s->timer = LEND_NEVER;
		lend_list_init(&s->waiting);
	}
	return c;
}

#endif
