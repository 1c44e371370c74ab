/* elastic - what lend elastic and the processes that it starts agree on.
 * Layer: apps. */
#ifndef APPS_ELASTIC_ELASTIC_H
#define APPS_ELASTIC_ELASTIC_H

#include <stdint.h>

#include "apps/common/bench_server.h"
#include "lend/mem.h"

/* The command line of a process that lend elastic starts. */
struct elastic_task {
	struct app_server_args server;
	const char *ref;    /* worker: the list of the values' references; function: the bytes */
	const char *caller; /* function: address that it replies to */
	uint64_t size;      /* bytes of a value; function: bytes to fetch */
	uint32_t keys;      /* number of values */
};

/* The reply of a function: times of CLOCK_MONOTONIC in ns, and the CRC32C of what it fetched. */
struct elastic_reply {
	uint64_t in_main, attached, fetched;
	uint32_t crc, zero;
};

#endif
