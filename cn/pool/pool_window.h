/* pool_window - one private mapping of a whole pool, in which spaces are shown that lie in one run
 * of frames.
 *
 * To map and unmap memory, and to fault its pages in, costs more than to read them. Here a page
 * that was read once stays mapped from one space to the next, and always shows the bytes that its
 * frame has then. A range shows one space at a time, for stores are private: when it is given back,
 * pages that were stored to are dropped. What does not fit is for the caller to map by itself.
 *
 * Layer: cn. Threads: the endpoint's; the memory is touched by any. Ranges outlive the pool. */
#ifndef LEND_CN_POOL_POOL_WINDOW_H
#define LEND_CN_POOL_POOL_WINDOW_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct cn_window;

/* Part of a window; the user's memory while it is taken. */
struct cn_pane {
	TAILQ_ENTRY(cn_pane) list;
	struct cn_window *window; /* NULL: not taken */
	uint64_t from, len;       /* whole pages of the file */
};

/* Of a file of size bytes; NULL: it cannot be mapped so. pagemap: of this process, borrowed; -1
 * when it cannot be read. */
struct cn_window *cn_window_open(int file, uint64_t size, int pagemap);
/* The mapping goes with its last pane. NULL is nothing. */
void cn_window_close(struct cn_window *window);
/* Where the file's bytes [from, from + len) are; NULL: not in a window, or another has some of them
 * now. window may be NULL. */
char *cn_pane_take(struct cn_pane *pane, struct cn_window *window, uint64_t from, uint64_t len);
void cn_pane_give(struct cn_pane *pane);

#endif
