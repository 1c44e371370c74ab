/* uffd - memory with page faults and first stores that this process handles, by userfaultfd.
 *
 * Pages that are filled as clean are write-protected. The first store to one is reported like a
 * touch of a missing page, and its thread waits until the protection is removed.
 * Layer: sys. Threads: any; the kernel serialises. The caller closes the descriptor. */
#ifndef LEND_SYS_UFFD_H
#define LEND_SYS_UFFD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LEND_UFFD_PAGE = 4096 };

/* Returns a descriptor that polls readable when a thread waits; -errno with lend_why(): -EPERM
 * (refused here), -ENOSYS and -EOPNOTSUPP (not in this kernel, or pages of another size than 4
 * KiB). */
int lend_uffd_open(void);
/* Maps len bytes (whole pages) of such memory at *base; lend_uffd_unmap() unmaps it. Returns 0 or
 * -errno. */
int lend_uffd_map(int fd, size_t len, void **base);
void lend_uffd_unmap(void *base, size_t len);

struct lend_uffd_event {
	uintptr_t page; /* address of the page */
	bool store;     /* the thread wants to write */
	bool was_clean; /* the page is present, and clean */
};
/* Returns true with the fault of the next waiting thread; false: no thread waits. */
bool lend_uffd_next(int fd, struct lend_uffd_event *event);
/* Fills missing pages from bytes; present pages stay as they are. Wakes the threads that wait for
 * these pages. Returns false if the memory is unmapped. */
bool lend_uffd_fill(int fd, void *page, const void *bytes, size_t len, bool clean);
/* clean: write-protects pages. let: removes the protection and wakes the threads that wait to
 * store. */
void lend_uffd_protect(int fd, void *page, size_t len);
void lend_uffd_unprotect(int fd, void *page, size_t len);
/* Wakes the threads that wait for one of these pages; they retry their access. */
void lend_uffd_wake(int fd, void *page, size_t len);

/* Returns a descriptor for marks without events. The kernel itself removes a page's protection at
 * the first store, and /proc/self/pagemap shows the pages that still have it (LEND_UFFD_CLEAN of an
 * entry). -EPERM, -ENOSYS, -EOPNOTSUPP (needs Linux 6.7), with lend_why(). */
int lend_uffd_marks(void);
#define LEND_UFFD_CLEAN (UINT64_C(1) << 57)
/* watch: pages of memory of any kind can be marked from now on. unwatch: ends that before the
 * memory gets another use; its marks are lost. Returns false: not possible for this memory. */
bool lend_uffd_watch(int fd, void *page, size_t len);
void lend_uffd_unwatch(int fd, void *page, size_t len);
/* Write-protects, and so marks, pages. Returns false: some of them are not watched. */
bool lend_uffd_mark(int fd, void *page, size_t len);

#endif
