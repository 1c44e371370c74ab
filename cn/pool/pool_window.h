/* pool_window - one private mapping of a whole pool, for spaces that are one run of frames.
 *
 * To map, fault in and unmap memory costs more than to read it. Here, a page that was read once
 * stays mapped for the next space, and always shows the present bytes of its frame. A range shows
 * one space at a time, because stores are private. When it is given back, pages that were stored to
 * are dropped. The caller maps any other space by itself.
 *
 * Layer: cn. Threads: the endpoint's; the memory is touched by any. Ranges outlive the pool. */
#ifndef LEND_CN_POOL_POOL_WINDOW_H
#define LEND_CN_POOL_POOL_WINDOW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct cn_window;

/* A range of a window; the user's memory while it is taken. */
struct cn_pane {
	TAILQ_ENTRY(cn_pane) list;
	struct cn_window *window; /* NULL: not taken */
	uint64_t from, len;       /* whole pages of the file */
};

/* Maps a file of size bytes. Returns NULL if it cannot be mapped in this way. pagemap: of this
 * process, borrowed; -1 if it cannot be read. */
struct cn_window *cn_window_open(int file, uint64_t size, int pagemap);
/* Closes it; the mapping ends with its last pane. NULL does nothing. */
void cn_window_close(struct cn_window *window);
/* Returns where the file's bytes [from, from + len) are mapped. NULL: not in a window, or another
 * pane has some of them now. window may be NULL. */
char *cn_pane_take(struct cn_pane *pane, struct cn_window *window, uint64_t from, uint64_t len);
void cn_pane_give(struct cn_pane *pane);

#endif
