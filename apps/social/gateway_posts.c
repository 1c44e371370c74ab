/* gateway_posts - a reply of posts: texts behind references come from the memory node, or, if it
 * has lost them, from post-storage.
 * Layer: apps. Threads: the endpoint's. */
#include <string.h>

#include "apps/social/http_gateway.h"
#include "apps/social/timeline_json.h"

enum { TEXT_MAX = 16 << 20 };

/* Posts that wait for texts. part, post: those with their text on the memory node. */
struct reading {
	struct lend_op op; /* first */
	struct gate *g;
	Social__Posts *posts;
	size_t n;
	struct lend_get_part *part;
	Social__Post **post; /* of each part */
};
/* A post that post-storage is asked for. */
struct whole_post {
	struct reading *of;
	Social__Post *post;
};

static void reply_json(struct gate *g, const Social__Posts *posts)
{
	size_t len;
	char *json = timeline_json(posts, &len);

	if (!json) {
		social_fail(g->request, LEND_RESOURCE_EXHAUSTED, "no memory");
		return;
	}
	http_reply(g->http, 200, "application/json; charset=utf-8", json, len, false);
	gate_end(g);
}

/* Counts a text as read. Replies when it was the last one. */
static void end_read(const struct reading *r)
{
	if (social_ended_with(r->g->request, LEND_OK, ""))
		reply_json(r->g, r->posts);
}

static void got_whole_post(const Social__Post *reply, void *whole)
{
	struct whole_post *w = whole;

	if (reply && reply->text)
		w->post->text = social_copy(w->of->g->request, reply->text);
	end_read(w->of);
}

/* Asks post-storage for the bytes that the node does not have. */
static void read_whole_post(struct reading *r, Social__Post *post)
{
	struct whole_post *w = social_memory(r->g->request, sizeof(*w));
	Social__Id id = SOCIAL__ID__INIT;

	*w = (struct whole_post){r, post};
	social.counters[SOCIAL_GATEWAY].lost_refs++;
	social__blob__init(post->text);
	id.id = post->post_id;
	social__post_storage_service__read_post(social_call(r->g->request, SOCIAL_POST_STORAGE),
						&id, got_whole_post, w);
}

static void end_gets(struct lend_op *op)
{
	struct reading *r = (struct reading *)op;

	for (size_t i = 0; i < r->n; i++) {
		const struct lend_get_part *part = &r->part[i];

		social.counters[SOCIAL_GATEWAY].blob_rx_bytes += part->len;
		if (part->status == LEND_OK)
			social_blob_set(r->post[i]->text, part->into, part->len);
		else
			read_whole_post(r, r->post[i]);
	}
	end_read(r);
}

static bool has_reference(const Social__Post *post)
{
	return post->text && social_blob_is_ref(post->text) &&
	       social_blob_len(post->text) <= TEXT_MAX;
}

/* Reads the texts that are on the memory node, all at once. */
static void get_texts(struct reading *r)
{
	void *request = r->g->request;

	r->part = social_memory(request, r->posts->n_posts * sizeof(*r->part));
	r->post = social_memory(request, r->posts->n_posts * sizeof(Social__Post *));
	for (size_t i = 0; i < r->posts->n_posts; i++) {
		Social__Post *post = r->posts->posts[i];

		if (!has_reference(post))
			continue;
		r->part[r->n] = social_blob_part(
		    post->text, social_memory(request, social_blob_len(post->text)));
		r->part[r->n].status = LEND_UNAVAILABLE;
		r->post[r->n++] = post;
	}
	r->op.done = end_gets;
	social_begin(request);
	if (!social.mem || lend_get_many(social.mem, r->part, (int)r->n, &r->op) < 0)
		end_gets(&r->op);
}

void gate_reply_posts(struct gate *g, const Social__Posts *posts)
{
	struct reading *r;
	bool any = false;

	for (size_t i = 0; i < posts->n_posts; i++)
		any |= has_reference(posts->posts[i]);
	if (!any) {
		reply_json(g, posts);
		return;
	}
	r = social_memory(g->request, sizeof(*r));
	*r = (struct reading){.g = g, .posts = social_copy(g->request, posts)};
	get_texts(r);
}
