/* asan - what the address sanitizer is to know. HIDE: memory that nobody may touch until SHOW, as
 * free lists have it. ROOT: mapped memory with pointers to blocks of the C library, which are no
 * leaks then, until UNROOT. Nothing in other builds. Layer: sys. */
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
