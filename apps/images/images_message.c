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
	lend_store_u32(out + 16, head->way);
	lend_store_u32(out + 20, 0);
	lend_store_u64(out + 24, head->codec_ns);
}

static void load_head(struct images_head *head, const uint8_t *in)
{
	head->number = lend_load_u32(in);
	head->what = lend_load_u32(in + 4);
	head->size = (struct images_size){lend_load_u32(in + 8), lend_load_u32(in + 12)};
	head->way = lend_load_u32(in + 16);
	head->codec_ns = lend_load_u64(in + 24);
}

static bool is_valid(const struct images_head *head, uint64_t len)
{
	return head->what < IMAGES_WHATS && head->way <= LEND_ARG_NODE && len <= IMAGES_BYTES_MAX;
}

bool images_args_load(const struct lend_arg *args, int n, struct images_head *head)
{
	if (n != 2 || args[0].len != IMAGES_HEAD || !args[0].bytes)
		return false;
	load_head(head, args[0].bytes);
	return is_valid(head, args[1].len);
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
	       lend_arg_next(message, &cursor, &more) == 0 && is_valid(head, bytes->len);
}

enum images_what images_pick(const struct images_head *head)
{
	if (head->what == IMAGES_NEAREST)
		return IMAGES_NEAREST;
	return head->number & 2 ? IMAGES_RECOMPRESS : IMAGES_THUMBNAIL;
}
