/* social_graph - the service of the graph: lists of followers and followees.
 * Layer: apps. Threads: the endpoint's. */
#include "apps/social/graph_edge.h"
#include "apps/social/social.h"
#include "apps/social/social_store.h"

static struct store *store;

static void end_insert(const struct store_result *result, void *request)
{
	if (social_ended_with(request,
			      result->status == LEND_ALREADY_EXISTS ? LEND_OK : result->status,
			      "the graph cannot be written"))
		social_answer_empty(request);
}

static void social_graph_insert_user(Social__SocialGraphService_Service *service,
				     const Social__Id *in, Social__Empty_Closure closure,
				     void *request)
{
	(void)service, (void)closure;
	social_begin(request);
	store_put(store, social_key(request, "s:%lld", (long long)in->id),
		  (struct store_bytes){"", 0}, true, end_insert, request);
}

/* Answers with the members of a list. */
static void answer_ids(const struct store_result *result, void *request)
{
	Social__Ids reply = SOCIAL__IDS__INIT;

	reply.n_ids = result->n;
	reply.ids = (int64_t *)(uintptr_t)result->member;
	if (result->status == LEND_OK)
		social_answer(request, &reply.base);
	else
		social_fail(request, result->status, "the graph cannot be read");
}

static void social_graph_get_followers(Social__SocialGraphService_Service *service,
				       const Social__Id *in, Social__Ids_Closure closure,
				       void *request)
{
	(void)service, (void)closure;
	store_range(store, social_key(request, "f:%lld", (long long)in->id), 0, STORE_ALL,
		    STORE_OLDEST, answer_ids, request);
}

/* Answers with no ids for a user that exists. */
static void found_user(const struct store_result *result, void *request)
{
	if (result->status == LEND_OK && !result->value[0].data)
		social_fail(request, LEND_NOT_FOUND, "no such user");
	else
		answer_ids(&(struct store_result){.status = result->status}, request);
}

struct followees {
	void *request;
	const char *user_key;
};

static void got_followees(const struct store_result *result, void *state)
{
	struct followees *f = state;

	if (result->status == LEND_OK && !result->n)
		store_get(store, &f->user_key, 1, found_user, f->request);
	else
		answer_ids(result, f->request);
}

static void social_graph_get_followees(Social__SocialGraphService_Service *service,
				       const Social__Id *in, Social__Ids_Closure closure,
				       void *request)
{
	struct followees *f = social_state(request, sizeof(*f));

	(void)service, (void)closure;
	f->request = request;
	f->user_key = social_key(request, "s:%lld", (long long)in->id);
	store_range(store, social_key(request, "g:%lld", (long long)in->id), 0, STORE_ALL,
		    STORE_OLDEST, got_followees, f);
}

static void social_graph_follow(Social__SocialGraphService_Service *service, const Social__Edge *in,
				Social__Empty_Closure closure, void *request)
{
	(void)service, (void)closure;
	graph_edge_change(request, store, in, true);
}

static void social_graph_unfollow(Social__SocialGraphService_Service *service,
				  const Social__Edge *in, Social__Empty_Closure closure,
				  void *request)
{
	(void)service, (void)closure;
	graph_edge_change(request, store, in, false);
}

static void social_graph_follow_with_username(Social__SocialGraphService_Service *service,
					      const Social__Edge *in, Social__Empty_Closure closure,
					      void *request)
{
	(void)service, (void)closure;
	graph_edge_change_named(request, store, in, true);
}

static void social_graph_unfollow_with_username(Social__SocialGraphService_Service *service,
						const Social__Edge *in,
						Social__Empty_Closure closure, void *request)
{
	(void)service, (void)closure;
	graph_edge_change_named(request, store, in, false);
}

ProtobufCService *social_social_graph(void)
{
	static Social__SocialGraphService_Service service =
	    SOCIAL__SOCIAL_GRAPH_SERVICE__INIT(social_graph_);

	store = store_open("social-graph");
	return &service.base;
}
