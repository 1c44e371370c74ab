/* library_copy - maps the segments of a library's file again, as the loader did. Layer: seal.
 *
 * dlmopen() would load the C library again, too, and has 16 name spaces at most. */
#include "seal/module/library_copy.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096 };

static size_t floor_page(size_t at)
{
	return at & ~(size_t)(PAGE - 1);
}

static size_t ceil_page(size_t at)
{
	return floor_page(at + PAGE - 1);
}

/* Returns whether the file begins as the library in memory: with the same headers and build id. */
static bool is_same_file(int fd, const uint8_t *base)
{
	uint8_t first[PAGE];

	return pread(fd, first, PAGE, 0) == PAGE && memcmp(first, base, PAGE) == 0;
}

/* Maps a segment of the file into the copy. What the loader made writable is copied from memory. */
static bool map_segment(int fd, const uint8_t *base, uint8_t *copy, const Elf64_Phdr *segment)
{
	size_t from = floor_page(segment->p_vaddr);
	size_t len = ceil_page(segment->p_vaddr + segment->p_memsz) - from;
	int protection = PROT_READ | (segment->p_flags & PF_X ? PROT_EXEC : 0);

	if (!(segment->p_flags & PF_W))
		return mmap(copy + from, len, protection, MAP_PRIVATE | MAP_FIXED, fd,
			    (off_t)floor_page(segment->p_offset)) != MAP_FAILED;
	if (mprotect(copy + from, len, PROT_READ | PROT_WRITE) < 0)
		return false;
	memcpy(copy + segment->p_vaddr, base + segment->p_vaddr, segment->p_memsz);
	return true;
}

/* Makes what was relocated read-only, as the loader does. */
static bool protect_relocated(uint8_t *copy, const Elf64_Phdr *relro)
{
	size_t from = floor_page(relro->p_vaddr);

	return mprotect(copy + from, floor_page(relro->p_vaddr + relro->p_memsz) - from,
			PROT_READ) == 0;
}

static bool map_segments(int fd, const uint8_t *base, uint8_t *copy, const Elf64_Ehdr *head)
{
	const Elf64_Phdr *segment = (const void *)(base + head->e_phoff);
	bool mapped = true;

	for (int i = 0; i < head->e_phnum && mapped; i++)
		if (segment[i].p_type == PT_LOAD)
			mapped = map_segment(fd, base, copy, &segment[i]);
	for (int i = 0; i < head->e_phnum && mapped; i++)
		if (segment[i].p_type == PT_GNU_RELRO)
			mapped = protect_relocated(copy, &segment[i]);
	return mapped;
}

/* Returns the bytes from a library's first segment to the end of its last one. */
static size_t span_of(const uint8_t *base, const Elf64_Ehdr *head)
{
	const Elf64_Phdr *segment = (const void *)(base + head->e_phoff);
	size_t end = 0;

	for (int i = 0; i < head->e_phnum; i++)
		if (segment[i].p_type == PT_LOAD && segment[i].p_vaddr + segment[i].p_memsz > end)
			end = segment[i].p_vaddr + segment[i].p_memsz;
	return ceil_page(end);
}

static ptrdiff_t map_copy(int fd, const uint8_t *base)
{
	const Elf64_Ehdr *head = (const void *)base;
	size_t span = span_of(base, head);
	uint8_t *copy = mmap(NULL, span, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (copy == MAP_FAILED)
		return 0;
	if (map_segments(fd, base, copy, head))
		return copy - base;
	(void)munmap(copy, span);
	return 0;
}

ptrdiff_t lend_library_copy(const void *function)
{
	ptrdiff_t distance = 0;
	Dl_info library;
	int fd;

	if (!dladdr(function, &library))
		return 0;
	fd = open(library.dli_fname, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (is_same_file(fd, library.dli_fbase))
		distance = map_copy(fd, library.dli_fbase);
	(void)close(fd);
	return distance;
}
