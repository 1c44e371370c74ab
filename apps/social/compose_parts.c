/* compose_parts - see compose_parts.h. */
#include "apps/social/compose_parts.h"

#include "apps/social/social.h"

struct parts {
	void *request;
	Social__Post *post;
	social_next_fn *next;
	void *state;
};

static void got_text(const Social__TextReply *reply, void *state)
{
	struct parts *p = state;
	Social__TextReply *text = social_copy(p->request, reply);

	if (text) {
		p->post->text = text->text;
		p->post->n_user_mentions = text->n_user_mentions;
		p->post->user_mentions = text->user_mentions;
		p->post->n_urls = text->n_urls;
		p->post->urls = text->urls;
	}
	if (social_ended(p->request, SOCIAL_TEXT, reply))
		p->next(p->state);
}

static void got_creator(const Social__User *reply, void *state)
{
	struct parts *p = state;

	p->post->creator = social_copy(p->request, reply);
	if (social_ended(p->request, SOCIAL_USER, reply))
		p->next(p->state);
}

static void got_media(const Social__MediaList *reply, void *state)
{
	struct parts *p = state;
	Social__MediaList *list = social_copy(p->request, reply);

	if (list) {
		p->post->n_media = list->n_media;
		p->post->media = list->media;
	}
	if (social_ended(p->request, SOCIAL_MEDIA, reply))
		p->next(p->state);
}

static void got_id(const Social__Id *reply, void *state)
{
	struct parts *p = state;

	p->post->post_id = reply ? reply->id : 0;
	if (social_ended(p->request, SOCIAL_UNIQUE_ID, reply))
		p->next(p->state);
}

void compose_parts(void *request, const Social__ComposeReq *in, Social__Post *post,
		   social_next_fn *next, void *state)
{
	struct parts *p = social_memory(request, sizeof(*p));
	Social__TextReq text = SOCIAL__TEXT_REQ__INIT;
	Social__MediaReq media = *in->media;
	Social__UniqueIdReq id = SOCIAL__UNIQUE_ID_REQ__INIT;

	*p = (struct parts){request, post, next, state};
	text.text = in->text;
	media.n_bodies = social.embed ? 0 : media.n_bodies;
	id.post_type = in->post_type;
	social_begin(request);
	social__text_service__compose_text(social_call(request, SOCIAL_TEXT), &text, got_text, p);
	social__user_service__compose_creator_with_user_id(social_call(request, SOCIAL_USER),
							   in->creator, got_creator, p);
	social__media_service__compose_media(social_call(request, SOCIAL_MEDIA), &media, got_media,
					     p);
	social__unique_id_service__compose_unique_id(social_call(request, SOCIAL_UNIQUE_ID), &id,
						     got_id, p);
	if (social_ended_with(request, LEND_OK, ""))
		next(state);
}
