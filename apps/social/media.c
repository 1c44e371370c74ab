/* media - the service of media: pairs ids and types, and keeps the bytes that come with them.
 * Layer: apps. Threads: the endpoint's. */
#include <string.h>

#include "apps/social/media_store.h"
#include "apps/social/social.h"

/* A request with media. */
struct media {
	void *request;
	Social__MediaList list;
	bool one;      /* the reply is a medium, not a list */
	int64_t *made; /* ids that are new */
	size_t n_made;
};

static void answer_media(void *state)
{
	struct media *m = state;

	social_answer(m->request, m->one ? &m->list.media[0]->base : &m->list.base);
}

/* A request that failed keeps none of its media. */
static void undo_media(void *state)
{
	const struct media *m = state;

	for (size_t i = 0; i < m->n_made; i++)
		media_store_drop(m->made[i]);
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
		media_store_add(m->request, id, req->bodies[body++], answer_media, m);
	}
	if (social_ended_with(request, LEND_OK, ""))
		answer_media(m);
}

/* Makes a request of one medium. */
static struct media *make_one(void *request, int64_t id, const char *type)
{
	struct media *m = social_state(request, sizeof(*m));

	m->request = request;
	m->one = true;
	m->list.media = social_memory(request, sizeof(*m->list.media));
	m->list.media[0] = make_media(request, id, social_text_copy(request, type, strlen(type)));
	return m;
}

static void media_upload(Social__MediaService_Service *service, const Social__Media *in,
			 Social__Media_Closure closure, void *request)
{
	struct media *m = make_one(request, social_new_id(), in->media_type);

	(void)service, (void)closure;
	if (in->body && social_blob_len(in->body))
		media_store_add(request, m->list.media[0]->media_id, social_copy(request, in->body),
				answer_media, m);
	else
		social_fail(request, LEND_INVALID_ARGUMENT, "media have bytes");
}

static void media_get(Social__MediaService_Service *service, const Social__Media *in,
		      Social__Media_Closure closure, void *request)
{
	struct media *m = make_one(request, in->media_id, in->media_type);

	(void)service, (void)closure;
	media_store_read(request, m->list.media[0], answer_media, m);
}

static void media_remove(Social__MediaService_Service *service, const Social__Ids *in,
			 Social__Empty_Closure closure, void *request)
{
	(void)service, (void)closure;
	for (size_t i = 0; i < in->n_ids; i++)
		media_store_drop(in->ids[i]);
	social_answer_empty(request);
}

ProtobufCService *social_media(void)
{
	static Social__MediaService_Service service = SOCIAL__MEDIA_SERVICE__INIT(media_);

	return &service.base;
}
