/* home_timeline - the service of the posts that a user sees: of those followed, and with mentions.
 * Layer: apps. Threads: the endpoint's. */
#include "apps/social/social.h"
#include "apps/social/social_store.h"
#include "apps/social/timeline.h"

static struct store *store;

struct home_write {
	void *request;
	Social__Entry *entry;
};

static void end_push(const struct store_result *result, void *request)
{
	if (social_ended_with(request, result->status, "timelines cannot be written"))
		social_answer_empty(request);
}

static bool has_follower(const Social__Ids *followers, int64_t id)
{
	for (size_t i = 0; i < followers->n_ids; i++)
		if (followers->ids[i] == id)
			return true;
	return false;
}

/* Adds the post to the timelines of followers and mentioned users, each once. */
static void got_followers(const Social__Ids *reply, void *state)
{
	struct home_write *w = state;
	const Social__Entry *e = w->entry;
	size_t n = 0;
	const char **keys;

	if (!social_ended(w->request, SOCIAL_SOCIAL_GRAPH, reply))
		return;
	keys = social_memory(w->request, (reply->n_ids + e->n_user_mentions_id) * sizeof(*keys));
	for (size_t i = 0; i < reply->n_ids; i++)
		keys[n++] = social_key(w->request, "h:%lld", (long long)reply->ids[i]);
	for (size_t i = 0; i < e->n_user_mentions_id; i++)
		if (!has_follower(reply, e->user_mentions_id[i]))
			keys[n++] =
			    social_key(w->request, "h:%lld", (long long)e->user_mentions_id[i]);
	social_begin(w->request);
	store_push(store, keys, n, e->post_id, e->timestamp, end_push, w->request);
}

static void home_timeline_write_home_timeline(Social__HomeTimelineService_Service *service,
					      const Social__Entry *in,
					      Social__Empty_Closure closure, void *request)
{
	struct home_write *w = social_state(request, sizeof(*w));
	Social__Id id = SOCIAL__ID__INIT;

	(void)service, (void)closure;
	w->request = request;
	w->entry = social_copy(request, in);
	id.id = in->user_id;
	social__social_graph_service__get_followers(social_call(request, SOCIAL_SOCIAL_GRAPH), &id,
						    got_followers, w);
}

static void home_timeline_read_home_timeline(Social__HomeTimelineService_Service *service,
					     const Social__Range *in, Social__Posts_Closure closure,
					     void *request)
{
	(void)service, (void)closure;
	timeline_read(request, store, 'h', in);
}

ProtobufCService *social_home_timeline(void)
{
	static Social__HomeTimelineService_Service service =
	    SOCIAL__HOME_TIMELINE_SERVICE__INIT(home_timeline_);

	store = store_open("home-timeline");
	return &service.base;
}
