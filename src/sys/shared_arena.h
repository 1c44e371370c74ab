/* shared_arena - memory of this process that peers on this host may map for reading: one sealed
 * file without a name, mapped whole and touched as it is used, divided into units of 2 MiB.
 *
 * A process that gets the file can read all of it, so it holds only data for other processes:
 * message buffers. The file is sparse; freed units have no pages. Layer: sys. Threads: any. */
#ifndef LEND_SYS_SHARED_ARENA_H
#define LEND_SYS_SHARED_ARENA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEND_ARENA_LEN  (UINT64_C(16) << 30) /* bytes; a process can map 1,024 peers' */
#define LEND_ARENA_UNIT ((size_t)2 << 20)

extern uint8_t *_Atomic lend_arena_base; /* NULL: not opened, or there is none */

/* Returns the process's file, open to read, LEND_ARENA_LEN bytes long, its length sealed; the first
 * call creates it. The process keeps the ownership. -errno: this process may not have that many
 * addresses or a file that long, or there is no /proc. */
int lend_arena_fd(void);
/* Returns len zero bytes; len and the address are multiples of the unit. NULL: no arena, or no room
 * in it. */
void *lend_arena_take(size_t len);
void lend_arena_give(void *at, size_t len);
/* Call it in a fork's child before anything else. The arena stays the parent's and cannot be
 * accessed; the child has none yet. */
void lend_arena_forked(void);

/* Returns whether [p, p + len) is inside the arena; *offset is its distance from the start. */
static inline bool lend_arena_find(const void *p, size_t len, uint64_t *offset)
{
	const uint8_t *base = atomic_load_explicit(&lend_arena_base, memory_order_relaxed);

	*offset = (uint64_t)((uintptr_t)p - (uintptr_t)base);
	return base != NULL && *offset < LEND_ARENA_LEN && len <= LEND_ARENA_LEN - *offset;
}

#endif
