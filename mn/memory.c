#include "mn/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "mn/backing.h"
#include "sys/mapped_memory.h"
#include "sys/mapfile.h"
#include "sys/last_error.h"
#include "sys/shared_arena.h"
#include "util/bits.h"

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

enum { PAGE = 4096, HUGE = 2 << 20, AHEAD_MAX = 16 };

static int open_private(struct mn_memory *memory, size_t len)
{
	struct lend_mapping heap = {.base = NULL};
	int rc = lend_mapping_map_unreserved(&heap, len);

	if (rc < 0)
		return rc;
	memory->base = heap.base;
	memory->len = heap.len;
	memory->grain = heap.huge ? HUGE : PAGE;
	return 0;
}

static int open_shared(struct mn_memory *memory, size_t len)
{
	len = lend_align_up(len, LEND_ARENA_UNIT);
	memory->base = lend_arena_take(len);
	if (!memory->base)
		return lend_fail(ENOMEM,
				 "%zu bytes of memory that shm peers read: refused (%d GiB in all, "
				 "ulimit -v and -f); ask for less, or give --memory private",
				 len, (int)(LEND_ARENA_LEN >> 30));
	memory->len = len;
	memory->grain = PAGE;
	memory->arena = true;
	return 0;
}

static int make_memfd(const char *name, bool huge)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING | (huge ? MFD_HUGETLB : 0);
	int fd = memfd_create(name, flags);

	return fd >= 0 ? fd
		       : lend_fail(errno, "memfd_create for %s: %s; give --memory private", name,
				   strerror(errno));
}

/* Returns the alignment that a DAX device requires of its mappings. */
static size_t device_grain(dev_t device)
{
	char path[80];
	unsigned long align = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/dev/char/%u:%u/device/align", major(device),
		 minor(device));
	file = fopen(path, "re");
	if (!file)
		return HUGE;
	if (fscanf(file, "%lu", &align) != 1 || !lend_is_pow2(align))
		align = HUGE;
	fclose(file);
	return align;
}

static size_t grain_of(int fd, const struct stat *st)
{
	struct statfs fs;

	if (S_ISCHR(st->st_mode))
		return device_grain(st->st_rdev);
	if (fstatfs(fd, &fs) == 0 && fs.f_bsize > PAGE && lend_is_pow2((uint64_t)fs.f_bsize))
		return (size_t)fs.f_bsize;
	return PAGE;
}

static int map_memory(struct mn_memory *memory, const char *name)
{
	void *base =
	    lend_mapping_map_file(memory->fd, memory->len, PROT_READ | PROT_WRITE, MAP_SHARED);

	if (base == MAP_FAILED)
		return lend_fail(
		    errno, "%zu bytes of %s: %s; ask for less%s", memory->len, name,
		    strerror(errno),
		    memory->grain > PAGE ? ", or reserve huge pages (sysctl vm.nr_hugepages)" : "");
	memory->base = base;
	if (memory->grain == PAGE)
		(void)madvise(base, memory->len, MADV_HUGEPAGE);
	return 0;
}

static int set_length(struct mn_memory *memory, const char *name)
{
	if (!memory->sealable)
		return mn_backing_fill(memory->fd, name, memory->len);
	if (!lend_mapfile_len_allowed(memory->len))
		return lend_fail(
		    EFBIG,
		    "%zu bytes of %s: beyond ulimit -f; raise it, ask for less or give "
		    "--memory private",
		    memory->len, name);
	if (ftruncate(memory->fd, (off_t)memory->len) == 0)
		return 0;
	return lend_fail(errno, "%zu bytes of %s: %s; ask for less", memory->len, name,
			 strerror(errno));
}

/* Sets the length of a file, and maps it. A device keeps the bytes of earlier uses, so they are
 * cleared here. */
