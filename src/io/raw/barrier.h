/* barrier - order between our stores and loads and those of a device that reads and writes
 * the same memory. Layer: io. Threads: any.
 *
 * An atomic fence of C orders what processors see. A device is none: where the machine tells the
 * two apart, its own barrier is wanted.
 */
#ifndef LEND_IO_RAW_BARRIER_H
#define LEND_IO_RAW_BARRIER_H

#include <stdatomic.h>

/* What was stored before is seen by the device before what is stored after. */
static inline void raw_to_device(void)
{
#if defined(__aarch64__)
	__asm__ volatile("dmb oshst" ::: "memory");
#else
	atomic_thread_fence(memory_order_release);
#endif
}

/* What is loaded after was written by the device before what was loaded before. */
static inline void raw_from_device(void)
{
#if defined(__aarch64__)
	__asm__ volatile("dmb oshld" ::: "memory");
#else
	atomic_thread_fence(memory_order_acquire);
#endif
}

#endif
