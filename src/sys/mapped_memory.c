#include "sys/mapped_memory.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>

#include "sys/last_error.h"
#include "util/check.h"

enum { PAGE = 4096, HUGE = 2 << 20, SPARSE_MAX = 32 << 20 };

static void *map_pages(size_t len, int rights, int flags)
{
	void *base = mmap(NULL, len, rights, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	return base == MAP_FAILED ? NULL : base;
}

static bool map_huge(struct lend_mapping *heap, size_t len)
{
	size_t whole = (len + HUGE - 1) & ~(size_t)(HUGE - 1);

	/* Reserve at once: if hugetlbfs has too few pages, mmap() fails here instead of a later
	 * touch killing the process. */
	heap->base = map_pages(whole, PROT_READ | PROT_WRITE, MAP_HUGETLB);
	heap->len = whole;
	heap->huge = heap->base != NULL;
	return heap->huge;
}

/* Maps at the alignment of a huge page: maps more than len and unmaps the excess at both ends. */
static void *map_aligned(size_t len, int rights, int flags)
{
	uint8_t *at = map_pages(len + HUGE, rights, flags);
	size_t before = -(uintptr_t)at & (HUGE - 1);

	if (at == NULL)
		return NULL;
	if (before > 0)
		(void)munmap(at, before);
	(void)munmap(at + before + len, HUGE - before);
	return at + before;
}

static int map_as(struct lend_mapping *heap, size_t len, bool huge, int flags)
{
	LEND_CHECK(len > 0);
	if (len > SIZE_MAX / 2)
		return lend_fail(
		    ENOMEM, "%zu bytes of memory: more than the address space; ask for less", len);
	if (huge && map_huge(heap, len))
		return 0;
	heap->huge = false;
	heap->len = (len + PAGE - 1) & ~(size_t)(PAGE - 1);
	heap->base = huge ? map_aligned(heap->len, PROT_READ | PROT_WRITE, flags)
			  : map_pages(heap->len, PROT_READ | PROT_WRITE, flags);
	if (heap->base == NULL)
		return lend_fail(
		    ENOMEM, "%zu bytes of memory: refused; ask for less, or raise ulimit -v", len);
	if (huge)
		(void)madvise(heap->base, heap->len, MADV_HUGEPAGE);
	return 0;
}

int lend_mapping_map(struct lend_mapping *heap, size_t len)
{
	return map_as(heap, len, len >= HUGE, 0);
}

int lend_mapping_map_sparse(struct lend_mapping *heap, size_t len)
{
	return map_as(heap, len, len >= SPARSE_MAX, 0);
}

int lend_mapping_map_unreserved(struct lend_mapping *heap, size_t len)
{
	return map_as(heap, len, len >= HUGE, MAP_NORESERVE);
}

void *lend_mapping_map_file(int fd, size_t len, int rights, int flags)
{
	size_t whole = (len + PAGE - 1) & ~(size_t)(PAGE - 1);
	void *at = len < HUGE ? NULL : map_aligned(whole, PROT_NONE, MAP_NORESERVE), *base;

	if (at == NULL)
		return mmap(NULL, len, rights, flags, fd, 0);
	base = mmap(at, len, rights, flags | MAP_FIXED, fd, 0);
	if (base != MAP_FAILED)
		return base;
	(void)munmap(at, whole);
	return mmap(NULL, len, rights, flags, fd, 0); /* of larger pages */
}

void lend_mapping_unmap(struct lend_mapping *heap)
{
	if (heap->base != NULL)
		(void)munmap(heap->base, heap->len);
	heap->base = NULL;
	heap->len = 0;
}
