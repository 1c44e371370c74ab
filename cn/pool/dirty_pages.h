/* dirty_pages - which pages of a pool's view were stored to since they were last sent.
 *
 * A page of the process's own memory is one that was stored to; a page of the file is the node's.
 * What the node has no frame for is the process's own from the start: there a page that is zero
 * counts only once it was sent with other bytes. A page that is taken to be sent is protected,
 * which the kernel ends at the next store without telling anybody, so that the same page is not
 * sent again for nothing. Where the kernel cannot do that (before Linux 6.7, or userfaultfd is
 * refused), each seal sends all pages that were ever stored to: that costs their copies and changes
 * nothing.
 *
 * Layer: cn. Threads: the endpoint's; the memory is touched by any. Lies in a view, and borrows the
 * view's memory and descriptors. */
#ifndef LEND_CN_POOL_DIRTY_PAGES_H
#define LEND_CN_POOL_DIRTY_PAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/memop.h"

struct cn_marks {
	char *map;
	uint64_t len; /* whole pages */
	int pagemap; /* of this process; -1: not readable, so that every page counts as stored to */
	int fd;      /* of lend_uffd_marks(); negative: each seal sends all */
	bool watched;   /* some of map is */
	bool refused;   /* this memory is not of a kind that can be watched */
	uint64_t *sent; /* a bit per page: in a hole, and the node may have it; NULL: none */
	bool all_sent;  /* no memory for the bits */
	uint32_t n;
	struct cn_hole {
		uint64_t first, end;
	} hole[LEND_MEM_EXTENTS_MAX]; /* ranges of map without frames */
};

/* Bytes of map [at, end) up to where pages begin, or end, to be stored to. */
uint64_t cn_marks_skip(struct cn_marks *marks, uint64_t at, uint64_t end, bool stored);
/* The pages [at, end) are about to be sent: what is stored from here on counts anew. */
void cn_marks_take(struct cn_marks *marks, uint64_t at, uint64_t end);
/* They did not get there. */
void cn_marks_untake(struct cn_marks *marks, uint64_t at, uint64_t end);
/* The memory is about to be used otherwise, or to go. */
void cn_marks_close(struct cn_marks *marks);

#endif
