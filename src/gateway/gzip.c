/* gzip - messages compressed with gzip. See gzip.h. */
#include "gateway/gzip.h"

#include <zlib.h>

#include "gateway/connection.h"
#include "util/bits.h"

enum {
	GZIP_WINDOW = 15 + 16, /* zlib's windowBits: the longest window, and gzip's format */
	GZIP_MEMORY = 8,       /* zlib's memLevel: its default */
	FIRST_TIMES = 4,       /* first memory for a decompressed message, in compressed lengths */
	SEGMENT = 64 << 10     /* more than that only after as much has been filled */
};

/* A message that is being decompressed. */
struct inflation {
	z_stream z;
	struct lend_ep *ep;
	uint64_t max, first; /* bytes: longest message, first segment */
	struct message_in out;
};

/* Adds memory. One byte more than max shows that a message is too long. */
static enum message_state add_segment(struct inflation *f)
{
	uint64_t grown = lend_max_u64(f->first, f->out.received);
	uint64_t room = f->max + 1 - f->out.received;
	struct lend_buf *buf;

	if (!room)
		return MESSAGE_TOO_LONG;
	buf = host->buf_take(f->ep, (uint32_t)lend_min_u64(room, grown));
	if (!buf)
		return MESSAGE_NO_MEMORY;
	*(f->out.last ? &f->out.last->next : &f->out.first) = buf;
	f->out.last = buf;
	f->z.next_out = buf->data;
	f->z.avail_out = (uint32_t)lend_min_u64(room, buf->cap);
	return MESSAGE_OPEN;
}

/* Decompresses what fits into the last segment. */
static enum message_state inflate_some(struct inflation *f)
{
	uint32_t room = f->z.avail_out, done;
	int rc = inflate(&f->z, Z_NO_FLUSH);

	done = room - f->z.avail_out;
	f->out.last->len += done;
	f->out.received += done;
	if (rc == Z_STREAM_END)
		return MESSAGE_COMPLETE;
	if (rc == Z_MEM_ERROR)
		return MESSAGE_NO_MEMORY;
	return rc == Z_OK || (rc == Z_BUF_ERROR && !f->z.avail_in) ? MESSAGE_OPEN
								   : MESSAGE_MALFORMED;
}

static enum message_state inflate_chain(struct inflation *f, const struct lend_buf *from)
{
	enum message_state state = MESSAGE_OPEN;

	for (; from; from = from->next) {
		f->z.next_in = from->data;
		f->z.avail_in = from->len;
		while (state == MESSAGE_OPEN && (f->z.avail_in || !f->z.avail_out)) {
			if (!f->z.avail_out)
				state = add_segment(f);
			if (state == MESSAGE_OPEN)
				state = inflate_some(f);
		}
		if (state != MESSAGE_OPEN && state != MESSAGE_COMPLETE)
			return state;
		if (state == MESSAGE_COMPLETE && (f->z.avail_in || from->next))
			return MESSAGE_MALFORMED; /* bytes behind the end */
	}
	if (state != MESSAGE_COMPLETE)
		return MESSAGE_MALFORMED; /* cut */
	return f->out.received > f->max ? MESSAGE_TOO_LONG : MESSAGE_COMPLETE;
}

enum message_state gzip_inflate(struct message_in *in, struct lend_ep *ep, uint64_t max)
{
	struct inflation f = {.ep = ep, .max = max};
	enum message_state state;

	f.first = lend_max_u64(1, lend_min_u64(FIRST_TIMES * in->received, SEGMENT));
	if (inflateInit2(&f.z, GZIP_WINDOW) != Z_OK)
		return MESSAGE_NO_MEMORY;
	state = inflate_chain(&f, in->first);
	(void)inflateEnd(&f.z);
	if (state != MESSAGE_COMPLETE) {
		host->buf_give(ep, f.out.first);
		return state;
	}
	host->buf_give(ep, in->first);
	in->first = f.out.first;
	in->last = f.out.last;
	in->received = f.out.received;
	return state;
}

static bool deflate_chain(z_stream *z, const struct lend_buf *from)
{
	int rc = Z_OK;

	for (; from && rc == Z_OK; from = from->next) {
		z->next_in = from->data;
		z->avail_in = from->len;
		if (from->len || !from->next)
			rc = deflate(z, from->next ? Z_NO_FLUSH : Z_FINISH);
		if (z->avail_in)
			return false;
	}
	return rc == Z_STREAM_END;
}

struct lend_buf *gzip_deflate(struct lend_ep *ep, const struct lend_buf *message, uint64_t *len)
{
	struct lend_buf *out =
	    *len && *len <= UINT32_MAX ? host->buf_take(ep, (uint32_t)*len) : NULL;
	z_stream z = {0};
	bool shorter = false;

	if (out && deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, GZIP_MEMORY,
				Z_DEFAULT_STRATEGY) == Z_OK) {
		z.next_out = out->data;
		z.avail_out = (uint32_t)*len - 1;
		shorter = deflate_chain(&z, message);
		(void)deflateEnd(&z);
	}
	if (!shorter) {
		host->buf_give(ep, out);
		return NULL;
	}
	out->len = (uint32_t)*len - 1 - z.avail_out;
	*len = out->len;
	return out;
}
