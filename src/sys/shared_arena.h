/* shared_arena - memory of this process that peers on this host may map to read: one sealed file
 * without a name, mapped whole and touched as it is used, cut into units of 2 MiB.
 *
 * Who is given the file sees all of it, so only what is meant for others belongs there: message
 * buffers. It is sparse; what is given back has no pages. Layer: sys. Threads: any.
 */
#ifndef LEND_SYS_SHARED_ARENA_H
#define LEND_SYS_SHARED_ARENA_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LEND_ARENA_LEN  (UINT64_C(16) << 30) /* of addresses; 1,024 peers' fit into a process */
#define LEND_ARENA_UNIT ((size_t)2 << 20)

extern uint8_t *_Atomic lend_arena_base; /* NULL: not opened, or there is none */

/* The file, LEND_ARENA_LEN bytes long and sealed so; the process's own, opened by the first who
 * asks. -errno: this process may not have so many addresses or so long a file. */
int lend_arena_fd(void);
/* len zero bytes, a multiple of the unit, at a multiple of it; NULL: no arena, or no room in it. */
void *lend_arena_take(size_t len);
void lend_arena_give(void *at, size_t len);
/* In a fork's child, before it does anything else: the arena stays the parent's, out of reach, and
 * the child has none yet. */
void lend_arena_forked(void);

/* Whether [p, p + len) lies in it, and how far from its start. */
static inline bool lend_arena_find(const void *p, size_t len, uint64_t *offset)
{
	const uint8_t *base = atomic_load_explicit(&lend_arena_base, memory_order_relaxed);

	*offset = (uint64_t)((uintptr_t)p - (uintptr_t)base);
	return base != NULL && *offset < LEND_ARENA_LEN && len <= LEND_ARENA_LEN - *offset;
}

#endif
