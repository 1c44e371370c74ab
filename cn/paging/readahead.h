/* readahead - derives from the touches that had to wait how many pages to fetch next.
 *
 * A touch where the pages of an earlier one ended continues that stream, and the stream's window
 * doubles. Any other touch begins a stream of one page, which replaces the stream that was idle for
 * longest. So in one memory, scans fetch a MiB at a time, and random touches a page each.
 * Layer: cn. Lives by value in its owner, under its lock. */
#ifndef LEND_CN_PAGING_READAHEAD_H
#define LEND_CN_PAGING_READAHEAD_H

#include <stdint.h>

enum { CN_READAHEAD_STREAMS = 4, CN_READAHEAD_MIN = 4, CN_READAHEAD_MAX = 256 };

struct cn_readahead {
	struct cn_stream {
		uint64_t next;   /* the page where it continues */
		uint32_t window; /* pages; 0: never used */
		uint32_t touch;  /* count of touches at its last one */
	} stream[CN_READAHEAD_STREAMS];
	uint32_t touches;
};

/* Call it when a touch of page waits. Returns its stream, with the new window. */
struct cn_stream *cn_readahead_touch(struct cn_readahead *ahead, uint64_t page);

#endif
