/* tier - see tier.h. */
#include "apps/social/tier.h"

#include <stdlib.h>

#include "apps/common/options.h"
#include "lend/metadata.h"

const struct tier_method tier_methods[TIER_METHODS] = {
    {"/social.HomeTimelineService/ReadHomeTimeline", SOCIAL_HOME_TIMELINE},
    {"/social.UserTimelineService/ReadUserTimeline", SOCIAL_USER_TIMELINE},
    {"/social.ComposePostService/ComposePost", SOCIAL_COMPOSE_POST},
};

/* A method as a tier serves it. */
struct passing {
	const struct tier_method *method;
	enum social_role tier, next;
};
/* A call that is passed on. */
struct passed {
	struct lend_call call; /* first */
	lend_request request;
	enum social_role tier;
	lend_ns began;
};

static void refuse_call(enum social_role tier, lend_request request)
{
	social.counters[tier].errors++;
	(void)lend_reply_why(social.ep, request, LEND_UNAVAILABLE, "the next tier");
}

/* Passes the reply back: its bytes are neither read nor copied. */
static void end_call(struct lend_call *call)
{
	struct passed *p = (struct passed *)call;

	social.counters[p->tier].call_ns += lend_now(social.ep) - p->began;
	lend_buf_give(social.ep, call->request);
	if (call->status == LEND_OK) {
		(void)lend_reply(social.ep, p->request, LEND_OK, call->reply);
	} else {
		social.counters[p->tier].errors++;
		lend_buf_give(social.ep, call->reply);
		(void)lend_reply_why(social.ep, p->request, call->status,
				     lend_call_why(social.ep, call));
	}
	free(p);
}

static void pass_call(lend_request request, const struct lend_buf *bytes, void *arg)
{
	const struct passing *passing = arg;
	struct lend_call_head head = {.name = passing->method->name};
	lend_session session = social_session(passing->next);
	struct passed *p = session.id ? calloc(1, sizeof(*p)) : NULL;

	(void)bytes;
	social.counters[passing->tier].requests++;
	if (!p) {
		refuse_call(passing->tier, request);
		return;
	}
	p->tier = passing->tier;
	p->request = request;
	p->began = lend_now(social.ep);
	p->call = (struct lend_call){.head = &head,
				     .queue = 1,
				     .parent = request,
				     .request = lend_request_take(social.ep, request),
				     .done = end_call};
	social.counters[passing->tier].calls++;
	if (p->call.request && lend_call_start(social.ep, session, &p->call) == 0)
		return;
	lend_buf_give(social.ep, p->call.request);
	free(p);
	refuse_call(passing->tier, request);
}

void tier_serve(enum social_role role)
{
	static struct passing all[2][TIER_METHODS];

	for (unsigned i = 0; i < TIER_METHODS; i++) {
		struct passing *p = &all[role == SOCIAL_WEB][i];

		*p = (struct passing){&tier_methods[i], role,
				      role == SOCIAL_WEB ? tier_methods[i].role : SOCIAL_WEB};
		if (lend_serve_name(social.ep, p->method->name, pass_call, p, LEND_CHAIN) < 0)
			app_die("%s", lend_why());
	}
}
