/* gateway_timeline - reading at the gateway: bytes behind references come from the memory node, or
 * if it has lost them from post-storage.
 * Layer: apps. Threads: the endpoint's. */
#include <string.h>

#include "apps/social/http_gateway.h"
#include "apps/social/timeline_json.h"

enum { TEXT_MAX = 16 << 20 };

/* A text that is read. */
struct fetch {
	struct social_blob_op op; /* first */
	struct reading *of;
	Social__Post *post;
	Social__Blob blob; /* the reference */
};
struct reading {
	struct gate *g;
	enum social_role role;
	Social__Posts *posts;
};

static void reply_posts(struct gate *g, const Social__Posts *posts)
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

static void got_whole_post(const Social__Post *reply, void *fetch)
{
	struct fetch *f = fetch;

	if (reply && reply->text)
		f->post->text = social_copy(f->of->g->request, reply->text);
	if (social_ended_with(f->of->g->request, LEND_OK, ""))
		reply_posts(f->of->g, f->of->posts);
}

/* Asks post-storage for the bytes that the node does not have. */
static void end_get(struct social_blob_op *op)
{
	struct fetch *f = (struct fetch *)op;
	void *request = f->of->g->request;
	Social__Id id = SOCIAL__ID__INIT;

	social.counters[SOCIAL_GATEWAY].blob_rx_bytes += social_blob_len(&f->blob);
	if (op->op.status == LEND_OK) {
		social_blob_set(f->post->text, op->arg, social_blob_len(&f->blob));
	} else {
		social.counters[SOCIAL_GATEWAY].lost_refs++;
		social__blob__init(f->post->text);
		id.id = f->post->post_id;
		social__post_storage_service__read_post(social_call(request, SOCIAL_POST_STORAGE),
							&id, got_whole_post, f);
	}
	if (social_ended_with(request, LEND_OK, ""))
		reply_posts(f->of->g, f->of->posts);
}

static void fetch_text(struct reading *r, Social__Post *post)
{
	struct fetch *f = social_state(r->g->request, sizeof(*f));
	uint64_t len = social_blob_len(post->text);

	f->of = r;
	f->post = post;
	f->blob = *post->text;
	f->op.blob = &f->blob;
	f->op.done = end_get;
	f->op.arg = social_memory(r->g->request, len);
	social_begin(r->g->request);
	social_blob_get(social.mem, &f->op, f->op.arg);
}

static bool has_reference(const Social__Post *post)
{
	return post->text && social_blob_is_ref(post->text) &&
	       social_blob_len(post->text) <= TEXT_MAX;
}

static void got_posts(const Social__Posts *reply, void *reading)
{
	struct reading *r = reading;
	void *request = r->g->request;
	bool any = false;

	if (!social_ended(request, r->role, reply))
		return;
	for (size_t i = 0; i < reply->n_posts; i++)
		any |= has_reference(reply->posts[i]);
	if (!any) {
		reply_posts(r->g, reply);
		return;
	}
	r->posts = social_copy(request, reply);
	social_begin(request);
	for (size_t i = 0; i < r->posts->n_posts; i++)
		if (has_reference(r->posts->posts[i]))
			fetch_text(r, r->posts->posts[i]);
	if (social_ended_with(request, LEND_OK, ""))
		reply_posts(r->g, r->posts);
}

/* Reads user and range. Returns NULL: 400 was answered. */
static struct reading *read_range(struct gate *g, enum social_role role, Social__Range *range)
{
	struct reading *r = social_state(g->request, sizeof(*r));
	int64_t start, stop;

	*r = (struct reading){.g = g, .role = role};
	social__range__init(range);
	range->user_id = g->login.user_id;
	if ((!g->by_token && !gate_number(g, "user_id", 0, INT64_MAX, &range->user_id)) ||
	    !gate_number(g, "start", 0, INT32_MAX, &start) ||
	    !gate_number(g, "stop", 0, INT32_MAX, &stop))
		return NULL;
	range->start = (int32_t)start;
	range->stop = (int32_t)stop;
	return r;
}

void gate_read_home(struct gate *g)
{
	Social__Range range;
	struct reading *r = read_range(g, SOCIAL_HOME_TIMELINE, &range);

	if (r)
		social__home_timeline_service__read_home_timeline(
		    social_call(g->request, SOCIAL_HOME_TIMELINE), &range, got_posts, r);
}

void gate_read_user(struct gate *g)
{
	Social__Range range;
	struct reading *r = read_range(g, SOCIAL_USER_TIMELINE, &range);

	if (r)
		social__user_timeline_service__read_user_timeline(
		    social_call(g->request, SOCIAL_USER_TIMELINE), &range, got_posts, r);
}
