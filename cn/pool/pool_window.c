#include "cn/pool/pool_window.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "util/bits.h"
#include "util/check.h"

/* PANE_MAX: to check a longer range costs more than to unmap it. PANES_MAX: each take compares with
 * all panes. */
enum { PAGE = 4096, PANE_MAX = 4 << 20, PANES_MAX = 64, CHUNK = 512 };
#define ENTRY_FILE  (UINT64_C(1) << 61)
#define ENTRY_THERE (UINT64_C(3) << 62) /* bits of a pagemap entry: present, swapped */

struct cn_window {
	char *base;
	uint64_t size;
	int pagemap;
	int file;   /* a duplicate: outlives the pool */
	uint32_t n; /* number of panes */
	bool closed;
	bool full; /* no pane is given out any more */
	TAILQ_HEAD(, cn_pane) panes;
};

/* Returns false for huge pages and devices: they are mapped, and dropped, in other units. */
static bool is_plain(int file)
{
	/* Not st_blksize, which is that of a huge page wherever shmem may use some. */
	struct statfs fs;
	struct stat st;

	return fstat(file, &st) == 0 && S_ISREG(st.st_mode) && fstatfs(file, &fs) == 0 &&
	       fs.f_bsize <= PAGE;
}

struct cn_window *cn_window_open(int file, uint64_t size, int pagemap)
{
	struct cn_window *w;

	if (pagemap < 0 || !size || size % PAGE || !is_plain(file))
		return NULL;
	w = calloc(1, sizeof(*w));
	if (!w)
		return NULL;
	w->base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, file, 0);
	if (w->base == MAP_FAILED) {
		free(w);
		return NULL;
	}
	(void)madvise(w->base, size, MADV_DONTFORK);
	w->file = fcntl(file, F_DUPFD_CLOEXEC, 3);
	w->size = size;
	w->pagemap = pagemap;
	TAILQ_INIT(&w->panes);
	return w;
}

static void free_window(struct cn_window *w)
{
	if (!w->closed || w->n)
		return;
	munmap(w->base, w->size);
	if (w->file >= 0)
		close(w->file);
	free(w);
}

void cn_window_close(struct cn_window *window)
{
	if (!window)
		return;
	window->closed = true;
	free_window(window);
}

char *cn_pane_take(struct cn_pane *pane, struct cn_window *w, uint64_t from, uint64_t len)
{
	const struct cn_pane *other;

	LEND_CHECK(!pane->window);
	if (!w || w->full || !len || len > PANE_MAX || w->n == PANES_MAX || from > w->size ||
	    len > w->size - from || (from | len) % PAGE)
		return NULL;
	TAILQ_FOREACH(other, &w->panes, list)
	if (from < other->from + other->len && other->from < from + len)
		return NULL;
	*pane = (struct cn_pane){.window = w, .from = from, .len = len};
	TAILQ_INSERT_HEAD(&w->panes, pane, list);
	w->n++;
	return w->base + from;
}

/* Drops what was stored in a range, so that the next user never sees it. Locked pages (mlockall)
 * cannot be dropped; their range is mapped again. */
static bool drop_range(const struct cn_window *w, char *at, size_t len)
{
	return madvise(at, len, MADV_DONTNEED) == 0 ||
	       mmap(at, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED,
		    w->file, at - w->base) != MAP_FAILED;
}

/* Drops the pages that were stored to, of n pages at at; all of them if pagemap cannot be read. */
static bool clean_pages(const struct cn_window *w, char *at, size_t n)
{
	uint64_t entry[CHUNK];
	off_t from = (off_t)((uintptr_t)at / PAGE * sizeof(entry[0]));
	bool fine = true;

	if (w->closed || /* pagemap may be another file by now */
	    pread(w->pagemap, entry, n * sizeof(entry[0]), from) !=
		(ssize_t)(n * sizeof(entry[0]))) {
		return drop_range(w, at, n * PAGE);
	}
	for (size_t i = 0, run; i < n; i += run) {
		bool stored = entry[i] & ENTRY_THERE && !(entry[i] & ENTRY_FILE);

		for (run = 1; i + run < n; run++)
			if ((entry[i + run] & ENTRY_THERE && !(entry[i + run] & ENTRY_FILE)) !=
			    stored)
				break;
		if (stored)
			fine &= drop_range(w, at + i * PAGE, run * PAGE);
	}
	return fine;
}

void cn_pane_give(struct cn_pane *pane)
{
	struct cn_window *w = pane->window;
	bool fine = true;

	for (uint64_t at = 0, n; at < pane->len; at += n * PAGE) {
		n = lend_min_u64(CHUNK, (pane->len - at) / PAGE);
		fine &= clean_pages(w, w->base + pane->from + at, n);
	}
	/* Pages that cannot be dropped hide their frames: give out no more panes. */
	w->full |= !fine;
	TAILQ_REMOVE(&w->panes, pane, list);
	pane->window = NULL;
	w->n--;
	free_window(w);
}
