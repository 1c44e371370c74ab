/* memlimit - how much memory this process can use before the kernel kills it or another one.
 * Layer: sys. Any thread. */
#ifndef LEND_SYS_MEMLIMIT_H
#define LEND_SYS_MEMLIMIT_H

#include <stdbool.h>
#include <stdint.h>

struct lend_memlimit {
	uint64_t bytes;
	bool cgroup;      /* bytes is a limit of this process's cgroup, or of one above it */
	const char *name; /* the source: "memory.max", "memory.limit_in_bytes", "MemAvailable" */
};

/* Returns the smallest limit that applies: cgroup v1 and v2, MemAvailable with free swap. root is
 * prepended to each path; "" except in tests. bytes is UINT64_MAX if nothing can be read. */
struct lend_memlimit lend_memlimit(const char *root);

#endif
