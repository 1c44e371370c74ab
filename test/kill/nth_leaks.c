/* nth_leaks - what a history left behind: names, heap, blocks, mappings, descriptors. Part of
 * nth_world.h. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc/region.h"
#include "kill/nth_world.h"
#include "kill/sight.h"
#include "lend/alloc.h"
#include "rpc/bufs.h"

static int64_t base_blocks, base_mapped;
static size_t base_used;
static unsigned base_fds;

/* Bytes of the heap that somebody has; what it keeps for the next who asks goes back first. */
static size_t heap_used(void)
{
	struct lend_alloc_stat stat;

	lend_alloc_trim();
	lend_alloc_stat(&stat);
	return stat.used;
}

/* Bytes mapped, but for the heap's index of addresses: it grows with where memory was, and stays.
 */
static int64_t mapped(void)
{
	int64_t leaves = 0;

	for (size_t i = 0; i < LEND_REGION_LEAF; i++)
		leaves += atomic_load(&lend_region_top[i]) != NULL;
	return nth_mapped() - leaves * (int64_t)(LEND_REGION_LEAF * sizeof(lend_region_entry));
}

void nth_world_base(void)
{
	lend_free(lend_malloc_shared(1)); /* opens the arena, which stays */
	base_used = heap_used();
	base_blocks = nth_blocks();
	base_mapped = mapped();
	base_fds = kill_open_fds();
}

/* Names in the folder of sockets without the lock. */
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
	struct lend_bufs_lost lost = lend_bufs_lost();
	int64_t blocks, bytes;

	if (names && !w->lstat_failed)
		nth_wrong(w, "%d names of sockets are left", names);
	/* What a peer that could not be told may still read in place is never used again. */
	if (!w->strict && w->scheme && strcmp(w->scheme, "shm") == 0)
		base_used = heap_used();
	if (heap_used() != base_used)
		nth_wrong(w, "%zd bytes of the heap are left", (ssize_t)(heap_used() - base_used));
	blocks = nth_blocks() - lost.blocks - base_blocks;
	bytes = mapped() - (int64_t)lost.mapped - base_mapped;
	if (blocks != 0)
		nth_wrong(w, "%lld blocks are left", (long long)blocks);
	if (bytes != 0)
		nth_wrong(w, "%lld mapped bytes are left", (long long)bytes);
	if (kill_open_fds() != base_fds)
		nth_wrong(w, "%d descriptors are left", (int)(kill_open_fds() - base_fds));
}
