/* mapped_memory - large zeroed arenas straight from the kernel, on huge pages where there are any.
 * Layer: sys. Any thread; an arena belongs to who mapped it. */
#ifndef LEND_SYS_MAPPED_MEMORY_H
#define LEND_SYS_MAPPED_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

struct lend_heap {
	void *base; /* zero, touched lazily; at a page, from 2 MiB on at a huge one, unless sparse.
		       NULL: none */
	size_t len; /* as mapped: what was asked for, rounded up */
	bool huge;  /* on pages of hugetlbfs; else transparent huge pages were asked for */
};

/* Maps at least len (> 0) bytes. 0, or -ENOMEM with lend_why_text() set. */
int lend_heap_map(struct lend_heap *heap, size_t len);
/* The same for what is touched here and there: short of 32 MiB no huge page is asked for, since the
 * kernel clears each before its first byte is read: 60 to 200 us, in place of 2 for a small one. */
int lend_heap_map_sparse(struct lend_heap *heap, size_t len);
/* Never fails; an empty heap is fine. */
void lend_heap_unmap(struct lend_heap *heap);

#endif
