/* gateway_timeline - reading timelines at the gateway.
 * Layer: apps. Threads: the endpoint's. */
#include "apps/social/http_gateway.h"

/* A timeline that is read. */
struct reading {
	struct gate *g;
	enum social_role role;
};

static void got_posts(const Social__Posts *posts, void *reading)
{
	struct reading *r = reading;

	if (social_ended(r->g->request, r->role, posts))
		gate_reply_posts(r->g, posts);
}

typedef void read_timeline_fn(ProtobufCService *, const Social__Range *, Social__Posts_Closure,
			      void *);

/* Calls a timeline's service for the user and the range of the request. */
static void read_timeline(struct gate *g, enum social_role role, read_timeline_fn *read)
{
	struct reading *r = social_state(g->request, sizeof(*r));
	Social__Range range = SOCIAL__RANGE__INIT;
	int64_t start, stop;

	*r = (struct reading){g, role};
	range.user_id = g->login.user_id;
	if ((!g->by_token && !gate_number(g, "user_id", 0, INT64_MAX, &range.user_id)) ||
	    !gate_number(g, "start", 0, INT32_MAX, &start) ||
	    !gate_number(g, "stop", 0, INT32_MAX, &stop))
		return; /* 400 was answered */
	range.start = (int32_t)start;
	range.stop = (int32_t)stop;
	read(social_call(g->request, role), &range, got_posts, r);
}

void gate_read_home(struct gate *g)
{
	read_timeline(g, SOCIAL_HOME_TIMELINE, social__home_timeline_service__read_home_timeline);
}

void gate_read_user(struct gate *g)
{
	read_timeline(g, SOCIAL_USER_TIMELINE, social__user_timeline_service__read_user_timeline);
}
