#include "apps/social/media_store.h"

#include <stdlib.h>

#include "apps/social/held.h"
#include "apps/social/request_blob.h"
#include "apps/social/social.h"

enum { MEDIA_MAX = 16 << 20 };

static struct held_map stored;

/* A medium that is stored or read. */
struct body {
	struct social_blob_op op; /* first */
	void *request;
	struct held *held;
	Social__Blob blob;
	media_next_fn *next;
	void *arg;
};

static struct body *make_body(void *request, media_next_fn *next, void *arg)
{
	struct body *b = social_state(request, sizeof(*b));

	b->request = request;
	b->next = next;
	b->arg = arg;
	b->op.blob = &b->blob;
	return b;
}

static void end_add(struct social_blob_op *op)
{
	struct body *b = (struct body *)op;
	enum lend_status status = op->op.status;

	if (status == LEND_OK) {
		b->held->ref[0] = social_blob_ref(&b->blob);
		if (held_add(&stored, b->held) != b->held) {
			social_blob_give_back(&b->blob);
			status = LEND_RESOURCE_EXHAUSTED;
		}
	}
	if (status != LEND_OK)
		free(b->held);
	if (social_ended_with(b->request, status, "media cannot be stored"))
		b->next(b->arg);
}

void media_store_add(void *request, int64_t id, const Social__Blob *in, media_next_fn *next,
		     void *arg)
{
	struct body *b = make_body(request, next, arg);
	uint64_t len = social_blob_len(in);

	b->held = len <= MEDIA_MAX ? held_make(id, 1, 0) : NULL;
	b->op.done = end_add;
	social_begin(request);
	if (!b->held) {
		(void)social_ended_with(request, LEND_RESOURCE_EXHAUSTED, "media over 16 MiB");
		return;
	}
	b->held->len = len;
	b->blob = *in;
	social.counters[SOCIAL_MEDIA].blob_tx_bytes += social_blob_is_ref(in) ? 0 : len;
	if (social_blob_is_ref(in))
		social_blob_adopt(social.mem, &b->op);
	else
		social_blob_put(social.mem, &b->op, in->data.data, len, LEND_OWNED);
}

static void end_read(struct social_blob_op *op)
{
	struct body *b = (struct body *)op;

	social.counters[SOCIAL_MEDIA].blob_rx_bytes += b->blob.length;
	if (!social_ended_with(b->request, op->op.status, "media are lost"))
		return;
	social_blob_set(&b->blob, op->arg, b->blob.length);
	b->next(b->arg);
}

void media_store_read(void *request, Social__Media *media, media_next_fn *next, void *arg)
{
	const struct held *h = held_find(&stored, media->media_id);
	struct body *b = make_body(request, next, arg);

	if (!h) {
		social_fail(request, LEND_NOT_FOUND, "no such media");
		return;
	}
	media->body = &b->blob;
	social_blob_set_ref(&b->blob, &h->ref[0], LEND_READ | LEND_MAP, b->op.text);
	if (social_by_ref(h->len)) {
		next(arg);
		return;
	}
	b->op.done = end_read;
	b->op.arg = social_memory(request, h->len);
	social_begin(request);
	social_blob_get(social.mem, &b->op, b->op.arg);
}

void media_store_drop(int64_t id)
{
	struct held *h = held_find(&stored, id);

	if (h)
		held_drop(&stored, social.mem, h);
}
