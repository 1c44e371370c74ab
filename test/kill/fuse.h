/* fuse - a process ends itself exactly before its n-th store to memory that others may see.
 *
 * The files named in CMakeLists.txt are compiled once more with the compiler's instrumentation for
 * races, which calls a function before every store that leaves its stack frame; the functions are
 * ours. So every store to holds, grants, leases, records, frames, spaces and rings is a fault
 * point, and the product's source knows nothing of it. Layer: test. Threads: a fuse burns for the
 * threads that lit it; who armed it may be another process. Memory: the caller's, shared. */
#ifndef TEST_KILL_FUSE_H
#define TEST_KILL_FUSE_H

#include <stdatomic.h>
#include <stdint.h>

enum {
	FUSE_COUNT = INT32_MAX, /* longer than any history: only counts */
	FUSE_BURNT = -1,        /* its process is dying, or dead */
};

struct fuse {
	_Atomic int32_t left; /* stores until the end, this one included; 0: off */
};

/* This thread's stores burn it from now on. */
void fuse_light(struct fuse *fuse);

static inline void fuse_arm(struct fuse *fuse, int32_t stores)
{
	atomic_store(&fuse->left, stores);
}
/* Turns it off: stores that were left, 0 when it was off, or FUSE_BURNT. */
static inline int32_t fuse_stop(struct fuse *fuse)
{
	return atomic_exchange(&fuse->left, 0);
}

#endif
