/* social_graph - the service of the graph: lists of followers and followees.
 * Layer: apps. Threads: the endpoint's. */
#include "apps/social/social.h"
#include "apps/social/social_store.h"

static struct store *store;

static void end_write(const struct store_result *result, void *request)
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
		  (struct store_bytes){"", 0}, true, end_write, request);
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

/* A change of an edge: of the follower's list and of the followee's list, in parallel. */
struct edge {
	void *request;
	int64_t user, followee;
	bool follow;
};

static void change_edge(struct edge *e)
{
	const char *lists[] = {social_key(e->request, "g:%lld", (long long)e->user),
			       social_key(e->request, "f:%lld", (long long)e->followee)};
	int64_t member[] = {e->followee, e->user}, now = social_now_ms();

	social_begin(e->request);
	for (unsigned i = 0; i < 2; i++) {
		social_begin(e->request);
		if (e->follow)
			store_push(store, &lists[i], 1, member[i], now, end_write, e->request);
		else
			store_pull(store, lists[i], member[i], end_write, e->request);
	}
	end_write(&(struct store_result){.status = LEND_OK}, e->request);
}

/* Leaves an edge that exists unchanged. */
static void check_edge(const struct store_result *result, void *state)
{
	struct edge *e = state;
	bool has = false;

	for (size_t i = 0; i < result->n; i++)
		has |= result->member[i] == e->followee;
	if (!social_ended_with(e->request, result->status, "the graph cannot be read"))
		return;
	if (has == e->follow)
		social_answer_empty(e->request);
	else
		change_edge(e);
}

static void start_edge(struct edge *e)
{
	social_begin(e->request);
	store_range(store, social_key(e->request, "g:%lld", (long long)e->user), 0, STORE_ALL,
		    STORE_OLDEST, check_edge, e);
}

static struct edge *edge_of(void *request, const Social__Edge *in, bool follow)
{
	struct edge *e = social_state(request, sizeof(*e));

	*e = (struct edge){request, in->user_id, in->followee_id, follow};
	return e;
}

static void social_graph_follow(Social__SocialGraphService_Service *service, const Social__Edge *in,
				Social__Empty_Closure closure, void *request)
{
	(void)service, (void)closure;
	start_edge(edge_of(request, in, true));
}

static void social_graph_unfollow(Social__SocialGraphService_Service *service,
				  const Social__Edge *in, Social__Empty_Closure closure,
				  void *request)
{
	(void)service, (void)closure;
	start_edge(edge_of(request, in, false));
}

static void got_user(const Social__Id *reply, void *state)
{
	struct edge *e = state;

	e->user = reply ? reply->id : 0;
	if (social_ended(e->request, SOCIAL_USER, reply))
		start_edge(e);
}

static void got_followee(const Social__Id *reply, void *state)
{
	struct edge *e = state;

	e->followee = reply ? reply->id : 0;
	if (social_ended(e->request, SOCIAL_USER, reply))
		start_edge(e);
}

/* Looks both users up in parallel. */
static void find_users(struct edge *e, const Social__Edge *in)
{
	Social__User user = SOCIAL__USER__INIT, followee = SOCIAL__USER__INIT;

	user.username = in->user_name;
	followee.username = in->followee_name;
	social_begin(e->request);
	social__user_service__get_user_id(social_call(e->request, SOCIAL_USER), &user, got_user, e);
	social__user_service__get_user_id(social_call(e->request, SOCIAL_USER), &followee,
					  got_followee, e);
	if (social_ended_with(e->request, LEND_OK, ""))
		start_edge(e);
}

static void social_graph_follow_with_username(Social__SocialGraphService_Service *service,
					      const Social__Edge *in, Social__Empty_Closure closure,
					      void *request)
{
	(void)service, (void)closure;
	find_users(edge_of(request, in, true), in);
}

static void social_graph_unfollow_with_username(Social__SocialGraphService_Service *service,
						const Social__Edge *in,
						Social__Empty_Closure closure, void *request)
{
	(void)service, (void)closure;
	find_users(edge_of(request, in, false), in);
}

ProtobufCService *social_social_graph(void)
{
	static Social__SocialGraphService_Service service =
	    SOCIAL__SOCIAL_GRAPH_SERVICE__INIT(social_graph_);

	store = store_open("social-graph");
	return &service.base;
}
