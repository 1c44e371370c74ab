/* torn_sum - what a store holds, as one number, whatever the places in its tables.
 * Layer: test. One thread's. */
#ifndef TEST_KILL_TORN_SUM_H
#define TEST_KILL_TORN_SUM_H

#include "mn/store/store.h"
#include "unit/storekit.h"

enum { TORN_LEN_MAX = 6 * LEND_MEM_PAGE }; /* of an object */

/* What need not be as it was. */
struct torn_known {
	const struct who *who; /* the clients: records of operations below low may go */
	uint32_t n;
	uint64_t serial, from, to; /* these bytes of that space: a torn write left them; 0: none */
};

uint64_t torn_sum(const struct lend_store *s, const struct torn_known *known);

#endif
