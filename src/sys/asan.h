/* asan - annotations for the address sanitizer, and for its leak check. HIDE marks memory that no
 * code may touch until SHOW; free lists use it. ROOT marks mapped memory that holds pointers to
 * blocks of the C library, so that they do not count as leaks until UNROOT. All four do nothing in
 * other builds. Layer: sys. */
#ifndef LEND_SYS_ASAN_H
#define LEND_SYS_ASAN_H

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/lsan_interface.h>
#define LEND_HIDE(data, len)   ASAN_POISON_MEMORY_REGION(data, len)
#define LEND_SHOW(data, len)   ASAN_UNPOISON_MEMORY_REGION(data, len)
#define LEND_ROOT(data, len)   __lsan_register_root_region(data, len)
#define LEND_UNROOT(data, len) __lsan_unregister_root_region(data, len)
#else
#define LEND_HIDE(data, len)   ((void)(data), (void)(len))
#define LEND_SHOW(data, len)   ((void)(data), (void)(len))
#define LEND_ROOT(data, len)   ((void)(data), (void)(len))
#define LEND_UNROOT(data, len) ((void)(data), (void)(len))
#endif

#endif
