/* cow - copy-on-write: writes into a view, in place where a page has no other reference, else into
 * one copied page each.
 * Layer: mn/store (pure), private to it. */
#ifndef MN_STORE_COW_H
#define MN_STORE_COW_H

#include "mn/store/store.h"

/* Reads a request's bytes in order. */
struct lend_cursor {
	const struct lend_store_seg *seg;
	uint32_t n;
	uint64_t at; /* offset in the first segment */
};
/* Copies up to len bytes and advances. Returns the number of bytes copied. */
uint64_t lend_cursor_read(struct lend_cursor *c, void *to, uint64_t len);

/* Appends a piece of memory; merges it with the last segment when they are adjacent. */
static inline void lend_seg_add(struct lend_store_seg *seg, uint32_t *n, uint8_t *data,
				uint64_t len)
{
	if (*n && (uint8_t *)seg[*n - 1].data + seg[*n - 1].len == data)
		seg[*n - 1].len += len;
	else
		seg[(*n)++] = (struct lend_store_seg){data, len};
}

/* Writes len bytes to [offset, offset + len) of view, which must contain them. Returns false, with
 * nothing changed, when frames, nodes or the view's limit do not suffice. placed: chain of frames
 * that hold the bytes (see lend_store_place), or 0 to read them from bytes. Frames that are used
 * leave the chain. */
bool lend_cow_write(struct lend_store *s, struct lend_view *view, uint64_t offset, uint64_t len,
		    struct lend_cursor *bytes, uint32_t *placed);

#endif
