/* mapped_memory - large zeroed arenas straight from the kernel, on huge pages where there are any.
 * Layer: sys. Any thread; the code that maps an arena owns it. */
#ifndef LEND_SYS_MAPPED_MEMORY_H
#define LEND_SYS_MAPPED_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

struct lend_mapping {
	void *base; /* zero, touched lazily; page-aligned, and huge-page-aligned from 2 MiB on
		       unless sparse; NULL: none */
	size_t len; /* as mapped: the requested length, rounded up */
	bool huge;  /* on pages of hugetlbfs; else transparent huge pages were asked for */
};

/* Maps at least len (> 0) bytes. Returns 0, or -ENOMEM with lend_why_text() set. */
int lend_mapping_map(struct lend_mapping *heap, size_t len);
/* Maps memory that is used sparsely. Below 32 MiB it asks for no huge pages, because the kernel
 * clears a whole one at its first touch: 60 to 200 us instead of 2 us for a small page. */
int lend_mapping_map_sparse(struct lend_mapping *heap, size_t len);
/* Maps memory that may exceed what the host has, unless vm.overcommit_memory is 2: pages that are
 * not huge are not reserved. */
int lend_mapping_map_unreserved(struct lend_mapping *heap, size_t len);
/* Maps the first len (> 0) bytes of a file, as mmap() does, at an address where its huge pages can
 * be mapped whole. The caller unmaps it. MAP_FAILED: errno has the reason. */
void *lend_mapping_map_file(int fd, size_t len, int rights, int flags);
/* Unmaps it. Never fails; an empty heap is allowed. */
void lend_mapping_unmap(struct lend_mapping *heap);

#endif
