/* crash_consistency_sum - a store's content as one number, independent of positions in its tables.
 * Layer: test. Threads: one. */
#ifndef TEST_KILL_CRASH_CONSISTENCY_SUM_H
#define TEST_KILL_CRASH_CONSISTENCY_SUM_H

#include "mn/store/store.h"
#include "unit/storekit.h"

enum { TORN_LEN_MAX = 6 * LEND_MEM_PAGE }; /* longest length of an object */

/* Differences that are allowed. */
struct torn_known {
	const struct client *client; /* the clients: records of operations below low may be gone */
	uint32_t n;
	uint64_t serial, from, to; /* bytes that a torn write may have left; 0: none */
};

uint64_t torn_sum(const struct lend_store *s, const struct torn_known *known);

#endif
