#include "kill/kill_at_store.h"

#include <signal.h>
#include <stdbool.h>
#include <unistd.h>

static _Thread_local struct fuse *mine;

void fuse_light(struct fuse *fuse)
{
	mine = fuse;
}

#ifdef FUSE_HOOK /* calls the hook instead of killing the process */
void FUSE_HOOK(void);
#define burn FUSE_HOOK
#else
static void burn(void)
{
	int32_t left = mine ? atomic_load_explicit(&mine->left, memory_order_relaxed) : 0;

	if (left <= 0)
		return;
	if (!atomic_compare_exchange_strong(&mine->left, &left, left > 1 ? left - 1 : FUSE_BURNT))
		return; /* turned off meanwhile */
	if (left > 1)
		return;
	kill(getpid(), SIGKILL);
	for (;;)
		pause();
}

#endif

/* The functions of the compiler's instrumentation, with the names that it uses. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define STORE(name, ...)                                                                           \
	void name(__VA_ARGS__);                                                                    \
	void name(__VA_ARGS__)                                                                     \
	{                                                                                          \
		burn();                                                                            \
	}
#define LOAD(name, ...)                                                                            \
	void name(__VA_ARGS__);                                                                    \
	void name(__VA_ARGS__)                                                                     \
	{                                                                                          \
	}
LOAD(__tsan_init, void)
LOAD(__tsan_func_entry, void *caller)
LOAD(__tsan_func_exit, void)
STORE(__tsan_write1, void *at)
STORE(__tsan_write2, void *at)
STORE(__tsan_write4, void *at)
STORE(__tsan_write8, void *at)
STORE(__tsan_write16, void *at)
STORE(__tsan_unaligned_write2, void *at)
STORE(__tsan_unaligned_write4, void *at)
STORE(__tsan_unaligned_write8, void *at)
STORE(__tsan_unaligned_write16, void *at)
STORE(__tsan_write_range, void *at, unsigned long len)
LOAD(__tsan_read1, void *at)
LOAD(__tsan_read2, void *at)
LOAD(__tsan_read4, void *at)
LOAD(__tsan_read8, void *at)
LOAD(__tsan_read16, void *at)
LOAD(__tsan_unaligned_read2, void *at)
LOAD(__tsan_unaligned_read4, void *at)
LOAD(__tsan_unaligned_read8, void *at)
LOAD(__tsan_unaligned_read16, void *at)
LOAD(__tsan_read_range, void *at, unsigned long len)

/* Atomic operations are calls too, and must do the operation itself. */
#define ATOMIC(bits, type)                                                                         \
	type __tsan_atomic##bits##_load(type *at, int order);                                      \
	type __tsan_atomic##bits##_load(type *at, int order)                                       \
	{                                                                                          \
		(void)order;                                                                       \
		return __atomic_load_n(at, __ATOMIC_SEQ_CST);                                      \
	}                                                                                          \
	void __tsan_atomic##bits##_store(type *at, type value, int order);                         \
	void __tsan_atomic##bits##_store(type *at, type value, int order)                          \
	{                                                                                          \
		(void)order;                                                                       \
		burn();                                                                            \
		__atomic_store_n(at, value, __ATOMIC_SEQ_CST);                                     \
	}                                                                                          \
	CHANGE(bits, type, exchange, __atomic_exchange_n)                                          \
	CHANGE(bits, type, fetch_add, __atomic_fetch_add)                                          \
	CHANGE(bits, type, fetch_sub, __atomic_fetch_sub)                                          \
	CHANGE(bits, type, fetch_or, __atomic_fetch_or)                                            \
	CHANGE(bits, type, fetch_and, __atomic_fetch_and)                                          \
	COMPARE(bits, type, strong)                                                                \
	COMPARE(bits, type, weak)
#define CHANGE(bits, type, name, builtin)                                                          \
	type __tsan_atomic##bits##_##name(type *at, type value, int order);                        \
	type __tsan_atomic##bits##_##name(type *at, type value, int order)                         \
	{                                                                                          \
		(void)order;                                                                       \
		burn();                                                                            \
		return builtin(at, value, __ATOMIC_SEQ_CST);                                       \
	}
#define COMPARE(bits, type, kind)                                                                  \
	int __tsan_atomic##bits##_compare_exchange_##kind(type *at, type *was, type value,         \
							  int order, int other);                   \
	int __tsan_atomic##bits##_compare_exchange_##kind(type *at, type *was, type value,         \
							  int order, int other)                    \
	{                                                                                          \
		(void)order, (void)other;                                                          \
		burn();                                                                            \
		return __atomic_compare_exchange_n(at, was, value, false, __ATOMIC_SEQ_CST,        \
						   __ATOMIC_SEQ_CST);                              \
	}
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
	(void)order;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order)
{
	(void)order;
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}
