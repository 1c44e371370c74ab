/* compose_post - the service that makes a post: four services in parallel, then its storage, then
 * the timelines, one after the other. A timeline never has a post that is not stored.
 * Layer: apps. Threads: the endpoint's. */
#include "apps/social/blob.h"
#include "apps/social/social.h"

struct compose {
	void *request;
	Social__ComposeReq *in;
	Social__Post post;
	Social__Entry entry;
	bool stored;
};

static void end_remove(const Social__Empty *reply, void *arg)
{
	(void)reply, (void)arg;
}

/* Gives back what a failed compose made: the reference of its text, and stored media. */
static void undo_compose(void *state)
{
	struct compose *c = state;
	ProtobufCService *media = social.transport->client(SOCIAL_MEDIA, NULL);
	Social__Ids ids = SOCIAL__IDS__INIT;

	if (c->stored)
		return;
	if (c->post.text && social_blob_is_ref(c->post.text)) {
		struct lend_ref ref = social_blob_ref(c->post.text);

		social_blob_drop(social.mem, &ref);
	}
	ids.ids = social_memory(c->request, c->post.n_media * sizeof(*ids.ids));
	for (size_t i = 0; i < c->post.n_media; i++)
		if (!c->in->media->media_ids[i])
			ids.ids[ids.n_ids++] = c->post.media[i]->media_id;
	if (ids.n_ids && media)
		social__media_service__remove(media, &ids, end_remove, NULL);
}

static void end_home(const Social__Empty *reply, void *state)
{
	struct compose *c = state;

	if (social_ended(c->request, SOCIAL_HOME_TIMELINE, reply))
		social_answer_empty(c->request);
}

static void end_user(const Social__Empty *reply, void *state)
{
	struct compose *c = state;

	if (social_ended(c->request, SOCIAL_USER_TIMELINE, reply))
		social__home_timeline_service__write_home_timeline(
		    social_call(c->request, SOCIAL_HOME_TIMELINE), &c->entry, end_home, c);
}

static void end_store(const Social__Empty *reply, void *state)
{
	struct compose *c = state;

	c->stored = reply != NULL;
	if (social_ended(c->request, SOCIAL_POST_STORAGE, reply))
		social__user_timeline_service__write_user_timeline(
		    social_call(c->request, SOCIAL_USER_TIMELINE), &c->entry, end_user, c);
}

/* Stores the post when its parts are there. */
static void store_post(struct compose *c)
{
	Social__Entry *e = &c->entry;

	e->post_id = c->post.post_id;
	e->user_id = c->post.creator->user_id;
	e->timestamp = c->post.timestamp;
	e->user_mentions_id =
	    social_memory(c->request, c->post.n_user_mentions * sizeof(*e->user_mentions_id));
	for (size_t i = 0; i < c->post.n_user_mentions; i++)
		e->user_mentions_id[e->n_user_mentions_id++] = c->post.user_mentions[i]->user_id;
	for (size_t i = 0; social.embed && i < c->post.n_media && i < c->in->media->n_bodies; i++)
		c->post.media[i]->body = c->in->media->bodies[i];
	social__post_storage_service__store_post(social_call(c->request, SOCIAL_POST_STORAGE),
						 &c->post, end_store, c);
}

static void got_text(const Social__TextReply *reply, void *state)
{
	struct compose *c = state;
	Social__TextReply *text = social_copy(c->request, reply);

	if (text) {
		c->post.text = text->text;
		c->post.n_user_mentions = text->n_user_mentions;
		c->post.user_mentions = text->user_mentions;
		c->post.n_urls = text->n_urls;
		c->post.urls = text->urls;
	}
	if (social_ended(c->request, SOCIAL_TEXT, reply))
		store_post(c);
}

static void got_creator(const Social__User *reply, void *state)
{
	struct compose *c = state;

	c->post.creator = social_copy(c->request, reply);
	if (social_ended(c->request, SOCIAL_USER, reply))
		store_post(c);
}

static void got_media(const Social__MediaList *reply, void *state)
{
	struct compose *c = state;
	Social__MediaList *list = social_copy(c->request, reply);

	if (list) {
		c->post.n_media = list->n_media;
		c->post.media = list->media;
	}
	if (social_ended(c->request, SOCIAL_MEDIA, reply))
		store_post(c);
}

static void got_id(const Social__Id *reply, void *state)
{
	struct compose *c = state;

	c->post.post_id = reply ? reply->id : 0;
	if (social_ended(c->request, SOCIAL_UNIQUE_ID, reply))
		store_post(c);
}

static void call_parts(struct compose *c)
{
	Social__TextReq text = SOCIAL__TEXT_REQ__INIT;
	Social__MediaReq media = *c->in->media;
	Social__UniqueIdReq id = SOCIAL__UNIQUE_ID_REQ__INIT;

	text.text = c->in->text;
	media.n_bodies = social.embed ? 0 : media.n_bodies;
	id.post_type = c->in->post_type;
	social_begin(c->request);
	social__text_service__compose_text(social_call(c->request, SOCIAL_TEXT), &text, got_text,
					   c);
	social__user_service__compose_creator_with_user_id(social_call(c->request, SOCIAL_USER),
							   c->in->creator, got_creator, c);
	social__media_service__compose_media(social_call(c->request, SOCIAL_MEDIA), &media,
					     got_media, c);
	social__unique_id_service__compose_unique_id(social_call(c->request, SOCIAL_UNIQUE_ID), &id,
						     got_id, c);
	if (social_ended_with(c->request, LEND_OK, ""))
		store_post(c);
}

static void compose_post_compose_post(Social__ComposePostService_Service *service,
				      const Social__ComposeReq *in, Social__Empty_Closure closure,
				      void *request)
{
	struct compose *c = social_state(request, sizeof(*c));
	Social__MediaReq *none;

	(void)service, (void)closure;
	if (!in->creator || !in->text || !social_blob_len(in->text)) {
		social_fail(request, LEND_INVALID_ARGUMENT, "a post has a creator and a text");
		return;
	}
	c->request = request;
	c->in = social_copy(request, in);
	if (!c->in->media) {
		none = c->in->media = social_memory(request, sizeof(*none));
		social__media_req__init(none);
	}
	social__post__init(&c->post);
	social__entry__init(&c->entry);
	c->post.req_id = in->req_id;
	c->post.post_type = in->post_type;
	c->post.timestamp = social_now_ms();
	social_on_fail(request, undo_compose, c);
	call_parts(c);
}

ProtobufCService *social_compose_post(void)
{
	static Social__ComposePostService_Service service =
	    SOCIAL__COMPOSE_POST_SERVICE__INIT(compose_post_);

	return &service.base;
}
