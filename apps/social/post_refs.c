/* post_refs - see post_refs.h. */
#include "apps/social/post_refs.h"

#include <stdlib.h>
#include <string.h>

#include "apps/social/request_blob.h"
#include "apps/social/social.h"

enum { BLOB_MAX = 16 << 20 };

struct post_taken *post_refs_make(void *request, Social__Post *post)
{
	struct post_taken *t = social_state(request, sizeof(*t));

	t->request = request;
	t->post = post;
	t->n = post_blobs(post, t->blob);
	t->part = social_state(request, t->n * sizeof(*t->part));
	for (size_t i = 0; i < t->n; i++)
		t->part[i].of = t;
	return t;
}

static void end_operation(struct post_blob *p, enum lend_status status)
{
	if (social_ended_with(p->of->request, status, "bytes are not on the memory node"))
		p->of->next(p->of, p->of->arg);
}

static void end_get(struct social_blob_op *op)
{
	end_operation(op->arg, op->op.status);
}

static void end_adopt(struct social_blob_op *op)
{
	struct post_blob *p = op->arg;

	p->holds = op->op.status == LEND_OK;
	end_operation(p, op->op.status);
}

/* Replaces a reference by its bytes, and adopts it. */
static void take_blob(struct post_taken *t, size_t i)
{
	struct post_blob *p = &t->part[i];
	uint64_t len = social_blob_len(t->blob[i]);
	char *bytes = social_memory(t->request, len);

	p->by_ref = *t->blob[i];
	p->get = (struct social_blob_op){.blob = &p->by_ref, .done = end_get, .arg = p};
	p->hold = (struct social_blob_op){.blob = &p->by_ref, .done = end_adopt, .arg = p};
	social.counters[SOCIAL_POST_STORAGE].blob_rx_bytes += len;
	social_begin(t->request);
	social_blob_get(social.mem, &p->get, bytes);
	social_begin(t->request);
	social_blob_adopt(social.mem, &p->hold);
	social_blob_set(t->blob[i], bytes, len);
}

void post_refs_take(struct post_taken *taken, post_taken_fn *next, void *arg)
{
	taken->next = next;
	taken->arg = arg;
	social_begin(taken->request);
	for (size_t i = 0; i < taken->n; i++) {
		if (!social_blob_is_ref(taken->blob[i]))
			continue;
		if (social_blob_len(taken->blob[i]) <= BLOB_MAX) {
			take_blob(taken, i);
			continue;
		}
		social_begin(taken->request);
		(void)social_ended_with(taken->request, LEND_INVALID_ARGUMENT, "over 16 MiB");
	}
	if (social_ended_with(taken->request, LEND_OK, ""))
		next(taken, arg);
}

/* A node that refuses bytes leaves them in place. */
static void end_put(struct social_blob_op *op)
{
	struct post_blob *p = op->arg;

	p->holds = op->op.status == LEND_OK;
	end_operation(p, LEND_OK);
}

static void put_blob(struct post_taken *t, size_t i)
{
	struct post_blob *p = &t->part[i];
	const ProtobufCBinaryData *bytes = &t->blob[i]->data;

	p->by_ref = *t->blob[i];
	p->hold = (struct social_blob_op){.blob = &p->by_ref, .done = end_put, .arg = p};
	social.counters[SOCIAL_POST_STORAGE].blob_tx_bytes += bytes->len;
	social_begin(t->request);
	social_blob_put(social.mem, &p->hold, bytes->data, bytes->len, LEND_OWNED);
}

void post_refs_put(struct post_taken *const *taken, size_t n, post_taken_fn *next, void *arg)
{
	void *request = taken[0]->request;

	social_begin(request);
	for (size_t i = 0; i < n; i++) {
		taken[i]->next = next;
		taken[i]->arg = arg;
		for (size_t j = 0; j < taken[i]->n; j++)
			if (social_by_ref(taken[i]->blob[j]->data.len))
				put_blob(taken[i], j);
	}
	if (social_ended_with(request, LEND_OK, ""))
		next(taken[0], arg);
}

/* Encodes a post with the references that this process holds. Returns NULL: it holds none. */
static struct held *encode_held(struct post_taken *t)
{
	Social__Blob full[POST_BLOBS_MAX];
	uint8_t text[POST_BLOBS_MAX][SOCIAL_REF_LEN];
	struct held *h = NULL;
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++) {
		full[i] = *t->blob[i];
		if (!t->part[i].holds)
			continue;
		t->part[i].hold.ref = social_blob_ref(&t->part[i].by_ref);
		social_blob_set_ref(t->blob[i], &t->part[i].hold.ref, LEND_READ | LEND_MAP,
				    text[i]);
		n++;
	}
	if (n)
		h = held_make(t->post->post_id, n, social__post__get_packed_size(t->post));
	if (h)
		social__post__pack(t->post, h->bytes);
	for (size_t i = 0, at = 0; i < t->n; i++) {
		*t->blob[i] = full[i];
		if (h && t->part[i].holds)
			h->ref[at++] = t->part[i].hold.ref;
	}
	return h;
}

void post_refs_cache(struct post_taken *taken, struct held_map *cache)
{
	struct held *h = encode_held(taken);

	if (h && held_add(cache, h) != h) { /* another request was first */
		post_refs_undo(taken);
		free(h);
	}
}

struct post_bytes post_refs_bytes(struct post_taken *taken, struct held_map *cache)
{
	const struct held *h;
	uint8_t *bytes;
	size_t len;

	post_refs_cache(taken, cache);
	h = held_find(cache, taken->post->post_id);
	if (h)
		return (struct post_bytes){
		    social_text_copy(taken->request, (char *)h->bytes, h->bytes_len), h->bytes_len};
	len = social__post__get_packed_size(taken->post);
	bytes = social_memory(taken->request, len);
	return (struct post_bytes){bytes, social__post__pack(taken->post, bytes)};
}

void post_refs_undo(struct post_taken *taken)
{
	for (size_t i = 0; i < taken->n; i++) {
		if (taken->part[i].holds)
			social_blob_give_back(&taken->part[i].by_ref);
		taken->part[i].holds = false;
	}
}
