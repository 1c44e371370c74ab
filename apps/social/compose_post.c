/* compose_post - the service that makes a post: its parts, then its storage, then the timelines,
 * one after the other. A timeline never has a post that is not stored. Layer: apps. Threads: the
 * endpoint's. */
#include "apps/social/compose_parts.h"
#include "apps/social/request_blob.h"
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
	if (c->post.text)
		social_blob_give_back(c->post.text);
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
static void store_post(void *state)
{
	struct compose *c = state;
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
	compose_parts(request, c->in, &c->post, store_post, c);
}

ProtobufCService *social_compose_post(void)
{
	static Social__ComposePostService_Service service =
	    SOCIAL__COMPOSE_POST_SERVICE__INIT(compose_post_);

	return &service.base;
}
