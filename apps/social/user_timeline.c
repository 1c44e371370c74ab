/* user_timeline - the service of a user's own posts, newest first.
 * Layer: apps. Threads: the endpoint's. */
#include "apps/social/social.h"
#include "apps/social/social_store.h"
#include "apps/social/timeline.h"

static struct store *store;

static void end_push(const struct store_result *result, void *request)
{
	if (social_ended_with(request, result->status, "the timeline cannot be written"))
		social_answer_empty(request);
}

static void user_timeline_write_user_timeline(Social__UserTimelineService_Service *service,
					      const Social__Entry *in,
					      Social__Empty_Closure closure, void *request)
{
	const char *key = social_key(request, "u:%lld", (long long)in->user_id);

	(void)service, (void)closure;
	social_begin(request);
	store_push(store, &key, 1, in->post_id, in->timestamp, end_push, request);
}

static void user_timeline_read_user_timeline(Social__UserTimelineService_Service *service,
					     const Social__Range *in, Social__Posts_Closure closure,
					     void *request)
{
	(void)service, (void)closure;
	timeline_read(request, store, 'u', in);
}

ProtobufCService *social_user_timeline(void)
{
	static Social__UserTimelineService_Service service =
	    SOCIAL__USER_TIMELINE_SERVICE__INIT(user_timeline_);

	store = store_open("user-timeline");
	return &service.base;
}
