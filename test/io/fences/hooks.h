/* hooks - reports each atomic access of the file that is compiled with it, by the text of its
 * operand.
 *
 * Included before all other headers (-include). The accesses work as before. Layer: test. */
#ifndef TEST_IO_FENCES_HOOKS_H
#define TEST_IO_FENCES_HOOKS_H

#include <stdatomic.h>
#include <stdbool.h>

/* what: 'S' store, 'L' load. fence_note_full: a full fence, or a read-modify-write operation, which
 * is one. */
void fence_note(char what, const char *operand, unsigned long long value);
void fence_note_full(bool full);

#undef atomic_thread_fence
#undef atomic_store_explicit
#undef atomic_load_explicit
#undef atomic_exchange_explicit
#undef atomic_fetch_or_explicit
#define atomic_thread_fence(order)                                                                 \
	(fence_note_full((order) == memory_order_seq_cst), __atomic_thread_fence(order))
#define atomic_store_explicit(at, value, order)                                                    \
	__extension__({                                                                            \
		__auto_type at_ = (at);                                                            \
		__typeof__((void)0, *at_) value_ = (value);                                        \
		fence_note('S', #at, (unsigned long long)value_);                                  \
		__atomic_store(at_, &value_, order);                                               \
	})
#define atomic_load_explicit(at, order)                                                            \
	__extension__({                                                                            \
		__auto_type at_ = (at);                                                            \
		__typeof__((void)0, *at_) value_;                                                  \
		fence_note('L', #at, 0);                                                           \
		__atomic_load(at_, &value_, order);                                                \
		value_;                                                                            \
	})
#define atomic_exchange_explicit(at, value, order)                                                 \
	(fence_note_full((order) == memory_order_seq_cst), __atomic_exchange_n(at, value, order))
#define atomic_fetch_or_explicit(at, value, order)                                                 \
	(fence_note_full((order) == memory_order_seq_cst), __atomic_fetch_or(at, value, order))

#endif
