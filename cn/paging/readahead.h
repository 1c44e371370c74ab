/* readahead - guesses from the touches that had to wait how many pages the next ones will want.
 *
 * A touch where an earlier one's pages ended goes on with that stream, and its window doubles; any
 * other begins a stream of one page in place of the one that was quiet for longest. So a scan is
 * fetched a MiB at a time while random touches fetch a page each, in one memory at once.
 * Layer: cn. Lives by value in its owner, under its lock. */
#ifndef LEND_CN_PAGING_READAHEAD_H
#define LEND_CN_PAGING_READAHEAD_H

#include <stdint.h>

enum { CN_AHEAD_STREAMS = 4, CN_AHEAD_MIN = 4, CN_AHEAD_MAX = 256 };

struct cn_ahead {
	struct cn_stream {
		uint64_t next;   /* where it goes on */
		uint32_t window; /* pages; 0: never used */
		uint32_t touch;  /* when it was, by count */
	} stream[CN_AHEAD_STREAMS];
	uint32_t touches;
};

/* A touch of page waits: the stream that it belongs to, with its new window. */
struct cn_stream *cn_ahead_touch(struct cn_ahead *ahead, uint64_t page);

#endif
