/* images_message - heads, and what follows them: a message is two arguments.
 * Layer: apps. Threads: the endpoint's. */
#include "apps/images/images.h"
#include "util/bits.h"

void images_head_store(void *at, const struct images_head *head)
{
	uint8_t *out = at;

	lend_store_u32(out, head->number);
	lend_store_u32(out + 4, head->what);
	lend_store_u32(out + 8, head->size.width);
	lend_store_u32(out + 12, head->size.height);
	lend_store_u64(out + 16, head->inline_max);
	lend_store_u64(out + 24, head->codec_ns);
}

static void load_head(struct images_head *head, const uint8_t *in)
{
	head->number = lend_load_u32(in);
	head->what = lend_load_u32(in + 4);
	head->size = (struct images_size){lend_load_u32(in + 8), lend_load_u32(in + 12)};
	head->inline_max = lend_load_u64(in + 16);
	head->codec_ns = lend_load_u64(in + 24);
}

bool images_message_load(const struct lend_buf *message, struct images_head *head,
			 struct lend_arg *bytes)
{
	struct lend_arg more;
	uint32_t cursor = 0;

	if (lend_arg_next(message, &cursor, bytes) != 1 || bytes->len != IMAGES_HEAD ||
	    !bytes->bytes)
		return false;
	load_head(head, bytes->bytes);
	return lend_arg_next(message, &cursor, bytes) == 1 &&
	       lend_arg_next(message, &cursor, &more) == 0 && head->what < IMAGES_WHATS &&
	       head->inline_max >= IMAGES_HEAD && bytes->len <= IMAGES_BYTES_MAX;
}

enum images_what images_pick(const struct images_head *head)
{
	return head->number & 2 ? IMAGES_RECOMPRESS : IMAGES_THUMBNAIL;
}
