/* uffd - memory whose missing pages, and whose first stores, this process is told of.
 *
 * Pages that are given as clean are protected: the first store into one is reported like a touch
 * of a missing page, and its thread waits until the page is let go of.
 * Layer: sys. Threads: any; the kernel serialises. The descriptor is the caller's to close. */
#ifndef LEND_SYS_UFFD_H
#define LEND_SYS_UFFD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LEND_UFFD_PAGE = 4096 };

/* A descriptor that polls readable when a thread waits; -errno with lend_why(): -EPERM (refused
 * here), -ENOSYS and -EOPNOTSUPP (not in this kernel, or other pages than 4 KiB). */
int lend_uffd_open(void);
/* len bytes (whole pages) of such memory at *base; lend_uffd_unmap() ends it. 0; -errno. */
int lend_uffd_map(int fd, size_t len, void **base);
void lend_uffd_unmap(void *base, size_t len);

struct lend_uffd_event {
	uintptr_t page; /* address of it */
	bool store;     /* the thread wants to write */
	bool was_clean; /* it is there, and clean */
};
/* The next thread that waits, or false. */
bool lend_uffd_next(int fd, struct lend_uffd_event *event);
/* Fills missing pages from bytes; those that are there stay as they are. Wakes who waits for one.
 * False: the memory is no longer there. */
bool lend_uffd_fill(int fd, void *page, const void *bytes, size_t len, bool clean);
/* Makes pages clean, or lets go of them and wakes who waits to store. */
void lend_uffd_clean(int fd, void *page, size_t len);
void lend_uffd_let(int fd, void *page, size_t len);
/* Wakes who waits for one of these pages; it touches anew. */
void lend_uffd_wake(int fd, void *page, size_t len);

/* The same marks without anybody being told: the kernel takes a page's protection away at its first
 * store, and /proc/self/pagemap shows which pages still have it (LEND_UFFD_CLEAN of an entry).
 * -EPERM, -ENOSYS, -EOPNOTSUPP (Linux 6.7 has it), with lend_why(). */
int lend_uffd_marks(void);
#define LEND_UFFD_CLEAN (UINT64_C(1) << 57)
/* Pages of memory of any kind can be marked from here on, or, when it is to be used otherwise, no
 * more; marks go. False: not this memory. */
bool lend_uffd_watch(int fd, void *page, size_t len);
void lend_uffd_unwatch(int fd, void *page, size_t len);
/* False: not all of it is watched. */
bool lend_uffd_mark(int fd, void *page, size_t len);

#endif
