/* dirty_pages - finds the pages of a pool's view that were stored to since they were last sent.
 *
 * A page of the file is the node's. A page of the process's own memory is dirty: the first store
 * made the copy. Ranges without a frame at the node (holes) are the process's own from the start;
 * there, a page of zeros is dirty only if other bytes were sent before. Taking a page for sending
 * protects it, and the kernel removes the protection at the next store without an event. So an
 * unchanged page is not sent again. Where the kernel cannot do that (before Linux 6.7, or
 * userfaultfd is refused), each seal sends all pages that were ever stored to. That costs copies;
 * the result is the same.
 *
 * Layer: cn. Threads: the endpoint's; the memory is touched by any. Part of a view; borrows the
 * view's memory and descriptors. */
#ifndef LEND_CN_POOL_DIRTY_PAGES_H
#define LEND_CN_POOL_DIRTY_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/memop.h"

struct cn_dirty_pages {
	char *map;
	uint64_t len; /* bytes; whole pages */
	int pagemap;  /* file /proc/self/pagemap; -1: not readable, so every page counts as dirty */
	int fd; /* descriptor of lend_uffd_marks(); negative: each seal sends all dirty pages again
		 */
	bool watched;   /* some of map is watched */
	bool refused;   /* this kind of memory cannot be watched */
	uint64_t *sent; /* a bit per page: it is in a hole and was sent; NULL: none */
	bool all_sent;  /* no memory for these bits: all count as sent */
	uint32_t n;
	struct cn_hole {
		uint64_t first, end;
	} hole[LEND_MEM_EXTENTS_MAX]; /* ranges of map without frames */
};

/* Skips pages of [at, end) that are dirty (stored) or not dirty. Returns where the first other page
 * begins. */
uint64_t cn_dirty_skip(struct cn_dirty_pages *marks, uint64_t at, uint64_t end, bool stored);
/* Marks the pages [at, end) as clean before they are sent: only later stores make them dirty again.
 */
void cn_dirty_take(struct cn_dirty_pages *marks, uint64_t at, uint64_t end);
/* Marks those pages as dirty again, because sending them failed. */
void cn_dirty_untake(struct cn_dirty_pages *marks, uint64_t at, uint64_t end);
/* Ends the watch of memory that is about to be freed or used otherwise. */
void cn_dirty_close(struct cn_dirty_pages *marks);

#endif
