/* fail_nth_leaks - what a history left behind: names, heap, blocks, mappings, descriptors. Part of
 * nth_world.h. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc/region.h"
#include "kill/fail_nth_world.h"
#include "kill/watch.h"
#include "lend/alloc.h"
#include "rpc/bufs.h"

static int64_t base_blocks, base_mapped; /* without what is lost by design */
static size_t base_used;
static uint32_t base_lost;
static unsigned base_fds;

/* Bytes of the heap in use, after its caches were returned. */
static size_t heap_used(void)
{
	struct lend_alloc_stat stat;

	lend_alloc_trim();
	lend_alloc_stat_get(&stat);
	return stat.used;
}

/* Blocks of the C library's heap, without those of buffers that a peer may still read. */
static int64_t blocks(void)
{
	return nth_blocks() - lend_bufs_lost().blocks;
}

/* Bytes mapped, without those of such buffers and without the heap. The number of the heap's
 * regions depends on where the kept buffers are; heap_used() counts its exact bytes. */
static int64_t mapped(void)
{
	int64_t sum = nth_mapped() - (int64_t)lend_bufs_lost().mapped;

	for (size_t i = 0; i < LEND_REGION_LEAF; i++)
		if (atomic_load(&lend_region_top[i]))
			sum -= (int64_t)(LEND_REGION_LEAF * sizeof(lend_region_entry));
	lend_regions_lock();
	for (const struct lend_region *r = lend_regions_first(); r; r = r->next)
		sum -= (int64_t)(r->self_len + (r->shared ? 0 : r->len));
	lend_regions_unlock();
	return sum;
}

void nth_world_base(void)
{
	lend_free(lend_malloc_shared(1)); /* opens the arena, which stays */
	base_used = heap_used();
	base_lost = lend_bufs_lost().blocks;
	base_blocks = blocks();
	base_mapped = mapped();
	base_fds = kill_open_fds();
}

/* Entries in the folder of sockets except the lock file. */
static int names_left(void)
{
	char path[128];
	struct dirent *entry;
	DIR *dir;
	int n = 0;

	(void)snprintf(path, sizeof(path), "%s/lend", getenv("XDG_RUNTIME_DIR"));
	dir = opendir(path);
	while (dir && (entry = readdir(dir))) {
		n += entry->d_name[0] != '.';
		(void)unlinkat(dirfd(dir), entry->d_name, 0);
	}
	if (dir)
		closedir(dir);
	return n;
}

void nth_world_leaks(struct nth_world *w)
{
	int names = names_left();

	if (names && !w->lstat_failed)
		nth_wrong(w, "%d names of sockets are left", names);
	if (lend_bufs_lost().blocks != base_lost)
		base_used = heap_used(); /* with their buffers, which no ledger lists separately */
	base_lost = lend_bufs_lost().blocks;
	if (heap_used() != base_used)
		nth_wrong(w, "%zd bytes of the heap are left", (ssize_t)(heap_used() - base_used));
	if (blocks() != base_blocks)
		nth_wrong(w, "%lld blocks are left", (long long)(blocks() - base_blocks));
	if (mapped() != base_mapped)
		nth_wrong(w, "%lld mapped bytes are left", (long long)(mapped() - base_mapped));
	if (kill_open_fds() != base_fds)
		nth_wrong(w, "%d descriptors are left", (int)(kill_open_fds() - base_fds));
}
