/* gateway_user - accounts and the graph of the gateway.
 * Layer: apps. Threads: the endpoint's. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "apps/social/http_gateway.h"
#include "lend/alloc.h"

static void end_register(const Social__Empty *reply, void *gate)
{
	struct gate *g = gate;

	if (social_ended(g->request, SOCIAL_USER, reply))
		gate_reply(g, 200, "Success!");
}

/* Reads the fields of an account. */
static bool read_account(struct gate *g, Social__Account *account)
{
	const char *text[4];

	social__account__init(account);
	if (!gate_text(g, "first_name", &text[0]) || !gate_text(g, "last_name", &text[1]) ||
	    !gate_text(g, "username", &text[2]) || !gate_text(g, "password", &text[3]))
		return false;
	account->first_name = (char *)(uintptr_t)text[0];
	account->last_name = (char *)(uintptr_t)text[1];
	account->username = (char *)(uintptr_t)text[2];
	account->password = (char *)(uintptr_t)text[3];
	return true;
}

void gate_register_with_id(struct gate *g)
{
	Social__Account account;

	if (read_account(g, &account) && gate_number(g, "user_id", 0, INT64_MAX, &account.user_id))
		social__user_service__register_user_with_id(social_call(g->request, SOCIAL_USER),
							    &account, end_register, g);
}

/* Answers a browser: the next page. */
static void redirect_to(struct gate *g, const char *page)
{
	http_header(g->http, "Location", page);
	gate_reply(g, 302, "");
}

static void end_signup(const Social__Empty *reply, void *gate)
{
	struct gate *g = gate;

	if (social_ended(g->request, SOCIAL_USER, reply))
		redirect_to(g, "../../index.html");
}

void gate_register(struct gate *g)
{
	Social__Account account;

	if (read_account(g, &account))
		social__user_service__register_user(social_call(g->request, SOCIAL_USER), &account,
						    end_signup, g);
}

static void end_login(const Social__Token *reply, void *gate)
{
	struct gate *g = gate;
	char cookie[SOCIAL_TOKEN_MAX + 64];

	if (!social_ended(g->request, SOCIAL_USER, reply))
		return;
	(void)snprintf(cookie, sizeof(cookie), "login_token=%s; Path=/; Max-Age=86400",
		       reply->token);
	http_header(g->http, "Set-Cookie", cookie);
	redirect_to(g, "../../main.html");
}

void gate_login(struct gate *g)
{
	Social__Account account = SOCIAL__ACCOUNT__INIT;
	const char *text[2];

	if (!gate_text(g, "username", &text[0]) || !gate_text(g, "password", &text[1]))
		return;
	account.username = (char *)(uintptr_t)text[0];
	account.password = (char *)(uintptr_t)text[1];
	social__user_service__login(social_call(g->request, SOCIAL_USER), &account, end_login, g);
}

static void end_edge(const Social__Empty *reply, void *gate)
{
	struct gate *g = gate;

	if (!social_ended(g->request, SOCIAL_SOCIAL_GRAPH, reply))
		return;
	if (strncmp(http_path(g->http), "/api/", 5) != 0)
		gate_reply(g, 200, "Success!");
	else
		redirect_to(g, "../../contact.html");
}

/* Changes an edge that two ids name, else two names. */
static void change_edge(struct gate *g, bool follow)
{
	Social__Edge edge = SOCIAL__EDGE__INIT;
	bool by_id = http_field(g->http, "user_id") && http_field(g->http, "followee_id");
	const char *text[2];
	ProtobufCService *graph;

	if (by_id && (!gate_number(g, "user_id", 0, INT64_MAX, &edge.user_id) ||
		      !gate_number(g, "followee_id", 0, INT64_MAX, &edge.followee_id)))
		return;
	if (!by_id &&
	    (!gate_text(g, "user_name", &text[0]) || !gate_text(g, "followee_name", &text[1])))
		return;
	if (!by_id) {
		edge.user_name = (char *)(uintptr_t)text[0];
		edge.followee_name = (char *)(uintptr_t)text[1];
	}
	graph = social_call(g->request, SOCIAL_SOCIAL_GRAPH);
	if (by_id && follow)
		social__social_graph_service__follow(graph, &edge, end_edge, g);
	else if (by_id)
		social__social_graph_service__unfollow(graph, &edge, end_edge, g);
	else if (follow)
		social__social_graph_service__follow_with_username(graph, &edge, end_edge, g);
	else
		social__social_graph_service__unfollow_with_username(graph, &edge, end_edge, g);
}

void gate_follow(struct gate *g)
{
	change_edge(g, true);
}

void gate_unfollow(struct gate *g)
{
	change_edge(g, false);
}

/* Answers with ids as a JSON array of objects with one member. */
static void reply_ids(struct gate *g, const Social__Ids *ids, const char *name)
{
	size_t cap = 4 + ids->n_ids * 64, len = 0;
	char *json;

	json = lend_malloc(cap);
	if (!json) {
		social_fail(g->request, LEND_RESOURCE_EXHAUSTED, "no memory");
		return;
	}
	for (size_t i = 0; i < ids->n_ids; i++)
		len += (size_t)snprintf(json + len, cap - len, "%s{\"%s\":\"%" PRId64 "\"}",
					i ? "," : "[", name, ids->ids[i]);
	len += (size_t)snprintf(json + len, cap - len, ids->n_ids ? "]\n" : "[]\n");
	http_reply(g->http, 200, "application/json; charset=utf-8", json, len, false);
	gate_end(g);
}

static void got_followers(const Social__Ids *reply, void *gate)
{
	struct gate *g = gate;

	if (social_ended(g->request, SOCIAL_SOCIAL_GRAPH, reply))
		reply_ids(g, reply, "follower_id");
}

static void got_followees(const Social__Ids *reply, void *gate)
{
	struct gate *g = gate;

	if (social_ended(g->request, SOCIAL_SOCIAL_GRAPH, reply))
		reply_ids(g, reply, "followee_id");
}

void gate_followers(struct gate *g)
{
	Social__Id id = SOCIAL__ID__INIT;

	id.id = g->login.user_id;
	social__social_graph_service__get_followers(social_call(g->request, SOCIAL_SOCIAL_GRAPH),
						    &id, got_followers, g);
}

void gate_followees(struct gate *g)
{
	Social__Id id = SOCIAL__ID__INIT;

	id.id = g->login.user_id;
	social__social_graph_service__get_followees(social_call(g->request, SOCIAL_SOCIAL_GRAPH),
						    &id, got_followees, g);
}
