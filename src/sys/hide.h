/* hide - memory that nobody may touch until it is shown again: the address sanitizer's word for
 * free lists. Nothing in other builds. Layer: sys. */
#ifndef LEND_SYS_HIDE_H
#define LEND_SYS_HIDE_H

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#define LEND_HIDE(data, len) ASAN_POISON_MEMORY_REGION(data, len)
#define LEND_SHOW(data, len) ASAN_UNPOISON_MEMORY_REGION(data, len)
#else
#define LEND_HIDE(data, len) ((void)(data), (void)(len))
#define LEND_SHOW(data, len) ((void)(data), (void)(len))
#endif

#endif
