/* media - the service of media: keeps each on the memory node, in both arms, and its reference.
 * Layer: apps. Threads: the endpoint's. */
#include <stdlib.h>

#include "apps/social/blob.h"
#include "apps/social/held.h"
#include "apps/social/social.h"

enum { MEDIA_MAX = 16 << 20 };

static struct held_map stored;

/* A request, and one medium of it that is being stored. */
struct media {
	void *request;
	Social__MediaList list;
	bool upload;   /* the reply is the medium itself */
	int64_t *made; /* ids that are new */
	size_t n_made;
};
struct body {
	struct social_blob_op op; /* first */
	struct media *of;
	struct held *held;
	Social__Blob blob;
};

static void answer_media(struct media *m)
{
	social_answer(m->request, m->upload ? &m->list.media[0]->base : &m->list.base);
}

/* A request that failed keeps none of its media. */
static void undo_media(void *state)
{
	struct media *m = state;

	for (size_t i = 0; i < m->n_made; i++) {
		struct held *h = held_find(&stored, m->made[i]);

		if (h)
			held_drop(&stored, social.mem, h);
	}
}

static void end_body(struct social_blob_op *op)
{
	struct body *b = (struct body *)op;

	if (op->op.status == LEND_OK) {
		b->held->ref[0] = social_blob_ref(&b->blob);
		(void)held_add(&stored, b->held);
	} else {
		free(b->held);
	}
	if (social_ended_with(b->of->request, op->op.status, "media cannot be stored"))
		answer_media(b->of);
}

/* Stores one medium: adopts its reference, or puts its bytes. */
static void store_body(struct media *m, int64_t id, const Social__Blob *in)
{
	struct body *b = social_state(m->request, sizeof(*b));
	uint64_t len = social_blob_len(in);

	b->of = m;
	b->held = len <= MEDIA_MAX ? held_make(id, 1, 0) : NULL;
	b->op.done = end_body;
	b->op.blob = &b->blob;
	social_begin(m->request);
	if (!b->held) {
		(void)social_ended_with(m->request, LEND_RESOURCE_EXHAUSTED, "media over 16 MiB");
		return;
	}
	b->held->len = len;
	b->blob = *(Social__Blob *)social_copy(m->request, in);
	social.counters[SOCIAL_MEDIA].blob_tx_bytes += social_blob_is_ref(in) ? 0 : len;
	if (social_blob_is_ref(in))
		social_blob_adopt(social.mem, &b->op);
	else
		social_blob_put(social.mem, &b->op, b->blob.data.data, len, LEND_OWNED);
}

static Social__Media *make_media(void *request, int64_t id, const char *type)
{
	Social__Media *media = social_memory(request, sizeof(*media));

	social__media__init(media);
	media->media_id = id;
	media->media_type = (char *)(uintptr_t)type;
	return media;
}

/* Pairs ids and types. Those with id 0 are new: the bodies are theirs, in this order. */
static void media_compose_media(Social__MediaService_Service *service, const Social__MediaReq *in,
				Social__MediaList_Closure closure, void *request)
{
	struct media *m = social_state(request, sizeof(*m));
	Social__MediaReq *req = social_copy(request, in);

	(void)service, (void)closure;
	if (in->n_media_ids != in->n_media_types) {
		social_fail(request, LEND_INVALID_ARGUMENT, "as many media ids as types, please");
		return;
	}
	m->request = request;
	social__media_list__init(&m->list);
	m->list.media = social_memory(request, in->n_media_ids * sizeof(*m->list.media));
	m->made = social_memory(request, in->n_bodies * sizeof(*m->made));
	social_on_fail(request, undo_media, m);
	social_begin(request);
	for (size_t i = 0, body = 0; i < in->n_media_ids; i++) {
		bool is_new = !in->media_ids[i] && body < in->n_bodies;
		int64_t id = is_new ? social_new_id() : in->media_ids[i];

		m->list.media[m->list.n_media++] = make_media(request, id, req->media_types[i]);
		if (!is_new)
			continue;
		m->made[m->n_made++] = id;
		store_body(m, id, req->bodies[body++]);
	}
	if (social_ended_with(request, LEND_OK, ""))
		answer_media(m);
}

static void media_upload(Social__MediaService_Service *service, const Social__Media *in,
			 Social__Media_Closure closure, void *request)
{
	struct media *m = social_state(request, sizeof(*m));
	const Social__Media *copy = social_copy(request, in);

	(void)service, (void)closure;
	if (!in->body || !social_blob_len(in->body)) {
		social_fail(request, LEND_INVALID_ARGUMENT, "media have bytes");
		return;
	}
	m->request = request;
	m->upload = true;
	m->list.media = social_memory(request, sizeof(*m->list.media));
	m->list.media[m->list.n_media++] = make_media(request, social_new_id(), copy->media_type);
	store_body(m, m->list.media[0]->media_id, copy->body);
}

static void end_get(struct social_blob_op *op)
{
	struct body *b = (struct body *)op;
	Social__Media *reply = b->of->list.media[0];

	social.counters[SOCIAL_MEDIA].blob_rx_bytes += b->blob.length;
	if (!social_ended_with(b->of->request, op->op.status, "media are lost"))
		return;
	social_blob_set(&b->blob, op->arg, b->blob.length);
	social_answer(b->of->request, &reply->base);
}

/* Answers with a reference, or reads the bytes for the reply. */
static void media_get(Social__MediaService_Service *service, const Social__Media *in,
		      Social__Media_Closure closure, void *request)
{
	struct held *h = held_find(&stored, in->media_id);
	struct body *b = social_state(request, sizeof(*b));
	Social__Media *reply = make_media(request, in->media_id, in->media_type);

	(void)service, (void)closure;
	if (!h) {
		social_fail(request, LEND_NOT_FOUND, "no such media");
		return;
	}
	reply->body = &b->blob;
	social_blob_set_ref(&b->blob, &h->ref[0], LEND_READ | LEND_MAP, b->op.text);
	if (social_by_ref(h->len)) {
		social_answer(request, &reply->base);
		return;
	}
	b->of = social_state(request, sizeof(*b->of));
	b->of->request = request;
	b->of->list.media = social_memory(request, sizeof(reply));
	b->of->list.media[0] = reply;
	b->op.blob = &b->blob;
	b->op.done = end_get;
	b->op.arg = social_memory(request, h->len);
	social_begin(request);
	social_blob_get(social.mem, &b->op, b->op.arg);
}

static void media_remove(Social__MediaService_Service *service, const Social__Ids *in,
			 Social__Empty_Closure closure, void *request)
{
	(void)service, (void)closure;
	for (size_t i = 0; i < in->n_ids; i++) {
		struct held *h = held_find(&stored, in->ids[i]);

		if (h)
			held_drop(&stored, social.mem, h);
	}
	social_answer_empty(request);
}

ProtobufCService *social_media(void)
{
	static Social__MediaService_Service service = SOCIAL__MEDIA_SERVICE__INIT(media_);

	return &service.base;
}