static int size_and_map(struct mn_memory *memory, const char *name, size_t len)
{
	struct stat st;
	int rc = 0;

	if (fstat(memory->fd, &st) < 0)
		return lend_fail(errno, "%s: %s", name, strerror(errno));
	memory->grain = grain_of(memory->fd, &st);
	memory->len = lend_align_up(len, memory->grain);
	if (S_ISREG(st.st_mode))
		rc = set_length(memory, name);
	if (rc == 0)
		rc = map_memory(memory, name);
	if (rc == 0 && S_ISCHR(st.st_mode))
		memset(memory->base, 0, memory->len);
	return rc;
}

bool mn_memory_is_kind(const char *kind)
{
	return !strcmp(kind, "private") || !strcmp(kind, "shared") || !strcmp(kind, "memfd") ||
	       !strcmp(kind, "huge") || strchr(kind, '/');
}

int mn_memory_open(struct mn_memory *memory, const char *kind, const char *name, size_t len,
		   bool overwrite)
{
	int rc;

	*memory = (struct mn_memory){.fd = -1};
	if (!mn_memory_is_kind(kind))
		return lend_fail(EINVAL, "--memory %s: give private, shared, memfd, huge or a path",
				 kind);
	if (len == 0 || len > SIZE_MAX / 4)
		return lend_fail(EINVAL, "%zu bytes of memory: not a valid amount", len);
	if (!strcmp(kind, "private"))
		return open_private(memory, len);
	if (!strcmp(kind, "shared"))
		return open_shared(memory, len);
	memory->sealable = !strchr(kind, '/');
	rc = memory->sealable ? make_memfd(name, !strcmp(kind, "huge"))
			      : mn_backing_open(kind, overwrite);
	if (rc < 0)
		return rc;
	memory->fd = rc;
	rc = size_and_map(memory, memory->sealable ? name : kind, len);
	if (rc < 0)
		mn_memory_close(memory);
	return rc;
}

/* Copies a sealed file: it can be mapped for reading, but not for writing by a later start. */
static int copy_file(struct mn_memory *memory, int fd, const char *name, size_t len)
{
	void *from = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
	int rc;

	if (from == MAP_FAILED)
		return lend_fail(errno, "%s of an earlier start: %s", name, strerror(errno));
	rc = mn_memory_open(memory, "memfd", name, len, false);
	if (rc == 0)
		memcpy(memory->base, from, len);
	munmap(from, len);
	if (rc == 0)
		close(fd);
	return rc;
}

int mn_memory_adopt(struct mn_memory *memory, int fd, const char *name, size_t len)
{
	int seals = fcntl(fd, F_GET_SEALS), rc;
	struct stat st;

	*memory = (struct mn_memory){.fd = -1};
	if (fstat(fd, &st) < 0)
		return lend_fail(errno, "%s of an earlier start: %s", name, strerror(errno));
	if (S_ISREG(st.st_mode) && (st.st_size < 0 || (size_t)st.st_size < len))
		return lend_fail(EINVAL,
				 "%s of an earlier start has %jd bytes where %zu are needed: was "
				 "--size changed? restore it, or start without what was stored",
				 name, (intmax_t)st.st_size, len);
	if (seals > 0 && (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)))
		return copy_file(memory, fd, name, len);
	memory->sealable = seals >= 0 && !(seals & F_SEAL_SEAL);
	memory->grain = grain_of(fd, &st);
	memory->len = lend_align_up(len, memory->grain);
	memory->fd = fd;
	rc = map_memory(memory, name);
	if (rc < 0)
		memory->fd = -1;
	return rc;
}

/* Shared memory gets huge pages on request, also where shmem_enabled is "never": Linux 6.1. */
static bool can_collapse(const struct mn_memory *memory)
{
	return memory->grain == PAGE && (memory->arena || memory->sealable) &&
	       madvise(memory->base, 0, MADV_COLLAPSE) == 0;
}

/* Returns whether a setting of transparent huge pages permits them where they are asked for, or
 * where mn_memory_prepare() does. */
static bool permits_huge(const char *setting, bool prepared)
{
	char path[80], text[128] = "";
	FILE *file;

	snprintf(path, sizeof(path), "/sys/kernel/mm/transparent_hugepage/%s", setting);
	file = fopen(path, "re");
	if (!file)
		return false;
	if (!fgets(text, sizeof(text), file))
		text[0] = 0;
	fclose(file);
	return text[0] && (prepared || !strstr(text, "[never]")) && !strstr(text, "[deny]");
}

