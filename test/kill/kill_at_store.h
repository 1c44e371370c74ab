/* kill_at_store - makes a process kill itself exactly before its n-th store to memory that others
 * may see. The files named in CMakeLists.txt are compiled again with the compiler's race
 * instrumentation, which calls a function before every store that leaves its stack frame;
 * kill_at_store.c defines these functions. So every store to holds, grants, leases, records,
 * frames, spaces and rings is a fault point, without hooks in the product's source. Layer: test.
 * Threads: a fuse counts the stores of the threads that called fuse_light(); another process may
 * arm it. Memory: the caller's,
 * shared. */
#ifndef TEST_KILL_KILL_AT_STORE_H
#define TEST_KILL_KILL_AT_STORE_H

#include <stdatomic.h>
#include <stdint.h>

enum {
	FUSE_COUNT = INT32_MAX, /* longer than any history: counts only */
	FUSE_BURNT = -1,        /* its process is dying, or dead */
};

struct fuse {
	_Atomic int32_t left; /* stores left until the kill, this one included; 0: off */
};

/* From now on this thread's stores count the fuse down. */
void fuse_light(struct fuse *fuse);

static inline void fuse_arm(struct fuse *fuse, int32_t stores)
{
	atomic_store(&fuse->left, stores);
}
/* Turns it off. Returns the stores that were left, 0 if it was off, or FUSE_BURNT. */
static inline int32_t fuse_stop(struct fuse *fuse)
{
	return atomic_exchange(&fuse->left, 0);
}

#endif
