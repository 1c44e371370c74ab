/* images_message - heads, and the bytes or references behind them.
 * Layer: apps. Threads: the endpoint's. */
#include <stdlib.h>
#include <string.h>

#include "apps/images.h"
#include "util/bits.h"

void images_head_store(void *at, const struct images_head *head)
{
	uint8_t *out = at;

	lend_store_u32(out, head->number);
	lend_store_u32(out + 4, (head->what & 0xffff) | head->by_ref << 16);
	lend_store_u32(out + 8, head->size.width);
	lend_store_u32(out + 12, head->size.height);
	lend_store_u32(out + 16, head->inline_max);
	lend_store_u32(out + 20, 0);
	lend_store_u64(out + 24, head->len);
	lend_store_u64(out + 32, head->codec_ns);
}

static uint64_t message_len(const struct lend_buf *buf)
{
	uint64_t len = 0;

	for (; buf; buf = buf->next)
		len += buf->len;
	return len;
}

/* Copies len bytes from offset on; the caller knows that they are there. */
static void copy_out(const struct lend_buf *buf, uint64_t offset, void *into, uint64_t len)
{
	uint8_t *out = into;

	for (; buf && len; buf = buf->next) {
		uint64_t n = buf->len > offset ? lend_min_u64(buf->len - offset, len) : 0;

		memcpy(out, (const uint8_t *)buf->data + (n ? offset : 0), n);
		offset -= n ? offset : buf->len;
		out += n;
		len -= n;
	}
}

bool images_head_load(struct images_head *head, const struct lend_buf *message)
{
	uint64_t total = message_len(message);
	uint8_t in[IMAGES_HEAD];

	if (total < IMAGES_HEAD)
		return false;
	copy_out(message, 0, in, IMAGES_HEAD);
	head->number = lend_load_u32(in);
	head->what = lend_load_u16(in + 4);
	head->by_ref = lend_load_u16(in + 6);
	head->size = (struct images_size){lend_load_u32(in + 8), lend_load_u32(in + 12)};
	head->inline_max = lend_load_u32(in + 16);
	head->len = lend_load_u64(in + 24);
	head->codec_ns = lend_load_u64(in + 32);
	if (head->what >= IMAGES_WHATS || head->by_ref > 1 || head->len > IMAGES_BYTES_MAX)
		return false;
	return total - IMAGES_HEAD == (head->by_ref ? IMAGES_REF : head->len);
}

enum images_what images_pick(const struct images_head *head)
{
	return head->number & 2 ? IMAGES_RECOMPRESS : IMAGES_THUMBNAIL;
}

static struct lend_buf *head_buf(struct lend_ep *ep, const struct images_head *head, uint32_t more)
{
	struct lend_buf *buf = lend_buf_take(ep, IMAGES_HEAD + more);

	if (!buf)
		return NULL;
	images_head_store(buf->data, head);
	buf->len = IMAGES_HEAD;
	return buf;
}

struct lend_buf *images_message(struct lend_ep *ep, const struct images_head *head, void *bytes,
				void (*gone)(void *), void *arg)
{
	struct lend_buf *buf = head_buf(ep, head, 0);

	if (!buf)
		return NULL;
	buf->next = lend_buf_wrap(ep, bytes, (uint32_t)head->len, gone, arg);
	if (!buf->next) {
		lend_buf_give(ep, buf);
		return NULL;
	}
	return buf;
}

struct lend_buf *images_message_ref(struct lend_ep *ep, const struct images_head *head,
				    const struct lend_ref *ref)
{
	struct lend_buf *buf = head_buf(ep, head, IMAGES_REF);

	if (!buf)
		return NULL;
	lend_ref_store((uint8_t *)buf->data + IMAGES_HEAD, ref);
	buf->len += IMAGES_REF;
	return buf;
}

void images_message_get_ref(const struct lend_buf *message, struct lend_ref *ref)
{
	uint8_t bytes[IMAGES_REF];

	copy_out(message, IMAGES_HEAD, bytes, IMAGES_REF);
	lend_ref_load(ref, bytes);
}

const void *images_message_bytes(const struct lend_buf *message, uint64_t len, void **copy)
{
	const struct lend_buf *buf = message;
	uint64_t skip = IMAGES_HEAD;

	*copy = NULL;
	for (; buf->next && skip >= buf->len; buf = buf->next)
		skip -= buf->len;
	if (skip + len <= buf->len)
		return (const uint8_t *)buf->data + skip;
	*copy = malloc(len);
	if (*copy)
		copy_out(message, IMAGES_HEAD, *copy, len);
	return *copy;
}

struct lend_terms images_terms(void)
{
	return (struct lend_terms){
	    .size = sizeof(struct lend_terms), .hold = LEND_TRANSFER, .ttl = IMAGES_TIMEOUT};
}