static bool is_asked(const struct mn_memory *memory, uint64_t i)
{
	return memory->asked[i / 64] >> i % 64 & 1;
}

/* Asks for huge pages from the one with number i on, up to end or, if that is more, for as many as
 * before: each request waits for all processors. Returns the end. */
static uint64_t ask_run(struct mn_memory *memory, uint64_t i, uint64_t end)
{
	char *base = memory->base;
	uint64_t first = i, ahead = i + lend_min_u64(memory->n_asked, AHEAD_MAX);

	end = lend_min_u64(lend_max_u64(end, ahead), memory->len / HUGE);
	for (; i < end && !is_asked(memory, i); i++) {
		memory->asked[i / 64] |= UINT64_C(1) << i % 64;
		(void)*(volatile char *)(base + i * HUGE); /* one without any page is skipped */
	}
	memory->n_asked += i - first;
	(void)madvise(base + first * HUGE, (i - first) * HUGE, MADV_COLLAPSE);
	return i;
}

void mn_memory_prepare(struct mn_memory *memory, const void *at, uint64_t len)
{
	uint64_t first = (uint64_t)((const char *)at - (const char *)memory->base);
	uint64_t end = lend_min_u64((first + len + HUGE - 1) / HUGE, memory->len / HUGE);

	if (!memory->asked && can_collapse(memory))
		memory->asked = calloc(memory->len / HUGE / 64 + 1, sizeof(*memory->asked));
	for (uint64_t i = first / HUGE; memory->asked && i < end;)
		i = is_asked(memory, i) ? i + 1 : ask_run(memory, i, end);
}

int mn_memory_populate(struct mn_memory *memory)
{
	mn_memory_prepare(memory, memory->base, memory->len);
	if (madvise(memory->base, memory->len, MADV_POPULATE_WRITE) == 0)
		return 0;
	if (errno != EINVAL)
		return lend_fail(ENOMEM, "--populate: %zu bytes of memory: %s; ask for less",
				 memory->len, strerror(errno));
	for (size_t at = 0; at < memory->len; at += PAGE) { /* before Linux 5.14 */
		volatile char *page = (char *)memory->base + at;

		*page = *page;
	}
	return 0;
}

const char *mn_memory_pages(const struct mn_memory *memory)
{
	bool is_shmem = memory->arena || memory->sealable;
	struct stat st;

	if (memory->grain >= HUGE)
		return "reserved huge";
	if (memory->fd >= 0 && fstat(memory->fd, &st) == 0 && st.st_blksize >= HUGE)
		return "transparent huge"; /* a mount of tmpfs has a setting of its own */
	if (memory->fd >= 0 && !is_shmem)
		return "small";
	return permits_huge(is_shmem ? "shmem_enabled" : "enabled", can_collapse(memory))
		   ? "transparent huge"
		   : "small";
}

int mn_memory_seal(struct mn_memory *memory)
{
	if (!memory->sealable || memory->sealed)
		return 0;
	if (fcntl(memory->fd, F_ADD_SEALS,
		  F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) < 0)
		return lend_fail(errno,
				 "sealing memory against others' writes: %s; needs Linux 5.1",
				 strerror(errno));
	memory->sealed = true;
	return 0;
}

void mn_memory_close(struct mn_memory *memory)
{
	if (memory->arena)
		lend_arena_give(memory->base, memory->len);
	else if (memory->base)
		(void)munmap(memory->base, memory->len);
	if (memory->fd >= 0 && memory->len)
		close(memory->fd);
	free(memory->asked);
	*memory = (struct mn_memory){.fd = -1};
}

void mn_memory_complain(void)
{
	static atomic_flag reported = ATOMIC_FLAG_INIT;

	if (!atomic_flag_test_and_set(&reported))
		fprintf(stderr, "lend-mn: a page is damaged: reads of it end in DATA_LOSS (lend "
				"mem stat counts them); test this host's memory\n");
}
