#include "sys/shared_arena.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/mapfile.h"
#include "util/check.h"

enum { UNITS = LEND_ARENA_LEN / LEND_ARENA_UNIT, UNASKED = INT_MIN };

uint8_t *_Atomic lend_arena_base;

static struct {
	pthread_mutex_t lock;
	int fd; /* the arena's file; -errno: it could not be made; INT_MIN: not tried yet */
	bool used[UNITS];
} arena = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = UNASKED};

/* Maps the file at a multiple of the unit. The addresses reserved around it stay reserved. */
static int map_arena(int fd)
{
	size_t len = LEND_ARENA_LEN + LEND_ARENA_UNIT;
	uint8_t *at =
		    mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0),
		*base;

	if (at == MAP_FAILED)
		return -errno;
	base = at + (-(uintptr_t)at & (LEND_ARENA_UNIT - 1));
	if (mmap(base, LEND_ARENA_LEN, PROT_READ | PROT_WRITE,
		 MAP_SHARED | MAP_NORESERVE | MAP_FIXED, fd, 0) == MAP_FAILED) {
		int err = errno;

		(void)munmap(at, len);
		return -err;
	}
	(void)madvise(base, LEND_ARENA_LEN, MADV_HUGEPAGE);
	(void)madvise(base, LEND_ARENA_LEN, MADV_DONTFORK);
	atomic_store_explicit(&lend_arena_base, base, memory_order_release);
	return 0;
}

/* Opens the file again to read: what peers get cannot be mapped for writing, and only the owner may
 * open it again otherwise. */
static int open_to_read(int fd)
{
	char path[32];
	int again;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fchmod(fd, S_IRUSR) != 0)
		return -errno;
	again = open(path, O_RDONLY | O_CLOEXEC);
	return again < 0 ? -errno : again;
}

/* Sets the file's length and seals it, so that no process that maps it can get SIGBUS. */
static int size_file(int fd)
{
	if (!lend_mapfile_len_allowed(LEND_ARENA_LEN))
		return -EFBIG;
	if (ftruncate(fd, (off_t)LEND_ARENA_LEN) != 0 ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
		return -errno;
	return 0;
}

/* Creates and maps the file. Its descriptor for writing is closed, the mapping remains. */
static int make_file(void)
{
	int fd = memfd_create("lend-messages", MFD_CLOEXEC | MFD_ALLOW_SEALING), readable = -1, err;

	if (fd < 0)
		return -errno;
	err = size_file(fd);
	if (err == 0)
		err = readable = open_to_read(fd);
	if (err >= 0)
		err = map_arena(fd);
	if (err < 0 && readable >= 0)
		(void)close(readable);
	(void)close(fd);
	return err < 0 ? err : readable;
}

static int open_once(void)
{
	if (arena.fd == UNASKED)
		arena.fd = make_file();
	return arena.fd;
}

int lend_arena_fd(void)
{
	int fd;

	pthread_mutex_lock(&arena.lock);
	fd = open_once();
	pthread_mutex_unlock(&arena.lock);
	return fd;
}

/* Returns the first of n consecutive free units; UNITS: there is no such run. */
static size_t first_fit(size_t n)
{
	size_t run = 0;

	for (size_t i = 0; i < UNITS; i++) {
		run = arena.used[i] ? 0 : run + 1;
		if (run == n)
			return i + 1 - n;
	}
	return UNITS;
}

static void mark_units(size_t first, size_t n, bool used)
{
	for (size_t i = first; i < first + n; i++) {
		LEND_CHECK(arena.used[i] != used);
		arena.used[i] = used;
	}
}

void *lend_arena_take(size_t len)
{
	size_t n = len / LEND_ARENA_UNIT, at = UNITS;

	LEND_CHECK(len > 0 && len % LEND_ARENA_UNIT == 0);
	pthread_mutex_lock(&arena.lock);
	if (open_once() >= 0 && n <= UNITS)
		at = first_fit(n);
	if (at < UNITS)
		mark_units(at, n, true);
	pthread_mutex_unlock(&arena.lock);
	return at < UNITS ? lend_arena_base + at * LEND_ARENA_UNIT : NULL;
}

void lend_arena_give(void *p, size_t len)
{
	uint64_t offset;
	bool is_ours = lend_arena_find(p, len, &offset);

	LEND_CHECK(is_ours && offset % LEND_ARENA_UNIT == 0);
	/* Frees the pages; from now on peers read zeros there. */
	(void)madvise(p, len, MADV_REMOVE);
	pthread_mutex_lock(&arena.lock);
	mark_units(offset / LEND_ARENA_UNIT, len / LEND_ARENA_UNIT, false);
	pthread_mutex_unlock(&arena.lock);
}

/* Reserves the addresses of the arena in a fork's child, which does not inherit the mapping. So a
 * pointer to one of the parent's messages raises SIGSEGV, and never meets memory that the child
 * mapped there. */
static void reserve_addresses(uint8_t *base)
{
	if (base != NULL)
		(void)mmap(base, LEND_ARENA_LEN, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1,
			   0);
}

void lend_arena_forked(void)
{
	reserve_addresses(atomic_load_explicit(&lend_arena_base, memory_order_relaxed));
	if (arena.fd >= 0)
		(void)close(arena.fd);
	arena.fd = UNASKED;
	for (size_t i = 0; i < UNITS; i++)
		arena.used[i] = false;
	atomic_store_explicit(&lend_arena_base, NULL, memory_order_relaxed);
	pthread_mutex_init(&arena.lock, NULL);
}
