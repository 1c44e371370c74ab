/* graph_edge - see graph_edge.h. */
#include "apps/social/graph_edge.h"

#include "apps/social/social.h"

/* A change of an edge: of the follower's list and of the followee's list, in parallel. */
struct edge {
	void *request;
	struct store *store;
	int64_t user, followee;
	bool follow;
};

static void end_write(const struct store_result *result, void *request)
{
	if (social_ended_with(request,
			      result->status == LEND_ALREADY_EXISTS ? LEND_OK : result->status,
			      "the graph cannot be written"))
		social_answer_empty(request);
}

static void change_edge(struct edge *e)
{
	const char *lists[] = {social_key(e->request, "g:%lld", (long long)e->user),
			       social_key(e->request, "f:%lld", (long long)e->followee)};
	int64_t member[] = {e->followee, e->user}, now = social_now_ms();

	social_begin(e->request);
	for (unsigned i = 0; i < 2; i++) {
		social_begin(e->request);
		if (e->follow)
			store_push(e->store, &lists[i], 1, member[i], now, end_write, e->request);
		else
			store_pull(e->store, lists[i], member[i], end_write, e->request);
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
	store_range(e->store, social_key(e->request, "g:%lld", (long long)e->user), 0, STORE_ALL,
		    STORE_OLDEST, check_edge, e);
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

static struct edge *edge_of(void *request, struct store *store, const Social__Edge *in, bool follow)
{
	struct edge *e = social_state(request, sizeof(*e));

	*e = (struct edge){request, store, in->user_id, in->followee_id, follow};
	return e;
}

void graph_edge_change(void *request, struct store *store, const Social__Edge *in, bool follow)
{
	start_edge(edge_of(request, store, in, follow));
}

void graph_edge_change_named(void *request, struct store *store, const Social__Edge *in,
			     bool follow)
{
	find_users(edge_of(request, store, in, follow), in);
}
