/* ids - numbers that are unique among processes, without a message.
 * Layer: apps. Threads: one. */
#ifndef APPS_SOCIAL_IDS_H
#define APPS_SOCIAL_IDS_H

#include <stdint.h>

/* 2018-01-01 UTC in milliseconds since the Unix epoch. */
#define SOCIAL_IDS_EPOCH UINT64_C(1514764800000)

struct social_ids {
	uint32_t machine; /* 11 bits */
	uint32_t counter; /* 12 bits: ids of this millisecond */
	uint64_t last_ms;
};

/* Returns the next id. A clock that went back, and more than 4,096 ids in a millisecond, use the
 * milliseconds that follow the last one. */
int64_t social_ids_next(struct social_ids *ids, uint64_t now_ms);

#endif
