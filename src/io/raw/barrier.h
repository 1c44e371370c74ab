/* barrier - memory order between this process and a device that reads and writes the same memory.
 * Layer: io. Threads: any.
 *
 * A C atomic fence orders what processors see, but not what a device sees. Where the machine
 * distinguishes the two, a barrier for devices is needed.
 */
#ifndef LEND_IO_RAW_BARRIER_H
#define LEND_IO_RAW_BARRIER_H

#include <stdatomic.h>

/* Orders stores: the device sees earlier stores before later ones. */
static inline void raw_to_device(void)
{
#if defined(__aarch64__)
	__asm__ volatile("dmb oshst" ::: "memory");
#else
	atomic_thread_fence(memory_order_release);
#endif
}

/* Orders loads of memory that the device writes: earlier loads complete before later ones. */
static inline void raw_from_device(void)
{
#if defined(__aarch64__)
	__asm__ volatile("dmb oshld" ::: "memory");
#else
	atomic_thread_fence(memory_order_acquire);
#endif
}

#endif
